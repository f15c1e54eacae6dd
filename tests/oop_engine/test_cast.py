"""Values become those of other types, in text and in Python, and promises on them go on."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.query_errors import LanguageError

NS = pa.timestamp("ns", "UTC")
TABLE = pa.table(
    {
        "ts": pa.array([1_000_000_000, 2_500_000_000, 11_000_000_000], NS),
        "d": pa.array([Decimal("1.5"), None, Decimal("2.25")], pa.decimal128(10, 2)),
        "n": [1, 2, 11],
        "s": ["7", "8", None],
    }
)


def derived(expression: Any) -> list[object]:
    column = oop.arrow(TABLE).derive(x=expression).run().table.column("x")
    return column.to_pylist()


@pytest.mark.parametrize(
    ("text", "name", "kind", "expected"),
    [
        ("d", "float64", "d", [1.5, None, 2.25]),
        ("n", "string", "n", ["1", "2", "11"]),
        ("s", "int32", "s", [7, 8, None]),
        ("ts", "int64", "ts", [1_000_000_000, 2_500_000_000, 11_000_000_000]),
        ("n", "float32", "n", [1.0, 2.0, 11.0]),
    ],
)
def test_a_value_is_cast_in_text_and_in_python(text: str, name: str, kind: str, expected: list[object]) -> None:
    assert derived(f"cast({text}, '{name}')") == expected == derived(lambda p: p[kind].cast(name))


def test_aggregates_that_ask_for_a_cast_take_it() -> None:
    query = "SELECT sum(cast(d, 'float64')) AS x [RANGE 1 day, WA ts] FROM M"
    assert oop.query(query, M=oop.arrow(TABLE)).run().table["x"].to_pylist() == [3.75]


@given(st.lists(st.integers(-5_000_000_000, 5_000_000_000), max_size=40), st.sampled_from(["s", "ms", "us"]))
def test_a_coarser_time_rounds_down_and_its_windows_are_those_of_the_finer_one(ticks: list[int], unit: str) -> None:
    plan = oop.arrow(pa.table({"ts": pa.array(ticks, NS)})).project(t=lambda p: p["ts"].cast(f"timestamp[{unit}]"))
    assert plan.schema.progress, "the promise goes on"
    found = plan.window("2 s", wattr="t").aggregate(n=oop.count()).run()
    counts = {row["wid"]: row["n"] for row in found.table.to_pylist()}
    assert counts == Counter(tick // 2_000_000_000 for tick in ticks) and found.statistics.late == 0


def test_streams_of_two_units_are_joined_after_a_cast() -> None:
    seconds = oop.arrow(pa.table({"ts": pa.array([1, 2, 11], pa.timestamp("s", "UTC")), "n": [1, 2, 11]}))
    fine = oop.arrow(TABLE).project("n", ts=lambda p: p["ts"].cast("timestamp[s]"))
    assert sorted(fine.join(seconds, "n", range=("1 s", "1 s")).run().table["n"].to_pylist()) == [1, 2, 11]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cast(d, 'flot64')", 'Did you mean "float64"'),
        ("cast(d)", "cast takes a value and the name of a type"),
        ("cast(d, n)", "cast takes a value and the name of a type"),
        ("cast(n, 'date32')", "of which no date32 is made"),
    ],
)
def test_what_cannot_be_cast_is_told_when_the_plan_is_made(text: str, says: str) -> None:
    with pytest.raises(LanguageError, match=says):
        oop.arrow(TABLE).derive(x=text)


def test_a_value_that_does_not_fit_is_an_error_that_names_the_cast() -> None:
    with pytest.raises(OverflowError, match=r'cast\(d, "int64"\): '):
        derived("cast(d, 'int64')")
