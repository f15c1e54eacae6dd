"""Windows by definition: every window is asked for its tuples, one after the other; nothing is computed from a tuple.

A table is a list of rows in arrival order. The functions give, for each window that has a tuple, its number, where it
begins and ends, and its rows; beginnings and ends are those of `extent`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from operators.data.page import Row, Scalar

Extent = tuple[int, int | None, int, list[Row]]


def sliding(
    table: Sequence[Row], wattr: str, *, size: int, slide: int, origin: int = 0, partial: bool = True
) -> Iterator[Extent]:
    """Give every window of Eq. 5.2 that has a tuple: extent(w) = [origin + (w+1)slide - size, origin + (w+1)slide)."""
    rows = [row for row in table if row[wattr] is not None]
    for wid in _numbers(rows, wattr, slide, origin, reach=size):
        end = origin + (wid + 1) * slide
        begin = end - size
        inside = [row for row in rows if begin <= _int(row[wattr]) < end]
        if inside and (partial or begin >= origin):
            yield wid, begin, end, inside


def landmark(table: Sequence[Row], wattr: str, *, slide: int, origin: int = 0) -> Iterator[Extent]:
    """Give every window of Eq. 5.8 that has a tuple, up to the first one that has all."""
    rows = [row for row in table if row[wattr] is not None]
    for wid in _numbers(rows, wattr, slide, origin, reach=0):
        end = origin + (wid + 1) * slide
        inside = [row for row in rows if _int(row[wattr]) < end]
        if inside:
            yield wid, None, end, inside
        if len(inside) == len(rows):
            return


def ranked(table: Sequence[Row], *, size: int, slide: int) -> Iterator[Extent]:
    """Give every window of `size` rows every `slide` rows, rows counted as they arrive, from 0."""
    return sliding([{**row, "row_num": n} for n, row in enumerate(table)], "row_num", size=size, slide=slide)


def grouped(rows: Sequence[Row], *keys: str) -> Iterator[tuple[tuple[Scalar, ...], list[Row]]]:
    """Give every combination of these attributes and its rows."""
    return by(rows, lambda row: tuple(row[key] for key in keys))


def by(rows: Sequence[Row], key: Callable[[Row], tuple[Scalar, ...]]) -> Iterator[tuple[tuple[Scalar, ...], list[Row]]]:
    """Give every value of a key and its rows."""
    found: dict[Hashable, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    yield from found.items()  # type: ignore[misc]


def total(rows: Sequence[Row], attribute: str) -> int:
    """Add up an attribute."""
    return sum(_int(row[attribute]) for row in rows)


def _numbers(rows: Sequence[Row], wattr: str, slide: int, origin: int, *, reach: int) -> range:
    """Give numbers of windows, more than enough: from before the first value to `reach` after the last."""
    values = [_int(row[wattr]) for row in rows]
    if not values:
        return range(0)
    return range((min(values) - origin) // slide - 2, (max(values) + reach - origin) // slide + 3)


def _int(value: Scalar) -> int:
    assert isinstance(value, int)
    return value
