"""Of two runs that write one output the second is refused, and what killed runs left is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import oop_engine as oop
from oop_engine import lock as lock_module
from oop_engine.cli.showing import Wishes, run_shown
from oop_engine.lock import Claim
from oop_engine.rewrite.passes import prepared
from oop_engine.sinks import Csv, FileSink, GrowingSink, KeptSink, PageLogSink, Sink, SinkError, sink_for
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sinks.files import unfinished_of
from operators.data.page import Page
from punctuation import before

SCHEMA = oop.Schema.of(ts="int64", progress=["ts"])
PAGE = Page.of(SCHEMA, {"ts": [1, 2]})
ONE = oop.rows([(1,)], SCHEMA)
NAMES = ["out.csv", "out.parquet", "out.csv.gz", "out.pages"]


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob(".*"))


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_an_output_is_one_run_s_alone_while_that_runs(name: str, endless: bool, tmp_path: Path) -> None:
    path = tmp_path / name
    with sink_for(path, endless=endless).opened(SCHEMA) as deliver:
        deliver(PAGE)
        with (
            pytest.raises(
                SinkError, match=rf'"{path}" is being written by the process {os.getpid()}, which still runs'
            ),
            sink_for(path, endless=not endless).opened(SCHEMA),
        ):
            pass
    assert path.exists() and hidden(tmp_path) == []


@pytest.mark.parametrize("way", ["relative", "symlink", "symlink to what will be", "folder", "hard link"])
def test_no_other_name_of_an_output_leads_around_its_lock(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "out.csv", tmp_path / "other.csv"
    monkeypatch.chdir(tmp_path)
    if way != "symlink to what will be":
        path.write_text("old\n")
    if way == "relative":
        other = Path("out.csv")
    elif way == "folder":
        (tmp_path / "link").symlink_to(tmp_path)
        other = tmp_path / "link" / ".." / tmp_path.name / "out.csv"
    elif way != "hard link":
        other.symlink_to(path)
    for one, two in ((path, other), (other, path)):
        if way == "hard link":
            other.unlink(missing_ok=True)
            other.hardlink_to(path)
        with (
            GrowingSink(one, Csv).opened(SCHEMA),
            pytest.raises(SinkError, match="is being written by"),
            FileSink(two, Csv).opened(SCHEMA),
        ):
            pass


def test_the_name_that_a_growing_file_has_taken_by_now_is_locked_too(tmp_path: Path) -> None:
    path, link = tmp_path / "out.csv", tmp_path / "link.csv"
    with GrowingSink(path, Csv).opened(SCHEMA) as deliver:
        deliver(PAGE)
        deliver(before("ts", 3))
        link.hardlink_to(path)
        with pytest.raises(SinkError, match="by a process that still runs"), GrowingSink(link, Csv).opened(SCHEMA):
            pass


def test_outputs_of_one_run_and_outputs_of_python_are_claimed_too(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    claim = Claim.of(path)
    try:
        with pytest.raises(SinkError, match="is being written by"):
            ONE.to(path).run()
        with pytest.raises(SinkError, match="is being written by"):
            oop.run_outputs([ONE.to(tmp_path / "a.csv"), ONE.to(path)])
    finally:
        claim.release()
    ONE.to(path).run()
    assert path.read_text() == "ts\n1\n" and hidden(tmp_path) == []


def test_what_a_killed_run_left_is_removed_where_it_can_be_made_again(tmp_path: Path) -> None:
    path, left, other = tmp_path / "out.csv", tmp_path / f".out.csv.{'a' * 12}.part", tmp_path / ".csv.aa.part"
    for one in (left, other):
        one.write_text("half a li")
    with FileSink(path, Csv).opened(SCHEMA) as deliver:
        deliver(PAGE)
        assert not left.exists() and other.exists()
        (running,) = tmp_path.glob(".out.csv.*.part")
        with FileSink(path, Csv, claimed=True).opened(SCHEMA):
            assert running.exists()
        assert list(unfinished_of(path)) == []
    assert path.read_text() == "ts\n1\n2\n" and hidden(tmp_path) == [other.name]


def test_what_a_killed_run_left_is_told_where_it_cannot_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, (left, empty) = tmp_path / "out.csv.gz", [tmp_path / f".out.csv.gz.{digit * 12}.part" for digit in "ab"]
    left.write_bytes(b"results")
    empty.touch()
    plan = prepared(ONE.node)
    run_shown(plan, Wishes(str(path), endless=True, quiet=True), lambda *_: "", node=plan.outputs[0])
    said = capsys.readouterr().err
    assert f'note: "{left}" (7 bytes) has results of a run that was killed before "{path}" was complete' in said
    assert str(empty) not in said and (left.exists(), empty.exists()) == (True, False)


@pytest.mark.parametrize("sink", [FileSink, GrowingSink, KeptSink, lambda path, _: PageLogSink(path)])
def test_where_nothing_can_be_locked_results_are_written_all_the_same(
    sink: type[FileSink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock_module.fcntl, "flock", refused)
    opened: Sink = sink(tmp_path / "out", Csv)
    with opened.opened(SCHEMA) as deliver:
        deliver(PAGE)
    assert (tmp_path / "out").exists()


def test_a_growing_file_that_is_removed_meanwhile_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with (
        pytest.raises(WriteFailed, match="was removed while it was written"),
        GrowingSink(path, Csv).opened(SCHEMA) as deliver,
    ):
        for _ in range(2):
            deliver(PAGE)
            deliver(before("ts", 3))
            path.unlink()
