"""What open windows have so far is in a file: again and again while a query runs, and as it was when it ended."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.cli.partial import Partial
from oop_engine.drive.circuit import Circuit
from operators.data.page import Page
from operators.protocol import Element
from punctuation import before

SCHEMA = oop.Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
QUERY = "SELECT k, count(*) AS n [RANGE 10, WA ts] FROM Main GROUP BY k"


def script() -> list[Element]:
    """Make two windows, of which the first is complete when all tuples have come."""
    first = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "a"]})
    second = Page.of(SCHEMA, {"ts": [11, 12], "k": ["a", "c"]})
    return [first, second, before("ts", 10), before("ts", 11)]


def rows(path: Path) -> list[tuple[str, int, int]]:
    with path.open() as file:
        return [(row["k"], int(row["n"]), int(row["wid"])) for row in csv.DictReader(file)]


class Clock:
    """A clock that goes on by so much at each look at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = 0.0

    def __call__(self) -> float:
        self.now += self.pace
        return self.now


def running() -> tuple[oop.Running, Circuit]:
    """Begin a run of which the first window is released, the second open."""
    run = oop.query(QUERY, Main=oop.pages(script(), SCHEMA)).start()
    assert sorted(next(iter(run)).column("n").to_pylist()) == [1, 2]
    return run, run._run.circuit


def partial(path: Path, clock: Clock, said: list[str]) -> Partial:
    schema = oop.query(QUERY, Main=oop.pages([], SCHEMA)).node.schema
    return Partial.of(str(path), "10 s", schema, said.append, clock)


def test_the_file_is_written_when_it_is_time_and_what_it_has_is_what_the_run_tells(tmp_path: Path) -> None:
    path, clock, said = tmp_path / "open.csv", Clock(), list[str]()
    so_far = partial(path, clock, said)
    so_far.begin()
    assert rows(path) == []
    run, circuit = running()
    clock.now = 9.9
    so_far.watch(circuit)
    assert rows(path) == []
    clock.now = 10.0
    so_far.watch(circuit)
    told = run.partial().to_pylist()
    assert rows(path) == [(row["k"], row["n"], row["wid"]) for row in told] and told
    for _ in run:
        pass
    so_far.watch(circuit)
    assert len(rows(path)) == len(told)
    clock.now = 20.0
    so_far.watch(circuit)
    assert rows(path) == [] and said == []


def test_a_large_state_is_written_seldom(tmp_path: Path) -> None:
    path, clock = tmp_path / "open.csv", Clock()
    so_far = partial(path, clock, [])
    _, circuit = running()
    clock.now, clock.pace = 10.0, 5.0
    so_far.watch(circuit)
    assert path.exists()
    ended, clock.pace = clock.now, 0.0
    path.unlink()
    clock.now = ended + 49.0
    so_far.watch(circuit)
    assert not path.exists()
    clock.now = ended + 50.0
    so_far.watch(circuit)
    assert path.exists()


def test_what_cannot_be_written_is_said_once_and_tried_again(tmp_path: Path) -> None:
    folder, clock, said = tmp_path / "folder", Clock(), list[str]()
    folder.mkdir()
    so_far = partial(folder / "open.csv", clock, said)
    _, circuit = running()
    folder.rmdir()
    for clock.now in (10.0, 20.0, 30.0):
        so_far.watch(circuit)
    assert len(said) == 1 and "there is no folder" in said[0]
    folder.mkdir()
    clock.now = 40.0
    so_far.watch(circuit)
    assert (folder / "open.csv").exists() and len(said) == 1


def test_a_query_that_has_ended_has_no_open_windows(tmp_path: Path) -> None:
    source, path = tmp_path / "in.csv", tmp_path / "open.csv"
    arrow_csv.write_csv(pa.table({"ts": [1, 2, 11], "k": ["a", "b", "a"]}), source)
    result = CliRunner().invoke(commands, ["query", QUERY, "-s", str(source), "--partial", str(path)])
    assert result.exit_code == 0, result.output
    assert rows(path) == [] and path.read_text().startswith("k,n,wid")
    assert "windows that were open" not in result.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--partial", "open.xls"], '".xls" is no suffix of a sink'),
        (["--partial", "open.csv", "--partial-every", "0s"], "--partial-every must be more than nothing"),
        (["--partial", "open.csv", "--partial-every", "5 rows"], "--partial-every is 5 rows: of what?"),
        (["--partial", "open.csv", "--partial-every", "soon"], '"soon" is no duration'),
        (["--partial", "a.csv", "--to", "a.csv"], "is for the results, so it cannot be for what open windows have"),
        (["--partial", "in.csv"], "is read as stream"),
        (["--partial", "nowhere/open.csv"], 'there is no folder "nowhere"'),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    options: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("ts,k\n1,a\n")
    result = CliRunner().invoke(commands, ["query", QUERY, "-s", "in.csv", *options])
    assert result.exit_code == 2 and says in result.output, result.output
    assert Path("in.csv").read_text() == "ts,k\n1,a\n"
