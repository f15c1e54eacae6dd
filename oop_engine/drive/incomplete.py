"""Results of a collection that keeps its state say of each row whether its window may lack records.

A window lacks what came before the collector listened, and what came while nobody did; where the stream came to its
end, windows that were open lack what would have followed. That is so of windows

    that overlap a span of which the reading says that records are lacking, or, at the end of the stream, end beyond
    what was promised.

Windows over the windows of a query inside begin with records of so much earlier, as do sessions by their gap. The
column is there in the first run as in those that go on, so that all rows of a file have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs
import click
import numpy as np
import pyarrow as pa

from oop_engine.language.syntax import Duration, Name, Query, WindowClause
from oop_engine.sources.flows import FLOW_ALIASES
from oop_engine.sources.live import LiveReader
from oop_engine.sources.protocol import ARRIVAL
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import NO_TIME, Punctuation

INCOMPLETE: Final = "incomplete"
_SOURCE: Final = ("ts", "end_ts", ARRIVAL)
_NONE_YET: Final = "a page came before its reading began"


@attrs.define(eq=False)
class Incomplete:
    """Mark the rows of results of this schema, and tell the reader how far results are given."""

    reader: Callable[[], LiveReader | None]
    results: Schema
    wattr: str
    """The attribute of the stream that the windows are over."""
    reach: int | None
    """How much earlier than its window a row may reach back; None where its rows do not tell their window."""
    start: str | None
    """The attribute of results that tells from which time on a row has records; None where it is one record itself."""
    end: str | None
    schema: Schema = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if INCOMPLETE in self.results:
            raise click.UsageError(
                f'--checkpoint adds a column "{INCOMPLETE}" to the results, and the query has one of that name;'
                " call it otherwise, as with AS."
            )
        self.schema = Schema(
            self.results.arrow.append(pa.field(INCOMPLETE, pa.bool_())), progress=self.results.progress
        )

    @classmethod
    def of(
        cls, reader: Callable[[], LiveReader | None], results: Schema, query: Query, windows: Sequence[WindowClause]
    ) -> Incomplete:
        """Find in which columns of its results a query tells of time."""
        timed = [f.name for f in results.arrow if pa.types.is_timestamp(f.type)]
        named = [w.wattr.parts[-1] for w in windows if isinstance(w.wattr, Name)]
        over = [name for name in (FLOW_ALIASES.get(n, n) for n in named) if name in _SOURCE]
        if windows:
            wattr = over[0] if len(set(over)) == 1 else "ts"
            if "window_start" in results and "window_start" not in timed:
                # Numbers of records: they begin with the run, and so do their windows.
                return cls(reader, results, wattr, 0, "window_start", None)
            if "window_start" not in timed:
                return cls(reader, results, wattr, None, None, None)
            return cls(reader, results, wattr, _reach(query, windows), "window_start", "window_end")
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
            found |= (starts < until + self.reach) & (ends > begins if self.end else ends >= begins)
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
                reader.unreleased.give(bound - 1 if self.end else bound)


def _reach(query: Query, windows: Sequence[WindowClause]) -> int | None:
    """Return how much earlier than its window a row has records; None where windows are of so many tuples."""
    total = 0
    for window in windows:
        own, length = window is query.window, window.range
        if isinstance(length, Duration) and length.unit == "rows":
            return None
        if isinstance(length, Duration) and (window.session or not own):
            total += length.value
    return total
