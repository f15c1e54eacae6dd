"""What a join leaves plain follows what it sees: volumes, how far the inputs are apart, and who looks at whom."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from operators.data.page import Page
from operators.data.saved import encode_state
from operators.data.schema import Schema
from operators.drive import deliver
from operators.join import Band
from operators.join.policy import Policy, Volume
from operators.join.shape import Kind
from operators.protocol import Element
from punctuation import before
from tests.operators.join.deciding import ShownJoin

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
PAGE = 1_000


def page(start: int, rows: int = PAGE, *, ticks: int = PAGE) -> Page:
    """Make tuples of one key each, spread over some ticks."""
    return Page.of(SCHEMA, {"ts": start + np.arange(rows) * ticks // rows, "k": np.arange(rows)})


def joined(script: Iterable[tuple[int, Element]]) -> tuple[ShownJoin, list[int], int]:
    """Drive a join; gives it, the tuples that lay plain after each page, and the pairs."""
    join, plain, found = ShownJoin(Band("ts", "ts", left=500, right=500), [("k", "k")]), list[int](), list[Element]()
    join.output_schema(SCHEMA, SCHEMA)
    for port, element in script:
        deliver(join, element, found.append, port)
        plain.append(join.statistics()["state_plain"])
    return join, plain, sum(len(one) for one in found if isinstance(one, Page))


def test_inputs_alike_are_indexed() -> None:
    _, plain, pairs = joined((port, page(at)) for at in range(0, 20 * PAGE, PAGE) for port in (0, 1))
    assert plain[8:] == [0] * len(plain[8:])
    assert pairs == 20 * PAGE


def test_many_tuples_lie_plain_beside_few_and_the_few_are_indexed() -> None:
    join, _, _ = joined(
        (port, page(at, rows)) for at in range(0, 20 * PAGE, PAGE) for port, rows in ((0, PAGE), (1, 10))
    )
    assert join.statistics()["state_plain"] == join.statistics()["state_left"] == 20 * PAGE


def test_what_the_other_input_has_not_come_near_lies_plain_and_is_indexed_when_it_comes_near() -> None:
    ahead = [(0, page(at)) for at in range(0, 20 * PAGE, PAGE)]
    _, plain, _ = joined(ahead)
    assert plain[-1] == 20 * PAGE
    _, plain, pairs = joined([*ahead, *((1, page(at)) for at in range(0, 10 * PAGE, PAGE))])
    assert plain[-1] <= 10 * PAGE
    assert pairs == 10 * PAGE


def test_pages_outside_the_band_are_not_looked_at() -> None:
    join, _, pairs = joined([(0, page(0)), (0, page(50 * PAGE)), (1, page(50 * PAGE, 10)), (1, page(9 * PAGE, 10))])
    assert [plain.looks for plain in join.left.plain] == [0, 1]
    assert pairs == 6


@pytest.mark.parametrize("kind", ["inner", "full"])
def test_thin_pages_that_nobody_looked_at_lie_together(kind: Kind) -> None:
    join = ShownJoin(Band("ts", "ts", left=500, right=500), [("k", "k")], kind=kind)
    join.output_schema(SCHEMA, SCHEMA)
    found: list[Element] = []
    for at in range(0, 2_000, 10):
        deliver(join, page(at, 10, ticks=10), found.append, 0)
    assert len(join.left) == 2_000
    assert len(join.left.plain) < 10
    deliver(join, before("ts", 1_000), found.append, 1)
    assert len(join.left) == 1_499
    deliver(join, page(1_000, 10, ticks=10), found.append, 1)
    pairs = sum(len(one) for one in found if isinstance(one, Page))
    # Each of ten keys has 99 partners; of the full join 501 tuples had gone alone.
    assert pairs == (990 if kind == "inner" else 990 + 501)


def test_thin_pages_with_dictionaries_of_their_own_lie_together() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.dictionary(pa.int32(), pa.string()), progress=["ts"])
    join = ShownJoin(Band("ts", "ts", left=99, right=99), [("k", "k")])
    join.output_schema(schema, schema)
    found: list[Element] = []
    for tick, key in enumerate("abcabc"):
        deliver(join, Page.of(schema, {"ts": [tick], "k": pa.array([key]).dictionary_encode()}), found.append, 0)
    assert len(join.left.plain) < 6
    deliver(join, Page.of(schema, {"ts": [9], "k": pa.array(["c"]).dictionary_encode()}), found.append, 1)
    assert [row["ts"] for one in found if isinstance(one, Page) for row in one.plain_rows()] == [2, 5]


def test_a_state_that_counted_pages_and_tuples_alone_is_read() -> None:
    old = Policy(8)
    old.restore({"version": 1, "patience": 3, "seen": [4.0, 2.0, 400.0, 10.0]})
    assert old.patience == 3
    assert encode_state(old.state()) == encode_state(Policy(3).state())


def test_the_pace_of_an_input_survives_a_jump_and_a_first_page_that_ranges_far() -> None:
    volume, fresh = Volume(), Volume()
    volume.saw(np.array([0, 1_000_000]))
    for at in range(1_000_010, 1_000_100, 10):
        volume.saw(np.arange(at, at + 10))
    assert volume.step(0) <= 10
    volume.saw(np.array([9_000_000]))
    assert volume.step(0) <= 13
    fresh.restore(volume.state())
    assert (fresh.step(5), fresh.a_tick(5), fresh.range) == (volume.step(5), volume.a_tick(5), volume.range)


def test_pages_of_one_tuple_get_on_by_the_time_between_them() -> None:
    volume = Volume()
    for tick in range(0, 500, 100):
        volume.saw(np.array([tick]))
    assert volume.step(0) == pytest.approx(80) and volume.a_tick(0) == pytest.approx(0.01)
    for start in range(500, 900, 100):
        volume.saw(np.arange(start, start + 100))
    assert volume.step(0) == pytest.approx(100, abs=1), "so do larger ones"
