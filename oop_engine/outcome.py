"""What a run leaves: the results as a table and what happened on the way."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import trio

from oop_engine.meter import Statistics
from oop_engine.plan import Plan
from oop_engine.runtime import Deliver, Watch, run_plan
from operators.page import Page
from operators.protocol import Element
from operators.schema import is_ip

if TYPE_CHECKING:
    from oop_engine.stream import Output


@attrs.frozen(eq=False)
class Outcome:
    """The results of a run, and its statistics."""

    table: pa.Table
    statistics: Statistics


def collect(plan: Plan) -> Outcome:
    """Run a plan with one output under a trio loop of its own and keep the results."""
    return trio.run(collect_async, plan)


async def collect_async(plan: Plan) -> Outcome:
    """Run a plan with one output under the trio loop that is there and keep the results."""
    pages: list[Page] = []

    def keep(element: Element) -> None:
        if isinstance(element, Page):
            pages.append(element)

    statistics = await run_plan(plan, (keep,))
    return Outcome(table_of(plan.outputs[0].schema.arrow, pages), statistics)


def table_of(arrow: pa.Schema, pages: Sequence[Page]) -> pa.Table:
    """Give pages as one Arrow table, addresses as text."""
    from operators.address import format_ip

    table = pa.Table.from_batches([page.batch for page in pages], schema=arrow)
    for i, field in enumerate(arrow):
        if is_ip(field):
            chunks = [format_ip(chunk) for chunk in table.column(i).chunks]
            table = table.set_column(i, pa.field(field.name, pa.string()), pa.chunked_array(chunks, pa.string()))
    return table


def run_outputs(outputs: Sequence[Output], *, watch: Watch | None = None, handle_signals: bool = False) -> Statistics:
    """Run several outputs as one plan, shared parts once, and write their results."""
    return trio.run(_run_outputs, outputs, watch, handle_signals)


async def _run_outputs(outputs: Sequence[Output], watch: Watch | None, handle_signals: bool) -> Statistics:
    return await run_outputs_async(outputs, watch=watch, handle_signals=handle_signals)


def run_outputs_async(
    outputs: Sequence[Output], *, watch: Watch | None = None, handle_signals: bool = False
) -> Awaitable[Statistics]:
    """Run several outputs under the trio loop that is there."""
    return _written(outputs, watch, handle_signals)


async def _written(outputs: Sequence[Output], watch: Watch | None, handle_signals: bool) -> Statistics:
    from contextlib import ExitStack

    plan = Plan(tuple(output.stream.node for output in outputs))
    with ExitStack() as stack:
        writers: list[Deliver] = []
        for output in outputs:
            writers.append(stack.enter_context(output.sink.opened(output.stream.schema)))
        return await run_plan(plan, writers, watch=watch, handle_signals=handle_signals)
