"""The promises of a join's result, as tight as the inputs' promises and the stored tuples allow.

A later result has a left tuple that is yet to come, or one that is stored, and it needs a right one likewise. So the
left time cannot fall below what the left input promised and the least stored left tick (individual punctuation); and
of both times one at least is new, so no later result lies in the box below both bounds (joint punctuation, thesis 7.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import attrs
import numpy as np

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Int64s, Scalar, plain_values
from operators.join.bounds import Bounds
from operators.join.shape import Shape
from operators.join.side import Side
from operators.join.window import JoinWindow
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from punctuation import Below, Equals, Pattern, Progress, Punctuation, Value, before, one_of

Punctuate: TypeAlias = Literal["individual", "joint", "both"]
Gone: TypeAlias = Callable[[int, Punctuation, int], bool]
"""Whether the tuples of a port that match a promise are stored no more, up to a tick."""


@attrs.define(eq=False)
class Promises(memory.Stateful):
    """Keep what was promised, and what must wait for stored tuples that it speaks of.

    Cost: O(1) a linear promise, O(keys promised ahead) besides; one on other attributes O(tuples stored) once.
    """

    shape: Shape
    window: JoinWindow
    punctuate: Punctuate
    _made: Progress = attrs.field(factory=Progress, init=False, metadata=memory.progress())
    _waiting: list[tuple[int, Punctuation, int]] = attrs.field(factory=list, init=False, metadata=memory.waiting())

    def settled(self, bounds: Bounds, port: int) -> int:
        """Return the bound below which no tuple of a port can have a partner yet to come."""
        bound = bounds.linear[1 - port]
        return bound if bound in (BEFORE_ALL, FOREVER) else self.window.settled(_near(bound), port)

    def settled_keys(self, bounds: Bounds, port: int, ids: Ids) -> Int64s:
        """Return `settled` for each of some keys."""
        distinct, which = np.unique(bounds.of(1 - port, ids), return_inverse=True)
        found = [
            int(b) if b in (BEFORE_ALL, FOREVER) else self.window.settled(_near(int(b)), port)
            for b in distinct.tolist()
        ]
        return np.array(found, np.int64)[which]

    def advanced(self, bounds: Bounds, sides: Sequence[Side], assumed: bool) -> Iterator[Punctuation]:
        """Yield the promises on time that have become true."""
        fronts = [self._front(bounds, sides[port], port) for port in (0, 1)]
        times = [self.shape.names[port].get(self.shape.wattrs[port]) for port in (0, 1)]
        if self.punctuate != "joint":
            for name, front in zip(times, fronts, strict=True):
                if name is not None:
                    yield from self._linear(name, front, assumed)
        left, right = bounds.linear
        both = times[0] is not None and times[1] is not None
        if both and self.punctuate != "individual" and all(BEFORE_ALL < b < FOREVER for b in (left, right)):
            yield from self._new(Punctuation(self._box(*self._corner(left, right)), assumed=assumed))
        least, greatest = self.shape.extremes
        if least:
            yield from self._linear(least, min(fronts), assumed)
        if greatest:
            alone = [front for front, outer in zip(fronts, self.shape.outer, strict=True) if outer]
            yield from self._linear(greatest, min([left, right, *alone]), assumed)

    def settled_waiting(self, bounds: Bounds) -> Iterator[Punctuation]:
        """Yield the promises whose stored tuples have all gone, by what is promised of time."""
        limits = [self.settled(bounds, port) for port in (0, 1)]
        yield from self._settled(lambda port, promise, latest: latest < limits[port])

    def settled_by_keys(self, port: int, gone: Gone) -> Iterator[Punctuation]:
        """Yield the promises of a port whose stored tuples have all `gone`, by what the other input says of keys."""
        names = {name: own for own, name in self.shape.names[port].items()}

        def settled(of: int, promise: Punctuation, latest: int) -> bool:
            asked = promise.onto(names) if of == port else None
            return asked is not None and gone(port, asked, latest)

        yield from self._settled(settled)

    def _settled(self, settled: Gone) -> Iterator[Punctuation]:
        waiting, self._waiting = self._waiting, []
        for port, promise, latest in waiting:
            if settled(port, promise, latest):
                yield from self._new(promise)
            else:
                self._waiting.append((port, promise, latest))

    def wait(self, port: int, promise: Punctuation, side: Side, gone: Gone) -> Iterator[Punctuation]:
        """Yield a promise of one input as one of the result, unless it must wait or cannot be said."""
        stored = set(side.schema.names)
        out = promise.onto(self.shape.names[port])
        if out is None or not set(promise.attributes) <= stored:
            return
        latest = side.latest(promise)
        if latest is None or gone(port, promise, latest):
            yield from self._new(out)
        else:
            self._waiting.append((port, out, latest))

    def of_keys(
        self, bounds: Bounds, sides: Sequence[Side], index: KeyIndex, ids: Ids, named: bool
    ) -> Iterator[Punctuation]:
        """Yield the promises on keys that have become true; joint ones for keys that a promise has just `named`."""
        if len(ids) == 0:
            return
        for port in (0, 1):
            fronts = self._key_fronts(bounds, sides[port], port, ids)
            told = np.maximum(bounds.told(port, ids), self._front(bounds, sides[port], port))
            rises = fronts > told
            if rises.any():
                bounds.tell(port, ids[rises], fronts[rises])
                if self.punctuate != "joint":
                    yield from self._key_promises(port, index, ids[rises], fronts[rises])
        if named and self.punctuate != "individual":
            yield from self._key_boxes(bounds, sides, index, ids)

    def _front(self, bounds: Bounds, side: Side, port: int) -> int:
        """Return the bound below which no later result has its time of this port."""
        promised, settled = bounds.linear[port], self.settled(bounds, port)
        least = side.least
        if least == FOREVER:
            return settled if promised == FOREVER else promised
        return min(promised, max(settled, least))

    def _key_fronts(self, bounds: Bounds, side: Side, port: int, ids: Ids) -> Int64s:
        return np.minimum(bounds.of(port, ids), side.store.least_of(ids))

    def _corner(self, left: int, right: int) -> tuple[int, int]:
        """Return the corner of the box below both bounds, cut to the window (docs/semantics.md row 31)."""
        above = min(left, self.window.reach(_near(right), 1) + 1)
        return above, min(right, self.window.reach(_near(left), 0) + 1)

    def _box(self, left: int, right: int) -> dict[str, Pattern]:
        names, wattrs = self.shape.names, self.shape.wattrs
        return {names[0][wattrs[0]]: Below(left), names[1][wattrs[1]]: Below(right)}

    def _key_promises(self, port: int, index: KeyIndex, ids: Ids, fronts: Int64s) -> Iterator[Punctuation]:
        time = self.shape.names[port].get(self.shape.wattrs[port])
        for front in distinct(fronts).tolist():
            keys = _keys(index, ids[fronts == front])
            for side, naming in self.shape.namings():
                if front == FOREVER:
                    # The other input's tuples of this key may still come out alone.
                    if side == port or not self.shape.outer[side]:
                        yield from _named(naming, keys, {})
                elif time is not None:
                    yield from _named(naming, keys, {time: Below(front)})

    def _key_boxes(self, bounds: Bounds, sides: Sequence[Side], index: KeyIndex, ids: Ids) -> Iterator[Punctuation]:
        """Yield the box of each key that its single bounds do not cover already."""
        if any(self.shape.wattrs[port] not in self.shape.names[port] for port in (0, 1)):
            return
        pairs = np.stack([bounds.of(port, ids) for port in (0, 1)], axis=1)
        fronts = np.stack([self._key_fronts(bounds, sides[port], port, ids) for port in (0, 1)], axis=1)
        for left, right in np.unique(pairs, axis=0).tolist():
            if not all(BEFORE_ALL < bound < FOREVER for bound in (left, right)):
                continue
            above, beside = self._corner(left, right)
            some = (pairs == (left, right)).all(axis=1)
            if self.punctuate == "both":
                some &= (fronts < (above, beside)).all(axis=1)
            keys = _keys(index, ids[some])
            for _, naming in self.shape.namings():
                yield from _named(naming, keys, self._box(above, beside))

    def _linear(self, name: str, bound: int, assumed: bool) -> Iterator[Punctuation]:
        if BEFORE_ALL < bound < FOREVER:
            yield from self._new(before(name, bound, assumed=assumed))

    def _new(self, promise: Punctuation) -> Iterator[Punctuation]:
        if self._made.advance(promise):
            yield promise


def _near(bound: int) -> int:
    """Return a bound that arithmetic cannot wrap; ticks out of range are in no window, so it says as much."""
    return max(-2 * LIMIT, min(bound, 2 * LIMIT))


def _keys(index: KeyIndex, ids: Ids) -> list[tuple[Scalar, ...]]:
    return list(zip(*(plain_values(column) for column in index.keys(ids)), strict=True))


def _named(
    naming: tuple[str, ...], keys: Iterable[tuple[Scalar, ...]], more: Mapping[str, Pattern]
) -> Iterator[Punctuation]:
    """Make promises of keys: one with a list when one attribute is the key."""
    known: list[tuple[Value, ...]] = [key for key in keys if None not in key]  # pyright: ignore[reportAssignmentType]
    if len(naming) == 1:
        if known:
            yield Punctuation({naming[0]: one_of(key[0] for key in known), **more})
        return
    for key in known:
        yield Punctuation({**{name: Equals(value) for name, value in zip(naming, key, strict=True)}, **more})
