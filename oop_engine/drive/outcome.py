"""Run plans of one output to their end, with results in memory, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import attrs
import pyarrow as pa

from oop_engine.drive.limit import Limit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.runtime import Deliver, Watch, run_plan, run_to_end
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan
from operators.data.markup import html_table
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import address_text, address_text_field, text_of
from operators.data.schema import Schema
from operators.protocol import Element


class Marking(Protocol):
    """Add columns to results, and hear how far they will last, whatever happens to this process."""

    @property
    def schema(self) -> Schema: ...

    def mark(self, page: Page) -> Page: ...

    def given(self, element: Element) -> None: ...


_SHOWN: Final = 20
"""Rows of a table that a notebook shows."""


@attrs.frozen(eq=False, repr=False)
class Outcome:
    """Hold the results of a run in `table`, and its `statistics`.

    >>> outcome = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64")).run()
    >>> outcome.table.num_rows, outcome.statistics.tuples
    (2, 2)
    """

    table: pa.Table
    statistics: Statistics

    def __repr__(self) -> str:
        """Return the size and the columns of the table, and the statistics in short."""
        names = ", ".join(map(printable, self.table.column_names))
        return f"Outcome(table of {self.table.num_rows:,} rows: {names}; statistics={self.statistics!r})"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Let DuckDB, Polars, pandas and others read the results as those of `table`."""
        return self.table.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the first rows of the table as one of HTML, and the statistics in short, for a notebook."""
        first = self.table.slice(0, _SHOWN)
        names = list(map(str, first.column_names))
        columns = [text_of(first.column(i).combine_chunks(), first.schema.field(i)) for i in range(len(names))]
        shown = "" if len(first) == self.table.num_rows else f"the first {_SHOWN} of "
        caption = f"{shown}{self.table.num_rows:,} rows; {self.statistics!r}"
        return html_table(names, zip(*(column.to_pylist() for column in columns), strict=True), caption)


def shedding_of(
    limit: Limit | None, plan: Plan, number: int, node: Node, beside: Marking | None = None
) -> Marking | None:
    """Return what marks the results of an output of a run with a limit, see `oop_engine.drive.shedding`."""
    if limit is None or limit.policy != "shed":
        return beside
    # Start-up: few runs refuse groups.
    from oop_engine.drive.shedding import shedding

    return shedding(limit, plan, number, node, beside)


def collect(
    plan: Plan, node: Node, *, threads: int | None = None, limit: Limit | None = None, watch: Watch | None = None,
    seen: Deliver | None = None,
) -> Outcome:  # fmt: skip
    """Run a plan with one output under a trio loop of its own and keep the results; SourceEnded has those so far.

    - `node`: what the plan was made of.
    - `watch`, `seen`: who watches the run, and is given its results, too.
    """
    pages: list[Page] = []
    marking = shedding_of(limit, plan, 0, node)
    deliver = marked(marking, _keeping(pages, seen))
    statistics = run_to_end(plan, (deliver,), threads=threads, limit=limit, watch=watch)
    return _kept(Outcome(table_of(_schema(plan, marking), pages), statistics))


async def collect_async(
    plan: Plan, node: Node, *, threads: int | None = None, limit: Limit | None = None, watch: Watch | None = None,
    seen: Deliver | None = None,
) -> Outcome:  # fmt: skip
    """Run a plan with one output as `collect` does, under the trio loop that is there; PlanError under asyncio."""
    check_loop()
    pages: list[Page] = []
    marking = shedding_of(limit, plan, 0, node)
    deliver = marked(marking, _keeping(pages, seen))
    statistics = await run_plan(plan, (deliver,), threads=threads, limit=limit, watch=watch)
    return _kept(Outcome(table_of(_schema(plan, marking), pages), statistics))


def _schema(plan: Plan, marking: Marking | None) -> pa.Schema:
    return plan.outputs[0].schema.arrow if marking is None else marking.schema.arrow


def _kept(outcome: Outcome) -> Outcome:
    """Raise what ended the run, with what was released before."""
    ended = outcome.statistics.ended
    if ended is not None:
        ended.outcome = outcome
        ended.add_note("the results so far are the error's `outcome`; windows that were still open are not among them.")
        raise ended
    return outcome


def _keeping(pages: list[Page], seen: Deliver | None) -> Deliver:
    def keep(element: Element) -> None:
        if isinstance(element, Page):
            pages.append(element)
        if seen is not None:
            seen(element)

    return keep


def table_of(arrow: pa.Schema, pages: Sequence[Page]) -> pa.Table:
    """Return pages as one Arrow table, addresses as text, also those in lists, structs and maps."""
    table = pa.Table.from_batches([page.batch for page in pages], schema=arrow)
    for i, field in enumerate(arrow):
        shown = address_text_field(field)
        if shown is not field:
            chunks = [address_text(chunk, field) for chunk in table.column(i).chunks]
            table = table.set_column(i, shown.remove_metadata(), pa.chunked_array(chunks, shown.type))
    return table


def marked(marking: Marking | None, deliver: Deliver) -> Deliver:
    """Return what marks the rows of an output before it delivers them."""
    if marking is None:
        return deliver

    def mark(element: Element) -> None:
        deliver(marking.mark(element) if isinstance(element, Page) else element)

    return mark


def check_loop() -> None:
    """Raise PlanError in a task of asyncio; trio that is a guest of an asyncio loop runs in none of its tasks."""
    # Start-up: only a refusal needs asyncio.
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:
        return
    if task is not None:
        raise PlanError(
            "run_async() runs under trio, and this is a task of asyncio.\n"
            "  Here write await asyncio.to_thread(stream.run), or begin with trio.run(stream.run_async)."
        )
