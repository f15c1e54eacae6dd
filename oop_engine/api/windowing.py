"""Window specifications as values: amounts as users write them, made into ticks when the stream is known.

stream.window(oop.session("30 s")).aggregate(oop.count(), by="srcIP")
stream.windows(short=oop.tumbling("1 s"), long=oop.sliding("10 minutes", "1 minute")).aggregate(oop.count())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount, positive, ticks_of
from oop_engine.plan.windows import OwnWindow, Windowing, check_steps, is_landmark, window_of
from operators.data.schema import ROW_NUM, Schema
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow

_Build: TypeAlias = Callable[[Schema, str], Windowing]
_TS: Final = "ts"


@attrs.frozen
class WindowOf:
    """A window that waits for a stream; `of` gives its specification in ticks of the stream's attribute."""

    text: str
    wattr: str
    build: _Build = attrs.field(repr=False, eq=False)
    counts_arrivals: bool = attrs.field(default=False, kw_only=True)
    """Whether the stream must have been numbered at its entry."""

    def of(self, schema: Schema) -> Windowing:
        """Make the specification; PlanError or SchemaError when an amount does not fit the attribute."""
        return self.build(schema, self.wattr)

    def __str__(self) -> str:
        return self.text


def tumbling(range: Amount, *, wattr: str = _TS, origin: Amount = 0) -> WindowOf:
    """Give windows of a range, one after the other."""
    return sliding(range, range, wattr=wattr, origin=origin)


def sliding(range: Amount, slide: Amount, *, wattr: str = _TS, origin: Amount = 0, partial: bool = True) -> WindowOf:
    """Give a window of a range every slide; with `partial`, those too that begin before the origin (Eq. 5.1).

    They end at the origin and at multiples of the slide from it, and begin a range earlier.
    """
    if not is_landmark(range):
        positive(range, what="RANGE")
    positive(slide, what="SLIDE")

    def build(schema: Schema, wattr: str) -> Windowing:
        return window_of(schema, size=range, slide=slide, wattr=wattr, origin=origin, partial=partial)

    return WindowOf(f"RANGE {range}, SLIDE {slide}, WA {wattr}", wattr, build)


def session(gap: Amount, *, wattr: str = _TS) -> WindowOf:
    """Give the runs of a group's tuples whose distances are below a gap; a distance equal to the gap separates."""
    positive(gap, what="the gap of a session")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SessionWindow(wattr, gap=_ticks(gap, schema, wattr, "the gap of a session"))

    return WindowOf(f"SESSION {gap}, WA {wattr}", wattr, build)


def band(start: Amount, size: Amount, *, wattr: str = _TS) -> WindowOf:
    """Give one window, from a start (an amount since the attribute's zero) on; its window-id is 0."""
    positive(size, what="the size of a band")

    def build(schema: Schema, wattr: str) -> Windowing:
        begin = ticks_of(start, _field(schema, wattr), what="the start of a band", signed=True)
        return FixedBandWindow(wattr, start=begin, size=_ticks(size, schema, wattr, "the size of a band"))

    return WindowOf(f"BAND {size} FROM {start}, WA {wattr}", wattr, build)


def counted(tuples: int, *, slide: int | None = None, wattr: str = _TS, partial: bool = True) -> WindowOf:
    """Give windows of n tuples in the order of an attribute, whatever the order of arrival; ties by arrival.

    Windows of n tuples in the order of arrival are `sliding("n rows", ..., wattr="row_num")`.
    """
    _check_tuples(tuples, "counted(tuples)")
    step = tuples if slide is None else slide
    _check_tuples(step, "counted(slide=...)")

    def build(schema: Schema, wattr: str) -> Windowing:
        _field(schema, wattr)
        return CountWindow(wattr, size=tuples, slide=step, partial=partial)

    return WindowOf(f"RANGE {tuples} rows, SLIDE {step} rows, WA rank({wattr})", wattr, build)


