"""A function over whole windows gets the tuples of each in order, or a sample, and its rows leave with the result."""

from __future__ import annotations

import doctest
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from operators import functions as fn
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import AggregateFailure, SchemaError
from operators.rows import process_windows as module
from operators.rows.process_windows import ProcessWindows
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from tests.examples import share
from tests.naive_functions import naive_collect

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts"])
RESULT = Schema.of(step=pa.int64(), at=pa.int64())
WINDOW = SlidingWindow("ts", size=3, slide=2)
Row = dict[str, Any]
events = st.lists(st.tuples(st.integers(0, 11), st.sampled_from("ab"), st.integers(-2, 2) | st.none()), max_size=30)


def climbs(tuples: Page, window: Page) -> object:
    """List where x rises from tuple to tuple, and by how much; rows of odd windows come as tuples."""
    x, ts = tuples["x"].astype(np.int64), tuples["ts"]
    up = np.flatnonzero(np.diff(x) > 0) + 1
    steps = x[up] - x[up - 1]
    if window["wid"][0] % 2:
        return list(zip(steps.tolist(), ts[up].tolist(), strict=True))
    return {"step": steps, "at": ts[up]}


def naive_climbs(members: Sequence[tuple[int, int | None]], most: int) -> tuple[list[Row], int]:
    """Do the same one tuple after the other, a null as 0, and count what a sample lacks."""
    fields = [SCHEMA.field("ts"), SCHEMA.field("x")]
    found: Any = naive_collect(fields, most)(members)
    made: list[Row] = []
    before = None
    for row in found["tuples"]:
        x = row["x"] or 0
        if before is not None and x > before:
            made.append({"step": x - before, "at": row["ts"]})
        before = x
    return made, found["count"] - len(found["tuples"])


def naive_process(table: Sequence[Row], most: int) -> list[Row]:
    """Put each tuple into the windows whose extents have it, and call the naive function on each."""
    members: dict[tuple[str, int], list[tuple[int, int | None]]] = defaultdict(list)
    for row in table:
        for wid in range(-3, 20):
            start, stop = WINDOW.extent(wid)
            if start <= row["ts"] < stop:
                members[row["k"], wid].append((row["ts"], row["x"]))
    found: list[Row] = []
    for (k, wid), tuples in members.items():
        start, stop = WINDOW.extent(wid)
        made, left_out = naive_climbs(tuples, most)
        about = {"left_out": left_out, "wid": wid, "window_start": start, "window_end": stop}
        found += [{"k": k, **row, **about} for row in made]
    return found


@pytest.mark.parametrize("most", [2, 1000])
@share(0.5)
@given(script=streams(SCHEMA, group=("k",)))
def test_whole_windows_keep_the_laws(most: int, script: Script) -> None:
    def make() -> Chain:
        lists = {"all": fn.collect("ts", "x", most=most)}
        process = ProcessWindows(climbs, RESULT, "all")
        return Chain([Bucket(WINDOW), WindowAggregate(WINDOW, lists, ("k",)), process])

    check_operator(make, script, naive=lambda table: naive_process(table, most))


@share(0.5)
@given(events, st.randoms(use_true_random=False), st.sampled_from([2, 100]), st.integers(1, 9))
def test_order_and_pages_make_no_difference(
    found: list[tuple[int, str, int | None]], luck: Any, most: int, page_rows: int
) -> None:
    luck.shuffle(shuffled := list(found))
    windowed = oop.rows(shuffled, SCHEMA, punctuate=oop.slack(20)).window(range=3, slide=2)
    results = windowed.process(climbs, RESULT, by="k", most=most)
    answer = [row for page in results.start(page_rows=page_rows) for row in page.plain_rows()]
    wanted = naive_process([dict(zip(SCHEMA.names, row, strict=True)) for row in found], most)
    assert sorted(answer, key=str) == sorted(wanted, key=str)


def seen(tuples: Page, window: Page) -> object:
    """Return one row if there are two tuples, else none."""
    return {"xs": ",".join(map(str, tuples["x"]))} if len(tuples) > 1 else None


XS = Schema.of(xs=pa.string())


