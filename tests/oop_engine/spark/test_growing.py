"""A folder that grows is read once and whole, in batches of any size, and the same when batches are read again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from oop_engine.sources.errors import SourceError
from oop_engine.spark.allowance import Allowance
from oop_engine.spark.growing import Offset, Planner
from oop_engine.spark.journal import NAME, Journal
from oop_engine.spark.options import Options
from oop_engine.spark.paths import Folder
from oop_engine.spark.reading import LEAST, SPLIT, PacketReading, part_size
from tests.capture_files import FRAMES, WHOLE, pcap

START: Offset = {"file": 0, "byte": 0}
READING = PacketReading.of(Options("oop.pcap", {"columns": "ts_ns"}, ("columns",)))


def planner(folder: Path, **options: int) -> Planner:
    return Planner(Folder(folder, "**/*"), Journal(folder / NAME), parted=True, **options)


def read(plan: Planner, start: Offset, end: Offset, split: int = 1 << 20) -> list[int]:
    pieces = plan.pieces(start, end, split)
    return [ns for piece in pieces for batch in READING.batches(piece) for ns in batch.column(0).to_pylist()]


def packets(first: int, count: int) -> bytes:
    """Records alone, numbered by their times in microseconds."""
    return pcap([((first + k) * 1000, FRAMES[k % len(FRAMES)]) for k in range(count)])[24:]


def drained(plan: Planner, start: Offset = START, allowed: Allowance | None = None) -> tuple[list[int], Offset]:
    """Read batch after batch until there is nothing new."""
    found: list[int] = []
    for _ in range(100):
        end = plan.after(start, allowed or Allowance())
        if end == start:
            return found, end
        found += read(plan, start, end)
        start = end
    raise AssertionError(f"there is always something new: {plan.journal.entries}")


LIMITS = st.one_of(
    st.builds(ReadMaxRows, st.integers(1, 9)),
    st.builds(ReadMaxBytes, st.integers(1, 400)),
    st.builds(ReadMaxFiles, st.integers(1, 3)),
    st.builds(ReadAllAvailable),
)


@given(st.data())
def test_batches_of_any_size_over_files_that_grow_give_every_packet_once(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = planner(folder)
        written = 0
        found: list[int] = []
        batches: list[tuple[Offset, Offset, list[int]]] = []
        start = START
        for _ in range(data.draw(st.integers(1, 8))):
            step = data.draw(st.sampled_from(["new", "grow", "part", "read", "read", "restart"]))
            files = sorted(folder.glob("*.pcap"))
            count = data.draw(st.integers(0, 6))
            if step == "new":
                (folder / f"{len(files):03d}.pcap").write_bytes(pcap([]) + packets(written, count))
                written += count
            elif step in ("grow", "part") and files:
                path = data.draw(st.sampled_from(files))
                with path.open("ab") as file:
                    record = packets(written, count)
                    if step == "part":  # a writer's buffer ends anywhere; the rest comes with its next flush
                        cut = data.draw(st.integers(0, len(record)))
                        file.write(record[:cut])
                        file.flush()
                        end = plan.after(start, Allowance.of(data.draw(LIMITS)))
                        batches.append((start, end, read(plan, start, end)))
                        start = end
                        record = record[cut:]
                    file.write(record)
                written += count
            elif step == "restart":
                plan = planner(folder)
            else:
                end = plan.after(start, Allowance.of(data.draw(LIMITS)))
                batches.append((start, end, read(plan, start, end, data.draw(st.sampled_from([40, 200, 10_000])))))
                start = end
        for low, high, rows in batches:
            assert read(planner(folder), low, high) == rows
            found += rows
        found += drained(plan, start)[0]
        assert sorted(found) == [k * 1000 for k in range(written)]


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_a_batch_holds_as_many_rows_of_a_capture_as_are_allowed(tmp_path: Path, rows: int) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]) + packets(0, 20))
    plan = planner(tmp_path)
    end = plan.after(START, Allowance(rows=rows))
    assert read(plan, START, end) == [k * 1000 for k in range(rows)]


def test_what_is_available_now_ends_where_the_folder_ended_then(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]) + packets(0, 5))
    plan = planner(tmp_path)
    plan.aim()
    with (tmp_path / "a.pcap").open("ab") as file:
        file.write(packets(5, 5))
    (tmp_path / "b.pcap").write_bytes(pcap([]) + packets(10, 5))
    found, end = drained(plan)
    assert found == [k * 1000 for k in range(5)]
    assert drained(planner(tmp_path), end)[0] == [k * 1000 for k in range(5, 15)]


def test_a_damaged_capture_is_read_up_to_the_damage_and_noted(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]) + packets(0, 5) + bytes(16) + packets(5, 5))
    os.utime(tmp_path / "a.pcap", (1, 1))
    (tmp_path / "b.pcap").write_bytes(pcap([]) + packets(10, 2))
    notes = tmp_path.parent / (tmp_path.name + "-notes")
    plan = Planner(Folder(tmp_path, "*"), Journal(tmp_path / NAME), parted=True, notes=str(notes))
    assert drained(plan)[0] == [0, 1000, 2000, 3000, 4000, 10_000, 11_000]
    (noted,) = notes.glob("*.json")
    assert "damaged at byte" in noted.read_text()


def test_other_formats_are_read_as_whole_files_in_order_of_age(tmp_path: Path) -> None:
    for age, name in enumerate(["b", "a"]):
        (tmp_path / name).write_bytes(WHOLE["pcapng"])
        os.utime(tmp_path / name, (100 + age, 100 + age))
    plan = planner(tmp_path)
    end = plan.after(START, Allowance(rows=1))
    assert [piece.path.name for piece in plan.pieces(START, end, 100)] == ["b"]
    assert len(drained(plan)[0]) == 2 * len(FRAMES)


def test_a_file_that_has_not_rested_is_left_for_later(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(WHOLE["pcapng"])
    assert drained(planner(tmp_path, settle=3600))[0] == []
    os.utime(tmp_path / "a", (1, 1))
    assert len(drained(planner(tmp_path, settle=3600))[0]) == len(FRAMES)


def test_a_whole_file_that_changes_after_it_was_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(WHOLE["pcapng"])
    plan = planner(tmp_path)
    _, end = drained(plan)
    path.write_bytes(WHOLE["pcapng"] * 2)
    with pytest.raises(SourceError, match="settleSeconds"):
        plan.after(end, Allowance())


def test_a_capture_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([]) + packets(0, 5))
    (tmp_path / "b.pcap").write_bytes(pcap([]))
    plan = planner(tmp_path)
    _, end = drained(plan)
    path.write_bytes(pcap([]) + packets(0, 1))
    with pytest.raises(SourceError, match="shorter than what was read"):
        plan.after(end, Allowance())


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.booleans(), st.booleans())
def test_a_capture_that_takes_the_name_of_one_that_was_read_is_an_error(
    first: int, allowed: int, second: int, restart: bool, aim: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.pcap"
        path.write_bytes(pcap([]) + packets(0, first))
        plan = planner(Path(name))
        end = plan.after(START, Allowance(rows=allowed))
        os.utime(path, (1, 1))
        path.write_bytes(pcap([]) + packets(100, second))
        plan = planner(Path(name)) if restart else plan
        with pytest.raises(SourceError, match="a name of its own"):
            if aim:
                plan.aim()
            plan.after(end, Allowance())
        with pytest.raises(SourceError, match="a name of its own"):
            planner(Path(name)).pieces(START, end, 1000)
        path.rename(path.with_name("b.pcap"))
        assert drained(planner(Path(name)), end)[0] == [(100 + k) * 1000 for k in range(second)]


def test_a_capture_that_lost_its_end_is_an_error_while_it_may_still_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([]) + packets(0, 50))
    _, end = drained(planner(tmp_path))
    path.write_bytes(path.read_bytes()[:-20])
    plan = planner(tmp_path)
    plan.aim()
    with pytest.raises(SourceError, match="shorter than what was read"):
        plan.after(end, Allowance())
    with pytest.raises(SourceError, match="shorter than what was read"):
        planner(tmp_path).pieces(START, end, 1000)


def test_a_whole_file_that_another_of_its_size_replaced_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(WHOLE["pcapng"])
    _, end = drained(planner(tmp_path))
    path.write_bytes(WHOLE["pcapng"][:-40] + bytes(40))
    with pytest.raises(SourceError, match="begins otherwise"):
        planner(tmp_path).after(end, Allowance())


def test_a_journal_of_an_earlier_version_knows_no_files_again_and_learns_them_as_they_are_read_on(
    tmp_path: Path,
) -> None:
    path, journal = tmp_path / "a.pcap", tmp_path / NAME
    path.write_bytes(pcap([]) + packets(0, 3))
    _, end = drained(planner(tmp_path))
    lines = [line for line in journal.read_text().splitlines(keepends=True) if "begins" not in line]
    journal.write_text("".join(lines))
    with path.open("ab") as file:
        file.write(packets(3, 3))
    found, end = drained(planner(tmp_path), end)
    assert found == [3000, 4000, 5000]
    path.write_bytes(pcap([]) + packets(100, 9))
    with pytest.raises(SourceError, match="begins otherwise"):
        planner(tmp_path).after(end, Allowance())


def test_a_checkpoint_without_its_journal_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(pcap([]) + packets(0, 5))
    _, end = drained(planner(tmp_path))
    (tmp_path / NAME).unlink()
    (tmp_path / "b.pcap").unlink()
    with pytest.raises(SourceError, match="Put the journal back"):
        planner(tmp_path).after({**end, "file": 2}, Allowance())


def test_a_line_of_the_journal_that_a_crash_cut_short_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]) + packets(0, 3))
    drained(planner(tmp_path))
    journal = tmp_path / NAME
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"file": 1, "na')
    (tmp_path / "b.pcap").write_bytes(pcap([]) + packets(3, 3))
    assert drained(planner(tmp_path))[0] == [k * 1000 for k in range(6)]
    assert journal.read_bytes().startswith(whole)


def test_two_queries_share_a_journal(tmp_path: Path) -> None:
    one, other = planner(tmp_path), planner(tmp_path)
    (tmp_path / "a.pcap").write_bytes(pcap([]) + packets(0, 3))
    one.look()
    (tmp_path / "b.pcap").write_bytes(pcap([]) + packets(3, 3))
    other.look()
    assert drained(one)[0] == drained(other)[0] == [k * 1000 for k in range(6)]
    assert [entry.name for entry in one.journal.entries] == ["a.pcap", "b.pcap"]


def test_hidden_and_unfinished_files_are_not_read(tmp_path: Path) -> None:
    for name in (".a.pcap", "_b.pcap", "c.pcap.part", "d.pcap.tmp"):
        (tmp_path / name).write_bytes(WHOLE["pcap"])
    assert drained(planner(tmp_path))[0] == []


@pytest.mark.parametrize(
    ("total", "split", "size"),
    [
        (100 * LEAST, SPLIT, SPLIT),
        (12 * LEAST, SPLIT, 12 * LEAST // 8),
        (2 * LEAST, SPLIT, LEAST),
        (2 * LEAST, 1000, 1000),
        (2 * LEAST, 0, 0),
    ],
)
def test_what_is_large_is_read_in_few_parts_and_what_is_small_in_some(total: int, split: int, size: int) -> None:
    assert part_size(total, split) == size
