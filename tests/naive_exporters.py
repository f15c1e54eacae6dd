"""What exporters promise, from the rules and the whole history: nothing is kept but the datagrams and what was said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.live.exporters import LEARNT, MINUTE, SECOND, USUAL, Rules
from operators.streams.skew import AGREE, DOUBT, RESOLUTION
from punctuation import NO_TIME

Key = tuple[bytes, int, int]
"""Address, domain, port."""
Said = tuple[str, bytes | None, int, bool]
"""Attribute, exporter (None for all), bound, assumed."""


@attrs.frozen
class Export:
    """A datagram with records: who sent it, its header's time, when it came, the times of its records."""

    key: Key
    header: int
    arrival: int
    rows: Sequence[Mapping[str, int | None]]
    silent: bool = False
    """It has no records, and earns nobody a say."""

    @property
    def at(self) -> int:
        """Give its header's time, or its arrival where that cannot be."""
        return self.arrival if self.header == NO_TIME else self.header


@attrs.define
class Clock:
    """An exporter's clock after some datagrams, told one by one."""

    ahead: list[list[int]] = attrs.field(factory=list)
    clock: list[list[int]] = attrs.field(factory=list)
    doubtful: list[int] = attrs.field(factory=list)
    believed: int = 0
    offset: int = 0

    @staticmethod
    def extreme(spans: list[list[int]]) -> int:
        recent = [span for span in spans[-2:] if spans[-1][0] - span[0] < 2 * MINUTE]
        return max(value for _, value in recent)

    @staticmethod
    def note(spans: list[list[int]], value: int, now: int) -> None:
        if not spans or now - spans[-1][0] >= MINUTE:
            spans.append([now, value])
        else:
            spans[-1][1] = max(spans[-1][1], value)

    def hear(self, export: Export, rules: Rules) -> None:
        ahead = export.at - export.arrival
        if self.ahead and abs(ahead - self.extreme(self.ahead)) > DOUBT:
            if self.doubtful and abs(ahead - self.doubtful[-1]) > DOUBT:
                self.doubtful = []
            self.doubtful.append(ahead)
            if len(self.doubtful) < AGREE:
                return
            self.ahead, self.clock = [], []
        self.doubtful = []
        believed = export.at if rules.correct else min(export.at, export.arrival + rules.future)
        self.note(self.ahead, ahead, export.arrival)
        self.note(self.clock, believed, export.arrival)
        self.believed += not export.silent

    def correct(self, rules: Rules) -> None:
        if rules.correct and self.ahead and abs(self.extreme(self.ahead) + self.offset) > RESOLUTION:
            self.offset = -self.extreme(self.ahead)


