"""Windows of the user's own kind, by what is supplied: a next-edge function, the extents, or a context to notify.

The class of thesis 6.1.2 follows from that: edges that need no tuples make the window CF, a context that sets edges
only from the tuple on that it is notified of makes it FCF, and one that looks back (it has a `horizon`) FCA.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from numbers import Integral
from typing import ClassVar, Final, Protocol, TypeAlias, runtime_checkable

import attrs

from operators.data.page import Row
from operators.errors import SchemaError
from operators.kernels.slicing.edges import around, compiled_search
from operators.kernels.ticks import FAR, LIMIT
from operators.window.protocol import MadeOf

_MOST: Final = 1_000_000
"""Extents at most: every slice looks at each of them."""
Around: TypeAlias = tuple[int, int, int, bool]
"""The last edge at or before a tick, the first after it, until when windows last that begin there, is any around it."""
Extent: TypeAlias = tuple[int, int, int]
"""Window-id, begin, end."""


@runtime_checkable
class AskedWindow(Protocol):
    """A window that says for single ticks where its edges are: the slow path, one question a cell."""

    @property
    def wattr(self) -> str:
        """Return the windowing attribute."""
        ...

    @property
    def context(self) -> str:
        """Return the class of thesis 6.1.2, derived: "CF", "FCF" or "FCA"."""
        ...

    def around(self, tick: int) -> Around:
        """Return the edges around a tick, and what `Around` tells of the windows there."""
        ...

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[Extent]:
        """Return the windows that touch one of these spans of ticks and end after `after`, and at or before `bound`."""
        ...

    def unfinished(self, bound: int) -> int:
        """Return the least begin of the windows that end after a bound, or a tick before it."""
        ...


@attrs.frozen
class EdgeWindow:
    """Windows between consecutive edges, as months are: `next_edge(t)` gives the first edge after t, and never falls.

    The window-id is the begin. The function is compiled at the first tuple when it is plain arithmetic on integers;
    otherwise it is called as it is, which is slower, though not more often than O(log length) times a slice. Source:
    the interface for context-free windows in Scotty, section 5.4.2.

    >>> def next_power(t):
    ...     edge = 1
    ...     while edge <= t:
    ...         edge *= 2
    ...     return edge
    >>> window = EdgeWindow("ts", next_power)
    >>> window.compiled, window.around(5), window.around(8)
    (True, (4, 8, 8, True), (8, 16, 16, True))
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    next_edge: Callable[[int], int]
    _found: list[Callable[[int], tuple[int, int]] | None] = attrs.field(init=False, repr=False, eq=False, factory=list)
    """The compiled search, once it was asked for; None where the function cannot be compiled."""

    def __attrs_post_init__(self) -> None:
        for tick in (0, 1):
            if self._whole(tick) <= tick:
                raise self._no_edge(tick)

    @property
    def _search(self) -> Callable[[int], tuple[int, int]] | None:
        if not self._found:
            self._found.append(compiled_search(self.next_edge, 0))
        return self._found[0]

    @property
    def compiled(self) -> bool:
        """Return whether the function runs as native code; the interpreter is about 50 times slower."""
        return self._search is not None

    def _whole(self, tick: int) -> int:
        edge = self.next_edge(tick)
        if not isinstance(edge, Integral):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise self._no_edge(tick)
        # Out of range is out of range: no tick is there, and the stream ends before.
        return min(edge, LIMIT)

    def _no_edge(self, tick: int) -> SchemaError:
        return SchemaError(
            f"{self.wattr}: next_edge({tick}) gave {self.next_edge(tick)!r}; the next edge after {tick} must be a whole"
            f" number from {tick + 1} on.\n  After the last edge of a list give one that no tick reaches, as 2**61."
        )

    @property
    def context(self) -> str:
        return "CF"

    def extent(self, wid: int) -> tuple[int, int]:
        """Return the window that begins at `wid`."""
        return wid, self._whole(wid)

    def around(self, tick: int) -> Around:
        """Return the window that a tick is in; before the first edge there is none."""
        if (search := self._search) is not None:
            low, high = search(tick)
            high = min(high, LIMIT)
            if tick < high == self._whole(low):
                return self._told(low, high)
        # A number beyond 64 bits is another one in native code.
        low, high = around(self._whole, tick)
        if high <= tick:
            raise self._no_edge(tick)
        if self._whole(low) != high:
            raise SchemaError(
                f"{self.wattr}: next_edge({low}) gave {self.next_edge(low)!r}, and next_edge({tick}) {high!r}, with no"
                " edge between; edges must not fall.\n  Give for each t the least edge that is greater than t."
            )
        return self._told(low, high)

    def _told(self, low: int, high: int) -> Around:
        return (-FAR, high, -FAR, False) if low <= -LIMIT else (low, high, high, True)

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[Extent]:
        """Yield the windows that have one of these cells and end in (after, bound]."""
        end = -FAR
        for begin, _ in spans:
            if begin >= end:
                low, end, _, there = self.around(max(begin, -LIMIT))
                if there and after < end <= bound:
                    yield low, low, end

    def unfinished(self, bound: int) -> int:
        """Return the begin of the window around a bound, or of the first one."""
        if abs(bound) >= LIMIT:
            return bound
        low, high, _, there = self.around(bound)
        return low if there else high


def _listed(wids: Iterable[int]) -> tuple[int, ...]:
    """List window-ids, one more than there may be at most: they may never end."""
    return tuple(islice(wids, _MOST + 1))


