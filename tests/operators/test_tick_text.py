"""A tick as text reads as the same time in a column does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from operators.data.readable import text_of, tick_text

TICKS = (0, 1, -1, 10, 999, 1_000, -1_001, 1_795_255_235, 1_795_255_235_123_456_789, 100_000_001, 2**62, -(2**62))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_tick_reads_as_the_time_of_a_column_does(unit: str) -> None:
    kind = pa.timestamp(unit)
    column = pa.array(TICKS, pa.int64()).cast(kind)
    assert [tick_text(tick, unit) for tick in TICKS] == text_of(column, pa.field("ts", kind)).to_pylist()
