"""Row groups that say their least time spare the pass for exact punctuation, and change nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources import columnar
from oop_engine.sources.files import Files
from oop_engine.sources.tables import Table, TableError
from punctuation import NEVER, NO_TIME, Schedule, SuffixMinimum, Unfolding

TIMES = st.lists(st.integers(-30, 60) | st.none(), max_size=30)


def written(path: Path, times: Sequence[int | None], rows: int = 3) -> Path:
    ts = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": pa.array(range(len(times))), "ts": ts}), path, row_group_size=rows)
    return path


def ticks(times: Sequence[int | None]) -> np.ndarray:
    return np.array([NO_TIME if t is None else t for t in times], np.int64)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "_LEAST_GROUP_ROWS", 1)


def entries(schedule: Schedule | Unfolding, stop: int, page: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start in range(0, stop, page):
        positions, bounds = schedule.between(start, min(start + page, stop))
        found += zip(positions.tolist(), bounds.tolist(), strict=True)
    return found


@given(st.lists(TIMES, max_size=6), st.integers(1, 9), st.integers(-5, 5), st.integers(1, 12), st.data())
def test_unfolding_promises_what_one_pass_over_all_promises(
    pieces: list[list[int | None]], step: int, origin: int, page: int, data: st.DataObject
) -> None:
    values = [ticks(piece) for piece in pieces]
    whole = SuffixMinimum(step=step, origin=origin)
    for piece in values:
        whole.feed(piece)
    lengths = np.array([len(v) for v in values], np.int64)
    leasts = np.array([v[v != NO_TIME].min(initial=NEVER) for v in values], np.int64)
    unfolding = Unfolding(lengths, leasts, step=step, origin=origin)
    total, at, fed = int(lengths.sum()), 0, 0
    found: list[tuple[int, int]] = []
    while at < total:
        stop = min(at + page, total)
        while fed < len(values) and (int(lengths[:fed].sum()) < stop or data.draw(st.booleans())):
            unfolding.feed(values[fed])
            fed += 1
        positions, bounds = unfolding.between(at, stop)
        found += zip(positions.tolist(), bounds.tolist(), strict=True)
        at = stop
    assert found == entries(whole.finish(), total, max(total, 1))


def test_a_piece_that_is_not_as_outlined_is_refused() -> None:
    outline = np.array([2, 1]), np.array([5, 7])
    with pytest.raises(ValueError, match="piece 0 has 3 tuples, and the outline says 2"):
        Unfolding(*outline, step=1).feed(ticks([5, 6, 7]))
    with pytest.raises(ValueError, match="piece 0 has the value 4, and the outline says at least 5"):
        Unfolding(*outline, step=1).feed(ticks([None, 4]))
    unfolding = Unfolding(*outline, step=1)
    unfolding.feed(ticks([5, 6]))
    unfolding.feed(ticks([7]))
    with pytest.raises(ValueError, match="no further piece"):
        unfolding.feed(ticks([8]))


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_any_zone_and_of_none_are_those_of_their_statistics(tmp_path: Path, zone: str | None) -> None:
    path = tmp_path / "a.parquet"
    times = [5, 1, 9, None, 8, 20, 11]
    pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us", zone))}), path, row_group_size=3)
    table = Table(path)
    found = table.outline("ts")
    assert found is not None and found.leasts.tolist() == [1, 8, 11]
    assert [v for ticks in table.values("ts") for v in ticks.tolist()] == [NO_TIME if t is None else t for t in times]
    # Times of another unit are converted.
    assert Table(path, types={"ts": "timestamp[ns]"}).outline("ts") is None


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("times", [[5, 1, 9, 3, 8, 20, 11, 12], [5, None, 9, None, None, None, 2, 30], [4] * 7])
def test_windows_are_the_same_with_and_without_an_outline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: list[int | None]
) -> None:
    path = written(tmp_path / "a.parquet", times)
    read: list[str] = []
    values = Files.values
    monkeypatch.setattr(Files, "values", lambda self, column: read.append(column) or values(self, column))
    windows = oop.table(str(path)).window(range="4 us").aggregate(oop.count(), oop.sum("k"), oop.min("ts"))
    found = [str(element) for element in windows]
    assert read == []
    monkeypatch.setattr(Files, "outline", lambda self, column: None)
    assert [str(element) for element in windows] == found
    assert read == ["ts"]


@pytest.mark.usefixtures("small_groups")
def test_an_outline_has_the_row_groups_of_all_files(tmp_path: Path) -> None:
    paths = [written(tmp_path / "a.parquet", [5, 1, 9, 3]), written(tmp_path / "b.parquet", [None, None])]
    outline = Table(paths).outline("ts")
    assert outline is not None
    assert outline.lengths.tolist() == [3, 1, 2]
    assert outline.leasts.tolist() == [1, 3, NEVER]


def test_there_is_no_outline_where_it_would_not_hold_or_not_pay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.parquet", [5, 1, 9, 3])
    assert Table(path).outline("ts") is None
    monkeypatch.setattr(columnar, "_LEAST_GROUP_ROWS", 1)
    assert Table(path).outline("ts") is not None
    assert Table(path, types={"k": "text"}).outline("k") is None
    pq.write_table(pq.read_table(path), tmp_path / "plain.parquet", write_statistics=False)
    assert Table(tmp_path / "plain.parquet").outline("ts") is None
    seconds = pa.table({"k": [1], "ts": pa.array([5], pa.timestamp("s", "UTC"))})
    pq.write_table(seconds, tmp_path / "z.parquet")
    assert Table([path, tmp_path / "z.parquet"]).outline("ts") is None
    monkeypatch.setattr(columnar, "_GROUP_ROWS", 2)
    assert Table(path).outline("ts") is None


@pytest.mark.usefixtures("small_groups")
def test_a_file_that_changed_since_its_outline_is_found_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [5, 6, 7, 8])
    source = Files("a", path)
    outline = source.outline("ts")
    assert outline is not None
    unfolding = Unfolding(outline.lengths, outline.leasts, step=1)
    written(path, [5, 4, 7, 8])
    with pytest.raises(TableError, match=r"(?s)its statistics of ts are wrong, or it changed .*slack"):
        list(source.open_watched(("k", "ts"), 8, {"ts": unfolding.feed}).chunks())


def test_a_row_group_without_rows_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "none.parquet", [])
    assert oop.table(str(path)).window(range="4 us").aggregate(oop.count()).to_arrow().num_rows == 0


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("most", [1, 4, 7, 100])
def test_row_groups_that_share_a_batch_are_watched_one_by_one_from_any_of_them_on(tmp_path: Path, most: int) -> None:
    times = [5, 1, 9, None, 8, 20, 11, 12, 30, 25, 40, 41, 39]
    path = written(tmp_path / "a.parquet", times)
    outline = Table(path).outline("ts")
    assert outline is not None and len(outline.lengths) == 5
    for group in range(5):
        table, seen = Table(path, batch_rows=most), list[list[int]]()
        table.seek({"file": 0, "unit": {"group": group}})
        found = list(table.batches({"ts": lambda values, seen=seen: seen.append(values.tolist())}))
        assert [k for batch in found for k in batch.column("k").to_pylist()] == list(range(3 * group, len(times)))
        assert seen == [ticks(times[at : at + 3]).tolist() for at in range(3 * group, len(times), 3)]
        assert max(map(len, found)) <= most
