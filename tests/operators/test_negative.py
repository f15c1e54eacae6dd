"""Insertions and deletions add up to the window's extent, and the aggregate of the changes is that of the window."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.baselines.negative.join import SignedJoin
from operators.baselines.negative.multiset import Multiset
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import part, read_batch
from operators.data.schema import Schema, ip_field
from operators.drive import deliver, drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions import AggregateFunction, avg, concat, count, first, max, min, sum
from operators.protocol import Emit, State, StateValue
from operators.testing import ALL_LAWS, Script, check_operator, streams
from operators.window import LIMIT, LandmarkWindow, PartitionedWindow, SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share
from tests.naive_aggregate import naive_windows
from tests.operators.test_window_aggregate import ANSWERS, FUNCTIONS, must_be_out, sliding

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
BY = [(), ("k",), ("k", "v")]
INVERTIBLE = {name: function for name, function in FUNCTIONS.items() if name != "kinds"}
EXACT = {name: answer for name, answer in ANSWERS.items() if name != "kinds"}


def chained(window: SlidingWindow, by: Sequence[str]) -> Chain:
    return Chain([Bucket(window), Expire(), SignedAggregate(window, INVERTIBLE, by)])


def relation(changes: Sequence[Row], wid: int) -> Counter[tuple[object, ...]]:
    """Add up the changes with wid <= w: how often each tuple is in the relation at window w."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in changes:
        if int(str(row["wid"])) <= wid:
            found[tuple(value for name, value in row.items() if name not in ("wid", "sign"))] += int(str(row["sign"]))
    assert all(number >= 0 for number in found.values())
    return +found


@given(sliding, streams(SCHEMA, group=("k",), tuples=14))
def test_at_every_promise_the_changes_add_up_to_the_extents_of_complete_windows(
    window: SlidingWindow, script: Script
) -> None:
    operator = Chain([Bucket(window), Expire()])
    changes: list[Row] = []
    table: list[Row] = []
    for _, element in script:
        changes += rows(drive(operator, [element]))
        if isinstance(element, Page):
            table += element.rows()
            continue
        bound = element.bound("ts")
        complete = 20 if element.is_end else -20 if bound is None else window.complete(int(str(bound)))
        for wid in range(-20, complete):
            begin, end = window.extent(wid)
            extent = Counter(tuple(row.values()) for row in table if begin <= int(str(row["ts"])) < end)
            assert relation(changes, wid) == extent


@share(1)
@given(sliding, st.sampled_from(BY), streams(SCHEMA, group=("k",), tuples=12))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: chained(window, by),
        script,
        naive=lambda table: naive_windows(window, EXACT, by, table),
        settled=lambda tables, progress: [
            {name: value for name, value in row.items() if name != "kinds"}
            for row in must_be_out(window, by, tables[0], progress[0])
        ],
    )


