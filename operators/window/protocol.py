"""A window specification is two dual functions: which tuples a window has, and which windows a tuple is in.

`extent()` is the definition, `wids()` the implementation (thesis 5.1.1); every specification has both, and one property
test holds them together. All numbers are ticks of the windowing attribute: nanoseconds for a timestamp in nanoseconds,
rows for an arrival number, or whatever unit the attribute counts in.
"""

from __future__ import annotations

from enum import Flag, auto
from numbers import Integral
from typing import Protocol, runtime_checkable

from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.kernels.ticks import FOREVER as FOREVER
from operators.kernels.ticks import LIMIT


class MadeOf(Flag):
    """Name what a window is made of, which decides how an aggregate over it can be computed.

    A specification states it as `made_of`, a user's like ours; one that states nothing is known by the window-ids of a
    tuple alone.
    """

    STEPS = auto()
    """Fixed steps of the attribute: it has an `origin` and a `slide`, so its slices are known from these."""
    SLICES = auto()
    """Slices that it shares with other windows over the same attribute: it says where its edges are.

    A user's window does it with `around`, `complete` and `unfinished`, as `EdgeWindow` does.
    """
    RANKS = auto()
    """Tuples, by their rank among others: they define the windows themselves."""


def made_of(window: object) -> MadeOf:
    """Return what a window is made of, as far as it states it.

    - `window`: any window specification.

    >>> from operators.window import SlidingWindow
    >>> MadeOf.SLICES in made_of(SlidingWindow("ts", size=10, slide=5))
    True
    """
    stated: MadeOf = getattr(window, "made_of", MadeOf(0))
    return stated


def check_ticks(wattr: str, **lengths: int) -> None:
    """Check that RANGE and SLIDE are whole numbers of ticks from 1 on; SchemaError with what to write instead."""
    for name, value in lengths.items():
        if not isinstance(value, Integral):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise SchemaError(f"{name} must be a whole number of ticks of {wattr}, not {value!r}")
        if name == "origin" and abs(value) > LIMIT:
            raise SchemaError(
                f"the origin {value} is out of range: at most {LIMIT} ticks of {wattr}, 73 years of nanoseconds.\n"
                f"  Choose one near the values of {wattr}."
            )
        if name != "origin" and value <= 0:
            raise SchemaError(f"{name} must be at least one tick of {wattr}, not {value}")
        if name != "origin" and value > LIMIT:
            raise SchemaError(
                f"{name} must be at most {LIMIT} ticks of {wattr}, 73 years of nanoseconds, not {value}.\n"
                '  Write RANGE ALL for all, in Python range="ALL"; or count in a coarser unit, such as timestamp[us].'
            )


@runtime_checkable
class Window(Protocol):
    """The specification of context-free or forward-context-free windows whose window-ids are consecutive.

    Begins and ends must not fall from one window-id to the next. `oop.own` takes a class of yours that has all of this.
    """

    @property
    def wattr(self) -> str:
        """Return the windowing attribute."""
        ...

    @property
    def context(self) -> str:
        """Return the class of thesis 6.1.2, derived: "CF", "FCF" or "FCA"."""
        ...

    def wids(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Return for each value, shape (n,), its window-ids as a range [first, last), empty when first >= last."""
        ...

    def extent(self, wid: int) -> tuple[int, int]:
        """Return the values [begin, end) that window `wid` covers."""
        ...

    def windows(self, values: Int64s) -> Int64s:
        """Return the window-ids, ascending, of the windows that have at least one of these values."""
        ...

    def complete(self, bound: int) -> int:
        """Return w such that exactly the windows with wid < w are complete once no later value is below `bound`."""
        ...

    def extents(self, wids: Int64s) -> tuple[Int64s, Int64s]:
        """Return `extent` for many window-ids, shape (n,)."""
        ...
