"""Window specifications as values: amounts as users write them become ticks when the stream is known.

stream.window(oop.session("30 s")).aggregate(oop.count(), by="srcIP")
stream.windows(short=oop.tumbling("1 s"), long=oop.sliding("10 minutes", "1 minute")).aggregate(oop.count())
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.errors import PlanError
from oop_engine.plan.dates import check_calendar, next_date
from oop_engine.plan.ticks import Amount, positive, ticks_of
from oop_engine.plan.windows import OwnWindow, Windowing, check_steps, is_landmark, window_of
from operators.data.schema import ROW_NUM, Schema
from operators.window import MadeOf, Window, made_of
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow

_Build: TypeAlias = Callable[[Schema, str], Windowing]
_TS: Final = "ts"


@attrs.frozen
class WindowOf:
    """Specify a window before its stream is known; functions such as `oop.tumbling` make one.

    - `text`: how a plan shows it.
    - `wattr`: its windowing attribute.
    - `build`: makes the specification of a schema and an attribute.
    - `counts_arrivals`: the stream must be numbered at its entry.
    - `partition`: attributes whose values have windows of their own.

    >>> window = oop.tumbling("10 s")
    >>> str(window), window.of(oop.Schema.of(ts=pa.timestamp("ns"))).size
    ('RANGE 10 s, SLIDE 10 s, WA ts', 10000000000)
    """

    text: str
    wattr: str
    build: _Build = attrs.field(repr=False, eq=False)
    counts_arrivals: bool = attrs.field(default=False, kw_only=True)
    """Whether the stream must have been numbered at its entry."""
    partition: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """The attributes whose values have windows of their own, where `window(..., partition=...)` names none."""

    def of(self, schema: Schema) -> Windowing:
        """Return the specification in ticks of an attribute of `schema`.

        PlanError or SchemaError when an amount does not fit the attribute.
        """
        return self.build(schema, self.wattr)

    def __str__(self) -> str:
        return self.text


def tumbling(range: Amount, *, wattr: str = _TS, origin: Amount = 0) -> WindowOf:
    """Specify tumbling windows: each begins where the last one ends.

    - `range`: length of a window, such as "10 s", or an integer where `wattr` is a number.
    - `wattr`: the windowing attribute.
    - `origin`: a point where a window begins.

    >>> stream = oop.rows([(1,), (12,), (3,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.tumbling(10)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """
    return sliding(range, range, wattr=wattr, origin=origin)


def sliding(range: Amount, slide: Amount, *, wattr: str = _TS, origin: Amount = 0, partial: bool = True) -> WindowOf:
    """Specify sliding windows: one of length `range` ends every `slide` (Eq. 5.1).

    - `range`: length of a window, such as "10 s"; "ALL" for landmark windows.
    - `slide`: distance between two windows.
    - `wattr`: the windowing attribute; "row_num" counts tuples as they arrive.
    - `origin`: windows end there, and at multiples of `slide` from there.
    - `partial`: keep windows that begin before `origin`.

    >>> stream = oop.rows([(1,), (7,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.sliding(10, 5)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 2, 1]
    """
    if not is_landmark(range):
        positive(range, what="RANGE")
    positive(slide, what="SLIDE")

    def build(schema: Schema, wattr: str) -> Windowing:
        return window_of(schema, size=range, slide=slide, wattr=wattr, origin=origin, partial=partial)

    return WindowOf(f"RANGE {range}, SLIDE {slide}, WA {wattr}", wattr, build)


def session(gap: Amount, *, wattr: str = _TS) -> WindowOf:
    """Specify session windows: a silence of at least `gap` separates two sessions of a group.

    - `gap`: the silence, such as "30 s".
    - `wattr`: the windowing attribute.

    >>> stream = oop.rows([(1,), (3,), (9,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.session(5)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """
    positive(gap, what="the gap of a session")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SessionWindow(wattr, gap=_ticks(gap, schema, wattr, "the gap of a session"))

    return WindowOf(f"SESSION {gap}, WA {wattr}", wattr, build)


def band(start: Amount, size: Amount, *, wattr: str = _TS) -> WindowOf:
    """Specify a single window; its window-id is 0.

    - `start`: where it begins, an amount since the zero of the attribute (1970 of a time).
    - `size`: its length, such as "1 hour".
    - `wattr`: the windowing attribute.

    >>> stream = oop.rows([(1,), (12,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.band(10, 10)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1]
    """
    positive(size, what="the size of a band")

    def build(schema: Schema, wattr: str) -> Windowing:
        begin = ticks_of(start, _field(schema, wattr), what="the start of a band", signed=True)
        return FixedBandWindow(wattr, start=begin, size=_ticks(size, schema, wattr, "the size of a band"))

    return WindowOf(f"BAND {size} FROM {start}, WA {wattr}", wattr, build)


def counted(tuples: int, *, slide: int | None = None, wattr: str = _TS, partial: bool = True) -> WindowOf:
    """Specify windows of n tuples, counted in the order of an attribute, whatever the order of arrival.

    - `tuples`: how many tuples a window has. Of equal values, the one that arrived first counts first.
    - `slide`: how many tuples apart windows are; by default `tuples`.
    - `wattr`: the attribute that orders the tuples.
    - `partial`: keep the windows at the start that have fewer tuples.

    To count in the order of arrival, write `oop.sliding("100 rows", "100 rows", wattr="row_num")`.

    >>> stream = oop.rows([(7,), (1,), (4,), (2,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.counted(2)).aggregate(oop.max("ts")).to_arrow()["max_ts"].to_pylist()
    [2, 7]
    """
    _check_tuples(tuples, "counted(tuples)")
    step = tuples if slide is None else slide
    _check_tuples(step, "counted(slide=...)")

    def build(schema: Schema, wattr: str) -> Windowing:
        _field(schema, wattr)
        return CountWindow(wattr, size=tuples, slide=step, partial=partial)

    return WindowOf(f"RANGE {tuples} rows, SLIDE {step} rows, WA rank({wattr})", wattr, build)


def latest(tuples: int, *, every: Amount, wattr: str = _TS, origin: Amount = 0, idle: bool = True) -> WindowOf:
    """Specify windows of the last n tuples, in the order of an attribute, that end at regular times.

    - `tuples`: how many tuples a window has.
    - `every`: distance between the ends of two windows, such as "10 s".
    - `wattr`: the attribute that orders the tuples.
    - `origin`: a point where a window ends.
    - `idle`: also give windows that hold the same tuples as the one before.

    >>> stream = oop.rows([(1,), (4,), (12,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.latest(2, every=10)).aggregate(oop.min("ts")).to_arrow()["min_ts"].to_pylist()
    [1, 4]
    """
    _check_tuples(tuples, "latest(tuples)")
    positive(every, what="every")

    def build(schema: Schema, wattr: str) -> Windowing:
        start = ticks_of(origin, _field(schema, wattr), what="the origin", signed=True)
        slide = _ticks(every, schema, wattr, "every")
        return LastTuples(wattr, size=tuples, slide=slide, origin=start, idle=idle)

    return WindowOf(f"RANGE {tuples} rows, SLIDE {every}, WA {wattr}", wattr, build)


def slide_by_tuple(range: Amount, *, wattr: str = _TS) -> WindowOf:
    """Specify windows that end at each distinct value of an attribute (Eq. 5.10).

    - `range`: length of a window, such as "10 s".
    - `wattr`: the windowing attribute.

    >>> stream = oop.rows([(1,), (3,), (9,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.slide_by_tuple(5)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 2, 1]
    """
    positive(range, what="RANGE")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByTuple(wattr, size=_ticks(range, schema, wattr, "RANGE"))

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE 1, SATTR rank({wattr})", wattr, build)


def slide_by_rows(range: Amount, rows: int, *, wattr: str = _TS) -> WindowOf:
    """Specify windows over a time that end at every n-th tuple to arrive at the entry of the plan (Eq. 5.13).

    - `range`: length of a window, such as "10 s".
    - `rows`: how many tuples apart windows end.
    - `wattr`: the windowing attribute.

    With `window(..., partition=...)` each partition is counted separately, where the window stands in the plan.

    >>> stream = oop.rows([(1,), (9,), (3,), (10,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.slide_by_rows(5, 2)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 2]
    """
    positive(range, what="RANGE")
    _check_tuples(rows, "slide_by_rows(rows)")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByRows(wattr, size=_ticks(range, schema, wattr, "RANGE"), rows=rows, number=ROW_NUM)

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE {rows}, SATTR row-num", wattr, build, counts_arrivals=True)


def slide_by_rank(range: Amount, rows: int, *, wattr: str = _TS) -> WindowOf:
    """Specify windows over a time that end at every n-th tuple in the order of that time (Eq. 5.16).

    - `range`: length of a window, such as "10 s".
    - `rows`: how many tuples apart windows end.
    - `wattr`: the windowing attribute.

    >>> stream = oop.rows([(1,), (9,), (3,), (10,)], oop.Schema.of(ts="int64"))
    >>> stream.window(oop.slide_by_rank(5, 2)).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 2]
    """
    positive(range, what="RANGE")
    _check_tuples(rows, "slide_by_rank(rows)")

    def build(schema: Schema, wattr: str) -> Windowing:
        return SlideByRank(wattr, size=_ticks(range, schema, wattr, "RANGE"), rows=rows)

    return WindowOf(f"RANGE {range}, RATTR {wattr}, SLIDE {rows}, SATTR rank({wattr})", wattr, build)


def marked(mark: str, *, wattr: str = _TS) -> WindowOf:
    """Specify windows between marked tuples.

    - `mark`: an attribute; a tuple is marked if it is neither null nor false nor 0.
    - `wattr`: the attribute that orders the tuples.

    Marks count for the whole stream: with `aggregate(..., by=...)` all groups have the same windows. With
    `window(..., partition=...)` each partition has windows between its own marks.

    >>> stream = oop.rows([(1, 1), (2, 0), (5, 1)], oop.Schema.of(ts="int64", flag="int64"))
    >>> stream.window(oop.marked("flag")).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2]
    """

    def build(schema: Schema, wattr: str) -> Windowing:
        _field(schema, wattr)
        return DelimitedWindow(wattr, schema.resolve(mark, where="window"))

    return WindowOf(f"MARKED BY {mark}, WA {wattr}", wattr, build)


def when(
    holds: Computed | None = None,
    *,
    enter: Computed | None = None,
    leave: Computed | None = None,
    within: Amount | None = None,
    by: str | Sequence[str] = (),
    wattr: str = _TS,
) -> WindowOf:
    """Specify windows that begin and end with tuples for which conditions are true.

    - `holds`: a condition: each longest run of tuples for which it is true is a window (threshold windows).
    - `enter`: or, a condition: a window begins with a tuple for which it is true, if none is open.
    - `leave`: the window ends with the first later tuple for which this is true, which it still has. Without it, it
      ends before the next tuple for which `enter` is true, which begins the next window.
    - `within`: how long a window lasts at most, such as "10 minutes".
    - `by`: attributes; each of their values has windows of its own, as with `window(..., partition=...)`.
    - `wattr`: the attribute that orders the tuples.

    A condition is a function of the tuple, or the same as text, as `filter` takes it; null counts as not true. Tuples
    of one time count together, so the order of arrival makes no difference: if a condition is true of one of them, it
    is true of that time. A window that is open at the end of the stream is given. The window-id is the time at which it
    begins. PlanError unless there is one of `holds` and `enter`; SchemaError when a condition does not fit.

    >>> stream = oop.rows([(1, 90), (2, 85), (5, 10), (7, 95)], oop.Schema.of(ts="int64", load="int64"))
    >>> stream.window(oop.when("load > 80")).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    >>> episodes = oop.when(enter="load > 88", leave="load < 20", within=9)
    >>> stream.window(episodes).aggregate(oop.count()).to_arrow().to_pylist()
    [{'count': 3, 'wid': 1, 'window_start': 1, 'window_end': 6}, {'count': 1, 'wid': 7, 'window_start': 7,
    'window_end': 16}]
    """
    begins = enter if holds is None else holds
    if begins is None or (holds is not None and not (enter is None and leave is None)):
        raise PlanError(
            "when: a window is a run of tuples for which one condition is true, or begins and ends by two.\n"
            """  Write when("load > 80"), or when(enter="flags HAS 'SYN'", leave="flags HAS 'FIN'", within="10 min")."""
        )
    if within is not None:
        positive(within, what="within")

    def build(schema: Schema, wattr: str) -> Windowing:
        longest = None if within is None else _ticks(within, schema, wattr, "within")
        entering = expression_of(begins, schema, "when")
        leaving = None if leave is None else expression_of(leave, schema, "when(leave=...)")
        _field(schema, wattr)
        window = PredicateWindow(wattr, entering, leave=leaving, within=longest, runs=holds is not None)
        window.check(schema)
        return window

    until = "" if holds is not None else f" UNTIL {'NEXT' if leave is None else _condition(leave)}"
    longest = "" if within is None else f" WITHIN {within}"
    text = f"WHEN {_condition(begins)}{until}{longest}, WA {wattr}"
    return WindowOf(text, wattr, build, partition=(by,) if isinstance(by, str) else tuple(by))


def _condition(value: Computed) -> str:
    """Write a condition before the stream is known that it is about."""
    return getattr(value, "__name__", "a function") if callable(value) else str(value)


def edges(next_edge: Callable[[int], int], *, wattr: str = _TS) -> WindowOf:
    """Specify windows between edges that you compute, such as the shifts of a plant; `calendar` has months.

    - `next_edge`: a function of a tick that returns the first edge after it, in ticks. Behind the last one it gives
      2**61, which no tick reaches: the window there ends with the stream, and its `window_end` is null.
    - `wattr`: the windowing attribute.

    PlanError when it is no function; SchemaError when an edge is no whole number, or not after its tick.

    >>> stream = oop.rows([(1,), (3,), (7,)], oop.Schema.of(ts="int64"))
    >>> powers = oop.edges(lambda t: 1 << max(t, 0).bit_length())
    >>> stream.window(powers).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 1, 1]
    """
    if not callable(next_edge):
        raise PlanError(
            f"edges({next_edge!r}): write a function of a tick that returns the first edge after it, in ticks,\n"
            "  as oop.edges(lambda t: t // 10 * 10 + 10)."
        )
    return own(EdgeWindow(wattr, next_edge))


def calendar(unit: str, *, zone: str = "UTC", wattr: str = _TS) -> WindowOf:
    """Specify windows of days, weeks, months, quarters or years of a time zone, as long as each of them is.

    - `unit`: "day", "week" (from Monday), "month", "quarter" or "year".
    - `zone`: the time zone, such as "Europe/Berlin"; a day there has 23 or 25 hours when clocks change.
    - `wattr`: the windowing attribute, a time.

    >>> times = [(pa.scalar(day * 86_400, pa.timestamp("s", "UTC")).as_py(),) for day in (0, 30, 31)]
    >>> stream = oop.rows(times, oop.Schema.of(ts=pa.timestamp("s", "UTC")))
    >>> months = oop.calendar("month", zone="Europe/Berlin")
    >>> stream.window(months).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [2, 1]
    """
    check_calendar(unit, zone)

    def build(schema: Schema, wattr: str) -> Windowing:
        return EdgeWindow(wattr, next_date(unit, zone, _field(schema, wattr)))

    where = "" if zone == "UTC" else f' IN "{zone}"'
    return WindowOf(f"CALENDAR {unit}{where}, WA {wattr}", wattr, build)


def own(window: OwnWindow | Window) -> WindowOf:
    """Use a kind of window of your own.

    - `window`: an `ExtentWindow`, `EdgeWindow` or `ContextWindow` of `operators.window.user`, defined by its extents,
      its edges, or by what its tuples notify. Or a class of yours with `wids`, `extent` and all that
      `operators.window.Window` lists: where a tuple's window-ids are arithmetic, that is fastest. Or one that states
      `made_of = MadeOf.SLICES` and says where its edges are, as `operators.window.user.AskedWindow` lists it: such
      windows share slices with others over the same attribute.

    PlanError for another object.

    >>> from operators.window.user import EdgeWindow
    >>> stream = oop.rows([(1,), (12,)], oop.Schema.of(ts="int64"))
    >>> tens = oop.own(EdgeWindow("ts", lambda t: t // 10 * 10 + 10))
    >>> stream.window(tens).aggregate(oop.count()).to_arrow()["count"].to_pylist()
    [1, 1]
    """
    kinds = OwnWindow if MadeOf.SLICES in made_of(window) else Window
    if not isinstance(window, kinds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError(
            f"own({type(window).__name__}): a window of your own is an EdgeWindow (context free, `next_edge(t)`), an\n"
            "  ExtentWindow (`extent(wid)` for a finite set) or a ContextWindow (FCF and FCA, by notifications),\n"
            "  from operators.window.user, or has wids() and all else of operators.window.Window, or states made_of =\n"
            "  MadeOf.SLICES and has around() and all else of operators.window.user.AskedWindow; make it one of these."
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
