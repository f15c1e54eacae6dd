"""An epoch that is written again is taken for the same when its rows are, however they come, and for no other."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sinks.digest import digest
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.pagelog import PageLog

SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("ns", "UTC")),
        ("small", pa.int8()),
        ("n", pa.int64()),
        ("u", pa.uint64()),
        ("text", pa.string()),
        ("large", pa.large_string()),
        ("view", pa.string_view()),
        ("data", pa.binary()),
        ("ip", pa.binary(16)),
        ("odd", pa.binary(3)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("price", pa.decimal128(20, 2)),
        ("name", pa.dictionary(pa.int32(), pa.string())),
        ("words", pa.list_(pa.string())),
        ("three", pa.list_(pa.int16(), 3)),
        ("pair", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("nothing", pa.null()),
        ("f", pa.float64()),
    ]
)


def row(k: int) -> dict[str, object]:
    text = "é" * (k % 150) + str(k)
    return {
        "t": 1_000_000_007 * k, "small": k % 100 - 50, "n": -k, "u": 2**64 - 1 - k, "text": text, "large": text[::-1],
        "view": text, "data": text.encode() * (k % 5), "ip": bytes([k % 256] * 16), "odd": bytes([1, 2, k % 256]),
        "flag": k % 2 == 0, "day": dt.date(2024, 1, 1) + dt.timedelta(k), "price": Decimal(k), "name": f"name {k % 7}",
        "words": [str(k)] * (k % 4), "three": [k, 1, 2], "pair": {"a": k, "b": text}, "map": [(str(k), k)],
        "nothing": None, "f": k / 3,
    }  # fmt: skip


def batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([r[f.name] for r in rows], f.type) for f in SCHEMA], schema=SCHEMA)


def total(batches: list[pa.RecordBatch]) -> int:
    return sum(map(digest, batches)) % (1 << 64)


EMPTY = {f.name: None for f in SCHEMA}
ROWS = [*map(row, range(400)), EMPTY, {**row(5), "text": None}, row(7), row(7)]
WHOLE = batch(ROWS)


@given(st.integers(0, 2**32), st.lists(st.integers(0, len(ROWS)), max_size=4), st.booleans())
def test_the_digest_depends_neither_on_the_order_of_rows_nor_on_where_they_are_cut(
    seed: int, cuts: list[int], sliced: bool
) -> None:
    places = [0, *sorted(cuts), len(ROWS)]
    order = list(range(len(ROWS)))
    if sliced:  # parts of one batch, with offsets and what lies around them
        parts = [WHOLE.slice(a, b - a) for a, b in pairwise(places)]
    else:
        random.Random(seed).shuffle(order)
        parts = [batch([ROWS[i] for i in order[a:b]]) for a, b in pairwise(places)]
    assert total(parts) == digest(WHOLE)


@pytest.mark.parametrize("name", [name for name in SCHEMA.names if name not in ("nothing", "f")])
def test_another_value_anywhere_gives_another_digest(name: str) -> None:
    for k in (3, 149, 399):
        for other in (row(k + 1)[name], None):
            rows = [*ROWS]
            rows[k] = {**rows[k], name: other}
            assert digest(batch(rows)) != digest(WHOLE)


def test_values_that_change_places_give_another_digest() -> None:
    def of(*rows: tuple[int, int]) -> int:
        return digest(pa.RecordBatch.from_pydict({"a": [a for a, _ in rows], "b": [b for _, b in rows]}))

    sums = {of((1, 2), (3, 4)), of((1, 4), (3, 2)), of((2, 1), (4, 3)), of((1, 2), (3, 4), (0, 0)), of((1, 2), (1, 2))}
    assert len(sums) == 5
    assert of((1, 2), (3, 4)) == of((3, 4), (1, 2))


def test_texts_that_differ_in_one_letter_or_in_length_differ() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "12345678", "123456789", "x" * 255, "x" * 256, "x" * 257, "x" * 256 + "y"]
    assert len({digest(pa.RecordBatch.from_pydict({"a": [text]})) for text in texts}) == len(texts)


def test_what_is_under_a_null_is_not_looked_at() -> None:
    for values in (pa.array([1, 2]), pa.array(["a", "b"]), pa.array([[1], [2, 3]]), pa.array([b"abc", b"def"])):
        first, data = pa.array([True, False]), values.buffers()[1:]
        if pa.types.is_list(values.type):
            kept = pa.ListArray.from_arrays(values.offsets, values.values, mask=pa.array([False, True]))
        else:
            kept = pa.Array.from_buffers(values.type, 2, [first.buffers()[1], *data])
        plain = pa.array([values[0].as_py(), None], values.type)
        assert kept.equals(plain)
        assert digest(pa.RecordBatch.from_arrays([kept], ["a"])) == digest(pa.RecordBatch.from_arrays([plain], ["a"]))


def test_floats_and_the_order_of_lists_do_not_count() -> None:
    def of(f: float, words: list[str], pair: tuple[int, float]) -> int:
        pairs = pa.array([{"a": pair[0], "b": pair[1]}])
        return digest(pa.RecordBatch.from_arrays([pa.array([f]), pa.array([words]), pairs], ["f", "words", "pair"]))

    assert of(0.1, ["a", "b"], (1, 0.5)) == of(0.2, ["b", "a"], (1, 0.6))
    assert of(0.1, ["a", "b"], (1, 0.5)) != of(0.1, ["a", "c"], (1, 0.5))
    assert of(0.1, ["a", "b"], (1, 0.5)) != of(0.1, ["a", "b"], (2, 0.5))


def test_an_epoch_with_as_many_other_rows_is_refused(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA)
    cut = [log.seal(SCHEMA, [batch(rows)]) for rows in (ROWS[:100], ROWS[100:250], ROWS[250:])]
    assert log.publish(0, cut)
    assert not log.publish(0, [log.seal(SCHEMA, [batch(ROWS[::-1])])])
    other = log.seal(SCHEMA, [batch([*ROWS[1:], row(1000)])])
    with pytest.raises(SinkError, match=rf"epoch 0 .* other rows than the {len(ROWS)} that are now"):
        log.publish(0, [other])
    assert not log.publish(0, [other], counts=True)
    assert log.epochs() == [tuple(cut)]


def test_a_log_of_an_earlier_version_is_compared_by_its_count_of_rows(tmp_path: Path) -> None:
    log = PageLog(tmp_path)
    log.begin(SCHEMA)
    log.publish(0, [log.seal(SCHEMA, [batch(ROWS)])])
    path = tmp_path / "epochs" / "0000000000.json"
    told = json.loads(path.read_text())
    for segment in told["segments"]:
        del segment["digest"], segment["sums"]
    path.write_text(json.dumps({"segments": told["segments"]}))
    assert not log.publish(0, [log.seal(SCHEMA, [batch(list(map(row, range(len(ROWS)))))])])
    with pytest.raises(SinkError, match="and now 1 are to be written"):
        log.publish(0, [log.seal(SCHEMA, [batch(ROWS[:1])])])
