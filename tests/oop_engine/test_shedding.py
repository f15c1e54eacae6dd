"""A run that refuses groups gives the others exactly, marks the windows that lack some, and counts what they lack."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive.limit import FileShelf, Limit
from operators.window_aggregate.admission import Admission

SCHEMA = oop.Schema.of(ts="int64", k="int64", v="int64", progress=["ts"])


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each operator have 2,000 bytes, whatever the limit is."""
    monkeypatch.setattr(Limit, "lanes", lambda limit, operators: 2_000)


def columns() -> pa.Table:
    """Return tuples of few keys, but many in the second of each three hundred."""
    luck = np.random.default_rng(7)
    ts = np.arange(1_500) - luck.integers(0, 5, 1_500)
    keys = np.where(ts // 100 % 3 == 1, luck.integers(0, 60, 1_500), luck.integers(0, 4, 1_500))
    return pa.table({"ts": ts, "k": keys, "v": luck.integers(0, 9, 1_500)}, schema=SCHEMA.arrow)


def table() -> Stream:
    return oop.arrow(columns())


def counted(stream: Stream, size: int = 100, slide: int = 50) -> Stream:
    return stream.window(range=size, slide=slide, wattr="ts").aggregate(n=oop.count(), by="k")


Group = tuple[int, int]


def groups(found: pa.Table) -> dict[Group, int]:
    return {(row["k"], row["window_end"]): row["n"] for row in found.to_pylist()}


@pytest.mark.usefixtures("tight")
def test_groups_are_whole_or_counted_and_their_windows_marked() -> None:
    free = groups(counted(table()).run().table)
    ran = counted(table()).run(memory="1 MB", memory_policy="shed")
    kept, statistics = groups(ran.table), ran.statistics
    assert kept.items() <= free.items()
    lacking = Counter({end: n for (_, end), n in free.items()})
    lacking.clear()
    for (k, end), n in free.items():
        lacking[end] += n - kept.get((k, end), 0)
    assert {one.end: one.tuples for one in statistics.refused} == +lacking
    marked = {row["window_end"] for row in ran.table.to_pylist() if row["incomplete"]}
    assert marked == {one.end for one in statistics.refused}
    assert len(marked) < len({end for _, end in kept})
    assert statistics.shed > 0
    (note,) = [note for note in statistics.notes if "refused" in note]
    assert note.startswith(f"aggregate count(*) by k refused {statistics.shed:,} tuples of new groups")
    assert "shed" in repr(statistics)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("rows", [7, 400])
def test_what_is_refused_does_not_depend_on_pages(rows: int) -> None:
    stream = counted(oop.arrow(columns(), slack=10))
    ran = stream.run(memory="1 MB", memory_policy="shed")
    with stream.start(page_rows=rows, memory="1 MB", memory_policy="shed") as running:
        found = [row for page in running for row in page.rows()]
    assert Counter(map(str, found)) == Counter(map(str, ran.table.to_pylist()))
    assert running.statistics.refused == ran.statistics.refused != ()


@pytest.mark.usefixtures("tight")
def test_rows_of_windows_over_windows_are_marked_where_they_reach_back() -> None:
    tumbling = counted(table(), 100, 100)
    most = tumbling.window(range=300, slide=300, wattr="window_start").aggregate(m=oop.max("n"))
    with pytest.raises(oop.PlanError, match="shed"):
        most.window(range=300, wattr="window_start").aggregate(oop.count()).run(memory_policy="shed")
    ran = most.run(memory="1 MB", memory_policy="shed")
    spans = [(one.start, one.end) for one in ran.statistics.refused]
    for row in ran.table.to_pylist():
        reached = any(begins < row["window_end"] and ends > row["window_start"] for begins, ends in spans)
        assert not reached or row["incomplete"]
    assert not all(row["incomplete"] for row in counted(table(), 100, 100).run(
        memory="1 MB", memory_policy="shed").table.to_pylist())  # fmt: skip


@pytest.mark.usefixtures("tight")
def test_rows_that_do_not_tell_their_window_have_no_mark() -> None:
    marks = counted(table()).project("k", "n").run(memory="1 MB", memory_policy="shed").table["incomplete"].to_pylist()
    assert set(marks) == {None}
    whole = oop.arrow(columns(), slack=10).aggregate(n=oop.count(), by="k").run(memory="1 MB", memory_policy="shed")
    assert set(whole.table["incomplete"].to_pylist()) == {True}
    assert sum(whole.table["n"].to_pylist()) + whole.statistics.shed == 1_500


def test_a_limit_that_is_not_reached_refuses_nothing() -> None:
    ran = counted(table()).run(memory="1 GB", memory_policy="shed")
    assert groups(ran.table) == groups(counted(table()).run().table)
    assert set(ran.table["incomplete"].to_pylist()) == {False}
    assert (ran.statistics.shed, ran.statistics.refused) == (0, ())


def test_a_run_in_which_refusing_has_no_meaning_is_refused_before_it_writes(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    with pytest.raises(oop.PlanError, match=r"distinct .* cannot: .*other groups(?s:.*)spill"):
        table().distinct("k").to(target).run(memory="1 MB", memory_policy="shed")
    ungrouped = table().window(range=10, wattr="ts").aggregate(oop.count())
    with pytest.raises(oop.PlanError, match="this run has none"):
        ungrouped.to(target).run(memory="1 MB", memory_policy="shed")
    named = counted(table()).derive(incomplete="n")
    with pytest.raises(oop.PlanError, match='adds a column "incomplete"'):
        named.to(target).run(memory="1 MB", memory_policy="shed")
    assert not target.exists()


@pytest.mark.usefixtures("tight")
def test_open_windows_and_what_they_wait_for_are_told_meanwhile() -> None:
    for policy in ("shed", "spill"):
        with counted(table()).start(page_rows=100, memory="1 MB", memory_policy=policy) as running:  # pyright: ignore[reportArgumentType]
            pages = [next(running)]
            assert ("incomplete" in running.partial().column_names) == (policy == "shed")
            assert running.partial().num_rows > 0
            # Of parts that are on disk nothing is known but what they hold: which these are is left to chance.
            assert policy == "spill" or running.why().needs
            pages += running
        assert sum(map(len, pages)) > 0


def test_windows_of_a_run_with_a_limit_stay() -> None:
    stream = table().windows(a=oop.tumbling(100), b=oop.tumbling(50)).aggregate(oop.count(), by="k")
    with stream.start(memory="1 MB") as running, pytest.raises(oop.PlanError, match="stay as they are"):
        next(running)
        running.remove("a")


def test_iteration_obeys_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(FileShelf, "begin", lambda shelf: seen.append(1) or str(len(seen)))
    monkeypatch.setattr(Limit, "lanes", lambda limit, operators: 1)
    monkeypatch.setenv("OOP_MEMORY", "1 MB")
    assert sum(map(len, counted(table()))) == counted(table()).run(memory="1 GB").table.num_rows
    assert seen


def test_explain_says_what_is_refused_above_which_size() -> None:
    told = " ".join(counted(table()).explain(memory="2 GB", memory_policy="shed").replace("│", "").split())
    assert "above 2.0 GB, new groups by k are refused and counted by window" in told
    spilled = " ".join(counted(table()).explain(memory="2 GB").replace("│", "").split())
    assert "above 2.0 GB, parts go to disk by k" in spilled
    ends = " ".join(counted(table()).explain(memory=True, memory_policy="error").replace("│", "").split())
    assert "the run ends where all operators hold more than the limit" in ends
    joined = " ".join(table().distinct("k").explain(memory=True, memory_policy="shed").replace("│", "").split())
    assert "cannot refuse groups, so the run is refused" in joined


@pytest.mark.usefixtures("tight")
def test_the_commands_have_the_policy_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(columns(), "rows.parquet")
    text = "SELECT k, count(*) AS n [RANGE 100, WA ts] FROM Main GROUP BY k"
    shed = ["-s", "Main=rows.parquet", "--memory", "1MB", "--memory-policy", "shed"]
    done = CliRunner().invoke(commands, ["query", text, *shed, "--to", "out.csv", "--stats"])
    assert done.exit_code == 0, done.stderr
    assert Path("out.csv").read_text().splitlines()[0].endswith("incomplete")
    assert "refused" in done.stderr and "are marked incomplete" in done.stderr
    assert ": window 1 refused" in done.stderr
    told = CliRunner().invoke(commands, ["explain", text, *shed])
    assert "new groups by k are refused" in told.stdout
    no = CliRunner().invoke(commands, ["query", "SELECT DISTINCT k FROM Main", *shed])
    assert no.exit_code == 2, no.stderr
    assert "--memory-policy spill" in no.stderr


@pytest.mark.usefixtures("tight")
def test_a_job_goes_on_refusing_as_if_nothing_had_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(columns(), "rows.parquet", row_group_size=100)
    stream = counted(oop.read("rows.parquet"))
    want = stream.to("want.parquet").run(memory="1 MB", memory_policy="shed")

    class Stopped(Exception):
        pass

    ended: list[int] = []
    released = Admission._release  # pyright: ignore[reportPrivateUsage]

    def stopping(admission: Admission, bound: int) -> None:
        ended.append(bound)
        if len(ended) == 20:
            raise Stopped
        released(admission, bound)

    with monkeypatch.context() as broken:
        broken.setattr(Admission, "_release", stopping)
        with pytest.raises(Stopped):
            stream.to("out.parquet").run(checkpoint="job", every=0.01, memory="1 MB", memory_policy="shed")
    assert oop.state("job").unread == {}
    told = stream.to("out.parquet").run(checkpoint="job", every=0.01, memory="1 MB", memory_policy="shed")
    assert told.refused == want.refused
    rows, wanted = (Counter(map(str, pq.read_table(name).to_pylist())) for name in ("out.parquet", "want.parquet"))
    assert rows == wanted
