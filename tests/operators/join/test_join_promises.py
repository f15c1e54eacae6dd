"""What a join promises lets the operators behind it progress on either time, on both, on the lesser or the greater."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import count
from operators.join import Band, OAJoin
from operators.join.promises import Punctuate
from operators.join.shape import Kind
from operators.protocol import Element, Operator
from operators.testing import Script, check_operator, streams
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_join import band, naive_join
from tests.operators.join.joining import LEFT, NAMES, ON, RIGHT, TIMES, WINDOWS, Case, scripts

S0 = Schema.of(s0=pa.int64(), progress=["s0"])
S1 = Schema.of(s1=pa.int64(), progress=["s1"])
MINUTES = Band("s0", "s1", left=2, right=2, closed=True)


P1_TO_P5 = ((0, 1), (0, 2), (1, 1), (1, 2), (0, 3))
"""The promises of Fig 7-5 in order of arrival: on which link, and up to which minute."""


def released(promises: Punctuate) -> dict[str, list[Row]]:
    """Run Q7-1 as in Fig 7-5, a tuple a minute on each link, and give what each promise lets out.

    The figure reads a promise of 1 as "up to and with 1"; here it is "below 2", so all are one higher (row 33).
    """
    join = OAJoin(MINUTES, promises=promises)
    counted = Chain([join, GroupAggregate({"count": count()}, ("s0", "s1"))])
    counted.output_schema(S0, S1)
    minutes = list(range(5))
    drive(counted, [(0, Page.of(S0, {"s0": minutes})), (1, Page.of(S1, {"s1": minutes}))])
    return {
        f"p{number}": rows(drive(counted, [(port, before(("s0", "s1")[port], minute + 1))]))
        for number, (port, minute) in enumerate(P1_TO_P5, start=1)
    }


def when(found: dict[str, list[Row]]) -> dict[tuple[object, object], str]:
    return {(row["s0"], row["s1"]): name for name, let_out in found.items() for row in let_out}


def test_joint_promises_let_the_groups_of_q7_1_out_earlier_as_fig_7_5_argues() -> None:
    joint, both, individual = (when(released(p)) for p in ("joint", "both", "individual"))
    assert joint[0, 1] == both[0, 1] == "p3"
    # The slab below S1 = 1 comes with p5, as the thesis says; the one below S0 = 0, which it passes over, with p4.
    assert individual[0, 1] == "p4" and individual[2, 1] == "p5"
    assert all(both[pair] <= name for pair, name in individual.items())
    assert sum(both[pair] < name for pair, name in individual.items()) >= 3


def test_the_box_is_cut_to_what_the_band_can_fill() -> None:
    join = OAJoin(MINUTES, promises="joint")
    join.output_schema(S0, S1)
    said = [str(e) for e in drive(join, [(0, before("s0", 100)), (1, before("s1", 10)), (1, before("s1", 50))])]
    assert said == ["[s0 < 13, s1 < 10]", "[s0 < 53, s1 < 50]"]


def test_the_box_of_a_key_is_promised_where_its_single_bounds_do_not_cover_it() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts", ("k", "ts")])
    join = OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")])
    join.output_schema(schema, schema)
    group = Punctuation({"k": Equals(1), "ts": Below(10)})
    script = [
        (0, Page.of(schema, {"ts": [8], "k": [1]})),
        (1, Page.of(schema, {"ts": [9], "k": [1]})),
        (0, group),
        (1, group),
    ]
    said = [str(e) for e in drive(join, script) if isinstance(e, Punctuation)]
    assert "[k = 1, right_ts < 10, ts < 10]" in said and "[right_k = 1, right_ts < 10, ts < 10]" in said


PARTS: tuple[dict[str, str], ...] = ({"k": "k"}, {"x": "y"}, {"k": "k", "x": "y"})
"""Some of the attributes by which two inputs are joined, by their names on the left and on the right."""
TWO = Schema.of(s=pa.int64(), k=pa.int64(), x=pa.int64(), progress=["s", ("k", "s"), "k", "x"])
OTHER = Schema.of(t=pa.int64(), k=pa.int64(), y=pa.int64(), progress=["t", ("k", "t"), "k", "y"])
KEY = (("k", "k"), ("x", "y"))


def both_have_said(kind: Kind, tables: Sequence[list[Row]], progress: Sequence[Progress]) -> Iterator[Punctuation]:
    """Give what both inputs have promised of a key, or of a part of it: later results have it under neither name."""
    if any(one.ended for one in progress):
        return
    for part in PARTS:
        for values in {tuple(row[name] for name in part) for row in tables[0]}:
            if None in values:
                continue
            left, right = (
                Punctuation({name: Equals(int(str(value))) for name, value in zip(names, values, strict=True)})
                for names in (part, part.values())
            )
            if not all(map(Progress.implies, progress, (left, right))):
                continue
            yield left
            if kind not in ("semi", "anti") and (its := right.onto({"k": "right_k", "y": "y"})) is not None:
                yield its


@pytest.mark.parametrize("kind", ["inner", "left", "full", "semi", "anti"])
@share(1)
@given(
    patience=st.sampled_from([0, 1, 1000]),
    script=streams([TWO, OTHER], wattr=TIMES, group=("k",), nulls=("x",), promises=("group",), tuples=4),
)
def test_what_both_inputs_promise_of_a_part_of_a_key_is_passed_on(kind: Kind, patience: int, script: Script) -> None:
    def naive(*tables: list[Row]) -> list[Row]:
        columns = (TWO.names, OTHER.names)
        return naive_join(*tables, meets=band(3, 2), times=TIMES, on=KEY, kind=kind, names=NAMES, columns=columns)

    check_operator(
        lambda: OAJoin(Band("s", "t", left=3, right=2), KEY, kind=kind, patience=patience),
        script,
        naive=naive,
        promised=lambda tables, progress: [*both_have_said(kind, tables, progress)],
    )


def test_a_promise_on_a_part_of_a_key_waits_for_what_the_other_input_lets_go() -> None:
    join = OAJoin(Band("s", "t", left=3, right=2), KEY)
    join.output_schema(TWO, OTHER)
    some = Punctuation({"k": Equals(5)})

    def said(port: int, element: Element) -> list[str]:
        return [str(one) for one in drive(join, [(port, element)]) if isinstance(one, Punctuation)]

    assert said(0, Page.of(TWO, {"s": [7, 8], "k": [5, 6], "x": [1, 1]})) == []
    assert said(0, some) == []
    # A tuple at 7 meets those up to 9.
    assert said(1, Punctuation({"k": Equals(5), "t": Below(9)})) == ["[right_k = 5, t < 9]"]
    assert said(1, Punctuation({"k": Equals(5), "t": Below(10)})) == ["[k = 5]", "[right_k = 5, t < 10]"]
    assert said(1, some) == ["[right_k = 5]"] and len(join) == 1


def progressing(attribute: str) -> tuple[Operator, Schema]:
    """Give a join whose result is counted in windows of 2 ticks of an attribute."""
    window = tumbling(attribute, 2)
    join = OAJoin(Band("s", "t", left=3, right=2), ON, least="first", greatest="last")
    chain = Chain([join, Bucket(window), WindowAggregate(window, {"count": count()})])
    return chain, chain.output_schema(LEFT, RIGHT)


@pytest.mark.parametrize("attribute", mostly_slow(["s", "t", "first", "last"], every=2))
@share(1)
@given(script=scripts("linear"))
def test_windows_on_either_time_on_the_lesser_or_the_greater_close_and_are_right(
    attribute: str, script: Script
) -> None:
    def naive(*tables: list[Row]) -> list[Row]:
        found = naive_join(*tables, meets=WINDOWS["open band"][1], times=TIMES, on=ON, names=NAMES, columns=COLUMNS)
        times = [(int(str(row["s"])), int(str(row["t"]))) for row in found]
        chosen = [{"s": s, "t": t, "first": min(s, t), "last": max(s, t)}[attribute] for s, t in times]
        return [
            {
                "count": chosen.count(2 * w) + chosen.count(2 * w + 1),
                "wid": w,
                "window_start": 2 * w,
                "window_end": 2 * w + 2,
            }
            for w in {tick // 2 for tick in chosen}
        ]

    check_operator(lambda: progressing(attribute)[0], script, naive=naive)


COLUMNS = (LEFT.names, RIGHT.names)


@pytest.mark.parametrize("attribute", ["s", "t", "first", "last"])
def test_windows_on_every_attribute_close_before_the_end(attribute: str) -> None:
    chain, schema = progressing(attribute)
    assert schema.progressing("wid")
    left = Page.of(LEFT, {"s": [4, 5], "k": ["a", "a"], "x": [0, 0]})
    right = Page.of(RIGHT, {"t": [4, 5], "k": ["a", "a"], "y": [0, 0]})
    found = drive(chain, [(0, left), (1, right), (0, before("s", 9)), (1, before("t", 9))])
    assert [row["count"] for row in rows(found)] == [4]


@share(1)
@given(script=scripts("linear"), kind=st.sampled_from(["inner", "left", "right", "full"]))
def test_the_lesser_and_the_greater_time_are_promised_as_tightly_as_can_be(script: Script, kind: str) -> None:
    window, meets = WINDOWS["wide open band"]
    case = Case(window, meets, kind=kind)

    def naive(*tables: list[Row]) -> list[Row]:
        found = case.naive(*tables)
        for row in found:
            times = [time for time in (row["s"], row["t"]) if time is not None]
            row |= {"first": min(times), "last": max(times)}  # type: ignore[type-var]
        return found

    def promised(tables: Sequence[list[Row]], progress: Sequence[object]) -> list[Punctuation]:
        bounds = [p.bound(name) for p, name in zip(progress, TIMES, strict=True)]  # type: ignore[attr-defined]
        if not all(isinstance(bound, int) for bound in bounds):
            return []
        fronts = [
            min(
                [int(str(r[TIMES[port]])) for r in tables[port] if case.open(r, port, tables, progress)]
                + [bounds[port]]
            )  # type: ignore[arg-type]
            for port in (0, 1)
        ]
        alone = [fronts[port] for port in (0, 1) if kind in ("full", ("left", "right")[port])]
        return [before("first", min(fronts)), before("last", min([*bounds, *alone]))]

    check_operator(
        lambda: OAJoin(window, ON, kind=kind, least="first", greatest="last"),  # type: ignore[arg-type]
        script,
        naive=naive,
        promised=promised,
    )


def test_one_bound_is_enough_for_the_greater_time_and_not_for_the_lesser() -> None:
    """Thesis 7.1 has it the other way round: for all small pairs of times, what would a bound on the left one say?"""
    later = [(s, t) for s, t in product(range(10), repeat=2) if abs(s - t) <= 2 and s >= 5]
    assert min(max(pair) for pair in later) == 5 and min(min(pair) for pair in later) == 3


def test_after_the_end_of_one_input_the_other_goes_on() -> None:
    join = OAJoin(MINUTES)
    join.output_schema(S0, S1)
    script: list[tuple[int, Element]] = [
        (1, Page.of(S1, {"s1": [3]})),
        (1, END),
        (0, Page.of(S0, {"s0": [1, 4]})),
        (0, before("s0", 5)),
        (0, before("s0", 6)),
        (0, END),
    ]
    shown = [e.rows() if isinstance(e, Page) else str(e) for e in drive(join, script)]
    pairs = [{"s0": 1, "s1": 3}, {"s0": 4, "s1": 3}]
    assert shown == ["[s1 < 3]", pairs, "[s0 < 5]", "[s0 < 6]", "[s1 < 4]", "[END]"]
