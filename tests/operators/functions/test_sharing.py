"""Functions that remember the same are computed from one state, and answer as if each had its own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import Accumulator, AggregateFunction, Subtractable, accumulators
from operators.functions.sharing import View
from tests.examples import share

SCHEMA = Schema.of(x=pa.int64(), f=pa.float64(), s=pa.string())
FUNCTIONS: list[AggregateFunction] = [
    fn.count(),
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
    owners = [i for i, accumulator in enumerate(made) if not isinstance(accumulator, View)]
    assert [FUNCTIONS[i].output_name() for i in owners] == [
        "count", "median_x", "sum_x", "sum_f", "mode_s", "median_f",
    ]  # fmt: skip
    assert sum(accumulator.nbytes for accumulator in made) == sum(made[i].nbytes for i in owners)
    whole = [isinstance(accumulator, Subtractable) for accumulator in made]
    assert [f.output_name() for f, exact in zip(FUNCTIONS, whole, strict=True) if not exact] == ["sum_f", "avg_f"]


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
        freed = np.array(data.draw(st.lists(st.integers(0, 3), max_size=1)), np.int32)
        for side in (shared, own):
            for accumulator in side:
                accumulator.update(slots, page)
            for accumulator in side:
                accumulator.combine(*pair)
            for accumulator in side:
                accumulator.free(freed)
                accumulator.init(freed)
        shared = _restored(order, shared)
        for one, two in zip(shared, own, strict=True):
            assert one.finalize(EVERY).equals(two.finalize(EVERY))
            assert one.nulls == two.nulls


def _restored(functions: list[AggregateFunction], held: list[Accumulator]) -> list[Accumulator]:
    fresh = accumulators(functions, SCHEMA)
    for new, old in zip(fresh, held, strict=True):
        new.restore(old.state())
    return fresh
