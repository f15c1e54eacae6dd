"""A punctuator turns the values of a progressing attribute, in arrival order, into promises; pages do not matter to it.

    Ordered("ts", step=s)            the stream is sorted                       bound = last value
    Slack("ts", 2 * s, step=s)       no tuple is later than 2 s                 bound = highest value - 2 s
    TupleSlack("ts", 100)            no larger value came over 100 places ahead bound = highest value, last 100 excluded
    BlockEnd("ts", length=m)         ascending blocks, any order inside         bound = start of the block in progress
    Scheduled("ts", schedule)        read before (SuffixMinimum)                bound = the low-watermark itself
    Heartbeat("ts", sources)         the clock, skew and delay bounds           bound = min(now - skew - delay)
    Embedded("ts", marker="mark")    the promises stand in the data             bound = value of the marked row

Times are integers in the unit of the attribute; NO_TIME stands where it is null: such a tuple counts, but says nothing.
Granularity, for all of them: `every` k tuples of the stream, `step` (only bounds origin + k * step), or both; with
neither, whenever the bound rises. `lull`: when the data is more than that behind the clock, a timer call promises
now - lull, marked assumed (thesis 8.1). `jump`: a value that is further ahead moves no promise unless others confirm
it; the operator that reads the stream sees to that (`operators.streams.clamp`) and hands over NO_TIME for it. Bounds
are exclusive (`[ts < v]`) and only rise.
"""

# The functions of this package may look into its punctuators.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import attrs
import numpy as np

from punctuation.largest import running_largest
from punctuation.pace import NOTHING, Int64s, Pace, Promises, integers, listed, not_negative, positive
from punctuation.plain import Plain
from punctuation.schedule import NEVER, NO_TIME, Schedule, Unfolding, floor_to


@runtime_checkable
class Punctuator(Protocol):
    """A maker of promises about one attribute. Parameters are public and do not change; memory is private."""

    @property
    def attribute(self) -> str:
        """Name the progressing attribute."""
        ...

    def observe(self, values: Int64s) -> Promises:
        """Read the next values, shape (n,); after `values[positions[i]]`, `[attribute < bounds[i]]` is promised."""
        ...

    def elapse(self, now: int) -> int | None:
        """Take the engine's clock, in the unit of the attribute; give a bound to assume, or None."""
        ...

    def state(self) -> Plain:
        """Return the memory as JSON values."""
        ...

    def restore(self, state: Plain) -> None:
        """Become the punctuator whose `state` this was; called on a fresh one with the same parameters."""
        ...


@attrs.define
class Ordered:
    """Promise the last value: the stream is sorted, equal values may follow (docs/semantics.md row 35).

    `strictly`: no value occurs twice, so the promise is the last value + 1.
    """

    attribute: str
    strictly: bool = attrs.field(default=False, kw_only=True)
    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    lull: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    jump: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _pace: Pace = attrs.field(init=False, repr=False)
    _highest: int = attrs.field(default=NO_TIME, init=False)

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(self.every, self.step, self.origin)

    def observe(self, values: Int64s) -> Promises:
        return _observe_highest(self, values, -1 if self.strictly else 0)

    def elapse(self, now: int) -> int | None:
        return _elapse_lull(self, now, -1 if self.strictly else 0)

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest]

    def restore(self, state: Plain) -> None:
        _restore_highest(self, state)


@attrs.define
class Slack:
    """Promise the highest value less a slack: no tuple is further behind than that."""

    attribute: str
    slack: int = attrs.field(validator=not_negative)
    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    lull: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    jump: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _pace: Pace = attrs.field(init=False, repr=False)
    _highest: int = attrs.field(default=NO_TIME, init=False)

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(self.every, self.step, self.origin)

    def observe(self, values: Int64s) -> Promises:
        return _observe_highest(self, values, self.slack)

    def elapse(self, now: int) -> int | None:
        return _elapse_lull(self, now, self.slack)

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest]

    def restore(self, state: Plain) -> None:
        _restore_highest(self, state)


