"""Flows spread over panes, as users write it: bytes are where they were sent, whenever their record came."""

from __future__ import annotations

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.demand import columns, demands
from oop_engine.plan import Plan

FLOWS = pa.table(
    {
        "ts": pa.array([5, 0, 12], pa.int64()),
        "end_ts": pa.array([25, 10, 12], pa.int64()),
        "bytes": pa.array([200, 50, 7], pa.int64()),
        "note": pa.array(["a", "b", "c"]),
    }
)


def test_windows_over_spread_flows_count_bytes_where_they_were_sent() -> None:
    windows = oop.arrow(FLOWS).spread("bytes", step=10).window(range=10, wattr="ts").aggregate(oop.sum("bytes"))
    assert [(row["window_start"], row["sum_bytes"]) for row in windows.to_arrow().to_pylist()] == [
        (0, 100),
        (10, 107),
        (20, 50),
    ]


@pytest.mark.parametrize("into", ["ts", "pane"])
def test_the_source_is_asked_for_what_the_windows_need(into: str) -> None:
    spread = oop.arrow(FLOWS).spread("bytes", step=10, into=into)
    windows = spread.window(range=10, wattr=into).aggregate(oop.sum("bytes"))
    plan = Plan((windows.node,))
    assert columns(plan) == {0: ("ts", "end_ts", "bytes")}
    assert {name: pace.step for name, pace in demands(plan)[0].items()} == {"ts": 10}
    assert windows.to_arrow().column("sum_bytes").to_pylist() == [100, 107, 50]


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(oop.SchemaError, match='spread: the input has no attribute "octets"'):
        oop.arrow(FLOWS).spread("octets", step=10)
