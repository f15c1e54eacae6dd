"""A job is a run that goes on: the same command again begins where the last checkpoint was, with the same answer.

A checkpoint is one cut through the run: the state of all operators, the positions of all sources, what the meters
counted, and how far the results are. It is committed by one renamed file (`store`), and results are shown after that.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Unpack

import attrs
import numpy as np

import oop_engine
from oop_engine.drive.checkpoints.carryover import promising, refitted, repromised
from oop_engine.drive.checkpoints.former_names import move_journals, renamed, renaming
from oop_engine.drive.checkpoints.found_columns import FOUND, found_columns
from oop_engine.drive.checkpoints.identity import changed
from oop_engine.drive.checkpoints.query import AHEAD, READING, described, differences, names, received, widened
from oop_engine.drive.checkpoints.report import taken
from oop_engine.drive.checkpoints.savepoint import FROM, REFIT, begun, told
from oop_engine.drive.checkpoints.store import JOURNAL, Checkpoint, Store, file_name
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.diverting import diversions
from oop_engine.drive.keeping import JobOptions
from oop_engine.drive.meter import Meter, OperatorStatistics, Statistics
from oop_engine.errors import CheckpointError, PlanError
from oop_engine.lock import CannotLock, Claim, Taken
from oop_engine.plan.durations import SECOND, parse_duration
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import pruned
from oop_engine.sinks.committed import Committed, committed
from oop_engine.sinks.disk import Disk, RealDisk
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sinks.files import claimed
from oop_engine.sinks.kept import OUTBOX, Kept
from oop_engine.sinks.protocol import Sink
from oop_engine.sources.journal import Journal, Start, at_once
from oop_engine.sources.positions import Placing, Plain
from operators.data.readable import written_unit
from operators.data.saved import UNFIT, Saved, restore
from operators.data.schema import Schema
from operators.overflow import overflows
from operators.protocol import Measured, Operator, State, StateValue
from operators.streams.input import Input

LEAST: Final = 0.01
"""Seconds between two checkpoints, at least."""
_COUNTS: Final = ("tuples_in", "tuples_out", "pages_in", "punctuations_in", "punctuations_out", "lwm", "hwm")


def seconds_of(every: str | float, what: str = "every") -> float:
    """Return how many seconds a duration is; PlanError for what is none, or too short."""
    if isinstance(every, str):
        duration = parse_duration(every)
        seconds = duration.value / SECOND if duration.unit == "ns" else 0.0
    else:
        seconds = float(every)
    if not seconds >= LEAST:
        raise PlanError(f'{what}="{every}": write how often as a time of at least {LEAST} s, e.g. "10 s".')
    return seconds


@attrs.frozen(eq=False)
class Cut:
    """One consistent cut of a run, before it is written."""

    epoch: int
    body: Mapping[str, object]
    states: Mapping[str, State] = attrs.field(repr=False)


@attrs.define(eq=False)
class Job:
    """Take checkpoints of a run, commit them, and let a run go on from the last one."""

    store: Store
    outputs: Sequence[Committed]
    """The results of the plan's outputs."""
    every: float
    """Seconds from one checkpoint to the next."""
    query: Mapping[str, object] = attrs.field(repr=False)
    last: Checkpoint
    given: Mapping[str, Schema] = attrs.field(repr=False)
    """What each operator is given, of what is read."""
    lasting: Mapping[str, object] = attrs.field(repr=False)
    """What each checkpoint has of the plan beside the query."""
    resumed: bool = False
    """Whether there was a checkpoint before this run."""
    unfinished: bool = attrs.field(init=False, default=False)
    """Whether a checkpoint was taken and not committed: it took results from the outputs, so none may follow it."""
    checkpoint_failures: int = attrs.field(default=0, kw_only=True)
    """How many checkpoints in a row may fail; one more ends the run."""
    failed: int = attrs.field(init=False, default=0)
    """Checkpoints of this run that could not be written."""
    ending: bool = attrs.field(init=False, default=False)
    """Whether the run is over or stopped, and its last checkpoint is taken, which may not fail."""
    alarms: list[str] = attrs.field(init=False, factory=list)
    """What is to be said at once of these; whoever says it takes it out."""
    _failing: int = attrs.field(init=False, default=0)
    """Checkpoints that failed since the last that did not."""
    _epoch: int = attrs.field(init=False, default=0)
    """The number of the last checkpoint that was taken, which no other has."""
    _taken_back: Sequence[Kept] | None = attrs.field(init=False, default=None)
    """The results of a checkpoint that failed; the next one has them, too."""
    interval: float | None = None
    """Seconds between two syncs of the journal of what comes live; None where none is written."""
    start: Start = attrs.field(default=at_once, repr=False)
    """Has such a sync done, while the run goes on."""
    late: Mapping[int, Committed] = attrs.field(factory=dict, kw_only=True, repr=False)
    """Late tuples that go to files, by the places of their sources."""
    _circuit: Circuit | None = attrs.field(init=False, default=None, repr=False)
    _journals: dict[str, Journal] = attrs.field(init=False, factory=dict)
    pauses: list[float] = attrs.field(init=False, factory=list)
    """Seconds for which the run stood still, for each checkpoint."""

    @classmethod
    def begin(
        cls, folder: Path, plan: Plan, sinks: Sequence[Sink], *, every: str | float = "10 s", disk: Disk | None = None,
        savepoint: str | None = None, drop_state: Collection[str] = (), schemas: Sequence[Schema] | None = None,
        journal: str | float | None = None, checkpoint_failures: int = 0,
    ) -> Job:  # fmt: skip
        """Take up the last checkpoint in a folder, or begin a new job there, or go on from a savepoint.

        With `savepoint`, the query may be another than that of the savepoint: see `carryover`. `schemas` are those of
        the results, where they are not those of the plan's outputs. `journal` is how often what comes live is made
        durable, if it is written to a journal. The run goes on though so many checkpoints in a row cannot be written
        (`checkpoint_failures`).

        CheckpointError for a checkpoint that is damaged, or of another query or other files; SinkError for results that
        cannot be committed.
        """
        if drop_state and savepoint is None:
            raise CheckpointError("drop_state (--drop-state) is for a run from a savepoint (savepoint, --from).")
        if checkpoint_failures < 0:
            raise PlanError(f"checkpoint_failures={checkpoint_failures}: write how many may fail in a row, 0 or more.")
        seconds, disk = seconds_of(every), RealDisk() if disk is None else disk
        interval = None if journal is None else seconds_of(journal, "journal")
        read = pruned(plan)
        query, given = described(read), received(read)
        schemas = [node.schema for node in plan.outputs] if schemas is None else schemas
        results = [
            committed(s, schema, disk, folder / OUTBOX / str(place))
            for place, (s, schema) in enumerate(zip(sinks, schemas, strict=True))
        ]
        late = {found.place: committed(found.sink, found.schema, disk) for found in diversions(read)}
        outputs = [*results, *late.values()]
        try:
            store = Store(folder, disk)
            store.begin()
            last = store.read(
                lambda found: any(o.overtaken(k) for o, k in zip(outputs, kept_outputs(found), strict=False))
            )
            resumed = last is not None
            if last is not None:
                former = renaming(last, query)
                last = renamed(last, former)
                move_journals(store, former)
            columns = [str(node.schema.arrow) for node in plan.outputs]
            columns += [str(found.schema.arrow) for found in diversions(read)]
            named = {name: schema.names for name, schema in given.items()}
            lasting = {"engine": oop_engine.__version__, "given": named, "columns": columns, FOUND: found_columns(read)}
            if savepoint is not None:
                before, last = last, begun(store, last, savepoint, query, outputs, columns, drop_state)
                if last is not before:
                    store.commit(last)
            elif last is None:
                kept = [output.fresh() for output in outputs]
                body = {"query": query, "when": _now(), "outputs": kept, "nodes": {}, "ended": False, **lasting}
                last = Checkpoint(0, body, {})
                store.commit(last)
            job = cls(
                store, results, seconds, query, last, given, lasting, resumed, interval, late=late,
                checkpoint_failures=checkpoint_failures,
            )  # fmt: skip
            job._check(folder)
            for output, kept in zip(outputs, kept_outputs(last), strict=True):
                output.begin(kept)
            store.tidy(last.epoch)
            return job
        except BaseException:
            _close(outputs)
            raise

    def _check(self, folder: Path) -> None:
        """Refuse to go on with another query, other results or other files."""
        before = self.last.body.get("query")
        if not isinstance(before, dict):
            raise CheckpointError(f'"{folder}": its checkpoint has no query.')
        for difference in differences(widened(before, self.query), self.query):
            raise CheckpointError(
                f'"{folder}" is the job of another query: {difference}.\n'
                "  Run that one to go on with it, or begin anew with another --checkpoint and other results."
            )
        for output, kept in zip(self._committed, kept_outputs(self.last), strict=True):
            if kept.get("path") != output.place:
                raise CheckpointError(
                    f'"{folder}": the results of this job are in "{kept.get("path")}", and now should go to'
                    f' "{output.place}".\n  Name that one again, or begin anew with another --checkpoint.'
                )
        if self.ended is None:
            for name, node in self.query.items():
                if isinstance(node, dict) and "identity" in node:
                    seen = changed(name, before[name]["identity"], node["identity"])
                    if seen is not None:
                        raise CheckpointError(
                            f"{seen}; a run that goes on reads on where it was, in the same data.\n"
                            "  Put it back as it was, or begin anew with another --checkpoint and other results."
                        )

    @property
    def ended(self) -> Statistics | None:
        """Return the statistics of the whole job if it has ended."""
        if not self.last.body.get("ended"):
            return None
        found = self.last.body.get("statistics")
        assert isinstance(found, list)
        when = self.last.body.get("when")
        note = f'the job in "{self.store.folder}" ended on {when}: nothing was read or written now'
        return Statistics(tuple(OperatorStatistics(**entry) for entry in found), (note,))

    def close(self) -> None:
        """Let go of what the outputs have open; nothing is written."""
        _close(self._committed)

    def reader(self, source: object) -> Any:
        """Return what reads a source, None before that has begun."""
        circuit = self._circuit
        sources = {} if circuit is None else circuit.plan.sources
        places = (place for place, node in sources.items() if node.source is source)
        return None if circuit is None else circuit.readers.get(next(places, -1))

    def told(self) -> str:
        """Say from where the run goes on, or that it has ended; nothing of a new job."""
        if (ended := self.ended) is not None:
            return f"{ended.notes[0]}."
        when = f"checkpoint {self.last.epoch} of {self.last.body.get('when')}"
        if savepoint := told(self.last):
            return savepoint
        return f"going on from {when}, after {taken(self.last):,} tuples." if self.resumed else ""

    @property
    def _committed(self) -> list[Committed]:
        """Return all that this job writes, in the order of a checkpoint."""
        return [*self.outputs, *self.late.values()]

    def place(self, circuit: Circuit) -> None:
        """Have a circuit tell where its readings are, and begin them where the last checkpoint was."""
        self._circuit = circuit
        circuit.diverting.update(self.late)
        nodes, named = self._nodes(), names(circuit.plan)
        for place in circuit.plan.sources:
            name = named[place]
            saved = nodes.get(name, {}).get("position")
            placing = Placing.of(name, saved) if isinstance(saved, dict) else Placing(name)
            placing.ended = bool(nodes.get(name, {}).get("ended"))
            circuit.placings[place] = placing
            if (state := self.last.states.get(_reading(name))) is not None:
                placing.state = state.decoded()
            if (ahead := self.last.states.get(_ahead(name))) is not None:
                placing.restore_schedules(ahead.decoded())
            if "live" in self._identity(name):
                placing.journal = self._journals[name] = self._journal(name)

    def _identity(self, name: str) -> Plain:
        node = self.query[name]
        assert isinstance(node, dict)
        return node["identity"]

    def _journal(self, name: str) -> Journal:
        """Return the journal of a source that is live; of a new job it is empty."""
        folder = self.store.folder / JOURNAL / file_name(name)
        every = None if self.interval is None else round(self.interval * SECOND)
        journal = Journal(folder, self.store.disk, every, self.start)
        if not self.resumed:
            journal.covered(max([0, *journal.segments]) + 1)
        return journal

    def restore(self, circuit: Circuit) -> None:
        """Make the operators of a circuit those of the last checkpoint; PlanError for one that cannot be saved."""
        nodes = self._nodes()
        for place, (name, operator, meter) in enumerate(_parts(circuit)):
            saved = nodes.get(name, {})
            if name in self.last.states:
                state = self.last.states[name].decoded()
                restore(operator, self._fitted(name, circuit.inputs.get(place), state))
            else:
                _encoded(name, _copied(name, operator))
            for count in _COUNTS:
                if count in saved:
                    setattr(meter, count, saved[count])
            counts = saved.get("overflows")
            for overflow, count in zip(overflows(operator), counts if isinstance(counts, list) else (), strict=False):
                overflow.count = count

    def _fitted(self, name: str, source: Input | None, state: State) -> Mapping[str, StateValue]:
        """Return the state of an operator as it is in this plan, which may be another than that of the savepoint."""
        if (refit := self.last.body.get(REFIT)) is None:
            return state
        assert isinstance(refit, Mapping)
        if name in refit:
            return refitted(name, state, refit[name], self.given.get(name))
        node = self._nodes()[name]
        if source is not None and isinstance(position := node.get("position"), dict):
            return repromised(state, node.get("promising"), source, position["tuples"])
        return state

    def take(self, circuit: Circuit, *, ended: bool = False) -> Cut:
        """Return the cut through a circuit in which nothing is under way; nothing of it is shared with the run.

        To be committed before another is taken.
        """
        began = time.perf_counter()
        self.unfinished = True
        self._epoch = epoch = max(self._epoch, self.last.epoch) + 1
        nodes: dict[str, dict[str, object]] = {}
        states: dict[str, State] = {}
        for place, (name, operator, meter) in enumerate(_parts(circuit)):
            states[name] = _copied(name, operator)
            nodes[name] = {count: getattr(meter, count) for count in _COUNTS}
            nodes[name] |= {"lwm": dict(meter.lwm), "hwm": dict(meter.hwm)}
            nodes[name] |= {"units": _units(circuit.plan.nodes[place].schema, meter.lwm)}
            if isinstance(operator, Measured):
                nodes[name]["details"] = operator.statistics()
            if counts := [overflow.count for overflow in overflows(operator)]:
                nodes[name]["overflows"] = counts
            if (placing := circuit.placings.get(place)) is not None:
                nodes[name] |= {"position": placing.position(), "ended": placing.ended}
                if ahead := placing.save_schedules():
                    states[_ahead(name)] = ahead
                if (snapshot := placing.snapshot) is not None:
                    states[_reading(name)] = snapshot.state
                    nodes[name]["segment"] = snapshot.segment
                elif placing.state is not None:
                    states[_reading(name)] = dict(placing.state)
            if (source := circuit.inputs.get(place)) is not None:
                nodes[name]["promising"] = promising(source)
        body: dict[str, object] = {"query": self.query, "when": _now(), "nodes": nodes, "ended": ended, **self.lasting}
        if FROM in self.last.body:
            body[FROM] = self.last.body[FROM]
        if ended:
            body["statistics"] = [attrs.asdict(entry) for entry in circuit.statistics()]
        if self._taken_back is not None:
            for output, kept in zip(self._committed, self._taken_back, strict=True):
                output.take_back(kept)
            self._taken_back = None
        body["outputs"] = [output.cut(epoch, ended=ended) for output in self._committed]
        self.pauses.append(time.perf_counter() - began)
        return Cut(epoch, body, states)

    def commit(self, cut: Cut) -> None:
        """Commit a cut and show the results that it has; from any thread, one after the other.

        If the folder of the job fails, and may, the next cut has these results, too. An error of the results is raised:
        what was written of them is not known to be durable, and only a run from the last checkpoint gives it again.
        """
        states = {name: _encoded(name, state) for name, state in cut.states.items()}
        checkpoint = Checkpoint(cut.epoch, cut.body, states)
        kept = kept_outputs(checkpoint)
        for output, part in zip(self._committed, kept, strict=True):
            output.sync(part)
        try:
            self.store.commit(checkpoint)
        except WriteFailed as error:
            self._fail(error, checkpoint)
            self._taken_back, self.unfinished = kept, False
            return
        # Nobody reads the states of this one here again, and they may be most of the memory.
        self.last, self.unfinished = attrs.evolve(checkpoint, states={}), False
        for output, part in zip(self._committed, kept, strict=True):
            output.publish(part)
        try:
            self.store.tidy(checkpoint.epoch)
            for name, journal in self._journals.items():
                segment = self._nodes()[name].get("segment")
                if isinstance(segment, int):
                    journal.covered(segment)
        except WriteFailed as error:
            self._fail(error, checkpoint)
        else:
            self._failing = 0

    def _fail(self, error: WriteFailed, checkpoint: Checkpoint) -> None:
        """Note that the folder of the job failed; raise the error where it may not do so."""
        self._failing += 1
        last = self.last
        lost = self.ending and last.epoch != checkpoint.epoch
        if self._failing > self.checkpoint_failures or lost:
            raise error
        self.failed += 1
        seen = str(error).partition(".\n")[0]
        what = "is whole, but older ones stay" if last.epoch == checkpoint.epoch else "could not be written"
        self.alarms.append(
            f"checkpoint {checkpoint.epoch} {what}: {seen}; the run goes on, and nothing after checkpoint {last.epoch}"
            f" of {last.body.get('when')} is kept ({self._failing} of {self.checkpoint_failures} failures in a row)"
        )

    def notes(self) -> tuple[str, ...]:
        """Say how many checkpoints failed."""
        if not self.failed:
            return ()
        number = "1 checkpoint" if self.failed == 1 else f"{self.failed:,} checkpoints"
        return (f'{number} could not be written to "{self.store.folder}"; the run went on without',)

    def _nodes(self) -> dict[str, dict[str, object]]:
        found = self.last.body.get("nodes")
        return found if isinstance(found, dict) else {}


