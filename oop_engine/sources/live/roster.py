"""The roster of exporters: an exporter is an address and an observation domain, and a port if several share these.

Behind an address may be more than one process that exports, each with a clock, caches and sequences of its own: routers
behind a translation of addresses, several probes of a host; NetFlow v5 gives all of them domain 0 as a rule. A port
that is new may be another of them, or one that began anew. So it shares what is known of its address and domain (that
it has a say, where its clock agrees; how far its records trail, and the timeouts), and has its own clock and counts
from the first. An exporter of that place that was not heard since is *followed*: it is assumed to have gone on with the
time, so that nothing waits for one that is gone, and nothing is promised beyond its clock. When it is heard again, both
are there.

A sender that can forge a datagram of an address and domain can make up ports as well. Such a port can hold promises
back until it has been silent for `idle`, as a made-up domain can, and cannot step the clock of the real one. Beyond
PORTS at one place within `idle` those that come are one exporter, as all are of one that sends each datagram from
another port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from oop_engine.sources.live.exporters import MANY, Exporter, Rules
from operators.streams.skew import DOUBT

Place: TypeAlias = tuple[bytes, int]
"""An exporter's address (16 bytes) and observation domain."""
Key: TypeAlias = tuple[bytes, int, int]
"""A place and the port of who sends."""

MOST_EXPORTERS: Final = 1024
PORTS: Final = 16
"""Ports of a place that are exporters of their own, at most."""


@attrs.define(eq=False)
class Roster:
    """The known exporters, in the order they were first heard. Cost: O(1) to find, O(known) to make room."""

    rules: Rules
    forgotten: int = attrs.field(init=False, default=0)
    """Exporters that had to make room for others."""
    shared: bool = attrs.field(init=False, default=False)
    """Whether there were ever several exporters at one place."""
    _known: dict[tuple[bytes, int, int | None], Exporter] = attrs.field(init=False, factory=dict)
    _at: dict[Place, list[Exporter]] = attrs.field(init=False, factory=dict)
    _untrusted: dict[tuple[bytes, int, int | None], None] = attrs.field(init=False, factory=dict)
    """Those that have no say yet, the first heard first."""

    def __iter__(self) -> Iterator[Exporter]:
        return iter(self._known.values())

    def at(self, place: Place) -> Sequence[Exporter]:
        """Return who is known of an address and domain."""
        return self._at.get(place, ())

    def find(self, key: Key, now: int | None = None) -> Exporter | None:
        """Return the exporter that a port is of, or counts among, as it is `now` if that is given, whoever was silent
        for long before; None for one that is not known.
        """
        found = self._known.get(key)
        if found is None and key[:2] in self._at:
            found = self._known.get((*key[:2], MANY))
            if found is not None and now is not None and found.idle(self.rules, now):
                found = None
            if found is None and (found := self._known.get((*key[:2], None))) is not None and now is not None:
                # It was known before ports were told apart.
                self._untrusted.pop(found.key, None)
                del self._known[found.key]
                found.port = key[2]
                self._enter(found)
        return found

    def add(self, key: Key, ahead: int, now: int) -> Exporter:
        """Make the exporter of a port known that was not, and that was heard with a clock so far `ahead`."""
        place, port = key[:2], key[2]
        if len(self.at(place)) >= PORTS:
            for other in [e for e in self.at(place) if e.idle(self.rules, now)]:
                self._remove(other)
            port = MANY if len(self.at(place)) >= PORTS else port
        if len(self._known) >= MOST_EXPORTERS:
            # Whoever has no say goes first, so that forged ones push out each other.
            gone = next(iter(self._untrusted), None)
            self._remove(self._known[gone] if gone is not None else min(self, key=lambda e: e.last))
        made = Exporter(*place, port, first=now, last=now)
        if others := self.at(place):
            self.shared = True
            before = max(others, key=lambda e: e.last)
            made.trailing = dict(before.trailing)
            made.active, made.inactive = before.active, before.inactive
            if abs(ahead + before.skew) <= DOUBT:
                made.datagrams = before.datagrams
        self._at.setdefault(place, []).append(made)
        self._enter(made)
        self._mark(place)
        return made

    def _enter(self, exporter: Exporter) -> None:
        self._known[exporter.key] = exporter
        if not exporter.trusted(self.rules):
            self._untrusted[exporter.key] = None

    def _remove(self, exporter: Exporter) -> None:
        del self._known[exporter.key]
        self._untrusted.pop(exporter.key, None)
        place = exporter.key[:2]
        self._at[place].remove(exporter)
        self._mark(place)
        if not self._at[place]:
            del self._at[place]
        self.forgotten += 1

    def _mark(self, place: Place) -> None:
        """Let those of a place know when the newest of them came."""
        newest = max((e.first for e in self._at[place]), default=0)
        for exporter in self._at[place]:
            exporter.newest = newest

    def heard(self, exporter: Exporter) -> None:
        """Note that more came of one, which may have a say now."""
        if exporter.trusted(self.rules):
            self._untrusted.pop(exporter.key, None)

    def trusted(self, now: int) -> list[Exporter]:
        """Return the exporters that decide; those followed and silent for too long only if there is no other."""
        every = [e for e in self if e.trusted(self.rules)]
        return [e for e in every if not e.gone(self.rules, now)] or every

    def restore(self, known: Sequence[Exporter]) -> None:
        """Take up those that were saved."""
        self._known, self._at, self._untrusted = {}, {}, {}
        for exporter in known:
            self._at.setdefault(exporter.key[:2], []).append(exporter)
            self._enter(exporter)
        for place, there in self._at.items():
            self._mark(place)
            self.shared |= len(there) > 1
