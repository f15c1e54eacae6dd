"""A run with a memory limit gives what one without gives, or ends with a message that says what to do."""

from __future__ import annotations

import doctest
import errno
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.drive import limit as module
from oop_engine.drive.limit import FileShelf, Limit, bytes_of, limit_of
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.language.translate import query
from oop_engine.rewrite import lanes
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element
from operators.streams.spill import SpillLanes
from tests.examples import mostly_slow
from tests.queries.golden import GOLDEN, Golden
from tests.queries.streams import TABLES, plain, streams

SCHEMA = oop.Schema.of(ts="int64", k="int64", v="int64", progress=["ts"])
MUCH = Limit(1 << 40)


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few lanes put all away after each call, whatever the limit is."""
    monkeypatch.setattr(lanes, "parts_of", lambda limit: 4)
    monkeypatch.setattr(Limit, "lanes", lambda limit, operators: 1)


def batches(n: int, keys: int) -> Iterator[pa.RecordBatch]:
    luck = np.random.default_rng(5)
    ts = np.arange(n) - luck.integers(0, 300, n)
    columns = {"ts": ts, "k": luck.integers(0, keys, n), "v": luck.integers(-50, 50, n)}
    yield from pa.table(columns, schema=SCHEMA.arrow).to_batches(max_chunksize=2_000)


def table(n: int = 6_000, keys: int = 500) -> Stream:
    return oop.arrow(list(batches(n, keys)), schema=SCHEMA.arrow)


def counted(stream: Stream, size: int = 2_000) -> Stream:
    return stream.window(range=size, slide=size // 2, wattr="ts").aggregate(oop.count(), oop.sum("v"), by="k")


def bag(pages: list[Page]) -> Counter[tuple[object, ...]]:
    return Counter[tuple[object, ...]](plain(row) for page in pages for row in page.plain_rows())


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("golden", mostly_slow(GOLDEN, every=3), ids=lambda golden: golden.name)
def test_golden_queries_give_their_answer_whatever_they_may_hold(golden: Golden) -> None:
    pages: list[Page] = []

    def take(element: Element) -> None:
        if isinstance(element, Page):
            pages.append(element)

    plan = prepared(query(golden.text, streams()).node)
    told = run_to_end(plan, (take,), limit=MUCH)
    assert bag(pages) == Counter(golden.expected(TABLES))
    alone = query(golden.text, streams()).run().statistics
    assert told.late == alone.late
    one_by_one = [element for _, element in Run(plan, limit=MUCH) if isinstance(element, Page)]
    assert bag(one_by_one) == bag(pages)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("threads", [1, 3])
def test_results_and_late_tuples_are_those_of_a_run_without_a_limit(threads: int) -> None:
    late = counted(oop.arrow(table(2_000).run().table, slack=20), 200)
    free, bound = late.run(threads=threads), late.run(threads=threads, memory="1 MB")
    assert Counter(map(str, bound.table.to_pylist())) == Counter(map(str, free.table.to_pylist()))
    assert (bound.statistics.late, bound.statistics.windows) == (free.statistics.late, free.statistics.windows)
    assert bound.statistics.late > 0
    assert bound.statistics.total("spills") > 0
    (note,) = [note for note in bound.statistics.notes if "temporary files" in note]
    assert note.startswith("aggregate count(*), sum(v) by k") and "as memory is limited" in note
    assert free.statistics.total("spills") == 0


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    free, bound = counted(table()).run(), counted(table()).run(memory="1 GB")
    assert bound.statistics.total("spilled_bytes") == 0
    assert bound.statistics.notes == free.statistics.notes
    assert Counter(map(str, bound.table.to_pylist())) == Counter(map(str, free.table.to_pylist()))


def test_the_error_policy_says_who_holds_how_much_and_what_to_do() -> None:
    with pytest.raises(oop.MemoryLimitError) as caught:
        counted(table(60_000, 20_000), 20_000).run(memory="1 MB", memory_policy="error")
    told = str(caught.value)
    assert "memory=1.0 MB is its limit" in told
    assert "aggregate count(*), sum(v) by k holds" in told and "entries of" in told
    assert 'memory_policy="spill"' in told


def test_what_has_no_part_for_the_disk_ends_the_run() -> None:
    stream = (
        table(60_000, 60_000).window(range=60_000, wattr="ts").aggregate(d=oop.count_distinct("k"), m=oop.median("v"))
    )
    with pytest.raises(oop.MemoryLimitError, match="no part that could go to disk"):
        stream.run(memory="1 MB")


@pytest.mark.parametrize("size", ["", "much", "1 kB", "-2 GB", 0, 999_999, True, "2 PB"])
def test_a_size_that_is_none_is_refused(size: str | int) -> None:
    with pytest.raises(oop.PlanError, match='e\\.g\\. "2 GB"'):
        bytes_of(size)


def test_a_policy_needs_a_limit_and_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(oop.PlanError, match="add memory="):
        limit_of(None, "error")
    with pytest.raises(oop.PlanError, match="spill, shed, error"):
        limit_of("1 GB", "swap")
    monkeypatch.setenv("OOP_MEMORY", "3 MB")
    assert limit_of() == Limit(3_000_000)
    assert limit_of("4MB", "error") == Limit(4_000_000, "error")


@pytest.mark.usefixtures("tight")
def test_files_leave_no_name_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[list[Path]] = []
    run_to_end(
        prepared(counted(table()).node), (lambda element: seen.append(list(tmp_path.iterdir())),),
        limit=MUCH,
    )  # fmt: skip
    assert seen
    assert not any(seen)


@pytest.mark.usefixtures("tight")
def test_a_full_disk_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(oop.MemoryLimitError) as caught:
        run_to_end(prepared(counted(table()).node), (lambda element: None,), limit=MUCH)
    assert str(tmp_path / "gone") in str(caught.value)
    assert "TMPDIR" in str(caught.value)


class Full:
    """A file on a disk without room."""

    def seek(self, *arguments: int) -> int:
        return 0

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        return None


def test_a_shelf_says_that_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **given: Full())
    shelf = FileShelf()
    with pytest.raises(oop.MemoryLimitError, match="No space left on device"):
        shelf.add(shelf.begin(), b"x")


def test_a_shelf_gives_pieces_back_one_by_one() -> None:
    shelf = FileShelf()
    one, other = shelf.begin(), shelf.begin()
    for name, piece in ((one, b"a"), (other, b""), (one, b"bc" * 100_000)):
        shelf.add(name, piece)
    assert [piece.read() for piece in shelf.pieces(one)] == [b"a", b"bc" * 100_000]
    assert [piece.read() for piece in shelf.pieces(other)] == [b""]
    kept = shelf.pieces(one)
    shelf.remove(one)
    assert [piece.size for piece in kept] == [1, 200_000], "who has a piece reads it though the shelf let go of it"
    assert kept[1].read() == b"bc" * 100_000
    shelf.close()
    with pytest.raises(ValueError, match="closed file"):
        kept[1].read()


def test_explain_says_what_can_go_to_disk() -> None:
    told = counted(table()).explain(memory=True)
    assert "parts go to disk by k" in " ".join(told.split())
    assert "disk" not in counted(table()).explain()
    whole = table().window(range=10, wattr="ts").aggregate(oop.count()).explain(memory=True)
    assert "stays in memory: " in " ".join(whole.split())


def test_the_command_has_the_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(60_000, 20_000).run().table, "rows.parquet")
    text = "SELECT k, count(*) [RANGE 90000, WA ts] FROM Main GROUP BY k"
    ran = {
        name: CliRunner().invoke(commands, ["query", text, "-s", "Main=rows.parquet", "--to", f"{name}.parquet", *more])
        for name, more in (
            ("free", []),
            ("bound", ["--memory", "1MB"]),
            ("no", ["--memory", "1MB", "--memory-policy", "error"]),
        )
    }
    assert [done.exit_code for done in ran.values()] == [0, 0, 3], [done.stderr for done in ran.values()]
    free, bound = (Counter(map(str, pq.read_table(f"{name}.parquet").to_pylist())) for name in ("free", "bound"))
    assert free == bound
    assert "temporary files" in ran["bound"].stderr
    assert "MemoryLimitError" in ran["no"].stderr and "--memory-policy spill" in ran["no"].stderr


def test_a_job_with_a_limit_goes_on_with_what_was_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(60_000, 20_000).run().table, "rows.parquet", row_group_size=5_000)
    stream = counted(oop.read("rows.parquet"), 20_000)
    stream.to("want.parquet").run()

    class Stopped(Exception):
        pass

    def stopping(shelf: FileShelf, name: str) -> None:
        raise Stopped

    with monkeypatch.context() as broken:
        # The first lane that was fetched ends the run, after checkpoints that have it on disk.
        broken.setattr(FileShelf, "remove", stopping)
        with pytest.raises(Stopped):
            stream.to("out.parquet").run(checkpoint="job", every=0.01, memory="1 MB")
    told = stream.to("out.parquet").run(checkpoint="job", every=0.01, memory="1 MB")
    assert told.total("spills") > 0
    want, found = (Counter(map(str, pq.read_table(name).to_pylist())) for name in ("want.parquet", "out.parquet"))
    assert found == want


@pytest.mark.usefixtures("tight")
def test_lanes_of_the_engine_give_what_they_had_part_by_part() -> None:
    sizes: list[int] = []
    plan = prepared(counted(table(), 60_000).node)
    run = Run(plan, limit=MUCH)
    for _, element in run:
        if isinstance(element, Page):
            sizes.append(sum(isinstance(o, SpillLanes) and o.unfinished for o in run.circuit.operators))
    assert sum(sizes) > 2


def test_examples_run() -> None:
    assert doctest.testmod(module).failed == 0
