"""Settle gives the tuples that stand, as their changes add up, when a promise says that no change is to come."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data import changes
from operators.data.page import Bools, Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.protocol import Emit
from operators.streams import settle
from operators.streams.settle import Settle
from operators.testing import Script, check_operator, streams
from punctuation import END, Progress, Punctuation, StreamViolation, before
from tests.examples import share
from tests.naive_changes import naive_standing, with_changes
from tests.operators.planted import found_out

PLAIN = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
SIGNED = Schema(PLAIN.arrow.append(pa.field("sign", pa.int8())), progress=["ts", ("k", "ts"), "k"])
CHANGES = with_changes(streams(PLAIN, group=("k",), tuples=8), SIGNED)


def due(tables: list[list[Row]], progress: list[Progress]) -> list[Row]:
    """Give the tuples that stand and of which no change can come."""
    (table,), (promised,) = tables, progress
    over = [row for row in table if any(promise.matches(row) for promise in promised.promises())]
    return naive_standing(over, keep_sign=True)


def kept(tables: list[list[Row]], progress: list[Progress]) -> int:
    (table,), (promised,) = tables, progress
    return sum(not any(promise.matches(row) for promise in promised.promises()) for row in table)


@share(3)
@given(CHANGES)
def test_every_order_paging_and_punctuation_gives_what_stands(script: Script) -> None:
    check_operator(Settle, script, naive=lambda table: naive_standing(table, keep_sign=True), settled=due, kept=kept)  # type: ignore[arg-type]


@given(CHANGES)
def test_changes_that_were_added_up_ahead_of_a_promise_give_the_same(script: Script) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settle, "_ADD_UP", 1)
        check_operator(Settle, script, naive=lambda table: naive_standing(table, keep_sign=True), settled=due)  # type: ignore[arg-type]


def test_what_cancels_is_not_held_until_a_promise() -> None:
    operator, found = Settle(), list[object]()
    one = Page.of(SIGNED, {"ts": [5] * 4096, "k": ["a"] * 4096, "v": list(range(4096)), "sign": [1] * 4096})
    back = Page.of(SIGNED, {"ts": [5] * 4096, "k": ["a"] * 4096, "v": list(range(4096)), "sign": [-1] * 4096})
    for _ in range(8):
        operator.process(one, found.append)
        operator.process(back, found.append)
    assert not found and operator.statistics()["state_tuples"] <= 8192
    assert operator.statistics()["taken_back"] >= 4096 * 7
    operator.punctuate(END, found.append)
    assert found == [END] and operator.statistics()["state_tuples"] == 0


def test_a_tuple_that_was_never_given_is_told() -> None:
    page = Page.of(SIGNED, {"ts": [5], "k": ["a"], "v": [7], "sign": [-1]})
    with pytest.raises(StreamViolation, match=r"the tuple .*7.* was taken back.* before it promises \[ts < 6\]"):
        drive(Settle(), [page, before("ts", 6)])
    with pytest.raises(StreamViolation, match="before the stream ends"):
        drive(Settle(), [page, END])


def test_lists_and_floating_numbers_are_told_apart() -> None:
    schema = Schema.of(x=pa.list_(pa.int64()), y=pa.float64(), sign=pa.int8())
    given = [
        ([1, 2], 0.5, 1),
        ([2, 1], 0.5, 1),
        ([1, 2], float("nan"), 1),
        ([1, 2], 0.5, -1),
        ([1, 2], float("nan"), -1),
    ]
    assert rows(drive(Settle(), [Page.of_rows(schema, given), END])) == [{"x": [2, 1], "y": 0.5, "sign": 1}]


def test_a_promise_on_what_is_not_there_is_not_passed_on() -> None:
    schema = Schema.of(ts=pa.int64(), sign=pa.int8(), progress=["ts"])
    page = Page.of(schema, {"ts": [5], "sign": [1]})
    assert drive(Settle(), [page, before("other", 3), before("sign", 0)]) == []


def test_pages_of_a_meld_may_have_attributes_more() -> None:
    less = Schema.of(ts=pa.int64(), sign=pa.int8())
    more = Schema.of(ts=pa.int64(), other=pa.int64(), sign=pa.int8())
    pages = [
        Page.of(more, {"ts": [1], "other": [5], "sign": [1]}),
        Page.of(less, {"ts": [2], "sign": [1]}),
        Page.of(more, {"ts": [2], "other": [6], "sign": [-1]}),
    ]
    assert rows(drive(Settle(), [*pages, END])) == [{"ts": 1, "sign": 1}]


def test_the_sign_is_a_number() -> None:
    with pytest.raises(SchemaError, match='"sign" has type string'):
        Settle().output_schema(Schema.of(sign=pa.string()))


class Blind(Settle):
    """Takes every change for a tuple."""

    def _kept(self, page: Page) -> Bools:
        return page.ticks("sign") > 0


class Hasty(Settle):
    """Passes on the promises before the tuples that they settle."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        found: list[object] = []
        super().punctuate(punctuation, found.append, port)
        for element in reversed(found):
            emit(element)  # type: ignore[arg-type]


class Forgetful(Settle):
    """Keeps what it has given."""

    def _give(self, punctuation: Punctuation | None, emit: Emit) -> None:
        held = list(self._held)
        super()._give(punctuation, emit)
        self._held = held


@pytest.mark.parametrize(("bug", "laws"), [(Blind, {10}), (Hasty, {3}), (Forgetful, {1, 2, 3, 10})])
def test_planted_bugs_are_found_out(bug: type[Settle], laws: set[int]) -> None:
    def check(script: Script) -> None:
        check_operator(bug, script, naive=lambda table: naive_standing(table, keep_sign=True))

    assert found_out(check, CHANGES) in laws


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 1, -1])), max_size=12))
def test_what_is_left_of_changes_is_what_they_add_up_to(found: list[tuple[int, int]]) -> None:
    same, signs = pa.array([k for k, _ in found], pa.int32()), [s for _, s in found]
    ids = same.to_numpy(zero_copy_only=False)
    left = changes.added_up(ids, pa.array(signs, pa.int64()).to_numpy(zero_copy_only=False))
    for key in range(4):
        net = sum(s for k, s in found if k == key)
        chosen = [s for (k, s), one in zip(found, left, strict=True) if k == key and one]
        assert sum(chosen) == net and len(chosen) == abs(net)


def test_examples() -> None:
    for module in (settle, changes):
        assert doctest.testmod(module).failed == 0
