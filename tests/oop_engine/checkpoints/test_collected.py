"""A collection whose machine dies at any operation goes on: with a journal nothing is lost, without what is counted."""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import trio

import oop_engine as oop
from oop_engine.cli.collecting import LiveAlarms
from oop_engine.drive.checkpoints.job import Job
from oop_engine.drive.checkpoints.store import Store
from oop_engine.drive.incomplete import Incomplete
from oop_engine.drive.runtime import run_plan
from oop_engine.rewrite.passes import together
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sources.journal import Journal
from oop_engine.sources.live import LiveCounters, LiveFlows, LiveReader
from oop_engine.sources.positions import Placing
from operators.data.page import Page
from operators.protocol import Element
from tests.examples import by_turns, mostly_slow
from tests.oop_engine.checkpoints.exporters import (
    PROTOCOLS,
    RECORDS,
    RULES,
    Record,
    Script,
    host,
    lacking,
    lost_of,
    numbers_of,
    outputs,
    records_in,
    windows_in,
    windows_of,
)
from tests.oop_engine.checkpoints.scenarios import Steps
from tests.oop_engine.checkpoints.simulated_disk import Crash, Failing, Forgetful, SimulatedDisk
from tests.oop_engine.flows.test_flow_counters import datagram as sflow
from tests.oop_engine.flows.test_flow_counters import record, sample
from tests.oop_engine.live.collector import bound, senders
from tests.oop_engine.schedules import scheduled

PLACE = Path("/simulated")
LAST = 6 * len(PROTOCOLS)
"""Datagrams that come when all is over: templates are among them."""


@pytest.fixture
def out() -> Iterator[dict[int, socket.socket]]:
    with senders(*map(host, PROTOCOLS)) as made:
        yield dict(zip(PROTOCOLS, made, strict=True))


