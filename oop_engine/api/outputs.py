"""Run several outputs as one plan, shared parts once: results are written by the sinks of the outputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from oop_engine.api.watching import watched
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.keeping import JobOptions, Keeping, Showing, limited
from oop_engine.drive.limit import Limit, Policy, bound_of
from oop_engine.drive.meter import Statistics
from oop_engine.drive.newest import Newest
from oop_engine.drive.outcome import check_loop, marked, shedding_of
from oop_engine.drive.overwriting import check_files
from oop_engine.drive.questions import Questions
from oop_engine.drive.runtime import Deliver, Watch, run_plan, run_to_end
from oop_engine.drive.workers import threads_of
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan
from oop_engine.report.explain import WIDTH, explain
from oop_engine.rewrite.passes import together
from operators.protocol import Element

if TYPE_CHECKING:
    from oop_engine.api.output import Output
    from oop_engine.drive.checkpoints.job import Job


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
    - `threads`, `kept`: `threads`, `checkpoint`, `every`, `savepoint`, `drop_state`, `journal`, `checkpoint_failures`,
      `memory`, `memory_policy`, `metrics`, `page`, `page_token` and `record` are those of `Output.run`. A page shows no
      results of several outputs.

    Window aggregates over one stream are computed together where that pays; `explain_outputs` shows which. If a live
    source cannot go on, SourceEnded is raised after the results so far are written.

    >>> stream = oop.rows([(1,), (12,)], oop.Schema.of(ts="int64"))
    >>> all_rows, totals = stream.to("rows.csv"), stream.aggregate(oop.count()).to("total.csv")
    >>> oop.run_outputs([all_rows, totals]).tuples
    2
    """
    plan, (limit, job_options) = _plan(outputs), limited(kept)
    with _opened(plan, outputs, limit, **job_options) as (deliver, job):
        if job is not None and job.ended is not None:
            return job.ended
        with _watched(plan, deliver, job, watch, kept) as (watch, deliver):
            deliver = _newest(outputs, deliver, job)
            statistics = run_to_end(
                plan, deliver, watch=watch, handle_signals=handle_signals, job=job, threads=threads, limit=limit
            )
        return _completed(statistics)


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
    check_loop()
    plan, (limit, job_options) = _plan(outputs), limited(kept)
    with _opened(plan, outputs, limit, **job_options) as (deliver, job):
        if job is not None and job.ended is not None:
            return job.ended
        with _watched(plan, deliver, job, watch, kept) as (watch, deliver):
            deliver = _newest(outputs, deliver, job)
            statistics = await run_plan(
                plan, deliver, watch=watch, handle_signals=handle_signals, job=job, threads=threads, limit=limit
            )
        return _completed(statistics)


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
            if kept.get("checkpoint_failures"):
                raise PlanError("checkpoint_failures is for a run with a checkpoint; name the folder of its job.")
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
def _watched(
    plan: Plan, deliver: Sequence[Deliver], job: Job | None, watch: Watch | None, kept: Keeping
) -> Generator[tuple[Watch | None, Sequence[Deliver]]]:
    """Let a run be seen: on its page, in its record, by Prometheus and, if it is kept, by other processes."""
    showing = {name: value for name, value in kept.items() if name in Showing.__annotations__}
    with (
        watched(plan, watch, **cast(Showing, showing)) as (beside, seen),
        _asked(job, beside, kept.get("metrics")) as (watch, released),
    ):
        if seen is not None and len(deliver) == 1:
            deliver = [partial(_both, seen, deliver[0])]
        if released is not None:
            deliver = [partial(_both, partial(released, number), one) for number, one in enumerate(deliver)]
        yield watch, deliver


def _newest(outputs: Sequence[Output], deliver: Sequence[Deliver], job: Job | None) -> Sequence[Deliver]:
    """Have outputs that are displays get the newest results alone while they cannot keep up."""
    if not any(output.newest for output in outputs):
        return deliver
    if job is not None:
        raise PlanError(
            "to(newest=True): a run with checkpoints gives all results, and this output leaves some out.\n"
            "  Show them by a run of its own, without a checkpoint."
        )
    return [
        Newest(output.stream.schema, one) if output.newest else one
        for output, one in zip(outputs, deliver, strict=True)
    ]


def _both(seen: Deliver, deliver: Deliver, element: Element) -> None:
    """See what is delivered."""
    seen(element)
    deliver(element)


@contextmanager
def _asked(
    job: Job | None, watch: Watch | None, metrics: str | None
) -> Generator[tuple[Watch | None, Callable[[int, Element], None] | None]]:
    """Let other processes ask a run that is kept, and give out its `metrics`, beside what watches it.

    Yield who watches the run, and who is to see what its outputs are handed.
    """
    if job is None and metrics is None:
        yield watch, None
        return
    questions = Questions()

    def both(circuit: Circuit) -> bool:
        questions.watch(circuit)
        _warn(job)
        return watch is not None and bool(watch(circuit))

    with ExitStack() as stack:
        releases = None
        if job is not None:
            # Start-up: few runs are kept.
            from oop_engine.drive.answers import answered

            stack.enter_context(answered(questions, job.store.folder))
        if metrics is not None:
            # Start-up: few runs give out metrics.
            from oop_engine.drive.latency import Releases
            from oop_engine.drive.published import published

            releases = Releases(lambda: questions.circuit)
            stack.enter_context(published(questions, metrics, releases, told=_warned))
        stack.callback(questions.close)
        yield both, None if releases is None else releases.take
    _warn(job)


def _warned(said: str) -> None:
    """Warn of metrics that were not taken."""
    warnings.warn(f"{said}.", RuntimeWarning, stacklevel=2)


def _warn(job: Job | None) -> None:
    """Say which checkpoints failed."""
    while job is not None and job.alarms:
        warnings.warn(f"{job.alarms.pop(0)}.", RuntimeWarning, stacklevel=2)


def _completed(statistics: Statistics) -> Statistics:
    """Raise what ended the run, now that its results are written."""
    if statistics.ended is not None:
        statistics.ended.add_note("the results so far are written; windows that were still open are not among them.")
        raise statistics.ended
    return statistics


def explain_outputs(
    outputs: Sequence[Output], *, width: int = WIDTH, threads: int | None = None, memory: bool | str | int = False,
    memory_policy: Policy | None = None,
) -> str:  # fmt: skip
    """Explain several `outputs` as text: what they share, and which queries are computed together, and why.

    `width` is the length of a line. Of several `threads`, by default as many as a run has, it says how they share the
    work; with `memory` and `memory_policy`, what each operator does beyond the limit, as in `Stream.explain`.

    >>> stream = oop.rows([(1,)], oop.Schema.of(ts="int64"))
    >>> print(oop.explain_outputs([stream.to("rows.csv")]))
    rows
       attributes  ts int64
       punctuated  on nothing before its end: nothing downstream asks for it
       - late tuples are dropped and counted
    """
    bound = bound_of(memory, memory_policy)
    return explain(_plan(outputs, "explain_outputs"), width=width, threads=threads_of(threads), bound=bound)


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
