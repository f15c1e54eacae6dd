"""Late tuples that a job diverts to a file are there once each, with those results, wherever it was stopped."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.checkpoints.job import Job
from oop_engine.rewrite.passes import together
from oop_engine.sinks.disk import Disk, RealDisk
from tests.oop_engine.checkpoints.dying import child
from tests.oop_engine.checkpoints.scenarios import found_in, run_job
from tests.oop_engine.checkpoints.simulated_disk import Crash, SimulatedDisk

PLACE = Path("/simulated")


def counted(files: Path, late: Path) -> Stream:
    """Count what is not late, of two sources that divert what is to files of their own."""
    first = oop.read(files / "rows.csv", slack=3, divert=str(late))
    second = oop.read(files / "rows.parquet", slack=5, divert=str(late.with_stem("other")))
    return oop.meld(first, second).window(range=40, slide=20).aggregate(oop.count(), by="k")


def run(files: Path, late: Path, disk: Disk, seed: int) -> None:
    output = counted(files, late).to(late.with_name("out.csv"))
    plan = together([output.stream.node])
    job = Job.begin(late.parent / "job", plan, [output.sink], every=0.02, disk=disk)
    if job.ended is None:
        run_job(plan, job, seed=seed)


def found(late: Path, disk: Disk) -> list[Counter[str]]:
    """Return the late tuples of both sources, and the results."""
    return [found_in(path, disk) for path in (late, late.with_stem("other"), late.with_name("out.csv"))]


@pytest.fixture(params=["late.csv", "late.parquet", "late.pages"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def test_the_machine_dies_and_the_late_tuples_are_those_of_one_run(name: str, files: Path) -> None:
    undisturbed = SimulatedDisk()
    run(files, PLACE / name, undisturbed, 1)
    expected = found(PLACE / name, undisturbed)
    assert all(len(rows) > 20 for rows in expected)
    luck = random.Random(name)
    for dies_at in range(2, undisturbed.operations, undisturbed.operations // 3):
        disk = SimulatedDisk(seed=dies_at, dies_at=dies_at)
        for attempt in range(4):
            try:
                run(files, PLACE / name, disk, attempt)
                break
            except Crash:
                disk.crash()
                disk.dies_at = disk.operations + luck.randint(1, 120) if attempt < 2 else None
        assert found(PLACE / name, disk) == expected, dies_at


def test_they_are_those_of_a_run_without_a_checkpoint(tmp_path: Path, files: Path) -> None:
    (tmp_path / "one").mkdir()
    counted(files, tmp_path / "one" / "late.csv").to(tmp_path / "one" / "out.csv").run()
    run(files, tmp_path / "late.csv", RealDisk(), 1)
    assert found(tmp_path / "late.csv", RealDisk()) == found(tmp_path / "one" / "late.csv", RealDisk())


def test_a_process_is_killed_at_any_time(tmp_path: Path, files: Path) -> None:
    late, killed = tmp_path / "late.csv", 0
    delays = [0.02 * number for number in range(1, 12)]

    def whole() -> None:
        counted(files, late).to(tmp_path / "out.csv").run(checkpoint=tmp_path / "job", every=0.01)

    while child(whole, after=delays.pop(0) if delays else None):
        killed += 1
    assert killed > 1
    undisturbed = SimulatedDisk()
    run(files, PLACE / "late.csv", undisturbed, 1)
    assert found(late, RealDisk()) == found(PLACE / "late.csv", undisturbed)


def test_they_go_to_a_table_too(tmp_path: Path, files: Path) -> None:
    stream = oop.read(files / "rows.csv", slack=3, divert=f"sqlite:///{tmp_path}/late.sqlite?table=late")
    stream.window(range=40).aggregate(oop.count()).to(tmp_path / "out.csv").run(checkpoint=tmp_path / "job")
    late: list[dict[str, object]] = []
    again = oop.read(files / "rows.csv", slack=3, divert=lambda page: late.extend(page.rows()))
    again.window(range=40).aggregate(oop.count()).to_arrow()
    with closing(sqlite3.connect(tmp_path / "late.sqlite")) as database:
        assert database.execute("SELECT * FROM late").fetchall() == [tuple(row.values()) for row in late] != []


def test_a_file_of_a_job_is_no_other(tmp_path: Path, files: Path) -> None:
    job = tmp_path / "job"
    counted(files, tmp_path / "late.csv").to(tmp_path / "out.csv").run(checkpoint=job)
    with pytest.raises(oop.CheckpointError, match=r"late\.csv.*now should go to .*elsewhere\.csv"):
        counted(files, tmp_path / "elsewhere.csv").to(tmp_path / "out.csv").run(checkpoint=job)
    with pytest.raises(oop.SinkError, match=r'late\.csv" has results already'):
        counted(files, tmp_path / "late.csv").to(tmp_path / "new.csv").run(checkpoint=tmp_path / "new")


def test_the_command_diverts_with_a_checkpoint(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "SELECT k, count(*) [RANGE 40, WA ts] FROM Main GROUP BY k"
    options = ["-s", f"Main={files}/rows.csv", "--slack", "3", "--late-to", "late.csv", "--to", "out.csv"]
    done = CliRunner().invoke(commands, ["query", text, *options, "--checkpoint", "job"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(commands, ["job", "show", "job"])
    rows = len(Path("late.csv").read_text().splitlines()) - 1
    assert "late, diverted to late.csv" in done.stderr and f"late.csv  {rows:,} rows" in shown.stdout
