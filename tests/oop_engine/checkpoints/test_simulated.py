"""Runs on a simulated disk that die at any of its operations give, when they are run again, the answer of one run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from oop_engine.drive import runtime
from oop_engine.drive.checkpoints.job import Cut, Job, kept_outputs
from oop_engine.drive.checkpoints.store import Checkpoint
from oop_engine.errors import CheckpointError
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sources.positions import Placing
from operators.data.saved import Saved
from operators.streams import lanes
from tests import examples
from tests.examples import by_turns, mostly_slow
from tests.oop_engine.checkpoints.scenarios import FEW, OPERATORS, QUERIES, SCENARIOS, answer, data, found, run
from tests.oop_engine.checkpoints.simulated_disk import Crash, Forgetful, Full, SimulatedDisk

PLACE = Path("/simulated")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    data(folder, FEW)
    return folder


@cache
def operations(name: str) -> int:
    """Return how many operations on its disk a run of a scenario makes."""
    with TemporaryDirectory() as folder:
        data(Path(folder), FEW)
        run(name, Path(folder), PLACE, seed=0, disk=(disk := SimulatedDisk()), every=0.02)
    return disk.operations


def after_crashes(
    name: str, files: Path, seed: int, kind: type[SimulatedDisk] = SimulatedDisk, threads: Sequence[int] = (1,)
) -> Counter[str]:
    """Run a scenario until it ends, on a disk that dies at up to three places of the seed's.

    Parts that were shown stay as they are. One life after another has so many threads.
    """
    luck, shown = random.Random(seed), dict[Path, bytes | None]()
    disk = kind(seed=seed, dies_at=1 + seed % operations(name))
    for attempt in range(4):
        try:
            many = threads[attempt % len(threads)]
            run(name, files, PLACE, seed=seed + attempt, disk=disk, every=0.02, threads=many)
            break
        except Crash:
            disk.crash()
            folder = PLACE / SCENARIOS[name][1]
            parts = [folder / part for part in disk.names(folder) if part.startswith("part-")]
            shown |= {part: disk.read(part) for part in parts if part not in shown}
            if attempt < 2:
                disk.dies_at = disk.operations + luck.randint(1, 120)
    assert shown == {part: disk.read(part) for part in shown}
    return found(name, PLACE, disk)


def _seeds(count: int) -> Iterator[int]:
    luck = random.Random(count)
    return (luck.randrange(160) for _ in range(count))


@pytest.mark.parametrize("name", mostly_slow(QUERIES, every=3))
def test_the_machine_dies_and_the_answer_is_that_of_one_run(name: str, files: Path) -> None:
    expected = answer(name, files)
    for seed in _seeds(5):
        assert after_crashes(name, files, seed) == expected, seed


@pytest.mark.parametrize("name", mostly_slow(OPERATORS, every=3))
def test_every_kind_of_operator_goes_on(name: str, files: Path) -> None:
    expected = answer(name, files)
    for seed in (30, 75):
        assert after_crashes(name, files, seed) == expected, seed


@pytest.mark.parametrize(
    "name", mostly_slow([*QUERIES, "late tuples", "distinct", "outer join", "strategy slicing"], every=3)
)
@pytest.mark.parametrize("threads", mostly_slow([((3, 1, 2),), ((1, 7),)], but=[((3, 1, 2),)]), ids=str)
def test_a_run_goes_on_with_other_threads(
    name: str, threads: Sequence[int], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps the lanes that it began with."""
    for constant in ("ROWS", "KEYED_ROWS", "ENOUGH"):
        monkeypatch.setattr(lanes, constant, 1)
    expected = answer(name, files)
    for seed in (11, 75):
        assert after_crashes(name, files, seed, threads=threads) == expected, seed


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_kind_of_operator_goes_on_from_anywhere(name: str, files: Path) -> None:
    expected = answer(name, files)
    for seed in by_turns(range(operations(name)), 12):
        assert after_crashes(name, files, seed) == expected, seed


@pytest.mark.parametrize("name", mostly_slow(QUERIES, every=3))
def test_a_disk_that_is_full_ends_the_run_and_the_next_one_is_exact(name: str, files: Path) -> None:
    expected = answer(name, files)
    for seed in _seeds(5):
        disk = Full(seed=seed, dies_at=1 + seed)
        try:
            run(name, files, PLACE, seed=seed, disk=disk, every=0.02)
        except WriteFailed:
            run(name, files, PLACE, seed=seed + 1, disk=disk, every=0.02)
        assert found(name, PLACE, disk) == expected, seed


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_the_machine_dies_at_every_operation(name: str, files: Path) -> None:
    expected = answer(name, files)
    for seed in by_turns(range(examples.chosen.deaths or operations(name)), 2):
        assert after_crashes(name, files, seed) == expected, seed


