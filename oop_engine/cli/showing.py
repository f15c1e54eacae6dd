"""Showing a run is the same for every command: sink opened, progress drawn, results handed on, what was done told."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

import attrs

from oop_engine.cli.compiling import compiled, notice
from oop_engine.cli.key import Asked, listening
from oop_engine.cli.naming import STDOUT
from oop_engine.cli.options import expanded
from oop_engine.cli.progress import Minutely, Progress
from oop_engine.cli.summary import WIDTH, chosen, refused, table
from oop_engine.cli.words import counted
from oop_engine.drive.answers import answered
from oop_engine.drive.circuit import PAGE_ROWS, Circuit
from oop_engine.drive.growth import Growth
from oop_engine.drive.limit import limit_of
from oop_engine.drive.meter import Statistics
from oop_engine.drive.newest import Newest
from oop_engine.drive.outcome import Marking, shedding_of
from oop_engine.drive.overwriting import check_files
from oop_engine.drive.preference import ranks_of
from oop_engine.drive.questions import Questions
from oop_engine.drive.run_warnings import beforehand
from oop_engine.drive.runtime import Deliver, Watch, run_to_end
from oop_engine.errors import PlanError
from oop_engine.messages import logs_json, say
from oop_engine.plan.graph import Node, Plan
from oop_engine.sinks.choice import sink_for
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.protocol import Holding, Sink
from oop_engine.stopping import begin
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

if TYPE_CHECKING:
    from oop_engine.drive.checkpoints.job import Job


@attrs.frozen
class Wishes:
    """The options of a run, apart from the query and its streams."""

    to: str
    limit: int | None = None
    page_rows: int | None = None
    stats: bool = False
    quiet: bool = False
    endless: bool = False
    """Whether the streams cannot be read again, so that results are kept though the run fails."""
    append: bool = False
    """Whether results go behind those that are in the file."""
    partial: str | None = None
    """The file to write what open windows have so far to, if any, and how often."""
    partial_every: str = "10s"
    marking: Marking | None = None
    """What is added to each row, if anything, and who is told how far results will last."""
    checkpoint: str | None = None
    """The folder that keeps how far the run is, if any, and how often that is written."""
    checkpoint_every: str = "10s"
    savepoint: str | None = None
    """The savepoint to begin from, if any, and the operators there whose state is let go of."""
    drop_state: tuple[str, ...] = ()
    checkpoint_failures: int = 0
    """How many checkpoints in a row may fail."""
    journal: str | None = None
    """How often what comes live is made durable, if it is written to a journal."""
    alarms: Callable[[], Iterable[str]] = tuple
    """Gives what is to be said at once, though nothing else is."""
    threads: int | None = None
    """How many threads share the work of operators, if that was said."""
    memory: str | None = None
    """How much operators may hold, if that was said, and what becomes of more."""
    memory_policy: str | None = None
    metrics: str | None = None
    """The address where metrics of the run are served or sent to, if they are."""
    keys: bool = True
    """Whether keys may be read from a terminal: no stream and no query comes from standard input."""
    page: str | None = None
    """Where a page of the run is served, if it is, and what its readers must know."""
    page_token: str | None = None
    record: str | None = None
    """The file that keeps what the page would show, if any."""
    spreadsheet: bool = False
    """Whether text in CSV that a spreadsheet takes for a formula is marked as text."""
    as_json: bool = False
    """Whether standard output is NDJSON."""
    form: str | None = None
    """The format of the results, if it was said."""
    partition_by: str | None = None
    """The attributes that results are partitioned by, if they are."""
    prefer: tuple[str, ...] = ()
    """The sources that are read before others."""
    newest: bool = False
    """Whether standard output gets the newest results alone while it cannot keep up."""


def run_shown(
    plan: Plan, wishes: Wishes, told: Callable[[Statistics, bool], str], *, node: Node, line: Progress | None = None
) -> Statistics:
    """Run a plan of one output to its end, or until SIGINT; results go to the sink, words about them to stderr.

    `node` is what the plan was made of.

    `line` is drawn on a terminal (without, the one of `Progress`); elsewhere that of an endless run is written once a
    minute, unless `quiet`. `told` gives what is said at the end, of the statistics and of whether the kernels had been
    compiled before.
    """
    limit = limit_of(wishes.memory, wishes.memory_policy)
    wishes = attrs.evolve(wishes, marking=shedding_of(limit, plan, 0, node, wishes.marking))
    marking = wishes.marking
    live = wishes.endless and marking is not None
    sink = sink_for(
        wishes.to, endless=wishes.endless and wishes.checkpoint is None, append=wishes.append,
        synced=live, spreadsheet=wishes.spreadsheet, form=_form(wishes),
        partition_by=wishes.partition_by or "",
    )  # fmt: skip
    schema = plan.outputs[0].schema if marking is None else marking.schema
    mark = None if marking is None else marking.mark
    so_far = None
    if wishes.partial is not None:
        # Start-up: few runs show partial results.
        from oop_engine.cli.partial import Partial

        every, spreadsheet = wishes.partial_every, wishes.spreadsheet
        so_far = Partial.of(wishes.partial, every, schema, say, mark=mark, spreadsheet=spreadsheet)
    if wishes.newest and wishes.to != STDOUT:
        raise PlanError(f'--newest is for standard output; "{wishes.to}" takes all results.')
    preferred = ranks_of(plan, wishes.prefer)
    check_files(plan, (sink,), None if so_far is None else so_far.sink)
    if not wishes.quiet:
        for note in beforehand(plan):
            say(f"note: {note}.")
    begin()
    if wishes.checkpoint is None and (wishes.savepoint is not None or wishes.drop_state):
        raise PlanError("--from and --drop-state are for a run with --checkpoint; name the folder of its job.")
    if wishes.checkpoint is None and wishes.checkpoint_failures:
        raise PlanError("--checkpoint-failures is for a run with --checkpoint; name the folder of its job.")
    with ExitStack() as stack:
        job = None if wishes.checkpoint is None else stack.enter_context(_job(plan, sink, schema, wishes))
        drawn = _on_terminal() and not wishes.quiet and not logs_json()
        progress = (line or Progress(sys.stderr)) if drawn else None
        watch = None if progress is None else progress.watch
        if progress is None and line is not None and wishes.endless and not wishes.quiet:
            watch = Minutely(line, say).watch
        if so_far is not None:
            stack.enter_context(so_far.begun())
            watch = partial(_both, so_far.watch, watch)
        if not wishes.quiet:
            watch = partial(_both, partial(_grown, Growth(), progress), watch)
        alarms = partial(_alarms, wishes.alarms, job)
        watch = partial(_both, partial(_alarmed, alarms, progress), watch)
        if preferred:
            watch = partial(_both, lambda circuit: circuit.preference.ask(preferred), watch)
        questions, asked = Questions(), Asked(partial(_aside, progress))
        watch = partial(_both, questions.watch, partial(_both, asked.watch, watch))
        warm = compiled()
        if not warm and not wishes.quiet:
            say(notice())
        if job is not None and not wishes.quiet and (told_first := job.told()):
            say(told_first)
        if job is not None and job.ended is not None:
            return job.ended
        seen: Deliver = _unseen
        if wishes.page is not None or wishes.page_token is not None or wishes.record is not None:
            # Start-up: few runs show themselves.
            from oop_engine.page import shown as page

            record = None if wishes.record is None else expanded(wishes.record)
            on_page = stack.enter_context(page.Shown(plan, wishes.page, wishes.page_token, record, schema))
            seen = on_page.take
            watch = partial(_both, on_page.watch, watch)
        stack.enter_context(
            answered(questions, None if job is None else job.store.folder, told=_nothing if wishes.quiet else say)
        )
        if wishes.metrics is not None:
            # Start-up: few runs give out metrics.
            from oop_engine.drive.latency import Releases
            from oop_engine.drive.published import published

            releases = Releases(lambda: questions.circuit)
            seen = partial(_seen_by, seen, partial(releases.take, 0))
            given = published(questions, wishes.metrics, releases, told=_noted, alarmed=_noted)
            place = stack.enter_context(given)
            if not wishes.quiet:
                say(f"metrics {'to' if '://' in wishes.metrics else 'at'} {place}")
            stack.callback(questions.close)
        stack.enter_context(listening(asked.ask, keys=wishes.keys and progress is not None))
        opening = partial(stack.enter_context, sink.opened(schema)) if job is None else lambda: job.outputs[0]
        shown = Shown(opening, wishes, progress, seen)
        take: Deliver = shown.take
        if wishes.newest:
            take = Newest(plan.outputs[0].schema, shown.take)
        if wishes.to != STDOUT:
            # A file that cannot be written is known before anything is read; a header on the terminal waits for a run.
            shown.open()
            _tell_unfinished(sink)
        try:
            statistics = run_to_end(
                plan,
                (take,),
                page_rows=wishes.page_rows or PAGE_ROWS,
                watch=watch,
                handle_signals=True,
                job=job,
                threads=wishes.threads,
                limit=limit,
            )
        except Exception as error:
            if shown.begun and (wishes.to == STDOUT or wishes.endless):
                error.add_note(_left(wishes))
            raise
        finally:
            if progress is not None:
                progress.wipe()
            _say(alarms(), None)
    shown.tell()
    if so_far is not None and (rows := so_far.write()) and not wishes.quiet:
        say(f'"{so_far.sink.path}" has what windows that were open have so far: {counted(rows, "row")}.')
    if wishes.stats:
        width = shutil.get_terminal_size().columns if _on_terminal() else WIDTH
        say(table(plan, statistics, width=width))
        for told_of in (*chosen(statistics), *refused(statistics)):
            say(told_of)
    if not wishes.quiet:
        say(told(statistics, warm))
    if statistics.ended is not None:
        raise statistics.ended
    return statistics


def _form(wishes: Wishes) -> str | None:
    """Return the format of the results; PlanError where --json does not go with other options."""
    if not wishes.as_json:
        return wishes.form
    if wishes.to != STDOUT or wishes.spreadsheet or wishes.form not in (None, "ndjson"):
        other = f'--to "{wishes.to}"' if wishes.to != STDOUT else "--spreadsheet, which is for CSV"
        other = f"--to-format {wishes.form}" if wishes.form not in (None, "ndjson") else other
        raise PlanError(
            f"--json is for standard output, and does not go with {other}.\n  Name a file: --to out.ndjson."
        )
    return "ndjson"


def _seen_by(one: Deliver, other: Deliver, element: Element) -> None:
    one(element)
    other(element)


def _noted(said: str) -> None:
    say(f"note: {said}.")


def _unseen(element: Element) -> None:
    """Show an element to nobody else."""


def _job(plan: Plan, sink: Sink, schema: Schema, wishes: Wishes) -> AbstractContextManager[Job]:
    """Begin a job, or go on with it."""
    # Start-up: few runs are kept.
    from oop_engine.drive.checkpoints.job import opened

    if wishes.to == STDOUT:
        raise SinkError(
            "--checkpoint cannot take back what was printed, so results would come twice when the run goes on.\n"
            "  Name a file: --to out.parquet (a folder of parts), out.arrow, out.csv or out.ndjson."
        )
    return opened(
        wishes.checkpoint or "", plan, (sink,), every=wishes.checkpoint_every, savepoint=wishes.savepoint,
        drop_state=wishes.drop_state, schemas=(schema,), journal=wishes.journal,
        checkpoint_failures=wishes.checkpoint_failures,
    )  # fmt: skip


def _tell_unfinished(sink: Sink) -> None:
    """Say what killed runs left of results that cannot be made again; what is empty is removed."""
    # Start-up: results on the terminal need neither of these.
    from oop_engine.sinks.files import unfinished_of
    from oop_engine.sinks.growing import GrowingSink, KeptSink

    if not isinstance(sink, GrowingSink | KeptSink):
        return
    for left in unfinished_of(sink.path):
        if size := left.stat().st_size:
            say(
                f'note: "{left}" ({size:,} bytes) has results of a run that was killed before "{sink.path}" was'
                " complete; it lacks its end. Take out what can be read, and remove it."
            )
        else:
            left.unlink()


def _both(one: Watch, other: Watch | None, circuit: Circuit) -> None:
    one(circuit)
    if other is not None:
        other(circuit)


def _aside(progress: Progress | None, text: str) -> None:
    """Write a line, with that of progress out of the way."""
    if progress is None:
        say(text)
    else:
        progress.aside(partial(say, text))


def _nothing(text: str) -> None:
    """Say nothing."""


def _grown(growth: Growth, progress: Progress | None, circuit: Circuit) -> None:
    """Say of what has become large how large it is, now and then."""
    now = time.monotonic()
    if growth.due(now):
        _say(growth.look(circuit.statistics(), now), progress)


def _alarms(others: Callable[[], Iterable[str]], job: Job | None) -> Iterator[str]:
    """Yield what is to be said at once, also of checkpoints that failed."""
    yield from others()
    while job is not None and job.alarms:
        yield job.alarms.pop(0)


def _alarmed(alarms: Callable[[], Iterable[str]], progress: Progress | None, circuit: Circuit) -> None:
    """Say at once what cannot wait."""
    _say(alarms(), progress)


def _say(lines: Iterable[str], progress: Progress | None) -> None:
    """Write lines, with that of progress out of the way."""
    for line in lines:
        _aside(progress, f"note: {line}.")


def _left(wishes: Wishes) -> str:
    """Say what is left of the results of a run that failed."""
    if wishes.checkpoint is not None:
        return f'"{wishes.to}" has the results of the last checkpoint; the same command goes on from there.'
    if wishes.endless:
        where = "standard output" if wishes.to == STDOUT else f'"{wishes.to}"'
        return f"{where} has the results that were released before that."
    return "standard output has only a part of the results; --to FILE writes all of them, or no file."


def _on_terminal() -> bool:
    # It is None where the shell has closed it.
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


@attrs.define(eq=False)
class Shown:
    """Hand results to the sink, at most so many on standard output, with the progress line out of the way."""

    opening: Callable[[], Deliver]
    wishes: Wishes
    progress: Progress | None
    seen: Deliver
    """Sees the results, too."""
    begun: bool = attrs.field(init=False, default=False)
    """Whether results were written."""
    _sink: Deliver | None = attrs.field(init=False, default=None)
    _rows: int = attrs.field(init=False, default=0)
    _hidden: int = attrs.field(init=False, default=0)

    def open(self) -> Deliver:
        """Open the sink, if it is not."""
        if self._sink is None:
            self._sink = self.opening()
        return self._sink

    def take(self, element: Element) -> None:
        sink, marking = self.open(), self.wishes.marking
        if marking is not None and isinstance(element, Page):
            element = marking.mark(element)
        self.seen(element)
        if isinstance(element, Page) and self.wishes.limit is not None and self.wishes.to == STDOUT:
            room = max(0, self.wishes.limit - self._rows)
            self._rows += len(element)
            self._hidden += max(0, len(element) - room)
            if room == 0:
                return
            element = element.slice(0, min(room, len(element)))
        self.begun |= isinstance(element, Page) and len(element) > 0
        if self.progress is None or self.wishes.to != STDOUT:
            sink(element)
        else:
            self.progress.aside(partial(sink, element))
        if marking is not None and not (isinstance(sink, Holding) and sink.held):
            marking.given(element)

    def tell(self) -> None:
        """Say what was not shown."""
        if self._hidden and not self.wishes.quiet:
            more = counted(self._hidden, "more result")
            say(f"... and {more}; --limit shows {self.wishes.limit}, --to FILE writes all.")