@attrs.define
class TupleSlack:
    """Promise what n tuples of displacement allow; "n tuples late" has two readings (docs/semantics.md row 34).

    `position`: a larger value arrives at most n places before a tuple; the bound is the highest value without the last
    n (thesis 8.1). `larger`: at most n larger values arrive before a tuple, however far, as in the buffer of BSort; the
    bound is the (n+1)-th largest value seen. Memory: n values. A bound on the distance from the place in the sorted
    stream is neither: 2 0 3 1 is within two places of it, but breaks the promise of `position` with n = 2.
    """

    attribute: str
    n: int = attrs.field(validator=not_negative)
    displacement: str = attrs.field(
        default="position", kw_only=True, validator=attrs.validators.in_(("position", "larger"))
    )
    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    lull: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    jump: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _pace: Pace = attrs.field(init=False, repr=False)
    _highest: int = attrs.field(default=NO_TIME, init=False)
    _kept: Int64s = attrs.field(init=False, repr=False)
    """`position`: the last n values; `larger`: the n + 1 largest. NO_TIME where there are fewer."""

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(self.every, self.step, self.origin)
        self._kept = np.full(self.n + (self.displacement == "larger"), NO_TIME, np.int64)

    def observe(self, values: Int64s) -> Promises:
        values = np.asarray(values, np.int64)
        if len(values) == 0:
            return NOTHING
        if self.displacement == "larger":
            self._highest = max(self._highest, int(values.max()))
            bounds, self._kept = running_largest(self._kept, values)
            return self._pace.thin(bounds)
        sequence = np.concatenate([self._kept, values])
        released, self._kept = sequence[: len(values)], sequence[len(values) :]
        bounds = np.maximum.accumulate(released)
        np.maximum(bounds, self._highest, out=bounds)
        # Only values that n later tuples follow count, so the highest seen is not yet the bound.
        self._highest = int(bounds[-1])
        return self._pace.thin(bounds)

    def elapse(self, now: int) -> int | None:
        if self.lull is None:
            return None
        seen = max(self._highest, int(self._kept.max(initial=NO_TIME)))
        if seen != NO_TIME and now - seen <= self.lull:
            return None
        known = self._highest if self.displacement == "position" else int(self._kept.min())
        return self._pace.assume(max(now - self.lull, known))

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest, [int(v) for v in self._kept]]

    def restore(self, state: Plain) -> None:
        saved = listed(state, 5)
        self._pace.restore(saved[:3])
        (self._highest,) = integers(saved[3:4])
        self._kept = np.array(integers(listed(saved[4], len(self._kept))), np.int64)


@attrs.define
class BlockEnd:
    """Promise at each block's end that later tuples belong to later blocks (Fig 6-9, block-sorted disorder).

    Blocks are ascending and disjoint, in any order inside. Either they have a `length` on the attribute, one of them
    from `begin` on, and the bound is the start of the block in progress; or a `block` attribute numbers them (any
    integer that changes), and the bound is the highest value of the blocks before. A block has ended when the first
    tuple of another has been read.
    """

    attribute: str
    length: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    begin: int = attrs.field(default=0, kw_only=True)
    block: str | None = attrs.field(default=None, kw_only=True)
    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    jump: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _pace: Pace = attrs.field(init=False, repr=False)
    _highest: int = attrs.field(default=NO_TIME, init=False)
    _block: int = attrs.field(default=NO_TIME, init=False)

    def __attrs_post_init__(self) -> None:
        if (self.length is None) == (self.block is None):
            raise ValueError("blocks have a length= on the attribute or a block= attribute that numbers them: give one")
        self._pace = Pace(self.every, self.step, self.origin)

    def observe(self, values: Int64s) -> Promises:
        if self.length is None:
            raise ValueError(f'the blocks are numbered by "{self.block}": hand its values to observe_blocks')
        values = np.asarray(values, np.int64)
        if len(values) == 0:
            return NOTHING
        highest = max(self._highest, int(values.max()))
        started = int(floor_to(np.array([highest]), self.length, self.begin)[0])
        if started <= self._block:
            self._highest = highest
            return self._pace.thin_sparse(*NOTHING, len(values))
        bounds = floor_to(np.maximum.accumulate(values), self.length, self.begin)
        positions = np.flatnonzero(bounds > np.maximum(np.append(self._block, bounds[:-1]), self._block))
        self._highest, self._block = highest, started
        return self._pace.thin_sparse(positions, bounds[positions], len(values))

    def observe_blocks(self, values: Int64s, blocks: Int64s) -> Promises:
        """Read the next values and the numbers of their blocks, both of shape (n,); NO_TIME is no number."""
        values = np.asarray(values, np.int64)
        if len(values) == 0:
            return NOTHING
        numbered = np.flatnonzero(np.asarray(blocks) != NO_TIME)
        numbers = np.append(self._block, blocks[numbered])
        changes = numbered[(numbers[1:] != numbers[:-1]) & (numbers[:-1] != NO_TIME)]
        highest = np.maximum(np.maximum.accumulate(values), self._highest)
        before = np.append(self._highest, highest[:-1])
        self._highest, self._block = int(highest[-1]), int(numbers[-1])
        bounds = before[changes]
        said = bounds != NO_TIME
        return self._pace.thin_sparse(changes[said], bounds[said], len(values))

    def elapse(self, now: int) -> int | None:
        return None

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest, self._block]

    def restore(self, state: Plain) -> None:
        saved = integers(listed(state, 5))
        self._pace.restore(list(saved[:3]))
        self._highest, self._block = saved[3:]


