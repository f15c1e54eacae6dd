"""Tuples of several pages that are in the same windows go to one slice a group, until one of these windows fires."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Int32s
from operators.functions.columns import grown
from operators.functions.protocol import Slots


def _none() -> Int32s:
    return np.empty(0, np.int32)


@attrs.define(eq=False)
class FiringSlices:
    """Hold a slice for each group, with the slots of the windows that take what is in it.

    Of one window alone, the slice of a group is the window itself.
    """

    wids: range
    """The windows."""
    places: Int32s = attrs.field(factory=_none)
    """The slot of the slice of each group, -1 for none."""
    numbers: Int32s = attrs.field(factory=_none)
    """The number of the slice of each group that has one."""
    groups: Int32s = attrs.field(factory=_none)
    """The group of each slice, shape (slices,)."""
    slots: Slots = attrs.field(factory=_none)
    """The slot of each slice."""
    windows: Int32s = attrs.field(default=attrs.Factory(lambda own: own._no_windows(), takes_self=True))
    """The slots of the windows of each slice, shape (slices, windows)."""
    empty: bool = False
    """Whether windows have taken all that was in the slices, which are to be made ready for more."""

    def _no_windows(self) -> Int32s:
        return np.empty((0, len(self.wids)), np.int32)

    @property
    def several(self) -> bool:
        """Return whether windows share slices, so that they lack what is in them."""
        return len(self.wids) > 1

    def widen(self, capacity: int) -> None:
        """Make room for groups that are below this."""
        if capacity > len(self.places):
            size = max(capacity, 2 * len(self.places))
            self.places, self.numbers = grown(self.places, size, fill=-1), grown(self.numbers, size)

    def add(self, groups: Int32s, slots: Slots, windows: Int32s) -> None:
        """Add the slices of groups, each named once, that had none."""
        n = len(self.slots)
        self.places[groups], self.numbers[groups] = slots, np.arange(n, n + len(groups))
        if n == 0:
            self.groups, self.slots, self.windows = groups, slots, windows
        else:
            self.groups = np.concatenate((self.groups, groups))
            self.slots, self.windows = np.concatenate((self.slots, slots)), np.concatenate((self.windows, windows))