@attrs.define
class Collected:
    """A collection on a simulated disk, as often as it is run."""

    script: Script
    disk: SimulatedDisk
    journal: bool
    seed: int = 0
    failures: int = 0
    """Checkpoints in a row that may fail."""
    every: float = 0.02
    """Seconds between checkpoints, by a clock that goes on by a thousandth whenever it is looked at."""
    readers: list[LiveReader] = attrs.field(factory=list)
    runs: int = 0

    def run(self) -> None:
        """Run it until its script is over, or the machine dies."""
        self.runs += 1
        with bound() as listening:
            made = outputs(self.script.stream(listening, self.readers), PLACE)
            plan = together([output.stream.node for output in made])
            marking = Incomplete(
                lambda: self.script.reader, plan.outputs[1].schema, "ts", 0, "window_start", "window_end"
            )
            schemas = [plan.outputs[0].schema, marking.schema]
            sinks = [output.sink for output in made]
            job = Job.begin(
                PLACE / "job", plan, sinks, every=self.every, disk=self.disk, schemas=schemas,
                checkpoint_failures=self.failures,
            )  # fmt: skip
            job.interval = 0.0 if self.journal else None

            def marked(element: Element) -> None:
                job.outputs[1](marking.mark(element) if isinstance(element, Page) else element)

            async def main() -> None:
                await run_plan(plan, (job.outputs[0], marked), waiting=False, job=job)

            try:
                with scheduled(self.seed + self.runs):
                    trio.run(main, clock=Steps())
            finally:
                self.script.to = self.script.reader = None

    def table(self, name: str) -> pa.Table:
        """Return the results of an output."""
        folder = PLACE / name
        parts = [part for part in self.disk.names(folder) if part.startswith("part-")]
        tables = [pq.read_table(pa.BufferReader(self.disk.read(folder / part) or b"")) for part in parts]
        return oop.arrow(pa.concat_tables(tables)).to_arrow()

    def checked(self) -> Counter[Record]:
        """Compare with the naive answer over what came, and return what is lacking; all of it is counted and marked."""
        records, results = records_in(self.table("rows.parquet")), self.table("windows.parquet")
        missing = self.missing(records)
        assert windows_in(results) == windows_of(records)
        marked = windows_in(results.filter(pc.field("incomplete")))
        assert set(windows_in(results)) & {(second // 10 * 10, who) for who, _, second in missing} <= set(marked)
        return missing

    def missing(self, records: Counter[Record]) -> Counter[Record]:
        """Return what is lacking, all of which is counted."""
        return lacking(records, numbers_of(self.script.sent), lost_of(self.readers[-1]))


@attrs.define(eq=False)
class Agents(Script):
    """Agents of sFlow that send counters: the numbers of their samples are the bytes of an interface."""

    def payload(self, protocol: int, k: int) -> bytes:
        numbers = range(RECORDS * k, RECORDS * (k + 1))
        interface = {"if_index": protocol}
        samples = [sample(record({**interface, "in_bytes": number}), sequence=number) for number in numbers]
        return sflow(*samples, agent=host(protocol))

    def read(self, listening: socket.socket, opened: Callable[[Any], None]) -> oop.Stream:
        source = LiveCounters((listening,), clock=self, label="Counters", opened=opened)
        return oop.from_source(source).derive(bytes="in_bytes")


@attrs.define
class CountersCollected(Collected):
    """A collection of counters."""

    def missing(self, records: Counter[Record]) -> Counter[Record]:
        missing = numbers_of(self.script.sent) - records
        assert not records - numbers_of(self.script.sent)
        first = {who: min(n for other, n, _ in records if other == who) for who, _, _ in records}
        told = sum(n > first[who] for who, n, _ in missing.elements())
        (note,) = [note for note in self.readers[-1].notes() if "by their numbers" in note] if told else ("",)
        assert not told or note.startswith(f"Counters: {told:,} counter samples")
        return missing


def died(
    seed: int,
    out: dict[int, socket.socket],
    *,
    journal: bool,
    down: int,
    kind: type[SimulatedDisk] = SimulatedDisk,
    counters: bool = False,
    script: type[Script] = Script,
    crashed: Callable[[], None] = lambda: None,
) -> Collected:
    """Run a collection to its end, on a disk that dies up to three times, with datagrams sent in between."""
    luck = random.Random(seed)
    collected, script = (CountersCollected, Agents) if counters else (Collected, script)
    found = collected(script(60, out), kind(seed=seed, dies_at=1 + seed), journal, seed)
    for attempt in range(4):
        try:
            found.run()
            break
        except Crash:
            found.disk.crash()
            crashed()
            if not ended(found.disk):
                found.script.down(down)
                # What comes last shows what was lost before; a job that has ended hears nothing more.
                found.script.many = max(found.script.many, len(found.script.sent) + LAST)
            if attempt < 2:
                found.disk.dies_at = found.disk.operations + luck.randint(1, 150)
    return found


def ended(disk: SimulatedDisk) -> bool:
    """Return whether the last thing that a machine did was to commit the end of the job."""
    last = Store(PLACE / "job", disk).read(lambda found: False)
    return last is not None and bool(last.body.get("ended"))


def seeds(count: int) -> list[int]:
    luck = random.Random(count)
    return [luck.randrange(400) for _ in range(count)]


@pytest.mark.parametrize("counters", [False, True], ids=["flows", "counters"])
@pytest.mark.parametrize("seed", mostly_slow([5, *seeds(7)], every=3))
def test_with_a_journal_nothing_is_lost_that_was_written(
    seed: int, counters: bool, out: dict[int, socket.socket]
) -> None:
    found = died(seed, out, journal=True, down=0, counters=counters)
    # One datagram is at hand when a machine dies.
    assert sum(found.checked().values()) <= RECORDS * (found.runs - 1)


@pytest.mark.parametrize("counters", [False, True], ids=["flows", "counters"])
@pytest.mark.parametrize("seed", seeds(6))
def test_without_a_journal_what_is_lost_is_counted_and_marked(
    seed: int, counters: bool, out: dict[int, socket.socket]
) -> None:
    died(seed, out, journal=False, down=4, counters=counters).checked()


@attrs.define(eq=False)
class Unnamed(Script):
    """Exporters whose stream has no name; it is listened to at another port in each run."""

    def read(self, listening: socket.socket, opened: Callable[[Any], None]) -> oop.Stream:
        return oop.from_source(LiveFlows(listening, clock=self, rules=RULES, opened=opened))


@pytest.mark.parametrize("former", [False, True], ids=["", "named by its address"])
@pytest.mark.parametrize("seed", [90, 200])
def test_a_job_without_a_name_of_its_source_goes_on_at_another_address(
    seed: int, former: bool, out: dict[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    if former:
        monkeypatch.setattr(LiveFlows, "lasting_name", property(lambda self: self.name))
    found = died(seed, out, journal=True, down=0, script=Unnamed, crashed=monkeypatch.undo)
    assert sum(found.checked().values()) <= RECORDS * (found.runs - 1)


@attrs.define(eq=False)
class NoRoom(SimulatedDisk):
    """A disk that takes nothing more of a journal for a while."""

    full: range = range(0)
    """The writes of a journal that are refused, by number."""
    watch: Callable[[], None] = lambda: None
    _written: int = attrs.field(init=False, default=0)

    def append(self, path: Path, data: bytes) -> None:
        self.watch()
        self._written += path.suffix == ".segment"
        if path.suffix == ".segment" and self._written in self.full:
            raise WriteFailed(f'"{path}": No space left on device.\n  Make room.')
        super().append(path, data)


@pytest.mark.parametrize("dies_at", [None, 60, 90, 130, 180, 230])
def test_a_journal_that_finds_no_room_is_told_and_what_it_lacks_is_counted(
    dies_at: int | None, out: dict[int, socket.socket]
) -> None:
    disk = NoRoom(seed=3, dies_at=dies_at, full=range(9, 11))
    found = Collected(Script(60, out), disk, True)
    alarm = LiveAlarms(found.readers)
    disk.watch = lambda: said.extend(alarm())
    said: list[str] = []
    try:
        found.run()
    except Crash:
        disk.crash()
        found.script.many = max(found.script.many, len(found.script.sent) + LAST)
        found.run()
    missing = found.checked()
    if dies_at is None:
        assert not missing and "not in the journal" in "".join(found.readers[0].troubles())
        assert said[0].startswith("the journal cannot be written")
        assert [*said, *alarm()][-1] == "the journal is written again"


@pytest.mark.parametrize("journal", [True, False])
@pytest.mark.parametrize("dies_at", mostly_slow([None, 90, 130, 180], but=[130]))
@pytest.mark.parametrize("kind", ["write", "sync", "rename"])
def test_a_collection_goes_on_though_checkpoints_fail(
    kind: str, dies_at: int | None, journal: bool, out: dict[int, socket.socket]
) -> None:
    """The journal of what came since the last whole checkpoint stays as long as that one is the last."""
    # The second commit of CURRENT is that of a cut; two of its files are written before.
    within = PLACE / "job" if kind == "rename" else PLACE / "job" / "ckpt"
    disk = Failing(seed=2, dies_at=dies_at, kind=kind, first=2 if kind == "rename" else 6, times=2, within=within)
    found = Collected(Script(60, out), disk, journal, failures=3)
    try:
        found.run()
    except Crash:
        disk.crash()
        found.script.many = max(found.script.many, len(found.script.sent) + LAST)
        found.run()
    missing = found.checked()
    assert disk.failed
    if found.runs == 1:
        assert not missing
    elif journal:
        assert sum(missing.values()) <= RECORDS


@pytest.mark.parametrize("seed", range(6))
def test_what_is_damaged_in_a_journal_is_left_out_counted_and_marked(seed: int, out: dict[int, socket.socket]) -> None:
    luck, disk = random.Random(seed), SimulatedDisk(seed=seed, dies_at=100 + 9 * seed)
    found = Collected(Script(60, out), disk, True, seed, every=1000.0)
    with pytest.raises(Crash):
        found.run()
    disk.crash()
    folder = PLACE / "job" / "journal" / "Flows"
    path = folder / luck.choice(disk.names(folder))
    content = bytearray(disk.read(path) or b"")
    content[luck.randrange(len(content))] ^= 1 << luck.randrange(8)
    disk.write(path, bytes(content))
    found.run()
    assert found.checked() and "bytes of the journal were cut or damaged" in "".join(found.readers[-1].troubles())


def caught(out: dict[int, socket.socket], kind: type[SimulatedDisk] = SimulatedDisk) -> bool:
    """Return whether a planted bug is found by some seeds."""
    for seed in range(20, 120, 7):
        try:
            found = died(seed, out, journal=True, down=0, kind=kind)
            if sum(found.checked().values()) > RECORDS * (found.runs - 1):
                return True
        except (Exception, AssertionError):  # a damaged result is another way to be found out
            return True
    return False


def test_a_journal_that_is_not_synced_is_caught(out: dict[int, socket.socket]) -> None:
    assert caught(out, Forgetful)


def test_a_state_that_is_ahead_of_the_operators_is_caught(
    out: dict[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Placing, "awaited", False)
    assert caught(out)


def test_a_journal_that_is_removed_before_the_commit_is_caught(
    out: dict[int, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Journal.cut

    def cut(self: Journal) -> int:
        number = honest(self)
        self.covered(number)
        return number

    monkeypatch.setattr(Journal, "cut", cut)
    assert caught(out)


@pytest.mark.slow
@pytest.mark.parametrize("journal", [True, False])
def test_the_machine_of_a_collection_dies_at_any_operation(journal: bool, out: dict[int, socket.socket]) -> None:
    for seed in by_turns(range(0, 700, 3), 4):
        died(seed, out, journal=journal, down=seed % 5).checked()
