"""`query --checkpoint` goes on where it was, says so, and says when there is nothing left to do."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.drive.circuit import Circuit
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from tests.oop_engine.checkpoints.test_refused import SCHEMA, Numbers

QUERY = "SELECT v, count(*) [RANGE 100, WA ts] FROM Main GROUP BY v"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(3000)))
    return tmp_path


def query(*options: str) -> Result:
    return CliRunner().invoke(commands, ["query", QUERY, "-s", "Main=rows.csv", "--checkpoint", "job", *options])


def test_the_same_command_again_does_nothing(there: Path) -> None:
    first = query("--to", "out.parquet", "--checkpoint-every", "200ms")
    assert first.exit_code == 0 and "going on" not in first.stderr, first.stderr
    rows = pq.read_table("out.parquet").num_rows
    again = query("--to", "out.parquet")
    assert again.exit_code == 0 and "nothing was read or written now" in again.stderr
    assert pq.read_table("out.parquet").num_rows == rows == 7 * 30


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Make the second commit fail; give the files that were to be renamed."""
    renamed: list[Path] = []
    rename = RealDisk.rename

    def refuse(self: RealDisk, old: Path, new: Path) -> None:
        renamed.extend([new] if new.name == "CURRENT" else [])
        if len(renamed) == 2 and new.name == "CURRENT":
            raise WriteFailed(f'"{new}": No space left on device.\n  Put that right.')
        rename(self, old, new)

    monkeypatch.setattr(RealDisk, "rename", refuse)
    return renamed


def test_a_checkpoint_that_fails_is_said_and_the_run_goes_on(there: Path, failing: list[Path]) -> None:
    numbers = Numbers()
    numbers.end = 300_000

    def output() -> oop.Output:
        return oop.rows(numbers, SCHEMA, slack=1).window(range=10).aggregate(oop.sum("v")).to("out.csv")

    with pytest.warns(RuntimeWarning, match='checkpoint 1 could not be written: ".*CURRENT": No space left on device;'):
        ran = output().run(checkpoint="job", every=0.01, checkpoint_failures=1)
    assert len(failing) > 2
    assert ran.notes[-1].startswith("1 checkpoint could not be written to")
    assert len(Path("out.csv").read_text().splitlines()) == 1 + 30_001


def test_the_last_checkpoint_of_a_run_that_is_stopped_may_not_fail(there: Path, failing: list[Path]) -> None:
    endless = Numbers()
    endless.end = 1 << 40
    output = oop.rows(endless, SCHEMA, slack=1).window(range=10).aggregate(oop.sum("v")).to("out.csv")
    with pytest.raises(WriteFailed, match="No space left on device"):
        oop.run_outputs(
            [output], watch=lambda c: bool(c.meters) and c.meters[0].tuples_in > 0, checkpoint="job", every="1 hour",
            checkpoint_failures=3,
        )  # fmt: skip
    assert len(failing) == 2


def test_without_leave_a_checkpoint_that_fails_ends_the_run(there: Path, failing: list[Path]) -> None:
    ended = query("--to", "out.parquet", "--checkpoint-every", "10ms", "--checkpoint-failures", "0")
    assert ended.exit_code == 3 and "No space left on device" in ended.stderr
    again = query("--to", "out.parquet", "--checkpoint-failures", "3")
    assert again.exit_code == 0 and pq.read_table("out.parquet").num_rows == 7 * 30
    alone = CliRunner().invoke(commands, ["query", QUERY, "-s", "Main=rows.csv", "--checkpoint-failures", "3"])
    assert alone.exit_code == 2 and "--checkpoint" in alone.stderr


def test_what_is_printed_cannot_be_taken_back(there: Path) -> None:
    refused = query()
    assert refused.exit_code == 2 and "--to out.parquet" in refused.stderr
    assert not (there / "job").exists()


def test_how_often_must_be_a_time(there: Path) -> None:
    refused = query("--to", "out.csv", "--checkpoint-every", "10 rows")
    assert refused.exit_code == 2 and "how often" in refused.stderr