@contextmanager
def opened(
    folder: str | Path,
    plan: Plan,
    sinks: Sequence[Sink],
    *,
    schemas: Sequence[Schema] | None = None,
    **kept: Unpack[JobOptions],
) -> Generator[Job, None, None]:
    """Begin a job, or go on with it, while no other run has it or writes its results; CheckpointError if one does."""
    path = Path(folder).expanduser().absolute()
    if not path.parent.is_dir():
        raise CheckpointError(f'"{path}": there is no folder "{path.parent}" for the job.\n  Make it first.')
    with ExitStack() as stack:
        try:
            stack.callback(Claim.of(path).release)
        except Taken as taken:
            raise CheckpointError(
                f'"{folder}" is in use by {taken.who}.\n  End that one first, or name another --checkpoint.'
            ) from None
        except CannotLock as error:
            raise CheckpointError(f'"{folder}" {error}') from None
        for sink in (*sinks, *(found.sink for found in diversions(pruned(plan)))):
            if isinstance(place := getattr(sink, "path", None), Path):
                stack.enter_context(claimed(place))
        job = Job.begin(path, plan, sinks, schemas=schemas, **kept)
        stack.callback(job.close)
        if job.interval is not None:
            job.start = stack.enter_context(ThreadPoolExecutor(1, "journal")).submit
        yield job


