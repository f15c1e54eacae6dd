"""An extension join gives what the join gives, and forgets a tuple with its only partner; what is false is counted."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import OperatorBug, SchemaError
from operators.expression import Column
from operators.join import Band, OAJoin, SameWindow
from operators.join import cardinality as module
from operators.join.cardinality import CARDINALITIES, Cardinality, KeyCheck
from operators.join.tuples import Tuples
from operators.join.window import Near
from operators.protocol import Element
from operators.testing import Script, check_operator
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_join import joins
from tests.operators.join.joining import LEFT, ON, RIGHT, TIMES, WINDOWS, Case, scripts

NEAR = [name for name, (window, _) in WINDOWS.items() if isinstance(window, Band | SameWindow)]
STATED: list[Cardinality] = ["many to one", "one to many", "one to one"]
KINDS = ("inner", "left", "right", "full")
SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts"])


def near(case: Case, port: int, one: Row, other: Row) -> bool:
    """Tell whether two tuples of an input have equal keys, and one tuple of the other input might meet both."""
    if one["k"] is None or one["k"] != other["k"] or None in (one[TIMES[port]], other[TIMES[port]]):
        return False
    ticks = [int(str(row[TIMES[port]])) for row in (one, other)]
    return any(
        all(case.meets(own, tick) if port == 0 else case.meets(tick, own) for own in ticks)
        for tick in range(min(ticks) - 12, max(ticks) + 13)
    )


def true_of(case: Case, cardinality: Cardinality, script: Script) -> Script:
    """Return a script without the tuples that break a statement."""
    kept: tuple[list[Row], list[Row]] = ([], [])
    steps: list[tuple[int, Element]] = []
    for port, element in script:
        if isinstance(element, Page) and CARDINALITIES[cardinality][1 - port]:
            mask: list[bool] = []
            for row in element.plain_rows():
                mask.append(not any(near(case, port, row, other) for other in kept[port]))
                kept[port].extend([row] if mask[-1] else [])
            element = element.select(pa.array(mask, pa.bool_()))
        steps.append((port, element))
    return Script(script.schemas, tuple(steps))


def broken(case: Case, port: int, table: Sequence[Row]) -> int:
    """Count the tuples that came too near an earlier one."""
    return sum(any(near(case, port, row, other) for other in table[:i]) for i, row in enumerate(table))


def kept(case: Case, cardinality: Cardinality) -> Callable[[Sequence[list[Row]], Sequence[Progress]], int]:
    """Return what counts the tuples that a later one may meet: none that met its only partner."""

    def count(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        found = 0
        for port in (0, 1):
            for row in tables[port]:
                others = [(row, other) if port == 0 else (other, row) for other in tables[1 - port]]
                met = any(joins(one, other, meets=case.meets, times=TIMES, on=case.on) for one, other in others)
                if not (met and CARDINALITIES[cardinality][port]):
                    found += case.open(row, port, tables, progress)
        return found

    return count


def make(case: Case, cardinality: Cardinality, **options: Any) -> Callable[[], OAJoin]:
    return lambda: OAJoin(case.window, case.on, kind=case.kind, cardinality=cardinality, **options)  # type: ignore[arg-type]


def test_doctests() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("kind", mostly_slow(KINDS, but=("inner", "full")))
@share(0.2)
@given(data=st.data(), script=scripts("linear", "group"))
def test_a_true_statement_changes_what_is_kept_and_nothing_else(kind: str, data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(NEAR))]
    cardinality = data.draw(st.sampled_from(STATED))
    case = Case(window, meets, kind=kind)
    script = true_of(case, cardinality, script)
    check_operator(
        make(case, cardinality), script, naive=case.naive, settled=case.settled, kept=kept(case, cardinality)
    )
    join = make(case, cardinality)()
    join.output_schema(LEFT, RIGHT)
    drive(join, script)
    assert join.statistics()["not_unique"] == 0 and join.statistics()["state_tuples"] == 0


@share(0.5)
@given(data=st.data(), script=scripts("linear", "group", "general"))
def test_a_false_statement_loses_pairs_but_no_tuple_and_is_counted(data: st.DataObject, script: Script) -> None:
    window, meets = WINDOWS[data.draw(st.sampled_from(NEAR))]
    cardinality = data.draw(st.sampled_from(STATED))
    kind = data.draw(st.sampled_from(KINDS))
    case = Case(window, meets, kind=kind)
    join = make(case, cardinality)()
    join.output_schema(LEFT, RIGHT)
    found = [tuple(row.items()) for row in rows(drive(join, script))]
    tables = script.tables()
    expected = [tuple(row.items()) for row in case.naive(*tables)]
    many = sum(broken(case, port, tables[port]) for port in (0, 1) if CARDINALITIES[cardinality][1 - port])
    counted = join.statistics()["not_unique"]
    assert counted == many
    if not counted:
        assert Counter(found) == Counter(expected)
    else:
        # Each pair is one of the join; alone are those that met nobody, or only partners that had gone.
        pairs = [tuple(row.items()) for row in Case(window, meets).naive(*tables)]
        outer = Counter(found) - Counter(pairs)
        assert not Counter(row for row in found if row in pairs) - Counter(pairs)
        assert all(dict(row)["s"] is None or dict(row)["t"] is None for row in outer)


@share(0.2)
@given(script=scripts("linear"))
def test_a_statement_is_checked_with_a_further_condition_too(script: Script) -> None:
    window, meets = WINDOWS["open band"]
    case = Case(window, meets, together=lambda one, other: bool(one["x"] is not None and one["x"] <= other["y"]))  # type: ignore[operator]
    script = true_of(case, "many to one", script)
    check_operator(make(case, "many to one", residual=Column("x") <= Column("y")), script, naive=case.naive)


def band_of(*left: tuple[int, str]) -> Page:
    return Page.of(SCHEMA, {"ts": [ts for ts, _ in left], "k": [k for _, k in left]})


def test_a_tuple_goes_with_its_only_partner_and_its_promise_comes_sooner() -> None:
    held: list[tuple[int, int, list[str]]] = []
    stated: tuple[Cardinality, ...] = ("many to many", "many to one")
    for cardinality in stated:
        join = OAJoin(Band("ts", "ts", left=9, right=9), (("k", "k"),), cardinality=cardinality)
        join.output_schema(SCHEMA, SCHEMA)
        found = drive(join, [(0, band_of((1, "a"), (2, "b"))), (0, before("ts", 7)), (1, band_of((3, "a")))])
        found += drive(join, [(1, band_of((4, "b")))])
        found += drive(join, [(1, before("ts", 5))])
        counts = join.statistics()
        promised = [str(e) for e in found if isinstance(e, Punctuation)]
        held.append((counts["state_left"], counts["state_right"], [p for p in promised if p.startswith("[ts < 7")]))
    assert held[0][:2] == (2, 2) and held[1][:2] == (0, 2)
    assert not held[0][2] and held[1][2]


def test_keys_are_forgotten_when_none_can_be_too_near() -> None:
    join = OAJoin(SameWindow("ts", "ts", size=10), (("k", "k"),), cardinality="many to one")
    join.output_schema(SCHEMA, SCHEMA)
    check = join._checks[1]
    drive(join, [(1, band_of((1, "a"), (5, "b"), (12, "a")))])
    assert (len(check), join.statistics()["not_unique"]) == (3, 0)
    drive(join, [(1, Punctuation({"k": Equals("b")}))])
    assert len(check) == 2
    drive(join, [(1, before("ts", 9))])
    assert len(check) == 2
    drive(join, [(1, before("ts", 10))])
    assert len(check) == 1
    drive(join, [(1, band_of((15, "a")))])
    assert join.statistics()["not_unique"] == 1
    drive(join, [(1, END)])
    assert len(check) == 0


def test_what_is_saved_of_keys_is_checked() -> None:
    join = OAJoin(Band("ts", "ts", left=9, right=9), (("k", "k"),), cardinality="one to one")
    join.output_schema(SCHEMA, SCHEMA)
    drive(join, [(1, band_of((1, "a")))])
    again = OAJoin(Band("ts", "ts", left=9, right=9), (("k", "k"),), cardinality="one to one")
    again.restore(join.state())
    drive(again, [(1, band_of((2, "a")))])
    assert again.statistics()["not_unique"] == 1 and join.statistics()["not_unique"] == 0


def test_a_late_tuple_keeps_its_cell_and_a_promise_of_a_key_ends_it() -> None:
    join = OAJoin(Band("ts", "ts", left=4, right=4), (("k", "k"),), cardinality="one to many")
    join.output_schema(SCHEMA, SCHEMA)
    check = join._checks[0]
    # Cells are 7 ticks wide, and tuples at most 6 apart are too near.
    drive(join, [(0, band_of((7, "a"), (13, "a"), (14, "b")))])
    assert join.statistics()["not_unique"] == 1 and len(check) == 2
    drive(join, [(0, before("ts", 19))])
    assert len(check) == 2
    drive(join, [(0, band_of((19, "a"), (20, "b"), (21, "c")))])
    assert join.statistics()["not_unique"] == 3
    drive(join, [(0, Punctuation({"k": Equals("c"), "ts": Below(27)}))])
    assert "c" in check.index.keys(check.index.live())[0].to_pylist()
    drive(join, [(0, Punctuation({"k": Equals("c"), "ts": Below(28)}))])
    assert "c" not in check.index.keys(check.index.live())[0].to_pylist()
    drive(join, [(0, before("ts", 100))])
    assert len(check) == 0


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.sampled_from("ab")), max_size=12),
    st.integers(1, 5),
    st.integers(-2, 2),
    st.booleans(),
    st.integers(1, 12),
)
def test_the_kernel_counts_what_comes_behind_a_near_one(
    given_: list[tuple[int, str]], size: int, origin: int, cells_alone: bool, page: int
) -> None:
    near = Near(size, origin) if cells_alone else Near(size, origin, distance=size - 1)
    check = KeyCheck(0, (pa.field("k", pa.string()),), ("k",), "ts", near)
    counted = 0
    for start in range(0, len(given_), page):
        some = given_[start : start + page]
        ticks = np.array([tick for tick, _ in some])
        keys = [pa.array([key for _, key in some])]
        batch, ids = pa.record_batch([pa.array(ticks)], ["ts"]), np.zeros(len(some), np.int32)
        counted += check.came(Tuples(batch, keys, ids, ticks, ticks, ticks, None))

    def too_near(one: tuple[int, str], other: tuple[int, str]) -> bool:
        same = (one[0] - origin) // size == (other[0] - origin) // size
        return one[1] == other[1] and (same or abs(one[0] - other[0]) <= near.distance)

    assert counted == sum(any(too_near(row, other) for other in given_[:i]) for i, row in enumerate(given_))


def test_joins_by_windows_state_nothing() -> None:
    window, _ = WINDOWS["same sliding window"]
    with pytest.raises(SchemaError, match="windows of range or tumbling"):
        OAJoin(window, ON, cardinality="many to one").output_schema(LEFT, RIGHT)


@pytest.mark.parametrize("kind", ["semi", "anti"])
def test_a_join_that_gives_left_tuples_states_nothing(kind: Any) -> None:
    join = OAJoin(Band("ts", "ts", left=9, right=9), (("k", "k"),), kind=kind, cardinality="many to one")
    with pytest.raises(SchemaError, match="with its first partner anyway"):
        join.output_schema(SCHEMA, SCHEMA)


class Mistaken(OAJoin):
    """Takes the statement for one on the other input."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.cardinality = "one to many"


def test_a_statement_on_the_wrong_input_is_caught() -> None:
    case = Case(*WINDOWS["open band"])
    one, other = (Page.of_rows(LEFT, [(tick, "a", 0)]) for tick in (1, 2))
    right = Page.of_rows(RIGHT, [(1, "a", 0)])
    script = Script.of([LEFT, RIGHT], [(0, one), (1, right), (0, other), (0, END), (1, END)])
    check_operator(make(case, "many to one"), script, naive=case.naive, laws={10})
    with pytest.raises(OperatorBug, match="law 10"):
        check_operator(lambda: Mistaken(case.window, ON), script, naive=case.naive, laws={10})
