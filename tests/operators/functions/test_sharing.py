"""Functions that remember the same are computed from one state, and answer as if each had its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import Accumulator, AggregateFunction, Subtractable, accumulators
from operators.functions.sharing import View
from operators.functions.sums import Following
from operators.functions.total_counts import TotalCounts
from tests.examples import share

SCHEMA = Schema.of(x=pa.int64(), f=pa.float64(), s=pa.string())
FUNCTIONS: list[AggregateFunction] = [
    fn.count(),
    fn.count("x"),
    fn.median("x"),
    fn.quantile("x", 0.95),
    fn.quantile("x", 0.99),
    fn.mode("x"),
    fn.top_k("x", 2),
    fn.sum("x"),
    fn.avg("x"),
    fn.sum("f"),
    fn.avg("f"),
    fn.mode("s"),
    fn.heavy_hitters("s", 0.3),
    fn.median("f"),
]
EVERY = np.arange(4, dtype=np.int32)


def test_one_state_serves_all_that_remember_the_same() -> None:
    made = accumulators(FUNCTIONS, SCHEMA)
    owners = [i for i, one in enumerate(made) if not isinstance(one, View) and not _counts_another_s(one)]
    # The first count tells the sum what it is told.
    assert [FUNCTIONS[i].output_name() for i in owners] == [
        "count", "count_x", "median_x", "sum_f", "mode_s", "median_f",
    ]  # fmt: skip
    assert sum(accumulator.nbytes for accumulator in made) == sum(made[i].nbytes for i in owners)
    whole = [isinstance(accumulator, Subtractable) for accumulator in made]
    assert [f.output_name() for f, exact in zip(FUNCTIONS, whole, strict=True) if not exact] == ["sum_f", "avg_f"]


def _counts_another_s(accumulator: Accumulator) -> bool:
    return isinstance(accumulator, TotalCounts) and not accumulator.leads


def test_a_count_beside_a_sum_takes_no_room_before_a_null_comes() -> None:
    schema = Schema.of(x=pa.int64())
    for functions in ([fn.count(), fn.sum("x")], [fn.sum("x"), fn.count()], [fn.avg("x"), fn.count("x")]):
        both, alone = accumulators(functions, schema), fn.sum("x").accumulator(schema)
        for one in (*both, alone):
            one.reserve(1 << 16)
            one.init(EVERY)
        assert sum(one.nbytes for one in both) == alone.nbytes
        for values, more in (([1, 2, 3], 0), ([4, None, 5], 8 << 16)):
            page = Page.of(schema, {"x": pa.array(values, pa.int64())})
            for one in (*both, alone):
                one.update(np.array([0, 0, 1], np.int32), page)
            kept = more if any(f.output_name() == "count" for f in functions) else 0
            assert sum(one.nbytes for one in both) - alone.nbytes == kept
        counted = next(one for one, f in zip(both, functions, strict=True) if f.name == "count")
        assert counted.finalize(EVERY[:2]).to_pylist() == ([4, 2] if kept else [3, 2])


def test_saved_counts_that_do_not_fit_the_sum_are_refused() -> None:
    schema = Schema.of(x=pa.int64())
    functions = [fn.count(), fn.sum("x")]
    made = accumulators(functions, schema)
    for one in made:
        one.reserve(4)
        one.init(EVERY)
        one.update(EVERY, Page.of(schema, {"x": pa.array([1, 2, 3, 4])}))
    states = [one.state() for one in made]
    for counts in (np.zeros(4, np.int64), np.ones(3, np.int64), np.ones(1 << 20, np.int64)):
        states[0]["counts"] = counts
        fresh = accumulators(functions, schema)
        fresh[0].restore(states[0])
        with pytest.raises(ValueError, match=r"do not fit the number of values in sum\(x\)"):
            fresh[1].restore(states[1])


@share(2.5)
@given(data=st.data())
def test_shared_states_answer_as_own_ones(data: st.DataObject) -> None:
    order = data.draw(st.permutations(FUNCTIONS))
    shared, own = accumulators(order, SCHEMA), [function.accumulator(SCHEMA) for function in order]
    row = st.tuples(
        st.integers(-1, 3),
        st.integers(-3, 3) | st.none(),
        st.sampled_from([0.5, -1.0, 2.0, None]),
        st.sampled_from("aab"),
    )
    for side in (shared, own):
        for accumulator in side:
            accumulator.reserve(4)
            accumulator.init(EVERY)
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(row, max_size=8))
        page = Page.of(
            SCHEMA, {n: pa.array([r[i + 1] for r in rows], SCHEMA.field(n).type) for i, n in enumerate("xfs")}
        )
        slots = np.array([r[0] for r in rows], np.int32)
        pair = [np.array([data.draw(st.integers(0, 3))], np.int32) for _ in range(2)]
        taken = data.draw(st.booleans())
        freed = np.array(data.draw(st.lists(st.integers(0, 3), max_size=1)), np.int32)
        for side in (shared, own):
            for accumulator in side:
                accumulator.update(slots, page)
            for accumulator in side:
                accumulator.combine(*pair)
            for accumulator in side:
                accumulator.free(freed)
                accumulator.init(freed)
            into, source = np.array([[0], [1]], np.int32)
            if taken:
                for accumulator in side:
                    if isinstance(accumulator, Subtractable):
                        # What is taken was combined before.
                        accumulator.combine(into, source)
                        accumulator.subtract(into, source)
        # Counts that hold their own are saved as those that do not; the others save nothing.
        alike = [
            their if isinstance(one, TotalCounts | Following) else one for one, their in zip(shared, own, strict=True)
        ]
        shared = _restored(order, alike if data.draw(st.booleans()) else shared)
        for one, two in zip(shared, own, strict=True):
            assert one.finalize(EVERY).equals(two.finalize(EVERY))
            assert one.nulls == two.nulls


def _restored(functions: list[AggregateFunction], held: list[Accumulator]) -> list[Accumulator]:
    fresh = accumulators(functions, SCHEMA)
    for new, old in zip(fresh, held, strict=True):
        new.restore(old.state())
    return fresh
