"""State columns grow by copying, and pages reach the kernels as contiguous read-only arrays: one compilation each."""

from __future__ import annotations

from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from operators.data import memory
from operators.data.memory import grown
from operators.data.page import Bools
from operators.functions.protocol import Slots

__all__ = ["StateColumns", "frozen", "grown", "power", "present"]
T = TypeVar("T", bound=np.generic)


@attrs.define(eq=False)
class StateColumns(memory.Slotted):
    """Hold the states of an accumulator in columns with a row for each slot, and count what is skipped for a null."""

    nulls: int = attrs.field(default=0, init=False, metadata=memory.integer(least=0, most=(1 << 62) - 1))


def power(n: int) -> int:
    """Return a capacity for n rows: a power of two, 16 at least."""
    return max(16, 1 << max(0, n - 1).bit_length())


def frozen(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return the same values contiguous and read-only, without copying when they already are contiguous."""
    flags = array.flags
    if flags.c_contiguous and not flags.writeable:
        return array
    view = array.view() if flags.c_contiguous else np.ascontiguousarray(array)
    view.setflags(write=False)
    return view


def present(slots: Slots, valid: Bools | None) -> tuple[Slots, int]:
    """Return the slots of tuples whose argument is there, -1 elsewhere, and how many were skipped for a null."""
    if valid is None:
        return frozen(slots), 0
    skipped = int(np.count_nonzero((slots >= 0) & ~valid))
    return frozen(np.where(valid, slots, np.int32(-1))), skipped