@share(0.5)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.integers(0, 9)), max_size=14), st.sampled_from(["tumbling", "session"])
)
def test_late_tuples_revise_whole_results(found: list[tuple[int, int]], kind: str) -> None:
    schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    window = oop.tumbling(5) if kind == "tumbling" else oop.session(2)
    wanted = Counts.of(oop.rows(sorted(found), schema).window(window).process(seen, XS))

    def revised(**options: Any) -> oop.Stream:
        return oop.rows(iter(found), schema, slack=0).window(window).process(seen, XS, lateness=100, **options)

    last: dict[int, tuple[int, Row]] = {}
    for row in revised().to_arrow().to_pylist():
        assert row["revision"] >= last.get(row["wid"], (0, {}))[0]
        last[row["wid"]] = row["revision"], row
    stands = Counts([row for _, row in last.values() if row["xs"] is not None])
    assert stands == wanted
    assert Counts.of(revised(refine="retract")) == wanted
    count = (
        revised(refine="retract")
        .window(range=1000, wattr="window_start")
        .aggregate(oop.count())
        .to_arrow()["count"]
        .to_pylist()
    )
    assert sum(count) == sum(wanted.values())


class Counts(dict[tuple[str, int, int], int]):
    """Rows as a multiset, each as often as its signs add up to."""

    def __init__(self, table: list[Row]) -> None:
        for row in table:
            if row["xs"] is not None:
                key = (row["xs"], row["wid"], row["window_end"])
                self[key] = self.get(key, 0) + row.get("sign", 1)
        for key in [key for key, sign in self.items() if not sign]:
            del self[key]

    @classmethod
    def of(cls, stream: oop.Stream) -> Counts:
        return cls(stream.to_arrow().to_pylist())


def test_readers_of_revised_rows_are_told_to_take_them_back() -> None:
    stream = oop.rows(iter([(1, 2)]), pa.schema([("ts", pa.int64()), ("x", pa.int64())]), slack=0)
    revised = stream.window(range=5).process(seen, XS, lateness=100)
    with pytest.raises(oop.PlanError, match='refine="retract"'):
        revised.window(range=50, wattr="window_start").aggregate(oop.count())


def test_early_results_without_rows_replace_those_before_by_nulls() -> None:
    stream = oop.rows([(1, 2), (2, 3), (7, 4), (8, 1)], pa.schema([("ts", pa.int64()), ("x", pa.int64())]))

    def pairs(tuples: Page, window: Page) -> object:
        return {"xs": "two"} if len(tuples) == 2 else None

    found = stream.window(range=10).process(pairs, XS, early=5).to_arrow().to_pylist()
    assert [(row["xs"], row["fired"], row["final"]) for row in found] == [("two", 5, False), (None, 10, True)]
    once = stream.window(range=10).process(pairs, XS, early=oop.early(5, refine="discard")).to_arrow().to_pylist()
    assert [(row["xs"], row["fired"]) for row in once] == [("two", 5), ("two", 10)]


STREAM = oop.rows([(3, "a", 7), (1, "a", 5), (12, "b", 2)], SCHEMA)


