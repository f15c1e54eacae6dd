"""Bits of integers and pieces of text are put together exactly: a bit that a shift would lose is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Page
from operators.errors import SchemaError
from operators.expression.bound import Bound, Datum, family
from operators.expression.common_type import united

_MOST_SHIFT: Final = 63


def bitwise(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Bind `a & b` or `a | b`, computed in the type that both sides fit; SchemaError for anything but integers."""
    _refuse_others(op, left, right, said)
    field, (one, other) = united([left, right], said)
    function = pc.bit_wise_and if op == "&" else pc.bit_wise_or
    return Bound(field, lambda page: function(one(page), other(page)))


def shift(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Bind `a << n` or `a >> n` for a constant n, computed in 64 bits; OverflowError where a bit would be lost."""
    _refuse_others(op, left, right, said)
    places = right.literal.value if right.literal is not None else None
    if not isinstance(places, int) or not 0 <= places <= _MOST_SHIFT:
        raise SchemaError(f"{said}: bits are shifted by a constant from 0 to {_MOST_SHIFT}, not {right.field.name}.")
    kind = pa.uint64() if pa.types.is_uint64(left.type) else pa.int64()
    by = pa.scalar(places, kind)

    def run(page: Page) -> Datum:
        value = left.run(page).cast(kind)
        if op == ">>":
            return pc.shift_right(value, by)
        found = pc.shift_left(value, by)
        if pc.any(pc.not_equal(pc.shift_right(found, by), value)).as_py():
            raise OverflowError(f"{said} does not fit {kind}.")
        return found

    return Bound(pa.field(said, kind), run)


def join_text(op: str, left: Bound, right: Bound, said: str) -> Bound:
    """Bind `a || b`, the text of a and behind it that of b; null where either is."""
    for side in (left, right):
        if family(side.field) != "text" and side.literal is None:
            hint = f"\n  Write cast({side.field.name}, 'string')."
            raise SchemaError(f'{said}: "{side.field.name}" is of type {side.type}; {op} is for text.{hint}')
    field, (one, other) = united([left, right], said)
    if family(field) != "text":
        raise SchemaError(f"{said}: {op} is for text; constants of text stand in quotes.")
    separator = pa.scalar("", field.type)
    return Bound(field, lambda page: pc.binary_join_element_wise(one(page), other(page), separator))


def _refuse_others(op: str, left: Bound, right: Bound, said: str) -> None:
    for side in (left, right):
        if family(side.field) != "integer":
            hint = _HINTS.get(family(side.field), "")
            raise SchemaError(f'{said}: "{side.field.name}" is of type {side.type}; {op} is for integers.{hint}')


_HINTS: Final = {
    "truth value": "\n  Conditions are joined by AND and OR.",
    "IP address": "\n  Write ip IN '10.0.0.0/8', or network(ip, 24).",
    "text": "\n  Flags of TCP have names: flags HAS 'SYN'.",
}


BINDERS: Final[dict[str, Callable[[str, Bound, Bound, str], Bound]]] = {
    "&": bitwise,
    "|": bitwise,
    "<<": shift,
    ">>": shift,
    "||": join_text,
}
"""What binds each operator."""
