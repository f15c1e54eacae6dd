"""Estimate the state of a window aggregate before it runs, from measurements of others.

Bytes are those at the peak, with the room that arrays have grown ahead, at 20,000 groups; tests hold them against what
operators then say. How many tuples come, and how many groups, nobody knows beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from oop_engine.plan.windows import Windowing
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.functions.sharing import accumulators
from operators.window import SlidingWindow
from operators.window_aggregate.strategy import subtractable

_SLOTS: Final = 1 << 14
"""What accumulators take for a slot is looked at for so many; for few, they are laid out otherwise."""


@attrs.frozen
class Size:
    """Bytes besides what functions need."""

    slot: int
    """For each partial aggregate."""
    group: int
    """For each group: its key, and what is known of it alone."""
    carried: float = 1
    """How often values are held where windows overlap, those carried over from window to window included."""


_SIZES: Final[Mapping[str, Size]] = {
    "auto": Size(55, 72),
    "wid": Size(55, 72),
    "panes": Size(55, 72),
    "differential": Size(117, 110, carried=2.5),
    "two_stacks": Size(117, 110, carried=2.5),
    "adaptive": Size(72, 207),
    "adaptive_panes": Size(163, 145),
    "either": Size(30, 72),
    "vectors": Size(4, 59),
    "slices": Size(36, 98),
    "sessions": Size(72, 98),
}
"""By strategy, "either" where groups have slots or are in vectors, whichever takes less; those of slicing by what a
slice is made of: a place in a vector, or links, and times with sessions."""
_TUPLES: Final[Mapping[str, tuple[int, int]]] = {"buffer": (92, 12), "buffer_panes": (57, 7)}
"""Bytes of a tuple that is kept, and of each argument in it, where windows overlap."""
_ONCE: Final = (50, 8)
"""The same where each tuple is in one window: it goes as that is complete, and is never written anew."""
_OF_EACH_WINDOW: Final = ("wid", "adaptive")


def state_size(
    strategy: str,
    window: Windowing | None,
    functions: Mapping[str, AggregateFunction],
    by: tuple[str, ...],
    schema: Schema,
) -> str:
    """Say what a strategy keeps: bytes of a partial aggregate, of a group, of a value, and how many slices are open.

    `window`: the only one; None where there are several.
    """
    overlapping = not isinstance(window, SlidingWindow) or window.size > window.slide
    if strategy in _TUPLES:
        tuple_, argument = _TUPLES[strategy] if overlapping else _ONCE
        arguments = {name for function in functions.values() for name in function.arguments}
        until = "its windows are complete" if strategy == "buffer" else "its pane is, and what panes make of it"
        return f"state about {tuple_ + argument * len(arguments)} bytes for each tuple until {until}"
    made = accumulators(functions.values(), schema)
    either = strategy == "panes" or (strategy in ("auto", "differential") and subtractable(made))
    size = _SIZES["either" if either and by and isinstance(window, SlidingWindow) else strategy]
    for accumulator in made:
        accumulator.reserve(_SLOTS)
    slot = size.slot + sum(accumulator.nbytes for accumulator in made) / _SLOTS
    value = (size.carried if overlapping else 1) * sum(getattr(accumulator, "value_bytes", 0) for accumulator in made)
    what = "window" if strategy in _OF_EACH_WINDOW else "slice"
    text = f"state about {slot:.0f} bytes for each {what}"
    if by:
        text += f" and group, and {size.group} for each group"
    if value:
        text += f", and about {value:.0f} bytes a value"
    if isinstance(window, SlidingWindow):
        open_ones = -(-window.size // window.slide)
        if what == "slice" and window.size % window.slide:
            open_ones *= 2
        text += f"; {open_ones + 1} {what}s open, more with disorder"
    return text
