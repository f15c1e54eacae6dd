"""What no slot holds any more is forgotten, and what one holds is answered all the same afterwards."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import AggregateFunction

SCHEMA = Schema.of(x=pa.string(), y=pa.int64())
KEPT = ["kept b", "kept a", "kept b", "kept c"]
EVERY = np.arange(2, dtype=np.int32)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (fn.mode("x"), "kept b"),
        (fn.top_k("x", 2), [{"value": "kept b", "count": 2}, {"value": "kept a", "count": 1}]),
        (fn.concat("x", separator="|"), "kept b|kept a|kept b|kept c"),
        (fn.concat("x", "y", separator="|"), "kept c|kept b|kept a|kept b"),
    ],
    ids=str,
)
def test_values_that_have_passed_take_no_room_and_change_no_answer(function: AggregateFunction, wanted: object) -> None:
    accumulator = function.accumulator(SCHEMA)
    accumulator.reserve(2)
    accumulator.init(EVERY)
    for turn in range(6):
        passing = [f"a text of some length that passes in turn {turn}, number {i}" for i in range(3000)]
        texts = [*passing[:1500], *(KEPT if turn == 2 else []), *passing[1500:]]
        slots = np.array([int(text.startswith("kept")) for text in texts], np.int32)
        # The later a tuple arrives, the earlier it is by y.
        page = Page.of(SCHEMA, {"x": pa.array(texts), "y": -np.minimum(np.arange(len(texts)), 1503)})
        accumulator.update(slots, page)
        held = accumulator.nbytes
        accumulator.finalize(EVERY)
        accumulator.free(EVERY[:1])
        accumulator.init(EVERY[:1])
        if turn >= 2:
            assert accumulator.finalize(EVERY).to_pylist() == [[] if function.name == "top_k" else None, wanted]
            assert accumulator.nbytes < held
        # A page of texts and a log of its tuples, whatever came before them.
        assert accumulator.nbytes < 1_000_000
    accumulator.free(EVERY)
    assert accumulator.nbytes < 10_000