@given(sliding, st.sampled_from(BY), streams(SCHEMA, group=("k",), tuples=16, promises=("linear",)))
def test_every_promise_is_answered_as_the_window_aggregate_answers_it(
    window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    functions = {**INVERTIBLE, "mean": avg("v"), "there": count("v"), "latest": max("ts")}
    expire, signed = Expire(), SignedAggregate(window, functions, by)
    other = WindowAggregate(window, functions, by)
    for element in drive(Bucket(window), script):
        found, wanted = drive(Chain([expire, signed]), [element]), drive(other, [element])
        assert list(map(str, punctuations(found))) == list(map(str, punctuations(wanted)))
        assert sorted(map(repr, rows(found))) == sorted(map(repr, rows(wanted)))
    assert signed.statistics()["results"] == other.statistics()["results"]


@given(sliding, streams(SCHEMA, tuples=12, promises=("linear",), nulls=("k", "v")))
def test_expire_holds_the_tuples_that_have_not_expired(window: SlidingWindow, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        bound = progress[0].bound("ts")
        complete = -(10**9) if bound is None else window.complete(int(str(bound)))
        held = [window.wids(np.array([row["ts"]])) for row in tables[0]]
        return 0 if progress[0].ended else len([1 for begin, end in held if end[0] > complete and begin[0] < end[0]])

    check_operator(lambda: Chain([Bucket(window), Expire()]), script, kept=kept, laws={2, 3, 8, 9})


def test_an_insertion_leaves_at_once_and_a_deletion_with_the_last_window() -> None:
    window = SlidingWindow("ts", size=10, slide=5)
    operator = Chain([Bucket(window), Expire()])
    page = Page.of(SCHEMA, {"ts": [7, 3], "k": ["a", "b"], "v": [1, 2]})
    assert [(r["ts"], r["wid"], r["sign"]) for r in rows(drive(operator, [page]))] == [(7, 1, 1), (3, 0, 1)]
    found = drive(operator, [before("ts", 10)])
    assert [(r["ts"], r["wid"], r["sign"]) for r in rows(found)] == [(3, 2, -1)]
    assert list(map(str, punctuations(found))) == ["[wid < 2]"]
    assert operator.statistics()["state_tuples"] == 1
    # A promise of one group lets nothing through: its deletions are still to come.
    assert drive(operator, [Punctuation({"k": Equals("a"), "ts": Below(30)})]) == []
    found = drive(operator, [END])
    assert [(r["ts"], r["wid"], r["sign"]) for r in rows(found)] == [(7, 3, -1)]
    assert (str(found[-1]), operator.statistics()["state_tuples"]) == ("[END]", 0)


def test_the_next_minimum_is_at_hand_when_the_least_is_taken_away() -> None:
    multiset = Multiset("v", pa.int64(), False)
    schema = Schema.of(v=pa.int64())
    groups = np.array([0, 0, 1, 0], np.int32)
    multiset.start(np.array([0, 1], np.int32), 2)
    multiset.change(groups, np.ones(4, np.int64), Page.of(schema, {"v": [5, 3, 9, 3]}))
    both = np.array([0, 1], np.int32)
    assert multiset.finalize(both).to_pylist() == [3, 9]
    for gone, left in ((3, 3), (3, 5), (5, None)):
        multiset.change(both[:1], np.array([-1]), Page.of(schema, {"v": [gone]}))
        assert multiset.finalize(both).to_pylist() == [left, 9]
    with pytest.raises(OperatorBug, match="not been inserted"):
        multiset.change(both[:1], np.array([-1]), Page.of(schema, {"v": [3]}))


def test_sums_beyond_64_bits_come_back_when_what_was_too_much_leaves() -> None:
    window = SlidingWindow("ts", size=2, slide=1)
    operator = Chain([Bucket(window), Expire(), SignedAggregate(window, {"mean": avg("v"), "least": min("v")})])
    page = Page.of(SCHEMA, {"ts": [0, 1, 2], "k": ["a"] * 3, "v": [2**63 - 1, 2**63 - 1, 1]})
    found = [(r["wid"], r["mean"], r["least"]) for r in rows(drive(operator, [page, END]))]
    assert found == [(0, 2.0**63, 2**63 - 1), (1, 2.0**63, 2**63 - 1), (2, 2.0**62, 1), (3, 1.0, 1)]


def test_a_sum_that_does_not_fit_names_the_aggregate_and_the_window() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    operator = Chain([Bucket(window), Expire(), SignedAggregate(window, {"total": sum("v")}, ("k",))])
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "v": [2**63 - 1, 1]})
    with pytest.raises(AggregateOverflow, match="total of window 0"):
        drive(operator, [page, END])


