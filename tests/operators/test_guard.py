"""A guard keeps what its reader is promised: no finer than that reader needs, and nothing late passes."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive
from operators.protocol import Element
from operators.streams import guard as module
from operators.streams.guard import Guard
from operators.testing import Script, check_operator, streams
from punctuation import END, Below, Equals, Punctuation, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), x=pa.int64(), progress=["ts"])
Elements = list[int | Punctuation | None]


def shown(elements: list[Element]) -> Elements:
    """Give the times of tuples, and the promises, in order."""
    found: Elements = []
    for element in elements:
        found += element.column("ts").to_pylist() if isinstance(element, Page) else [element]
    return found


def naive(elements: Elements, step: int | None, origin: int, allow: int) -> tuple[Elements, int]:
    """Go through a stream one by one: what passes a guard, and how many tuples are late."""
    found: Elements = []
    bound, late = None, 0
    for element in elements:
        if isinstance(element, Punctuation):
            value = element.bound("ts")
            if isinstance(value, int) and step is not None:
                value = (value - origin) // step * step + origin
                if bound is not None and value <= bound:
                    continue
                element = before("ts", value, assumed=element.assumed)
            if isinstance(value, int):
                bound = value if bound is None else max(bound, value)
            found.append(element)
        elif bound is not None and element is not None and element < bound - allow:
            late += 1
        else:
            found.append(element)
    return found, late


tuples = st.lists(st.one_of(st.none(), st.integers(-20, 30)), min_size=1, max_size=5)
promises = st.builds(before, st.just("ts"), st.integers(-20, 30), assumed=st.booleans())
grouped = st.builds(lambda x, v: Punctuation({"x": Equals(x), "ts": Below(v)}), st.integers(0, 2), st.integers(-9, 9))


@given(
    st.lists(st.one_of(tuples, promises, grouped), max_size=12),
    st.one_of(st.none(), st.integers(1, 7)),
    st.integers(-4, 4),
    st.integers(0, 9),
)
def test_a_guard_is_what_goes_through_a_stream_one_by_one(
    stream: list[list[int | None] | Punctuation], step: int | None, origin: int, allow: int
) -> None:
    elements: list[Element] = []
    plain: Elements = []
    for part in [*stream, END]:
        if isinstance(part, Punctuation):
            elements.append(part)
            plain.append(part)
        else:
            elements.append(Page.of(SCHEMA, {"ts": part, "x": [0] * len(part)}))
            plain += part
    guard = Guard("ts", step, origin, allow=allow)
    expected, late = naive(plain, step, origin, allow)
    assert shown(drive(guard, elements)) == expected
    assert guard.statistics()["late"] == late


@share(1.5)
@given(streams(SCHEMA), st.one_of(st.none(), st.integers(1, 4)), st.integers(-3, 3))
def test_a_guard_keeps_the_laws(script: Script, step: int | None, origin: int) -> None:
    check_operator(lambda: Guard("ts", step, origin), script, naive=lambda table: table)


def test_a_promise_without_end_is_no_promise() -> None:
    least = -(2**63)
    page = Page.of(SCHEMA, {"ts": [least], "x": [0]})
    guard = Guard("ts", 7, 3, allow=5)
    assert shown(drive(guard, [before("ts", least), page, before("ts", least + 8), page])) == [
        least,
        before("ts", least + 8 - (least + 5) % 7),
        least,
    ]


@pytest.mark.parametrize(("options", "name"), [({"step": 0}, "step"), ({"allow": -1}, "allow")])
def test_a_step_is_at_least_one_tick_and_no_tuple_is_late_above_a_promise(options: dict[str, int], name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' must be >= "):
        Guard("ts", **options)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