def _close(outputs: Sequence[Committed]) -> None:
    for output in outputs:
        output.close()


def _reading(name: str) -> str:
    """Name the state of what reads a source; that of its operator has the name of the source."""
    return f"{name}{READING}"


def _ahead(name: str) -> str:
    """Name the state of what was found by reading a source ahead."""
    return f"{name}{AHEAD}"


def _parts(circuit: Circuit) -> list[tuple[str, Operator, Meter]]:
    return list(zip(names(circuit.plan), circuit.operators, circuit.meters, strict=True))


def _units(schema: Schema, names: Iterable[str]) -> dict[str, str]:
    """Return the units of those attributes that are points in time or decimals, so that a bound can be read as one."""
    units = {name: written_unit(schema.arrow.field(name).type) for name in names if name in schema}
    return {name: unit for name, unit in units.items() if unit is not None}


def _copied(name: str, operator: Operator) -> State:
    """Return the state of an operator, of which it shares nothing."""
    with _saving(name):
        return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in operator.state().items()}


def _encoded(name: str, state: State) -> Saved:
    with _saving(name):
        return Saved.of(state)


@contextmanager
def _saving(name: str) -> Generator[None, None, None]:
    """Name the operator that cannot be saved."""
    try:
        yield
    except (*UNFIT, NotImplementedError) as error:
        raise PlanError(
            f'"{name}" cannot be saved, so a run with it cannot go on from a checkpoint: {error}.\n'
            "  Give the operator state() and restore() as operators.protocol.Operator describes them, or run without a"
            " checkpoint."
        ) from error


def kept_outputs(checkpoint: Checkpoint) -> list[Kept]:
    found = checkpoint.body.get("outputs")
    return found if isinstance(found, list) else []


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
