"""The plan facts that window aggregates have in common; their classes take these functions as methods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions.protocol import AggregateFunction
from operators.pace import Pace, Paces, Windowed, pace_of, want
from operators.plan_facts import ANY_DISTANCE, Attributes, Keys, Together, disclaimed_groups
from operators.plan_facts import together as needed_together
from operators.protocol import Operator
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.results import START, STOP, WID
from punctuation import ANY, END, Below, Pattern, Punctuation, Range, below, intersect, least


@runtime_checkable
class Grouping(Protocol):
    """An operator that aggregates groups."""

    @property
    def functions(self) -> Mapping[str, AggregateFunction]: ...
    @property
    def by(self) -> Any:
        """Return the names; no type says so, for of an attrs class the type checker sees a converter here."""


@runtime_checkable
class TagsWindows(Protocol):
    """An operator that tags each tuple with the windows that it is in and that are not released."""

    @property
    def window(self) -> Window: ...
    @property
    def partition(self) -> tuple[str, ...]:
        """Return the attributes whose values have windows of their own, none for most windows."""
        ...

    @property
    def consistent(self) -> bool:
        """Return whether a tuple that is late for one of its windows is left out of all."""
        ...

    @property
    def bound(self) -> int:
        """Return the first window that is not released, -2^63 while none is."""
        ...

    def learn(self, **counts: int) -> None:
        """Count tuples that another one took for this one."""
        ...


@runtime_checkable
class OpensWindows(Protocol):
    """An operator that knows which of its windows are open, and what completes each."""

    def open_windows(self, most: int = ...) -> Page:
        """Return so many of the windows that have a tuple and were not released, the earliest first."""
        ...

    def closed_by(self, wid: int) -> Punctuation:
        """Return the least linear promise on the input that completes a window."""
        ...


@runtime_checkable
class WaitsForTuples(Protocol):
    """An operator whose windows are of so many tuples, so that one may wait for tuples rather than for a promise."""

    def lacking(self, wid: int) -> int:
        """Return how many more tuples a window needs, 0 where it has them; of several groups, the most."""
        ...


@runtime_checkable
class KnowsLateness(Protocol):
    """An operator that knows which lateness would have taken in the tuples that it refused."""

    def enough(self) -> tuple[int, int] | None:
        """Return a lateness, in ticks, that would have taken in all tuples that came too late so far, and how many.

        None where that is not known.
        """
        ...


@runtime_checkable
class ChangesWindows(Protocol):
    """An operator whose windows may come and go while it runs, if they have names."""

    @property
    def windows(self) -> Mapping[str, Any]: ...
    @property
    def named(self) -> bool:
        """Return whether results bear the names of their windows."""
        ...

    @property
    def lateness(self) -> int: ...
    def add(self, name: str, window: Any) -> int:
        """Let another window count from now on; return the tick from which on its windows begin that are given."""
        ...

    def remove(self, name: str) -> None:
        """Stop giving results of a window."""
        ...


@runtime_checkable
class KnowsWindows(Protocol):
    """An operator that tells results of windows apart by their names, so that none may come or go before it."""

    def knows_windows(self) -> Collection[str]:
        """Name the windows."""
        ...


def names_windows(operator: object) -> bool:
    """Return whether the results of an operator bear the names of their windows."""
    return isinstance(operator, ChangesWindows) and operator.named


def windows_of(operator: object) -> tuple[Windowed, ...]:
    """Return the windows that an operator computes, none for most operators."""
    if isinstance(windows := getattr(operator, "windows", None), Mapping):
        return tuple(windows.values())
    window = getattr(operator, "window", None)
    return () if window is None else (window,)


def open_for(window: object) -> int:
    """Return how far below the bound tuples may be that a sliced window is open for, in ticks: of a session, any."""
    return int(getattr(window, "size", ANY_DISTANCE))


def aggregated(self: Grouping, schema: Schema) -> Attributes:
    """Name the attributes that groups are made by and functions take."""
    named = {name for function in self.functions.values() for name in function.arguments}
    return frozenset(self.by) | {schema.resolve(name, where="plan") for name in named}


def attributes_read(self: Grouping, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
    windows = windows_of(self)
    read = (getattr(window, "reads", ()) for window in windows)
    times = (window.wattr for window in windows)
    return [aggregated(self, inputs[0]).union((FROM, UNTIL), times, *read)]


def promises_asked(self: Grouping, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
    paces = {name: pace for name, pace in wanted.items() if name in self.by}
    if FROM in inputs[0]:
        return [paces | ({FROM: Pace(1)} if any(name in wanted for name in (WID, START, STOP)) else {})]
    for window in windows_of(self):
        pace = pace_of(window, inputs[0])
        want(paces, window.wattr, pace)
        if pace.step is not None and (lateness := int(getattr(self, "lateness", 0))):
            # A window may change until its end is so far behind the promise, which has to be seen, too.
            want(paces, window.wattr, Pace(pace.step, (pace.origin + lateness) % pace.step))
    return [paces]


def disclaimed(self: Grouping, unwanted: Punctuation, *inputs: Schema) -> Sequence[Punctuation | None]:
    """Say which tuples it does not need: whole groups, and those that are in no window that anybody wants.

    A window that tuples define would be another one without them, and windows without tuples are told by those around
    them: there, groups alone are left out.
    """
    patterns = dict(unwanted.patterns)
    times = {name: patterns.pop(name) for name in (WID, START, STOP) if name in patterns}
    (groups,) = disclaimed_groups(needed_together(cast(Operator, self), inputs), Punctuation(patterns), inputs)
    if not patterns:
        groups = END
    if not times or groups is None:
        return [groups]
    windows = [window for window in windows_of(self) if isinstance(window, SlidingWindow)]
    if len(windows) < len(windows_of(self)) or getattr(self, "empty", False):
        return [None]
    found: Pattern | None = ANY
    for name, pattern in times.items():
        ticks = _ticks(windows, name, pattern)
        found = None if found is None or ticks is None else intersect(found, ticks)
    wattr = windows[0].wattr if windows else ""
    if found is None or wattr not in inputs[0] or wattr in groups.attributes:
        return [None]
    return [Punctuation({**dict(groups.patterns), wattr: found})]


def _ticks(windows: Sequence[SlidingWindow], name: str, pattern: Pattern) -> Pattern | None:
    """Return ticks of which all windows match a pattern on the window's id, begin or end; None where it is no bound.

    A window begins at or before a tick that is in it, and ends behind it; neither is further off than its length.
    """
    longest, until, since = max((window.size for window in windows), default=0), below(pattern), least(pattern)
    if name == WID:
        if len(windows) != 1:
            return None
        extent = windows[0].extent
        name, until = START, None if until is None else extent(int(until))[0]
        if since is not None:
            return Range(extent(since - 1)[1])
    if isinstance(until, int):
        return Below(until if name == START else until - longest)
    if since is not None:
        return Range(since + longest - 1 if name == START else since - 1)
    return None


def order_wanted(self: Grouping, *inputs: Schema) -> str | None:
    if FROM in inputs[0]:
        return FROM
    windows = windows_of(self)
    return windows[0].wattr if windows else next(filter(inputs[0].progressing, self.by), None)


def groups_read(self: Grouping, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
    return [aggregated(self, inputs[0])]


def together(self: Grouping, *inputs: Schema) -> Together:
    windows = windows_of(self)
    return grouped(windows[0] if windows else None, self.functions, self.by)


def by_arrival(functions: Mapping[str, AggregateFunction]) -> bool:
    """Return whether the result of a function depends on the order of arrival, if only among tuples of one time."""
    return any(
        bool(getattr(function, "arrival_order", True)) or not function.commutative for function in functions.values()
    )


def grouped(window: object, functions: Mapping[str, AggregateFunction], by: Iterable[str]) -> Together:
    """Say that groups must be together, and all of them where windows go on as long as one of them has tuples."""
    by, rows, partition = tuple(by), window, Keys()
    arrival = by_arrival(functions)
    if isinstance(window, PartitionedWindow):
        rows, partition = window.rows, window.partition
    if isinstance(rows, LandmarkWindow):
        if partition and set(partition) <= set(by):
            why = "the windows of a partition go on as long as any of its groups has tuples"
            return Together.by(partition, arrival=arrival, why=why)
        why = "windows without a beginning go on as long as any group has tuples"
        return Together(arrival=arrival, why=why)
    why = "a function takes tuples as they arrive" if arrival else "" if by else "there are no groups"
    return Together.by(by, arrival=arrival, why=why)
