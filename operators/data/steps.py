"""Attributes that count in steps: integers, times, and decimals, which count in units of their last digit.

Windows, joins, sorting and promises are over such attributes, in ticks: whole numbers of steps, as int64.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.kernels.ticks import BEFORE_ALL, FOREVER

Int64s = npt.NDArray[np.int64]

DIGITS: Final = 19
"""Digits of a decimal that counts in steps, at most. All of 18 digits fit int64; bounds of windows may have 19."""
_WORDS: Final = 2
"""Words of 64 bits in a decimal."""


def in_steps(kind: pa.DataType) -> bool:
    """Return whether an attribute of a type counts in steps, so that windows, joins and promises can be over it.

    >>> [in_steps(kind) for kind in (pa.int8(), pa.date32(), pa.decimal128(18, 2), pa.decimal128(38, 2), pa.float64())]
    [True, True, True, False, False]
    """
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or is_stepped_decimal(kind)


def is_stepped_decimal(kind: pa.DataType) -> bool:
    """Return whether a type is that of decimals which count in steps: of 128 bits, with few enough digits."""
    return bool(pa.types.is_decimal128(kind)) and kind.precision <= DIGITS


def same_steps(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether ticks of two types are as long: of integers, of one type of time, of decimals with equal places.

    >>> same_steps(pa.int8(), pa.int64()), same_steps(pa.decimal128(5, 2), pa.decimal128(19, 2))
    (True, True)
    """
    if is_stepped_decimal(one) and is_stepped_decimal(other):
        return bool(one.scale == other.scale)
    return bool(one == other or (pa.types.is_integer(one) and pa.types.is_integer(other)))


def held_as_ticks(kind: pa.DataType) -> bool:
    """Return whether promises hold values of a type as ticks, because Python or NumPy have another form of them."""
    return bool(pa.types.is_temporal(kind)) or is_stepped_decimal(kind)


def unit_of(kind: pa.DataType) -> Fraction:
    """Return how much one tick of a number is.

    >>> unit_of(pa.decimal128(18, 2)), unit_of(pa.int32())
    (Fraction(1, 100), Fraction(1, 1))
    """
    return Fraction(10) ** -kind.scale if is_stepped_decimal(kind) else Fraction(1)


def bounds_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the begins and ends of windows over an attribute of a type.

    They can have more digits than the attribute: a window behind 9.99 ends at 10.00.

    >>> [str(bounds_type(kind)) for kind in (pa.decimal128(3, 2), pa.timestamp("s"), pa.int32())]
    ['decimal128(19, 2)', 'timestamp[s]', 'int64']
    """
    if is_stepped_decimal(kind):
        return pa.decimal128(DIGITS, kind.scale)
    return kind if pa.types.is_temporal(kind) else pa.int64()


def decimal_ticks(column: pa.Array) -> pa.Array:
    """Return decimals in ticks, as int64 with the same nulls; beyond int64 the largest and the least of these."""
    n, data = len(column), column.buffers()[1]
    if n == 0 or data is None:
        return pa.nulls(n, pa.int64())
    words = np.frombuffer(data, np.int64)[_WORDS * column.offset : _WORDS * (column.offset + n)]
    low, high = np.ascontiguousarray(words[0::2]), words[1::2]
    if column.type.precision == DIGITS and (beyond := high != low >> 63).any():
        low = np.where(beyond, np.where(high < 0, BEFORE_ALL, FOREVER), low)
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(low, mask=mask)


def decimal_column(ticks: Int64s, kind: pa.DataType, absent: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Make a column of decimals from ticks, null where they are `absent`.

    >>> decimal_column(np.array([-5, 1234]), pa.decimal128(18, 2)).to_pylist()
    [Decimal('-0.05'), Decimal('12.34')]
    """
    words = np.empty((len(ticks), _WORDS), np.int64)
    words[:, 0] = ticks
    words[:, 1] = ticks >> 63
    valid = None
    if absent is not None and absent.any():
        valid = pa.array(~absent).buffers()[1]
    return pa.Array.from_buffers(kind, len(ticks), [valid, pa.py_buffer(words)])


def plain_ticks(column: pa.Array) -> list[Any]:
    """Return a column whose values promises hold as ticks as Python integers, None where it is null."""
    kind = column.type
    if is_stepped_decimal(kind):
        return decimal_ticks(column).to_pylist()
    narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
    return column.view(pa.int32() if narrow else pa.int64()).to_pylist()


def from_ticks(ticks: pa.Array, kind: pa.DataType) -> pa.Array:
    """Make a column of a type whose values promises hold as ticks from such; OverflowError where one does not fit."""
    if is_stepped_decimal(kind):
        whole = ticks.cast(pa.int64())
        absent = whole.is_null().to_numpy(zero_copy_only=False)
        found = decimal_column(whole.fill_null(0).to_numpy(), kind, absent)
        found.validate(full=True)
        return found
    narrow = pa.types.is_date32(kind) or pa.types.is_time32(kind)
    return ticks.cast(pa.int32() if narrow else pa.int64()).view(kind)


def tick_number(ticks: int, kind: pa.DataType) -> str:
    """Write ticks of a number as its values are written.

    >>> tick_number(-5, pa.decimal128(18, 2)), tick_number(5, pa.int64())
    ('-0.05', '5')
    """
    if not is_stepped_decimal(kind):
        return str(ticks)
    return f"{Decimal(ticks).scaleb(-kind.scale):f}"
