"""The slots of a slice are found by its row, an entry a group, as long as rows are worth their memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
import numpy as np

from operators.data.page import Int32s
from operators.functions.columns import grown

_BYTES: Final = 1 << 20
_BYTES_A_SLOT: Final = 32


@attrs.define(eq=False)
class Rows:
    """Hold a row for a slice, 4 bytes a group; slices without one are looked up in a hash table instead."""

    row_of: Int32s = attrs.field(init=False, factory=lambda: np.full(16, -1, np.int32))
    """The row of each slice, by its number, -1 for none."""
    slots: Int32s = attrs.field(init=False, factory=lambda: np.full((1, 16), -1, np.int32))
    """slots[row, group], -1 for none."""
    _spare: list[int] = attrs.field(init=False, factory=lambda: [0])

    @property
    def nbytes(self) -> int:
        """Return how many bytes the arrays take."""
        return self.row_of.nbytes + self.slots.nbytes

    def widen(self, groups: int) -> None:
        """Make room for ids of groups below `groups`."""
        rows = np.full((len(self.slots), groups), -1, np.int32)
        rows[:, : self.slots.shape[1]] = self.slots
        self.slots = rows

    def reserve(self, slices: int) -> None:
        """Make room for numbers of slices below `slices`."""
        self.row_of = grown(self.row_of, slices, fill=-1)

    def give(self, number: int, used: int) -> bool:
        """Add a row for a slice, if rows take no more memory than the table and `used` slots beside them."""
        if not self._spare:
            count, width = self.slots.shape
            if 8 * count * width > _BYTES + _BYTES_A_SLOT * used:
                return False
            self.slots = grown(self.slots, 2 * count, fill=-1)
            self._spare.extend(range(2 * count - 1, count - 1, -1))
        self.row_of[number] = self._spare.pop()
        return True

    @property
    def owners(self) -> Int32s:
        """Return the slices that have a row."""
        return np.flatnonzero(self.row_of >= 0).astype(np.int32)

    def hand_over(self, owner: int, number: int, groups: Int32s) -> None:
        """Hand the row of a slice, which has these groups, to another that has none."""
        self.row_of[number], self.row_of[owner] = self.row_of[owner], -1
        self.slots[self.row_of[number], groups] = -1

    def take(self, slices: Iterable[int]) -> None:
        """Take back the rows of these slices, which are empty."""
        for number in slices:
            if (row := int(self.row_of[number])) >= 0:
                self._spare.append(row)
                self.row_of[number] = -1
