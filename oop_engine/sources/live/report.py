"""The report of a collector on its exporters: what came, what was lost and why, and how exact their clocks are."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.flows.channel import port_of, sender_text
from oop_engine.sources.flows.counters import ExporterCounters
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.entries import STREAM
from oop_engine.sources.flows.source import trouble
from oop_engine.sources.holder import Holder
from oop_engine.sources.live.door import Door
from oop_engine.sources.live.exporters import MANY, SECOND, Exporter
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.roster import PORTS
from operators.data.address import format_ip
from operators.streams.skew import DOUBT

_SHOWN: Final = 20
_OFF: Final = 5 * SECOND
"""A clock that is further off is worth a note."""


@attrs.frozen
class ExporterReport:
    """One session of an exporter, with what its address, domain and port are known for; without those, nobody's.

    `skew` is by how much its clock is behind ours, `trails` how far its promise on the first attribute is behind now;
    `last` when it was last heard; `late` how many records were behind a promise, `contradicted` those of them behind
    what was only assumed; `active` and `inactive` are the timeouts that it announced. All times in ns. `state` is
    "live", "new" (not heard often enough to have a say), "idle", "set aside" (its clock is too far off), "moved" (it
    was heard no more since another port of its address and domain came, for too long), "closed" (its connection is
    over), "refused" or "silent" (nothing that could be read). If several ports are one exporter, late records count for
    the busiest of them.
    """

    counters: ExporterCounters
    state: str
    skew: int | None = None
    offset: int = 0
    trails: int | None = None
    last: int | None = None
    late: int = 0
    contradicted: int = 0
    steps: int = 0
    active: int | None = None
    inactive: int | None = None

    @property
    def who(self) -> str:
        """Return its address as text, with the transport of a connection: 192.0.2.1, tcp://192.0.2.1."""
        return sender_text(address_text(self.counters.address), self.counters.channel)


