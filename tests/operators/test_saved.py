"""A saved state comes back exactly, and bytes that are not one are refused with the reason."""

from __future__ import annotations

import doctest
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from operators.data import saved
from operators.data.saved import (
    MAGIC,
    decode_state,
    encode_state,
    part,
    prefixed,
    read_batch,
    read_int,
    read_integers,
    read_text,
)
from operators.protocol import State

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
DTYPES = ["bool", "int8", "uint64", "float64", "<M8[ns]", "<m8[s]", "S16", "<U3", ">i4"]
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=3))
)


@given(st.dictionaries(st.text(), SCALARS | ARRAYS, max_size=4))
def test_scalars_and_arrays_come_back_exactly(state: State) -> None:
    again = decode_state(encode_state(state))
    assert list(again) == list(state)
    for name, value in state.items():
        back = again[name]
        assert type(back) is type(value)
        if isinstance(value, np.ndarray) and isinstance(back, np.ndarray):
            assert (back.dtype, back.shape) == (value.dtype, value.shape)
            assert back.tobytes() == value.tobytes() and back.flags.writeable
        else:
            assert back == value


def test_batches_come_back_with_nulls_metadata_and_no_more_than_their_own_tuples() -> None:
    field = pa.field("ip", pa.binary(16), metadata={"oop.type": "ip"})
    schema = pa.schema([field, pa.field("k", pa.string())])
    batch = pa.RecordBatch.from_arrays([pa.array([bytes(16), None], field.type), pa.array(["a", None])], schema=schema)
    for each in (batch, batch.slice(1), batch.slice(0, 0)):
        back = decode_state(encode_state({"held": each}))["held"]
        assert isinstance(back, pa.RecordBatch)
        assert back.equals(each) and back.schema.equals(schema, check_metadata=True)


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(1, 255))
def test_foreign_short_and_damaged_bytes_are_refused(foreign: bytes, place: int, flip: int) -> None:
    whole = encode_state({"bound": 7, "open": np.arange(5), "k": b"\x00"})
    damaged = bytearray(whole)
    damaged[place % len(whole)] ^= flip
    for wrong in (foreign, MAGIC + foreign, whole[: place % len(whole)], bytes(damaged), whole + b"\x00"):
        with pytest.raises(ValueError, match=r"saved state"):
            decode_state(wrong)


def test_a_later_format_is_refused_by_its_number() -> None:
    body = MAGIC + (2).to_bytes(2, "big") + bytes(8)
    with pytest.raises(ValueError, match=r"format version 2; this engine reads version 1"):
        decode_state(body + hashlib.sha256(body).digest())


def test_what_cannot_be_saved_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r'state "names" is an array of object'):
        encode_state({"names": np.array(["a", None], object)})
    with pytest.raises(TypeError, match=r'state "seen" is of type set'):
        encode_state({"seen": {1}})  # type: ignore[dict-item]


def test_parts_keep_their_names() -> None:
    state = {**prefixed("a.", {"x": 1}), **prefixed("b.", {"x": 2})}
    assert part("a.", state) == {"x": 1} and part("b.", state) == {"x": 2}


def test_reading_says_what_was_expected() -> None:
    state: State = {"n": 1, "flag": True, "t": "text", "a": np.array([1, 2], np.int8), "f": np.array([0.5])}
    assert (read_int(state, "n"), read_text(state, "t"), read_integers(state, "a").tolist()) == (1, "text", [1, 2])
    for read, name, kind in (
        (read_int, "flag", "an integer"),
        (read_text, "n", "a text"),
        (read_integers, "f", "an array of integers"),
        (read_batch, "gone", "a record batch"),
    ):
        with pytest.raises(ValueError, match=f'should have {kind} "{name}"'):
            read(state, name)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(saved)
    assert result.attempted and not result.failed


def test_bytes_that_arrow_cannot_read_are_refused_though_their_checksum_fits() -> None:
    whole = encode_state({"keys": pa.RecordBatch.from_pydict({"k": ["a", None]}), "open": np.array([1, 2])})
    refused = 0
    for place in range(len(MAGIC) + 10, len(whole) - 32):
        body = bytearray(whole[:-32])
        body[place] ^= 0x81
        try:
            decode_state(bytes(body) + hashlib.sha256(body).digest())
        except ValueError:
            refused += 1
    assert refused > 100


def test_a_truth_value_is_not_taken_from_anything_else() -> None:
    assert saved.read_flag({"any": True}, "any") is True
    for state in ({}, {"any": 1}, {"any": None}):
        with pytest.raises(ValueError, match='truth value "any"'):
            saved.read_flag(state, "any")  # type: ignore[arg-type]
