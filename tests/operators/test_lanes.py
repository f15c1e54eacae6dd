"""Lanes do what the operator alone does: the same tuples and promises after every step, whoever makes their calls."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data import scatter
from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive, punctuations, rows
from operators.expression import Column
from operators.functions import count, max, sum
from operators.join import Band, FlushedJoin, OAJoin
from operators.join.shape import Kind
from operators.overflow import overflows
from operators.protocol import Element, Measured, Operator, Promises, State, TakesPromises
from operators.rows.apply import Apply
from operators.rows.distinct import Distinct
from operators.rows.filter import Filter
from operators.rows.project import Project
from operators.streams import lanes as module
from operators.streams.guard import Guard
from operators.streams.lanes import KeyLanes, Lanes, RowLanes, Windows, in_turn
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from punctuation import END, Progress, before
from tests.examples import mostly_slow, share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v")}
SLIDING = SlidingWindow("ts", size=4, slide=2)
MANY = (1, 2, 3, 7)


def keyed(operator: Operator, lanes: int, *names: str, kinds: Sequence[pa.DataType] = (pa.string(),)) -> KeyLanes:
    keys = [(name,) for name in names] or [("k",)] * operator.inputs
    windows = (
        None
        if isinstance(operator, OAJoin | FlushedJoin | Distinct)
        else Windows("wid", "window_end", "window", "windows")
    )
    return KeyLanes(operator, lanes, keys, kinds, least=1, enough=0, windows=windows)


def sliced(lanes: int) -> Operator:
    windows = {"a": SlidingWindow("ts", size=3, slide=3), "b": SlidingWindow("ts", size=4, slide=1)}
    return keyed(SlicingAggregate(windows, FUNCTIONS, ("k",), named=True), lanes)


KEYED: dict[str, Callable[[int], Operator]] = {
    "distinct": lambda n: KeyLanes(Distinct(("k", "v")), n, [("k", "v")], [pa.string(), pa.int64()], least=1, enough=0),
    "windows": lambda n: Chain(
        [RowLanes(Bucket(SLIDING), n, least=1), keyed(WindowAggregate(SLIDING, FUNCTIONS, ("k",)), n)]
    ),
    "windows in one chain": lambda n: keyed(Chain([Bucket(SLIDING), WindowAggregate(SLIDING, FUNCTIONS, ("k",))]), n),
    "sessions": lambda n: keyed(SlicingAggregate({"": SessionWindow("ts", gap=2)}, FUNCTIONS, ("k",)), n),
    "two windows": sliced,
}
BY_ROWS: dict[str, Callable[[int], Operator]] = {
    "filter": lambda n: RowLanes(Filter(Column("v") > 0), n, least=1),
    "project": lambda n: RowLanes(Project({"t": Column("ts") // 2, "k": Column("k")}), n, least=1),
    "apply": lambda n: RowLanes(Apply({"w": Column("v") + 1}), n, least=1),
    "bucket": lambda n: RowLanes(Bucket(SLIDING), n, least=1),
    "guard": lambda n: RowLanes(Guard("ts", 2), n, least=1),
    "all in a row": lambda n: Chain([BY_ROWS["filter"](n), BY_ROWS["apply"](n), BY_ROWS["bucket"](n)]),
}


def backwards(calls: Sequence[Callable[[], None]]) -> None:
    """Make the last call first, as threads may."""
    in_turn(calls[::-1])


def alone(made: Operator) -> Operator:
    """Return the operator that lanes are made of."""
    if isinstance(made, Chain):
        return Chain([alone(link) for link in made.operators])
    assert isinstance(made, Lanes)
    return made.operator


def turned(made: Operator) -> None:
    """Have lanes make their calls backwards."""
    for link in made.operators if isinstance(made, Chain) else (made,):
        assert isinstance(link, Lanes)
        link.at_once = backwards


def bag(elements: Sequence[Element]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows(elements))


def met(elements: Sequence[Element]) -> Progress:
    """Return what promises come to."""
    progress = Progress()
    for promise in punctuations(elements):
        progress.advance(promise)
    return progress


def alike(ours: Progress, theirs: Progress) -> None:
    """Check that as much is promised."""
    assert sorted(map(str, ours.promises())) == sorted(map(str, theirs.promises()))


def no_more(ours: Progress, theirs: Progress) -> None:
    """Check that nothing more is promised: a lane that holds no tuple of an ended input has none to promise by."""
    assert all(theirs.implies(promise) for promise in ours.promises())
    assert ours.ended == theirs.ended


def like_alone(
    made: Operator, script: Script, *, ordered: bool = False, promised: Callable[[Progress, Progress], None] = alike
) -> None:
    """Compare lanes with the operator alone after every step."""
    one = alone(made)
    for operator in (made, one):
        operator.output_schema(*script.schemas)
    turned(made)
    ours, theirs = list[Element](), list[Element]()
    for port, element in script:
        deliver(made, element, ours.append, port)
        deliver(one, element, theirs.append, port)
        assert bag(ours) == bag(theirs)
        promised(met(ours), met(theirs))
    if ordered:
        assert rows(ours) == rows(theirs)
        assert list(map(str, punctuations(ours))) == list(map(str, punctuations(theirs)))
    if isinstance(made, Measured) and isinstance(one, Measured):
        assert made.statistics().get("late") == one.statistics().get("late")


@share(1)
@given(st.sampled_from(sorted(KEYED)), st.sampled_from(MANY), streams(SCHEMA, group=("k",), tuples=14))
def test_lanes_by_key_give_after_every_step_what_the_operator_gives(name: str, n: int, script: Script) -> None:
    like_alone(KEYED[name](n), script)


@share(1)
@given(st.sampled_from(sorted(BY_ROWS)), st.sampled_from(MANY), streams(SCHEMA, group=("k",), tuples=14))
def test_lanes_by_rows_give_tuples_and_promises_in_the_very_order(name: str, n: int, script: Script) -> None:
    like_alone(BY_ROWS[name](n), script, ordered=True)


@pytest.mark.parametrize("name", mostly_slow(sorted(KEYED | BY_ROWS), every=3))
def test_lanes_keep_the_laws(name: str) -> None:
    made = KEYED | BY_ROWS

    @share(0.5)
    @given(st.sampled_from(MANY[1:]), streams(SCHEMA, group=("k",), tuples=8))
    def laws(n: int, script: Script) -> None:
        check_operator(lambda: made[name](n), script)

    laws()


LEFT = Schema.of(lt=pa.int64(), k=pa.int32(), x=pa.int64(), progress=["lt"])
RIGHT = Schema.of(rt=pa.int64(), j=pa.int64(), y=pa.int64(), progress=["rt"])


@share(1)
@given(
    st.sampled_from(("inner", "left", "right", "full", "semi", "anti")),
    st.sampled_from(MANY),
    streams((LEFT, RIGHT), wattr=("lt", "rt"), tuples=10, promises=("linear",)),
)
def test_joins_find_their_partners_in_lanes(kind: Kind, n: int, script: Script) -> None:
    join = OAJoin(Band("lt", "rt", left=2, right=1), (("k", "j"),), kind=kind)
    like_alone(keyed(join, n, "k", "j", kinds=(pa.int64(),)), script, promised=no_more)


@share(0.2)
@given(
    st.sampled_from(MANY),
    st.integers(0, 2),
    streams((LEFT, RIGHT), wattr=("lt", "rt"), tuples=8, promises=("linear",)),
)
def test_lanes_of_a_flushed_join_give_what_it_gives_in_the_end(n: int, every: int, script: Script) -> None:
    join = FlushedJoin(OAJoin(Band("lt", "rt", left=2, right=1), (("k", "j"),), kind="full"), every=every)
    check_operator(lambda: keyed(join, n, "k", "j", kinds=(pa.int64(),)), script, laws={2, 3})
    lanes, alone = keyed(join, n, "k", "j", kinds=(pa.int64(),)), attrs.evolve(join)
    for operator in (lanes, alone):
        operator.output_schema(*script.schemas)
    assert bag(drive(lanes, script)) == bag(drive(alone, script))


def pages_of(n: int, keys: pa.Array, size: int) -> list[Element]:
    ts = np.arange(n)
    values = pa.array(np.arange(n) % 17)
    whole = Page.of(SCHEMA, {"ts": ts, "k": keys, "v": values})
    found: list[Element] = []
    for start in range(0, n, size):
        found += [whole.slice(start, min(start + size, n)), before("ts", start)]
    return [*found, END]


@pytest.mark.parametrize(
    "keys",
    [
        pa.nulls(5_000, pa.string()),
        pa.array(["one"] * 5_000),
        pa.array([None, "a", "b"] * 1_666 + ["a", None], pa.string()),
        pa.array([str(i % 4_000) for i in range(5_000)]),
    ],
    ids=["null", "one key", "few", "many"],
)
@pytest.mark.parametrize("size", mostly_slow([5_000, 700], but=[700]))
def test_any_share_of_keys_and_nulls_gives_the_same(keys: pa.Array, size: int) -> None:
    script = Script.of(SCHEMA, pages_of(5_000, keys, size))
    wide = SlidingWindow("ts", size=1_000, slide=500)
    for n in MANY:
        like_alone(keyed(Chain([Bucket(wide), WindowAggregate(wide, FUNCTIONS, ("k",))]), n), script)


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int32(), pa.string()), pa.float64(), pa.bool_(), pa.binary(16)])
def test_columns_of_any_type_go_to_their_lanes_as_they_are(kind: pa.DataType) -> None:
    plain = pa.array([b"%016d" % (i % 5) for i in range(60)], pa.binary(16)) if kind == pa.binary(16) else None
    column = plain if plain is not None else pa.array([i % 2 for i in range(60)]).cast(
        pa.string() if pa.types.is_dictionary(kind) else kind
    )  # fmt: skip
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    schema = Schema.of(k=kind, v=pa.decimal128(20, 2))
    page = Page.of(schema, {"k": column, "v": [None, *range(59)]})
    for n in MANY:
        made = KeyLanes(Distinct(), n, [("k",)], [kind], least=1, enough=0)
        made.output_schema(schema)
        assert bag(drive(made, [page.slice(7, 60), END])) == bag(drive(Distinct(), [page.slice(7, 60), END]))


def test_a_page_with_its_promises_goes_to_all_lanes_in_one_call() -> None:
    page = Page.of(SCHEMA, {"ts": np.arange(100), "k": [str(i % 9) for i in range(100)], "v": np.arange(100)})
    promises = Promises("ts", np.array([0, 10, 50, 100]), np.array([-5, 8, 50, 100]))
    steps = list(promises.one_by_one(page))
    for name, make in {**KEYED, **BY_ROWS}.items():
        for n in MANY:
            made, found = make(n), list[Element]()
            one = alone(make(n))
            made.output_schema(SCHEMA)
            turned(made)
            if not isinstance(made, TakesPromises):
                continue
            made.process_with(page, promises, found.append)
            expected = drive(one, steps)
            assert bag(found) == bag(expected), name
            alike(met(found), met(expected))


def saved(operator: Operator) -> State:
    return decode_state(encode_state(operator.state()))


@pytest.mark.parametrize("name", sorted(KEYED | BY_ROWS))
@pytest.mark.parametrize(("before_", "after"), [(3, 1), (2, 7), (1, 4)])
def test_a_state_goes_on_with_the_lanes_that_it_was_saved_with(name: str, before_: int, after: int) -> None:
    steps = pages_of(300, pa.array([str(i % 40) for i in range(300)]), 50)
    expected = drive(alone((KEYED | BY_ROWS)[name](1)), steps)
    first, second = (KEYED | BY_ROWS)[name](before_), (KEYED | BY_ROWS)[name](after)
    found = drive(first, steps[:5])
    second.output_schema(SCHEMA)
    second.restore(saved(first))
    assert saved(second).keys() == saved(first).keys()
    found += drive(second, steps[5:])
    assert bag(found) == bag(expected)
    alike(met(found), met(expected))


def test_the_state_of_an_operator_alone_goes_on_in_one_lane() -> None:
    steps = pages_of(300, pa.array([str(i % 40) for i in range(300)]), 50)
    one = alone(KEYED["sessions"](1))
    found = drive(one, steps[:5])
    goes_on = KEYED["sessions"](5)
    goes_on.output_schema(SCHEMA)
    goes_on.restore(saved(one))
    found += drive(goes_on, steps[5:])
    assert bag(found) == bag(drive(alone(KEYED["sessions"](1)), steps))
    assert isinstance(goes_on, Lanes)
    assert len(goes_on.links()) == 1


def test_small_pages_stay_in_one_lane_and_large_ones_are_divided() -> None:
    keys = pa.array([str(i % 40) for i in range(4_000)])

    def lanes_after(size: int) -> int:
        made = KeyLanes(Distinct(("k",)), 3, [("k",)], [pa.string()], least=100, enough=500)
        drive(made, pages_of(4_000, keys, size))
        return len(made.links())

    assert [lanes_after(size) for size in (10, 99, 100, 1_000)] == [1, 1, 3, 3]


def test_what_one_lane_took_before_it_was_divided_is_not_given_twice_nor_lost() -> None:
    keys = pa.array([str(i % 40) for i in range(4_000)])
    steps = pages_of(4_000, keys, 150)
    windows = SlidingWindow("ts", size=100, slide=100)
    made = KeyLanes(
        Chain([Bucket(windows), WindowAggregate(windows, FUNCTIONS, ("k",))]), 3, [("k",)], [pa.string()],
        least=100, enough=700,
    )  # fmt: skip
    found = drive(made, steps)
    assert len(made.links()) == 3
    assert bag(found) == bag(drive(alone(made), steps))


@pytest.mark.parametrize("n", MANY)
def test_results_leave_window_by_window_and_each_window_is_counted_once(n: int) -> None:
    steps = pages_of(400, pa.array([str(i % 40) for i in range(400)]), 100)
    for promises, name in ((True, "windows in one chain"), (False, "windows in one chain"), (True, "two windows")):
        given = [step for step in steps if promises or isinstance(step, Page) or step.is_end]
        made = KEYED[name](n)
        one, found = alone(KEYED[name](1)), drive(made, given)
        expected = drive(one, given)
        ends, wanted = (
            [end for page in results if isinstance(page, Page) for end in page.ticks("window_end").tolist()]
            for results in (found, expected)
        )
        assert name == "two windows" or ends == sorted(ends) == wanted
        assert isinstance(made, Measured)
        assert isinstance(one, Measured)
        assert made.statistics()["windows"] == one.statistics()["windows"]


def test_only_calls_for_pages_that_are_large_enough_are_made_at_once() -> None:
    handed: list[int] = []

    def at_once(calls: Sequence[Callable[[], None]]) -> None:
        handed.append(len(calls))
        in_turn(calls)

    made = KeyLanes(
        Distinct(("k",)), 2, [("k",)], [pa.string()], least=100, enough=0, at_once=at_once
    )  # fmt: skip
    keys = pa.array([str(i % 40) for i in range(400)])
    page, *_ = pages_of(400, keys, 400)
    assert isinstance(page, Page)
    drive(made, [page])
    assert handed == [2, 2]
    drive(made, [page.slice(0, 50)])
    assert handed == [2, 2]


def test_counters_and_bytes_are_those_of_all_lanes() -> None:
    steps = pages_of(300, pa.array([str(i % 40) for i in range(300)]), 100)[:3]
    made, one = KEYED["windows in one chain"](3), alone(KEYED["windows in one chain"](3))
    drive(made, steps)
    drive(one, steps)
    assert isinstance(made, Measured)
    assert isinstance(one, Measured)
    ours, theirs = made.statistics(), one.statistics()
    for counter in ("state_tuples", "late", "results", "late_for_some", "windows"):
        assert ours[counter] == theirs[counter]
    assert len(list(overflows(BY_ROWS["filter"](3)))) == 3


def test_the_examples_of_the_docstrings_are_true() -> None:
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(scatter).failed == 0
