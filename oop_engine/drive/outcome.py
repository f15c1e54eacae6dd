"""Run plans to their end: with results in memory, as a table, or written by the sinks of outputs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Unpack

import attrs
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.keeping import JobOptions, Keeping, limited
from oop_engine.drive.limit import Limit, Policy, bound_of
from oop_engine.drive.meter import Statistics
from oop_engine.drive.overwriting import check_files
from oop_engine.drive.questions import Questions
from oop_engine.drive.runtime import Deliver, Watch, run_plan, run_to_end
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan
from oop_engine.report.explain import WIDTH, explain
from oop_engine.rewrite.passes import together
from operators.data.markup import html_table
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import address_text, address_text_field, text_of
from operators.data.schema import Schema
from operators.protocol import Element

if TYPE_CHECKING:
    from oop_engine.api.output import Output
    from oop_engine.drive.checkpoints.job import Job


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


def collect(plan: Plan, node: Node, *, threads: int | None = None, limit: Limit | None = None) -> Outcome:
    """Run a plan with one output under a trio loop of its own and keep the results; SourceEnded has those so far.

    `node` is what the plan was made of.
    """
    pages: list[Page] = []
    marking = shedding_of(limit, plan, 0, node)
    statistics = run_to_end(plan, (marked(marking, _keeping(pages)),), threads=threads, limit=limit)
    return _kept(Outcome(table_of(_schema(plan, marking), pages), statistics))


async def collect_async(plan: Plan, node: Node, *, threads: int | None = None, limit: Limit | None = None) -> Outcome:
    """Run a plan with one output under the trio loop that is there and keep the results; PlanError under asyncio.

    `node` is what the plan was made of.
    """
    _check_loop()
    pages: list[Page] = []
    marking = shedding_of(limit, plan, 0, node)
    statistics = await run_plan(plan, (marked(marking, _keeping(pages)),), threads=threads, limit=limit)
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


def _keeping(pages: list[Page]) -> Deliver:
    def keep(element: Element) -> None:
        if isinstance(element, Page):
            pages.append(element)

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


def run_outputs(
    outputs: Sequence[Output],
    *,
    watch: Watch | None = None,
    handle_signals: bool = False,
    threads: int | None = None,
    **kept: Unpack[Keeping],
) -> Statistics:
    """Run several outputs as one plan, shared parts once, and write their results.

    - `outputs`: each from `Stream.to`.
    - `watch`: a function that is called with the running `oop_engine.drive.circuit.Circuit`, about ten times a second.
      Once it returns True, the run ends as by Ctrl-C.
    - `handle_signals`: end the run in order at Ctrl-C.
    - `threads`, `kept`: `threads`, `checkpoint`, `every`, `savepoint`, `drop_state`, `journal`, `memory`,
      `memory_policy` and `metrics` are those of `Output.run`.

    Window aggregates over one stream are computed together where that pays; `explain_outputs` shows which. If a live
    source cannot go on, SourceEnded is raised after the results so far are written.

    >>> stream = oop.rows([(1,), (12,)], oop.Schema.of(ts="int64"))
    >>> all_rows, totals = stream.to("rows.csv"), stream.aggregate(oop.count()).to("total.csv")
    >>> oop.run_outputs([all_rows, totals]).tuples
    2
    """
    plan, (limit, job_options) = _plan(outputs), limited(kept)
    with (
        _opened(plan, outputs, limit, **job_options) as (deliver, job),
        _asked(job, watch, kept.get("metrics")) as watch,
    ):
        if job is not None and job.ended is not None:
            return job.ended
        return _completed(
            run_to_end(plan, deliver, watch=watch, handle_signals=handle_signals, job=job, threads=threads, limit=limit)
        )


async def run_outputs_async(
    outputs: Sequence[Output],
    *,
    watch: Watch | None = None,
    handle_signals: bool = False,
    threads: int | None = None,
    **kept: Unpack[Keeping],
) -> Statistics:
    """Run several `outputs` as `run_outputs` does, under a trio loop of yours; PlanError under asyncio.

    `watch`, `handle_signals`, `threads` and the options of how it is `kept` are as there.

    >>> import trio
    >>> stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    >>> trio.run(oop.run_outputs_async, [stream.to("rows.csv")]).tuples
    1
    """
    _check_loop()
    plan, (limit, job_options) = _plan(outputs), limited(kept)
    with (
        _opened(plan, outputs, limit, **job_options) as (deliver, job),
        _asked(job, watch, kept.get("metrics")) as watch,
    ):
        if job is not None and job.ended is not None:
            return job.ended
        return _completed(
            await run_plan(
                plan, deliver, watch=watch, handle_signals=handle_signals, job=job, threads=threads, limit=limit
            )
        )


@contextmanager
def _opened(
    plan: Plan,
    outputs: Sequence[Output],
    limit: Limit | None,
    *,
    checkpoint: str | Path | None = None,
    **kept: Unpack[JobOptions],
) -> Generator[tuple[Sequence[Deliver], Job | None]]:
    """Open the sinks of outputs, as results of a job where there is a checkpoint."""
    with ExitStack() as stack:
        if checkpoint is None:
            journal = kept.get("journal")
            if journal is not None:
                raise PlanError(f'journal="{journal}" is kept until a checkpoint has it; add checkpoint="job".')
            if kept.get("savepoint") is not None or kept.get("drop_state"):
                raise PlanError("savepoint and drop_state are for a run with a checkpoint; name the folder of its job.")
            shedding = [shedding_of(limit, plan, number, output.stream.node) for number, output in enumerate(outputs)]
            yield (
                [
                    marked(one, stack.enter_context(o.sink.opened(o.stream.schema if one is None else one.schema)))
                    for o, one in zip(outputs, shedding, strict=True)
                ],
                None,
            )
            return
        # Start-up: few runs are kept.
        from oop_engine.drive.checkpoints.job import opened
        from oop_engine.drive.incomplete import marking_of

        jobs: list[Job] = []
        live = [
            marking_of(output.stream.node, node.schema, lambda source: jobs[0].reader(source))
            for output, node in zip(outputs, plan.outputs, strict=True)
        ]
        markings = [
            shedding_of(limit, plan, number, output.stream.node, marking)
            for number, (output, marking) in enumerate(zip(outputs, live, strict=True))
        ]
        schemas = [
            node.schema if marking is None else marking.schema
            for node, marking in zip(plan.outputs, markings, strict=True)
        ]
        job = stack.enter_context(
            opened(checkpoint, plan, [output.sink for output in outputs], schemas=schemas, **kept)
        )
        jobs.append(job)
        yield (
            [marked(marking, deliver) for deliver, marking in zip(job.outputs, markings, strict=True)],
            job,
        )


@contextmanager
def _asked(job: Job | None, watch: Watch | None, metrics: str | None) -> Generator[Watch | None]:
    """Let other processes ask a run that is kept, and scrape its `metrics`, beside what watches it."""
    if (job is None and metrics is None) or (job is not None and job.ended is not None):
        yield watch
        return
    questions = Questions()

    def both(circuit: Circuit) -> bool:
        questions.watch(circuit)
        return watch is not None and bool(watch(circuit))

    with ExitStack() as stack:
        if job is not None:
            # Start-up: few runs are kept.
            from oop_engine.drive.answers import answered

            stack.enter_context(answered(questions, job.store.folder))
        if metrics is not None:
            # Start-up: few runs are scraped.
            from oop_engine.drive.scraped import scraped

            stack.enter_context(scraped(questions, metrics))
        stack.callback(questions.close)
        yield both


def marked(marking: Marking | None, deliver: Deliver) -> Deliver:
    """Return what marks the rows of an output before it delivers them."""
    if marking is None:
        return deliver

    def mark(element: Element) -> None:
        deliver(marking.mark(element) if isinstance(element, Page) else element)

    return mark


def _completed(statistics: Statistics) -> Statistics:
    """Raise what ended the run, now that its results are written."""
    if statistics.ended is not None:
        statistics.ended.add_note("the results so far are written; windows that were still open are not among them.")
        raise statistics.ended
    return statistics


def explain_outputs(
    outputs: Sequence[Output], *, width: int = WIDTH, threads: int = 1, memory: bool | str | int = False,
    memory_policy: Policy | None = None,
) -> str:  # fmt: skip
    """Explain several `outputs` as text: what they share, and which queries are computed together, and why.

    `width` is the length of a line. Of several `threads` it says how they share the work; with `memory` and
    `memory_policy`, what each operator does beyond the limit, as in `Stream.explain`.

    >>> stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    >>> print(oop.explain_outputs([stream.to("rows.csv")]))
    rows
       attributes  ts int64
       punctuated  on nothing before its end: nothing downstream asks for it
       - late tuples are dropped and counted
    """
    bound = bound_of(memory, memory_policy)
    return explain(_plan(outputs, "explain_outputs"), width=width, threads=threads, bound=bound)


def _check_loop() -> None:
    """Refuse a task of asyncio; trio that is a guest of an asyncio loop runs in none of its tasks."""
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


def _plan(outputs: Sequence[Output], call: str = "run_outputs") -> Plan:
    listed = isinstance(outputs, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
    wrong = next((given for given in outputs if not hasattr(given, "sink")), None) if listed else outputs
    if wrong is not None:
        raise PlanError(
            f"{call} takes a list of outputs, and {type(wrong).__name__} is {'none' if listed else 'no list'}.\n"
            f'  Say where each goes: oop.{call}([stream.to("out.parquet"), ...]).'
        )
    plan = together(output.stream.node for output in outputs)
    check_files(plan, [output.sink for output in outputs])
    return plan
