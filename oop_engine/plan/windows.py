"""Window parameters as users write them become window specifications in ticks, and are written back for people."""

from __future__ import annotations

from typing import TypeAlias

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.dates import NextDate
from oop_engine.plan.durations import Duration, format_duration
from oop_engine.plan.ticks import Amount, positive, tick_ns, ticks_of, ticks_text
from operators.data.schema import ROW_NUM, Schema
from operators.data.steps import in_steps
from operators.expression import Column, Expression
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window.columns import into_steps
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple, SlideWindow
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.edges import NumberedEdges
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import AskedWindow, Contextual, EdgeWindow

Counted: TypeAlias = SlideWindow | CountWindow | LastTuples | PredicateWindow
OwnWindow: TypeAlias = AskedWindow | Contextual
Windowing: TypeAlias = Window | SessionWindow | FixedBandWindow | Counted | OwnWindow
"""Every window specification there is."""
Rows: TypeAlias = SlidingWindow | LandmarkWindow
_MOST_WINDOWS = 10_000_000
"""So many windows of a time a tuple may be in; more would take minutes for each tuple."""


def window_of(
    schema: Schema,
    *,
    size: Amount,
    slide: Amount | None,
    wattr: str,
    partition: tuple[str, ...] = (),
    origin: Amount = 0,
    partial: bool = True,
) -> Window:
    """Make the window specification; PlanError when an amount does not fit the attribute or is not positive.

    `size` is "ALL" for windows that begin with the stream. A partition matters where rows are counted; over a time it
    is the same as grouping by it (thesis 5.1.3), which the caller does.
    """
    rows = wattr == ROW_NUM
    if not rows:
        partition = ()
    field = pa.field(ROW_NUM, pa.int64()) if partition else schema.field(wattr, where="window")
    wattr = field.name
    check_steps(field)
    start = ticks_of(origin, field, what="ORIGIN", rows=rows, signed=True)
    landmark = is_landmark(size)
    if slide is None and landmark:
        raise PlanError("RANGE ALL needs a SLIDE: how often the result is extended, e.g. SLIDE 1 minute")
    window: Rows
    if landmark and not partial:
        raise PlanError('windows of RANGE "ALL" begin with the stream, never before it; leave partial=False out.')
    if landmark:
        assert slide is not None
        window = LandmarkWindow(wattr, slide=_positive(slide, field, "SLIDE", rows), origin=start)
    else:
        length = _positive(size, field, "RANGE", rows)
        step = length if slide is None else _positive(slide, field, "SLIDE", rows)
        _check_overlap(length, step, field)
        window = SlidingWindow(wattr, size=length, slide=step, origin=start, partial=partial)
    return PartitionedWindow(window, partition) if partition else window


def parted(window: Windowing, partition: tuple[str, ...], text: str, schema: Schema) -> Windowing:
    """Return each partition windows of its own; PlanError where the tuples of one would end the windows of another.

    Rows are counted in each partition where the window stands. Edges of time are the same for all partitions; sessions
    and windows that tuples define are computed by partition, and so are those between marks: their tuples wait until
    their order is final. Contexts are those of the whole stream.
    """
    if isinstance(window, DelimitedWindow):
        return PredicateWindow(window.wattr, marks(schema.field(window.mark)), unfinished=False)
    if isinstance(window, SlideByRows):
        return attrs.evolve(window, number=None)
    if isinstance(window, SlidingWindow | LandmarkWindow) and window.wattr == ROW_NUM:
        return PartitionedWindow(window, partition)
    if isinstance(window, Contextual):
        names = ", ".join(partition)
        raise PlanError(
            f'window({text}, partition="{names}"): edges that a context sets count for the whole stream, so that\n'
            f"  tuples of one {names} would end the windows of another. Filter the stream to one {names}, and window"
            f'\n  that; or, where all share their windows, leave partition out and write aggregate(..., by="{names}").'
        )
    return window


def marks(field: pa.Field) -> Expression:
    """Return what is true of the tuples that an attribute marks: those where it is neither null, false nor 0."""
    return Column(field.name) if pa.types.is_boolean(field.type) else Column(field.name) != 0


def check_steps(field: pa.Field, which: str = "the windowing attribute") -> None:
    """Refuse a windowing attribute that does not count in steps, and say how it becomes one that does; PlanError."""
    if not in_steps(field.type):
        raise PlanError(
            f'{which} "{field.name}" has type {field.type}; it must be an integer, a time or a decimal.\n'
            f"  {into_steps(field)}"
        )


