"""Numbers are read from bytes as `int.from_bytes` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.kernels.data import byte_order

Order = Literal["big", "little"]
READERS: list[tuple[Callable[..., int], int, Order]] = [
    (byte_order.u16_be, 2, "big"),
    (byte_order.u16_le, 2, "little"),
    (byte_order.u32_be, 4, "big"),
    (byte_order.u32_le, 4, "little"),
    (byte_order.u64_be, 8, "big"),
    (byte_order.u64_le, 8, "little"),
]


@pytest.mark.parametrize(("read", "size", "order"), READERS)
@given(st.binary(min_size=16, max_size=16), st.integers(0, 8))
@example(b"\xff" * 16, 0)
def test_numbers_are_read_as_python_reads_them(
    read: Callable[..., int], size: int, order: Order, whole: bytes, at: int
) -> None:
    data = np.frombuffer(whole, np.uint8)
    expected = int.from_bytes(whole[at : at + size], order)
    assert int(read(data, at)) == int(read(data, np.int64(at))) == expected


@given(st.binary(min_size=12, max_size=12), st.lists(st.integers(0, 8)), st.integers(1, 4), st.booleans())
def test_order_and_places_are_arguments(whole: bytes, places: list[int], size: int, big: bool) -> None:
    data = np.frombuffer(whole, np.uint8)
    at = np.array(places, np.int64)
    expected = [int.from_bytes(whole[one : one + size], "big") for one in places]
    assert byte_order.each_be(data, at, size).tolist() == expected
    assert int(byte_order.u32(data, size, big)) == int.from_bytes(whole[size : size + 4], "big" if big else "little")
