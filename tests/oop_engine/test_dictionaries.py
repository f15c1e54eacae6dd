"""Batches with dictionaries of their own, numbered by few bits, have more words together than those can number."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

import oop_engine as oop

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
