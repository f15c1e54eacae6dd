"""Windows fire behind the tuple or the signal that makes their condition hold, whatever the pages and promises."""

from __future__ import annotations

import builtins
import doctest
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import signals
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.errors import SchemaError
from operators.functions import (
    argmax,
    avg,
    count,
    count_distinct,
    first,
    last,
    max,
    mean_gap,
    median,
    mode,
    sum,
)
from operators.kernels.windows.conditions import holds, stepped
from operators.kernels.windows.firings import part_firings, runs
from operators.protocol import Element, Operator
from operators.signals import Clock, Event, HearsSignals, Signal
from operators.testing import Script, check_operator, streams
from operators.testing.laws import ALL_LAWS
from operators.window import LandmarkWindow, SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.triggers import aggregate, condition, cuts, promised
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Compiled, Condition, Rows, Seen, Then, Until
from operators.window_aggregate.triggers.firing_slices import FiringSlices
from operators.window_aggregate.triggers.firings import Firings
from operators.window_aggregate.triggers.promised import At, Every, Promised
from punctuation import ANY, END, AtMost, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive_triggers import naive_triggers

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v"), "last": last("v")}
FLUSH = Event("flush")
SIGNALS: tuple[Signal, ...] = (FLUSH, Event("other"), Clock(5))


def of_values(function: Callable[[list[int]], int]) -> Callable[[list[Row]], object]:
    def answer(members: list[Row]) -> object:
        values = [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]
        return function(values) if values else None

    return answer


ANSWERS = {
    "n": len,
    "total": of_values(builtins.sum),
    "most": of_values(builtins.max),
    "last": of_values(lambda values: values[-1]),
}
leaves = st.one_of(st.builds(Rows, st.integers(1, 4)), st.sampled_from(SIGNALS))
PROMISES = (
    Promised(("k",), (("k", ANY),)),
    Promised(("k = 'a'",), (("k", Equals("a")),)),
    Promised(("ts",), (("ts", ANY),)),
    Promised(("v <= 2",), (("v", AtMost(2)),)),
)
of_promises = st.one_of(
    st.integers(1, 4).map(lambda ticks: Every(ticks, ticks)),
    st.integers(1, 4).map(lambda ticks: At(ticks, ticks)),
    st.sampled_from(PROMISES),
)


def combined(leaves: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def grown(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        several = st.lists(inner, min_size=1, max_size=3).map(tuple)
        stops = st.one_of(leaves, st.builds(AllOf, st.lists(leaves, min_size=1, max_size=2).map(tuple)))
        return st.one_of(
            st.builds(AnyOf, several),
            st.builds(AllOf, several),
            st.builds(Then, inner, inner),
            st.builds(Until, inner, stops),
        )

    return st.recursive(leaves, grown, max_leaves=5)


conditions = combined(leaves)
windows = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 9), slide=st.integers(1, 7), origin=st.integers(-2, 2)
)


@attrs.frozen
class Asked:
    """A window, its condition and groups, and what is made of its results."""

    window: SlidingWindow
    condition: Condition
    by: tuple[str, ...]
    discards: bool
    tagged: bool = False
    """Whether a Bucket is in front."""

    def operator(self) -> Operator:
        fires = TriggeredAggregate(
            self.window,
            FUNCTIONS,
            self.by,
            condition=self.condition,
            discards=self.discards,  # type: ignore[arg-type]
            tagged=self.tagged,
        )
        return Chain([Bucket(self.window, hands_on=True), fires]) if self.tagged else fires

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]:
        return naive_triggers(self.window, self.condition, ANSWERS, self.by, moments, discard=self.discards)


groups = st.sampled_from([(), ("k",)])
asked = st.builds(Asked, windows, conditions, groups, st.booleans(), st.booleans())
hearing = st.builds(
    Asked, windows, combined(st.one_of(leaves, of_promises, of_promises)), groups, st.booleans(), st.booleans()
)
Moment: TypeAlias = "Element | Signal"


