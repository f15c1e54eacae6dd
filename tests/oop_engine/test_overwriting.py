"""A run that would replace what it reads, or one of its results by another, is refused before anything is read."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks import SinkError

SCHEMA = pa.schema([("ts", pa.int64())])
TEXT = b"ts\n" + b"\n".join(b"%d" % ts for ts in (1, 50, 2, 60)) + b"\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_bytes(TEXT)
    return path


def counted(stream: oop.Stream) -> oop.Stream:
    return stream.window(10).aggregate(oop.count())


def late(target: Path | str, name: str = "rows") -> oop.Stream:
    return oop.rows([(1,), (50,), (2,), (60,)], SCHEMA, name=name, slack=0, divert=str(target))


@pytest.mark.parametrize("linked", [False, True])
def test_results_do_not_replace_what_is_read(tmp_path: Path, table: Path, linked: bool) -> None:
    target = table
    if linked:
        target = tmp_path / "link.csv"
        target.symlink_to(table)
    for stream in (
        oop.table(str(table)),
        oop.table(tmp_path / "*.csv", arrival_ts=True),
        oop.meld(oop.rows([(1,)], SCHEMA), oop.table(str(tmp_path / ".." / tmp_path.name / "in.csv"))),
    ):
        with pytest.raises(SinkError, match=f'"{target}" is read as stream .*; the results would replace it'):
            counted(stream).to(str(target)).run()
    assert table.read_bytes() == TEXT and target.is_symlink() == linked


def test_results_do_not_replace_a_stream_that_is_a_file(tmp_path: Path, table: Path) -> None:
    with table.open("rb") as stream:
        read = oop.table(stream, format="csv", punctuate=oop.slack(0))
        with pytest.raises(SinkError, match="the results would replace it"):
            counted(read).to(table).run()
    read = oop.table(io.BytesIO(TEXT), format="csv", punctuate=oop.slack(0))
    counted(read).to(table).run()
    assert table.read_bytes() != TEXT


def test_captures_and_exports_are_not_replaced_either(tmp_path: Path) -> None:
    demos = Path(__file__).parents[2] / "demos" / "captures"
    for name, read in (("web.pcap.gz", oop.pcap), ("exports.pcap.gz", oop.netflow)):
        link = tmp_path / f"{name}.csv"
        link.symlink_to(demos / name)
        with pytest.raises(SinkError, match="is read as stream"):
            read(link).window("1 minute").aggregate(oop.count()).to(link).run()


def test_two_results_are_not_for_one_file(tmp_path: Path) -> None:
    stream = oop.rows([(t,) for t in range(100)], SCHEMA)
    one, two = counted(stream), stream.window(50).aggregate(oop.count())
    (tmp_path / "x").mkdir()
    for name in ("one.csv", "one.parquet", "one.ndjson", "one.pages"):
        outputs = [one.to(tmp_path / name), two.to(f"{tmp_path}/x/../{name}")]
        with pytest.raises(SinkError, match=r'which is ".*", is for the results of output 0, so it cannot be for'):
            oop.run_outputs(outputs)
    assert sorted(os.listdir(tmp_path)) == ["x"]


def test_late_tuples_have_a_file_of_their_own(tmp_path: Path, table: Path) -> None:
    target = tmp_path / "late.csv"
    with pytest.raises(SinkError, match="is for the results, so it cannot be for the late tuples of rows too"):
        counted(late(target)).to(target).run()
    with pytest.raises(SinkError, match="is for the late tuples of a, so it cannot be for the late tuples of b too"):
        counted(oop.meld(late(target, "a"), late(target, "b"))).to_arrow()
    assert not target.exists()
    diverted = oop.table(str(table), punctuate=oop.slack(0), divert=str(table))
    for run in (counted(diverted).to_arrow, lambda: list(counted(diverted)), counted(diverted).start):
        with pytest.raises(SinkError, match=r"the late tuples of .* would replace it"):
            run()
    assert table.read_bytes() == TEXT
    counted(oop.meld(late(target, "a"), late(tmp_path / "more.csv", "b"))).to_arrow()
    assert target.read_bytes() == (tmp_path / "more.csv").read_bytes() != b""


def test_what_replaces_nothing_may_be_named_twice(tmp_path: Path) -> None:
    stream = oop.rows([(t,) for t in range(100)], SCHEMA)
    link = tmp_path / "nothing.csv"
    link.symlink_to(os.devnull)
    ran = oop.run_outputs([counted(stream).to(link), stream.window(50).aggregate(oop.count()).to(link)])
    assert ran.tuples == 100
    assert os.readlink(link) == os.devnull