@pytest.mark.parametrize(
    "returned",
    [
        {"step": 1, "at": 2},
        {"step": [1], "at": 2},
        {"step": [1], "at": np.array([2])},
        {"at": pa.array([2], pa.int8()), "step": pa.chunked_array([[1]])},
        pa.table({"at": [2], "step": [1]}),
        pd.DataFrame({"at": [2], "step": [1]}),
        pa.record_batch({"at": [2], "step": [1]}),
        Page.of(RESULT, {"step": [1], "at": [2]}),
        [(1, 2)],
        iter([[1, 2]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_are_returned_in_many_forms(returned: object) -> None:
    page = Page.of(LISTED, {"all": [{"count": 1, "tuples": [{"ts": 1}]}], "wid": [7]})
    found = rows(drive(ProcessWindows(lambda tuples, window: returned, RESULT, "all"), [page]))
    assert found == [{"step": 1, "at": 2, "left_out": 0, "wid": 7}]


LISTED = Schema.of(
    all=pa.struct([("count", pa.int64()), ("tuples", pa.list_(pa.struct([("ts", pa.int64())])))]), wid=pa.int64()
)


def failing(tuples: Page, window: Page) -> object:
    return {"step": len(tuples) // (len(tuples) - 2), "at": 0}


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (
            failing,
            [r"failing raises ZeroDivisionError", r"test_process_windows.py, line \d+ \(return .*// ", "k = a, wid"],
        ),
        (lambda t, w: {"step": ["x"], "at": [1]}, ["not rows of step: int64, at: int64", "k = a, wid = 0"]),
        (lambda t, w: {"step": 1}, ['"at" is missing']),
        (lambda t, w: {"step": 1, "at": 1, "to": 1}, ['"to" is not in the schema']),
        (lambda t, w: {"step": [1], "at": [1, 2]}, ["of 2 tuples"]),
        (lambda t, w: [(1,)], ["a row has 1 values"]),
        (lambda t, w: 5, ["returned int, which is not rows"]),
    ],
)
def test_a_function_that_fails_is_named_with_its_window(function: Callable[..., object], says: list[str]) -> None:
    for text in says:
        with pytest.raises(AggregateFailure, match=text):
            STREAM.window(range=10).process(function, RESULT, by="k").to_arrow()


def test_a_sample_is_counted_in_results_and_in_a_note() -> None:
    stream = oop.rows([(i % 7, i) for i in range(50)], pa.schema([("ts", pa.int64()), ("x", pa.int64())]))
    outcome = (
        stream.window(range=10).process(lambda t, w: {"n": len(t), "lack": w["left_out"][0]}, COUNTED, most=20).run()
    )
    assert outcome.table.select(["n", "lack", "left_out"]).to_pylist() == [{"n": 20, "lack": 30, "left_out": 30}]
    assert any("1 window had more tuples than `most`" in note for note in outcome.statistics.notes)


COUNTED = Schema.of(n=pa.int64(), lack=pa.int64())


def test_groups_times_and_addresses_reach_the_function_and_its_results() -> None:
    schema = oop.Schema.of(ts=pa.timestamp("s"), host="ip", name="string")
    stream = oop.rows([(3, "10.0.0.1", "b"), (1, "10.0.0.1", "a")], schema)

    def told(tuples: Page, window: Page) -> object:
        assert tuples.schema.names == ["ts", "name"] and tuples["ts"].dtype == np.dtype("M8[s]")
        return {"who": window.column("host"), "first": tuples["name"][0], "begin": window.column("window_start")}

    result = oop.Schema.of(who="ip", first="string", begin=pa.timestamp("s"))
    (row,) = next(iter(stream.window(range="10 s").process(told, result, by="host"))).rows()
    assert (row["who"], row["first"], row["begin"]) == ("10.0.0.1", "a", "1970-01-01T00:00:00Z")


def test_two_inputs_are_joined_in_each_window() -> None:
    schema = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
    found = [(1, 5), (2, 6), (5, 5), (7, 6), (8, 6)], [(3, 6), (4, 5), (6, 6), (12, 1)]
    one, two = (oop.rows(rows, schema).derive(side=side) for rows, side in zip(found, ("0", "1"), strict=True))

    def pairs(tuples: Page, window: Page) -> object:
        right = tuples["side"] == 1
        x, ts = tuples["x"], tuples["ts"]
        lefts, rights = np.nonzero((x[:, None] == x) & ~right[:, None] & right)
        return {"left": ts[lefts], "right": ts[rights]}

    both = oop.meld(one, two).window(range=4, slide=2)
    answer = both.process(pairs, Schema.of(left=pa.int64(), right=pa.int64())).to_arrow().to_pylist()
    naive = [
        (wid, s, t)
        for wid in range(-1, 9)
        for s, x in found[0]
        for t, y in found[1]
        if x == y and all(2 * wid - 2 <= at < 2 * wid + 2 for at in (s, t))
    ]
    assert sorted((row["wid"], row["left"], row["right"]) for row in answer) == sorted(naive) and naive


def test_what_cannot_be_is_refused() -> None:
    windowed = STREAM.window(range=10)
    with pytest.raises(oop.PlanError, match="is no function"):
        windowed.process(5, RESULT)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(oop.PlanError, match="the schema has no attribute"):
        windowed.process(failing, Schema.of())
    with pytest.raises(SchemaError, match='two attributes of the results are called "wid"'):
        windowed.process(failing, Schema.of(wid=pa.int64()))
    two = STREAM.derive(u="ts + 1").windows(a=oop.tumbling(10), b=oop.tumbling(10, wattr="u"))
    with pytest.raises(oop.PlanError, match=r'columns=\["ts", \.\.\.\]'):
        two.process(seen, XS)


def test_the_examples_in_docstrings_run() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
