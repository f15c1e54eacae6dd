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
class _Stepped:
    """A punctuator whose bounds are at the granularity of a step."""

    attribute: str
    step: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    origin: int = attrs.field(default=0, kw_only=True)
    _pace: Pace = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._pace = Pace(None, self.step, self.origin)

    def elapse(self, now: int) -> int | None:
        return None

    def state(self) -> Plain:
        return self._pace.state()

    def restore(self, state: Plain) -> None:
        self._pace.restore(listed(state, 3))


@attrs.define
class _Paced(_Stepped):
    """A punctuator that may also count tuples from one promise to the next."""

    every: int | None = attrs.field(default=None, kw_only=True, validator=positive)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._pace.every = self.every


@attrs.define
class _Clamped(_Paced):
    """A punctuator of the highest values, of which one that jumps too far moves no promise."""

    jump: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _highest: int = attrs.field(default=NO_TIME, init=False)


@attrs.define
class _Highest(_Clamped):
    """A punctuator whose bound is the highest value less a slack; by a clock it may conclude that the data has a lull.

    A slack of -1 is one tick more than the highest value.
    """

    lull: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)

    @property
    def _behind(self) -> int:
        raise NotImplementedError

    def observe(self, values: Int64s) -> Promises:
        values = np.asarray(values, np.int64)
        if len(values) == 0:
            return NOTHING
        slack, highest = self._behind, max(self._highest, int(values.max()))
        if self._pace.quiet(len(values), _less(highest, slack)):
            self._highest = highest
            return NOTHING
        bounds = np.maximum.accumulate(values)
        np.maximum(bounds, self._highest, out=bounds)
        self._highest = highest
        if slack:
            safe = (bounds > NO_TIME + slack) if slack > 0 else (bounds < NEVER) & (bounds > NO_TIME)
            bounds = np.where(safe, bounds - slack, NO_TIME if slack > 0 else bounds)
        return self._pace.thin(bounds)

    def elapse(self, now: int) -> int | None:
        if self.lull is None or (self._highest != NO_TIME and now - self._highest <= self.lull):
            return None
        return self._pace.assume(max(now - self.lull, _less(self._highest, self._behind)))

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest]

    def restore(self, state: Plain) -> None:
        saved = integers(listed(state, 4))
        self._pace.restore(list(saved[:3]))
        self._highest = saved[3]


@attrs.define
class Ordered(_Highest):
    """Promise the last value: the stream is sorted, equal values may follow (docs/semantics.md row 35).

    `strictly`: no value occurs twice, so the promise is the last value + 1.
    """

    strictly: bool = attrs.field(default=False, kw_only=True)

    @property
    def _behind(self) -> int:
        return -1 if self.strictly else 0


@attrs.define
class Slack(_Highest):
    """Promise the highest value less a slack: no tuple is further behind than that."""

    slack: int = attrs.field(validator=not_negative)

    @property
    def _behind(self) -> int:
        return self.slack


@attrs.define
class TupleSlack(_Clamped):
    """Promise what n tuples of displacement allow; "n tuples late" has two readings (docs/semantics.md row 34).

    `position`: a larger value arrives at most n places before a tuple; the bound is the highest value without the last
    n (thesis 8.1). `larger`: at most n larger values arrive before a tuple, however far, as in the buffer of BSort; the
    bound is the (n+1)-th largest value seen. Memory: n values. A bound on the distance from the place in the sorted
    stream is neither: 2 0 3 1 is within two places of it, but breaks the promise of `position` with n = 2.
    """

    n: int = attrs.field(validator=not_negative)
    displacement: str = attrs.field(
        default="position", kw_only=True, validator=attrs.validators.in_(("position", "larger"))
    )
    lull: int | None = attrs.field(default=None, kw_only=True, validator=not_negative)
    _kept: Int64s = attrs.field(init=False, repr=False)
    """`position`: the last n values; `larger`: the n + 1 largest. NO_TIME where there are fewer."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
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
class BlockEnd(_Clamped):
    """Promise at each block's end that later tuples belong to later blocks (Fig 6-9, block-sorted disorder).

    Blocks are ascending and disjoint, in any order inside. Either they have a `length` on the attribute, one of them
    from `begin` on, and the bound is the start of the block in progress; or a `block` attribute numbers them (any
    integer that changes), and the bound is the highest value of the blocks before. A block has ended when the first
    tuple of another has been read.
    """

    length: int | None = attrs.field(default=None, kw_only=True, validator=positive)
    begin: int = attrs.field(default=0, kw_only=True)
    block: str | None = attrs.field(default=None, kw_only=True)
    _block: int = attrs.field(default=NO_TIME, init=False)

    def __attrs_post_init__(self) -> None:
        if (self.length is None) == (self.block is None):
            raise ValueError("blocks have a length= on the attribute or a block= attribute that numbers them: give one")
        super().__attrs_post_init__()

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

    def state(self) -> Plain:
        return [*self._pace.state(), self._highest, self._block]

    def restore(self, state: Plain) -> None:
        saved = integers(listed(state, 5))
        self._pace.restore(list(saved[:3]))
        self._highest, self._block = saved[3:]


@attrs.define
class Scheduled(_Paced):
    """Promise the low-watermark itself (Eq. 4.1), by an earlier pass (SuffixMinimum) or an outline (Unfolding)."""

    schedule: Schedule | Unfolding = attrs.field(repr=False)

    def surely(self, bound: int) -> bool:
        """Return whether no value can be below a bound: it was promised of the very values that are observed.

        An outline is checked against the values of each piece before any of them is observed; what an earlier pass saw
        may have changed since.
        """
        return isinstance(self.schedule, Unfolding) and bound <= self._pace.promised

    def observe(self, values: Int64s) -> Promises:
        start = self._pace.count
        positions, bounds = self.schedule.between(start, start + len(values))
        return self._pace.thin_sparse(positions - start, bounds, len(values))


def _some_sources(_: object, attribute: object, sources: Mapping[str, tuple[int, int]]) -> None:
    if not sources:
        raise ValueError('a heartbeat needs the bounds of at least one source, e.g. {"Main1": (skew, delay)}')


@attrs.define
class Heartbeat(_Stepped):
    """Promise by the clock: min over sources of now - skew - delay (Srivastava and Widom), always assumed.

    `sources` maps a source's name to (skew, delay): how far its clock may be behind the engine's, and how long a tuple
    may be under way, both in the unit of the attribute. The data itself says nothing.
    """

    sources: Mapping[str, tuple[int, int]] = attrs.field(validator=_some_sources)

    def observe(self, values: Int64s) -> Promises:
        self._pace.count += len(values)
        return NOTHING

    def elapse(self, now: int) -> int | None:
        return self._pace.assume(min(now - skew - delay for skew, delay in self.sources.values()))


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


def _less(value: int, slack: int) -> int:
    return NO_TIME if value == NO_TIME else min(max(value - slack, NO_TIME), NEVER)