def test_a_jump_over_empty_windows_costs_and_gives_nothing() -> None:
    far = 10**15
    window = SlidingWindow("ts", size=10, slide=5)
    one = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    other = Page.of(SCHEMA, {"ts": [far, LIMIT - 1], "k": ["a", "b"], "v": [1, 1]})
    found = rows(drive(chained(window, ("k",)), [one, before("ts", far), other, before("ts", 2**70), END]))
    assert [row["wid"] for row in found[:4]] == [0, 1, far // 5, far // 5 + 1]
    assert len(found) == 6


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (first("v"), r"first\(v\): what a tuple added[^$]*WindowAggregate"),
        (sum("x"), r"sum\(x\): what a tuple added"),
        (max("k"), r'max\(k\): "k" has type string'),
        (min("ip"), r'min\(ip\): "ip" has type'),
        (concat("k"), r"concat\(k\): what a tuple added"),
        (concat("k", by="ts"), r"concat\(k, ts\): what a tuple added"),
    ],
)
def test_what_cannot_be_taken_away_is_refused_with_a_way_out(function: AggregateFunction, told: str) -> None:
    schema = Schema(pa.schema([*SCHEMA.arrow, pa.field("x", pa.float64()), ip_field("ip")]), progress=SCHEMA.progress)
    window = SlidingWindow("ts", size=10, slide=5)
    changes = Expire().output_schema(Bucket(window).output_schema(schema))
    with pytest.raises(SchemaError, match=f"(?s){told}"):
        SignedAggregate(window, {"f": function}).output_schema(changes)


@pytest.mark.parametrize("numbers", [pa.int8(), pa.int32()])
def test_a_dictionary_is_one_in_the_results_too(numbers: pa.DataType) -> None:
    kind = pa.dictionary(numbers, pa.string())
    schema = Schema(pa.schema([("ts", pa.int64()), ("k", kind)]), progress=["ts"])
    window = SlidingWindow("ts", size=10, slide=5)

    def page(at: int) -> Page:
        keys = pa.array([f"{at}", f"{at + 1}", None]).cast(kind)
        return Page(schema, pa.RecordBatch.from_arrays([pa.array([at, at + 1, at]), keys], schema=schema.arrow))

    # Each page has a dictionary of its own, and together they have more values than an int8 can number.
    pages = [page(at) for at in range(200)]
    signed = drive(Chain([Bucket(window), Expire(), SignedAggregate(window, {"n": count()}, ("k",))]), [*pages, END])
    bounded = [element for at, one in enumerate(pages) for element in (before("ts", at), one)]
    plain = drive(Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ("k",))]), [*bounded, END])
    found = [element for element in signed if isinstance(element, Page)]
    assert {page.schema.field("k").type for page in found} == {kind}
    assert sorted(map(repr, rows(signed))) == sorted(map(repr, rows(plain)))


@pytest.mark.parametrize(
    "window", [LandmarkWindow("ts", slide=5), PartitionedWindow(SlidingWindow("n", size=2, slide=1), ("k",))]
)
def test_windows_that_do_not_move_together_are_refused(window: LandmarkWindow | PartitionedWindow) -> None:
    changes = Expire().output_schema(Bucket(SlidingWindow("ts", size=2, slide=1)).output_schema(SCHEMA))
    with pytest.raises(SchemaError, match="WindowAggregate"):
        SignedAggregate(window, INVERTIBLE).output_schema(changes)


def test_tuples_that_never_expire_are_refused() -> None:
    page = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    with pytest.raises(SchemaError, match="RANGE ALL ever expires"):
        drive(Chain([Bucket(LandmarkWindow("ts", slide=5)), Expire()]), [page])


def test_names_that_are_taken_are_refused() -> None:
    schema = Schema.of(ts=pa.int64(), sign=pa.int64(), progress=["ts"])
    with pytest.raises(SchemaError, match='already has an attribute "sign"'):
        Expire().output_schema(Bucket(SlidingWindow("ts", size=1, slide=1)).output_schema(schema))
    with pytest.raises(SchemaError, match="put a Bucket in front"):
        Expire().output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="put an Expire in front"):
        SignedAggregate(SlidingWindow("ts", size=1, slide=1), INVERTIBLE).output_schema(SCHEMA)


