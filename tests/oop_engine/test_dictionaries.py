"""Batches with dictionaries of their own, numbered by few bits, have more words together than those can number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks.pagelog import PageLog

WORDS, BATCHES = 100, 4


def batch(k: int, kind: pa.DataType) -> pa.RecordBatch:
    words = pa.array([f"w{k * WORDS + i}" for i in range(WORDS)])
    numbered = pa.DictionaryArray.from_arrays(pa.array(range(WORDS), kind), words)
    return pa.RecordBatch.from_arrays([pa.array(range(k * WORDS, (k + 1) * WORDS)), numbered], ["ts", "k"])


GIVEN: dict[str, Callable[[list[pa.RecordBatch]], object]] = {
    "list": list,
    "iterator": iter,
    "table": pa.Table.from_batches,
}


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("given", GIVEN)
def test_groups_have_the_words_of_all_batches(given: str, kind: pa.DataType) -> None:
    batches = [batch(k, kind) for k in range(BATCHES)]
    data: Iterable[pa.RecordBatch] = GIVEN[given](batches)  # type: ignore[assignment]
    stream = oop.arrow(data, schema=batches[0].schema, punctuate=oop.ordered(on="ts"))
    found = stream.window(1000, wattr="ts").aggregate(oop.count(), by="k").to_arrow()
    assert sorted(found.column("k").to_pylist()) == sorted(f"w{i}" for i in range(WORDS * BATCHES))
    assert set(found.column("count").to_pylist()) == {1}


def test_a_single_batch_keeps_its_nulls_and_its_order() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array(["a", "b"]), ordered=True)
    one = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), column], ["ts", "k"])
    found = oop.arrow(one).project("ts", "k").to_arrow()
    assert found.column("k").to_pylist() == ["b", None, "a"]
    assert found.schema.field("k").type == pa.dictionary(pa.int32(), pa.string(), ordered=True)


@pytest.mark.parametrize("name", ["out.arrow", "out.arrows", "out.parquet", "out.pages"])
def test_results_grouped_by_words_of_several_dictionaries_are_written_and_read(tmp_path: Path, name: str) -> None:
    batches = [
        pa.RecordBatch.from_pydict({"ts": range(100 * i, 100 * i + 100), "c": pa.array(words * 50).dictionary_encode()})
        for i, words in enumerate((["a", "b"], ["x", "a"], ["y", "b"]))
    ]
    counts = oop.arrow(batches, slack=1).window(range=50).aggregate(oop.count(), by="c")
    counts.to(tmp_path / name).run()
    if name.endswith(".pages"):
        log = PageLog(tmp_path / name)
        found = pa.Table.from_batches([b for epoch in log.epochs() for segment in epoch for b in log.read(segment)])
        assert log.schema().field("c").type == pa.string()
    else:
        found = oop.table(tmp_path / name, slack=0, on="window_end").to_arrow()
    row = lambda table: sorted((r["window_end"], r["c"], r["count"]) for r in table.to_pylist())  # noqa: E731
    assert row(found) == row(counts.to_arrow()) and len(row(found)) == 12
