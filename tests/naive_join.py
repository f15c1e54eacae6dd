"""Joins by definition: every pair of tuples is asked whether it belongs together; nothing is remembered or dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from operators.data.page import Row, Scalar
from punctuation import Equals, Progress, Punctuation

Meets: TypeAlias = Callable[[int, int], bool]
"""Whether a left and a right tick are within the window."""
Together: TypeAlias = Callable[[Row, Row], bool]


def band(left: int, right: int, *, closed: bool = False) -> Meets:
    """Read RANGE as how long a tuple stays: tuples meet that are, or ever were, stored at one time (row 22)."""
    if closed:
        return lambda one, other: one - right <= other <= one + left
    return lambda one, other: one - right < other < one + left


def same_window(size: int, origin: int = 0) -> Meets:
    """Ask for one tumbling window that has both."""
    return lambda one, other: (one - origin) // size == (other - origin) // size


def related(
    left: tuple[int, int], right: tuple[int, int], pairs: Callable[[int, int], bool], *, reach: int = 60
) -> Meets:
    """Ask for a window of the left tuple and a related one of the right, (size, slide) each, by extents (Eq. 5.2)."""

    def extents(window: tuple[int, int], tick: int) -> Iterator[int]:
        size, slide = window
        return (w for w in range(-reach, reach) if (w + 1) * slide - size <= tick < (w + 1) * slide)

    return lambda one, other: any(pairs(i, j) for i in extents(left, one) for j in extents(right, other))


def naive_join(
    left: Sequence[Row],
    right: Sequence[Row],
    *,
    meets: Meets,
    times: tuple[str, str],
    on: Sequence[tuple[str, str]] = (),
    residual: Together | None = None,
    kind: str = "inner",
    names: Mapping[str, str] | None = None,
    columns: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> list[Row]:
    """Join two tables; `names` renames right attributes, `columns` are those of each side."""
    renamed = names or {}

    def both(one: Row | None, other: Row | None) -> Row:
        row: Row = {name: None if one is None else one[name] for name in columns[0]}
        row |= {renamed.get(name, name): None if other is None else other[name] for name in columns[1]}
        return row

    together = [
        (i, j)
        for i, one in enumerate(left)
        for j, other in enumerate(right)
        if joins(one, other, meets=meets, times=times, on=on) and (residual is None or residual(one, other))
    ]
    lefts, rights = {i for i, _ in together}, {j for _, j in together}
    if kind == "semi":
        return [row for i, row in enumerate(left) if i in lefts]
    if kind == "anti":
        return [row for i, row in enumerate(left) if i not in lefts]
    found = [both(left[i], right[j]) for i, j in together]
    if kind in ("left", "full"):
        found += [both(row, None) for i, row in enumerate(left) if i not in lefts]
    if kind in ("right", "full"):
        found += [both(None, row) for j, row in enumerate(right) if j not in rights]
    return found


def joins(left: Row, right: Row, *, meets: Meets, times: tuple[str, str], on: Sequence[tuple[str, str]]) -> bool:
    """Tell whether two tuples have equal keys and times within the window."""
    one, other = left[times[0]], right[times[1]]
    if not isinstance(one, int) or not isinstance(other, int):
        return False
    return all(left[a] is not None and left[a] == right[b] for a, b in on) and meets(one, other)


def may_still_meet(
    row: Row,
    port: int,
    progress: Progress,
    *,
    meets: Meets,
    times: tuple[str, str],
    on: Sequence[tuple[str, str]] = (),
    reach: int = 40,
) -> bool:
    """Tell whether the other input may still bring a partner, by trying every tick that one could have."""
    own, other = row[times[port]], times[1 - port]
    keys: dict[str, Scalar] = {pair[1 - port]: row[pair[port]] for pair in on}
    if not isinstance(own, int) or None in keys.values():
        return False
    for tick in range(own - reach, own + reach):
        if meets(own, tick) if port == 0 else meets(tick, own):
            patterns = {name: Equals(value) for name, value in keys.items() if value is not None}
            if not progress.implies(Punctuation({**patterns, other: Equals(tick)})):
                return True
    return False
