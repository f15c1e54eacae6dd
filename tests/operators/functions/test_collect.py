"""collect lists the tuples of a window in their order, or a sample that depends on no arrival, page or strategy."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from tests.examples import share
from tests.naive_functions import naive_collect

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
ONE = np.zeros(1, np.int32)
rows = st.lists(st.tuples(st.integers(0, 11), st.sampled_from("ab"), st.integers(0, 2) | st.none()), max_size=30)


@share(0.5)
@given(
    rows,
    st.randoms(use_true_random=False),
    st.sampled_from([1, 3, 100]),
    st.sampled_from(["auto", "wid", "panes", "two_stacks", "slicing", "buffer"]),
    st.integers(1, 9),
)
def test_every_order_page_and_strategy_gives_the_naive_answer(
    found: list[tuple[int, str, int | None]], luck: object, most: int, strategy: str, page_rows: int
) -> None:
    luck.shuffle(shuffled := list(found))  # type: ignore[attr-defined]
    stream = oop.rows(shuffled, SCHEMA, punctuate=oop.slack(20)).window(range=4, slide=2)
    results = stream.aggregate(all=oop.collect("v", "ts", most=most), by="k", strategy=strategy)
    naive = naive_collect([SCHEMA.field("v"), SCHEMA.field("ts")], most)
    wanted: dict[tuple[int, str], list[tuple[object, ...]]] = defaultdict(list)
    for ts, k, v in found:
        for wid in (ts // 2, ts // 2 + 1):
            wanted[wid, k].append((v, ts))
    answer = {
        (row["wid"], row["k"]): row["all"] for page in results.start(page_rows=page_rows) for row in page.plain_rows()
    }
    assert answer == {key: naive(members) for key, members in wanted.items()}


def test_each_tuple_is_as_likely_in_a_sample_and_the_count_is_of_all() -> None:
    values = np.arange(40_000)
    (answer,) = oop.arrow(pa.table({"ts": values})).aggregate(some=oop.collect("ts", most=4_000)).to_arrow()["some"]
    assert answer["count"].as_py() == 40_000
    chosen = np.array([row["ts"] for row in answer["tuples"].as_py()])
    assert len(chosen) == 4_000 and (np.diff(chosen) > 0).all()
    # Of each tenth of the tuples a tenth, but for five standard deviations.
    assert np.abs(np.bincount(chosen // 4_000, minlength=10) - 400).max() < 5 * np.sqrt(400 * 0.9)


def test_what_is_left_out_of_a_sample_takes_no_room() -> None:
    accumulator = fn.collect("v", "k", most=50).accumulator(SCHEMA)
    accumulator.reserve(1)
    accumulator.init(ONE)
    for begin in range(0, 200_000, 2_000):
        columns = {"ts": np.zeros(2_000), "k": ["a text"] * 2_000, "v": np.arange(begin, begin + 2_000)}
        accumulator.update(np.zeros(2_000, np.int32), Page.of(SCHEMA, columns))
        assert accumulator.nbytes < 500_000
    assert accumulator.finalize(ONE)[0]["count"].as_py() == 200_000
    accumulator.free(ONE)
    assert accumulator.nbytes < 10_000


def test_a_saved_state_that_says_other_numbers_is_refused() -> None:
    accumulator = fn.collect("v").accumulator(SCHEMA)
    accumulator.reserve(1)
    accumulator.init(ONE)
    accumulator.update(np.zeros(3, np.int32), Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a"] * 3, "v": [1, 2, 3]}))
    (held,) = (name for name in accumulator.state() if "held" in name)
    state = {**accumulator.state(), held: np.array([2])}
    with pytest.raises(ValueError, match="other numbers of tuples"):
        fn.collect("v").accumulator(SCHEMA).restore(state)


def test_text_says_how_many_tuples_are_listed() -> None:
    stream = oop.rows([(1, "a", 7), (3, "b", 5), (2, "a", None)], SCHEMA)
    (row,) = (
        oop.query("SELECT collect(ts, v) AS c, collect(k, 1) AS d [RANGE 9, WA ts] FROM S", S=stream)
        .to_arrow()
        .to_pylist()
    )
    assert row["c"] == {"count": 3, "tuples": [{"ts": 1, "v": 7}, {"ts": 2, "v": None}, {"ts": 3, "v": 5}]}
    assert row["d"]["count"] == 3 and len(row["d"]["tuples"]) == 1
