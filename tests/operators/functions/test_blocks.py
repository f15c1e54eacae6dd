"""Blocks of slots are combined and cleared as their slots are one by one, to the bit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import totals
from operators.functions.protocol import Accumulator, BlockSubtractable, Blockwise, Slots
from operators.functions.states import States
from operators.functions.user import UserAggregate
from tests.examples import share
from tests.operators.functions.cases import DOMAIN, Case, cases

BLOCKS = 3
EVERY = np.arange(64 * BLOCKS, dtype=np.int32)


def _schema(case: Case) -> Schema:
    return Schema(pa.schema([DOMAIN[d][0].with_name(n) for d, n in zip(case.domains, "xy", strict=False)]))


def _made(case: Case) -> Accumulator:
    accumulator = case.function.accumulator(_schema(case))
    accumulator.reserve(len(EVERY))
    accumulator.init(EVERY)
    return accumulator


def _held(accumulator: Accumulator) -> dict[str, object]:
    # Of what was freed nothing is looked at, and empty slots may differ in what no result shows.
    return {"results": accumulator.finalize(EVERY).to_pylist(), "nulls": accumulator.nulls}


def of_blocks(blocks: Slots) -> Slots:
    return (64 * blocks[:, None] + np.arange(64, dtype=np.int32)).ravel()


def _blockwise(case: Case) -> bool:
    if isinstance(case.function, UserAggregate):
        return issubclass(States, Blockwise)  # to make one compiles for seconds
    return isinstance(case.function.accumulator(_schema(case)), Blockwise)


BLOCKWISE = [case for case in cases() if _blockwise(case)]
NAMES = sorted({case.function.name for case in BLOCKWISE})


@pytest.fixture(params=[0, 1 << 14], ids=["words", "rows"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whole sums be words, and rows."""
    monkeypatch.setattr(totals, "FEW", request.param)


def test_the_functions_of_most_queries_are_blockwise() -> None:
    assert {"count", "sum", "avg", "min", "max"} <= set(NAMES)
    assert not isinstance(fn.count_distinct("x").accumulator(Schema.of(x=pa.int64())), Blockwise)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", NAMES)
@share(3)
@given(data=st.data())
def test_blocks_combine_and_clear_as_their_slots_do(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in BLOCKWISE if case.function.name == name]))
    schema, (ours, theirs) = _schema(case), (_made(case), _made(case))
    assert isinstance(ours, Blockwise)
    row = st.tuples(*(st.sampled_from([None, *DOMAIN[d][1]]) for d in case.domains))
    block = st.integers(0, BLOCKS - 1)
    step = (
        st.lists(st.tuples(st.integers(-1, len(EVERY) - 1), row), min_size=1, max_size=60)
        | st.lists(st.tuples(block, block), min_size=1, max_size=4).map(lambda pairs: ("combine", pairs))
        | st.lists(block, min_size=1, max_size=2, unique=True).map(lambda blocks: ("clear", blocks))
    )
    for taken in data.draw(st.lists(step, min_size=1, max_size=8)):
        match taken:
            case ("combine", pairs):
                into, source = (np.array(side, np.int32) for side in zip(*pairs, strict=True))
                ours.combine_blocks(into, source)
                for to, of in zip(into, source, strict=True):
                    theirs.combine(of_blocks(np.array([to])), of_blocks(np.array([of])))
            case ("clear", blocks):
                slots = of_blocks(np.array(blocks, np.int32)).astype(np.int32)
                ours.clear_blocks(np.array(blocks, np.int32))
                theirs.free(slots)
                theirs.init(slots)
            case tuples:
                slots = np.array([slot for slot, _ in tuples], np.int32)
                columns = dict(zip("xy", zip(*(row for _, row in tuples), strict=True), strict=False))
                page = Page.of(schema, {n: pa.array(c, schema.field(n).type) for n, c in columns.items()})
                for accumulator in (ours, theirs):
                    accumulator.update(slots, page)
    assert repr(_held(ours)) == repr(_held(theirs))


@given(st.lists(st.lists(st.integers(0, 63), max_size=70), min_size=1, max_size=6), st.data())
def test_blocks_are_taken_away_as_their_slots_are(tuples: list[list[int]], data: st.DataObject) -> None:
    schema = Schema.of(x=pa.int64())
    ours, theirs = (fn.count().accumulator(schema) for _ in range(2))
    assert isinstance(ours, BlockSubtractable) and isinstance(theirs, BlockSubtractable)
    parts = np.arange(1, len(tuples) + 1, dtype=np.int32)
    whole, slots = np.zeros(len(parts), np.int32), np.arange(64 * (len(parts) + 1), dtype=np.int32)
    for accumulator in (ours, theirs):
        accumulator.reserve(len(slots))
        accumulator.init(slots)
        for part, places in zip(parts.tolist(), tuples, strict=True):
            page = Page.of(schema, {"x": [0] * len(places)})
            accumulator.update(64 * part + np.array(places, np.int32), page)
        accumulator.combine_blocks(whole, parts)
    gone = np.array(data.draw(st.lists(st.sampled_from(parts.tolist()), unique=True)), np.int32)
    ours.subtract_blocks(whole[: len(gone)], gone)
    theirs.subtract(np.tile(slots[:64], len(gone)), of_blocks(gone))
    assert ours.finalize(slots).to_pylist() == theirs.finalize(slots).to_pylist()
    left = [place for part, places in enumerate(tuples, 1) if part not in gone for place in places]
    assert ours.finalize(slots[:64]).to_pylist() == np.bincount(left, minlength=64).tolist()
