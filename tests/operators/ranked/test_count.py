"""Count windows in the order of an attribute answer what sorting first would, and hold only what is not final."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, SchemaError
from operators.functions import argmax, count, first, max, sum
from operators.kernels.ranked import ranked as kernels
from operators.protocol import Element
from operators.testing import Script, check_operator
from operators.window.counted import CountWindow
from operators.window_aggregate.stores.ranked import queues, slices
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import share
from tests.naive_ranked import naive_ranked
from tests.operators.planted import found_out, mutated
from tests.operators.ranked.cases import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    Mode,
    by_k,
    check_windows,
    counted,
    modes,
    scripts,
    scripts_with_nulls,
    untied,
)


def check(window: CountWindow, mode: Mode, script: Script, *, order_matters: bool = False) -> None:
    by, partition = mode
    check_operator(
        lambda: CountAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        naive=lambda table: naive_ranked(window, ANSWERS, by, table, partition=partition),
        order_matters=order_matters,
    )


def page(ts: Sequence[int | None], k: Sequence[str] | None = None, v: Sequence[int | None] | None = None) -> Page:
    return Page.of(SCHEMA, {"ts": ts, "k": k or ["a"] * len(ts), "v": v or [1] * len(ts)})


def totals(window: CountWindow, script: Sequence[Element], *by: str) -> list[tuple[object, object]]:
    return [(r["wid"], r["total"]) for r in rows(drive(CountAggregate(window, {"total": sum("v")}, by), script))]


@share(0.5)
@given(counted, modes, scripts.map(untied))
def test_without_ties_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: CountWindow, mode: Mode, script: Script
) -> None:
    check(window, mode, script)


@share(0.5)
@given(counted, modes, scripts_with_nulls)
def test_ties_are_told_apart_by_arrival(window: CountWindow, mode: Mode, script: Script) -> None:
    check(window, mode, script, order_matters=True)


def ready(window: CountWindow, times: list[int], bound: int | None) -> tuple[int, int]:
    """Give how many tuples are final, and the window-id after the last window that is complete then."""
    final = len([ts for ts in times if bound is not None and ts < bound])
    return final, final // window.slide


@given(counted, scripts)
def test_windows_are_out_and_promised_as_soon_as_their_ranks_are_final(window: CountWindow, script: Script) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        found: list[Row] = []
        stops = {k: (ready(window, times, bound)[1], over) for k, times, bound, over in by_k(tables[0], progress[0])}
        for row in naive_ranked(window, ANSWERS, ("k",), tables[0]):
            stop, over = stops[row["k"]]
            if over or int(str(row["wid"])) < stop:
                found.append(row)
        return found

    def promised(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        found: list[Punctuation] = []
        for k, times, bound, over in by_k(tables[0], progress[0]):
            stop = ready(window, times, bound)[1]
            if isinstance(k, str) and stop > 0 and not over:
                found.append(Punctuation({"k": Equals(k), "wid": Below(stop)}))
        return found

    check_operator(
        lambda: CountAggregate(window, FUNCTIONS, ("k",)),
        script,
        settled=settled,
        promised=promised,
        laws={1, 3},
        order_matters=True,
    )


@given(counted, scripts)
def test_state_is_a_tuple_that_waits_or_a_slice_of_an_open_window(window: CountWindow, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        held = 0
        for _, times, bound, over in by_k(tables[0], progress[0]):
            if over:
                continue
            final, stop = ready(window, times, bound)
            spans = {(q // window.slide, (q + window.size) // window.slide) for q in range(final)}
            held += len([a for a, b in spans if a < b and b > __builtins__["max"](stop, window.least)])
            # What waits, and the number of ranks that are gone.
            held += len(times) - final + 1
        return held

    check_operator(lambda: CountAggregate(window, FUNCTIONS, ("k",)), script, kept=kept, laws={2})


BUGS = {
    "of two equal times the later to arrive comes first": (
        queues,
        ("merge", ("keys[i] > new_keys[k]", "keys[i] >= new_keys[k]")),
    ),
    "a slice reaches one rank too far": (
        slices,
        ("slice_numbers", ("ranks[i] - k * slide >= inner", "ranks[i] - k * slide > inner")),
    ),
    "a rank is final while another tuple of its time may come": (
        queues,
        ("below", ("if keys[middle] < bounds[j]:", "if keys[middle] <= bounds[j]:")),
    ),
    "a new slice is taken for the newest one": (
        slices,
        ("fold", ("last = keys[newest]", "last = keys[newest] + 1")),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found_out(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, (function, change) = BUGS[bug]
    monkeypatch.setattr(module, "kernels", mutated(kernels, function, change))
    window = CountWindow("ts", size=3, slide=2)
    law = found_out(lambda script: check(window, ((), None), script, order_matters=True), scripts)
    assert law in (3, 5, 7, 9, 10)


@given(counted, modes, scripts)
def test_no_slot_is_lost(window: CountWindow, mode: Mode, script: Script) -> None:
    operator = CountAggregate(window, FUNCTIONS, mode[0], partition=mode[1])
    for port, element in script:
        drive(operator, [(port, element)])
        if isinstance(element, Page):
            assert len(operator._intake.pool) == len(operator._intake.waiting) + len(operator._slices)


def test_a_late_arrival_shifts_the_ranks_of_all_that_wait() -> None:
    script = [page([1, 5, 9], v=[1, 2, 4]), page([3], v=[8]), before("ts", 9)]
    assert totals(CountWindow("ts", size=2, slide=2), script) == [(0, 9)]
    assert totals(CountWindow("ts", size=2, slide=2), [*script, END]) == [(0, 9), (1, 6)]


def test_what_is_not_full_at_the_end_is_given_and_so_is_what_begins_before_the_first() -> None:
    script = [page([1, 2, 3], v=[1, 2, 4]), END]
    assert totals(CountWindow("ts", size=4, slide=2), script) == [(0, 3), (1, 7), (2, 4)]
    assert totals(CountWindow("ts", size=4, slide=2, partial=False), script) == [(1, 7), (2, 4)]


def test_each_partition_counts_its_own_tuples_and_promises_them() -> None:
    operator = CountAggregate(CountWindow("ts", size=2, slide=2), FUNCTIONS, ("k",))
    found = drive(operator, [page([1, 2, 3, 4], ["a", "b", "a", "a"]), before("ts", 4)])
    assert [(r["k"], r["wid"], r["n"]) for r in rows(found)] == [("a", 0, 2)]
    assert [str(p) for p in punctuations(found)] == ["[k = a, wid < 1]"]
    promise = Punctuation({"k": Equals("a"), "ts": Below(9)})
    found = drive(operator, [page([5, 5], ["a", "b"]), promise])
    assert [(r["k"], r["wid"], r["n"]) for r in rows(found)] == [("a", 1, 2)]
    found = drive(operator, [Punctuation({"k": Equals("b")})])
    assert [(r["k"], r["wid"], r["n"]) for r in rows(found)] == [("b", 0, 2)]
    assert [str(p) for p in punctuations(found)] == ["[k = b]"]
    assert operator.statistics()["groups"] == 1


def test_the_windows_of_the_whole_stream_have_a_result_for_every_group_in_them() -> None:
    operator = CountAggregate(CountWindow("ts", size=3, slide=3), FUNCTIONS, ("k",), partition=())
    found = drive(operator, [page([1, 2, 3, 4], ["a", "b", "a", "b"]), before("ts", 4)])
    assert sorted((r["wid"], r["k"], r["n"]) for r in rows(found)) == [(0, "a", 2), (0, "b", 1)]
    assert [str(p) for p in punctuations(found)] == ["[wid < 1]", "[window_start < 3]", "[window_end < 6]"]
    # Group b waits with one tuple; a is forgotten until it comes again.
    assert operator.statistics()["groups"] == 1


@given(counted, modes, scripts)
def test_windows_are_counted_each_once_however_many_groups_are_in_it(
    window: CountWindow, mode: Mode, script: Script
) -> None:
    by, partition = mode
    check_windows(
        lambda: CountAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        by if partition is None else partition,
    )


def test_late_tuples_are_left_out_and_counted() -> None:
    operator = CountAggregate(CountWindow("ts", size=2, slide=2), {"n": count()}, ("k",))
    own = Punctuation({"k": Equals("a"), "ts": Below(7)})
    drive(
        operator,
        [page([8], ["a"]), own, page([6, 7, 6], ["a", "a", "b"]), before("ts", 7), page([1, None], ["a", "c"])],
    )
    found = rows(drive(operator, [END]))
    assert sorted((r["k"], r["n"]) for r in found) == [("a", 2), ("b", 1)]
    assert (operator.statistics()["late"], operator.statistics()["without_value"]) == (2, 1)


def test_functions_of_the_arrival_and_of_the_order_keep_to_it() -> None:
    functions = {"first": first("v"), "late": argmax("v", "ts"), "most": max("k")}
    operator = CountAggregate(CountWindow("ts", size=3, slide=3), functions)
    (found,) = rows(drive(operator, [page([9, 5, 7], ["x", "z", "y"], [1, 2, 3]), before("ts", 10)]))
    # First is what arrived first, in whatever order the windows are.
    assert (found["first"], found["late"], found["most"]) == (1, 1, "z")


def test_state_does_not_grow_with_tuples_that_are_final() -> None:
    operator = CountAggregate(CountWindow("ts", size=1000, slide=100), {"n": count(), "most": max("v")})
    for start in range(0, 20_000, 500):
        drive(operator, [page(list(range(start, start + 500))), before("ts", start + 500)])
    counted = operator.statistics()
    assert counted["results"] == 200
    assert counted["waiting"] == 0 and counted["slices"] <= 10
    assert counted["peak_state_tuples"] <= 510


def test_a_sum_that_does_not_fit_names_the_aggregate_the_window_and_the_group() -> None:
    operator = CountAggregate(CountWindow("ts", size=2, slide=2), {"total": sum("v")}, ("k",))
    with pytest.raises(AggregateOverflow, match="total of window 0, k = a"):
        drive(operator, [page([1, 2], v=[2**63 - 1, 1]), END])


def test_ranks_are_integers_whatever_orders_the_tuples() -> None:
    schema = Schema.of(ts=pa.timestamp("ns", "UTC"), v=pa.int64(), progress=["ts"])
    output = CountAggregate(CountWindow("ts", size=2, slide=2), {"total": sum("v")}).output_schema(schema)
    assert output.field("window_end").type == pa.int64()
    assert output.progressing("wid") and output.progressing("window_end")
    by_group = CountAggregate(CountWindow("ts", size=2, slide=2), {"n": count()}, ("v",)).output_schema(schema)
    assert by_group.progress == {frozenset(("v", "wid"))}
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        CountAggregate(CountWindow("k", size=1, slide=1), FUNCTIONS).output_schema(SCHEMA)


def test_one_end_after_another_and_tuples_in_between() -> None:
    window = CountWindow("ts", size=2, slide=2)
    assert totals(window, [END, page([1]), END, END, page([21, 22]), before("ts", 30), END]) == [(0, 1), (0, 2)]


@given(st.integers(1, 40), st.integers(1, 40), st.lists(st.integers(0, 9), min_size=1, max_size=120))
def test_many_windows_released_at_once_are_as_those_released_one_by_one(size: int, slide: int, v: list[int]) -> None:
    window = CountWindow("ts", size=size, slide=slide)
    whole = page(list(range(len(v))), v=v)
    one_by_one: list[Element] = []
    for i in range(len(v)):
        one_by_one += [whole.slice(i, i + 1), before("ts", i + 1)]
    assert totals(window, [whole, END]) == totals(window, [*one_by_one, END])
