"""Numbers of different types compare exactly, as Python compares them: none is rounded to the type of the other."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Page
from operators.errors import SchemaError
from operators.expression.bound import Bound, Datum, Run
from operators.kernels.data.decimals import LIMBS, order_floats

Compare = Callable[[Datum, Datum], Datum]

_NUMPY: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WIDEST = 76
"""Digits of the widest decimal."""
_EXACT = 2.0**53
"""Every integer up to this is a float64."""


def integers_with_floats(op: str, left: Bound, right: Bound, function: Compare) -> Run:
    """Compare integers with floats; integers of up to 32 bits are floats as they are."""
    if left.type.bit_width <= 32:
        return lambda page: function(_floats(left.run(page)), _floats(right.run(page)))

    def run(page: Page) -> Datum:
        one, other = (_array(side.run(page), len(page)) for side in (left, right))
        integers, floats = _numbers(one), np.asarray(_numbers(other), np.float64)
        rounded = integers.astype(np.float64)
        found = _NUMPY[op](rounded, floats)
        # Rounding keeps the order, so that only those that meet when rounded are not told apart yet.
        ties = np.flatnonzero((rounded == floats) & (np.abs(rounded) >= _EXACT))
        if len(ties):
            whole, exact = floats[ties], integers[ties]
            beyond = whole >= 2.0 ** (64 if integers.dtype == np.uint64 else 63)
            held = np.where(beyond, 0.0, whole).astype(integers.dtype)
            less, greater = _NUMPY["<"](exact, held), _NUMPY[">"](exact, held)
            order = np.where(beyond | less, -1, np.where(greater, 1, 0))
            found[ties] = _NUMPY[op](order, 0)
        return _masked(found, one, other)

    return run


def decimals_with_floats(op: str, left: Bound, right: Bound) -> Run:
    """Compare decimals with floats: as whole numbers, after the powers of ten and two have gone to the other side."""
    scale = left.type.scale
    wide = pa.decimal256(_WIDEST, scale)

    def run(page: Page) -> Datum:
        one, other = (_array(side.run(page), len(page)) for side in (left, right))
        floats = np.asarray(_numbers(other), np.float64)
        finite = np.isfinite(floats)
        mantissas, exponents = np.frexp(np.where(finite, floats, 0.0))
        order = np.empty(len(page), np.int8)
        left_room, right_room = np.empty(LIMBS, np.int64), np.empty(LIMBS, np.int64)
        whole = (mantissas * _EXACT).astype(np.int64)
        order_floats(_limbs(one, wide), scale, whole, exponents.astype(np.int64) - 53, left_room, right_room, order)
        found = _NUMPY[op](np.where(finite, order, 0), np.where(finite, 0.0, floats))
        return _masked(found, one, other)

    return run


def decimals_with_wholes(left: Bound, right: Bound, function: Compare, said: str) -> Run:
    """Compare decimals with integers, or with decimals of another precision, in a type that holds both."""
    kinds = [side.type for side in (left, right)]
    wholes = max(kind.precision - kind.scale if pa.types.is_decimal(kind) else 20 for kind in kinds)
    scale = max(kind.scale if pa.types.is_decimal(kind) else 0 for kind in kinds)
    if wholes + scale > _WIDEST:
        raise SchemaError(
            f"{said}: no type holds both {left.type} and {right.type} exactly.\n"
            '  Cast one, e.g. cast(x, "float64"); floats and decimals compare exactly.'
        )
    wide = pa.decimal128(wholes + scale, scale) if wholes + scale <= 38 else pa.decimal256(wholes + scale, scale)
    return lambda page: function(left.run(page).cast(wide), right.run(page).cast(wide))


def _floats(found: Datum) -> Datum:
    return found if found.type == pa.float64() else pc.cast(found, pa.float64(), safe=False)


def _array(found: Datum, length: int) -> pa.Array:
    return pa.repeat(found, length) if isinstance(found, pa.Scalar) else found


def _numbers(found: pa.Array) -> npt.NDArray[np.generic]:
    """Return numbers as numpy sees them; what stands where there is none is 0."""
    return np.asarray((found.fill_null(0) if found.null_count else found).to_numpy(zero_copy_only=False))


def _limbs(found: pa.Array, wide: pa.DataType) -> npt.NDArray[np.int64]:
    """Return decimals in eight limbs of 32 bits from the least on, shape (n, 8)."""
    column = found.cast(wide)
    data = column.buffers()[1]
    assert data is not None
    limbs = np.frombuffer(data, "<u4", 8 * len(column), 32 * column.offset)
    return limbs.reshape(-1, 8).astype(np.int64)


def _masked(found: npt.NDArray[np.bool_], one: pa.Array, other: pa.Array) -> pa.Array:
    """Put nulls where either side is null."""
    if not one.null_count and not other.null_count:
        return pa.array(found)
    unknown = np.asarray(pc.or_(one.is_null(), other.is_null()).to_numpy(zero_copy_only=False))
    return pa.array(found, mask=unknown)
