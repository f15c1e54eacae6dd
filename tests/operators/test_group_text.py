"""Messages name groups as results do."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oop_engine as oop
from operators.data.address import parse_ip
from operators.data.group_text import group_text
from operators.data.schema import Schema, ip_field
from operators.errors import AggregateOverflow

SCHEMA = Schema(pa.schema([pa.field("ts", pa.int64()), ip_field("srcIP"), pa.field("x", pa.int64())]))


def test_addresses_are_written_as_addresses_and_no_keys_are_all_tuples() -> None:
    keys = [pa.array([5, 6]), pa.array([parse_ip("10.0.0.7"), None], pa.binary(16))]
    assert group_text(SCHEMA, ("x", "srcIP"), keys) == "x = 5, srcIP = 10.0.0.7"
    assert group_text(SCHEMA, (), []) == "all tuples"


@pytest.mark.parametrize("strategy", ["wid", "slicing", "buffer"])
def test_an_overflow_names_its_group(strategy: str) -> None:
    rows = [{"ts": ts, "srcIP": parse_ip("2001:db8::7"), "x": 2**62} for ts in range(4)]
    stream = oop.rows(rows, schema=SCHEMA, punctuate=oop.every(1, on="ts"))
    sums = stream.window(range=4, slide=2, wattr="ts").aggregate(oop.sum("x"), by="srcIP", strategy=strategy)
    with pytest.raises(AggregateOverflow, match=r"srcIP = 2001:db8::7: "):
        sums.run()
