"""A flow that several observers tell of counts once, whatever the order in which their records come."""

from __future__ import annotations

import doctest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.kernels.rates import cover as kernels
from operators.rates import dedup as module
from operators.rates.dedup import Dedup
from operators.testing import Script, check_operator, streams
from punctuation import END, before
from tests.examples import share
from tests.naive_dedup import naive_dedup
from tests.operators.planted import found_out, mutated

SCHEMA = Schema.of(ts=pa.int64(), end_ts=pa.int64(), k=pa.string(), o=pa.int8(), v=pa.int64(), progress=["ts"])
scripts = streams(SCHEMA, group=("k",), nulls=("ts", "end_ts", "k", "o", "v"), tuples=14)
options = st.tuples(st.sampled_from([0, 1, 3]), st.sampled_from([1, 4]), st.sampled_from([None, "twice"]))


@share(1)
@given(scripts, options, st.sampled_from([(), ("k",)]))
def test_dedup_keeps_the_laws_and_is_the_naive_answer(
    script: Script, chosen: tuple[int, int, str | None], keys: tuple[str, ...]
) -> None:
    reach, step, mark = chosen
    check_operator(
        lambda: Dedup(keys, ("o",), reach=reach, step=step, mark=mark),
        script,
        naive=lambda table: naive_dedup(table, keys, ("o",), reach=reach, mark=mark),
    )


@pytest.mark.parametrize(
    ("function", "old", "new"),
    [
        ("within", "- lows[last] + 1", "- lows[last]"),
        ("cover", "(length + 1) // 2", "length"),
        ("united", "ends[right] + reach", "ends[right]"),
    ],
)
def test_a_planted_bug_is_found(function: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cover", mutated(kernels, function, (old, new)).cover)

    def check(script: Script) -> None:
        naive = lambda table: naive_dedup(table, ("k",), ("o",), reach=1, mark="twice")  # noqa: E731
        check_operator(lambda: Dedup(("k",), ("o",), reach=1, mark="twice"), script, naive=naive, laws=(3, 7, 10))

    assert found_out(check, scripts) in (3, 7, 10)


def deduped(*table: tuple[Any, ...], **more: Any) -> list[Row]:
    page = Page.of_rows(SCHEMA, [(start, end, "a", o, v) for v, (start, end, o) in enumerate(table)])
    return rows(drive(Dedup(("k",), ("o",), **more), [page, END]))


def test_active_timeouts_of_observers_may_differ() -> None:
    long, parts = (0, 300, 2), [(at, at + 59, 1) for at in range(0, 300, 60)]
    assert [row["o"] for row in deduped(long, *parts)] == [1] * 5
    first = (0, 300, 1), *((at, at + 59, 2) for at in range(0, 300, 60))
    assert [row["o"] for row in deduped(*first)] == [1]


def test_a_flow_that_moves_to_another_exporter_counts_on_both() -> None:
    assert len(deduped((0, 150, 1), (150, 300, 2), reach=2)) == 2


def test_clocks_may_be_apart_by_the_reach() -> None:
    assert len(deduped((0, 0, 1), (2, 2, 2), reach=1)) == 2
    assert len(deduped((0, 0, 1), (2, 2, 2), reach=2)) == 1


def test_records_of_one_observer_are_no_duplicates_of_each_other() -> None:
    assert len(deduped((0, 9, 1), (0, 9, 1), (3, 9, 1))) == 3


def test_records_are_judged_as_soon_as_none_can_tell_of_them_and_forgotten_when_they_tell_of_none() -> None:
    dedup = Dedup(("k",), ("o",))
    page = Page.of_rows(SCHEMA, [(0, 5, "a", 2, 0), (1, 4, "a", 1, 1), (4, 20, "a", 2, 2), (2, 3, "b", 1, 3)])
    found = drive(dedup, [page, before("ts", 5)])
    assert {row["v"] for row in rows(found)} == {1, 3}
    assert str(found[-1]) == "[ts < 0]"
    assert dedup.statistics()["state_tuples"] == 3
    assert str(drive(dedup, [before("ts", 6)])[-1]) == "[ts < 4]"
    assert (dedup.statistics()["state_tuples"], dedup.statistics()["duplicates"]) == (2, 1)
    assert list(dedup.notes(dedup.statistics())) == [
        "1 flow record of 4 left out, as other observers tell of the same flows"
    ]


def test_what_cannot_be_deduplicated_is_refused_in_words() -> None:
    with pytest.raises(SchemaError, match='"k" has type string; a flow starts and ends'):
        Dedup((), ("o",), start="k").output_schema(SCHEMA)
    with pytest.raises(SchemaError, match='already has an attribute "v"'):
        Dedup((), ("o",), mark="v").output_schema(SCHEMA)
    with pytest.raises(SchemaError, match="name what tells observers apart"):
        Dedup((), ()).output_schema(SCHEMA)


def test_the_examples_in_its_docstrings_are_right() -> None:
    assert doctest.testmod(module).failed == 0
