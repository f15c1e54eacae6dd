"""Kinds of windows say how they give early results; those that cannot are refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oop_engine.errors import PlanError
from oop_engine.plan.ticks import Amount
from oop_engine.plan.ticks import length_of as length_in_ticks
from oop_engine.plan.windows import Windowing, window_text
from operators.data.schema import ROW_NUM, Schema
from operators.window import LandmarkWindow, MadeOf, PartitionedWindow, SlidingWindow, Window, made_of
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import DelimitedWindow, FixedBandWindow
from operators.window.edges import NumberedEdges
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow

if TYPE_CHECKING:
    from oop_engine.api.early import Early


def exact(window: Windowing) -> bool:
    """Return whether early results on event time alone are over the tuples before a tick.

    - `window`: a window of any kind. Others fire behind the promise that reaches a tick, with what has come.

    >>> exact(SlidingWindow("ts", size=10, slide=5)), exact(LandmarkWindow("ts", slide=5))
    (True, False)
    """
    return isinstance(window, SlidingWindow | SessionWindow)


def by_trigger(early: Early, windows: Iterable[Windowing], schema: Schema, late: Amount = 0) -> bool:
    """Return whether windows fire as tuples, signals and promises come, and not at exact ticks of event time.

    - `early`: when they fire.
    - `windows`: windows of any kinds.
    - `schema`: that of the stream.
    - `late`: the lateness that was asked for; with it, sessions do, for a late tuple may give them another begin.

    PlanError where some would and others would not.
    """
    if not early.on_event_time:
        return True
    found = list(windows)
    if all(isinstance(window, SessionWindow) for window in found) and _ticks(late, found[0], schema):
        return True
    others = [window for window in found if not exact(window)]
    if others and len(others) < len(found):
        one = window_text(others[0], schema)
        raise PlanError(
            f"aggregate(early=...): {one} fires {early.when} behind the promise that reaches a tick,\n  and other"
            " windows here at the tick itself, so that their results tell other things. Aggregate it by itself."
        )
    return bool(others)


def _ticks(late: Amount, window: Windowing, schema: Schema) -> int:
    """Return a lateness in ticks of a window."""
    return length_in_ticks(late, schema.field(window.wattr, where="early"), what="lateness", least=0)


def length_of(window: Windowing) -> int | None:
    """Return in how many ticks a window fires: its length, or what it has more than the window before it.

    - `window`: a window of any kind; None where its length is not known before it is over.

    >>> length_of(LandmarkWindow("ts", slide=5)), length_of(SessionWindow("ts", gap=5))
    (5, None)
    """
    if isinstance(window, LandmarkWindow):
        return window.slide
    return window.size if isinstance(window, SlidingWindow | FixedBandWindow) else None


def counts_rows(window: Windowing) -> bool:
    """Return whether a window is measured in rows.

    - `window`: a window of any kind.

    >>> counts_rows(SlidingWindow("ts", size=5, slide=5))
    False
    """
    return isinstance(window, PartitionedWindow | CountWindow) or window.wattr == ROW_NUM


def has_wids(window: Windowing) -> bool:
    """Return whether a tuple alone tells the window-ids of its windows.

    - `window`: a window of any kind.

    >>> has_wids(SlidingWindow("ts", size=5, slide=5))
    True
    """
    return isinstance(window, Window) and MadeOf.RANKS not in made_of(window)


def as_fired(window: Windowing) -> Windowing:
    """Return a window as triggers fire it: one between edges by its window-ids, others as they are.

    - `window`: a window of any kind.

    >>> as_fired(EdgeWindow("ts", lambda tick: tick // 10 * 10 + 10)).extent(10)
    (10, 20)
    """
    return NumberedEdges(window) if isinstance(window, EdgeWindow) else window


def by_part(window: Windowing) -> bool:
    """Return whether promises on single groups tell a window how far event time is.

    - `window`: a window of any kind.

    >>> by_part(SlidingWindow("ts", size=5, slide=5))
    False
    """
    return isinstance(window, PredicateWindow)


def unpromised(window: Windowing) -> str | None:
    """Return why a promise fires no window of a kind, None where it does.

    - `window`: a window of any kind.

    >>> unpromised(LandmarkWindow("ts", slide=5))
    'it has all times'
    """
    if isinstance(window, LandmarkWindow):
        return "it has all times"
    return "promises make its tuples final" if isinstance(window, PredicateWindow | CountWindow) else None


def check_kind(early: Early, window: Windowing, schema: Schema) -> None:
    """Refuse windows that no trigger can fire, and options that a kind does not have.

    - `early`: when windows fire.
    - `window`: a window of any kind but sessions.
    - `schema`: that of the stream.

    PlanError with the reason, and what to write instead.
    """
    text = window_text(window, schema)
    if (reason := _never(window)) is not None:
        raise PlanError(f"aggregate(early=...): {text} cannot fire: {reason}")
    if isinstance(window, SlidingWindow | PartitionedWindow):
        return
    for name, given in (("events", early.events), ("interval", early.interval)):
        if given is not None:
            raise PlanError(
                f"aggregate(early=oop.early({name}=...)): {name} are for sliding and tumbling windows, and not for"
                f" {text}.\n  Leave {name} out{'; fire events by running.fire' if name == 'events' else ''}."
            )


def _never(window: Windowing) -> str | None:
    """Return why windows of a kind do not fire, and what to do instead; None for those that do."""
    match window:
        case SlideByTuple() | SlideByRows() | SlideByRank():
            return (
                "each is known with its last tuple, and then nothing of it is missing.\n"
                '  Write a window that is open for a time, as range="1 minute"; or ask a run for running.partial().'
            )
        case LastTuples():
            return (
                "which tuples are its last is known at its end.\n"
                "  Let it slide more often; or ask a run for running.partial()."
            )
        case DelimitedWindow() | PredicateWindow(unfinished=False):
            return (
                "what is open at the end of the stream is no window of MARKED BY, and what it gave before would stand."
                "\n  Write WHEN flag UNTIL NEXT, in Python oop.when(enter=...), whose last window is given at the end."
            )
        case PartitionedWindow(rows=LandmarkWindow()):
            return (
                "a row is in all later windows of RANGE ALL, and rows of each partition end them.\n"
                "  Give the window a RANGE; or ask a run for running.partial()."
            )
        case _:
            pass
    if not has_wids(window) and not isinstance(window, PredicateWindow | CountWindow):
        return (
            "a tuple alone does not tell its window-ids.\n"
            "  Triggers fire windows of your own that have `wids`; of others, ask a run for running.partial()."
        )
    return None
