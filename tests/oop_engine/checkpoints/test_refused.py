"""What a run cannot go on with is refused before it begins, with what to do instead."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.checkpoints.job import opened
from oop_engine.drive.checkpoints.query import names
from oop_engine.plan.graph import Plan, operator_node
from oop_engine.rewrite.passes import together
from operators.expression import Column
from operators.rows.filter import Filter
from operators.rows.largest import Largest

SCHEMA = oop.Schema.of(ts="int64", v="int64")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("ts,v\n" + "".join(f"{i},{i % 7}\n" for i in range(3000)))
    return path


def summed(table: Path, **window: Any) -> Stream:
    return oop.read(table).window(**(window or {"range": 100})).aggregate(oop.sum("v"))


def begun(tmp_path: Path, stream: Stream, target: str = "out.parquet") -> None:
    """Begin a job and leave it."""
    output = stream.to(tmp_path / target)
    with opened(tmp_path / "job", together([stream.node]), [output.sink]):
        pass


def refused(tmp_path: Path, stream: Stream, target: str = "out.parquet") -> str:
    with pytest.raises((oop.CheckpointError, oop.PlanError, oop.SinkError)) as error:
        stream.to(tmp_path / target).run(checkpoint=tmp_path / "job")
    return str(error.value)


def test_a_stream_that_comes_once_is_refused(tmp_path: Path) -> None:
    lines = oop.read(io.BytesIO(b"ts,v\n1,2\n"), format="csv", slack=1)
    assert "Write it to a file first" in refused(tmp_path, lines)
    rows = oop.rows(iter([(1, 2)]), SCHEMA, slack=1)
    assert "seek(position)" in refused(tmp_path, rows)


def test_the_time_of_reading_is_refused(tmp_path: Path, table: Path) -> None:
    assert "arrival_ts" in refused(tmp_path, oop.read(table, arrival_ts=True))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p.write_text(p.read_text()[:-9]), "was cut from"),
        (lambda p: p.write_text(p.read_text() + "9,9\n"), "has grown"),
        (lambda p: p.write_text(p.read_text().replace("\n5,5\n", "\n5,6\n")), "was replaced or edited"),
        (lambda p: os.utime(p, ns=(1, 1)), "was written to since"),
    ],
)
def test_a_file_that_changed_is_refused_by_name(tmp_path: Path, table: Path, change: Any, told: str) -> None:
    begun(tmp_path, summed(table))
    change(table)
    text = refused(tmp_path, summed(table))
    assert told in text and str(table) in text


def test_another_query_is_refused_by_what_differs(tmp_path: Path, table: Path) -> None:
    begun(tmp_path, summed(table))
    assert '"bucket [RANGE 100' in refused(tmp_path, summed(table, range=200))
    assert "the results of this job are in" in refused(tmp_path, summed(table), "other.parquet")


def test_a_condition_in_python_counts_by_what_it_does(tmp_path: Path) -> None:
    def stream(least: int) -> Stream:
        return oop.rows([(1, 2), (3, 4)], SCHEMA).filter(lambda p: p["v"] > least)

    begun(tmp_path, stream(2))
    assert "another query" in refused(tmp_path, stream(3))


def test_results_that_were_there_are_not_replaced(tmp_path: Path, table: Path) -> None:
    (tmp_path / "out.csv").write_text("mine\n")
    assert "did not write" in refused(tmp_path, summed(table), "out.csv")
    (tmp_path / "out.parquet").mkdir()
    (tmp_path / "out.parquet" / "part-1.parquet").write_text("mine")
    assert "did not write" in refused(tmp_path, summed(table))


def test_a_sink_that_cannot_take_back_is_refused(tmp_path: Path, table: Path) -> None:
    for target in ("out.csv.gz", "out.ndjson.zst"):
        assert "cannot take back results" in refused(tmp_path, summed(table), target)
    with pytest.raises(oop.SinkError, match="cannot take back"):
        summed(table).to("-").run(checkpoint=tmp_path / "job")


def test_tuples_that_are_diverted_where_they_cannot_be_taken_back_are_refused(tmp_path: Path, table: Path) -> None:
    assert "diverted to a function" in refused(tmp_path, oop.read(table, slack=1, divert=print))
    stream = oop.read(table, slack=1, divert=str(tmp_path / "late.csv.gz"))
    assert 'late.csv.gz" cannot take back results' in refused(tmp_path, stream)


class Unsaved(Largest):
    """An operator that cannot be saved."""

    def state(self) -> Any:
        return {"what": object()}


def test_an_operator_that_cannot_be_saved_is_refused_by_name(tmp_path: Path, table: Path) -> None:
    text = refused(tmp_path, oop.read(table).apply(Unsaved("v", 1, ("ts",))))
    assert '"Unsaved" cannot be saved' in text


def test_a_second_run_of_one_job_is_refused_with_its_process(tmp_path: Path, table: Path) -> None:
    output = summed(table).to(tmp_path / "out.parquet")
    with opened(tmp_path / "job", together([output.stream.node]), [output.sink]):
        assert f"in use by the process {os.getpid()}" in refused(tmp_path, summed(table))


def test_how_often_is_a_time(tmp_path: Path, table: Path) -> None:
    for every in ("10 rows", 0, "1 ms"):
        with pytest.raises(oop.PlanError, match="how often"):
            summed(table).to(tmp_path / "out.csv").run(checkpoint=tmp_path / "job", every=every)


class Numbers:
    """Rows that can be read on from any place."""

    end = 2000

    def __init__(self) -> None:
        self.at = 0
        self.sought: list[int] = []

    def seek(self, position: int) -> None:
        self.sought.append(position)
        self.at = position

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return self

    def __next__(self) -> tuple[int, int]:
        if self.at == self.end:
            raise StopIteration
        self.at += 1
        return self.at, self.at % 5


def test_an_iterator_that_seeks_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def output(numbers: Numbers) -> oop.Output:
        stream = oop.rows(numbers, SCHEMA, slack=1).window(range=10).aggregate(oop.sum("v"))
        return stream.to(tmp_path / "out.arrow")

    class Broken(Numbers):
        def __next__(self) -> tuple[int, int]:
            if self.at == 1500:
                raise KeyError("broken")
            return super().__next__()

    expected = oop.rows([(i + 1, (i + 1) % 5) for i in range(2000)], SCHEMA).window(range=10).aggregate(oop.sum("v"))
    numbers = Numbers()
    with pytest.raises(KeyError):
        output(Broken()).run(checkpoint=tmp_path / "job", every=0.01)
    output(numbers).run(checkpoint=tmp_path / "job", every=0.01)
    parts = sorted((tmp_path / "out.arrow").glob("part-*"))
    table = pa.concat_tables([pa.ipc.open_file(part).read_all() for part in parts])
    assert table.sort_by("window_start").to_pylist() == expected.to_arrow().sort_by("window_start").to_pylist()


def test_no_two_parts_of_a_job_have_one_name() -> None:
    """A label may be the name that another part is given for being the second of its label."""
    node = oop.rows([(1,)], oop.Schema.of(ts="int64")).node
    for label in ("sum", "sum #2", "sum", "sum"):
        node = operator_node(Filter(Column("ts") > 0), node, label=label)
    assert names(Plan((node,)))[1:] == ["sum", "sum #2", "sum #3", "sum #4"]
