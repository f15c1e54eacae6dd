"""Python's runs show themselves on a page and in a record as those of the command line do, by the same code."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
import trio

import oop_engine as oop
from oop_engine.drive.keeping import Showing
from oop_engine.errors import PlanError
from oop_engine.page.feed import ROWS
from oop_engine.page.record import Record
from oop_engine.page.shown import Shown

SCHEMA = oop.Schema.of(ts="int64", k="string")
ROWS_GIVEN = [(5 * n, "a" if n % 2 else "b") for n in range(64)]


def stream(name: str = "link") -> oop.Stream:
    """Give counts of windows of a stream that is read once."""
    given = oop.rows(iter(ROWS_GIVEN), SCHEMA, name=name, punctuate=oop.slack(20))
    return given.window(range=10).aggregate(oop.count(), by="k")


def iterated(path: Path) -> None:
    with stream().start(page_rows=1, record=path) as running:
        assert sum(map(len, running)) == len(ROWS_GIVEN)


def stopped(path: Path) -> None:
    with stream().to("out.csv").start(record=path) as started:
        started.wait()


def awaited(path: Path) -> None:
    async def run() -> None:
        await stream().run_async(record=path)
        await stream().to("out.csv").run_async(record=path)

    trio.run(run)


WAYS: dict[str, Callable[[Path], object]] = {
    "run": lambda path: stream().run(record=path),
    "in order": lambda path: stream().run(mode="iop", record=path),
    "start": iterated,
    "run of an output": lambda path: stream().to("out.csv").run(record=path),
    "start of an output": stopped,
    "several outputs": lambda path: oop.run_outputs([stream().to("a.csv"), stream().to("b.csv")], record=str(path)),
    "under trio": awaited,
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_run_keeps_a_record_to_the_end(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    WAYS[way](tmp_path / "run.oop")
    record = Record(tmp_path / "run.oop")
    assert record.whole and record.times() and "count" in record.title
    assert '"state":"ended"' in record.moment(len(record.times()) - 1)


def test_a_page_is_served_while_a_run_goes_on_and_its_address_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with stream().start(page_rows=1, page="127.0.0.1:0", page_token="abcdefgh") as running:
        next(running)
        said = capsys.readouterr().err
        url = said.removeprefix("page: ").partition("#")[0]
        assert said.endswith("/#token=abcdefgh\n")
        with urlopen(f"{url}plan?token=abcdefgh", timeout=20) as answer:
            assert "link" in answer.read().decode()
        with pytest.raises(PlanError, match="is shown at http"):
            running.page("127.0.0.1:0")
    with pytest.raises(OSError):
        urlopen(url, timeout=20)


def test_what_a_run_gives_is_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also columns that a run adds to its results, as one with a limit does."""
    monkeypatch.chdir(tmp_path)
    seen, enter = list[Shown](), Shown.__enter__
    monkeypatch.setattr(Shown, "__enter__", lambda self: seen.append(self) or enter(self))
    stream().run(page="127.0.0.1:0")
    stream().to("out.csv").run(page="127.0.0.1:0", memory="1 GB", memory_policy="shed")
    for shown in seen:
        assert shown.feed is not None and shown.feed.results is not None
        found = shown.feed.results.plain()
        assert found["total"] == len(ROWS_GIVEN) < ROWS
        assert [len(row) for row in found["rows"]] == [len(found["columns"])] * len(ROWS_GIVEN)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"page": "0.0.0.0:8080"}, "give a token"),
        ({"page_token": "abcdefgh"}, "none is served"),
        ({"record": "other.txt"}, "is no record of a run"),
        ({"record": "nowhere/run.oop"}, "cannot be written"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_the_run(
    options: Showing, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.txt").write_text("precious")
    for run in (stream().run, stream().start, stream().to("out.csv").run):
        with pytest.raises(PlanError, match=message):
            run(**options)
    assert (tmp_path / "other.txt").read_text() == "precious" and not (tmp_path / "out.csv").exists()


def test_a_run_that_fails_leaves_its_record(tmp_path: Path) -> None:
    with suppress(OSError), stream().start(page_rows=1, record=tmp_path / "run.oop") as running:
        next(running)
        raise OSError("the disk of its user is full")
    record = Record(tmp_path / "run.oop")
    assert record.whole and '"state":"running"' in record.moment(len(record.times()) - 1)