def test_a_job_tells_its_promises_as_people_read_times(there: Path) -> None:
    (there / "rows.csv").write_text("ts,v\n2026-01-01T00:00:05Z,1\n2026-01-01T00:00:15Z,2\n")
    every = ["--checkpoint", "job", "--to", "out.csv"]
    text = "SELECT count(*) [RANGE 10 s, WA ts] FROM Main"
    assert CliRunner().invoke(commands, ["query", text, "-s", "Main=rows.csv", *every]).exit_code == 0
    told = CliRunner().invoke(commands, ["job", "show", "job"]).stdout
    assert "window_start < 2026-01-01T00:00:10Z promised" in told
    assert "wid < " in told and "wid < 2026" not in told


def test_a_job_tells_what_it_keeps(there: Path) -> None:
    query("--to", "out.parquet")
    told = CliRunner().invoke(commands, ["job", "show", "job"])
    assert told.exit_code == 0
    first, read, *states, results = told.stdout.splitlines()
    assert first.endswith(f"UTC, ended, written by oop-engine {oop.__version__}")
    assert read.startswith("read    Main  3,000 tuples") and f'"{there / "rows.csv"}", to its end' in read
    assert any(line.startswith("state   aggregate count(*) by v") for line in states)
    assert results == f"results {there / 'out.parquet'}  210 rows"
    none = CliRunner().invoke(commands, ["job", "show", str(there)])
    assert none.exit_code == 2 and "no folder of a job" in none.stderr


def test_the_results_of_another_folder_are_refused(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query("--to", "out.parquet")
    (there / "other").mkdir()
    monkeypatch.chdir(there / "other")
    refused = CliRunner().invoke(
        commands, ["query", QUERY, "-s", "Main=../rows.csv", "--checkpoint", "../job", "--to", "out.parquet"]
    )
    assert refused.exit_code == 2 and str(there / "out.parquet") in refused.stderr


def test_several_outputs_are_one_job(there: Path) -> None:
    def outputs() -> list[oop.Output]:
        rows = oop.read("rows.csv")
        short, long = (rows.window(range=size).aggregate(oop.sum("v")) for size in (10, 50))
        return [rows.filter("v > 3").to("rows.parquet"), short.to("short.ndjson"), long.to("long.csv")]

    expected = [output.stream.to_arrow().num_rows for output in outputs()]
    assert oop.run_outputs(outputs(), checkpoint="job", every=0.01).tuples == 3000
    assert "nothing was read" in oop.run_outputs(outputs(), checkpoint="job").notes[0]
    short, long = (len(Path(name).read_text().splitlines()) for name in ("short.ndjson", "long.csv"))
    assert [pq.read_table("rows.parquet").num_rows, short, long - 1] == expected
    with pytest.raises(oop.CheckpointError, match="another query"):
        oop.run_outputs(outputs()[:2], checkpoint="job")


def test_a_run_that_is_stopped_takes_a_last_checkpoint(there: Path) -> None:
    def output(numbers: Numbers) -> oop.Output:
        return oop.rows(numbers, SCHEMA, slack=1).window(range=10).aggregate(oop.sum("v")).to("out.csv")

    def stop(circuit: Circuit) -> None:
        if circuit.meters[0].tuples_in and not asked:
            asked.append(os.kill(os.getpid(), signal.SIGTERM))

    asked: list[None] = []
    endless = Numbers()
    endless.end = 1 << 40
    stopped = oop.run_outputs([output(endless)], watch=stop, handle_signals=True, checkpoint="job", every="1 hour")
    assert stopped.interrupted
    assert stopped.tuples > 0
    numbers = Numbers()
    numbers.end = stopped.tuples + 500
    assert oop.run_outputs([output(numbers)], checkpoint="job").tuples == stopped.tuples + 500
    assert numbers.sought == [stopped.tuples]
    values = [(i + 1, (i + 1) % 5) for i in range(stopped.tuples + 500)]
    expected = oop.rows(values, SCHEMA).window(range=10).aggregate(oop.sum("v")).to_arrow().num_rows
    assert len(Path("out.csv").read_text().splitlines()) == 1 + expected
