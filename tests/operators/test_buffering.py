"""Buffering answers as WID does and keeps the tuples of open windows, or of incomplete panes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.buffer.log import TupleLog
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions import (
    argmax,
    argmin,
    avg,
    count,
    count_distinct,
    first,
    last,
    max,
    min,
    stddev,
    sum,
    user_aggregate,
)
from operators.testing import Script, check_operator, streams
from operators.window import LIMIT, LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.test_window_aggregate import ANSWERS, FUNCTIONS, must_be_out, partitioned, sliding, windows

max_ = __builtins__["max"]
SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
BY = [(), ("k",), ("k", "v")]


def chained(window: Window, by: Sequence[str], *, panes: bool = False) -> Chain:
    return Chain([Bucket(window), BufferAggregate(window, FUNCTIONS, by, panes=panes)])


@pytest.mark.slow
@share(2.5)
@given(windows, st.sampled_from(BY), streams(SCHEMA, group=("k",), tuples=12))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: Window, by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: chained(window, by),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=lambda tables, progress: must_be_out(window, by, tables[0], progress[0]),
    )


@share(1)
@given(sliding, st.sampled_from(BY), streams(SCHEMA, group=("k",), tuples=12))
def test_so_it_does_by_panes(window: SlidingWindow, by: tuple[str, ...], script: Script) -> None:
    check_operator(
        lambda: chained(window, by, panes=True),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=lambda tables, progress: must_be_out(window, by, tables[0], progress[0]),
    )


@given(windows, st.sampled_from(BY), st.booleans(), streams(SCHEMA, group=("k",), tuples=16))
def test_every_element_is_answered_as_the_window_aggregate_answers_it(
    window: Window, by: tuple[str, ...], panes: bool, script: Script
) -> None:
    functions = {**FUNCTIONS, "mean": avg("v"), "at": argmin("k", "v"), "spread": stddev("v")}
    panes = panes and isinstance(window, SlidingWindow)
    if not panes:
        functions |= {"one": first("v"), "other": last("k"), "best": argmax("ts", "v")}
    one, other = BufferAggregate(window, functions, by, panes=panes), WindowAggregate(window, functions, by)
    tagged = drive(Bucket(window), script)
    for element in tagged:
        found, wanted = drive(one, [element]), drive(other, [element])
        assert list(map(str, punctuations(found))) == list(map(str, punctuations(wanted)))
        assert sorted(map(_shown, rows(found))) == sorted(map(_shown, rows(wanted)))
    assert one.statistics()["results"] == other.statistics()["results"]
    if tagged and isinstance(tagged[0], Page):
        assert one.output_schema(tagged[0].schema) == other.output_schema(tagged[0].schema)


def _shown(row: Row) -> str:
    return repr({name: round(value, 9) if isinstance(value, float) else value for name, value in row.items()})


@given(sliding, st.booleans(), streams(SCHEMA, group=("k",), tuples=12, promises=("linear", "group")))
def test_what_is_held_is_the_tuples_of_open_windows_or_incomplete_panes(
    window: SlidingWindow, panes: bool, script: Script
) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        if progress[0].ended:
            return 0
        waiting, items = 0, set()
        for row in tables[0]:
            begin, end = (int(r[0]) for r in window.wids(np.array([row["ts"]])))
            key = (row["k"],)
            bound = progress[0].effective((("k",), "ts"), key) if row["k"] is not None else progress[0].bound("ts")
            over = row["k"] is not None and progress[0].implies(Punctuation({"k": Equals(row["k"])}))
            complete = -(10**9) if bound is None else window.complete(int(str(bound)))
            if begin < end and not over and end > complete:
                waiting += begin >= complete or not panes
                items |= {(begin, end, key)} if panes and begin < complete else set()
        return waiting + len(items)

    check_operator(lambda: chained(window, ("k",), panes=panes), script, kept=kept, laws={2})


@pytest.mark.slow
@share(1)
@given(partitioned, st.booleans(), st.sampled_from([("k",), ("k", "v")]), streams(SCHEMA, group=("k",), tuples=12))
def test_partitioned_rows_are_released_partition_by_partition(
    window: PartitionedWindow, panes: bool, by: tuple[str, ...], script: Script
) -> None:
    panes &= isinstance(window.rows, SlidingWindow)
    check_operator(
        lambda: chained(window, by, panes=panes),
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        order_matters=True,
    )


ENDS = user_aggregate(
    "ends",
    lambda v: (1, v, v),
    lambda a, b: (max_(a[0], b[0]), a[1] if a[0] else b[1], b[2] if b[0] else a[2]),
    lambda s: 100 * s[1] + s[2],
    arguments="v",
    identity=(0, 0, 0),
    output=pa.int64(),
    commutative=False,
    interpreted=True,
)


def ends(members: list[Row]) -> int:
    by_time = sorted(members, key=lambda row: int(row["ts"]))  # type: ignore[arg-type]
    return 100 * int(by_time[0]["v"]) + int(by_time[-1]["v"])  # type: ignore[arg-type]


@share(2)
@given(sliding, st.booleans(), streams(SCHEMA, tuples=14, promises=("linear",), nulls=("k",)))
def test_a_function_that_needs_its_tuples_in_order_gets_them_in_order(
    window: SlidingWindow, landmark: bool, script: Script
) -> None:
    chosen: Window = LandmarkWindow("ts", slide=window.slide) if landmark else window
    found = drive(BufferAggregate(chosen, {"ends": ENDS}, ("k",)), drive(Bucket(chosen), script))
    wanted = naive_windows(chosen, {"ends": ends}, ("k",), script.tables()[0])
    assert sorted(repr(sorted(row.items())) for row in rows(found)) == sorted(
        repr(sorted(row.items())) for row in wanted
    )


def test_only_the_attributes_that_are_read_are_kept() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    schema = Schema(pa.schema([pa.field("ts", pa.int64()), pa.field("v", pa.int64()), ip_field("ip"), ip_field("to")]))
    address = bytes(16)
    page = Page.of(schema, {"ts": [1, 2, 3], "v": [1, 2, 3], "ip": [address] * 3, "to": [address] * 3})
    operator = BufferAggregate(window, {"n": count(), "total": sum("v")}, ("ip",))
    (tagged,) = drive(Bucket(window), [page])
    assert isinstance(tagged, Page)
    log = TupleLog(tagged.schema, ("v",))
    log.append(tagged, np.arange(3))
    assert (len(log), log.nbytes) == (3, 24)
    (row,) = rows(drive(operator, [tagged, END]))
    assert (row["ip"], row["n"], row["total"]) == (address, 3, 6)


def test_the_log_gives_back_what_it_was_given_whatever_was_cut_out() -> None:
    schema = Schema.of(k=pa.string(), d=pa.dictionary(pa.int8(), pa.string()))
    log = TupleLog(schema, ("k", "d"))
    expected: list[tuple[str, str | None]] = []
    draw = np.random.default_rng(0)
    for n in (3, 1, 7, 2, 5, 1, 1, 9):
        cells = [(f"k{draw.integers(99)}", None if draw.random() < 0.2 else f"d{draw.integers(9)}") for _ in range(n)]
        page = Page.of(schema, {"k": [c[0] for c in cells], "d": pa.array([c[1] for c in cells]).dictionary_encode()
            .cast(pa.dictionary(pa.int8(), pa.string()))})  # fmt: skip
        chosen = np.flatnonzero(draw.random(n) < 0.8)
        log.append(page, chosen)
        expected += [cells[i] for i in chosen]
        wanted = draw.random(len(expected)) < 0.9
        log.keep(wanted)
        expected = [cell for cell, keep in zip(expected, wanted, strict=True) if keep]
        found = log.take(np.repeat(np.arange(len(log)), 2)).rows()
        assert [(r["k"], r["d"]) for r in found] == [cell for cell in expected for _ in range(2)]


def test_nulls_are_counted_once_however_many_windows_a_tuple_is_in() -> None:
    window = SlidingWindow("ts", size=10, slide=2)
    operator = BufferAggregate(window, {"n": count("v"), "at": argmin("ts", "v"), "all": count()})
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", None, "b"], "v": [None, 5, None]})
    drive(Chain([Bucket(window), operator]), [page, END])
    assert operator.statistics()["null_arguments"] == 4


@pytest.mark.parametrize("panes", [False, True])
def test_a_sum_that_does_not_fit_names_the_aggregate_the_window_and_the_group(panes: bool) -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    operator = Chain([Bucket(window), BufferAggregate(window, {"total": sum("v")}, ("k",), panes=panes)])
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "v": [2**63 - 1, 1]})
    with pytest.raises(AggregateOverflow, match="total of window 0, k = a"):
        drive(operator, [page, END])


@pytest.mark.parametrize("panes", [False, True])
def test_a_jump_over_empty_windows_costs_and_gives_nothing(panes: bool) -> None:
    far = 10**15
    window = SlidingWindow("ts", size=10, slide=5)
    one = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    other = Page.of(SCHEMA, {"ts": [far, LIMIT - 1], "k": ["a", "b"], "v": [1, 1]})
    for promise in (before("ts", far), Punctuation({"k": Equals("a"), "ts": Below(far)})):
        found = rows(drive(chained(window, ("k",), panes=panes), [one, promise, other, before("ts", 2**70), END]))
        assert [row["wid"] for row in found[:4]] == [0, 1, far // 5, far // 5 + 1]
        assert len(found) == 6


def test_one_end_after_another_and_tuples_in_between() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    page = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    later = Page.of(SCHEMA, {"ts": [21], "k": ["a"], "v": [1]})
    found = rows(drive(chained(window, ("k",)), [END, page, END, END, later, before("ts", 30), END]))
    assert [row["wid"] for row in found] == [0, 2]


@pytest.mark.parametrize("function", [first("v"), last("v")])
def test_panes_refuse_what_goes_by_arrival(function: object) -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    operator = BufferAggregate(window, {"one": function}, panes=True)  # type: ignore[dict-item]
    with pytest.raises(SchemaError, match="one depends on the order"):
        operator.output_schema(Bucket(window).output_schema(SCHEMA))


def test_panes_refuse_windows_without_end() -> None:
    window = LandmarkWindow("ts", slide=2)
    with pytest.raises(SchemaError, match="never complete"):
        BufferAggregate(window, FUNCTIONS, panes=True).output_schema(Bucket(window).output_schema(SCHEMA))


class ForgetsAtTheBound(BufferAggregate):
    """Let go of a tuple one window early."""

    def process(self, page: Page, emit: object, port: int = 0) -> None:
        columns = list(page.batch.columns)
        at = page.schema.names.index("wid_until")
        columns[at] = pa.array(np.maximum(page.ticks("wid_from") + 1, page.ticks("wid_until") - 1))
        super().process(Page(page.schema, pa.RecordBatch.from_arrays(columns, schema=page.schema.arrow)), emit)  # type: ignore[arg-type]


def test_a_tuple_purged_one_window_early_is_caught() -> None:
    caught: list[str] = []
    window = SlidingWindow("ts", size=3, slide=1)

    @share(2)
    @given(streams(SCHEMA, tuples=8, promises=("linear",), nulls=()))
    def attempt(script: Script) -> None:
        try:
            check_operator(
                lambda: Chain([Bucket(window), ForgetsAtTheBound(window, FUNCTIONS, ("k",))]),
                script,
                naive=lambda t: naive_windows(window, ANSWERS, ("k",), t),
            )
        except OperatorBug as bug:
            caught.append(str(bug).split("\n")[0])

    attempt()
    assert any("law 10" in bug for bug in caught)


def test_many_groups_leave_no_state_behind() -> None:
    window = SlidingWindow("ts", size=4, slide=2)
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts"])
    keys = np.arange(2000)
    for panes in (False, True):
        functions = {"n": count(), "kinds": count_distinct("v"), "most": max("v"), "least": min("v")}
        operator = Chain([Bucket(window), BufferAggregate(window, functions, ("k",), panes=panes)])
        found = 0
        for ts in range(6):
            page = Page.of(schema, {"ts": np.full(2000, ts), "k": keys, "v": keys % 7})
            for element in drive(operator, [page, page.slice(0, 1), page.slice(0, 0), before("ts", ts)]):
                found += len(element) if isinstance(element, Page) else 0
        assert found + len(rows(drive(operator, [END]))) == 2000 * 4
        assert (operator.statistics()["state_tuples"], operator.statistics()["groups"]) == (0, 0)
