"""A filter with an expensive condition gives the same in whatever order answers come; cheap tuples wait for none."""

from __future__ import annotations

import doctest
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import background
from operators.background import Answer, Defers, Failed
from operators.data.page import Bools, Page, Row
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive, punctuations, rows
from operators.errors import SchemaError
from operators.expression import Column, Expression, Opaque, expensive
from operators.expression.expensive import Expensive, limits, marked
from operators.protocol import Element, Emit, Promises, State, StateValue
from operators.rows import deferred
from operators.rows.deferred import DeferredFilter
from operators.rows.filter import Filter
from operators.streams import outstanding
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_filter
from tests.naive_deferred import NaiveDeferred, Promise, Tuple

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])
X, K = Column("x"), Column("k")
PREDICATES: Mapping[str, Expression] = {
    "or": (K == "b") | Expensive(X > 0),
    "and": (K != "b") & Expensive(X > 0),
    "both": (K == "a") | ((K == "b") & ~Expensive(X > 0)) | Expensive(X == 2),
    "alone": Expensive(X > 0),
}


@attrs.define
class AnyOrder:
    """Make calls when it is asked for answers, and as it likes: some of them, in any order."""

    seed: int = 0
    piece: int = 2
    most: int = 3
    workers: int = 2
    all: bool = False
    """Whether to give all answers that are left."""
    _calls: list[tuple[int, Callable[[], object]]] = attrs.field(init=False, factory=list)
    _random: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def submit(self, number: int, call: Callable[[], object]) -> None:
        self._calls.append((number, call))

    def answers(self) -> Sequence[Answer]:
        taken = [one for one in self._calls if self.all or self._random.random() < 0.4]
        self._calls = [one for one in self._calls if one not in taken]
        self._random.shuffle(taken)
        return [(number, call()) for number, call in taken]


class Driven:
    """Drive a filter as a runtime does: answers are taken whenever, and all of them when the stream has ended."""

    inputs = 1

    def __init__(self, predicate: Expression, seed: int) -> None:
        self.background = AnyOrder(seed)
        self.operator = DeferredFilter(predicate).deferring(self.background)

    def output_schema(self, *inputs: Schema) -> Schema:
        return self.operator.output_schema(*inputs)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.operator.process(page, emit)
        self.operator.take_answers(emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self.operator.punctuate(punctuation, emit)
        if punctuation.is_end:
            self.background.all = True
            while self.operator.outstanding:
                self.operator.take_answers(emit)

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        self.operator.process_with(page, promises, emit)

    def state(self) -> State:
        return self.operator.state()

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self.operator.restore(state)

    def statistics(self) -> dict[str, int]:
        return self.operator.statistics()


@pytest.mark.parametrize("name", PREDICATES)
@share(0.5)
@given(streams(SCHEMA, group=("k",)), st.integers(0, 99))
def test_it_keeps_the_laws_whenever_answers_come(name: str, script: Script, seed: int) -> None:
    predicate, plain = PREDICATES[name], _plain(PREDICATES[name])
    check_operator(lambda: Driven(predicate, seed), script, naive=lambda table: naive_filter(plain, table, SCHEMA))


@share(0.5)
@given(streams(SCHEMA, group=("k",)))
def test_without_a_background_it_is_the_plain_filter(script: Script) -> None:
    predicate, plain = PREDICATES["both"], _plain(PREDICATES["both"])
    check_operator(
        lambda: DeferredFilter(predicate),
        script,
        naive=lambda table: naive_filter(plain, table, SCHEMA),
        settled=lambda tables, progress: naive_filter(plain, tables[0], SCHEMA),
        promised=lambda tables, progress: list(progress[0].promises()),
    )
    assert len(drive(DeferredFilter(predicate), script)) == len(drive(Filter(plain), script))


def _plain(predicate: Expression) -> Expression:
    """Return the predicate without marks."""
    if isinstance(predicate, Expensive):
        return predicate.condition
    parts = {
        field.name: _plain(value)
        for field in attrs.fields(type(predicate))
        if isinstance(value := getattr(predicate, field.name), Expression)
    }
    return attrs.evolve(predicate, **parts) if parts else predicate


BEFORE = -100
"""Below all times here."""
Event = tuple[str, int, int]
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("tuple"), st.integers(-3, 2), st.sampled_from((2, 3, 3, 1, 0))),
        st.tuples(st.just("tuple"), st.integers(-3, 2), st.sampled_from((2, 3, 3, 1, 0))),
        st.tuples(st.just("promise"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("answer"), st.integers(0, 99), st.just(0)),
    ),
    min_size=3,
    max_size=18,
)
"""Tuples and promises are told by how far they are from the last promise, so that many are late."""


