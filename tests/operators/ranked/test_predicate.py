"""Windows of predicates are those of the sorted stream, whatever the order of arrival, and hold only what is open."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.expression import Column, Expression
from operators.functions import argmax, count, first, sum
from operators.kernels.ranked import cuts as kernels
from operators.testing import Script, check_operator
from operators.window.predicate import PredicateWindow
from operators.window_aggregate.stores.ranked import cuts
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_predicate import Rule, Says, extents, naive_predicate
from tests.operators.planted import found_out, mutated
from tests.operators.ranked.cases import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Mode,
    by_k,
    check_windows,
    modes,
    scripts,
    scripts_with_nulls,
)

SAID: list[tuple[Expression, Says]] = [
    (Column("v") > 2, lambda row: row["v"] is not None and int(str(row["v"])) > 2),
    (Column("v") <= 1, lambda row: row["v"] is not None and int(str(row["v"])) <= 1),
    (Column("k") == "a", lambda row: row["k"] == "a"),
    (Column("v") >= 0, lambda row: row["v"] is not None and int(str(row["v"])) >= 0),
]
"""Predicates as expressions, and as what they say of a row."""


@attrs.frozen
class Case:
    """A window, and its definition."""

    window: PredicateWindow
    rule: Rule


@st.composite
def cases(draw: st.DrawFn) -> Case:
    enter, entering = draw(st.sampled_from(SAID))
    leave, leaving = draw(st.sampled_from([(None, None), *SAID]))
    within, unfinished = draw(st.none() | st.integers(1, 7)), draw(st.booleans())
    runs = leave is None and draw(st.booleans())
    window = PredicateWindow("ts", enter, leave=leave, within=within, runs=runs, unfinished=unfinished)
    return Case(window, Rule(entering, leaving, within=within, runs=runs, unfinished=unfinished))


def check(case: Case, mode: Mode, script: Script) -> None:
    by, partition = mode
    check_operator(
        lambda: PredicateAggregate(case.window, FUNCTIONS, by, partition=partition),
        script,
        naive=lambda table: naive_predicate(case.rule, ANSWERS, by, table, partition=partition),
    )


def page(ts: Sequence[int | None], v: Sequence[int | None], k: Sequence[str] | None = None) -> Page:
    return Page.of(SCHEMA, {"ts": ts, "k": k or ["a"] * len(ts), "v": v})


@share(0.5)
@given(cases(), modes, scripts_with_nulls)
def test_every_order_paging_and_punctuation_gives_the_naive_answer(case: Case, mode: Mode, script: Script) -> None:
    check(case, mode, script)


def ended(case: Case, table: list[Row], bound: int | None) -> list[tuple[int, int]]:
    """Give the windows of one partition that nothing can change any more at a bound."""
    if bound is None:
        return []
    final = [row for row in table if int(str(row["ts"])) < bound]
    return [
        (begin, end)
        for begin, end, over in extents(case.rule, final)
        if over and (end <= bound or case.rule.within is None or end < begin + case.rule.within)
    ]


def parts(
    tables: Sequence[list[Row]], progress: Sequence[Progress]
) -> list[tuple[object, list[Row], int | None, bool]]:
    """Give each k with its tuples, what it is promised up to, and whether it is over."""
    return [
        (k, [row for row in tables[0] if row["k"] == k], bound, over)
        for k, _, bound, over in by_k(tables[0], progress[0])
    ]


@given(cases(), scripts)
def test_windows_are_out_and_promised_as_soon_as_they_are_final(case: Case, script: Script) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        results = naive_predicate(case.rule, ANSWERS, ("k",), tables[0])
        found: list[Row] = []
        for k, table, bound, over in parts(tables, progress):
            windows = ended(case, table, bound)
            mine = [row for row in results if row["k"] == k]
            found += [row for row in mine if over or (row["window_start"], row["window_end"]) in windows]
        return found

    def promised(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        bound = progress[0].bound("ts")
        if not isinstance(bound, int):
            return []
        begins = [bound]
        for _, table, own, over in parts(tables, progress):
            final = [row for row in table if own is not None and int(str(row["ts"])) < own]
            begins += [begin for begin, _, done in extents(case.rule, final) if not done and not over]
            within = case.rule.within or 0
            begins += [b for b, end, done in extents(case.rule, final) if done and not over and end == b + within]
        return [before("wid", min(begins))]

    check_operator(
        lambda: PredicateAggregate(case.window, FUNCTIONS, ("k",)),
        script,
        settled=settled,
        promised=promised,
        laws={1, 3},
    )


@given(cases(), scripts)
def test_state_is_a_tuple_that_waits_or_an_open_window(case: Case, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        held = 0
        for _, table, bound, over in parts(tables, progress):
            if not over:
                final = [row for row in table if bound is not None and int(str(row["ts"])) < bound]
                opened = len(extents(case.rule, final)) - len(ended(case, table, bound))
                held += len(table) - len(final) + opened
        return held

    check_operator(lambda: PredicateAggregate(case.window, FUNCTIONS, ("k",)), script, kept=kept, laws={2})


@given(cases(), modes, scripts)
def test_no_slot_is_lost_and_every_window_counts_once(case: Case, mode: Mode, script: Script) -> None:
    operator = PredicateAggregate(case.window, FUNCTIONS, mode[0], partition=mode[1])
    for port, element in script:
        drive(operator, [(port, element)])
        if operator._input is not None:
            assert len(operator._intake.pool) == len(operator._intake.waiting) + len(operator._cuts)
    partition = mode[0] if mode[1] is None else mode[1]
    check_windows(lambda: PredicateAggregate(case.window, FUNCTIONS, mode[0], partition=partition), script, partition)


RUN = Case(PredicateWindow("ts", SAID[0][0], runs=True), Rule(SAID[0][1], runs=True))
TALK = Case(PredicateWindow("ts", SAID[1][0], leave=SAID[0][0], within=3), Rule(SAID[1][1], SAID[0][1], within=3))
BUGS = {
    "a run goes on over a tick that does not hold": (RUN, "cut", ("== RUNS and not enters", "== RUNS and enters")),
    "the tick that ends a window is not in it": (TALK, "cut", ("= tick + 1", "= tick")),
    "a window lasts a tick too long": (TALK, "cut", ("begin + within <= tick", "begin + within < tick")),
    "a run has what does not hold at a tick that does": (RUN, "cut", ("rule != RUNS or", "rule != BETWEEN or")),
    "a group without anything new keeps what has ended": (RUN, "fold", ("if end == FOREVER:", "if end != BEFORE_ALL:")),
}


@pytest.mark.parametrize("bug", mostly_slow(BUGS, every=3))
def test_planted_bugs_are_found_out(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, function, change = BUGS[bug]
    monkeypatch.setattr(cuts, "kernels", mutated(kernels, function, change))
    assert found_out(lambda script: check(case, (("k",), ()), script), scripts) in (1, 2, 3, 5, 7, 9, 10)


def spans(window: PredicateWindow, *script: Page | Punctuation) -> list[tuple[object, ...]]:
    found = rows(drive(PredicateAggregate(window, {"n": count()}, ("k",)), script))
    return [(row["k"], row["window_start"], row["window_end"], row["n"]) for row in found]


def test_a_late_tuple_splits_and_joins_windows_until_their_ends_are_promised() -> None:
    runs = PredicateWindow("ts", Column("v") > 2, runs=True)
    whole, split = page([1, 9], [5, 5]), page([4], [0])
    assert spans(runs, whole, END) == [("a", 1, 10, 2)]
    assert spans(runs, whole, split, END) == [("a", 1, 4, 1), ("a", 9, 10, 1)]
    talks = PredicateWindow("ts", Column("v") == 1, leave=Column("v") == 2)
    assert spans(talks, page([1, 3, 6, 8], [1, 2, 1, 2]), END) == [("a", 1, 4, 2), ("a", 6, 9, 2)]
    # An earlier begin takes in the later one, and the end that was of that.
    assert spans(talks, page([3, 6, 8], [1, 1, 2]), page([1], [1]), END) == [("a", 1, 9, 4)]


def test_a_window_ends_where_it_may_last_no_longer_and_what_follows_is_in_none() -> None:
    talks = PredicateWindow("ts", Column("v") == 1, leave=Column("v") == 2, within=5)
    operator = PredicateAggregate(talks, {"n": count()}, ("k",))
    found = drive(operator, [page([1, 2, 7], [1, 0, 2]), before("ts", 6)])
    assert [(row["window_start"], row["window_end"], row["n"]) for row in rows(found)] == [(1, 6, 2)]
    assert [str(p) for p in punctuations(found)] == ["[wid < 6]", "[window_start < 6]", "[window_end < 6]"]
    drive(operator, [END])
    assert operator.statistics()["in_no_window"] == 1


def test_each_group_has_windows_of_its_own_and_a_promise_of_its_own() -> None:
    operator = PredicateAggregate(PredicateWindow("ts", Column("v") > 2), {"n": count()}, ("k",))
    drive(operator, [page([1, 2, 3, 4], [5, 5, 0, 5], ["a", "b", "a", "a"])])
    found = drive(operator, [Punctuation({"k": Equals("a"), "ts": Below(9)})])
    assert [(row["k"], row["wid"], row["n"]) for row in rows(found)] == [("a", 1, 2)]
    assert [str(p) for p in punctuations(found)] == ["[k = a, wid < 4]"]
    found = drive(operator, [Punctuation({"k": Equals("a")}), before("ts", 5), page([1], [1]), END])
    assert [(row["k"], row["wid"], row["n"]) for row in rows(found)] == [("a", 4, 1), ("b", 2, 1)]
    assert operator.statistics()["late"] == 1


def test_groups_are_forgotten_with_their_windows() -> None:
    operator = PredicateAggregate(PredicateWindow("ts", Column("v") > 2, runs=True), {"n": count()}, ("k",))
    drive(operator, [page([1, 2, 3], [5, 0, 5], ["a", "b", "c"]), page([4], [0]), before("ts", 5)])
    # The run of c may go on; a's has ended, and b never had one.
    assert (operator.statistics()["groups"], operator.statistics()["state_tuples"]) == (1, 1)


def test_functions_of_the_order_get_tuples_in_the_order_of_time() -> None:
    window = PredicateWindow("ts", Column("v") > 0, runs=True)
    operator = PredicateAggregate(window, {"first": first("v"), "late": argmax("v", "ts")})
    (found,) = rows(drive(operator, [page([9, 5, 7], [1, 2, 3]), END]))
    assert (found["first"], found["late"]) == (1, 1)
    assert operator.together(SCHEMA).arrival and not operator.together(SCHEMA).parted


def test_what_is_no_truth_value_is_refused_with_what_to_write() -> None:
    schema = Schema.of(ts=pa.int64(), load=pa.int64())
    with pytest.raises(SchemaError, match=r"when\(load\): this is of type int64(.|\n)*e.g. load > 80"):
        PredicateAggregate(PredicateWindow("ts", Column("load")), {"n": sum("load")}).output_schema(schema)


def test_a_state_that_holds_an_aggregate_of_no_window_is_refused() -> None:
    operator = PredicateAggregate(PredicateWindow("ts", Column("v") > 2), {"n": count()}, ("k",))
    drive(operator, [page([1], [5]), before("ts", 3)])
    state = operator.state()
    again = PredicateAggregate(PredicateWindow("ts", Column("v") > 2), {"n": count()}, ("k",))
    with pytest.raises(ValueError, match="of a window that is not open"):
        again.restore({**state, "cuts.since": np.asarray(state["cuts.since"]) + 1})
