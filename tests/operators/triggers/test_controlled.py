"""A second stream fires events in the windows and groups that its tuples name, behind what arrived before."""

from __future__ import annotations

import builtins
import doctest
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.saved import decode_state, encode_state, restore
from operators.data.schema import Schema
from operators.drive import deliver
from operators.errors import SchemaError
from operators.functions import count, max, sum
from operators.protocol import Element
from operators.signals import Event
from operators.testing import streams
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.triggers import controlled
from operators.window_aggregate.triggers.condition import AllOf, AnyOf, Condition, Rows, Then, Until
from operators.window_aggregate.triggers.controlled import ControlledAggregate
from punctuation import END, Punctuation
from tests.examples import share
from tests.naive_triggers import Told, naive_triggers

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
CONTROL = Schema.of(event=pa.string(), k=pa.string(), window_start=pa.int64(), wid=pa.int64(), ts=pa.int64())
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v")}
FLUSH, OTHER = Event("flush"), Event("other")
WINDOW = SlidingWindow("ts", size=6, slide=3)
CONDITIONS: tuple[Condition, ...] = (
    FLUSH,
    AnyOf((Rows(2), FLUSH)),
    AllOf((FLUSH, OTHER)),
    Then(FLUSH, Rows(1)),
    Until(Rows(1), FLUSH),
)
Moment: TypeAlias = "tuple[int, Element]"


def values(members: Sequence[Row]) -> list[int]:
    return [int(row["v"]) for row in members if row["v"] is not None]  # type: ignore[arg-type]


ANSWERS = {
    "n": len,
    "total": lambda members: None if not (found := values(members)) else builtins.sum(found),
    "most": lambda members: None if not (found := values(members)) else builtins.max(found),
}
orders = st.tuples(
    st.sampled_from(("flush", "flush", "other", "unheard", None)),
    st.sampled_from((None, None, "a", "b")),
    st.sampled_from((None, None, None, -3, 0, 3)),
    st.sampled_from((None, None, None, 0, 1)),
    st.just(None),
)


@st.composite
def controlled_streams(draw: st.DrawFn) -> list[Moment]:
    """Draw a stream with pages of events between its elements."""
    script = draw(streams(SCHEMA, group=("k",), tuples=14, promises=("linear",)))
    found: list[Moment] = []
    for _, element in script.steps:
        if told := draw(st.lists(orders, max_size=3)):
            found.append((1, Page.of_rows(CONTROL, told)))
        found.append((0, element))
    return found


def moments(elements: Sequence[Moment]) -> list[Row | Told | int | Punctuation]:
    found: list[Row | Told | int | Punctuation] = []
    for port, element in elements:
        if isinstance(element, Punctuation):
            found += [] if element.is_end else [element]
        elif port == 0:
            found += element.plain_rows()
        else:
            for row in element.plain_rows():
                where = {name: row[name] for name in ("k", "wid", "window_start")}
                found.append(Told(Event(str(row["event"])), where))
    return found


def one_by_one(elements: Sequence[Moment]) -> list[Moment]:
    found: list[Moment] = []
    for port, element in elements:
        pieces = [element.slice(i, i + 1) for i in range(len(element))] if isinstance(element, Page) else [element]
        found += [(port, piece) for piece in pieces]
    return found


def made(condition: Condition, by: tuple[str, ...], *, discards: bool) -> Chain:
    fires = ControlledAggregate(WINDOW, FUNCTIONS, by, condition=condition, discards=discards)  # type: ignore[arg-type]
    return Chain([Bucket(WINDOW), fires])


def run(operator: Chain, elements: Sequence[Moment], *, saving: bool = False) -> tuple[list[Row], int]:
    """Give the results, and how many events nobody heard."""
    emitted = list[Element]()
    for port, element in elements:
        if port == 0:
            deliver(operator, element, emitted.append)
        else:
            deliver(operator.links()[1], element, emitted.append, 1)
        if saving:
            fresh = Chain([Bucket(WINDOW), _again(operator.links()[1])])
            fresh.output_schema(SCHEMA)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh
    statistics = operator.statistics()
    assert statistics["state_tuples"] == 0
    assert [element for element in emitted if isinstance(element, Punctuation)][-1].is_end
    return [row for e in emitted if isinstance(e, Page) for row in e.plain_rows()], statistics["unheard_events"]


def _again(operator: object) -> ControlledAggregate:
    assert isinstance(operator, ControlledAggregate)
    its = {"condition": operator.condition, "discards": operator.discards}
    return ControlledAggregate(WINDOW, FUNCTIONS, operator.by, **its)  # type: ignore[arg-type]


def bag(rows: Sequence[Row]) -> Counter[str]:
    return Counter(map(str, rows))


@share(0.5)
@given(st.sampled_from(CONDITIONS), st.sampled_from([(), ("k",)]), st.booleans(), controlled_streams())
def test_events_fire_the_windows_and_groups_that_they_name(
    condition: Condition, by: tuple[str, ...], discards: bool, elements: list[Moment]
) -> None:
    right = bag(naive_triggers(WINDOW, condition, ANSWERS, by, moments(elements), discard=discards))
    heard = {signal.name for signal in made(condition, by, discards=discards).links()[1].signals()}  # type: ignore[attr-defined]
    unheard = builtins.sum(isinstance(m, Told) and m.signal.name not in heard for m in moments(elements))
    for variant, saving in ((elements, False), (elements, True), (one_by_one(elements), False)):
        found, counted = run(made(condition, by, discards=discards), variant, saving=saving)
        assert bag(found) == right
        assert counted == unheard


def test_the_second_stream_ends_nothing_and_may_go_on_behind_the_end() -> None:
    page = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    order = Page.of_rows(CONTROL, [("flush", None, None, None, None)])
    found, _ = run(made(FLUSH, (), discards=False), [(1, END), (0, page), (1, order), (0, END), (1, order)])
    assert [(row["n"], row["final"]) for row in found] == [(1, False)] * 2 + [(1, True)] * 2


def test_types_that_do_not_fit_are_refused() -> None:
    tagged = Bucket(WINDOW).output_schema(SCHEMA)
    fires = ControlledAggregate(WINDOW, FUNCTIONS, ("k",), condition=FLUSH)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match='"event" has type int64'):
        fires.output_schema(tagged, Schema.of(event=pa.int64()))
    with pytest.raises(SchemaError, match='"k" has type int64, and string in the results'):
        fires.output_schema(tagged, Schema.of(event=pa.string(), k=pa.int64()))
    with pytest.raises(SchemaError, match="event"):
        fires.output_schema(tagged, Schema.of(k=pa.string()))


def test_example() -> None:
    assert doctest.testmod(controlled).failed == 0