@share(1)
@given(asked, streams(SCHEMA, group=("k",), tuples=12))
def test_every_paging_and_punctuation_gives_the_naive_answer(one: Asked, script: Script) -> None:
    check_operator(one.operator, script, naive=one.naive, order_matters=True)


sizes = st.builds(SlidingWindow, st.just("ts"), size=st.integers(3, 9), slide=st.integers(1, 3))
counts = st.one_of(st.builds(Rows, st.integers(3, 30)), conditions)


@share(0.3)
@given(
    st.builds(Asked, sizes, counts, groups, st.booleans()),
    st.lists(
        st.tuples(
            st.sampled_from(["nothing", "nothing", "signal", "promise"]),
            st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 9)), min_size=8, max_size=20),
        )
    ),
    st.sampled_from([0, 1, 4]),
)
def test_what_several_windows_get_of_a_page_is_what_each_gets_tuple_by_tuple(
    one: Asked, pages: list[tuple[str, list[tuple[int, str, int]]]], step: int
) -> None:
    """Pages have several tuples a group, and lie in the same windows mostly, also as those before."""
    elements: list[Moment] = []
    for place, (behind, page) in enumerate(pages):
        elements.append(Page.of_rows(SCHEMA, [(ts // (5 - step) + step * place, k, v) for ts, k, v in page]))
        if behind != "nothing":
            elements.append(FLUSH if behind == "signal" else before("ts", step * (place + 1)))
    elements.append(END)
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=True)) == right == bag(run(one, elements, saving=False))
    assert bag(run(one, one_by_one(elements), saving=False)) == right


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("slide", [1, 7])
def test_a_tuple_in_thousands_of_windows_fires_each_of_them(by: tuple[str, ...], slide: int) -> None:
    one = Asked(SlidingWindow("ts", size=4200 * slide, slide=slide), Rows(2), by, False)
    found = run(one, [Page.of_rows(SCHEMA, [(0, "a", 1), (0, "a", 3), (0, "a", 5)]), END], saving=False)
    told = Counter((row["n"], row["total"], row["final"]) for row in found)
    assert told == {(2, 4, False): 4200, (3, 9, True): 4200}
    assert len({row["wid"] for row in found}) == 4200


class Question(Protocol):
    """Windows that fire, and their answer by definition."""

    def operator(self) -> Operator: ...

    def naive(self, moments: Sequence[Row | Signal | int | Punctuation]) -> list[Row]: ...


def hear(operator: Operator, signal: Signal, emit: Callable[[Element], None]) -> None:
    fires = operator.links()[-1] if isinstance(operator, Chain) else operator
    assert isinstance(fires, HearsSignals)
    fires.signal(signal, emit)


def moments(elements: Sequence[Moment]) -> list[Row | Signal | int | Punctuation]:
    """Give tuples, signals and promises one by one."""
    found: list[Row | Signal | int | Punctuation] = []
    for element in elements:
        if isinstance(element, Page):
            found += element.plain_rows()
        elif isinstance(element, Event | Clock) or not element.is_end:
            found.append(element)
    return found


def run(one: Question, elements: Sequence[Moment], *, saving: bool) -> list[Row]:
    operator, emitted = one.operator(), list[Element]()
    for element in elements:
        if isinstance(element, Event | Clock):
            hear(operator, element, emitted.append)
        else:
            deliver(operator, element, emitted.append)
        if saving:
            fresh = one.operator()
            fresh.output_schema(SCHEMA)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh
    assert operator.statistics()["state_tuples"] == 0
    return [row for element in emitted if isinstance(element, Page) for row in element.plain_rows()]


def bag(found: Sequence[Row]) -> Counter[str]:
    return Counter(map(str, found))


@st.composite
def signalled(draw: st.DrawFn) -> list[Moment]:
    """Draw a stream with signals between its elements."""
    script = draw(streams(SCHEMA, group=("k",), tuples=14))
    elements: list[Moment] = []
    for _, element in script.steps:
        elements += draw(st.lists(st.sampled_from(SIGNALS), max_size=2))
        elements.append(element)
    return elements


def one_by_one(elements: Sequence[Moment]) -> list[Moment]:
    found: list[Moment] = []
    for element in elements:
        found += [element.slice(i, i + 1) for i in range(len(element))] if isinstance(element, Page) else [element]
    return found


@share(1)
@given(st.one_of(asked, hearing), signalled())
def test_signals_and_promises_fire_the_windows_that_are_open_there(one: Asked, elements: list[Moment]) -> None:
    right = bag(one.naive(moments(elements)))
    assert bag(run(one, elements, saving=False)) == right
    assert bag(run(one, elements, saving=True)) == right
    assert bag(run(one, one_by_one(elements), saving=False)) == right


@share(0.5)
@given(hearing, streams(SCHEMA, group=("k",), tuples=12))
def test_windows_that_promises_fire_keep_the_laws(one: Asked, script: Script) -> None:
    # More promises fire more often, and the answer is of promises, too.
    check_operator(one.operator, script, laws=ALL_LAWS - {7, 10}, order_matters=True)


@share(1)
@given(asked, signalled())
def test_final_results_do_not_depend_on_triggers_and_those_of_discard_add_up(
    one: Asked, elements: list[Moment]
) -> None:
    found = run(one, elements, saving=False)
    plain = attrs.evolve(one, condition=Event("never"), discards=False)
    whole = run(plain, elements, saving=False)
    if one.discards:
        totals: Counter[str] = Counter()
        for row in found:
            totals[str([row[name] for name in (*one.by, "wid")])] += int(row["n"])  # type: ignore[arg-type]
        assert totals == {str([row[name] for name in (*one.by, "wid")]): row["n"] for row in whole}
    else:
        final = [{**row, "firing": 0} for row in found if row["final"]]
        assert bag(final) == bag(whole)


@share(1)
@given(asked.filter(lambda one: not one.discards), signalled())
def test_what_is_taken_back_adds_up_at_each_moment(one: Asked, elements: list[Moment]) -> None:
    operator, refine = one.operator(), Refine(one.by)
    standing: Counter[str] = Counter()
    newest: dict[str, str] = {}
    names = (*one.by, "wid")

    def take(element: Element) -> None:
        made: list[Element] = []
        if isinstance(element, Page):
            for row in element.plain_rows():
                newest[str([row[name] for name in names])] = str([row[name] for name in FUNCTIONS])
        deliver(refine, element, made.append)
        for row in rows(made):
            standing[str([row[name] for name in names]) + str([row[name] for name in FUNCTIONS])] += int(row["sign"])  # type: ignore[arg-type]

    for element in elements:
        if isinstance(element, Event | Clock):
            hear(operator, element, take)
        else:
            deliver(operator, element, take)
        assert +standing == Counter(key + value for key, value in newest.items())
        assert min(standing.values(), default=0) >= 0
    assert refine.statistics()["state_tuples"] == 0


@share(0.5)
@given(conditions, st.lists(st.tuples(*[st.integers(0, 7)] * 5), min_size=1, max_size=5))
def test_a_compiled_condition_says_what_its_parts_say(one: Condition, drawn: list[tuple[int, ...]]) -> None:
    compiled = Compiled.of(one)
    rows, more, signals, others, steps = (np.array(column) for column in zip(*drawn, strict=True))
    seen = Seen(rows, rows + more, signals, signals | others, steps)
    held, active = np.empty((2, compiled.nodes.shape[1]), np.bool_)
    right = compiled.node.lacking(seen) == 0
    behind = compiled.node.stepped(seen, np.ones(len(rows), np.bool_))
    columns = (seen.rows, seen.all_rows, seen.signals, seen.all_signals, seen.steps)
    for i in range(len(rows)):
        assert holds(compiled.nodes, held, *(column[i] for column in columns)) == right[i]
        # A window steps when it fires, which is when its condition holds.
        assert not right[i] or stepped(compiled.nodes, held, active, steps[i]) == behind[i]


@given(st.lists(st.integers(0, 4), max_size=20), st.lists(st.integers(1, 3), min_size=5, max_size=5), st.integers(1, 3))
def test_firings_are_listed_as_they_come_and_their_tuples_parted(drawn: list[int], due: list[int], fresh: int) -> None:
    slots, firings, places = np.array(drawn, np.int32), Firings(fresh), np.full(5, -1, np.int32)
    firings.reserve(5)
    firings.init(np.arange(5, dtype=np.int32))
    firings.lack(np.arange(5, dtype=np.int32), np.array(due))
    found = firings.list_firings(slots, Compiled.of(Rows(fresh)), places)
    made, targets = 100 + np.arange(len(found.fires), dtype=np.int32), np.empty(len(slots), np.int32)
    part_firings(slots, found.fires, made, places, targets)
    right: list[tuple[int, int, int, int]] = []
    wanted = list(drawn)
    for i, slot in enumerate(drawn):
        rows = drawn[: i + 1].count(slot)
        if rows >= due[slot] and (rows - due[slot]) % fresh == 0:
            mine = [j for j in range(i + 1) if drawn[j] == slot and wanted[j] == slot]
            for j in mine:
                wanted[j] = 100 + len(right)
            right.append((i, slot, (rows - due[slot]) // fresh, rows))
    listed = (found.fires, found.slots, found.numbers, found.rows)
    assert list(zip(*(column.tolist() for column in listed), strict=True)) == right
    assert found.before.tolist() == [
        builtins.max((n for n, one in enumerate(right[:at]) if one[1] == slot), default=-1)
        for at, (_, slot, _, _) in enumerate(right)
    ]
    later = [[one[1] for one in right[at + 1 :]] for at in range(len(right))]
    assert found.last.tolist() == [one[1] not in others for one, others in zip(right, later, strict=True)]
    assert targets.tolist() == wanted
    assert (places == -1).all()
    assert firings.new(np.arange(5, dtype=np.int32)).tolist() == [
        drawn.count(slot) - builtins.max((one[3] for one in right if one[1] == slot), default=0) for slot in range(5)
    ]


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.lists(st.lists(st.integers(1, 9), min_size=3, max_size=3), min_size=3, max_size=3),
    st.integers(1, 4),
    st.booleans(),
    st.integers(1, 9),
)
def test_windows_of_slices_fire_as_each_by_itself(
    drawn: list[int], due: list[list[int]], fresh: int, discards: bool, room: int
) -> None:
    """Three groups have a slice each, of three windows; slots are sets of tuples, and 9 + 3 are made at first."""
    firings, slices = Firings(fresh), FiringSlices(range(5, 8))
    firings.reserve(500)
    firings.init(np.arange(500, dtype=np.int32))
    windows, own = np.arange(9, dtype=np.int32).reshape(3, 3), np.arange(9, 12, dtype=np.int32)
    firings.lack(windows.ravel(), np.array(due).ravel())
    firings.await_first(own, windows)
    slices.widen(3)
    slices.add(np.arange(3, dtype=np.int32), own, windows)
    held: list[list[int]] = [[] for _ in range(500)]
    current, groups, found = np.full(500, -1, np.int32), np.array(drawn, np.int32), list[tuple[int, ...]]()
    spare, begin, results = list(range(12, 500)), 0, list[list[int]]()
    while begin < len(drawn):
        given, spare = np.array(spare[: 4 * room], np.int32), spare[4 * room :]
        fired = firings.fire_slices(slices, groups, begin, given, current, discards=discards)
        for i, target in enumerate(fired.targets.tolist(), begin):
            held[target].append(i)
        for into, source in zip(fired.into.tolist(), fired.source.tolist(), strict=True):
            held[into] += held[source]
        results += [list(held[slot]) for slot in fired.slots.tolist()]
        listed = (fired.fires, fired.slices, fired.places, fired.numbers, fired.rows)
        found += zip(*(column.tolist() for column in listed), strict=True)
        for window in windows.ravel().tolist():
            if current[window] >= 0:
                held[window], current[window] = held[current[window]], -1
        for slot in fired.freed.tolist():
            held[slot] = []
        spare += fired.freed.tolist()
        assert begin < fired.end and len({*spare, *slices.slots.tolist()}) == 491
        begin = fired.end
    into, source = firings.settle_slices(slices.slots, slices.windows)
    for window, slot in zip(into.tolist(), source.tolist(), strict=True):
        held[window] += held[slot]
    right, wanted, last = list[tuple[int, ...]](), list[list[int]](), [[0] * 3 for _ in range(3)]
    for i, group in enumerate(drawn):
        mine = [j for j in range(i + 1) if drawn[j] == group]
        for place, least in enumerate(due[group]):
            if len(mine) >= least and (len(mine) - least) % fresh == 0:
                right.append((i, group, place, (len(mine) - least) // fresh, len(mine)))
                wanted.append(mine[last[group][place] * discards :])
                last[group][place] = len(mine)
    assert (found, results) == (right, wanted)
    for group in range(3):
        mine = [j for j in range(len(drawn)) if drawn[j] == group]
        assert [held[slot] for slot in windows[group]] == [mine[n * discards :] for n in last[group]]
        assert firings.had(windows[group]).tolist() == [len(mine)] * 3
        assert firings.new(windows[group]).tolist() == [len(mine) - n for n in last[group]]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=9), st.sampled_from([1, 300]))
def test_runs_end_where_the_windows_of_tuples_change(drawn: list[tuple[int, int]], times: int) -> None:
    listed = [one for one in drawn for _ in range(times)]
    first, last = (np.array(column, np.int64) for column in zip(*listed, strict=True))
    right = [i for i in range(1, len(listed)) if listed[i] != listed[i - 1]] + [len(listed)]
    ends = np.empty(4, np.int64)
    n = runs(first, last, ends)
    assert ends[:n].tolist() == (right if len(right) <= 4 else [])


FUNCTIONS_OF_ALL_KINDS = {
    "avg": avg("v"), "median": median("v"), "kinds": count_distinct("v"), "mode": mode("v"),
    "first": first("v"), "most": max("v"), "where": argmax("v", "ts"), "gap": mean_gap("ts"),
}  # fmt: skip


@share(0.5)
@given(streams(SCHEMA, group=("k",), tuples=20), st.booleans())
def test_firings_in_one_page_are_those_in_pages_of_one_tuple_for_every_kind_of_function(
    script: Script, discards: bool
) -> None:
    def operator() -> Chain:
        fires = TriggeredAggregate(
            WINDOW,
            FUNCTIONS_OF_ALL_KINDS,
            condition=Rows(2),
            discards=discards,  # type: ignore[arg-type]
        )
        return Chain([Bucket(WINDOW), fires])

    check_operator(operator, script, laws=(5, 8, 9), order_matters=True)


WINDOW = SlidingWindow("ts", size=10, slide=10)


def fired(one: Condition, elements: Sequence[Moment], **options: bool) -> list[tuple[object, ...]]:
    found = run(Asked(WINDOW, one, (), options.get("discards", False)), elements, saving=False)
    return [(row["n"], row["fired"], row["final"], row["firing"]) for row in found]


def ticks(*times: int) -> Page:
    return Page.of(SCHEMA, {"ts": times, "k": ["a"] * len(times), "v": [1] * len(times)})


def test_a_window_fires_behind_the_tuple_that_makes_it() -> None:
    assert fired(Rows(2), [ticks(1, 2, 3, 4, 5), END]) == [
        (2, None, False, 0), (4, None, False, 1), (5, 10, True, 2)
    ]  # fmt: skip
    assert fired(Rows(2), [ticks(1, 2, 3, 4, 5), END], discards=True) == [
        (2, None, False, 0), (2, None, False, 1), (1, 10, True, 2)
    ]  # fmt: skip
    assert fired(Rows(2), [ticks(1, 2), END], discards=True) == [(2, None, False, 0)]


def test_a_signal_fires_windows_that_have_something_new() -> None:
    elements = [FLUSH, ticks(1), FLUSH, FLUSH, ticks(2), before("ts", 10), FLUSH, END]
    assert fired(FLUSH, elements) == [(1, None, False, 0), (2, 10, True, 1)]


def test_conditions_compose() -> None:
    page = [ticks(1, 2, 3, 4, 5, 6, 7), END]
    final = (7, 10, True)
    assert fired(AllOf((Rows(2), FLUSH)), [ticks(1), FLUSH, ticks(2, 3), END]) == [
        (2, None, False, 0), (3, 10, True, 1)
    ]  # fmt: skip
    assert fired(Then(Rows(1), Rows(3)), page) == [
        (1, None, False, 0), (4, None, False, 1), (7, None, False, 2), (*final, 3)
    ]  # fmt: skip
    assert fired(Until(Rows(2), Rows(6)), page) == [(2, None, False, 0), (4, None, False, 1), (*final, 2)]
    # What stops holds no more where the other begins to; two that hold at different times never hold together.
    assert fired(AllOf((Rows(2), Until(Rows(1), Rows(2)))), page) == [(*final, 0)]
    assert fired(AllOf((Rows(2), AnyOf((Until(Rows(1), Rows(2)), Rows(4))))), page) == [
        (4, None, False, 0),
        (*final, 1),
    ]
    assert fired(Until(Rows(2), FLUSH), [ticks(1), FLUSH, ticks(2, 3), END]) == [(3, 10, True, 0)]


def test_event_time_fires_windows_as_promises_reach_their_ticks() -> None:
    last = (2, 10, True)
    assert fired(Every(4, 4), [ticks(1, 2), before("ts", 3), before("ts", 4), before("ts", 9), END]) == [
        (2, None, False, 0), (*last, 1)
    ]  # fmt: skip
    assert fired(At(0.5, 5), [ticks(1), before("ts", 1), ticks(7), before("ts", 7), ticks(8), END]) == [
        (2, None, False, 0), (3, 10, True, 1)
    ]  # fmt: skip
    # What was reached before the first tuple of a window fires it not, but stops what is to end there.
    late = [before("ts", 6), ticks(7, 8), before("ts", 8), END]
    assert fired(AnyOf((At(0.5, 5), Rows(5))), late) == [(*last, 0)]
    assert fired(Until(Rows(1), At(0.5, 5)), late) == [(*last, 0)]
    assert fired(Until(Rows(1), At(0.5, 5)), [ticks(1), before("ts", 5), ticks(8), END]) == [
        (1, None, False, 0), (*last, 1)
    ]  # fmt: skip


def test_a_promise_that_matches_fires_the_windows_it_speaks_of() -> None:
    of_a, both = Promised(("k = 'a'",), (("k", Equals("a")),)), [ticks(1), ticks(12)]
    promise = Punctuation({"k": Equals("a"), "ts": Below(10)})
    assert fired(of_a, [*both, promise, promise, END]) == [(1, None, False, 0), (1, 10, True, 1), (1, 20, True, 0)]
    assert fired(of_a, [*both, Punctuation({"k": Equals("b")}), END]) == [(1, 10, True, 0), (1, 20, True, 0)]


def test_a_condition_reads_as_it_is_meant() -> None:
    one = Then(Rows(1), AnyOf((Rows(1000), Clock(5 * 10**9), AllOf((FLUSH, Rows(2))))))
    said = "first after 1 row, then (after 1,000 rows or every 5 s by the clock or (on 'flush' and after 2 rows))"
    assert str(one) == said
    assert str(Until(Rows(2), FLUSH)) == "after 2 rows until on 'flush'"


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SchemaError, match="no trigger that can stop another"):
        Compiled.of(Until(Rows(1), Then(Rows(1), Rows(2))))
    with pytest.raises(SchemaError, match="at most 62 different signals"):
        Compiled.of(AnyOf(tuple(Event(str(i)) for i in range(63))))
    landmark = LandmarkWindow("ts", slide=5)
    tagged = Bucket(landmark).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="all later windows of RANGE ALL"):
        TriggeredAggregate(landmark, {"n": count()}, condition=Rows(1)).output_schema(tagged)
    tagged = Bucket(WINDOW).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match='"firing" is the name of what tells'):
        TriggeredAggregate(WINDOW, {"firing": count()}, condition=Rows(1)).output_schema(tagged)


def test_examples() -> None:
    for module in (aggregate, condition, cuts, promised, signals):
        assert doctest.testmod(module).failed == 0
