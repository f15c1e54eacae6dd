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
    if len(made) == 0:
        # What a window had before is in its slot.
        pool.combine(rest[of], slots)
        return
    n, begin = len(of), np.cumsum(fired) - fired
    starts = np.searchsorted(of, np.arange(len(fired)))
    owner = np.repeat(np.arange(len(fired)), fired)
    # A part begins behind so many of all tuples; the last one of a window behind its last firing.
    cuts = starts[owner] + parts.ends
    part = np.searchsorted(cuts, np.arange(n), side="right") - begin[of]
    targets = np.where(part < fired[of], np.append(made, 0)[np.minimum(begin[of] + part, len(made))], rest[of])
    leads, some = begin[owner] == np.arange(len(owner)), fired > 0
    into = [made[leads & held[owner]]]
    source, places = [parts.slots[owner[leads & held[owner]]].astype(np.int32)], [starts[owner[leads & held[owner]]]]
    if not discards:
        lasts = (begin + fired - 1)[some]
        into += [made[~leads], rest[some]]
        source += [np.roll(made, 1)[~leads], made[lasts]]
        places += [np.roll(cuts, 1)[~leads], cuts[lasts]]
    # What is before a part stands before its tuples; parts without any are in the order of their firings.
    at, order = (
        np.concatenate(places),
        np.concatenate(([], *_orders(leads, held[owner], some, begin + fired, discards))),
    )
    order = np.lexsort((order, at))
    pool.combine(
        np.insert(targets, at[order], np.concatenate(into)[order]).astype(np.int32),
        np.insert(slots, at[order], np.concatenate(source)[order]).astype(np.int32),
    )


def _orders(leads: Bools, held: Bools, some: Bools, over: Int64s, discards: bool) -> list[Int64s]:
    """Return the place of each part that takes up another, by twice the firing that it ends with, or lies behind."""
    numbers = np.arange(len(leads)) * 2
    first = [numbers[leads & held]]
    return first if discards else [*first, numbers[~leads], over[some] * 2 - 1]
