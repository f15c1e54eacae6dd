"""OA-Join gives the pairs of the definition in whatever order tuples come, and keeps nothing longer than need be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Row
from operators.data.schema import Schema, ip_field
from operators.expression import Column
from operators.join import Band, OAJoin
from operators.join.shape import Kind
from operators.testing import Script, check_operator, streams
from tests.examples import mostly_slow, share
from tests.naive_join import band, naive_join
from tests.operators.join.deciding import DecidingJoin
from tests.operators.join.joining import NAMES, ON, TIMES, WINDOWS, Case, scripts

KINDS = ("inner", "left", "right", "full", "semi", "anti")
PATIENCE = st.sampled_from([0, 1, 2, 1000])


@pytest.mark.parametrize("name", mostly_slow(WINDOWS, but=("open band", "tumbling", "overlapping windows")))
@share(0.5)
@given(data=st.data(), script=scripts("linear", "group"))
def test_every_window_keeps_the_laws_and_nothing_too_long(name: str, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[name]
    patience = data.draw(PATIENCE)
    Case(window, meets).check(lambda: OAJoin(window, ON, patience=patience), script, strict=True)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, every=3))
@share(0.5)
@given(data=st.data(), script=scripts("linear", "group"))
def test_every_kind_keeps_the_laws_and_nothing_too_long(kind: str, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    patience, rows_a_page = data.draw(PATIENCE), data.draw(st.sampled_from([1, 3, 1 << 16]))
    case = Case(window, meets, kind=kind)
    case.check(lambda: OAJoin(window, ON, kind=kind, patience=patience, page_rows=rows_a_page), script)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, but=("inner", "full", "anti")))
@share(0.1)
@given(data=st.data(), script=scripts())
def test_promises_of_any_form_are_used_or_passed_on_but_never_wrong(
    kind: str, data: st.DataObject, script: Script
) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    patience = data.draw(PATIENCE)
    Case(window, meets, kind=kind).check(lambda: OAJoin(window, ON, kind=kind, patience=patience), script, strict=False)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, but=("inner", "full", "anti")))
@share(0.1)
@given(data=st.data(), script=scripts("linear"))
def test_without_equality_time_alone_joins(kind: str, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    patience = data.draw(PATIENCE)
    Case(window, meets, on=(), kind=kind).check(lambda: OAJoin(window, kind=kind, patience=patience), script)


@pytest.mark.parametrize("kind", mostly_slow(KINDS, but=("inner", "full", "semi")))
@share(0.5)
@given(data=st.data(), numbers=st.lists(st.booleans(), min_size=1, max_size=9), script=scripts("linear", "group"))
def test_whatever_is_left_plain_and_indexed_whenever_the_results_are_the_same(
    kind: Kind, data: st.DataObject, numbers: list[bool], script: Script
) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    case = Case(window, meets, kind=kind)
    case.check(lambda: DecidingJoin(window, ON, kind=kind, numbers=tuple(numbers), page_rows=3), script)


def differ(left: Row, right: Row) -> bool:
    return left["x"] is not None and left["x"] != right["y"]


@pytest.mark.parametrize("kind", mostly_slow(KINDS, but=("inner", "full", "anti")))
@share(0.1)
@given(data=st.data(), script=scripts("linear", "group"))
def test_a_residual_predicate_sees_both_tuples(kind: str, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(list(WINDOWS)))]
    patience = data.draw(PATIENCE)
    case = Case(window, meets, kind=kind, together=differ)
    residual = Column("x") != Column("y")
    case.check(lambda: OAJoin(window, ON, residual=residual, kind=kind, patience=patience, page_rows=2), script)


TYPES = [
    (pa.int32(), pa.int64()),
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.uint64()),
    (pa.float32(), pa.float64()),
    (pa.bool_(), pa.bool_()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.binary()),
    (pa.binary(3), pa.binary(3)),
    (pa.timestamp("s"), pa.timestamp("s")),
    (pa.date32(), pa.date32()),
]


@pytest.mark.parametrize(("one", "other"), mostly_slow(TYPES, every=3))
@share(0.1)
@given(data=st.data())
def test_keys_of_every_type_and_of_several_attributes_join(
    one: pa.DataType, other: pa.DataType, data: st.DataObject
) -> None:
    left = Schema.of(s=pa.int64(), k=one, x=pa.string(), progress=["s"])
    right = Schema.of(t=pa.int64(), m=other, n=pa.string(), progress=["t"])
    script = data.draw(streams([left, right], wattr=TIMES, tuples=6))
    for on in ((("k", "m"),), (("k", "m"), ("x", "n"))):

        def naive(*tables: list[Row], on: tuple[tuple[str, str], ...] = on) -> list[Row]:
            columns = (left.names, right.names)
            return naive_join(*tables, meets=band(3, 2), times=TIMES, on=on, columns=columns)

        check_operator(lambda on=on: OAJoin(Band("s", "t", left=3, right=2), on), script, naive=naive)


@share(0.5)
@given(data=st.data())
def test_addresses_join_addresses(data: st.DataObject) -> None:
    left = Schema(pa.schema([pa.field("s", pa.int64()), ip_field("k")]), progress=["s", ("k", "s")])
    right = Schema(pa.schema([pa.field("t", pa.int64()), ip_field("k")]), progress=["t", ("k", "t")])
    script = data.draw(streams([left, right], wattr=TIMES, group=("k",), tuples=6))

    def naive(*tables: list[Row]) -> list[Row]:
        columns = (left.names, right.names)
        return naive_join(*tables, meets=band(3, 2), times=TIMES, on=ON, columns=columns, names=NAMES)

    check_operator(lambda: OAJoin(Band("s", "t", left=3, right=2), ON), script, naive=naive)