@attrs.define
class Scheduled:
    """Promise the low-watermark itself (Eq. 4.1), by an earlier pass (SuffixMinimum) or an outline (Unfolding)."""

    attribute: str
    schedule: Schedule | Unfolding = attrs.field(repr=False)
    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    _pace: Pace = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(self.every, self.step, self.origin)

    def observe(self, values: Int64s) -> Promises:
        start = self._pace.count
        positions, bounds = self.schedule.between(start, start + len(values))
        return self._pace.thin_sparse(positions - start, bounds, len(values))

    def elapse(self, now: int) -> int | None:
        return None

    def state(self) -> Plain:
        return self._pace.state()

    def restore(self, state: Plain) -> None:
        self._pace.restore(listed(state, 3))


def _some_sources(_: object, attribute: object, sources: Mapping[str, tuple[int, int]]) -> None:
    if not sources:
        raise ValueError('a heartbeat needs the bounds of at least one source, e.g. {"Main1": (skew, delay)}')


@attrs.define
class Heartbeat:
    """Promise by the clock: min over sources of now - skew - delay (Srivastava and Widom), always assumed.

    `sources` maps a source's name to (skew, delay): how far its clock may be behind the engine's, and how long a tuple
    may be under way, both in the unit of the attribute. The data itself says nothing.
    """

    attribute: str
    sources: Mapping[str, tuple[int, int]] = attrs.field(validator=_some_sources)
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    _pace: Pace = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(None, self.step, self.origin)

    def observe(self, values: Int64s) -> Promises:
        self._pace.count += len(values)
        return NOTHING

    def elapse(self, now: int) -> int | None:
        return self._pace.assume(min(now - skew - delay for skew, delay in self.sources.values()))

    def state(self) -> Plain:
        return self._pace.state()

    def restore(self, state: Plain) -> None:
        self._pace.restore(listed(state, 3))


@attrs.define
class Embedded:
    """Read promises that stand in the data: a row whose `marker` is true is not a tuple but `[attribute < its value]`.

    With `group`, the promise also carries the row's value of each of these attributes that is not null: `[k = row's k,
    attribute < row's value]`; without a value of the attribute the groups are finished altogether. The Input operator
    takes such rows out of the stream; there is nothing to observe in the others.
    """

    attribute: str
    marker: str = attrs.field(kw_only=True)
    group: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=tuple)

    def observe(self, values: Int64s) -> Promises:
        return NOTHING

    def elapse(self, now: int) -> int | None:
        return None

    def state(self) -> Plain:
        return []

    def restore(self, state: Plain) -> None:
        listed(state, 0)


def _observe_highest(punctuator: Ordered | Slack, values: Int64s, slack: int) -> Promises:
    values = np.asarray(values, np.int64)
    if len(values) == 0:
        return NOTHING
    highest = max(punctuator._highest, int(values.max()))
    if punctuator._pace.quiet(len(values), _less(highest, slack)):
        punctuator._highest = highest
        return NOTHING
    bounds = np.maximum.accumulate(values)
    np.maximum(bounds, punctuator._highest, out=bounds)
    punctuator._highest = highest
    if slack:
        safe = (bounds > NO_TIME + slack) if slack > 0 else (bounds < NEVER) & (bounds > NO_TIME)
        bounds = np.where(safe, bounds - slack, NO_TIME if slack > 0 else bounds)
    return punctuator._pace.thin(bounds)


def _elapse_lull(punctuator: Ordered | Slack, now: int, slack: int) -> int | None:
    highest, lull = punctuator._highest, punctuator.lull
    if lull is None or (highest != NO_TIME and now - highest <= lull):
        return None
    return punctuator._pace.assume(max(now - lull, _less(highest, slack)))


def _restore_highest(punctuator: Ordered | Slack, state: Plain) -> None:
    saved = integers(listed(state, 4))
    punctuator._pace.restore(list(saved[:3]))
    punctuator._highest = saved[3]


def _less(value: int, slack: int) -> int:
    return NO_TIME if value == NO_TIME else min(max(value - slack, NO_TIME), NEVER)
