"""A page gives back the tuples that it was made of, whatever their types, and takes fewer bytes where it can."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.spark.narrow import FEWEST, narrowed, page_bytes, read_page, widened
from operators.data.schema import ip_field

KINDS = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float64(), pa.date32(),
    pa.date64(), pa.time32("s"), pa.time64("ns"), pa.timestamp("ns", "UTC"), pa.timestamp("s"), pa.duration("us"),
)  # fmt: skip
FOUR = bytes(10) + b"\xff\xff"
SPANS = (0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63)


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Draw numbers of one type that span little or much, some of them null."""
    kind = draw(st.sampled_from(KINDS))
    width = kind.bit_width // 8
    span = min(draw(st.sampled_from(SPANS)), 2 ** (8 * width) - 1)
    low = draw(st.integers(-(2 ** (8 * width - 1)), 2 ** (8 * width - 1) - 1 - min(span, 2 ** (8 * width - 1))))
    count = draw(st.integers(FEWEST - 1, FEWEST + 40))
    above = np.random.default_rng(draw(st.integers(0, 99))).integers(0, span, count, np.uint64, endpoint=True)
    above[:2] = 0, span
    values = (above + np.uint64(low % 2**64)).astype(f"u{width}")
    nulls = draw(st.sampled_from([0, 0, 3]))
    present = None if not nulls else pa.array([k % nulls > 0 for k in range(count)], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(kind, count, [present, pa.py_buffer(values)])


@given(columns(), st.integers(0, 9))
def test_a_column_is_given_back_bit_for_bit(column: pa.Array, start: int) -> None:
    for given_column in (column, column.slice(start)):
        batch = pa.RecordBatch.from_arrays([given_column], ["x"])
        found = read_page(page_bytes(batch))
        assert found.schema.equals(batch.schema) and found.column(0).null_count == given_column.null_count
        bits = found.column(0).view(pa.int64()) if column.type.bit_width == 64 else found.column(0)
        wanted = given_column.view(pa.int64()) if column.type.bit_width == 64 else given_column
        assert bits.equals(wanted)


def addresses(values: list[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary(16))], schema=pa.schema([ip_field("srcIP")]))


@pytest.mark.parametrize("other", [FOUR + b"abcd", b"\1" + FOUR[1:] + b"abcd", FOUR[:-1] + b"\0abcd", bytes(16), None])
def test_addresses_are_given_back_and_are_short_where_all_are_of_ipv4(other: bytes | None) -> None:
    batch = addresses([FOUR + k.to_bytes(4, "big") for k in range(FEWEST)] + [other])
    found = narrowed(batch)
    assert found.schema.field(0).type == pa.binary(4 if other == FOUR + b"abcd" else 16)
    assert widened(found).equals(batch, check_metadata=True)
    assert read_page(page_bytes(batch)).equals(batch, check_metadata=True)
    assert read_page(page_bytes(batch.slice(5))).equals(batch.slice(5), check_metadata=True)


def test_a_schema_keeps_its_metadata_and_what_is_not_narrow_stays() -> None:
    field = pa.field("n", pa.int64(), nullable=False, metadata={b"a": b"b"})
    schema = pa.schema([field, pa.field("text", pa.string())], metadata={b"c": b"d"})
    batch = pa.RecordBatch.from_arrays([pa.array(range(1000)), pa.array(["x", None] * 500)], schema=schema)
    found = narrowed(batch)
    assert found.schema.types == [pa.uint16(), pa.string()]
    assert widened(found).equals(batch, check_metadata=True)
    assert narrowed(batch.slice(0, FEWEST - 1)).schema.equals(schema, check_metadata=True)


def test_what_is_alike_but_for_metadata_is_not_mixed_up() -> None:
    """Schemas that differ in metadata alone are equal to Arrow."""
    plain = pa.RecordBatch.from_arrays([pa.array([FOUR + b"abcd"] * FEWEST, pa.binary(16))], ["srcIP"])
    address = addresses([FOUR + b"abcd"] * FEWEST)
    for batch in (address, plain, address):
        assert read_page(page_bytes(batch)).equals(batch, check_metadata=True)


def test_packets_take_about_a_third() -> None:
    count = 65_536
    fields = [pa.field("ts", pa.timestamp("ns", "UTC")), ip_field("srcIP"), pa.field("length", pa.int32())]
    times = pa.array(1_700_000_000_000_000_000 + np.arange(count) * 10_000).view(fields[0].type)
    sources = pa.array([FOUR + k.to_bytes(4, "big") for k in range(count)], pa.binary(16))
    lengths = pa.array(np.arange(count) % 1400 + 60, pa.int32())
    batch = pa.RecordBatch.from_arrays([times, sources, lengths], schema=pa.schema(fields))
    assert len(page_bytes(batch)) < 0.37 * batch.nbytes
