"""Results of a run with a checkpoint over what comes live say of each row whether its window may lack records.

A window lacks what came before the collector listened, and what came while nobody did; where the stream came to its
end, windows that were open lack what would have followed. That is so of windows

    that overlap a span of which the reading says that records are lacking, or, at the end of the stream, end beyond
    what was promised.

Windows over the windows of a query inside begin with records of so much earlier, as do sessions by their gap. Where
windows are joined by when they begin, as bills with what was lost of them, a row has records of both. The
column is there in the first run as in those that go on, so that all rows of a file have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode
from oop_engine.sources.protocol import ARRIVAL
from operators.data.page import Page
from operators.data.schema import Schema
from operators.lazy import is_of
from operators.pace import Windowed
from operators.plan_facts import pairing
from operators.protocol import Element
from operators.window_aggregate.facts import windows_of
from operators.window_aggregate.results import START
from punctuation import NO_TIME, Punctuation

INCOMPLETE: Final = "incomplete"
_SOURCE: Final = ("ts", "end_ts", ARRIVAL)
_NONE_YET: Final = "a page came before its reading began"


class Interrupted(Protocol):
    """A reading of what comes live, which was not always read."""

    @property
    def is_over(self) -> bool:
        """Return whether the stream came to its end, rather than was stopped."""
        ...

    def promised(self, name: str) -> int:
        """Return the bound that was promised of an attribute, NO_TIME before any was."""
        ...

    def lacking(self, name: str) -> list[tuple[int, int]]:
        """Return the spans of an attribute, from and before which values, of which records may be lacking."""
        ...

    def give(self, bound: int) -> None:
        """Take it that results up to a bound are where they will last."""
        ...


@attrs.define(eq=False)
class Incomplete:
    """Mark the rows of results of this schema, and tell the reader how far results are given."""

    reader: Callable[[], Interrupted | None]
    results: Schema
    wattr: str
    """The attribute of the stream that the windows are over."""
    reach: int | None
    """How much earlier than its window a row may reach back; None where its rows do not tell their window."""
    start: str | None
    """The attribute of results that tells from which time on a row has records; None where it is one record itself."""
    end: str | None
    apart: int = 0
    """How far the windows of a row may be from those that it was joined with."""
    schema: Schema = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if INCOMPLETE in self.results:
            raise PlanError(
                f'this run adds a column "{INCOMPLETE}" to the results, for windows that lack records, and they have'
                " one of that name.\n  Call it otherwise, as with AS."
            )
        self.schema = Schema(
            self.results.arrow.append(pa.field(INCOMPLETE, pa.bool_())), progress=self.results.progress
        )

    @classmethod
    def of(cls, reader: Callable[[], Interrupted | None], results: Schema, node: Node) -> Incomplete:
        """Find in which columns of the results of a node, before its plan is prepared, they tell of time."""
        timed = [f.name for f in results.arrow if pa.types.is_timestamp(f.type)]
        branches = branches_of(node)
        levels = None if branches is None else branches.chains[0]
        every = () if branches is None else [level for chain in branches.chains for level in chain]
        over = [window.wattr for level in every for window, _ in level if window.wattr in _SOURCE]
        wattr = over[0] if len(set(over)) == 1 else "ts"
        if levels is None or branches is None:
            return cls(reader, results, wattr, None, None, None)
        if len(branches.chains) > 1:
            reaches = [_reach(chain) for chain in branches.chains]
            known = [reach for reach in reaches if reach is not None]
            if len(known) < len(reaches) or "window_start" not in timed or "window_end" not in timed:
                return cls(reader, results, wattr, None, None, None)
            return cls(reader, results, wattr, max(known), "window_start", "window_end", branches.apart)
        if levels:
            if "window_start" in results and "window_start" not in timed:
                # Numbers of records: they begin with the run, and so do their windows.
                return cls(reader, results, wattr, 0, "window_start", None)
            if "window_start" not in timed:
                return cls(reader, results, wattr, None, None, None)
            return cls(reader, results, wattr, _reach(levels), "window_start", "window_end")
        times = [name for name in timed if results.progressing(name)]
        if not times:
            return cls(reader, results, "ts", 0, None, None)
        return cls(reader, results, times[0] if times[0] in _SOURCE else "ts", 0, times[0], None)

    @property
    def follows(self) -> bool:
        """Return whether the promises of the results tell how far they are given."""
        name = self.end or self.start
        return name is not None and self.results.progressing(name) and name != "window_start"

    def mark(self, page: Page) -> Page:
        """Add the column to rows."""
        return Page(self.schema, page.batch.add_column(len(self.results.names), self.schema.arrow[-1], self._of(page)))

    def _of(self, page: Page) -> pa.Array:
        if self.reach is None:
            return pa.nulls(len(page), pa.bool_())
        found = np.zeros(len(page), np.bool_)
        if self.start is None or not len(page):
            return pa.array(found)
        reader = self.reader()
        assert reader is not None, _NONE_YET
        times = pa.types.is_timestamp(self.results.field(self.start).type)
        starts, ends = page.ticks(self.start), page.ticks(self.end or self.start)
        for begins, until in reader.lacking(self.wattr) if times else ():
            # A record of one time is of the span that begins there, a window that ends there is not.
            late = ends + self.apart
            found |= (starts < until + self.reach + self.apart) & (late > begins if self.end else late >= begins)
        if reader.is_over and self.end is not None:
            found |= page.ticks(self.end) > reader.promised(self.wattr)
        return pa.array(found)

    def given(self, element: Element) -> None:
        """Note that results up to an element are where they will last."""
        reader = self.reader()
        if isinstance(element, Punctuation) and reader is not None and self.follows:
            bound = element.bound(self.end or self.start or "")
            if isinstance(bound, int) and bound > NO_TIME:
                # Windows that end before it are given.
                reader.give(bound - 1 if self.end else bound)


_Level: TypeAlias = Sequence[tuple[Windowed, bool]]
"""The windows of one operator, and of each whether it is of times."""


def levels_of(node: Node) -> list[_Level] | None:
    """Return the windows between a node and its source, the outermost first; None where inputs come together."""
    found: list[_Level] = []
    before: tuple[Windowed, ...] = ()
    while isinstance(node, OperatorNode):
        if len(node.inputs) != 1:
            return None
        (upstream,) = node.inputs
        windows = windows_of(node.operator)
        # What tags tuples has the windows of what aggregates them.
        if windows and windows != before:
            kinds = {f.name: f.type for f in (*upstream.schema.arrow, *node.schema.arrow)}
            found.append([(w, pa.types.is_timestamp(kinds.get(w.wattr, pa.null()))) for w in windows])
        node, before = upstream, windows
    return found


@attrs.frozen
class Branches:
    """The windows between a node and its source, by each way that leads there; and how far joins reach altogether."""

    chains: tuple[Sequence[_Level], ...]
    apart: int = 0


def branches_of(node: Node) -> Branches | None:
    """Return the windows on all ways between a node and its source; None where inputs come together otherwise than by
    when their windows begin, or there are several sources.
    """
    alone = levels_of(node)
    if alone is not None:
        return Branches((alone,))
    if len({id(source) for source in _sources(node)}) != 1:
        return None
    above: list[Node] = []
    while isinstance(node, OperatorNode) and len(node.inputs) == 1:
        above.append(node)
        (node,) = node.inputs
    if any(windows_of(one.operator) for one in above if isinstance(one, OperatorNode)):
        return None
    assert isinstance(node, OperatorNode)
    paired = pairing(node.operator)
    if paired is None or paired[:2] != (START, START):
        return None
    below = [branches_of(upstream) for upstream in node.inputs]
    known = [branches for branches in below if branches is not None and all(branches.chains)]
    if len(known) < len(below):
        return None
    chains = tuple(chain for branches in known for chain in branches.chains)
    return Branches(chains, paired[2] + sum(branches.apart for branches in known))


def _reach(levels: Sequence[_Level]) -> int | None:
    """Return how much earlier than its window a row has records; None where that is not known."""
    total = 0
    for number, level in enumerate(levels):
        reaches: list[int] = []
        for window, of_times in level:
            gap, size = getattr(window, "gap", None), getattr(window, "size", None)
            length = gap if gap is not None else 0 if number == 0 else size
            if not of_times or not isinstance(length, int):
                return None
            reaches.append(length)
        total += max(reaches)
    return total


def marking_of(node: Node, results: Schema, reader: Callable[[object], Interrupted | None]) -> Incomplete | None:
    """Return what marks the results of a node, of the reader of its source; None where nothing comes live there."""
    live = (("oop_engine.sources.live.source", "LiveFlows"), ("oop_engine.sources.live.counters", "LiveCounters"))
    sources = [one for one in _sources(node) if any(is_of(one, *kind) for kind in live)]
    return Incomplete.of(lambda: reader(sources[0]), results, node) if sources else None


def _sources(node: Node) -> Iterator[object]:
    if isinstance(node, OperatorNode):
        for upstream in node.inputs:
            yield from _sources(upstream)
    else:
        yield node.source
