"""A context-aware window at work: its context, notified in order of time, and the edges that it has set so far.

Tuples wait until a promise makes their order certain, so a context never learns of a tuple before an earlier one, and
edges are set before any tuple at or after them has a slice. Only a window that looks back may cut a slice in two, and
one that was added while the stream ran none of those before the tick from which it counts: their tuples are gone.
"""

from __future__ import annotations

import json
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from operators.data.page import Int64s, Page, plain_values
from operators.errors import SchemaError
from operators.kernels.ticks import FAR
from operators.window.user import Context, Contextual, Extent, LookingBack

_MOST: Final = 100_000
"""Edges of one tuple at most, and windows behind the last one: more are taken for a sequence that never ends."""


@attrs.define(eq=False)
class Tracked:
    """Ask one context; counts from the tick `since` on: it is shown no tuple before, and no window begins before."""

    name: str
    spec: Contextual
    since: int
    _context: Context = attrs.field(init=False)
    _edges: list[int] = attrs.field(init=False, factory=list)
    _last: int = attrs.field(init=False, default=-FAR)
    """The last tick that the context was notified of."""

    def __attrs_post_init__(self) -> None:
        self._context = self.spec.make()
        if self.since > -FAR and isinstance(self._context, LookingBack):
            # Tuples before are not kept, so no slice that is made anew may have one.
            self._edges.append(self.since)

    @property
    def wattr(self) -> str:
        return self.spec.wattr

    @property
    def context(self) -> str:
        return self.spec.context

    @property
    def horizon(self) -> int:
        """Return the tick from which tuples must be kept for windows that look back; FAR when none do."""
        return max(self._context.horizon(), self.since) if isinstance(self._context, LookingBack) else FAR

    def notify(self, page: Page, ticks: Int64s) -> Iterator[int]:
        """Show the context tuples in order of time and give the edges that it sets."""
        names = self.spec.reads
        columns = [plain_values(page.column(name)) for name in names]
        for i, tick in enumerate(ticks.tolist()):
            if tick < self.since:
                continue
            row = {name: column[i] for name, column in zip(names, columns, strict=True)}
            self._last = max(self._last, tick)
            for number, edge in enumerate(self._context.notify(tick, row)):
                if number == _MOST:
                    raise SchemaError(
                        f'window "{self.name}": notified of {tick}, its context set {_MOST:,} edges, now that at'
                        f" {edge}, and goes on.\n  Let notify end: give further edges when there are tuples at them."
                    )
                if edge < tick and not isinstance(self._context, LookingBack):
                    raise SchemaError(
                        f'window "{self.name}": notified of {tick}, its context set the edge {edge}, which is before'
                        " it.\n  Give the context a method horizon(), and tuples are kept from there on."
                    )
                if edge >= self.since and self._set(edge):
                    yield edge

    def _set(self, edge: int) -> bool:
        at = bisect_right(self._edges, edge)
        if at > 0 and self._edges[at - 1] == edge:
            return False
        insort(self._edges, edge)
        return True

    def around(self, tick: int) -> tuple[int, int, int, bool]:
        """Return the edges around a tick that are set; windows that begin at the lower one may last for ever."""
        at = bisect_right(self._edges, tick)
        low = self._edges[at - 1] if at > 0 else -FAR
        high = self._edges[at] if at < len(self._edges) else FAR
        return low, high, FAR, low > -FAR or isinstance(self._context, LookingBack)

    def windows(self, bound: int) -> tuple[list[Extent], list[int]]:
        """Return the windows that a bound completes, and the edges of theirs that are new."""
        found: list[Extent] = []
        new: list[int] = []
        beyond = 0
        for begin, end in self._context.complete(bound):
            if begin < self.since:
                continue
            found.append((begin, begin, end))
            beyond += begin > self._last
            if beyond > _MOST:
                raise SchemaError(
                    f'window "{self.name}": its last tuple was at {self._last}, and its context gave {_MOST:,} windows'
                    f" behind it, now [{begin}, {end}), and goes on.\n  Let complete end: at the end of a stream all"
                    " windows are complete, so give those alone that have tuples."
                )
            for edge in (begin, end):
                if self._set(edge):
                    new.append(edge)
                    if not isinstance(self._context, LookingBack):
                        raise SchemaError(
                            f'window "{self.name}": its context gave the window [{begin}, {end}), but set no edge at'
                            f" {edge}.\n  Give {edge} from notify, or give the context a method horizon()."
                        )
        return found, new

    def complete(self, after: int, bound: int, spans: Iterable[tuple[int, int]]) -> Iterator[Extent]:
        """Return nothing: the windows of a context are asked for once, by `windows`."""
        return iter(())

    def unfinished(self, bound: int) -> int:
        """Return the least begin of the windows that are still to be given."""
        context = self._context
        least = context.horizon() if isinstance(context, LookingBack) else context.unfinished()
        return min(bound, max(least, self.since))

    def forget(self, bound: int) -> None:
        """Let go of the edges that are of no use once no tuple before a bound comes, and no window begins there."""
        del self._edges[: max(0, bisect_right(self._edges, self.unfinished(bound)) - 1)]

    def state(self) -> str:
        return json.dumps({"edges": self._edges, "last": self._last, "context": self._context.state()})

    def restore(self, state: str) -> None:
        saved = json.loads(state)
        self._edges = saved["edges"]
        self._last = saved.get("last", FAR)
        self._context.restore(saved["context"])
