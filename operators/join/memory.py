"""The memory of a join: numbers of its keys, stored tuples of both inputs, and the inputs' promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Bools, Int64s, Page
from operators.data.saved import bounded
from operators.data.schema import Schema
from operators.join.bounds import Bounds, latest
from operators.join.plain import Plain
from operators.join.policy import Policy
from operators.join.segments import Found
from operators.join.shape import Shape
from operators.join.side import Side, Stored
from operators.join.store import Store
from operators.join.tuples import Tuples
from operators.join.window import JoinWindow, unsettled
from operators.kernels.ticks import BEFORE_ALL, FAR, FOREVER
from operators.streams.named_groups import constants
from punctuation import Below, GroupPromise, Pattern, Progress, Punctuation, below, whole


@attrs.frozen(eq=False)
class Candidates:
    """Pairs of equal keys within the window, by its intervals, shape (n,)."""

    rows: Int64s
    """Tuples of the arriving page, in the order of the rows of `found`."""
    found: Found
    """Stored tuples."""
    plain: Plain | None
    """The plain page they are in, None for indexed ones."""

    def select(self, mask: Bools) -> Candidates:
        """Return the pairs where the mask, shape (n,), is true."""
        return Candidates(self.rows[mask], self.found.select(mask), self.plain)


@attrs.define(eq=False)
class Memory(memory.Stateful):
    """Remember tuples and bounds.

    Cost: see `Store`; a key is numbered once while a tuple or a promise of it is remembered.
    """

    shape: Shape
    window: JoinWindow
    policy: Policy = attrs.field(metadata=memory.part())
    sides: tuple[Side, Side] = attrs.field(init=False, metadata=memory.counted(several=True))
    index: KeyIndex | None = attrs.field(init=False, metadata=memory.part())
    bounds: Bounds = attrs.field(factory=Bounds, init=False, metadata=memory.part())
    _scratch: Store = attrs.field(init=False)
    _loose: bool = attrs.field(default=False, init=False)
    """Whether tuples that came in last were given numbers of keys that nothing may be held of."""
    _partial: tuple[Progress, Progress] = attrs.field(
        factory=lambda: (Progress(), Progress()), init=False, metadata=memory.progresses()
    )
    _stored: tuple[Stored, Stored] = attrs.field(
        factory=lambda: (Stored(), Stored()),
        init=False,
        metadata=memory.parts("side", of=lambda memory: [side.stored() for side in memory.sides]),
    )
    """What the sides are made of when they are restored."""

    def __attrs_post_init__(self) -> None:
        span = self.window.span
        self.sides = (
            Side(self.shape.stored_schemas[0], Store(span)),
            Side(self.shape.stored_schemas[1], Store(span)),
        )
        self._scratch = Store(span)
        self.index = KeyIndex(self.shape.keys) if self.shape.keys else None

    def __len__(self) -> int:
        """Return the number of stored tuples."""
        return sum(map(len, self.sides))

    def met(self, tuples: Tuples, port: int) -> list[Plain]:
        """Return the plain pages of the other input that arriving tuples may meet; index those that are worth it."""
        pages = self.sides[1 - port].plain
        if pages:
            first, last = int(tuples.ticks.min()), int(tuples.ticks.max())
            pages = [page for page in pages if page.meets(first, last)]
            worn = [page for page in pages if self.policy.worn(page, 1 - port)]
            if worn:
                self._index_plain(1 - port, worn)
                pages = [page for page in pages if page not in worn]
        return pages

    def number(self, tuples: Tuples, port: int, met: Sequence[Plain], *, plain: bool) -> tuple[Tuples, Bools | None]:
        """Return tuples with the numbers of their keys, and which of them to store; None means all.

        - `met`: the plain pages of the other input that they may meet.
        - `plain`: whether they are to lie plain themselves.
        """
        partner = 1 - port
        bound = self.bounds.linear[partner]
        stays = None if int(tuples.high.min()) >= bound else tuples.high >= bound
        if self.index is None:
            return tuples, stays
        needed = bool(met) or any(any(p.promises()) for p in self._partial)
        self._loose = needed or self.shape.filtering or any(self.shape.once)
        if needed:
            ids, fresh = self.index.assign_new(tuples.keys)
            self._reserve()
            self._recall(ids[fresh])
        elif plain and not len(self.sides[partner].store) and not self.bounds.grouped(partner):
            ids = np.full(len(tuples), -1, np.int32)
        elif plain:
            ids = self.index.find(tuples.keys)
        elif stays is None:
            ids = self.index.assign(tuples.keys)
        else:
            chosen = pa.array(stays)
            self.index.assign([key.filter(chosen) for key in tuples.keys])
            ids = self.index.find(tuples.keys)
        self._reserve()
        if self.bounds.grouped(partner):
            stays = tuples.high >= self.bounds.of(partner, ids)
        return attrs.evolve(tuples, ids=ids), stays

    def candidates(
        self, tuples: Tuples, port: int, met: Sequence[Plain], *, limit: int, size: int, blind: bool = False
    ) -> Iterator[Candidates]:
        """Yield the pairs of arriving tuples and stored ones of the other input, at most `size` at once.

        With a `limit` at most so many of each arriving tuple. Where nobody looks at stored tuples (`blind`), those of
        the index are not found by their positions.
        """
        side = self.sides[1 - port]
        for pairs in side.store.probe(tuples.ids, tuples.low, tuples.high, limit=limit, size=size):
            found = Found([], None) if blind else side.store.segments.find(pairs.positions)
            yield Candidates(found.arranged(pairs.rows), found, None)
        if not met:
            return
        base = self._scratch.insert(tuples.ids, tuples.ticks, tuples.batch, None)
        for plain in met:
            plain.looks += 1
            known = np.zeros(len(plain.segment), np.int32) if self.index is None else self.index.find(plain.tuples.keys)
            looks = self._scratch.probe(known, plain.tuples.low, plain.tuples.high, size=size)
            for pairs in looks:
                rows, mine = pairs.rows, pairs.positions - base
                if len(plain) < len(plain.segment):
                    lives = plain.lives(rows)
                    rows, mine = rows[lives], mine[lives]
                yield Candidates(mine, Found([(plain.segment, rows)], None), plain)
        self._scratch.purge(FAR)

    def hold(self, tuples: Tuples, port: int, *, plain: bool) -> None:
        """Store tuples."""
        self.sides[port].add(tuples, plain=plain)

    def tidy(self, tuples: Tuples) -> None:
        """Forget the numbers of keys that nothing is held of."""
        if self._loose:
            ids = tuples.ids[tuples.ids >= 0]
            self._forget(distinct(ids[self._idle(ids)]))

    def strike(self, struck: Sequence[tuple[Candidates, Ids]], port: int) -> None:
        """Drop stored tuples of a port, each named once, with the numbers of their keys, which `tidy` may forget."""
        side = self.sides[port]
        ids: list[Ids] = []
        ticks: list[Int64s] = []
        positions: list[Int64s] = []
        for candidates, numbers in struck:
            if candidates.plain is not None:
                for _, rows in candidates.found.parts:
                    candidates.plain.drop(rows)
                continue
            ids.append(numbers)
            for segment, rows in candidates.found.parts:
                ticks.append(segment.ticks[rows])
                positions.append(segment.all_positions()[rows])
        side.tidy()
        if ids:
            side.store.strike(np.concatenate(ids), np.concatenate(ticks), np.concatenate(positions))

    def advance(self, port: int, bound: int, settled: int) -> list[Found]:
        """Take a linear promise of a port; gives the tuples of the other one that it drops, below `settled`."""
        self._forget(self.bounds.overtake(port, bound))
        self._prune(port, bound)
        gone, emptied = self.sides[1 - port].purge(settled)
        self._forget(emptied)
        return gone

    def names_keys(self, port: int, promise: Punctuation) -> bool:
        """Return whether a promise speaks of keys, and of time only as `time < v`: then it may drop tuples."""
        names, wattr = set(self.shape.on[port]), self.shape.wattrs[port]
        others = set(promise.attributes) - names
        timed = others == {wattr} and whole(below(promise.pattern(wattr))) is not None
        return self.index is not None and bool(names & set(promise.attributes)) and (not others or timed)

    def lift(self, port: int, promise: Punctuation) -> tuple[Ids, bool]:
        """Take a promise that names keys; gives the keys whose bound rose, and whether it listed whole keys."""
        assert self.index is not None
        if self.policy.patience:
            # From now on tuples are asked for by their keys.
            self.policy.patience = 0
            for side in (0, 1):
                self._index_plain(side, self.sides[side].plain)
        on = self.shape.on[port]
        keys, bound = self._keys_of(port, promise), self._bound_of(port, promise)
        ids = self._listed(port, keys) if len(set(on)) == len(on) else None
        listed = ids is not None
        if ids is None:
            if not self._partial[port].advance(promise):
                return np.empty(0, np.int32), False
            ids = self._matching(port, keys, self.index.live())
        self._reserve()
        self.bounds.reserve(self.index.capacity)
        rose = ids[self.bounds.lift(port, ids, bound, pin=listed)]
        if listed:
            self._forget(ids)
        return rose, listed

    def without_partners(self, port: int, promise: Punctuation, tick: int) -> bool:
        """Return whether tuples of a port that match a promise, none above a tick, have no partner to come.

        None of them is stored then: of keys that all of them have, the other input promised all that they could meet.
        """
        patterns, time = dict(promise.patterns), self.shape.wattrs[1 - port]
        pairs = zip(self.shape.on[port], self.shape.on[1 - port], strict=True)
        keys: dict[str, Pattern] = {other: patterns[name] for name, other in pairs if name in patterns}
        if not keys:
            return False
        met = {time: Below(unsettled(self.window, tick + 1, port))} | keys
        return self._partial[1 - port].implies(Punctuation(met))

    def drop_keys(self, port: int, ids: Ids, settled: Int64s) -> list[Found]:
        """Drop the tuples of each key below its bound, and give them."""
        side = self.sides[port]
        if len(ids) == 0:
            return []
        gone, emptied = side.store.purge_keys(ids, settled)
        self._forget(emptied)
        return [] if gone is None else [gone]

    def clear(self) -> None:
        """Forget everything but what is fixed."""
        self.__attrs_post_init__()
        ended = [b == FOREVER for b in self.bounds.linear]
        self.bounds = Bounds()
        self.bounds.linear = [FOREVER if end else BEFORE_ALL for end in ended]
        self._partial = (Progress(), Progress())

    def _after_restoring(self) -> None:
        self._reserve()
        for port, (side, stored, tracked) in enumerate(zip(self.sides, self._stored, self.shape.tracked, strict=True)):
            batch, ids = stored.tuples, stored.ids
            flags = bounded(stored.matched, "matched", below=None, length=len(ids) if tracked else 0)
            if batch is None:
                continue
            if not batch.schema.equals(side.schema):
                raise ValueError(f"the saved state has tuples with {batch.schema.names}, not {side.schema.names}")
            if self.index is not None:
                self.index.check_live(ids[ids >= 0], "ids")
            else:
                bounded(ids, "ids", least=-1, below=1)
            keys = self.shape.key_columns(Page(Schema(batch.schema), batch), port)
            plain = ids < 0
            low, high = self.window.partners(stored.ticks, port)
            tuples = Tuples(batch, keys, np.maximum(ids, 0), stored.ticks, low, high, flags if tracked else None)
            side.add(tuples.select(~plain), plain=False)
            side.add(tuples.select(plain), plain=True)
        self._stored = (Stored(), Stored())

    def _index_plain(self, port: int, pages: Sequence[Plain]) -> None:
        """Index plain pages of a port."""
        side = self.sides[port]
        side.plain = [plain for plain in side.plain if plain not in pages]
        for plain in pages:
            kept = plain.kept()
            if self.index is not None:
                kept = attrs.evolve(kept, ids=self.index.assign(kept.keys))
                self._reserve()
            side.add(kept, plain=False)

    def _reserve(self) -> None:
        keys = 1 if self.index is None else self.index.capacity
        for store in (self.sides[0].store, self.sides[1].store, self._scratch):
            store.reserve(keys)
        if any(self.bounds.grouped(port) for port in (0, 1)):
            self.bounds.reserve(keys)

    def _forget(self, ids: Ids) -> None:
        """Take back the numbers of those keys, each named once, of which nothing is held."""
        if self.index is None or len(ids) == 0:
            return
        idle = self.bounds.free(ids[self._idle(ids)])
        if len(idle):
            self.bounds.forget(idle)
            self.index.free(idle)

    def _prune(self, port: int, bound: int) -> None:
        """Forget the promises on parts of keys that a linear one has overtaken."""
        kept = Progress()
        for promise in self._partial[port].promises():
            if self._bound_of(port, promise) > bound:
                kept.advance(promise)
        self._partial = (kept, self._partial[1]) if port == 0 else (self._partial[0], kept)

    def _keys_of(self, port: int, promise: Punctuation) -> Punctuation:
        return Punctuation({name: pattern for name, pattern in promise.patterns if name in self.shape.on[port]})

    def _bound_of(self, port: int, promise: Punctuation) -> int:
        """Return the bound on time of a promise that names keys, FOREVER when it ends them."""
        bound = whole(below(promise.pattern(self.shape.wattrs[port])))
        return FOREVER if bound is None else latest(bound)

    def _idle(self, ids: Ids) -> Bools:
        """Return the keys of which no indexed tuple is stored."""
        return (self.sides[0].store.count(ids) == 0) & (self.sides[1].store.count(ids) == 0)

    def _listed(self, port: int, keys: Punctuation) -> Ids | None:
        """Return the numbers of the keys that a promise lists, ascending, making new ones; None when it lists none."""
        assert self.index is not None
        groups = GroupPromise.of(keys)
        if groups is None or groups.shape[1] is not None or set(groups.shape[0]) != set(self.shape.on[port]):
            return None
        places = [groups.shape[0].index(name) for name in self.shape.on[port]]
        fields = self.index.fields
        columns = [
            constants([key[place] for key in groups.keys], field.type)
            for place, field in zip(places, fields, strict=True)
        ]
        known = [column for column in columns if column is not None]
        return distinct(self.index.assign(known)) if len(known) == len(columns) else None

    def _matching(self, port: int, keys: Punctuation, ids: Ids) -> Ids:
        """Return those of some keys that match a promise on some of a port's equality attributes, ascending."""
        assert self.index is not None
        chosen = np.ones(len(ids), np.bool_)
        for name, column in zip(self.shape.on[port], self.index.keys(ids), strict=True):
            schema = Schema.of(**{name: column.type})
            pattern = Punctuation({name: keys.pattern(name)})
            chosen &= Page.of(schema, {name: column}).matching(pattern)
        return np.sort(ids[chosen])

    def _recall(self, ids: Ids) -> None:
        """Apply to new keys the bounds that promises on parts of keys, or on ranges of them, set before they came."""
        if len(ids) == 0:
            return
        assert self.index is not None
        self.bounds.reserve(self.index.capacity)
        for port in (0, 1):
            for promise in self._partial[port].promises():
                matching = self._matching(port, self._keys_of(port, promise), ids)
                self.bounds.lift(port, matching, self._bound_of(port, promise), pin=False)
