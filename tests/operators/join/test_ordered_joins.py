"""The order-preserving joins give the pairs of OA-Join in the order of the left time, and pay for it in state."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.join import Band, OAJoin, OPIBJoin, OPOBJoin, ordered
from operators.protocol import Operator
from operators.testing import Script, check_operator
from punctuation import before
from tests.examples import share
from tests.operators.join.joining import LEFT, ON, RIGHT, WINDOWS, Case, scripts

MAKERS: dict[str, Callable[[OAJoin], Operator]] = {"OPOB": OPOBJoin, "OPIB": OPIBJoin}
TS = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])


@pytest.mark.parametrize("name", MAKERS)
@share(1)
@given(data=st.data(), script=scripts())
def test_they_keep_the_laws_and_give_the_pairs_of_the_definition(
    name: str, data: st.DataObject, script: Script
) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    check_operator(lambda: MAKERS[name](OAJoin(window, ON)), script, naive=Case(window, meets).naive)


@pytest.mark.parametrize("name", MAKERS)
@share(1.5)
@given(data=st.data(), script=scripts())
def test_their_pairs_come_in_the_order_of_the_left_time(name: str, data: st.DataObject, script: Script) -> None:
    window, _ = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    join = MAKERS[name](OAJoin(window, ON, page_rows=2))
    join.output_schema(LEFT, RIGHT)
    times = [row["s"] for row in rows(drive(join, script))]
    assert times == sorted(times, key=lambda t: int(str(t)))


@share(1)
@given(script=scripts())
def test_the_output_buffer_orders_tuples_without_a_partner_too(script: Script) -> None:
    window, meets = WINDOWS["open band"]
    case = Case(window, meets, kind="left")
    check_operator(lambda: OPOBJoin(OAJoin(window, ON, kind="left")), script, naive=case.naive)


def peaks(ticks: int, band: int) -> dict[str, int]:
    """Give the peak state of each join on two ordered streams in step, each tick promised when it is over."""
    found: dict[str, int] = {}
    makers: dict[str, Callable[[OAJoin], Operator]] = {"OA": lambda join: join, **MAKERS}
    for name, make in makers.items():
        join = make(OAJoin(Band("ts", "ts", left=band, right=band), [("k", "k")]))
        join.output_schema(TS, TS)
        for tick in range(ticks):
            page = Page.of(TS, {"ts": np.full(6, tick), "k": np.arange(6) // 2})
            drive(join, [(0, page), (1, page), (0, before("ts", tick + 1)), (1, before("ts", tick + 1))])
        statistics = join.statistics()  # type: ignore[attr-defined]
        found[name] = int(statistics["peak_state_tuples"])
    return found


def test_order_costs_state_and_more_of_it_with_a_longer_band() -> None:
    short, long = peaks(60, 5), peaks(60, 20)
    for found in (short, long):
        assert found["OA"] <= found["OPIB"] < found["OPOB"]
    # Pairs grow with the square of the band's length, tuples with its length.
    assert long["OPOB"] / short["OPOB"] > 2 * long["OA"] / short["OA"]


def test_what_they_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match='OPIB-Join gives pairs alone; kind="left"'):
        OPIBJoin(OAJoin(Band("ts", "ts", left=5, right=5), kind="left"))
    with pytest.raises(SchemaError, match='Add "ts" to `attributes`'):
        OPOBJoin(OAJoin(Band("ts", "ts", left=5, right=5), attributes=["right_ts"])).output_schema(TS, TS)


def test_only_the_order_of_the_left_time_is_promised() -> None:
    band = Band("ts", "ts", left=5, right=5)
    assert OPOBJoin(OAJoin(band)).output_schema(TS, TS).progress == {frozenset({"ts"})}
    pair = {frozenset({"ts"}), frozenset({"right_ts"}), frozenset({"ts", "right_ts"})}
    assert OPIBJoin(OAJoin(band)).output_schema(TS, TS).progress == pair


def test_the_examples_in_the_docstrings_run() -> None:
    result = doctest.testmod(ordered)
    assert result.attempted and not result.failed