@attrs.frozen(eq=False)
class Report:
    """The present state of a reading, for a report."""

    name: str
    decoder: FlowDecoder
    progress: ExporterProgress
    door: Door | None = None

    def exporters(self, now: int) -> list[ExporterReport]:
        """Return a report of every session."""
        every = self.decoder.exporters()
        find = self.progress.roster.find
        known = [find((c.address or b"", c.domain, c.channel)) for c in every]
        found = [self._one(c, exporter, now) for c, exporter in zip(every, known, strict=True)]
        streams = None if self.door is None else self.door.streams
        if streams is not None:
            there = streams.open
            over = [c.channel >= STREAM and (c.address, c.channel) not in there for c in every]
            found = [attrs.evolve(r, state="closed") if o else r for r, o in zip(found, over, strict=True)]
        told = set[int]()
        for place in sorted(range(len(every)), key=lambda k: -every[k].datagrams):
            if id(known[place]) in told:
                found[place] = attrs.evolve(found[place], late=0, contradicted=0)
            told.add(id(known[place]))
        return found

    def _one(self, counters: ExporterCounters, exporter: Exporter | None, now: int) -> ExporterReport:
        if exporter is None:
            return ExporterReport(counters, "refused" if counters.refused else "silent")
        rules = self.progress.rules
        reached = exporter.reach(self.progress.attributes[0], rules, now)
        state = "live"
        if not exporter.trusted(rules):
            state = "new"
        elif exporter.gone(rules, now):
            state = "moved"
        elif exporter.aside(rules):
            state = "set aside"
        elif exporter.idle(rules, now):
            state = "idle"
        return ExporterReport(
            counters, state, exporter.skew, exporter.offset, None if reached is None else now - reached[0],
            exporter.last, exporter.late, exporter.contradicted, exporter.steps, exporter.active, exporter.inactive,
        )  # fmt: skip

    def holder(self, attribute: str, now: int) -> Holder | None:
        """Say which exporter holds the promise on an attribute back, and what is known of it that may explain that."""
        progress, rules = self.progress, self.progress.rules
        found = progress.holder(attribute, now)
        if found is None:
            heard = any(e.datagrams for e in progress.exporters)
            who = "no exporter has sent enough yet" if heard else "nothing was heard of any exporter"
            return Holder(self.name, None, (who,))
        exporter, bound = found
        facts, silent = list[str](), now - exporter.spoke
        allowed, _ = exporter.allowance(attribute, rules)
        if silent > SECOND:
            facts.append(f"it is silent for {silent / SECOND:.0f} s")
        if abs(exporter.skew) > _OFF:
            way = "behind" if exporter.skew > 0 else "ahead"
            facts.append(f"its clock is {abs(exporter.skew) / SECOND:.0f} s {way}")
        facts.append(f"its records may trail its header by {allowed / SECOND:g} s")
        moves = silent <= SECOND or rules.lull is not None
        if self._over(exporter):
            facts.append("its connection is closed")
        return Holder(
            f"exporter {exporter_text(exporter)}", bound, tuple(facts), exporter.spoke + rules.idle, moves,
            0 if rules.correct else exporter.skew,
        )  # fmt: skip

    def _over(self, exporter: Exporter) -> bool:
        """Return whether an exporter sent over a connection that is closed."""
        streams, channel = None if self.door is None else self.door.streams, exporter.port
        return (
            streams is not None
            and channel is not None
            and channel >= STREAM
            and (exporter.address, channel) not in streams.open
        )

    def facts(self, door: Door) -> list[str]:
        """Say what came."""
        if door.streams is None:
            return [f"{self.name}: {door.received:,} datagrams received, receive buffer of {door.buffer:,} bytes"]
        what = "datagrams and messages" if door.udp else "messages"
        buffer = f", receive buffer of {door.buffer:,} bytes" if door.udp else ""
        accepted = door.streams.accepted
        return [f"{self.name}: {door.received:,} {what} received, {accepted:,} connections accepted{buffer}"]

    def troubles(self, door: Door, wanted: int) -> list[str]:
        """Say what was lost, could not be read, or is wrong with a clock or the receive buffer."""
        found: list[str] = []
        if any(one.buffer < wanted for one in door.udp):
            found.append(
                f"{self.name}: a receive buffer of {wanted:,} bytes was asked for; the system's limit is"
                " net.core.rmem_max (sysctl)"
            )
        if door.dropped:
            found.append(
                f"{self.name}: {door.dropped:,} datagrams dropped by the kernel, as the receive buffer was full"
            )
        if door.streams is not None:
            found += [f"{self.name}: {trouble}" for trouble in door.streams.troubles()]
        told = [line for c in self.decoder.exporters() if (line := trouble(c))]
        told += [line for e in self.progress.exporters if (line := self._clock(e))]
        more = [f"{len(told) - _SHOWN} more notes on exporters"] if len(told) > _SHOWN else []
        return found + told[:_SHOWN] + more

    def _clock(self, exporter: Exporter) -> str | None:
        """Say in one line what is wrong with an exporter's time; None when nothing is."""
        rules, parts = self.progress.rules, list[str]()
        if abs(exporter.skew) > _OFF:
            way = "behind" if exporter.skew > 0 else "ahead"
            seconds = abs(exporter.skew) / SECOND
            amount = f"{seconds:.1f} s" if seconds < 86_400 else f"{seconds / 86_400:.1f} days"
            parts.append(f"its clock is {amount} {way}")
            parts.append("which is corrected" if rules.correct else "correct_clocks corrects that")
        if exporter.aside(rules):
            others = any(e.trusted(rules) and not e.aside(rules) for e in self.progress.exporters)
            parts.append(
                "so it has no part in the promises"
                if others
                else "and no other exporter has a trusted clock, so promises are estimated from arrival times"
            )
        if exporter.timeless:
            parts.append(
                f"{exporter.timeless:,} datagrams whose header has no possible time (set its clock, as by NTP);"
                " promises are estimated from arrival times"
            )
        if exporter.future:
            seconds = rules.future / SECOND
            parts.append(f"{exporter.future:,} records more than {seconds:g} s in the future; their times are left out")
        if exporter.steps:
            parts.append(f"its clock was stepped {exporter.steps} times")
        if exporter.doubted:
            parts.append(
                f"{exporter.doubted:,} datagrams whose header is more than {DOUBT // SECOND} s off its clock;"
                " they moved nothing (delayed on the way, or from another sender at its address)"
            )
        if exporter.port == MANY:
            parts.append(
                f"more than {PORTS} of its ports sent within {rules.idle / SECOND:g} s, so the others are taken for one"
                " exporter, with one clock"
            )
        if exporter.late:
            parts.append(
                f"{exporter.late:,} records behind a promise, {exporter.contradicted:,} of them an assumed one"
            )
        if not parts:
            return None
        several = len(self.progress.roster.at((exporter.address, exporter.domain))) > 1
        port = f" port {exporter.port}" if several and exporter.port not in (None, MANY) else ""
        port = "" if (exporter.port or 0) >= STREAM else port
        return f"{exporter_text(exporter)}{port}, domain {exporter.domain}: {', '.join(parts)}"


def exporter_text(exporter: Exporter) -> str:
    """Write who an exporter is: its address, and of a connection the transport and the port, too."""
    address, channel = address_text(exporter.address), exporter.port
    if channel is None or channel < STREAM:
        return address
    return f"{sender_text(address, channel)}:{port_of(channel)}"


def utc(now: int) -> str:
    """Write a time to the second."""
    return f"{np.datetime64(now // SECOND, 's')}Z"


def address_text(address: bytes | None) -> str:
    """Write an address; who has none is unknown."""
    if address is None:
        return "unknown senders"
    (text,) = format_ip(pa.array([address], pa.binary(16))).to_pylist()
    return str(text)
