"""Aggregates without a window give what they give alone, whatever they share with those beside them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as f
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions.protocol import AggregateFunction
from operators.window_aggregate.group_by import GroupAggregate
from punctuation import END, Equals, Punctuation

SCHEMA = Schema.of(k=pa.string(), v=pa.int64(), t=pa.int64(), progress=["k"])
FUNCTIONS: dict[str, AggregateFunction] = {
    "middle": f.median("v"),
    "most": f.quantile("v", 0.9),
    "often": f.mode("v"),
    "top": f.top_k("v", 2),
    "heavy": f.heavy_hitters("v", 0.3),
    "gap": f.mean_gap("t"),
    "variation": f.gap_variation("t"),
    "least": f.min("v"),
    "again": f.median("v"),
}


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=12),
    st.permutations(sorted(FUNCTIONS)),
    st.sampled_from([(), ("k",)]),
)
def test_aggregates_that_share_a_state_all_have_their_results(
    tuples: list[tuple[str, int, int]], order: list[str], by: tuple[str, ...]
) -> None:
    page = Page.of(SCHEMA, {name: [row[i] for row in tuples] for i, name in enumerate("kvt")})
    script = [page, *([Punctuation({"k": Equals("a")})] if by else []), END]
    found = rows(drive(GroupAggregate({name: FUNCTIONS[name] for name in order}, by), script))
    for name in order:
        alone = rows(drive(GroupAggregate({name: FUNCTIONS[name]}, by), script))
        assert [row[name] for row in found] == [row[name] for row in alone]