@attrs.define(eq=False)
class OfWindows:
    """An operator of two inputs over the changes of their windowed streams, and what comes behind it."""

    fronts: tuple[Chain, Chain]
    join: Chain

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.join.output_schema(*(f.output_schema(s) for f, s in zip(self.fronts, inputs, strict=True)))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        for element in drive(self.fronts[port], [page]):
            deliver(self.join, element, emit, port)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        for element in drive(self.fronts[port], [punctuation]):
            deliver(self.join, element, emit, port)

    def state(self) -> State:
        parts = {"left.": self.fronts[0], "right.": self.fronts[1], "join.": self.join}
        return {prefix + name: value for prefix, o in parts.items() for name, value in o.state().items()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        for prefix, operator in (("left.", self.fronts[0]), ("right.", self.fronts[1]), ("join.", self.join)):
            operator.restore(part(prefix, state))


OTHER = Schema.of(ts=pa.int64(), k=pa.string(), w=pa.int64(), progress=["ts", "k"])
PAIRS = ("k", "v", "right_k", "w")


def joined(window: SlidingWindow, other: SlidingWindow, **options: int) -> OfWindows:
    fronts = Chain([Bucket(window), Expire()]), Chain([Bucket(other), Expire()])
    counted = SignedAggregate(window, {"n": count()}, PAIRS)
    found = OfWindows(fronts, Chain([SignedJoin([("k", "k")], **options), counted]))
    found.output_schema(SCHEMA, OTHER)
    return found


def naive_join(window: SlidingWindow, other: SlidingWindow, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    """For each window, how often each pair of tuples with equal keys is in both extents."""
    found: list[Row] = []
    for wid in range(-60, 60):
        sides: list[list[Row]] = []
        for one, table in ((window, left), (other, right)):
            begin, end = one.extent(wid)
            sides.append([row for row in table if row["k"] is not None and begin <= int(str(row["ts"])) < end])
        pairs = Counter((a["k"], a["v"], b["k"], b["w"]) for a in sides[0] for b in sides[1] if a["k"] == b["k"])
        begin, end = window.extent(wid)
        bounds: Row = {"wid": wid, "window_start": begin, "window_end": end}
        found += [dict(zip(PAIRS, pair, strict=True)) | {"n": n} | bounds for pair, n in pairs.items()]
    return found


ranges = st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.integers(-3, 3)).map(
    lambda p: tuple(SlidingWindow("ts", size=size, slide=p[0], origin=p[3]) for size in p[1:3])
)


@share(1)
@given(ranges, streams([SCHEMA, OTHER], tuples=12, promises=("linear",), nulls=("k", "v", "w")), st.integers(1, 3))
def test_the_changes_of_two_relations_are_joined_to_those_of_the_joined_relation(
    windows: tuple[SlidingWindow, SlidingWindow], script: Script, rows: int
) -> None:
    check_operator(
        lambda: joined(*windows, page_rows=rows),
        script,
        naive=lambda left, right: naive_join(*windows, left, right),
        laws=ALL_LAWS - {3},
    )


@given(ranges, streams([SCHEMA, OTHER], tuples=12, promises=("linear",), nulls=("k", "v", "w")))
def test_a_join_of_changes_promises_what_both_inputs_did_and_holds_what_lives(
    windows: tuple[SlidingWindow, SlidingWindow], script: Script
) -> None:
    """At every promise the pairs add up to the joined relation, and only tuples of windows to come are held."""
    fronts = [Chain([Bucket(window), Expire()]) for window in windows]
    join = SignedJoin([("k", "k")])
    join.output_schema(*(f.output_schema(s) for f, s in zip(fronts, (SCHEMA, OTHER), strict=True)))
    tables: tuple[list[Row], list[Row]] = ([], [])
    bounds = [-(10**9), -(10**9)]
    changes: list[Row] = []
    for port, element in script:
        if isinstance(element, Page):
            tables[port].extend(element.rows())
        elif element.is_end:
            bounds[port] = 10**9
        elif (bound := element.bound("ts")) is not None:
            bounds[port] = builtins.max(bounds[port], windows[port].complete(int(str(bound))))
        found = [step for change in drive(fronts[port], [element]) for step in drive(join, [(port, change)])]
        changes += rows(found)
        if not isinstance(element, Page):
            wanted = naive_join(*windows, *tables)
            for wid in range(-40, builtins.min(*bounds, 40)):
                at = {tuple(r[name] for name in PAIRS): r["n"] for r in wanted if r["wid"] == wid}
                net = relation([{**{name: c[name] for name in (*PAIRS, "wid", "sign")}} for c in changes], wid)
                assert net == Counter(at)
        for told in punctuations(found):
            assert told.is_end or told.bound("wid") == builtins.min(*bounds)
    assert join.statistics()["state_tuples"] == 0 and len(join._index) == 0


def test_what_left_both_relations_is_held_no_more() -> None:
    schema = Schema.of(k=pa.string(), v=pa.int64(), wid=pa.int64(), sign=pa.int8(), progress=["wid"])
    join = SignedJoin([("k", "k")])
    join.output_schema(schema, schema)
    page = Page.of(schema, {"k": ["a", "a", "a", "b"], "v": [1, 1, 1, 2], "wid": [1, 3, 4, 2], "sign": [1, -1, 1, 1]})
    assert drive(join, [(0, page)]) == [] and join.statistics()["state_tuples"] == 4
    assert list(map(str, drive(join, [(1, before("wid", 3)), (0, before("wid", 7))]))) == ["[wid < 3]"]
    assert join.statistics()["state_tuples"] == 2
    found = drive(
        join, [(1, Page.of(schema, {"k": ["a", None, "c"], "v": [5, 6, 7], "wid": [3, 3, 3], "sign": [1] * 3}))]
    )
    assert [(r["v"], r["right_v"], r["wid"], r["sign"]) for r in rows(found)] == [(1, 5, 4, 1)]
    assert drive(join, [(0, END)]) == [] or join.statistics()["state_tuples"] == 2
    assert list(map(str, drive(join, [(1, END)]))) == ["[END]"] and join.statistics()["state_tuples"] == 0


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (SCHEMA, None, 'the left input has no "wid"; put an Expire'),
        (None, Schema.of(k=pa.int64(), wid=pa.int64(), sign=pa.int8()), '"k" of the left input is string'),
        (None, Schema.of(x=pa.string(), wid=pa.int64(), sign=pa.int8()), 'join, right input[^$]*"k"'),
    ],
)
def test_inputs_that_cannot_be_joined_are_refused(left: Schema | None, right: Schema | None, told: str) -> None:
    changes = Schema.of(k=pa.string(), wid=pa.int64(), sign=pa.int8(), progress=["wid"])
    with pytest.raises(SchemaError, match=told):
        SignedJoin([("k", "k")]).output_schema(left or changes, right or changes)


