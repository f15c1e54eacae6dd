"""What exact punctuation read ahead is put back where it belongs, and a file that changed meanwhile is found out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.sources import ahead
from oop_engine.sources.ahead import Ahead, Rejoined
from oop_engine.sources.errors import SourceError
from oop_engine.sources.files import Files
from punctuation.schedule import NO_TIME


def written(path: Path, times: Sequence[int | None]) -> Path:
    ts = pa.array(times, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": pa.array(range(len(times))), "ts": ts}), path, row_group_size=3)
    return path


def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Record which columns a file is opened for."""
    found: list[tuple[str, ...]] = []
    plain = Files.open

    def spy(self: Files, columns: Sequence[str], batch_rows: int) -> object:
        found.append(tuple(columns))
        return plain(self, columns, batch_rows)

    monkeypatch.setattr(Files, "open", spy)
    return found


def result(path: Path) -> list[dict[str, object]]:
    windows = oop.table(str(path)).window(range="4 us").aggregate(oop.count(), oop.sum("k"), oop.min("ts"))
    return windows.to_arrow().to_pylist()


def test_the_windowing_attribute_is_not_decoded_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", [5, 1, 9, 3, 8, 20, 11, 12])
    columns = opened(monkeypatch)
    found = result(path)
    assert columns == [("k",)]
    monkeypatch.setattr(ahead, "KEPT_BYTES", 24)
    assert result(path) == found
    assert columns[1:] == [("k", "ts")]
    assert [row["sum_k"] for row in found] == [4, 0, 12, 7, 5]


def test_a_column_with_a_null_is_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", [5, None, 9])
    columns = opened(monkeypatch)
    assert [row["count"] for row in result(path)] == [1, 1]
    assert columns == [("k", "ts")]


def test_only_whole_64_bit_columns_are_kept() -> None:
    def kept(kind: pa.DataType, *pieces: list[int]) -> pa.ChunkedArray | None:
        collected = Ahead(kind)
        for piece in pieces:
            collected.take(np.array(piece, np.int64))
        return collected.column

    assert kept(pa.int32(), [1]) is None
    assert kept(pa.date32(), [1]) is None
    assert kept(pa.int64(), [1], [NO_TIME], [2]) is None
    column = kept(pa.timestamp("ms"), [1], [], [2, 3])
    assert column is not None and column.type == pa.timestamp("ms") and len(column) == 3
    none = kept(pa.duration("ns"))
    assert none is not None and len(none) == 0


class Fixed:
    """A reader of one batch."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def chunks(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"k": list(range(self._rows))})

    def progress(self) -> tuple[int, int | None]:
        return 1, 2

    def arrived(self) -> int | None:
        return None

    def notes(self) -> list[str]:
        return ["a note"]


@pytest.mark.parametrize(("rows", "words"), [(2, "has 2 of the 3 rows"), (4, "has more than the 3 rows")])
def test_a_file_that_changed_between_its_readings_is_refused(rows: int, words: str) -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    reading = Rejoined(Fixed(rows), schema, {"ts": pa.chunked_array([[1, 2, 3]])}, "a.parquet")
    assert (reading.progress(), reading.arrived(), reading.notes()) == ((1, 2), None, ["a note"])
    with pytest.raises(SourceError, match=f"a.parquet changed while it was read: it now {words}"):
        list(reading.chunks())
