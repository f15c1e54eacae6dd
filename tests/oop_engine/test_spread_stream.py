"""Flows spread over panes, as users write it: bytes are where they were sent, whenever their record came."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.demand import columns, demands

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


SCHEMA = pa.schema([("ts", pa.int64()), ("end_ts", pa.int64()), ("bytes", pa.int64())])
flows = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), min_size=1, max_size=25)
"""When flows end, and how long they last."""


def naive(rows: list[tuple[int, int, int]]) -> dict[int, int]:
    """Share the bytes of flows out over windows of 10, in whole numbers by what was sent up to each edge."""
    found: dict[int, int] = {}
    for start, end, octets in rows:
        given = 0
        for pane in range(start // 10 * 10, max(end, start + 1), 10):
            upto = octets if end <= pane + 10 else octets * (pane + 10 - start) // (end - start)
            found[pane] = found.get(pane, 0) + upto - given
            given = upto
    return found


def late_flows(rows: list[tuple[int, int, int]], on: str, lateness: int, max_panes: int = 4096) -> oop.Result:
    spread = oop.rows(iter(rows), SCHEMA, slack=0, on=on).spread("bytes", step=10, max_panes=max_panes)
    return spread.window(range=10, wattr="ts").aggregate(oop.sum("bytes"), lateness=lateness).run()


def last_given(result: oop.Result) -> dict[int, int]:
    """Give the last revision of each window."""
    return {row["window_start"]: row["sum_bytes"] for row in result.table.to_pylist()}


@pytest.mark.parametrize("on", ["ts", "end_ts"])
@given(ends=flows)
def test_flows_that_come_late_are_counted_where_windows_take_them(on: str, ends: list[tuple[int, int]]) -> None:
    """Whichever end of the flows is promised."""
    rows = [(end - lasting, end, 7 * k + 1) for k, (end, lasting) in enumerate(ends)]
    result = late_flows(rows, on, 1000)
    assert last_given(result) == {start: octets for start, octets in naive(rows).items()}
    assert result.statistics.late == 0


def test_windows_that_wait_for_long_flows_take_short_ones_that_come_late() -> None:
    rows = [(100, 110, 10), (200, 210, 10), (95, 105, 10)]
    result = late_flows(rows, "end_ts", 0)
    assert last_given(result) == {90: 5, 100: 15, 200: 10} and result.statistics.late == 0
    # With less room, windows are released that the late flow belongs to.
    result = late_flows(rows, "end_ts", 0, max_panes=2)
    assert last_given(result) == {100: 10, 200: 10} and result.statistics.late > 0
    # Of what is promised as well, nobody takes late tuples.
    spread = oop.rows(iter(rows), SCHEMA, slack=0, on="end_ts").spread("bytes", step=10)
    assert spread.window(range=10, wattr="end_ts").aggregate(oop.count()).run().statistics.late == 1


def test_an_unknown_attribute_is_named() -> None:
    with pytest.raises(oop.SchemaError, match='spread: the input has no attribute "octets"'):
        oop.arrow(FLOWS).spread("octets", step=10)


def test_panes_that_cannot_be_are_refused_with_what_to_write() -> None:
    times = pa.schema([("ts", pa.timestamp("ns")), ("end_ts", pa.timestamp("ns")), ("bytes", pa.int64())])
    flows = oop.arrow(times.empty_table())
    for step, says in (("0 s", "more than nothing"), ("-1 s", "more than nothing"), ("50000 days", "73 years")):
        with pytest.raises(oop.PlanError, match=f"step.* {says}"):
            flows.spread("bytes", step=step)
        with pytest.raises(oop.PlanError, match=f"step.* {says}"):
            flows.derive(exporter="1").dedup(keys="bytes", step=step)
    for reach, says in (("-1 s", "cannot be negative"), ("50000 days", "73 years")):
        with pytest.raises(oop.PlanError, match=f"reach.* {says}"):
            flows.derive(exporter="1").dedup(keys="bytes", reach=reach)
    with pytest.raises(oop.PlanError, match="max_panes is 0"):
        flows.spread("bytes", step="1 s", max_panes=0)
