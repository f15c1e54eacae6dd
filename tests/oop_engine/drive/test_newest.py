"""A display that falls behind shows the newest results, whole windows, and the run says how many it left out."""

from __future__ import annotations

import doctest
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.drive import preference
from oop_engine.drive.newest import Newest, newest_by
from oop_engine.errors import PlanError
from oop_engine.sinks import sink_for
from operators.data.page import Page, Row
from operators.protocol import Element
from punctuation import Punctuation, before

SCHEMA = oop.Schema.of(ts="int64", k="int64", progress=["ts"])
LONG = 60
"""Seconds after which what is waited for will not come."""

pages = st.lists(st.tuples(st.integers(0, 9) | st.none(), st.integers(0, 3)), max_size=4)


@given(st.lists(pages | st.integers(0, 9), min_size=1, max_size=30), st.lists(st.booleans(), max_size=30))
def test_what_is_left_out_is_older_than_what_comes_and_is_counted(
    sent: list[list[tuple[int | None, int]] | int], stuck: list[bool]
) -> None:
    """Simulate an inbox of three that a display takes from where it is not stuck."""
    shown: list[Element] = []
    display, inbox = Newest(SCHEMA, shown.append), list[Element]()
    elements = [before("ts", one) if isinstance(one, int) else Page.of_rows(SCHEMA, one) for one in sent]
    for place, came in enumerate(elements):
        if len(inbox) == 3:
            kept = display.overtaken(came, inbox)
            gone = [one for one in inbox if not any(one is other for other in kept)]
            assert [one for one in inbox if any(one is other for other in kept)] == kept
            last = next((one for one in (came, *reversed(inbox)) if isinstance(one, Page)), None)
            for one in gone:
                if isinstance(one, Page) and len(one):
                    times = [] if last is None else [t for t in last.column("ts").to_pylist() if t is not None]
                    assert max(one["ts"]) < min(times)
            inbox = kept
        if len(inbox) == 3 or not (place < len(stuck) and stuck[place]):
            for one in inbox:
                display(one)
            inbox = []
        inbox.append(came)
    for one in inbox:
        display(one)
    whole, given = (sum(len(one) for one in some if isinstance(one, Page)) for some in (elements, shown))
    assert given + display.left_out == whole
    assert bool(display.notes("x")) == (display.bound is not None)
    if isinstance(elements[-1], Page):
        # Its tuples are shown, but those that an earlier page was newer than.
        rows = [row for one in shown if isinstance(one, Page) for row in one.plain_rows()]
        last = elements[-1]
        if display.bound is not None:
            last = last.select(~last.matching(display.unwanted(display.bound)))
        assert all(row in rows for row in last.plain_rows())
    promises = [one for one in elements if isinstance(one, Punctuation)]
    assert not promises or promises[-1] in shown


def endless(read: threading.Event, pages: int = 60, drawn: threading.Semaphore | None = None) -> oop.Stream:
    """Return a stream that says when it was read to its end.

    Each page but the first completes a window; where `drawn` is given, the next page comes once that was drawn.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(pages):
            times = range(10 * at, 10 * at + 10)
            yield pa.record_batch([pa.array(times), pa.array([t % 3 for t in times])], schema=SCHEMA.arrow)
            if at and drawn is not None:
                assert drawn.acquire(timeout=LONG), "a result is not drawn"
        read.set()

    return oop.arrow(batches(), schema=SCHEMA.arrow, name="live", punctuate=oop.slack(8))


def test_the_run_does_not_wait_for_a_display() -> None:
    read, shown = threading.Event(), list[Row]()

    def draw(page: Page) -> None:
        shown.extend(page.plain_rows())
        assert read.wait(LONG), "the run waits for its display"

    counts = endless(read).window(range=10).aggregate(oop.count(), by="k")
    statistics = counts.to(draw, newest=True).run()
    whole = endless(threading.Event()).window(range=10).aggregate(oop.count(), by="k").run().table.to_pylist()
    assert [row["window_start"] for row in whole[-3:]] == [row["window_start"] for row in shown[-3:]]
    windows = Counter(row["window_start"] for row in whole)
    assert all(windows[start] == many for start, many in Counter(row["window_start"] for row in shown).items())
    (note,) = (note for note in statistics.notes if "display" in note)
    left_out = len(whole) - len(shown) - statistics.total("disclaimed")
    assert left_out > 0 and f"with the newest results: {left_out:,} were left out" in note
    assert note.startswith("the display of aggregate count(*) by k fell behind") and "window_end before" in note


def test_a_display_that_keeps_up_shows_all() -> None:
    shown, drawn = list[Row](), threading.Semaphore(0)

    def draw(page: Page) -> None:
        shown.extend(page.plain_rows())
        drawn.release()

    counts = endless(threading.Event(), 5, drawn).window(range=10).aggregate(oop.count())
    statistics = counts.to(draw, newest=True).run()
    assert [row["count"] for row in shown] == [10] * 5
    assert not any("display" in note for note in statistics.notes)


def test_only_displays_of_results_with_a_time_leave_out_some(tmp_path: Path) -> None:
    stream = oop.rows([(1, 2)], oop.Schema.of(ts="int64", k="int64"))
    with pytest.raises(PlanError, match=r"no attribute of these results \(count\) rises"):
        stream.aggregate(oop.count()).to(print, newest=True)
    with pytest.raises(PlanError, match="a file takes all results"):
        stream.window(range=10).aggregate(oop.count()).to(tmp_path / "out.csv", newest=True)
    with pytest.raises(PlanError, match="a run with checkpoints gives all results"):
        out = sink_for(tmp_path / "out.csv")
        stream.window(range=10).aggregate(oop.count()).to(out, newest=True).run(checkpoint=tmp_path / "job")
    assert newest_by(stream.window(range=10).aggregate(oop.count()).schema) == "window_end"


def test_the_command_asks_for_the_newest_and_for_an_order_of_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("ts,v\n1,1\n2,2\n")
    Path("b.csv").write_text("ts,v\n1,3\n12,4\n")
    text = "SELECT sum(v) AS v [RANGE 10, WA ts] FROM A UNION B"
    command = ["query", text, "-s", "A=a.csv", "-s", "B=b.csv", "--json"]
    plain, asked = (CliRunner().invoke(commands, [*command, *more]) for more in ([], ["--newest", "--prefer", "B"]))
    assert (asked.exit_code, asked.stdout) == (0, plain.stdout), asked.stderr
    wrong = CliRunner().invoke(commands, [*command, "--prefer", "C"])
    assert wrong.exit_code == 2 and 'prefer("C"): no source of this run has that name' in wrong.stderr
    file = CliRunner().invoke(commands, [*command[:-1], "--newest", "--to", "out.csv"])
    assert file.exit_code == 2 and '--newest is for standard output; "out.csv" takes all results' in file.stderr


def test_examples_run() -> None:
    assert doctest.testmod(preference).failed == 0