def latest(tuples: int, *, every: Amount, wattr: str = _TS, origin: Amount = 0, idle: bool = True) -> WindowOf:
    """Give the last n tuples in the order of an attribute, every so often; `idle=False` leaves out what repeats."""
    _check_tuples(tuples, "latest(tuples)")
    positive(every, what="every")

    def build(schema: Schema, wattr: str) -> Windowing:
        start = ticks_of(origin, _field(schema, wattr), what="the origin", signed=True)
        slide = _ticks(every, schema, wattr, "every")
        return LastTuples(wattr, size=tuples, slide=slide, origin=start, idle=idle)

    return WindowOf(f"RANGE {tuples} rows, SLIDE {every}, WA {wattr}", wattr, build)


def slide_by_tuple(range: Amount, *, wattr: str = _TS) -> WindowOf:
    """Give a window of a range that ends at each distinct value of an attribute (Eq. 5.10)."""
    positive(range, what="RANGE")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByTuple(wattr, size=_ticks(range, schema, wattr, "RANGE"))

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE 1, SATTR rank({wattr})", wattr, build)


def slide_by_rows(range: Amount, rows: int, *, wattr: str = _TS) -> WindowOf:
    """Give a window of a range that ends at every n-th tuple to arrive at the entry of the plan (Eq. 5.13).

    With `window(..., partition=...)` the tuples of each partition are counted by themselves, where the window stands.
    """
    positive(range, what="RANGE")
    _check_tuples(rows, "slide_by_rows(rows)")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByRows(wattr, size=_ticks(range, schema, wattr, "RANGE"), rows=rows, number=ROW_NUM)

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE {rows}, SATTR row-num", wattr, build, counts_arrivals=True)


def slide_by_rank(range: Amount, rows: int, *, wattr: str = _TS) -> WindowOf:
    """Give a window of a range that ends at every n-th tuple in the order of an attribute (Eq. 5.16)."""
    positive(range, what="RANGE")
    _check_tuples(rows, "slide_by_rank(rows)")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByRank(wattr, size=_ticks(range, schema, wattr, "RANGE"), rows=rows)

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE {rows}, SATTR rank({wattr})", wattr, build)


def marked(mark: str, *, wattr: str = _TS) -> WindowOf:
    """Give windows between tuples that are marked: where the attribute `mark` is neither null nor false nor 0.

    Marks count for the whole stream: with `aggregate(..., by=...)` all groups have the same windows.
    """

    def build(schema: Schema, wattr: str) -> Windowing:
        _field(schema, wattr)
        return DelimitedWindow(wattr, schema.resolve(mark, where="window"))

    return WindowOf(f"MARKED BY {mark}, WA {wattr}", wattr, build)


def edges(next_edge: Callable[[int], int], *, wattr: str = _TS) -> WindowOf:
    """Give windows between edges of one's own, as months are: `next_edge(t)` is the first edge after t, in ticks."""
    return own(EdgeWindow(wattr, next_edge))


def own(window: OwnWindow) -> WindowOf:
    """Give a window of one's own kind: an `ExtentWindow`, `EdgeWindow` or `ContextWindow` of operators.window.user.

    PlanError for another object: windows are said by their edges, their extents, or by what their tuples notify.
    """
    if not isinstance(window, OwnWindow):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"own({type(window).__name__}): a window of one's own is an EdgeWindow (context free, `next_edge(t)`), an\n"
            "  ExtentWindow (`extent(wid)` for a finite set) or a ContextWindow (FCF and FCA, by notifications),\n"
            "  from operators.window.user; make one of these of it."
        )

    def build(schema: Schema, wattr: str) -> Windowing:
        _field(schema, wattr)
        return window

    return WindowOf(f"{type(window).__name__}, WA {window.wattr}", window.wattr, build)


def _field(schema: Schema, wattr: str) -> pa.Field:
    field = schema.field(wattr, where="window")
    check_steps(field)
    return field


def _ticks(amount: Amount, schema: Schema, wattr: str, what: str) -> int:
    return ticks_of(amount, _field(schema, wattr), what=what)


def _check_tuples(number: int, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(f"{what} is a number of tuples, a whole number from 1 on, not {number!r}.")