@share(10)
@given(EVENTS, st.booleans(), st.booleans())
def test_a_promise_waits_for_exactly_the_tuples_that_it_covers(
    events: list[Event], saving: bool, together: bool
) -> None:
    """Also of tuples that break a promise: what reads them behind the filter finds them as late as they came."""
    schema = Schema.of(ts=pa.int64(), name=pa.int64(), x=pa.int64(), progress=["ts"])
    by_hand = ByHand()
    operator = DeferredFilter((X == 1) | ((X != 0) & Expensive(X == 3))).deferring(by_hand)
    naive, highest, named = NaiveDeferred(), 0, 0
    told, found = BEFORE, list[Element]()
    waiting: list[tuple[Page, list[int]]] = []

    def hand_over() -> None:
        for page, bounds in waiting:
            if bounds:
                positions = np.full(len(bounds), len(page), np.int64)
                operator.process_with(page, Promises("ts", positions, np.array(bounds)), found.append)
            else:
                operator.process(page, found.append)
        waiting.clear()

    expected: list[int | str] = []
    for kind, value, what in events:
        if kind == "tuple":
            value += highest
            expected += naive.arrive(Tuple(named, value, (False, True, None, None)[what], what == 3))
            waiting.append((Page.of(schema, {"ts": [value], "name": [named], "x": [what]}), []))
            named += 1
        elif kind == "promise":
            highest = value = highest + value
            expected += naive.arrive(Promise(value))
            if together and waiting:
                waiting[-1][1].append(value)
            else:
                hand_over()
                operator.punctuate(before("ts", value), found.append)
        else:
            hand_over()
            chosen = random.Random(value)
            named_now = {name_of(call) for call in by_hand.calls.values()}
            names = {name for name in sorted(named_now) if chosen.random() < 0.5}
            expected += naive.answer(names.__contains__)
            by_hand.free = names
            operator.take_answers(found.append)
            by_hand.free = set()
        if not (together and waiting):
            hand_over()
            if saving:
                state = decode_state(encode_state(operator.state()))
                by_hand.calls.clear()
                operator = DeferredFilter(operator.predicate).deferring(by_hand)
                operator.restore(state)
            told = _compared(found, expected, naive.promised(), told)
    hand_over()
    expected += naive.answer(lambda name: True)
    while by_hand.calls:
        by_hand.free = set(range(named))
        operator.take_answers(found.append)
        expected += naive.answer(lambda name: True)
    _compared(found, expected, BEFORE, told)
    assert operator.statistics()["state_tuples"] == 0 == operator.nbytes
    _late_as_they_came(events, found)


def _compared(found: list[Element], expected: list[int | str], reached: int, told: int) -> int:
    """Check that what has left so far is the same, and return how far is promised."""
    assert sorted(number(row, "name") for row in rows(found)) == sorted(one for one in expected if isinstance(one, int))
    bounds = [int(str(promise.bound("ts"))) for promise in punctuations(found)]
    promised = max((int(one[2:]) for one in expected if isinstance(one, str)), default=BEFORE)
    assert max(bounds, default=BEFORE) == max(promised, reached, told)
    return max(promised, reached, told)


def _late_as_they_came(events: list[Event], found: list[Element]) -> None:
    """Check that each tuple comes behind those promises that it breaks which it came behind, and no others."""
    came: dict[int, int] = {}
    highest, bound = 0, BEFORE
    for kind, value, _ in events:
        if kind == "tuple":
            came[len(came)] = bound if value + highest < bound else BEFORE
        elif kind == "promise":
            highest = bound = highest + value
    promised = BEFORE
    for element in found:
        if isinstance(element, Punctuation):
            promised = int(str(element.bound("ts")))
            continue
        for row in rows([element]):
            assert (promised if number(row, "ts") < promised else BEFORE) == came[number(row, "name")]


def number(row: Row, name: str) -> int:
    return int(str(row[name]))


def name_of(call: Callable[[], object]) -> int:
    """Return the name of the tuple that a call is about."""
    assert isinstance(call, partial)
    page = call.args[1]
    assert isinstance(page, Page)
    return int(page.ticks("name")[0])


@attrs.define
class ByHand:
    """Answer the calls for tuples of certain names only."""

    workers: int = 1
    piece: int = 1
    most: int = 1000
    free: set[int] = attrs.field(factory=set)
    calls: dict[int, Callable[[], object]] = attrs.field(factory=dict)

    def submit(self, number: int, call: Callable[[], object]) -> None:
        self.calls[number] = call

    def answers(self) -> Sequence[Answer]:
        numbers = [n for n, call in self.calls.items() if name_of(call) in self.free]
        return [(number, self.calls.pop(number)()) for number in reversed(numbers)]


PAGE = Page.of(SCHEMA, {"ts": [1, 2, 3, 4], "k": ["b", "a", "b", "c"], "x": [0, 1, 0, 0]})


