"""The tuples of windows are combined, in their order, into what each window has at its firings and behind the last."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.functions.columns import frozen
from operators.functions.protocol import Slots
from operators.kernels.ranked.parts import pair_parts
from operators.window_aggregate.stores.ranked.slots import Pool


@attrs.frozen(eq=False)
class Parts:
    """Hold where windows fire among their tuples, and the slots of what they have there; shape (windows,) but two."""

    fired: Int64s
    """How often each fires."""
    ends: Int64s
    """Of all firings, window by window, behind how many of the tuples of the window they lie; shape (firings,)."""
    held: Bools
    """Whether a window had something before."""
    slots: Int64s
    """What that is in."""
    made: Slots
    """What takes the result of each firing; shape (firings,)."""
    rest: Slots
    """What takes all that is behind the last firing: the slot of before, or where the window fires, or is new, a fresh
    one.
    """


def combine_parts(pool: Pool, of: Int64s, slots: Slots, parts: Parts, discards: bool) -> None:
    """Combine tuples, each in a slot of its own, into the parts of their windows.

    - `of`: the window of each tuple, ascending, and those of one window in their order.
    - `discards`: a part has only what came since the firing before it.
    """
    room = len(of) + 2 * len(parts.made)
    into, source = np.empty(room, np.int32), np.empty(room, np.int32)
    windows = (frozen(parts.fired), frozen(parts.ends), frozen(parts.held), frozen(parts.slots))
    made, rest = frozen(parts.made), frozen(parts.rest)
    n = pair_parts(frozen(of), frozen(slots), windows, made, rest, int(discards), into, source)
    pool.combine(into[:n], source[:n])
