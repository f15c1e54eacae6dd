"""What other libraries export by Arrow's C interface is a stream, and is kept only where exact promises need it."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
import pytest

import oop_engine as oop

N = 1000
TABLE = pa.table({"ts": range(N), "k": pa.array([f"k{i % 3}" for i in range(N)], pa.string_view())})
WORDS = pa.array([f"w{i % 3}" for i in range(N)], pa.string_view()).dictionary_encode()


@attrs.define
class Frame:
    """A frame of another library: a table that gives a stream whenever it is asked."""

    table: pa.Table
    batch_rows: int = 100
    asked: int = 0
    read: int = 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.asked += 1
        return pa.RecordBatchReader.from_batches(self.table.schema, self._batches()).__arrow_c_stream__()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self.table.to_batches(self.batch_rows):
            self.read += 1
            yield batch


@attrs.frozen
class Part:
    """A record batch of another library."""

    batch: pa.RecordBatch

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.batch.__arrow_c_array__(requested_schema)


def counts(stream: oop.Stream, by: str = "k") -> list[tuple[str, int]]:
    table = stream.window(500, wattr="ts").aggregate(oop.count(), by=by).to_arrow()
    return sorted(zip(table.column(by).to_pylist(), table.column("count").to_pylist(), strict=True))


EXPECTED = sorted((f"k{i}", n) for i, pair in enumerate(((167, 167), (167, 166), (166, 167))) for n in pair)


def test_a_frame_is_a_stream_with_exact_promises() -> None:
    frame = Frame(TABLE)
    stream = oop.arrow(frame)
    assert stream.schema.arrow.field("k").type == pa.string()
    assert counts(stream) == EXPECTED == counts(stream)
    assert frame.read == 10


def test_a_frame_whose_promises_are_said_is_read_as_a_stream_and_anew_in_every_run() -> None:
    frame = Frame(TABLE)
    stream = oop.arrow(frame, slack=0)
    assert counts(stream) == EXPECTED
    assert frame.read == 10
    assert counts(stream) == EXPECTED
    assert frame.read == 20


def test_a_frame_that_needs_no_promise_is_read_as_a_stream() -> None:
    frame = Frame(TABLE)
    pages = iter(oop.arrow(frame).filter("k = 'k1'"))
    assert len(next(pages)) and frame.read < 10


def test_words_of_a_frame_are_grouped_by() -> None:
    assert counts(oop.arrow(Frame(TABLE.append_column("w", WORDS))), "w") == [(f"w{k[1:]}", n) for k, n in EXPECTED]


def test_a_reader_is_read_once_and_knows_its_schema() -> None:
    frame = Frame(TABLE)
    stream = oop.arrow(pa.RecordBatchReader.from_stream(frame), punctuate=oop.ordered(on="ts"))
    assert counts(stream) == EXPECTED
    with pytest.raises(oop.SourceError, match="can be read only once"):
        counts(stream)


def test_a_record_batch_of_another_library_is_a_stream() -> None:
    [batch] = TABLE.to_batches()
    assert counts(oop.arrow(Part(batch))) == EXPECTED


@pytest.mark.parametrize("given", [5, "flows.parquet", {"ts": [1]}, [1, 2]], ids=str)
def test_what_is_no_arrow_data_is_answered_with_what_is(given: object) -> None:
    with pytest.raises(oop.PlanError, match=rf"{type(given).__name__} is none"):
        oop.arrow(given)  # type: ignore[arg-type]
