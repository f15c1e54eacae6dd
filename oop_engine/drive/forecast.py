"""Forecast when a source will have promised a bound, from how fast it came so far; nothing is assumed beyond that.

A stream from outside is measured by the clock and by its tuples, a file by its tuples, which its reading takes as fast
as it can. Promises by the clock, and those of a file that was read ahead, are known exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs

from oop_engine.plan.ticks import tick_ns
from operators.data.readable import tick_text
from punctuation.demanded_progress import follow, known
from punctuation.punctuators import Heartbeat, Punctuator, Scheduled

if TYPE_CHECKING:
    from oop_engine.drive.circuit import Circuit

_SECOND: Final = 10**9
_EVERY: Final = 0.25
"""Seconds between two points of a course."""
_POINTS: Final = 64
_SPAN: Final = 1.0
"""Seconds that a course must have taken to say how fast it is by the clock."""
_GAPS: Final = 3
"""A source that is silent for so many times its usual gap has no pace any more."""


@attrs.frozen
class Forecast:
    """Say when a window will be complete if everything goes on as it did.

    - `tuples`: after so many more tuples of the source that it waits for longest; None where tuples do not tell.
    - `seconds`: in so many seconds; None where the run is too young to tell, or the source gives nothing.
    - `at`: the same in ns since 1970, by the clock of this machine.

    >>> from oop_engine.drive.forecast import Forecast
    >>> print(Forecast(1200))
    at this pace it is complete after 1,200 more tuples
    >>> print(Forecast(None, 113.2, 1_700_000_113_200_000_000))
    at this pace it is complete in 113 s, at 2023-11-14T22:15:13Z
    """

    tuples: int | None = None
    seconds: float | None = None
    at: int | None = None

    def __str__(self) -> str:
        """Return it as a clause."""
        if self.seconds is None or self.at is None:
            return f"at this pace it is complete after {self.tuples:,} more tuple{'s' * (self.tuples != 1)}"
        far = f"{self.seconds:.2g}" if self.seconds < 10 else f"{self.seconds:,.0f}"
        return f"at this pace it is complete in {far} s, at {tick_text(self.at // _SECOND, 's')}"

    @classmethod
    def latest(cls, forecasts: Iterable[Forecast]) -> Forecast:
        """Return the one that comes last: a window waits for all sources."""
        return max(forecasts, key=lambda one: (one.seconds or 0.0, one.tuples or 0))


@attrs.frozen
class _Point:
    """A point of a course: the tuples that a source had given then, its highest value, and its promise."""

    moment: float
    tuples: int
    highest: int | None
    promised: int | None


@attrs.define(eq=False)
class Course:
    """Keep how far a source was at up to 64 moments, a quarter of a second apart at least.

    >>> from oop_engine.drive.forecast import Course
    >>> course = Course()
    >>> for second in range(5):
    ...     course.note(second, 10 * second, 100 + 50 * second, None)
    >>> course.pace("highest", 5, 50, 350)
    (5, 5.0, 50.0)
    """

    _points: deque[_Point] = attrs.field(init=False, factory=lambda: deque(maxlen=_POINTS))

    def due(self, moment: float) -> bool:
        """Return whether the next point is to be noted."""
        return not self._points or moment - self._points[-1].moment >= _EVERY

    def note(self, moment: float, tuples: int, highest: int | None, promised: int | None) -> None:
        """Note how far the source is; cheap enough for each page, as only a point that is `due` is kept."""
        if highest is not None or promised is not None:
            self._points.append(_Point(moment, tuples, highest, promised))

    def gap(self) -> float:
        """Return the longest time from one point to the next, 0 before there are two."""
        points = list(self._points)
        return max((b.moment - a.moment for a, b in pairwise(points)), default=0.0)

    def rate(self, moment: float, tuples: int) -> float:
        """Return how many tuples come a second, 0 where the time was too short to tell."""
        first = next(iter(self._points), None)
        if first is None or moment - first.moment < _SPAN:
            return 0.0
        return (tuples - first.tuples) / (moment - first.moment)

    def pace(self, what: str, moment: float, tuples: int, value: int) -> tuple[float, float, float] | None:
        """Return where a line through the points ends, and its slope: ticks per tuple, and per second; None without.

        - `what`: `highest` or `promised`. A promise rises in steps, so its line goes through the moments at which it
          rose, and ends at the last of them.
        - `moment`, `tuples`, `value`: how far the source is now.

        The first number is the moment at which the line ends. A slope by the clock is 0 where the time was too short.
        """
        points = [(p.moment, p.tuples, reached) for p in self._points if (reached := getattr(p, what)) is not None]
        points.append((moment, tuples, value))
        if what == "promised":
            points = [b for a, b in pairwise(points) if b[2] > a[2]]
        if len(points) < 2 or points[-1][2] <= points[0][2]:
            return None
        (began, had, first), (ended, have, last) = points[0], points[-1]
        rise, took = last - first, ended - began
        return ended, rise / (have - had) if have > had else 0.0, rise / took if took >= _SPAN else 0.0


def forecast(circuit: Circuit, place: int, attribute: str, need: int) -> Forecast | None:
    """Return when the source at a place will have promised `[attribute < need]`; None where nothing tells."""
    node = circuit.plan.sources[place]
    punctuator = next((p for p in circuit.inputs[place].punctuators if p.attribute == attribute), None)
    tick = tick_ns(node.schema.field(attribute).type) or 0
    now, meter = circuit.clock(), circuit.meters[place]
    need = stepped(punctuator, need)
    if isinstance(punctuator, Heartbeat):
        behind = max(skew + delay for skew, delay in punctuator.sources.values())
        return _by_clock(circuit, (need + behind) * tick)
    heard, course = circuit.heard.get(place), circuit.courses.get(place)
    promised, highest = meter.lwm.get(attribute), meter.hwm.get(attribute)
    lull = getattr(punctuator, "lull", None)
    if not node.source.rewindable and not has_pace(circuit, place):
        # Only a clock goes on.
        return None if lull is None else _by_clock(circuit, (need + lull) * tick)
    if isinstance(punctuator, Scheduled) and (many := follow(punctuator, need)) is not None:
        return _of_tuples(circuit, place, many, now)
    what, reached, target = "promised", promised, need
    true = None if punctuator is None else known(punctuator)
    if highest is not None and true is not None and not getattr(punctuator, "by", ()):
        what, reached, target = "highest", highest, need + highest - true
    if course is None or not isinstance(reached, int):
        return None
    live = heard is not None and not node.source.rewindable
    line = course.pace(what, heard if live and heard is not None else now, meter.tuples_in, reached)
    if line is None:
        return None
    ended, per_tuple, per_second = line
    left = max(0, target - reached)
    tuples = None
    if per_tuple:
        every = getattr(punctuator, "every", None) or 1
        tuples = -(-max(1, -int(-left // per_tuple)) // every) * every
    if not per_second:
        return None if tuples is None else Forecast(tuples)
    seconds = max(0.0, ended + left / per_second - now)
    return Forecast(tuples, seconds, circuit.wall() + int(seconds * _SECOND))


def has_pace(circuit: Circuit, place: int) -> bool:
    """Return whether a source was heard not much longer ago than it was silent before."""
    heard, course = circuit.heard.get(place), circuit.courses.get(place)
    gap = _EVERY if course is None else max(course.gap(), _EVERY)
    return heard is not None and circuit.clock() - heard <= max(_GAPS * gap, _SPAN)


def _of_tuples(circuit: Circuit, place: int, tuples: int, now: float) -> Forecast:
    """Return when so many more tuples of a source will have come."""
    course, taken = circuit.courses.get(place), circuit.meters[place].tuples_in
    per_second = None if course is None else course.rate(now, taken)
    if not per_second:
        return Forecast(tuples)
    return Forecast(tuples, tuples / per_second, circuit.wall() + int(tuples / per_second * _SECOND))


def _by_clock(circuit: Circuit, at: int) -> Forecast | None:
    """Return the forecast of a promise that the clock makes."""
    wall = circuit.wall()
    return Forecast(None, max(0, at - wall) / _SECOND, max(at, wall))


def stepped(punctuator: Punctuator | None, need: int) -> int:
    """Return the first bound from a need on that a punctuator makes."""
    given: Any = punctuator
    step = getattr(given, "step", None)
    return need if not isinstance(step, int) else need + (getattr(given, "origin", 0) - need) % step