@pytest.mark.parametrize("name", ["sliding", "sessions"])
def test_a_run_repeats_by_its_seed(name: str, files: Path) -> None:
    disks = [SimulatedDisk(seed=3) for _ in range(2)]
    taken = [run(name, files, PLACE, seed=3, disk=disk, every=0.02) for disk in disks]
    assert taken[0] == taken[1] > 3
    assert disks[0].operations == disks[1].operations


def _caught(files: Path, kind: type[SimulatedDisk] = SimulatedDisk) -> bool:
    """Return whether a planted bug is found by some seeds."""
    for name in ("sliding", "melded", "sessions"):
        expected = answer(name, files)
        for seed in range(0, 120, 3):
            try:
                if after_crashes(name, files, seed, kind) != expected:
                    return True
            except Exception:  # a damaged result is another way to be found out
                return True
    return False


def test_a_disk_that_forgets_to_sync_is_caught(files: Path) -> None:
    assert _caught(files, Forgetful)


def test_results_that_are_shown_before_the_commit_are_caught(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(self: Job, cut: Cut) -> None:
        states = {name: Saved.of(state) for name, state in cut.states.items()}
        checkpoint = Checkpoint(cut.epoch, cut.body, states)
        for output, kept in zip(self.outputs, kept_outputs(checkpoint), strict=True):
            output.sync(kept)
            output.publish(kept)
        self.store.commit(checkpoint)
        self.last, self.unfinished = checkpoint, False

    monkeypatch.setattr(Job, "commit", commit)
    assert _caught(files)


def test_a_position_ahead_of_the_operators_is_caught(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Placing.position
    monkeypatch.setattr(Placing, "position", lambda self: {**honest(self), "tuples": self.tuples + (self.tuples > 0)})
    assert _caught(files)


def test_a_barrier_that_overtakes_a_page_is_caught(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hasty(self: runtime._Run, job: Job, *, ended: bool = False) -> None:  # pyright: ignore[reportPrivateUsage]
        job.commit(job.take(self.circuit, ended=ended))

    monkeypatch.setattr("oop_engine.drive.runtime._Run._checkpoint", hasty)
    disk = SimulatedDisk(seed=1)
    run("melded", files, PLACE, seed=1, disk=disk, every=0.02)
    assert found("melded", PLACE, disk) == answer("melded", files), "where nobody dies, nothing shows"
    assert _caught(files)


def _counts(files: Path, dies_at: int | None) -> Any:
    """Return what a job counted in all, whose first run died at an operation."""
    disk = SimulatedDisk(seed=5, dies_at=dies_at)
    try:
        run("sliding", files, PLACE, seed=5, disk=disk, every=0.02)
    except Crash:
        disk.crash()
        run("sliding", files, PLACE, seed=6, disk=disk, every=0.02)
    ended = Job.begin(PLACE / "job", *_plan(files), disk=disk).ended
    assert ended is not None
    return [(entry.label, entry.tuples_in, entry.tuples_out) for entry in ended.operators]


def test_counts_of_a_run_that_goes_on_are_those_of_one_run(files: Path) -> None:
    assert _counts(files, 90) == _counts(files, None)


def test_a_counter_that_begins_anew_is_caught(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _counts(files, None)
    monkeypatch.setattr("oop_engine.drive.checkpoints.job._COUNTS", ("tuples_out",))
    assert _counts(files, 90) != expected


def _plan(files: Path) -> Any:
    from oop_engine.rewrite.passes import together

    make, target = SCENARIOS["sliding"]
    output = make(files).to(PLACE / target)
    return together([output.stream.node]), [output.sink]


def test_a_job_that_ended_does_nothing_twice(files: Path) -> None:
    disk = SimulatedDisk()
    run("joined", files, PLACE, seed=1, disk=disk)
    before = disk.operations
    assert run("joined", files, PLACE, seed=1, disk=disk) == 0
    assert found("joined", PLACE, disk) == answer("joined", files)
    assert disk.operations - before < 10


def test_another_query_is_refused(files: Path) -> None:
    disk = SimulatedDisk()
    run("sliding", files, PLACE, seed=1, disk=disk)
    make, target = SCENARIOS["melded"]
    from oop_engine.rewrite.passes import together

    output = make(files).to(PLACE / target)
    with pytest.raises(CheckpointError, match="is the job of another query"):
        Job.begin(PLACE / "job", together([output.stream.node]), [output.sink], disk=disk)
