"""A batch that is read from a message is that made of its columns, whatever the schema and the number of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.batches import Mould
from operators.data.labels import Labels, only_label

PLAIN = [
    pa.int64(),
    pa.uint64(),
    pa.float64(),
    pa.timestamp("ns", "UTC"),
    pa.timestamp("s"),
    pa.duration("us"),
    pa.time64("ns"),
]
NAMES = ["", "a", "w10", "größte", "a window with a long name"]


@given(
    st.lists(st.sampled_from(PLAIN), min_size=1, max_size=6),
    st.integers(0, 6) | st.none(),
    st.booleans(),
    st.sampled_from([1, 2, 3, 7, 8, 9, 100, 5000]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
)
def test_a_message_gives_the_batch_of_its_columns(
    kinds: list[pa.DataType], text: int | None, nullable: bool, n: int, names: list[str]
) -> None:
    fields = [pa.field(f"c{i}", kind, nullable, {"unit": "s"}) for i, kind in enumerate(kinds)]
    if text is not None:
        fields.insert(text, pa.field("window", pa.string()))
    schema = pa.schema(fields, {"of": "a test"})
    rng = np.random.default_rng(n)
    columns = [rng.integers(0, 86_400, n) for _ in kinds]
    chosen, labels = rng.integers(0, len(names), n), Labels.of(names)
    arrays = [pa.array(column).view(kind) for column, kind in zip(columns, kinds, strict=True)]
    if text is not None:
        arrays.insert(text, pa.array([names[i] for i in chosen], pa.string()))
    mould = Mould.of(schema)
    assert mould is not None
    # More than once: the head that is copied stays as it was.
    for _ in range(2):
        batch = mould.batch(columns, chosen, labels)
        batch.validate(full=True)
        assert batch.equals(pa.RecordBatch.from_arrays(arrays, schema=schema), check_metadata=True)
    if len(columns) > 3:
        # The same from rows with room for more behind, in another order, and with a row that is not wanted.
        rows = np.full((len(columns) + 2, n + 3), -1)
        rows[:, :n] = [chosen, *columns[-3:], columns[0], *columns[:-3]]
        assert mould.batch_of(rows, n, 5, labels).equals(batch)


@pytest.mark.parametrize("kind", [pa.int32(), pa.bool_(), pa.binary(), pa.date32(), pa.decimal128(20), pa.null()])
def test_other_columns_have_no_message(kind: pa.DataType) -> None:
    assert Mould.of(pa.schema({"a": pa.int64(), "b": kind})) is None
    assert Mould.of(pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.string()})) is None
    assert Mould.of(pa.schema({"a": pa.string()})) is None


@given(st.lists(st.sampled_from(["", "a", "é", "ten", "two"]), max_size=4), st.integers(0, 2), st.integers(1, 40))
def test_a_column_of_one_name_is_known(names: list[str], left: int, times: int) -> None:
    whole = pa.array([name for name in names for _ in range(times)], pa.string())
    for column in (whole, whole.slice(left)):
        found = column.to_pylist()
        assert only_label(column) == (found[0] if len(set(found)) == 1 else None)
