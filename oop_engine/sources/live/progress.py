"""The promises of a stream of flow records: what all of its exporters that are present promise.

    progress = ExporterProgress(Rules(inactive=15 * SECOND), attributes=("ts", "end_ts"))
    shifts = progress.hear(heard)             records that came; by how much to put their times right
    for punctuation in progress.elapse(now):  what has become true
        ...

An exporter whose header tells no time that can be is known by its arrivals instead; so are those whose clocks are set
aside where nobody else has a say, as far as they are ahead. Both only assume.

Bounds only rise. An exporter that is late, silent, new or wrong about the time can hold the promise back, within what
the rules allow, but nobody can push it beyond the clock here plus five minutes. Assumed promises are marked as such,
and a record that contradicts one is counted; so is one that breaks what exporters themselves had said.

An exporter is an address and an observation domain, since the line cards of a router have clocks, caches and sequences
of their own, and a port where several speak (see `roster`). UDP proves none of them, so whoever can send from an
allowed address can make up a domain or a port. Known by address alone it would be no less of a danger, but a greater
one: its headers would pass for those of the real exporter and step its clock, so that promises are made which the real
one must break. On its own it can only hold promises back, until it has been silent for `idle`, and not without bound:
by `skew`, beyond which it is set aside, and by what its records may trail, which is `longest` at most for what was seen
and for each timeout announced, and what the user says where the user says it. So `active` and `inactive` leave it five
minutes; a network that drops forged senders leaves it nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.holder import Sooner
from oop_engine.sources.live.exporters import FARTHEST, SAVED, SAVED_BEFORE, SECOND, Exporter, Rules
from oop_engine.sources.live.promised import Promised, to_each
from oop_engine.sources.live.roster import Key, Roster
from oop_engine.sources.live.shorter_times import ShorterTime, after, without
from operators.data.page import Bools, Int64s
from operators.data.saved import part, prefixed, read_batch, read_int, read_text
from operators.kernels.ticks import FOREVER
from operators.protocol import State, StateValue
from punctuation import NEVER, NO_TIME, Punctuation, before


@attrs.frozen(eq=False)
class Heard:
    """Records that were decoded together, of several datagrams: part i begins at row `first[i]`, and may have none.

    A part that is not `recorded` (all are where it is None) is of a datagram without records: its header tells how far
    an exporter is, and earns nobody a say.

    `who` says which of `keys` sent a part, `header` its export time (NO_TIME where that cannot be: its arrival stands
    for it; for sFlow, which has none, the arrival), and `arrival` when it came, NO_TIME where nobody knows; of shape
    (parts,). `times` are the records' attributes, each of shape (rows,), NO_TIME for null.
    """

    keys: Sequence[Key]
    who: Int64s
    header: Int64s
    arrival: Int64s
    first: Int64s
    times: Mapping[str, Int64s]
    recorded: Bools | None = None


_EACH_TIME: Final = 200
"""Exporters up to which shorter times are followed with each promise; of more, with one in `_ONE_IN`."""
_ONE_IN: Final = 10
_SHORTER: Final = "shorter "
_SPARSE: Final = Grain(SECOND)
"""How finely is promised what nobody asks for: it still tells which records are late."""


@attrs.define(eq=False)
class ExporterProgress:
    """Keep the progress of every exporter, and what was promised of all. Cost: O(records) to hear, O(exporters) to say.

    `attributes` are promised, "ts" (the start of a flow) by active and inactive timeout, "end_ts" by the inactive one.
    `by_exporter` also promises what each exporter alone has: `[exporter = e, ts < v]`.
    """

    rules: Rules = attrs.field(factory=Rules)
    attributes: tuple[str, ...] = attrs.field(default=("ts",), converter=tuple)
    by_exporter: bool = False
    grains: dict[str, Grain] = attrs.field(factory=dict)
    """How finely what is wanted is promised; may be changed while a stream runs."""
    roster: Roster = attrs.field(init=False)
    _promised: dict[str, Promised] = attrs.field(init=False)
    shorter: tuple[ShorterTime, ShorterTime] = attrs.field(init=False)
    """What a shorter `idle`, and a shorter `lull`, would have done so far."""
    _said: int = attrs.field(init=False, default=0)
    """How often was asked what is promised."""
    _began: int | None = attrs.field(init=False, default=None)
    _latest: int = attrs.field(init=False, default=NO_TIME)
    late: int = attrs.field(init=False, default=0)
    contradicted: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.roster = Roster(self.rules)
        self._promised = {attribute: Promised() for attribute in self.attributes}
        self.shorter = (
            ShorterTime("idle", self.rules.idle, self.attributes),
            ShorterTime("lull", self.rules.lull or 0, self.attributes),
        )

    @property
    def latest(self) -> int:
        """Return the last arrival that was heard, NO_TIME before the first."""
        return self._latest

    def bound(self, attribute: str) -> int:
        """Return what was promised of an attribute, NO_TIME before anything was."""
        return self._promised[attribute].bound

    @property
    def exporters(self) -> list[Exporter]:
        """Return what is known of each exporter, in the order they were first heard."""
        return list(self.roster)

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise these attributes so finely from now on, others as before (Tucker's describe); False if none is."""
        ours = {name: grain for name, grain in grains.items() if name in self._promised}
        self.grains = {**self.grains, **ours}
        return bool(ours)

    def announce(self, key: Key, *, active: int | None, inactive: int | None) -> None:
        """Take the timeouts that an exporter announces, in ns; one beyond the longest that is believed is not."""
        exporter, longest = self.roster.find(key), self.rules.longest
        if exporter is not None:
            exporter.active = exporter.active if active is None or active > longest else active
            exporter.inactive = exporter.inactive if inactive is None or inactive > longest else inactive

    def hear(self, heard: Heard) -> Int64s | None:
        """Take records that came; give what to add to the times of each part, None where all are right."""
        parts = len(heard.who)
        if not parts:
            return None
        told = heard.header != NO_TIME
        header = np.where(told, heard.header, heard.arrival)
        arrival = np.where(heard.arrival == NO_TIME, header, heard.arrival)
        known = header != NO_TIME
        recorded = np.ones(parts, np.bool_) if heard.recorded is None else heard.recorded
        shifts = np.zeros(parts, np.int64)
        speakers: list[tuple[Exporter, Int64s]] = []
        for own in _grouped(heard.who, known):
            key = heard.keys[int(heard.who[own[0]])]
            exporter = self.roster.find(key, now=int(arrival[own].min()))
            if exporter is None:
                # Who is not known by records is not by what is silent.
                own = own[int(np.argmax(recorded[own])) :]
                if not recorded[own[0]]:
                    continue
                exporter = self.roster.add(key, int(header[own[0]] - arrival[own[0]]), int(arrival[own].min()))
            exporter.hear(header[own], arrival[own], self.rules, recorded[own])
            exporter.date(told[own])
            self.roster.heard(exporter)
            shifts[own] = exporter.offset
            speakers.append((exporter, own))
        if not speakers:
            return None
        self._latest = max(self._latest, *(int(arrival[own].max()) for _, own in speakers))
        if self._began is None:
            self._began = min(int(arrival[own].min()) for _, own in speakers)
        self._learn(heard, np.where(known, header, 0), shifts, known, speakers)
        return shifts if shifts.any() else None

    def _learn(
        self, heard: Heard, header: Int64s, shifts: Int64s, known: Bools, speakers: Sequence[tuple[Exporter, Int64s]]
    ) -> None:
        """See how far records trail their headers, and which are behind what was promised."""
        parts, late, broken = len(heard.who), None, None
        put_right = dict[str, Int64s]()
        for attribute in self.attributes:
            times = heard.times[attribute]
            counts = np.diff(heard.first, append=len(times))
            trailing = np.repeat(header, counts) - times
            trailing[(times == NO_TIME) | (trailing > self.rules.longest) | np.repeat(~known, counts)] = 0
            furthest = _of_parts(np.maximum, trailing, heard.first, counts)
            promised = self._promised[attribute]
            bounds, certain = np.full(parts, promised.bound), np.full(parts, promised.certain)
            for exporter, own in speakers:
                if (most := int(furthest[own].max())) > 0:
                    exporter.learn(attribute, most)
                if promised.own:
                    bounds[own] = max(promised.bound, promised.own.get(exporter.address, NO_TIME))
                    certain[own] = max(promised.certain, promised.own_certain.get(exporter.address, NO_TIME))
            moved = put_right[attribute] = np.where(times == NO_TIME, NEVER, times + np.repeat(shifts, counts))
            behind = moved < np.repeat(bounds, counts)
            if behind.any():
                worse = moved < np.repeat(certain, counts)
                late = behind if late is None else late | behind
                broken = worse if broken is None else broken | worse
        for shorter in self.shorter:
            shorter.hear(put_right)
        if late is not None and broken is not None:
            counts = np.diff(heard.first, append=len(late))
            each = _of_parts(np.add, late.astype(np.int64), heard.first, counts)
            worst = _of_parts(np.add, broken.astype(np.int64), heard.first, counts)
            for exporter, own in speakers:
                exporter.late += (many := int(each[own].sum()))
                exporter.contradicted += many - int(worst[own].sum())
            self.late += int(each.sum())
            self.contradicted += int(each.sum() - worst.sum())

    def beyond(self, heard: Heard, shifts: Int64s | None) -> dict[str, Bools]:
        """Return which times of what was just heard are too far ahead to be believed, of shape (rows,); count records.

        That is `future` ahead of their arrival, or of their exporter's clock where that is ahead itself (and so is
        told, set aside, or put right by the `shifts`), up to a day. Attributes of which all is believed are left out.
        """
        parts = len(heard.who)
        if not parts or not len(next(iter(heard.times.values()), ())):
            return {}
        arrival = np.where(heard.arrival == NO_TIME, heard.header, heard.arrival)
        known = [self.roster.find(key) for key in heard.keys]
        ahead = np.array([0 if e is None else min(max(e.ahead, 0), FARTHEST) for e in known], np.int64)
        most = np.where(arrival == NO_TIME, NEVER, arrival + self.rules.future + ahead[heard.who])
        most -= 0 if shifts is None else shifts
        least = int(most.min())
        found: dict[str, Bools] = {}
        for attribute, times in heard.times.items():
            if int(times.max()) > least:
                far = times > np.repeat(most, np.diff(heard.first, append=len(times)))
                if far.any():
                    found[attribute] = far
        if found:
            rows = np.logical_or.reduce(list(found.values()))
            each = _of_parts(np.add, rows.astype(np.int64), heard.first, np.diff(heard.first, append=len(rows)))
            for exporter, number in zip(known, np.bincount(heard.who, each, len(known)).tolist(), strict=True):
                if exporter is not None:
                    exporter.future += int(number)
        return found

    def elapse(self, now: int) -> list[Punctuation]:
        """Return the promises that have become true by this time, as finely as they are wanted."""
        return self._say(now, self.grains)

    def poll(self, now: int) -> list[Punctuation]:
        """Return how far the stream is now, exactly."""
        return self._say(now, dict.fromkeys(self.attributes, Grain()))

    def live(self, now: int) -> tuple[list[Exporter], bool]:
        """Return the exporters that have a say, and whether one that has not may still send.

        When the clocks of all are too far off, they have it none the less, as far as their arrivals. When all are
        silent for too long and lulls are assumed away, those that were there last have it.
        """
        trusted = self.roster.trusted(now)
        there = [e for e in trusted if not e.aside(self.rules)] or trusted
        live = [e for e in there if not e.idle(self.rules, now)]
        if not live:
            waits = self.rules.lull is None
            live = [e for e in trusted if not e.idle(self.rules, now)] if waits else there
        return live, len(live) < len(trusted)

    def holder(self, attribute: str, now: int) -> tuple[Exporter, int] | None:
        """Return the exporter that holds the promise on an attribute back, and how far it is; None where none does."""
        reached = [(e, r[0]) for e in self.live(now)[0] if (r := e.reach(attribute, self.rules, now)) is not None]
        return min(reached, key=lambda one: one[1], default=None)

    def _say(self, now: int, grains: Mapping[str, Grain]) -> list[Punctuation]:
        if self._began is None or now - self._began < self.rules.settle:
            return []
        live, others = self.live(now)
        found: list[Punctuation] = []
        plain = not (self.by_exporter or self.roster.shared)
        # So many exporters cost more than it is worth to follow them each time.
        many = len(live) > _EACH_TIME
        self._said += 1
        followed = not many or self._said % _ONE_IN == 0
        for shorter in self.shorter:
            shorter.complete &= plain and not many
        for attribute in self.attributes:
            grain = grains.get(attribute, _SPARSE)
            reached = [(e, *r) for e in live if (r := e.reach(attribute, self.rules, now)) is not None]
            if reached and followed:
                for shorter, bounds in zip(self.shorter, self._sooner(attribute, reached, now), strict=True):
                    shorter.follow(attribute, bounds, grain)
            if reached:
                found += self._linear(attribute, min(r for _, r, _ in reached), reached, others, grain)
            if self.by_exporter:
                found += self._of_each(attribute, reached, grain, now)
        return found

    def _sooner(self, attribute: str, reached: Sequence[tuple[Exporter, int, bool]], now: int) -> tuple[Int64s, Int64s]:
        """Return how far all are now with each shorter `idle`, and with each shorter `lull`."""
        idles, lulls = (shorter.lengths for shorter in self.shorter)
        silent = np.array([now - e.spoke for e, _, _ in reached], np.int64)
        far = np.array([r for _, r, _ in reached], np.int64)
        least: int | None = None
        if self.rules.lull is not None and len(idles) and int(silent.min()) > int(idles[0]):
            trusted = self.roster.trusted(now)
            there = [e for e in trusted if not e.aside(self.rules)] or trusted
            all_reached = (r[0] for e in there if (r := e.reach(attribute, self.rules, now)) is not None)
            least = min(all_reached, default=None)
        assumed = np.full(len(lulls), int(far.min()))
        if len(lulls) and int(silent.max()) > int(lulls[0]):
            quiet = silent > int(lulls[0])
            asked = (reached[place][0] for place in np.flatnonzero(quiet).tolist())
            clocks = np.array([e.clock_now(attribute, self.rules, now) for e in asked], np.int64)
            assumed = after(lulls, silent[quiet], far[quiet], clocks[:, 0], clocks[:, 1])
            assumed = np.minimum(assumed, far[~quiet].min(initial=FOREVER))
        return without(idles, silent, far, least), assumed

    def sooner(self, attribute: str, need: int, now: int) -> Sooner | None:
        """Return the longest shorter `idle` or `lull` with which a bound would be promised by now, None for none.

        Of the two it is the one that would have made fewer records late.
        """
        reached = [(e, *r) for e in self.live(now)[0] if (r := e.reach(attribute, self.rules, now)) is not None]
        settled = self._began is not None and now - self._began >= self.rules.settle
        if not reached or not settled or attribute not in self.attributes:
            return None
        grain = self.grains.get(attribute, _SPARSE)
        bounds = zip(self.shorter, self._sooner(attribute, reached, now), strict=True)
        found = [one for shorter, far in bounds if (one := shorter.sooner(attribute, need, far, grain)) is not None]
        return min(found, key=lambda one: one.late, default=None)

    def _linear(
        self, attribute: str, least: int, reached: Sequence[tuple[Exporter, int, bool]], others: bool, grain: Grain
    ) -> list[Punctuation]:
        promised, bound = self._promised[attribute], grain.floor(least)
        assumed = others or any(a for _, _, a in reached)
        if not assumed:
            promised.certain = max(promised.certain, min(bound, promised.bound))
        if bound <= promised.bound:
            return []
        promised.bound = bound
        if not assumed:
            promised.certain = bound
        promised.own = {address: own for address, own in promised.own.items() if own > bound}
        promised.own_certain = {address: own for address, own in promised.own_certain.items() if own > bound}
        return [before(attribute, bound, assumed=assumed)]

    def _of_each(
        self, attribute: str, reached: Sequence[tuple[Exporter, int, bool]], grain: Grain, now: int
    ) -> list[Punctuation]:
        """Promise of every address what all of its domains and ports have reached, where that is more than of all."""
        promised = self._promised[attribute]
        domains = Counter(e.address for e in self.roster.trusted(now))
        own: dict[bytes, tuple[int, bool]] = {}
        for exporter, bound, assumed in reached:
            least, guessed = own.get(exporter.address, (bound, assumed))
            own[exporter.address] = min(bound, least), assumed or guessed
            domains[exporter.address] -= 1
        fresh: list[tuple[bytes, int, bool]] = []
        for address, (least, guessed) in own.items():
            # A domain of it that has no say now may still send.
            bound, assumed = grain.floor(least), guessed or domains[address] > 0
            if bound > max(promised.bound, promised.own.get(address, NO_TIME)):
                promised.own[address] = bound
                if not assumed:
                    promised.own_certain[address] = bound
                fresh.append((address, bound, assumed))
        return to_each(attribute, fresh)

    def state(self, given: Callable[[str], int] | None = None) -> State:
        """Return what was promised and what is known of exporters; how finely is wanted is not part of it.

        Of an attribute of which less was `given` than promised, that is what is saved.
        """
        state: State = {
            "began": self._began,
            "latest": self._latest,
            "forgotten": self.roster.forgotten,
            "late": self.late,
            "contradicted": self.contradicted,
            "exporters": pa.RecordBatch.from_pylist([e.row() for e in self.roster], schema=SAVED),
            "attributes": " ".join(self.attributes),
        }
        if given is None:
            # Where less counts as promised, what came after is heard again.
            for shorter in self.shorter:
                state |= prefixed(f"{_SHORTER}{shorter.setting}.", shorter.state())
        for attribute, promised in self._promised.items():
            kept = promised if given is None else promised.until(given(attribute))
            state |= kept.state(attribute)
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Take up what was saved; ValueError where that is something else.

        Of an attribute that was not promised then, records are still to be seen, so exporters settle anew.
        """
        exporters = read_batch(state, "exporters")
        if exporters.schema not in (SAVED, *SAVED_BEFORE):
            raise ValueError(
                f"exporters are saved as {', '.join(SAVED.names)}, not {', '.join(exporters.schema.names)}"
            )
        before_that = read_text(state, "attributes").split()
        for attribute in self.attributes:
            if attribute in before_that:
                self._promised[attribute] = Promised.restored(state, attribute)
        for shorter in self.shorter:
            kept = part(f"{_SHORTER}{shorter.setting}.", state)
            if kept and shorter.fits(kept, shorter.given, self.attributes):
                shorter.restore(kept)
            else:
                for attribute, promised in self._promised.items():
                    shorter.promised(attribute, promised.bound)
        known = [Exporter.of(row) for row in exporters.to_pylist()]
        for exporter in known:
            exporter.offset = exporter.offset if self.rules.correct else 0
        self.roster.restore(known)
        settled = state.get("began") is not None and set(self.attributes) <= set(before_that)
        self._began = read_int(state, "began") if settled else None
        self._latest = read_int(state, "latest")
        self.roster.forgotten, self.late = read_int(state, "forgotten"), read_int(state, "late")
        self.contradicted = read_int(state, "contradicted")

    def resume(self, now: int) -> list[Punctuation]:
        """Listen again, after a time in which nobody did; give what was promised, which still holds.

        An exporter that was present when listening ended is waited for as if it had been heard now.
        """
        for exporter in self.roster:
            if not exporter.idle(self.rules, self._latest):
                exporter.listened = now
        return [p for attribute, promised in self._promised.items() for p in promised.repeated(attribute)]


def _grouped(who: Int64s, known: Bools) -> list[Int64s]:
    """Return the places of each exporter's parts, in their order; without those that are not known."""
    places = np.flatnonzero(known)
    if not len(places):
        return []
    order = places[np.argsort(who[places], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(who[order])) + 1)


def _of_parts(what: np.ufunc, values: Int64s, first: Int64s, counts: Int64s) -> Int64s:
    """Join the values of each part, 0 for one without rows."""
    found = np.zeros(len(first), np.int64)
    filled = counts > 0
    if filled.any():
        found[filled] = what.reduceat(values, first[filled])
    return found
