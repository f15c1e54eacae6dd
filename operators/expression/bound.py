"""A bound expression fits one schema: its type is known, its constants are converted, only pages are missing."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

import attrs
import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import is_ip
from punctuation import Value

Constant: TypeAlias = int | float | Decimal | str | bytes | bool | None
Carry: TypeAlias = Callable[[Value], Value | None]
Datum: TypeAlias = "pa.Array | pa.Scalar"
Run: TypeAlias = Callable[[Page], Datum]


@attrs.frozen(eq=False)
class Literally:
    """The value of a bound constant; its presence says that there is one, for the value may be None."""

    value: Constant


@attrs.frozen(eq=False)
class Bound:
    """An expression that was checked against a schema."""

    field: pa.Field
    """Type, nullability and metadata of the result; named after the expression."""
    run: Run
    """Gives the result for a page: an array of its length, or a scalar where no attribute is involved."""
    literal: Literally | None = attrs.field(default=None, kw_only=True)
    attribute: str | None = attrs.field(default=None, kw_only=True)
    carry: Carry | None = attrs.field(default=None, kw_only=True)
    """Where the result never falls while `attribute` rises: gives from v a w such that x >= v makes the result >= w.

    So the promise `[attribute < v]` becomes `[result < w]`. None when no such bound can be given.
    """

    @property
    def type(self) -> pa.DataType:
        """Return the Arrow type of the result."""
        return self.field.type

    def evaluate(self, page: Page) -> pa.Array:
        """Return the result for every tuple of a page, shape (n,)."""
        found = self.run(page)
        return pa.repeat(found, len(page)) if isinstance(found, pa.Scalar) else found


def family(field: pa.Field) -> str:
    """Name in words what a field holds; only values of one family compare."""
    kind = field.type
    if is_ip(field):
        return "IP address"
    if pa.types.is_dictionary(kind):
        return family(pa.field(field.name, kind.value_type))
    for test, name in _FAMILIES:
        if test(kind):
            return name
    return str(kind)


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "truth value"),
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_duration, "duration"),
    (pa.types.is_date, "date"),
    (pa.types.is_time, "time of day"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
)

WHOLE = frozenset({"integer", "timestamp", "duration", "date", "time of day"})
"""Families whose values are integers below the surface."""

NUMBERS = frozenset({"integer", "number"})
"""Families that are computed with; decimals are only compared."""

COMPARED = NUMBERS | {"decimal"}
"""Families that compare with one another, exactly."""
