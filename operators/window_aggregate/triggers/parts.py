"""The tuples of windows are combined, in their order, into what each window has at its firings and behind the last."""

from __future__ import annotations

import attrs
import numpy as np

from operators.data.page import Bools, Int64s
from operators.functions.protocol import Slots
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
    fired, made, rest, held = parts.fired, parts.made, parts.rest, parts.held
    n, begin = len(of), np.cumsum(fired) - fired
    starts = np.searchsorted(of, np.arange(len(fired)))
    owner = np.repeat(np.arange(len(fired)), fired)
    # Behind which of all firings each tuple is: that is told by its place among those of its window.
    wide = n + 2
    part = np.searchsorted(owner * wide + parts.ends, of * wide + np.arange(n) - starts[of], side="right") - begin[of]
    targets = np.where(part < fired[of], np.append(made, 0)[np.minimum(begin[of] + part, len(made))], rest[of])
    number = np.arange(len(owner)) - begin[owner]
    leads, some = number == 0, fired > 0
    before = np.where(leads, parts.slots[owner], np.roll(made, 1))
    chained = leads & held[owner] if discards else ~leads | held[owner]
    into, source = [made[chained], targets], [before[chained], slots]
    which, places = [owner[chained], of], [number[chained], part]
    kinds = [np.zeros(int(chained.sum()), np.int64), np.ones(n, np.int64)]
    if not discards:
        lasts = (begin + fired - 1)[some]
        into, source = [*into, rest[some]], [*source, made[lasts]]
        which, places = [*which, np.flatnonzero(some)], [*places, fired[some]]
        kinds.append(np.zeros(len(lasts), np.int64))
    order = np.lexsort((np.concatenate(kinds), np.concatenate(places), np.concatenate(which)))
    pool.combine(np.concatenate(into)[order].astype(np.int32), np.concatenate(source)[order].astype(np.int32))
