"""Early results are those of the tuples before the tick at which they fire, whatever the order of arrival."""

from __future__ import annotations

import builtins
import doctest
from collections.abc import Callable, Sequence

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, max, sum
from operators.protocol import Operator
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.early import firing, refine
from operators.window_aggregate.early.firing import Fire, Part
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_early import naive_early, naive_refined
from tests.operators.planted import found_out

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v")}


def of_values(function: Callable[[list[int]], int]) -> Callable[[list[Row]], object]:
    def answer(members: list[Row]) -> object:
        values = [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]
        return function(values) if values else None

    return answer


ANSWERS = {"n": len, "total": of_values(builtins.sum), "most": of_values(builtins.max)}


@attrs.frozen
class Asked:
    """Windows by name, at how many ticks behind their begin they fire, and what is made of it."""

    windows: dict[str, SlidingWindow]
    after: dict[str, list[int]]
    by: tuple[str, ...]
    refinement: str

    def operator(self, fire: type[Fire] = Fire, refine: type[Refine] = Refine) -> Operator:
        discard = self.refinement == "discard"
        computed: dict[str, SlidingWindow] = {}
        parts: dict[str, Part] = {}
        for name, window in self.windows.items():
            begin = 0
            for after in self.after[name]:
                origin, size = window.origin - window.size + after, after - begin if discard else after
                computed[f"{name}{after}"] = SlidingWindow("ts", size=size, slide=window.slide, origin=origin)
                since = None if window.partial else window.origin
                parts[f"{name}{after}"] = Part(name, after, window.size, since)
                begin = after
        slicing = SlicingAggregate(computed, FUNCTIONS, self.by, named=True)  # type: ignore[arg-type]
        chain: list[Operator] = [slicing, fire(parts, named=len(self.windows) > 1, whole=not discard)]
        return Chain([*chain, refine(self.by)] if self.refinement == "retract" else chain)

    def naive(self, table: Sequence[Row]) -> list[Row]:
        discard = self.refinement == "discard"
        found = naive_early(self.windows, self.after, ANSWERS, self.by, table, discard=discard)
        return naive_refined(found, list(ANSWERS)) if self.refinement == "retract" else found


@st.composite
def asked(draw: st.DrawFn, refinement: str) -> Asked:
    windows: dict[str, SlidingWindow] = {}
    after: dict[str, list[int]] = {}
    for name in draw(st.sampled_from([("w",), ("w", "other")])):
        size, slide, origin = draw(st.integers(1, 12)), draw(st.integers(1, 8)), draw(st.integers(-2, 2))
        windows[name] = SlidingWindow("ts", size=size, slide=slide, origin=origin, partial=draw(st.booleans()))
        after[name] = sorted({size, *draw(st.lists(st.integers(1, size), max_size=3))})
    return Asked(windows, after, draw(st.sampled_from([(), ("k",)])), refinement)


@pytest.mark.parametrize("refinement", mostly_slow(["accumulate", "discard", "retract"], every=3))
def test_every_order_paging_and_punctuation_gives_the_naive_answer(refinement: str) -> None:
    @share(1)
    @given(asked(refinement), streams(SCHEMA, group=("k",), tuples=12))
    def check(one: Asked, script: Script) -> None:
        check_operator(one.operator, script, naive=one.naive)

    check()


@given(asked("accumulate"), streams(SCHEMA, group=("k",), tuples=12))
def test_results_are_taken_back_in_their_order_however_they_come_and_are_saved(one: Asked, script: Script) -> None:
    above = one.operator()
    schema = above.output_schema(SCHEMA)
    results = Script.of(schema, [e for e in drive(above, script) if not isinstance(e, Page) or len(e)])
    check_operator(lambda: Refine(one.by), results, naive=lambda table: naive_refined(table, list(ANSWERS)))


@given(asked("retract"), streams(SCHEMA, group=("k",), tuples=12, promises=("linear",)))
def test_what_stands_in_the_end_is_the_final_answer_and_nothing_is_held(one: Asked, script: Script) -> None:
    operator = one.operator()
    standing: dict[tuple[object, ...], int] = {}
    for row in rows(drive(operator, script)):
        sign = int(row.pop("sign"))  # type: ignore[arg-type]
        key = tuple(row.items())
        standing[key] = standing.get(key, 0) + sign
        assert standing[key] in (0, 1)
    final = [row for row in attrs.evolve(one, refinement="accumulate").naive(script.tables()[0]) if row["final"]]
    assert sorted(map(str, (key for key, n in standing.items() if n))) == sorted(str(tuple(r.items())) for r in final)
    assert operator.statistics()["state_tuples"] == 0  # type: ignore[attr-defined]


@share(2)
@given(asked("retract"), streams(SCHEMA, group=("k",), tuples=12))
def test_up_to_each_promise_the_changes_add_up_to_the_final_answer(one: Asked, script: Script) -> None:
    def final(table: list[Row]) -> list[Row]:
        return [row for row in attrs.evolve(one, refinement="accumulate").naive(table) if row["final"]]

    check_operator(one.operator, script, changes=final)


