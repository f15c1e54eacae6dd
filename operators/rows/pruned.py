"""A first-n operator that holds n tuples needs no tuple that comes after all of them in the order."""

from __future__ import annotations

import math

import pyarrow as pa

from operators.data.page import Page
from punctuation import Below, Punctuation, Range, Value


def behind(page: Page, row: int, name: str, *, descending: bool) -> Punctuation | None:
    """Return the tuples that come strictly after one tuple in the order of an attribute.

    Nulls and NaN, which come last, are not among them: no range of values has them. None where the tuple itself has no
    value, or the attribute a type without constants for a punctuation.

    >>> from operators.data.schema import Schema
    >>> page = Page.of(Schema.of(x=pa.int64()), {"x": [7, 4]})
    >>> str(behind(page, 1, "x", descending=True)), str(behind(page, 1, "x", descending=False))
    ('[x < 4]', '[x >= 5]')
    """
    value = _constant(page, row, name)
    if value is None:
        return None
    if descending:
        return Punctuation({name: Below(value)})
    return Punctuation({name: Range(value + 1) if isinstance(value, int) else Range(value, low_open=True)})


def _constant(page: Page, row: int, name: str) -> Value | None:
    """Return the value of an attribute as punctuations write it; None where it is null, NaN, or of another type."""
    column = page.column(name)
    kind = column.type
    plain = pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    if not (plain or pa.types.is_temporal(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return None
    if not column[row].is_valid:
        return None
    if pa.types.is_temporal(kind):
        return int(page.ticks(name)[row])
    value: int | float | str = column[row].as_py()
    return None if isinstance(value, float) and math.isnan(value) else value
