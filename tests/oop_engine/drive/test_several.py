"""Small chunks that come quickly are handed on together: in order, once, and none waits for the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.several import ENOUGH, Several
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), progress=["ts"])


def page(*times: int) -> Page:
    return Page.of(SCHEMA, {"ts": list(times)})


def given_by(several: Several) -> Iterator[list[object]]:
    """Yield what each call gives, as if all were taken at once."""
    while (found := several.next()) is not None:
        several.taken(at_once=True)
        yield found if isinstance(found, list) else [found]


def test_chunks_come_one_by_one_until_they_are_taken_at_once_for_a_while() -> None:
    several = Several(iter([page(i) for i in range(100)]), clock=lambda: 0.0)
    sizes = [len(found) for found in given_by(several)]
    assert sizes[:16] == [1] * 16 and sizes[16:] == [16] * 5 + [4]
    several = Several(iter([page(i) for i in range(100)]), clock=lambda: 0.0)
    for _ in range(100):
        assert isinstance(several.next(), Page)
        several.taken(at_once=False)
    assert several.next() is None


def test_one_that_had_to_wait_is_read_one_by_one_again() -> None:
    several = Several((page(i) for i in count()), clock=lambda: 0.0)
    for _ in range(16):
        several.next()
        several.taken(at_once=True)
    assert several.together
    several.taken(at_once=False)
    assert not several.together and isinstance(several.next(), Page)


def test_enough_tuples_a_long_time_and_a_slow_source_end_a_call() -> None:
    large = [page(*range(ENOUGH // 2))] * 40
    sizes = [len(found) for found in given_by(Several(iter(large), clock=lambda: 0.0))]
    assert sizes[16:] == [2] * 12
    for tick, most in ((1e-4, 12), (3e-4, 1)):
        ticks = count()
        several = Several(iter([page(i) for i in range(60)]), clock=lambda ticks=ticks, tick=tick: tick * next(ticks))
        assert max(len(found) for found in given_by(several)) <= most


@share(1)
@given(st.data())
def test_all_come_once_and_in_order_and_before_an_error(data: st.DataObject) -> None:
    chunks = data.draw(st.lists(st.sampled_from([page(1), page(2, 3), before("ts", 1)]), max_size=60))
    fails = data.draw(st.booleans())

    def reading() -> Iterator[Element]:
        yield from chunks
        if fails:
            raise ArithmeticError("the next one cannot be read")

    several, found = Several(reading(), clock=lambda: 0.0), list[object]()
    try:
        while (taken := several.next()) is not None:
            several.taken(at_once=data.draw(st.integers(0, 9)) > 0)
            found += taken if isinstance(taken, list) else [taken]
        assert not fails
    except ArithmeticError:
        assert fails
    assert [id(one) for one in found] == [id(one) for one in chunks]


def test_what_is_held_leaves_while_the_next_one_is_waited_for() -> None:
    """The iterator waits until the last page that it gave has come out."""
    came, out = threading.Event(), list[int]()

    def reading() -> Iterator[Element]:
        for i in range(60):
            yield page(i)
        assert came.wait(20)
        yield page(60)

    def take(given: Page) -> None:
        out.extend(given.ticks("ts").tolist())
        if out[-1] == 59:
            came.set()

    oop.pages(reading(), SCHEMA).filter("ts >= 0").to(take).run()
    assert out == list(range(61))


@pytest.mark.parametrize("many", [1, 30, 200])
def test_pages_before_an_error_are_worked_off(many: int) -> None:
    out = list[int]()

    def reading() -> Iterator[Element]:
        for i in range(many):
            yield page(i)
        raise oop.SourceEnded("the line is dead")

    with pytest.raises(oop.SourceEnded):
        oop.pages(reading(), SCHEMA).filter("ts >= 0").to(lambda given: out.extend(given.ticks("ts").tolist())).run()
    assert out == list(range(many))


def test_promises_do_not_overtake_pages() -> None:
    elements: list[Element] = []
    for i in range(500):
        elements += [page(2 * i, 2 * i + 1), before("ts", 2 * i + 2)]
    counts = oop.pages(iter(elements), SCHEMA).window(range=10).aggregate(oop.count())
    assert counts.to_arrow().column("count").to_pylist() == [10] * 100