@attrs.frozen
class ExtentWindow:
    """Windows of which nothing is known but `extent(wid)`, for every wid of a finite set: the slow path.

    They may overlap, leave gaps, have any length, and need not be consecutive. Cost: O(windows) a slice, and a release.

    >>> shifts = {1: (0, 8), 2: (6, 14), 7: (20, 22)}
    >>> window = ExtentWindow("ts", shifts.__getitem__, shifts)
    >>> window.around(7), window.around(15)
    ((6, 8, 14, True), (14, 20, -4611686018427387904, False))
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    extent: Callable[[int], tuple[int, int]]
    wids: tuple[int, ...] = attrs.field(converter=_listed)
    _extents: Sequence[Extent] = attrs.field(init=False, repr=False, eq=False)
    _edges: Sequence[int] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if len(self.wids) > _MOST:
            raise SchemaError(
                f"{self.wattr}: the window-ids of an ExtentWindow are a finite set of at most {_MOST:,}, and still"
                f" come after {self.wids[_MOST - 1]!r}.\n  Give those that are reached; an EdgeWindow has no last one."
            )
        extents = sorted((end, begin, wid) for wid in self.wids for begin, end in [self.extent(wid)] if begin < end)
        object.__setattr__(self, "_extents", [(wid, begin, end) for end, begin, wid in extents])
        edges = sorted({edge for _, begin, end in self._extents for edge in (begin, end)})
        object.__setattr__(self, "_edges", edges)

    @property
    def context(self) -> str:
        return "CF"

    def around(self, tick: int) -> Around:
        """Return the edges around a tick."""
        at = bisect_right(self._edges, tick)
        low = self._edges[at - 1] if at > 0 else -FAR
        high = self._edges[at] if at < len(self._edges) else FAR
        until = max((end for _, begin, end in self._extents if begin == low), default=-FAR)
        return low, high, until, any(begin <= tick < end for _, begin, end in self._extents)

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[Extent]:
        """Yield the windows that have one of these cells and end in (after, bound]."""
        begins = [begin for begin, _ in spans]
        for wid, begin, end in self._extents:
            at = bisect_left(begins, begin)
            if after < end <= bound and at < len(begins) and begins[at] < end:
                yield wid, begin, end

    def unfinished(self, bound: int) -> int:
        """Return the least begin of the windows that end after a bound, never when there are no more."""
        return min((begin for _, begin, end in self._extents if end > bound), default=FAR)


@runtime_checkable
class Context(Protocol):
    """The knowledge that a window has of the tuples so far. It is notified in order of time, whatever the order of
    arrival.
    """

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        """Take the next tuple, as the attributes that the window reads; give the edges that it sets, none before it."""
        ...

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        """Return the windows [begin, end) with end <= bound that were not given yet; all tuples before it are known."""
        ...

    def unfinished(self) -> int:
        """Return the least begin of the windows that are not given yet, as far as it is known; never falls."""
        ...

    def state(self) -> str:
        """Return all that is remembered, as text."""
        ...

    def restore(self, state: str) -> None:
        """Become the context whose `state` this was."""
        ...


@runtime_checkable
class LookingBack(Context, Protocol):
    """A context whose windows may begin where no edge was set before: tuples are kept from its horizon on."""

    def horizon(self) -> int:
        """Return a tick before which no window that is still to be given begins; never falls."""
        ...


@runtime_checkable
class Contextual(Protocol):
    """The specification of a window that needs a context."""

    @property
    def wattr(self) -> str:
        """Return the windowing attribute."""
        ...

    @property
    def context(self) -> str:
        """Return the class of thesis 6.1.2, derived: "FCF" or "FCA"."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the attributes that the context is shown."""
        ...

    def make(self) -> Context:
        """Make a fresh context."""
        ...


@attrs.frozen
class ContextWindow:
    """Windows that a context of the user's finds; `make` makes a fresh one, `reads` names what it is shown of a tuple.

    Tuples wait for the promise that makes their order certain, and a window leaves at the first bound after its end, as
    a tuple at the end itself may have set it. The edges count for all groups alike. The window-id is the begin. Source:
    the interface for context-aware windows in Scotty, section 5.4.2, notified behind the promise.

    >>> import json
    >>> class EveryThird:
    ...     '''Windows of three ticks of the data each.'''
    ...     def __init__(self):
    ...         self.seen, self.begin, self.found = 0, None, []
    ...     def notify(self, tick, row):
    ...         self.seen += 1
    ...         if self.seen % 3 == 1:
    ...             if self.begin is not None:
    ...                 self.found.append((self.begin, tick))
    ...             self.begin = tick
    ...             yield tick
    ...     def complete(self, bound):
    ...         found, self.found = self.found, []
    ...         return found
    ...     def unfinished(self):
    ...         return 2**62 if self.begin is None else min([b for b, _ in self.found] + [self.begin])
    ...     def state(self):
    ...         return json.dumps([self.seen, self.begin, self.found])
    ...     def restore(self, state):
    ...         self.seen, self.begin, self.found = json.loads(state)
    >>> ContextWindow("ts", EveryThird).context
    'FCF'
    """

    made_of: ClassVar[MadeOf] = MadeOf.SLICES
    wattr: str
    make: Callable[[], Context]
    reads: tuple[str, ...] = attrs.field(default=(), converter=tuple[str, ...])

    @property
    def context(self) -> str:
        return "FCA" if isinstance(self.make(), LookingBack) else "FCF"
