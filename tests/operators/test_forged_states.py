"""A saved state that was forged, though its checksum fits, is refused in words or restored: no process dies of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.chain import Chain
from operators.data.page import Page
from operators.data.saved import ROOM, apart, bounded, chained, read_int, read_integers, restore
from operators.data.schema import Schema
from operators.functions import count, count_distinct
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from tests.surviving import survive

FUZZ = "from tests.fuzz.fuzz_states import main; import sys; main([int(sys.argv[1])], int(sys.argv[2]))"
TRIES = 12


def test_no_forged_state_of_any_operator_ends_the_process() -> None:
    told = survive(FUZZ, "7", str(TRIES), timeout=600)
    assert "'answered'" in told and "'refused'" in told


def test_what_is_refused_names_the_operator_the_entry_and_the_way_out() -> None:
    window = SlidingWindow("ts", size=4, slide=2)

    def make() -> Chain:
        return Chain([Bucket(window), WindowAggregate(window, {"n": count(), "kinds": count_distinct("k")}, ("k",))])

    operator = make()
    schema = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])
    operator.process(Page.of(schema, {"ts": [1, 2, 3], "k": ["a", "b", "a"]}), lambda element: None)
    state = operator.state()
    for entry, value, said in (
        ("1/store.aggregate1.members", np.full(3, 1000, np.int32), '1000 in "members", where all should be below'),
        ("1/groups.free", np.array([7]), 'as "made", which is beyond what it can be'),
        (
            "1/store.slots",
            np.array([-5] * len(np.asarray(state["1/store.slots"]))),
            '-5 in "slots", where 0 is the least',
        ),
        ("1/store.made", ROOM + 1, 'as "made"'),
        ("1/store.slice_first", np.array([1, 1, 1]), "slice_first"),
    ):
        with pytest.raises(ValueError, match="Chain cannot be restored: the saved state") as error:
            restore(make(), {**state, entry: value})
        assert said in str(error.value) and "begin anew, or give the state that was saved" in str(error.value)
    restore(make(), state)


def test_bounds_of_what_is_read_are_checked() -> None:
    state = {"a": np.array([3, 1, 2]), "n": 7}
    assert read_integers(state, "a", least=1, below=4, length=3).tolist() == [3, 1, 2]
    assert apart(np.array([3, 1, 2]), "a", below=4).tolist() == [3, 1, 2]
    assert read_int(state, "n", least=7, most=7) == 7
    for wrong in (
        lambda: read_integers(state, "a", least=2),
        lambda: read_integers(state, "a", below=3),
        lambda: read_integers(state, "a", length=2),
        lambda: read_integers(state, "a", width=2),
        lambda: read_int(state, "n", most=6),
        lambda: read_int({"n": 1 << 64}, "n"),
        lambda: apart(np.array([1, 1]), "a", below=4),
        lambda: bounded(np.array([ROOM]), "a"),
    ):
        with pytest.raises(ValueError, match="the saved state"):
            wrong()


def test_chains_are_followed_to_their_ends_and_no_further() -> None:
    after = np.array([2, -1, 1, -1])
    assert chained(np.array([0, -1]), after, "links").tolist() == [True, True, True, False]
    for heads, links in (([4], after), ([0, 1], after), ([0], np.array([1, 0])), ([0, 0], np.array([-1, -1]))):
        with pytest.raises(ValueError, match='chains in "links"'):
            chained(np.array(heads), links, "links")