def _check_overlap(size: int, slide: int, field: pa.Field) -> None:
    """Refuse windows over a time of which a tuple is in more than can be meant: a SLIDE without its unit, mostly."""
    tick, windows = tick_ns(field.type), size // slide
    if tick is None or windows <= _MOST_WINDOWS:
        return
    least = format_duration(-(-size // _MOST_WINDOWS) * tick)
    raise PlanError(
        f"RANGE {format_duration(size * tick)} and SLIDE {format_duration(slide * tick)} put each tuple into"
        f" {windows:,} windows, with a result of each.\n"
        f"  Let them SLIDE by {least} at least."
    )


def is_landmark(size: Amount) -> bool:
    """Return whether a RANGE is ALL: windows begin with the stream."""
    return isinstance(size, str) and size.strip().upper() == "ALL"


def _positive(amount: Amount, field: pa.Field, what: str, rows: bool) -> int:
    return ticks_of(positive(amount, what=what), field, what=what, rows=rows)


def amount_text(amount: int, window: Windowing, schema: Schema) -> str:
    """Write an amount of ticks of a window's attribute with its unit."""
    if isinstance(window, PartitionedWindow) or window.wattr == ROW_NUM:
        return str(Duration(amount, "rows", ""))
    return ticks_text(amount, schema.field(window.wattr, where="window").type)


def window_text(window: Windowing, schema: Schema) -> str:
    """Write a window specification as the query language does."""

    def ticks(amount: int) -> str:
        return amount_text(amount, window, schema)

    if isinstance(window, NumberedEdges):
        return window_text(window.edges, schema)
    if isinstance(window, EdgeWindow) and isinstance(window.next_edge, NextDate):
        return f"[{window.next_edge}, WA {window.wattr}]"
    match window:
        case SessionWindow():
            return f"[SESSION {ticks(window.gap)}, WA {window.wattr}]"
        case FixedBandWindow():
            return f"[BAND {ticks(window.size)} FROM {ticks(window.start)}, WA {window.wattr}]"
        case SlideByTuple():
            return f"[RANGE {ticks(window.size)}, RATTR {window.wattr}, SLIDE 1, SATTR rank({window.wattr})]"
        case SlideByRows():
            return f"[RANGE {ticks(window.size)}, RATTR {window.wattr}, SLIDE {window.rows}, SATTR row-num]"
        case SlideByRank():
            return (
                f"[RANGE {ticks(window.size)}, RATTR {window.wattr}, SLIDE {window.rows}, SATTR rank({window.wattr})]"
            )
        case CountWindow():
            return f"[RANGE {window.size} rows, SLIDE {window.slide} rows, WA rank({window.wattr})]"
        case LastTuples():
            origin = f", ORIGIN {ticks(window.origin)}" if window.origin else ""
            return f"[RANGE {window.size} rows, SLIDE {ticks(window.slide)}, WA {window.wattr}{origin}]"
        case PredicateWindow():
            within = "" if window.within is None else f" WITHIN {ticks(window.within)}"
            return f"[{window}{within}, WA {window.wattr}]"
        case SlidingWindow() | LandmarkWindow():
            rows = window
        case PartitionedWindow():
            rows = window.rows
        case _:
            return f"[{type(window).__name__}, WA {window.wattr}]"
    parts = ["RANGE ALL" if isinstance(rows, LandmarkWindow) else f"RANGE {ticks(rows.size)}"]
    parts.append(f"SLIDE {ticks(rows.slide)}")
    parts.append(f"WA {window.wattr}")
    if isinstance(window, PartitionedWindow):
        parts.append(f"PA {', '.join(window.partition)}")
    if rows.origin:
        parts.append(f"ORIGIN {ticks(rows.origin)}")
    return "[" + ", ".join(parts) + "]"


def gaps(window: Windowing, schema: Schema) -> tuple[str, ...]:
    """Say of windows that leave gaps between them that tuples there are in none; nothing of others."""
    rows = window.rows if isinstance(window, PartitionedWindow) else window
    if not isinstance(rows, SlidingWindow) or rows.slide <= rows.size:
        return ()
    size, slide = (amount_text(ticks, window, schema) for ticks in (rows.size, rows.slide))
    return (f"windows leave gaps: RANGE {size} of every SLIDE {slide}; tuples in between are in no window",)


def window_remarks(window: Windowing, schema: Schema) -> tuple[str, ...]:
    """Say what `explain` says of a window: its class (thesis 6.1.2), and what follows from it."""
    meaning = {
        "CF": "context free: a tuple alone tells its windows",
        "FCF": "forward-context free: the tuples before it tell a tuple's windows",
        "FCA": "forward-context aware: later tuples decide",
    }
    return (f"class {window.context} ({meaning[window.context]})", *gaps(window, schema))
