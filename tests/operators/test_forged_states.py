"""A saved state that was forged, though its checksum fits, is refused in words or restored: no process dies of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.chain import Chain
from operators.data.page import Page
from operators.data.saved import ROOM, apart, bounded, chained, read_int, read_integers, restore
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import OperatorBug
from operators.fresh import fresh
from operators.functions import AggregateFunction, concat, count, count_distinct, min
from operators.join import Band, OAJoin
from operators.kernels.slicing import layout
from operators.protocol import Element, Operator
from operators.window import SlidingWindow, tumbling
from operators.window.counted import CountWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked import CountAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before
from tests.surviving import survive

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])

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
        ("1/groups.free", np.array([7]), 'as "made", where 2 ids are live'),
        (
            "1/store.slots",
            np.array([-5] * len(np.asarray(state["1/store.slots"]))),
            '-5 in "slots", where 0 is the least',
        ),
        ("1/store.made", ROOM + 1, 'as "made"'),
        ("1/store.ranges.slice_first", np.array([1, 1, 1]), "slice_first"),
    ):
        with pytest.raises(ValueError, match="Chain cannot be restored: the saved state") as error:
            restore(make(), {**state, entry: value})
        assert said in str(error.value) and "begin anew, or give the state that was saved" in str(error.value)
    restore(make(), state)


def forged(operator: Operator, elements: list[Element], **entries: object) -> Operator:
    """Give a fresh operator that was restored from the state of one that has had these elements, with other entries."""
    drive(operator, elements)
    again = fresh(operator)
    restore(again, {**operator.state(), **{name.replace("__", "."): value for name, value in entries.items()}})  # type: ignore[arg-type]
    return again


@pytest.mark.parametrize("function", [count(), concat("k")])
def test_slices_are_of_groups_that_there_are(function: AggregateFunction) -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "c"], "v": [1, 2, 3]})
    operator = SlicingAggregate({"w": tumbling("ts", 4)}, {"x": function}, ("k",))
    forged(operator, [page])
    for ids, free in (([0, 1], [2]), ([0], [2, 1])):
        texts = pa.RecordBatch.from_arrays([pa.array([b"x"] * len(ids), pa.large_binary())], ["bytes"])
        groups = {"ids": np.array(ids), "free": np.array(free), "words": np.zeros(2 * len(ids), np.uint64)}
        with pytest.raises(ValueError, match='names keys in "groups" that it does not have'):
            forged(
                fresh(operator),
                [page],
                intake__groups__heap0=texts,
                **{f"intake__groups__{name}": value for name, value in groups.items()},
            )


def test_slices_of_no_group_are_chained_too() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 5, 9], "k": ["a", "b", "c"], "v": [1, 2, 3]})
    operator = SlicingAggregate({"w": SlidingWindow("ts", size=12, slide=4)}, {"n": count()})
    drive(operator, [page])
    links = np.array(operator.state()["intake.answers.slices.links"])
    links[1, layout.NEWER] = 1 << 20
    with pytest.raises(ValueError, match="the saved state has"):
        forged(fresh(operator), [page], intake__answers__slices__links=links)


def test_ranks_that_were_complete_were_given() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "c"], "v": [1, 2, 3]})
    operator = CountAggregate(CountWindow("ts", size=2, slide=2), {"n": count()})
    with pytest.raises(ValueError, match='complete windows in "ranked" that are not in "given"'):
        forged(operator, [page, before("ts", 3)], slices__ranked=np.array([2**61]))


def test_what_takes_back_more_than_was_there_says_that_the_state_may_be_at_fault() -> None:
    window = tumbling("ts", 4)
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "b"], "v": [1, 2]})
    changes = drive(Expire(), drive(Bucket(window), [page, END]))
    operator = SignedAggregate(window, {"n": count(), "least": min("v")}, ("k",))
    begun, rest = [*changes[:1], before("wid", 1)], changes[1:]
    with pytest.raises(ValueError, match='-1 in "members"'):
        forged(fresh(operator), begun, members=np.array([-1, 1]))
    with pytest.raises(ValueError, match='2 in "members", where all should be below 2'):
        forged(fresh(operator), begun, members=np.array([1, 1, 1]))
    for entries in ({"aggregate1__keys": np.array([7, 8])}, {"members": np.array([0, 1])}):
        again = forged(fresh(operator), begun, **entries)
        with pytest.raises(OperatorBug, match=r"not been inserted\.\n  Or the state that the run"):
            drive(again, rest)
    drive(forged(fresh(operator), begun), rest)


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


def test_windows_that_no_tuple_is_in_together_are_refused() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 9], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    window, functions = SlidingWindow("ts", size=4, slide=2), {"n": count()}
    for operator, entry in (
        (BufferAggregate(window, functions, ("k",)), "objects.spans"),
        (AdaptiveAggregate(window, functions, ("k",)), "objects.spans"),
        (BufferAggregate(window, functions, ("k",), panes=True), "ranges"),
    ):
        chain = Chain([Bucket(window), operator])
        drive(chain, [page])
        state = chain.state()
        name = f"1/store.{entry}"
        spans = np.array(state[name])
        restore(fresh(chain), state)
        wide, empty = spans.copy(), spans.copy()
        wide.reshape(-1)[-1], empty[...] = 1 << 60, 5
        for forgery, said in ((wide, "windows that no tuple is in together"), (empty, "tuples in no window")):
            with pytest.raises(ValueError, match=said):
                restore(fresh(chain), {**state, name: forgery})


def test_what_follows_from_the_rest_of_a_state_is_not_believed() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 9], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    window = SlidingWindow("ts", size=4, slide=2)
    chain = Chain([Bucket(window), BufferAggregate(window, {"n": count()}, ("k",))])
    drive(chain, [page])
    state = chain.state()
    counters = np.array(state["1/store.objects.counters"])
    counters[:] = 1 << 20
    again = fresh(chain)
    restore(again, {**state, "1/store.objects.counters": counters})
    assert drive(again, [END])[-1] == END
    with pytest.raises(ValueError, match='has "volumes" that are not those of its tuples'):
        restore(fresh(chain), {**state, "1/store.objects.volumes": np.array([[7], [1]])})


def test_a_technique_that_functions_do_not_allow_is_refused() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 9], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    window = SlidingWindow("ts", size=4, slide=2)
    chain = Chain([Bucket(window), WindowAggregate(window, {"least": min("v")}, ("k",), strategy="two_stacks")])
    drive(chain, [page, before("ts", 4)])
    state = chain.state()
    restore(fresh(chain), state)
    for technique in ("differential", "by hand"):
        with pytest.raises(ValueError, match=f'has "{technique}" as "technique"'):
            restore(fresh(chain), {**state, "1/store.technique": technique})


def test_an_outer_join_needs_to_know_who_had_a_partner() -> None:
    left, right = Schema.of(s=pa.int64(), progress=["s"]), Schema.of(t=pa.int64(), progress=["t"])
    join = OAJoin(Band("s", "t", left=5, right=5), (), kind="left")
    join.output_schema(left, right)
    join.process(Page.of(left, {"s": [1, 2]}), lambda element: None, 0)
    state = join.state()
    restore(fresh(join), state)
    with pytest.raises(ValueError, match='should have 2 rows in "matched", it has 0'):
        restore(fresh(join), {**state, "memory.side0.matched": np.zeros(0, np.uint8)})


def test_accumulators_have_room_for_all_groups_however_short_their_columns_were() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "c"], "v": [1, 2, 3]})
    operator = GroupAggregate({"n": count()}, ("k",))
    drive(operator, [page])
    state = operator.state()
    short = fresh(operator)
    restore(short, {**state, "aggregate0.counts": np.array(state["aggregate0.counts"])[:0]})
    assert [row["n"] for row in rows(drive(short, [page, END]))] == [1, 1, 1]
