"""A pattern constrains one attribute: a wildcard, a constant, a range with open or closed ends, or a list.

Patterns are sets of values. A punctuation is a conjunction of them, so everything the engine asks of a punctuation
(does this tuple match, does this promise imply that one, what do both promise) comes down to three questions on sets:
membership, inclusion and intersection (Li's thesis, section 2.1, patterns p1 to p3).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

Value: TypeAlias = int | float | str | bytes
Mask: TypeAlias = npt.NDArray[np.bool_]


class Pattern(Protocol):
    """A set of values of one attribute."""

    def contains(self, value: Value) -> bool:
        """Return whether one value is in the set."""
        ...

    def mask(self, values: npt.NDArray[np.generic]) -> Mask:
        """Return for every entry of a column, shape (n,), whether it is in the set."""
        ...


@attrs.frozen
class Any:
    """The wildcard `*`: every value, null included."""

    def contains(self, value: Value) -> bool:
        return True

    def mask(self, values: npt.NDArray[np.generic]) -> Mask:
        return np.ones(len(values), np.bool_)

    def __str__(self) -> str:
        return "*"


ANY = Any()


@attrs.frozen
class Equals:
    """One constant."""

    value: Value

    def contains(self, value: Value) -> bool:
        return value == self.value

    def mask(self, values: npt.NDArray[np.generic]) -> Mask:
        return np.asarray(values == _like(self.value, values), np.bool_)

    def __str__(self) -> str:
        return f"= {self.value}"


@attrs.frozen
class Range:
    """Values between two ends, each open or closed or missing; the linear promise `[ts < v]` is `Below(v)`."""

    low: Value | None = None
    high: Value | None = None
    low_open: bool = attrs.field(default=False, kw_only=True)
    high_open: bool = attrs.field(default=False, kw_only=True)

    def contains(self, value: Value) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):  # pyright: ignore[reportOperatorIssue]
            return False
        return self.high is None or not (
            value > self.high or (self.high_open and value == self.high)  # pyright: ignore[reportOperatorIssue]
        )

    def mask(self, values: npt.NDArray[np.generic]) -> Mask:
        inside = np.ones(len(values), np.bool_)
        if self.low is not None:
            low = _like(self.low, values)
            inside &= (values > low) if self.low_open else (values >= low)  # pyright: ignore[reportOperatorIssue]
        if self.high is not None:
            high = _like(self.high, values)
            inside &= (values < high) if self.high_open else (values <= high)  # pyright: ignore[reportOperatorIssue]
        return inside

    def __str__(self) -> str:
        if self.low is None and self.high is not None:
            return f"{'<' if self.high_open else '<='} {self.high}"
        if self.high is None and self.low is not None:
            return f"{'>' if self.low_open else '>='} {self.low}"
        if self.low is None:
            return "*"
        return f"in {'(' if self.low_open else '['}{self.low}, {self.high}{')' if self.high_open else ']'}"


def Below(bound: Value) -> Range:
    """Make the pattern `< bound`, the form in which linear progress travels (thesis Eq. 4.1)."""
    return Range(None, bound, high_open=True)


def AtMost(bound: Value) -> Range:
    """Make the pattern `<= bound`; on integers it is normalised to `< bound + 1`."""
    if isinstance(bound, int):
        return Below(bound + 1)
    return Range(None, bound)


def Between(low: Value, high: Value) -> Range:
    """Make the pattern `[low, high)`, closed below and open above."""
    return Range(low, high, high_open=True)


@attrs.frozen
class OneOf:
    """A list of constants; how many groups with one bound travel as one punctuation."""

    values: frozenset[Value] = attrs.field(converter=frozenset)

    def contains(self, value: Value) -> bool:
        return value in self.values

    def mask(self, values: npt.NDArray[np.generic]) -> Mask:
        if values.dtype == object:
            return np.fromiter((v in self.values for v in values), np.bool_, len(values))
        wanted = np.array(list(self.values))
        if values.dtype.kind == "S":
            wanted = wanted.astype(values.dtype)
        return np.isin(values, wanted)

    def __str__(self) -> str:
        shown = sorted(self.values, key=repr)
        head = ", ".join(str(v) for v in shown[:3])
        return f"in {{{head}{', ...' if len(shown) > 3 else ''}}}"


def one_of(values: Iterable[Value]) -> Equals | OneOf:
    """Make the smallest pattern for a list of constants: a constant when there is one."""
    distinct = frozenset(values)
    if len(distinct) == 1:
        return Equals(next(iter(distinct)))
    return OneOf(distinct)


def includes(larger: Pattern, smaller: Pattern) -> bool:
    """Return whether every value of `smaller` is in `larger`; sound, and complete but for gaps between integers."""
    if isinstance(larger, Any):
        return True
    if isinstance(smaller, Any):
        return False
    if isinstance(smaller, Equals):
        return larger.contains(smaller.value)
    if isinstance(smaller, OneOf):
        return all(larger.contains(v) for v in smaller.values)
    if isinstance(larger, Range) and isinstance(smaller, Range):
        return _low_reaches(larger, smaller) and _high_reaches(larger, smaller)
    return False


def intersect(a: Pattern, b: Pattern) -> Pattern | None:
    """Return the values that are in both patterns, or None when there are none."""
    if isinstance(a, Any):
        return b
    if isinstance(b, Any):
        return a
    if isinstance(a, Equals):
        return a if b.contains(a.value) else None
    if isinstance(b, Equals):
        return b if a.contains(b.value) else None
    if isinstance(a, OneOf) or isinstance(b, OneOf):
        listed, other = (a, b) if isinstance(a, OneOf) else (b, a)
        assert isinstance(listed, OneOf)
        common = [v for v in listed.values if other.contains(v)]
        return one_of(common) if common else None
    assert isinstance(a, Range) and isinstance(b, Range)
    lower = b if _low_reaches(a, b) else a
    upper = b if _high_reaches(a, b) else a
    found = Range(lower.low, upper.high, low_open=lower.low_open, high_open=upper.high_open)
    if found.low is not None and found.high is not None:
        if found.low > found.high:  # pyright: ignore[reportOperatorIssue]
            return None
        if found.low == found.high and (found.low_open or found.high_open):
            return None
    return found


def _low_reaches(larger: Range, smaller: Range) -> bool:
    """Return whether `larger` starts no later than `smaller`."""
    if larger.low is None:
        return True
    if smaller.low is None:
        return False
    if larger.low == smaller.low:
        return not larger.low_open or smaller.low_open
    return larger.low < smaller.low  # pyright: ignore[reportOperatorIssue]


def _high_reaches(larger: Range, smaller: Range) -> bool:
    """Return whether `larger` ends no earlier than `smaller`."""
    if larger.high is None:
        return True
    if smaller.high is None:
        return False
    if larger.high == smaller.high:
        return not larger.high_open or smaller.high_open
    return larger.high > smaller.high  # pyright: ignore[reportOperatorIssue]


def _like(value: Value, values: npt.NDArray[np.generic]) -> object:
    """Return a constant that compares with a column: byte strings take the column's width."""
    if isinstance(value, bytes) and values.dtype.kind == "S":
        return np.array(value, values.dtype)[()]
    return value
