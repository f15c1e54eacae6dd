"""A punctuation promises that no later tuple of its stream matches its patterns.

It is a conjunction of patterns on named attributes; an attribute that is not named carries the wildcard. `END` names no
attribute at all, so it matches everything: nothing comes after it. `[ts < v]` is linear progress, v the low-watermark;
`[srcIP = k, ts < v]` is progress of one group; `[left.ts < v, right.ts < u]` is one joint promise, a box, no two slabs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import attrs
import numpy as np
import numpy.typing as npt

from punctuation.pattern import (
    ANY,
    Any,
    Below,
    Equals,
    Mask,
    OneOf,
    Pattern,
    Range,
    Value,
    includes,
    intersect,
)


def _ordered(
    patterns: Mapping[str, Pattern] | Iterable[tuple[str, Pattern]],
) -> tuple[tuple[str, Pattern], ...]:
    if isinstance(patterns, tuple) and len(patterns) == 1:
        return () if isinstance(patterns[0][1], Any) else patterns
    kept = [item for item in dict(patterns).items() if not isinstance(item[1], Any)]
    return tuple(kept if len(kept) < 2 else sorted(kept, key=lambda item: item[0]))


@attrs.frozen
class Punctuation:
    """Promise that no later tuple matches every one of `patterns` (thesis, section 2.1).

    >>> p = Punctuation({"ts": Below(10)})
    >>> str(p), p.matches({"ts": 9}), p.matches({"ts": 10})
    ('[ts < 10]', True, False)
    """

    patterns: tuple[tuple[str, Pattern], ...] = attrs.field(converter=_ordered)
    assumed: bool = attrs.field(default=False, kw_only=True, eq=False)
    """True when a timer or a heartbeat concluded it, rather than the data."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Name the attributes that are constrained."""
        return tuple(name for name, _ in self.patterns)

    @property
    def is_end(self) -> bool:
        """Return whether this is the promise that nothing at all will come."""
        return not self.patterns

    def pattern(self, attribute: str) -> Pattern:
        """Return the pattern on one attribute, the wildcard where none is set."""
        for name, pattern in self.patterns:
            if name == attribute:
                return pattern
        return ANY

    def matches(self, row: Mapping[str, Value | None]) -> bool:
        """Return whether one tuple matches; a null matches the wildcard only."""
        for name, pattern in self.patterns:
            value = row[name]
            if value is None or not pattern.contains(value):
                return False
        return True

    def mask(self, columns: Mapping[str, npt.NDArray[np.generic]], length: int) -> Mask:
        """Return for each of `length` tuples, given as columns of shape (length,), whether it matches."""
        matched = np.ones(length, np.bool_)
        for name, pattern in self.patterns:
            matched &= pattern.mask(columns[name])
        return matched

    def implies(self, other: Punctuation) -> bool:
        """Return whether this promise contains `other`: every tuple that matches `other` matches this one."""
        return all(includes(pattern, other.pattern(name)) for name, pattern in self.patterns)

    def meet(self, other: Punctuation) -> Punctuation | None:
        """Return the promise that holds when each of two streams made one of the two; None when it is empty."""
        both = dict(self.patterns)
        for name, pattern in other.patterns:
            common = intersect(both.get(name, ANY), pattern)
            if common is None:
                return None
            both[name] = common
        return Punctuation(both, assumed=self.assumed or other.assumed)

    def onto(self, kept: Mapping[str, str]) -> Punctuation | None:
        """Return the same promise after a projection that keeps attributes, old name to new name.

        None when a constrained attribute is not kept: without it the promise would claim more than was promised.
        """
        if any(name not in kept for name, _ in self.patterns):
            return None
        return Punctuation({kept[name]: pattern for name, pattern in self.patterns}, assumed=self.assumed)

    def bound(self, attribute: str) -> Value | None:
        """Return v when this is the linear promise `[attribute < v]` and nothing else."""
        if len(self.patterns) != 1 or self.patterns[0][0] != attribute:
            return None
        return below(self.patterns[0][1])

    def __str__(self) -> str:
        if self.is_end:
            return "[END]"
        return "[" + ", ".join(f"{name} {pattern}" for name, pattern in self.patterns) + "]"


END = Punctuation({})


def before(attribute: str, bound: Value, *, assumed: bool = False) -> Punctuation:
    """Make the linear promise `[attribute < bound]`."""
    return Punctuation(((attribute, Below(bound)),), assumed=assumed)


def below(pattern: Pattern) -> Value | None:
    """Return v when the pattern is `< v`, also for `<= v` on integers, which is `< v + 1`."""
    if isinstance(pattern, Range) and pattern.low is None and pattern.high is not None:
        if pattern.high_open:
            return pattern.high
        if isinstance(pattern.high, int):
            return pattern.high + 1
    return None


def least(pattern: Pattern) -> int | None:
    """Return v when the pattern is `>= v` on integers; `> v` is `>= v + 1`.

    >>> least(Range(3)), least(Range(3, low_open=True)), least(Range(3, 9))
    (3, 4, None)
    """
    if isinstance(pattern, Range) and pattern.high is None and isinstance(pattern.low, int):
        return pattern.low + pattern.low_open
    return None


def whole(bound: object) -> int | None:
    """Return a bound on 64-bit integers as one of them: below 2.5 is below 3; None for text and NaN.

    >>> whole(2.5), whole(float("inf")) == whole(2**70) == 2**63 - 1, whole(float("nan"))
    (3, True, None)
    """
    if not isinstance(bound, int | float) or math.isnan(bound):
        return None
    return math.ceil(max(-(2**63), min(bound, 2**63 - 1)))


def constants(pattern: Pattern) -> frozenset[Value] | None:
    """Return the listed values of a constant or a list pattern, None for any other pattern."""
    if isinstance(pattern, Equals):
        return frozenset((pattern.value,))
    return pattern.values if isinstance(pattern, OneOf) else None