ONE = Asked({"w": SlidingWindow("ts", size=6, slide=6)}, {"w": [2, 4, 6]}, ("k",), "retract")


def signed(found: Sequence[object]) -> list[tuple[object, ...]]:
    return [(row["k"], row["n"], row["fired"], row["final"], row["sign"]) for row in rows(found)]  # type: ignore[arg-type]


def test_a_result_takes_back_the_one_before_it_and_one_that_changes_nothing_is_left_out() -> None:
    operator = ONE.operator()
    page = Page.of(SCHEMA, {"ts": [0, 0, 3, 1], "k": ["a", "b", "a", "a"], "v": [1, 1, 1, 1]})
    assert signed(drive(operator, [page, before("ts", 2)])) == [("a", 2, 2, False, 1), ("b", 1, 2, False, 1)]
    # Of b nothing has changed; of a the last result is taken back.
    assert signed(drive(operator, [before("ts", 4)])) == [("a", 2, 2, False, -1), ("a", 3, 4, False, 1)]
    assert operator.statistics()["state_tuples"] > 0  # type: ignore[attr-defined]
    assert sorted(signed(drive(operator, [before("ts", 6)]))) == [
        ("a", 3, 4, False, -1), ("a", 3, 6, True, 1), ("b", 1, 2, False, -1), ("b", 1, 6, True, 1),
    ]  # fmt: skip
    statistics = operator.statistics()  # type: ignore[attr-defined]
    assert (statistics["state_tuples"], statistics["taken_back"]) == (0, 3)


def test_several_firings_at_once_are_given_in_their_order() -> None:
    page = Page.of(SCHEMA, {"ts": [0, 3], "k": ["a", "a"], "v": [1, 1]})
    assert signed(drive(ONE.operator(), [page, END])) == [
        ("a", 1, 2, False, 1),
        ("a", 1, 2, False, -1), ("a", 2, 4, False, 1),
        ("a", 2, 4, False, -1), ("a", 2, 6, True, 1),
    ]  # fmt: skip


def test_what_is_promised_of_early_results() -> None:
    given = [before("ts", 3), Punctuation({"k": Equals("a"), "ts": Below(6)}), Punctuation({"k": Equals("b")})]

    def said(one: Asked) -> list[str]:
        operator = one.operator()
        operator.output_schema(SCHEMA)
        return [str(promise) for promise in punctuations(drive(operator, given))]

    assert said(attrs.evolve(ONE, refinement="accumulate")) == [
        "[window_start < 0]", "[fired < 4]", "[window_end < 4]",
        "[fired < 7, k = a]", "[k = a, window_end < 7]", "[k = b]",
    ]  # fmt: skip
    # A part begins where the one before it ends, which says less of the window; what is taken back fired long ago.
    assert not any("start" in promise for promise in said(attrs.evolve(ONE, refinement="discard")))
    assert not any("fired" in promise for promise in said(ONE))


def test_names_that_are_taken_are_refused() -> None:
    parts = {"w": Part("w", 2, 4)}
    results = Schema.of(window=pa.string(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64())
    fired = Schema(results.arrow.append(pa.field("fired", pa.int64())))
    with pytest.raises(SchemaError, match='"fired" is the name of what tells when they fired'):
        Fire(parts).output_schema(fired)
    output = Fire(parts).output_schema(results)
    with pytest.raises(SchemaError, match='"sign" is the name of what tells'):
        Refine().output_schema(Schema(output.arrow.append(pa.field("sign", pa.int8()))))


class Forgetful(Refine):
    """Does not remember what stands."""

    def _chains(self, rows: Page, held: int):  # type: ignore[no-untyped-def]
        taken, signs, standing = super()._chains(rows, held)
        return taken, signs, standing[:0]


class Whole(Fire):
    """Takes the end of a part for that of its window."""

    def __attrs_post_init__(self) -> None:
        self.parts = {name: attrs.evolve(part, size=part.after) for name, part in self.parts.items()}
        super().__attrs_post_init__()


def test_changes_that_do_not_add_up_are_found_out() -> None:
    def check(case: tuple[Asked, Script]) -> None:
        one, script = case
        check_operator(lambda: one.operator(Fire, Forgetful), script, changes=lambda table: [
            row for row in attrs.evolve(one, refinement="accumulate").naive(table) if row["final"]
        ])  # fmt: skip

    assert found_out(check, st.tuples(asked("retract"), streams(SCHEMA, group=("k",), tuples=8))) == 13


@pytest.mark.parametrize("bug", [Forgetful, Whole])
def test_planted_bugs_are_found_out(bug: type) -> None:
    def check(case: tuple[Asked, Script]) -> None:
        one, script = case
        fire, refine = (bug, Refine) if issubclass(bug, Fire) else (Fire, bug)
        check_operator(lambda: one.operator(fire, refine), script, naive=one.naive)

    assert found_out(check, st.tuples(asked("retract"), streams(SCHEMA, group=("k",), tuples=8))) in (1, 3, 10, 13)


def test_examples() -> None:
    for module in (firing, refine):
        assert doctest.testmod(module).failed == 0
