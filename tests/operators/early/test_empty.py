"""Windows without a tuple fire too, between the first result and the last window that has one."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Row
from operators.protocol import Operator
from operators.testing import Script, check_operator, streams
from operators.window_aggregate.early import empty
from operators.window_aggregate.early.empty import FillEmpty
from operators.window_aggregate.early.refine import Refine
from tests.examples import share
from tests.naive_early import naive_refined
from tests.operators.early.test_early import ANSWERS, FUNCTIONS, SCHEMA, Asked, asked


def operator(one: Asked) -> Operator:
    """Fill the results of one window, then refine them."""
    ((name, window),) = one.windows.items()
    plain = attrs.evolve(one, refinement="accumulate" if one.refinement == "retract" else one.refinement).operator()
    chain = [plain, FillEmpty(window, one.after[name], FUNCTIONS, SCHEMA)]  # type: ignore[arg-type]
    return Chain([*chain, Refine()] if one.refinement == "retract" else chain)


def naive(one: Asked, table: Sequence[Row]) -> list[Row]:
    """Give what has a tuple, and of each window up to the last such one what fires no earlier than the first result."""
    ((name, window),) = one.windows.items()
    found = attrs.evolve(one, refinement="accumulate" if one.refinement == "retract" else one.refinement).naive(table)
    if found:
        first, last = (f(int(str(row[what])) for row in found) for f, what in ((min, "fired"), (max, "wid")))
        there = {(row["wid"], row["fired"]) for row in found}
        earliest = min(int(str(row["wid"])) for row in found)
        for wid in range(earliest, last + 1):
            start, stop = window.extent(wid)
            for after in one.after[name]:
                if start + after >= first and (wid, start + after) not in there:
                    row: Row = {"n": 0, "total": None, "most": None, "wid": wid, "window_start": start}
                    found.append(row | {"window_end": stop, "fired": start + after, "final": start + after == stop})
    return naive_refined(found, list(ANSWERS)) if one.refinement == "retract" else found


def single(refinement: str) -> st.SearchStrategy[Asked]:
    return asked(refinement).filter(lambda one: len(one.windows) == 1).map(lambda one: attrs.evolve(one, by=()))


@pytest.mark.parametrize("refinement", ["accumulate", "discard", "retract"])
def test_every_order_paging_and_punctuation_gives_the_naive_answer(refinement: str) -> None:
    @share(1)
    @given(single(refinement), streams(SCHEMA, group=("k",), tuples=8))
    def check(one: Asked, script: Script) -> None:
        check_operator(lambda: operator(one), script, naive=lambda table: naive(one, table))

    check()


@share(0.5)
@given(single("retract"), streams(SCHEMA, group=("k",), tuples=8))
def test_up_to_each_promise_the_changes_add_up_to_the_final_answer(one: Asked, script: Script) -> None:
    def final(table: list[Row]) -> list[Row]:
        return [row for row in naive(attrs.evolve(one, refinement="accumulate"), table) if row["final"]]

    check_operator(lambda: operator(one), script, changes=final)


def test_examples() -> None:
    assert doctest.testmod(empty).failed == 0
