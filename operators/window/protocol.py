"""A window specification is two dual functions: which tuples a window has, and which windows a tuple is in.

`extent()` is the definition, `wids()` the implementation (thesis 5.1.1); every specification has both, and one property
test holds them together. All numbers are ticks of the windowing attribute: nanoseconds for a timestamp in nanoseconds,
rows for an arrival number, or whatever unit the attribute counts in.
"""

from __future__ import annotations

from numbers import Integral
from typing import Protocol, runtime_checkable

from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.kernels.ticks import FOREVER as FOREVER
from operators.kernels.ticks import LIMIT


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