@attrs.define
class NaiveExporters:
    """The rules of `ExporterProgress`, applied anew to all that was heard whenever it is asked."""

    rules: Rules
    attributes: tuple[str, ...]
    by_exporter: bool = False
    batches: list[list[Export]] = attrs.field(factory=list)
    said: list[Said] = attrs.field(factory=list)
    certain: dict[str, int] = attrs.field(factory=dict)
    late: int = 0
    contradicted: int = 0

    def _clocks(self) -> dict[Key, Clock]:
        found: dict[Key, Clock] = {}
        for batch in self.batches:
            for export in batch:
                found.setdefault(export.key, Clock()).hear(export, self.rules)
            for key in {export.key for export in batch}:
                found[key].correct(self.rules)
        return found

    def _trailing(self, key: Key, attribute: str) -> int:
        found = [
            e.at - value
            for batch in self.batches
            for e in batch
            if e.key == key
            for row in e.rows
            if (value := row[attribute]) is not None and e.at - value <= self.rules.longest
        ]
        return max([0, *found])

    def bound(self, attribute: str, address: bytes | None = None, *, certain: bool = False) -> int | None:
        found = [
            v
            for a, who, v, assumed in self.said
            if a == attribute and who in (None, address) and not (certain and assumed)
        ]
        if certain and attribute in self.certain:
            found.append(self.certain[attribute])
        return max(found, default=None)

    def hear(self, exports: list[Export]) -> None:
        known = {e.key for batch in self.batches for e in batch}
        spoke = list[Export]()
        for export in exports:
            if not export.silent or export.key in known:
                known.add(export.key)
                spoke.append(export)
        if not spoke:
            return
        exports = spoke
        self.batches.append(exports)
        clocks = self._clocks()
        for export in exports:
            for row in export.rows:
                late = broken = False
                for attribute in self.attributes:
                    value = row[attribute]
                    if value is None:
                        continue
                    moved = value + clocks[export.key].offset
                    bound = self.bound(attribute, export.key[0])
                    sure = self.bound(attribute, export.key[0], certain=True)
                    late |= bound is not None and moved < bound
                    broken |= sure is not None and moved < sure
                self.late += late
                self.contradicted += late and not broken

    def elapse(self, now: int, grains: Mapping[str, Grain]) -> list[Said]:
        rules = self.rules
        every = [e for batch in self.batches for e in batch]
        if not every or now - min(e.arrival for e in self.batches[0]) < rules.settle:
            return []
        clocks = self._clocks()
        last = {key: max(e.arrival for e in every if e.key == key) for key in clocks}
        trusted = [key for key, clock in clocks.items() if clock.believed >= max(1, rules.trusted_after)]
        there = [k for k in trusted if not self._aside(clocks[k])] or trusted
        live = [k for k in there if now - last[k] <= rules.idle]
        if not live and rules.lull is not None:
            live = there
        elif not live:
            live = [k for k in trusted if now - last[k] <= rules.idle]
        new: list[Said] = []
        for attribute in self.attributes:
            grain = grains.get(attribute, Grain(SECOND))
            reached = {k: self._reach(k, clocks[k], attribute, now, last[k]) for k in live}
            if reached:
                least = min(bound for bound, _ in reached.values())
                assumed = len(live) < len(trusted) or any(a for _, a in reached.values())
                before = self.bound(attribute)
                linear = grain.floor(least)
                if not assumed and before is not None:
                    self.certain[attribute] = max(self.certain.get(attribute, linear), min(linear, before))
                linear_before = max((v for a, w, v, _ in self.said if a == attribute and w is None), default=None)
                if linear_before is None or linear > linear_before:
                    self.said.append((attribute, None, linear, assumed))
                    new.append(self.said[-1])
            for address in sorted({k[0] for k in reached}) if self.by_exporter else ():
                own = [reached[k] for k in reached if k[0] == address]
                silent = any(k[0] == address and k not in reached for k in trusted)
                bound = grain.floor(min(b for b, _ in own))
                known = self.bound(attribute, address)
                if known is None or bound > known:
                    self.said.append((attribute, address, bound, silent or any(a for _, a in own)))
                    new.append(self.said[-1])
        return new

    def _aside(self, clock: Clock) -> bool:
        return not self.rules.correct and abs(Clock.extreme(clock.ahead)) > self.rules.skew

    def _reach(self, key: Key, clock: Clock, attribute: str, now: int, last: int) -> tuple[int, bool]:
        rules, time, ahead = self.rules, Clock.extreme(clock.clock) + clock.offset, Clock.extreme(clock.ahead)
        assumed = [e.header for batch in self.batches for e in batch if e.key == key][-1] == NO_TIME
        if self._aside(clock):
            time, ahead, assumed = min(time, last), min(ahead, 0), True
        if rules.lull is not None and now - last > rules.lull:
            silent = now + ahead + clock.offset - rules.lull
            if silent > time:
                time, assumed = silent, True
        seen = self._trailing(key, attribute) + RESOLUTION
        parts = [rules.inactive] if attribute == "end_ts" else [rules.inactive, rules.active]
        if any(part is None for part in parts):
            if rules.inactive is None:
                guess = min(max(2 * seen, USUAL + rules.scan), rules.longest)
                began = next(batch for batch in self.batches if any(e.key == key for e in batch))
                heard = last - min(e.arrival for e in began if e.key == key)
                least = guess if heard < LEARNT * guess else 0
            else:
                least = rules.inactive + rules.scan
            allowed, assumed = max(seen, least), True
        else:
            allowed = rules.scan + sum(part for part in parts if part is not None)
        return min(time, now + rules.future) - allowed, assumed
