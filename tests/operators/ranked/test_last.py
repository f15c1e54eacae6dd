"""The last n tuples before each edge answer what `extent()` says, and no more than n of them are held."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, max, sum
from operators.kernels.ranked import ranked as kernels
from operators.protocol import Element
from operators.testing import Script, check_operator
from operators.window.counted import LastTuples
from operators.window_aggregate.stores.ranked import latest
from operators.window_aggregate.stores.ranked.last import LastAggregate
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
    last,
    modes,
    scripts,
    scripts_with_nulls,
    untied,
)


def check(window: LastTuples, mode: Mode, script: Script, *, order_matters: bool = False) -> None:
    by, partition = mode
    check_operator(
        lambda: LastAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        naive=lambda table: naive_ranked(window, ANSWERS, by, table, partition=partition),
        order_matters=order_matters,
    )


def page(ts: Sequence[int | None], k: Sequence[str] | None = None, v: Sequence[int | None] | None = None) -> Page:
    return Page.of(SCHEMA, {"ts": ts, "k": k or ["a"] * len(ts), "v": v or [1] * len(ts)})


def totals(window: LastTuples, script: Sequence[Element], *by: str) -> list[tuple[object, ...]]:
    found = rows(drive(LastAggregate(window, {"total": sum("v")}, by), script))
    return [(r["window_start"], r["window_end"], r["total"]) for r in found]


@share(0.5)
@given(last, modes, scripts.map(untied))
def test_without_ties_every_order_paging_and_punctuation_gives_the_naive_answer(
    window: LastTuples, mode: Mode, script: Script
) -> None:
    check(window, mode, script)


@share(0.5)
@given(last, modes, scripts_with_nulls)
def test_ties_are_told_apart_by_arrival(window: LastTuples, mode: Mode, script: Script) -> None:
    check(window, mode, script, order_matters=True)


@given(last, scripts)
def test_windows_are_out_and_promised_when_they_are_complete(window: LastTuples, script: Script) -> None:
    def stop(table: list[Row], bound: int | None) -> int:
        if bound is None:
            return -(2**62)
        newest = builtins.max((window.complete(int(str(row["ts"]))) for row in table), default=-(2**62))
        return builtins.min(window.complete(bound), newest + 1) if window.idle else window.complete(bound)

    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        found = naive_ranked(window, ANSWERS, ("k",), tables[0])
        bound = progress[0].bound("ts")
        linear = stop(tables[0], int(bound) if bound is not None else None)
        return [row for row in found if progress[0].ended or int(str(row["wid"])) < linear]

    def promised(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        bound = progress[0].bound("ts")
        if progress[0].ended or bound is None or (window.idle and not tables[0]):
            return []
        linear = stop(tables[0], int(bound))
        return [before("wid", linear), before("window_end", window.end(linear))]

    check_operator(
        lambda: LastAggregate(window, FUNCTIONS, ("k",)),
        script,
        settled=settled,
        promised=promised,
        laws={1, 3},
        order_matters=True,
    )


@given(last, scripts)
def test_state_is_what_is_not_final_and_n_tuples_a_partition(window: LastTuples, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        held = 0
        for _, times, bound, over in by_k(tables[0], progress[0]):
            if progress[0].ended or (over and not window.idle):
                continue
            final = len([ts for ts in times if over or (bound is not None and ts < bound)])
            held += len(times) - final + builtins.min(final, window.size)
        return held

    check_operator(lambda: LastAggregate(window, FUNCTIONS, ("k",)), script, kept=kept, laws={2})


BUGS = {
    "a tuple at the edge is counted": ("keys[start + high] < end:", "keys[start + high] <= end:"),
    "one tuple too few": ("low = max(0, high - tuples)", "low = max(0, high - tuples + 1)"),
    "the first edge is left out": (
        "w = max(w, (keys[start] - origin) // slide)",
        "w = max(w, (keys[start] - origin) // slide + 1)",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("idle", [True, False])
def test_planted_bugs_are_found_out(bug: str, idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest, "kernels", mutated(kernels, "plan_edges", BUGS[bug]))
    window = LastTuples("ts", size=3, slide=2, idle=idle)
    law = found_out(lambda script: check(window, ((), None), script, order_matters=True), scripts)
    assert law in (3, 5, 7, 9, 10)


@given(last, modes, scripts)
def test_no_slot_is_lost(window: LastTuples, mode: Mode, script: Script) -> None:
    operator = LastAggregate(window, FUNCTIONS, mode[0], partition=mode[1])
    for port, element in script:
        drive(operator, [(port, element)])
        if isinstance(element, Page):
            assert len(operator._intake.pool) == len(operator._intake.waiting) + len(operator._latest)


def test_the_last_ten_tuples_every_five_seconds() -> None:
    schema = Schema.of(ts=pa.timestamp("s"), v=pa.int64(), progress=["ts"])
    tuples = Page.of(schema, {"ts": list(range(20)), "v": list(range(20))})
    operator = LastAggregate(LastTuples("ts", size=10, slide=5), {"n": count(), "most": max("v")})
    assert operator.output_schema(schema).field("window_start").type == pa.timestamp("s")
    found = rows(drive(operator, [tuples.take(tuples["v"][::-1]), before("ts", 20)]))  # type: ignore[arg-type]
    assert [(r["window_start"], r["window_end"], r["n"], r["most"]) for r in found] == [
        (0, 5, 5, 4),
        (0, 10, 10, 9),
        (5, 15, 10, 14),
        (10, 20, 10, 19),
    ]
    assert operator.statistics()["state_tuples"] == 10


def test_windows_without_anything_new_are_given_too_unless_not_wanted() -> None:
    script = [page([1, 2, 17]), before("ts", 20)]
    assert totals(LastTuples("ts", size=2, slide=5), script) == [(1, 5, 2), (1, 10, 2), (1, 15, 2), (2, 20, 2)]
    assert totals(LastTuples("ts", size=2, slide=5, idle=False), script) == [(1, 5, 2), (2, 20, 2)]


def test_windows_without_anything_new_wait_for_a_tuple_that_shows_they_are_followed() -> None:
    operator = LastAggregate(LastTuples("ts", size=2, slide=5), {"n": count()}, ("k",))
    early = drive(operator, [page([1, 2], ["a", "b"]), before("ts", 12)])
    assert [(r["k"], r["window_end"]) for r in rows(early)] == [("a", 5), ("b", 5)]
    assert [str(p) for p in punctuations(early)] == ["[wid < 1]", "[window_end < 10]"]
    late = drive(operator, [page([13], ["a"])])
    assert sorted((r["k"], r["window_end"]) for r in rows(late)) == [("a", 10), ("b", 10)]
    assert [str(p) for p in punctuations(late)] == ["[wid < 2]", "[window_end < 15]"]


def test_a_partition_has_its_own_last_tuples_and_may_be_ahead() -> None:
    operator = LastAggregate(LastTuples("ts", size=2, slide=5, idle=False), {"n": count()}, ("k",))
    ahead = Punctuation({"k": Equals("a"), "ts": Below(10)})
    found = drive(operator, [page([1, 2, 3, 4, 8], ["a", "b", "a", "a", "a"]), ahead])
    assert [(r["k"], r["window_start"], r["window_end"], r["n"]) for r in rows(found)] == [
        ("a", 3, 5, 2),
        ("a", 4, 10, 2),
    ]
    assert [str(p) for p in punctuations(found)] == ["[k = a, wid < 2]"]
    found = drive(operator, [Punctuation({"k": Equals("b")})])
    assert [(r["k"], r["window_end"]) for r in rows(found)] == [("b", 5)]
    assert operator.statistics()["groups"] == 1


def test_the_last_tuples_of_the_whole_stream_are_parted_by_group() -> None:
    operator = LastAggregate(LastTuples("ts", size=3, slide=5), {"n": count()}, ("k",), partition=())
    found = drive(operator, [page([1, 2, 3, 4], ["a", "a", "b", "a"]), before("ts", 5)])
    assert sorted((r["k"], r["window_start"], r["n"]) for r in rows(found)) == [("a", 2, 2), ("b", 2, 1)]
    assert [str(p) for p in punctuations(found)] == ["[wid < 1]", "[window_end < 10]", "[window_start < 2]"]


@given(last, modes, scripts)
def test_windows_are_counted_each_once_however_many_groups_are_in_it(
    window: LastTuples, mode: Mode, script: Script
) -> None:
    by, partition = mode
    check_windows(
        lambda: LastAggregate(window, FUNCTIONS, by, partition=partition),
        script,
        by if partition is None else partition,
    )


def test_late_tuples_are_left_out_and_counted() -> None:
    operator = LastAggregate(LastTuples("ts", size=2, slide=5), {"n": count()})
    drive(operator, [page([6]), before("ts", 7), page([1, None])])
    assert (operator.statistics()["late"], operator.statistics()["without_value"]) == (1, 1)


def test_windows_many_tuples_long_share_their_sums() -> None:
    ts = list(range(300))
    window = LastTuples("ts", size=100, slide=1)
    wanted = [(max_(0, i - 99), i + 1, builtins.min(i + 1, 100)) for i in ts]
    assert totals(window, [page(ts), before("ts", 300)]) == wanted


def max_(a: int, b: int) -> int:
    return builtins.max(a, b)


def test_a_window_on_text_is_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        LastAggregate(LastTuples("k", size=1, slide=1), FUNCTIONS).output_schema(SCHEMA)


def test_one_end_after_another_and_tuples_in_between() -> None:
    window = LastTuples("ts", size=2, slide=5)
    script = [END, page([1]), END, END, page([21, 22]), before("ts", 30), END]
    assert totals(window, script) == [(1, 5, 1), (21, 25, 2)]


def test_a_state_that_was_saved_before_windows_were_counted_is_taken_up() -> None:
    first = LastAggregate(LastTuples("ts", size=2, slide=10), FUNCTIONS, ())
    drive(first, [page([1, 5, 12]), before("ts", 11)])
    old = {name: value for name, value in first.state().items() if name not in ("count.windows", "version")}
    again = LastAggregate(LastTuples("ts", size=2, slide=10), FUNCTIONS, ())
    again.restore(old)
    assert again.statistics()["windows"] == 0 and again.statistics()["results"] == first.statistics()["results"] > 0
