"""The states of a pane: the least key, an exact sum, or a floating sum; and how tuples enter them.

Each kind is a row of columns a pane with an identity, one kernel that lifts tuples into panes, and one a technique.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Array, Page
from operators.functions.arguments import floating, is_floating, plain, whole
from operators.functions.columns import frozen
from operators.kernels.stacks import floating as stacks_floating
from operators.kernels.stacks import least as stacks_least
from operators.kernels.stacks import whole as stacks_whole
from operators.window_aggregate.stores.stacks.panes import Cut
from operators.window_aggregate.strategy import Named

Kernel: TypeAlias = Callable[..., None]
Kind: TypeAlias = "LeastKey | WholeSum | FloatingSum"
_LEAST: dict[str, Kernel] = {name: getattr(stacks_least, name) for name in Named.__args__}
_WHOLE: dict[str, Kernel] = {name: getattr(stacks_whole, name) for name in Named.__args__}
_FLOATING: dict[str, Kernel] = {name: getattr(stacks_floating, name) for name in Named.__args__}


@attrs.frozen
class LeastKey:
    """Hold the least key of a pane: 4 bytes for what fits 32 bits, otherwise 8. `descending` keys give the greatest."""

    argument: str
    kind: pa.DataType
    descending: bool
    dtype: np.dtype[np.signedinteger] = attrs.field(
        init=False, eq=False, default=attrs.Factory(lambda self: _key_type(self.kind), takes_self=True)
    )
    """int32 or int64."""
    identity: np.signedinteger = attrs.field(
        init=False, eq=False, default=attrs.Factory(lambda self: _limit(self.dtype), takes_self=True)
    )
    turn: np.signedinteger = attrs.field(
        init=False, eq=False, default=attrs.Factory(lambda self: _turn(self), takes_self=True)
    )
    """What keys are xored with: complements reverse the order, the sign bit orders unsigned numbers."""
    layout: npt.NDArray[np.signedinteger] = attrs.field(
        init=False, eq=False, default=attrs.Factory(lambda self: _layout(self.dtype, self.turn), takes_self=True)
    )
    """Of floating numbers: largest and smallest key, the bits of infinity, the place of the sign, turn."""

    width: ClassVar[int] = 1
    few: ClassVar[int] = 8
    """Panes of a window up to which looking at all of them, with wide instructions, is as cheap as any stack."""

    def kept(self) -> npt.NDArray[np.signedinteger]:
        """Return what a technique remembers at first."""
        return np.full(3, self.identity, self.dtype)

    def values(self, page: Page) -> Array:
        """Return the tuples' values as int32 or int64, floating numbers by their bits, null as what is never chosen."""
        column, kind = plain(page, self.argument), self.kind
        if is_floating(kind):
            single = self.dtype == np.int32
            column = column.cast(pa.float32()) if pa.types.is_float16(kind) else column
            if column.null_count:
                column = column.fill_null(-np.inf if self.descending else np.inf)
            return frozen(column.to_numpy().view(np.int32 if single else np.int64))
        if pa.types.is_boolean(kind):
            column = column.cast(pa.uint8())
        elif pa.types.is_temporal(kind):
            column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        if column.null_count:
            limits = np.iinfo(column.type.to_pandas_dtype())
            column = column.fill_null(limits.min if self.descending else limits.max)
        values = column.to_numpy()
        if pa.types.is_uint64(kind):
            return frozen(values.view(np.int64))
        return frozen(values.astype(self.dtype, copy=False))

    def lift(self, values: Array, cut: Cut, columns: Array) -> None:
        """Lower the panes of a cut to the least of their tuples."""
        if is_floating(self.kind):
            stacks_least.lift_floating(values, cut.begins, cut.stops, self.layout, cut.at, columns)
        else:
            stacks_least.lift_whole(values, cut.begins, cut.stops, self.turn, cut.at, columns)

    def technique(self, name: Named) -> Kernel:
        return _LEAST[name]


@attrs.frozen
class WholeSum:
    """Hold the exact sum of a pane in 128 bits."""

    argument: str
    kind: pa.DataType

    width: ClassVar[int] = 2
    few: ClassVar[int] = 4
    dtype: ClassVar[np.dtype[np.int64]] = np.dtype(np.int64)
    identity: ClassVar[np.int64] = np.int64(0)

    def kept(self) -> npt.NDArray[np.int64]:
        return np.zeros(4, np.int64)

    def values(self, page: Page) -> Array:
        """Return the tuples' values as int32 or int64, null as zero; unsigned 64-bit numbers keep their bits."""
        column = plain(page, self.argument)
        if pa.types.is_int32(self.kind):
            return frozen((column.fill_null(0) if column.null_count else column).to_numpy())
        return whole(column)

    def lift(self, values: Array, cut: Cut, columns: Array) -> None:
        """Add the tuples of a cut to their panes."""
        signed = np.int64(0 if pa.types.is_uint64(self.kind) else -1)
        stacks_whole.lift(values, cut.begins, cut.stops, signed, cut.at, columns)

    def technique(self, name: Named) -> Kernel:
        return _WHOLE[name]


@attrs.frozen
class FloatingSum:
    """Hold the floating sum of a pane and what rounding lost."""

    argument: str

    width: ClassVar[int] = 2
    few: ClassVar[int] = 4
    dtype: ClassVar[np.dtype[np.float64]] = np.dtype(np.float64)
    identity: ClassVar[np.float64] = np.float64(0.0)

    def kept(self) -> npt.NDArray[np.float64]:
        return np.zeros(4, np.float64)

    def values(self, page: Page) -> Array:
        """Return the tuples' values as float32 or float64, null as zero."""
        column = plain(page, self.argument)
        if pa.types.is_float32(column.type):
            return frozen((column.fill_null(0.0) if column.null_count else column).to_numpy())
        return floating(column)

    def lift(self, values: Array, cut: Cut, columns: Array) -> None:
        """Add the tuples of a cut to their panes."""
        lanes = np.empty((2, stacks_floating.LANES), np.float64)
        stacks_floating.lift(values, cut.begins, cut.stops, lanes, cut.at, columns)

    def technique(self, name: Named) -> Kernel:
        return _FLOATING[name]


def _key_type(kind: pa.DataType) -> np.dtype[np.signedinteger]:
    return np.dtype(np.int64 if pa.types.is_uint32(kind) or kind.bit_width == 64 else np.int32)


def _limit(dtype: np.dtype[np.signedinteger]) -> np.signedinteger:
    return dtype.type(np.iinfo(dtype).max)


def _turn(least: LeastKey) -> np.signedinteger:
    turn = -1 if least.descending else 0
    return least.dtype.type(turn ^ np.iinfo(np.int64).min if pa.types.is_uint64(least.kind) else turn)


def _layout(dtype: np.dtype[np.signedinteger], turn: np.signedinteger) -> npt.NDArray[np.signedinteger]:
    limits, single = np.iinfo(dtype), dtype == np.int32
    infinite = 0x7F800000 if single else 0x7FF0000000000000
    return np.array([limits.max, limits.min, infinite, 31 if single else 63, turn], dtype)