@attrs.define(eq=False)
class LateDeletion(Expire):
    """Delete a tuple one window after its last."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        super().process(page, emit, port)
        self._until[-len(page) :] += 1


@attrs.define(eq=False)
class Forgetful(SignedAggregate):
    """Lose the changes of windows that are not complete when saved."""

    def state(self) -> State:
        saved = dict(super().state())
        saved |= {"wids": np.empty(0, np.int64), "signs": np.empty(0, np.int64), "log.length": 0}
        return saved | ({"log.tuples": read_batch(saved, "log.tuples").slice(0, 0)} if "log.tuples" in saved else {})

    def restore(self, state: Mapping[str, StateValue]) -> None:
        if "input" in state:
            super().restore(state)


@pytest.mark.parametrize(("expire", "aggregate", "law"), [(LateDeletion, SignedAggregate, 10), (Expire, Forgetful, 9)])
def test_a_deletion_too_late_and_lost_changes_are_caught(
    expire: type[Expire], aggregate: type[SignedAggregate], law: int
) -> None:
    caught: set[int] = set()
    window = SlidingWindow("ts", size=3, slide=2)
    functions: dict[str, AggregateFunction] = {"n": count(), "total": sum("v")}
    answers = {name: ANSWERS[name] for name in functions}

    @share(2.5)
    @given(streams(SCHEMA, tuples=8, promises=("linear",), nulls=()))
    def attempt(script: Script) -> None:
        try:
            check_operator(
                lambda: Chain([Bucket(window), expire(), aggregate(window, functions, ("k",))]),
                script,
                naive=lambda t: naive_windows(window, answers, ("k",), t),
                laws={law},
            )
        except OperatorBug as bug:
            caught.add(9 if "not been inserted" in str(bug) else int(str(bug).split()[1]))

    attempt()
    assert law in caught