def test_cheap_tuples_overtake_across_pages_and_promises_that_cover_no_open_tuple_pass() -> None:
    operator = DeferredFilter(PREDICATES["or"]).deferring(_Silent())
    found = drive(operator, [PAGE, before("ts", 2), before("ts", 3), PAGE.select(PAGE["ts"] == 3)])
    assert [row["ts"] for row in rows(found)] == [1, 3, 3]
    assert punctuations(found) == [before("ts", 2)]
    other = Punctuation({"k": Equals("b"), "ts": Below(9)})
    assert drive(operator, [other]) == [other]
    assert drive(operator, [END]) == []
    counted = operator.statistics()
    assert (counted["decided"], counted["evaluated"], counted["state_tuples"], counted["peak_state_tuples"]) == (
        3, 2, 2, 2,
    )  # fmt: skip
    assert counted["state_bytes"] == operator.nbytes > 0


@attrs.define
class _Silent:
    """Never answer."""

    workers: int = 1
    piece: int = 1000
    most: int = 4

    def submit(self, number: int, call: Callable[[], object]) -> None:
        pass

    def answers(self) -> Sequence[Answer]:
        return []


def test_it_is_crowded_by_tuples_and_by_promises_that_wait() -> None:
    operator = DeferredFilter(Expensive(X > 0)).deferring(_Silent())
    assert isinstance(operator, Defers) and not operator.crowded
    drive(operator, [PAGE.slice(0, 3)])
    assert not operator.crowded and operator.outstanding == 3
    drive(operator, [PAGE.slice(3, 4)])
    assert operator.crowded
    held = DeferredFilter(Expensive(X > 0)).deferring(_Silent())
    keys = [Punctuation({"k": Equals("b"), "ts": Below(bound)}) for bound in range(2, 9)]
    drive(held, [PAGE.slice(0, 1), *keys])
    assert not held.crowded, "of promises that wait for the same, those that say less are not kept"
    drive(held, [Punctuation({"x": Equals(0), "ts": Below(bound)}) for bound in (9, 8, 7, 6)])
    assert held.crowded


def slow(page: Page) -> Bools:
    if (page.ticks("x") == 13).any():
        raise LookupError("no such host")
    return page.ticks("x") > 0


def test_an_error_of_the_function_names_the_tuple() -> None:
    page = Page.of(SCHEMA, {"ts": list(range(20)), "k": ["a"] * 20, "x": list(range(20))})
    for there in (None, _Catching(all=True, piece=100)):
        operator = DeferredFilter(Expensive(Opaque(slow))).deferring(there)
        with pytest.raises(LookupError, match="no such host") as raised:
            drive(operator, [page])
            operator.take_answers(list[Element]().append)
        assert raised.value.__notes__ == ["at the tuple ts = 13, k = a, x = 13"]


@attrs.define
class _Catching(AnyOrder):
    """Hand errors over as answers, as threads do."""

    def answers(self) -> Sequence[Answer]:
        found: list[Answer] = []
        calls, self._calls = self._calls, []
        for number, call in calls:
            try:
                found.append((number, call()))
            except LookupError as error:
                found.append((number, Failed(error)))
        return found


def test_a_state_with_open_tuples_goes_on_with_a_background_and_without() -> None:
    silent = DeferredFilter(PREDICATES["or"]).deferring(_Silent())
    drive(silent, [PAGE, before("ts", 3)])
    state = decode_state(encode_state(silent.state()))
    for there in (None, AnyOrder(all=True)):
        again = DeferredFilter(PREDICATES["or"]).deferring(there)
        again.restore(state)
        assert again.outstanding == 2
        found: list[Element] = []
        for element in (PAGE.slice(0, 0), END):
            deliver(again, element, found.append)
            again.take_answers(found.append)
        assert [row["ts"] for row in rows(found)] == [2] and punctuations(found) == [before("ts", 3), END]
        assert again.statistics()["evaluated"] == 2 + 2 * (there is None)


def test_cheap_conditions_are_found_under_and_or_not_and_nowhere_else() -> None:
    assert marked(PREDICATES["both"]) and not marked((K == "a") & (X > 1))
    least, most = limits(PREDICATES["and"])
    assert (str(least), str(most)) == ('k != "b" and false', 'k != "b" and true')
    with pytest.raises(SchemaError, match="only and, or, not may stand around"):
        DeferredFilter(Expensive(X > 1) == (K == "a")).output_schema(SCHEMA)
    with pytest.raises(SchemaError, match=r"expensive\(x \+ 1\): x \+ 1 is of type int64"):
        DeferredFilter(Expensive(X + 1)).output_schema(SCHEMA)


def test_a_cheap_condition_that_is_not_defined_where_the_expensive_one_decides_does_no_harm() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "x": [0, 3]})
    predicate = Expensive(X != 0) & (Column("ts") % X == 2)
    assert [row["ts"] for row in rows(drive(DeferredFilter(predicate), [page]))] == [2]


def test_its_examples_work() -> None:
    for module in (deferred, expensive, outstanding, background):
        assert doctest.testmod(module).failed == 0
