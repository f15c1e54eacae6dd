"""Tuples of several pages that are in the same windows are aggregated once, until one of these windows is to fire."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Int32s
from operators.functions.columns import grown
from operators.functions.protocol import Slots


@attrs.define(eq=False)
class Shared:
    """Hold the slots of parts: each is what a group has in all of several windows, and they do not have yet.

    Of one window, the parts are the window itself.
    """

    wids: range
    """The windows."""
    slots: Slots = attrs.field(factory=lambda: np.empty(0, np.int32))
    """The slot of each part, shape (parts,)."""
    windows: Int32s = attrs.field(factory=lambda: np.empty(0, np.int32))
    """The slots of its windows, shape (parts, windows)."""
    places: Int32s = attrs.field(factory=lambda: np.empty(0, np.int32))
    """The slot of the part of each group, -1 for none."""

    @property
    def waits(self) -> bool:
        """Return whether the windows lack what is in the parts."""
        return len(self.wids) > 1

    def widen(self, capacity: int) -> None:
        """Make room for groups that are below this."""
        if capacity > len(self.places):
            self.places = grown(self.places, max(capacity, 2 * len(self.places)), fill=-1)

    def add(self, groups: Int32s, slots: Slots, windows: Int32s) -> None:
        """Add the parts of groups, each named once."""
        self.places[groups] = slots
        self.slots = np.concatenate((self.slots, slots)) if len(self.slots) else slots
        self.windows = np.concatenate((self.windows, windows)) if len(self.windows) else windows
