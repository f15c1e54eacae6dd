"""Windows of the user's own kind, context-free, forward-context-free and forward-context-aware, alone and mixed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page, Row, tick_column
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import Accumulator, Slots, count
from operators.functions.collecting import Collect
from operators.protocol import State, StateValue
from operators.testing import Script, check_operator, streams
from operators.window import tumbling, user
from operators.window.delimited import DelimitedWindow
from operators.window.session import SessionWindow
from operators.window.user import ContextWindow, EdgeWindow, ExtentWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before
from tests.examples import share
from tests.naive_slicing import naive_slicing
from tests.operators.slicing.contexts import CONTEXTS, FOUND, EveryThird, LastTwo
from tests.operators.slicing.mixes import (
    ANSWERS,
    FUNCTIONS,
    SCHEMA,
    asked,
    kinds,
    mixed,
    naive,
    next_prime_gap,
    operator,
)

delimited = st.just(DelimitedWindow("ts", "v"))


@share(1)
@given(
    asked,
    st.lists(kinds, max_size=2),
    st.sampled_from([(), ("k",)]),
    streams(SCHEMA, group=("k",), tuples=12),
)
def test_context_free_windows_of_the_users_own(
    window: object, more: list[object], by: tuple[str, ...], script: Script
) -> None:
    mix = mixed([window, *more])
    check_operator(lambda: operator(mix, by), script, naive=lambda table: naive(mix, by, table))


@share(1)
@given(
    st.lists(st.sampled_from(sorted(CONTEXTS)), min_size=1, unique=True),
    st.lists(kinds, max_size=2),
    st.sampled_from([(), ("k",)]),
    streams(SCHEMA, group=("k",), tuples=14),
)
def test_windows_with_a_context_whatever_the_order_of_arrival(
    names: list[str], more: list[object], by: tuple[str, ...], script: Script
) -> None:
    mix: Mapping[str, object] = {**{name: CONTEXTS[name] for name in names}, **mixed(more)}
    check_operator(
        lambda: operator(mix, by),
        script,
        naive=lambda table: naive_slicing(mix, ANSWERS, by, table, others=FOUND),
    )


def test_classes_follow_from_what_is_supplied() -> None:
    assert EdgeWindow("ts", next_prime_gap).context == "CF"
    assert ContextWindow("ts", EveryThird).context == "FCF"
    assert ContextWindow("ts", LastTwo).context == "FCA"
    assert DelimitedWindow("ts", "v").context == "FCF"
    assert SessionWindow("ts", gap=1).context == "FCF"


def test_a_function_that_cannot_be_compiled_runs_interpreted_and_says_so() -> None:
    calendar = {0: 3, 3: 9, 9: 12}

    def from_a_table(t: int) -> int:
        return min((edge for edge in calendar.values() if edge > t), default=2**61)

    window = EdgeWindow("ts", from_a_table)
    assert not window.compiled
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [1, 4, 8, 10]})
    found = rows(drive(SlicingAggregate({"a": window}, {"n": count()}), [page, END]))
    assert [(r["wid"], r["window_end"], r["n"]) for r in found] == [(3, 9, 2), (9, 12, 1)]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("never", [2**61, 2**63 - 1])
def test_a_window_behind_the_last_edge_ends_with_the_stream(compiled: bool, never: int) -> None:
    def last(t: int) -> int:
        return 10 if t < 10 else never

    window = EdgeWindow("ts", last if compiled else lambda t: [last(t)][0])
    assert window.compiled == compiled and window.extent(10) == (10, 2**61)
    page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [15, 11, 12]})
    found = rows(drive(SlicingAggregate({"a": window}, {"n": count()}), [page, before("ts", 99), END]))
    assert [(r["wid"], r["window_start"], r["window_end"], r["n"]) for r in found] == [(10, 10, None, 3)]


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("lateness", [0, 3])
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ns"), pa.date32(), pa.decimal128(18, 2)])
def test_a_result_has_a_null_for_the_end_of_the_stream_in_each_store(
    kind: pa.DataType, lateness: int, by: tuple[str, ...]
) -> None:
    windows = {
        "edges": EdgeWindow("ts", lambda t: 10 if t < 10 else 2**61),
        "extents": ExtentWindow("ts", {1: (5, 12), 2: (10, 2**61 + 7)}.__getitem__, (1, 2)),
        "ten": tumbling("ts", 10),
    }
    schema = Schema.of(ts=kind, k=pa.string(), progress=["ts"])
    page = Page.of(schema, {"ts": tick_column(np.array([11, 15]), kind), "k": ["a", "a"]})
    for functions in ({"n": count()}, {"n": count(), "seen": Collect(("k",))}):
        operator = SlicingAggregate(windows, functions, by, named=True, lateness=lateness)
        found = rows(drive(operator, [page, before("ts", 99), END]))
        assert sorted((r["window"], r["wid"], r["window_end"]) for r in found if r["window"] != "extents") == [
            ("edges", 10, None),
            ("ten", 1, 20),
        ]
        assert {r["wid"]: r["window_end"] for r in found if r["window"] == "extents"} == {1: 12, 2: None}
        again = SlicingAggregate(windows, functions, by, named=True, lateness=lateness)
        drive(again, [page])
        open_ = {(r["window"], r["wid"]): r["window_end"] for r in rows([again.open_windows()])}
        assert open_["edges", 10] is None and open_["ten", 1] == 20
        assert again.closed_by(10, "edges") == END and again.closed_by(1, "ten") == before("ts", 20)


def test_a_next_edge_is_compiled_once_and_when_it_is_first_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []

    def search(next_edge: Callable[[int], int], example: int) -> None:
        compiled.append(example)

    monkeypatch.setattr(user, "compiled_search", search)
    window = EdgeWindow("ts", lambda t: t // 10 * 10 + 10)
    assert not compiled
    assert window.around(25) == window.around(21) == (20, 30, 30, True)
    assert not window.compiled and len(compiled) == 1


def test_a_compiled_next_edge_is_called_once_by_the_interpreter_for_each_question() -> None:
    window = EdgeWindow("ts", lambda t: t // 10 * 10 + 10)
    assert window.compiled and window.around(25) == (20, 30, 30, True)
    asked: list[int] = []

    def counted(tick: int) -> int:
        asked.append(tick)
        return tick // 10 * 10 + 10

    object.__setattr__(window, "next_edge", counted)
    assert window.around(47) == (40, 50, 50, True) and asked == [40]


def test_a_next_edge_that_does_not_move_on_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"next_edge\(0\) gave 0"):
        EdgeWindow("ts", lambda t: t)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_next_edge_that_stops_rising_is_refused_at_the_first_tuple_behind_it(compiled: bool) -> None:
    """An operator that asks for the next edge again and again would never come back."""

    def stops(t: int) -> int:
        return min((t // 10 + 1) * 10, 50)

    window = EdgeWindow("ts", stops if compiled else lambda t: [stops(t)][0])
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"a": window}, {"n": count()})
    with pytest.raises(SchemaError, match=r"next_edge\(50\) gave 50; .* from 51 on.\n  After the last edge of a list"):
        drive(operator, [Page.of(schema, {"ts": list(range(0, 100, 5))}), END])


def test_edges_that_fall_are_refused_with_the_values() -> None:
    with pytest.raises(
        SchemaError, match=r"next_edge\(-2305843009213693952\) gave 90, and next_edge\(25\) 30, with no"
    ):
        EdgeWindow("ts", lambda t: 90 if t < 20 else (t // 10 + 1) * 10).around(25)


def test_extents_that_never_end_are_refused() -> None:
    with pytest.raises(SchemaError, match="at most 1,000,000, and still come after 999999"):
        ExtentWindow("ts", lambda wid: (wid, wid + 1), itertools.count())  # type: ignore[arg-type]


class Endless(EveryThird):
    """A context that gives windows, or edges, up to whatever it is asked for."""

    edges: bool = False

    def notify(self, tick: int, row: Row) -> Iterable[int]:
        return itertools.count(tick) if self.edges else super().notify(tick, row)

    def complete(self, bound: int) -> Iterable[tuple[int, int]]:
        return ((begin, begin + 1) for begin in range(5, bound))


class EndlessEdges(Endless):
    edges = True


class EndlessBack(Endless):
    def horizon(self) -> int:
        return -(2**61)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (EndlessEdges, "notified of 5, its context set 100,000 edges, now that at 100005, and goes on"),
        (Endless, r"gave the window \[5, 6\), but set no edge at 6"),
        (EndlessBack, r"last tuple was at 5, and its context gave 100,000 windows behind it, now \[100006, 100007\)"),
    ],
)
def test_a_context_whose_edges_or_windows_never_end_is_refused(context: type[Endless], said: str) -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"a": ContextWindow("ts", context)}, {"n": count()})
    with pytest.raises(SchemaError, match=said):
        drive(operator, [Page.of(schema, {"ts": [5]}), END])


def test_an_edge_that_is_no_whole_number_is_refused_wherever_it_is() -> None:
    with pytest.raises(SchemaError, match=r"next_edge\(0\) gave 1000.5; .* must be a whole number from 1 on"):
        EdgeWindow("ts", lambda t: t + 1000.5)  # type: ignore[arg-type, return-value]
    later = EdgeWindow("ts", lambda t: t + 1 if t < 10 else t + 1.5)  # type: ignore[arg-type, return-value]
    assert later.around(5) == (5, 6, 6, True)
    with pytest.raises(SchemaError, match=r"next_edge\(12\) gave 13.5"):
        later.around(12)


def test_an_edge_before_the_tuple_is_refused_without_a_horizon() -> None:
    class Backward(EveryThird):
        def notify(self, tick: int, row: Row) -> Iterable[int]:
            return (tick - 1,)

    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"a": ContextWindow("ts", Backward)}, {"n": count()})
    with pytest.raises(SchemaError, match=r"set the edge 4, which is before it.\n  Give the context a method horizon"):
        drive(operator, [Page.of(schema, {"ts": [5]}), END])


def test_an_attribute_that_a_context_reads_must_be_there() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    with pytest.raises(SchemaError, match='window "a": the input has no attribute "mark"'):
        SlicingAggregate({"a": DelimitedWindow("ts", "mark")}, {"n": count()}).output_schema(schema)


@attrs.define(eq=False)
class Trails:
    """Hold the values in the order in which they were added, as text."""

    nulls: int = attrs.field(default=0, init=False)
    _texts: list[str] = attrs.field(factory=list, init=False)

    @property
    def nbytes(self) -> int:
        return len(self._texts)

    def reserve(self, capacity: int) -> None:
        self._texts += [""] * (capacity - len(self._texts))

    def init(self, slots: Slots) -> None:
        for slot in slots.tolist():
            self._texts[slot] = ""

    def update(self, slots: Slots, page: Page) -> None:
        for slot, value in zip(slots.tolist(), page.column("v").to_pylist(), strict=True):
            if slot >= 0 and value is not None:
                self._texts[slot] += f"{value},"

    def combine(self, into: Slots, source: Slots) -> None:
        for to, of in zip(into.tolist(), source.tolist(), strict=True):
            self._texts[to] += self._texts[of]

    def finalize(self, slots: Slots) -> pa.Array:
        return pa.array([self._texts[slot] for slot in slots.tolist()], pa.string())

    def free(self, slots: Slots) -> None:
        self.init(slots)

    def state(self) -> State:
        return {"texts": pa.RecordBatch.from_arrays([pa.array(self._texts, pa.string())], ["t"]), "nulls": self.nulls}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        batch = state["texts"]
        assert isinstance(batch, pa.RecordBatch)
        self._texts = batch.column("t").to_pylist()


@attrs.frozen
class Trail:
    """Write the values down in order of time: an aggregate that is not commutative."""

    name: str = "trail"
    arguments: tuple[str, ...] = ("v",)
    invertible: bool = False
    commutative: bool = False
    arrival_order: bool = False

    def output_name(self) -> str:
        return "trail_v"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        return pa.field(name, pa.string())

    def accumulator(self, schema: Schema) -> Accumulator:
        return Trails()


def trail(members: list[Row]) -> str:
    ordered = sorted(members, key=lambda row: int(row["ts"]))  # type: ignore[arg-type]
    return "".join(f"{row['v']}," for row in ordered if row["v"] is not None)


@given(
    st.lists(kinds, min_size=1, max_size=3).map(mixed),
    st.sampled_from(["lazy", "eager", "by"]),
    streams(SCHEMA, group=("k",), tuples=12, nulls=("v",)),
)
def test_an_aggregate_that_is_not_commutative_sees_tuples_in_order_of_time(
    mix: Mapping[str, object], how: str, script: Script
) -> None:
    by = ("k",) if how == "by" else ()
    store = "auto" if by else how
    check_operator(
        lambda: SlicingAggregate(mix, {"n": count(), "trail": Trail()}, by, store=store),  # type: ignore[arg-type]
        script,
        naive=lambda table: naive_slicing(mix, {"n": len, "trail": trail}, by, table),
        # Ties are ordered by arrival.
        laws={1, 2, 3, 5, 7, 8, 9, 10},
    )


def test_in_order_nothing_waits_but_for_windows_that_look_back() -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [1, 2, 5, 6, 9], "v": [1, 0, 0, 1, 1]})
    marks = {"marks": DelimitedWindow("ts", "v")}
    for ordered, waiting in ((False, 5), (True, 0)):
        operator = SlicingAggregate(marks, {"n": count(), "trail": Trail()}, ordered=ordered)
        drive(operator, [page])
        assert operator.statistics()["waiting"] == waiting
        found = rows(drive(operator, [before("ts", 9), END]))
        assert [(r["wid"], r["n"], r["trail"]) for r in found] == [(1, 3, "1,0,0,"), (6, 1, "1,")]
    operator = SlicingAggregate({"back": ContextWindow("ts", LastTwo)}, {"n": count()}, ordered=True)
    drive(operator, [page])
    assert operator.statistics()["waiting"] == 5


def test_windows_that_look_back_share_slices_that_are_cut_again() -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": np.arange(12), "v": np.ones(12, np.int64)})
    windows = {"back": ContextWindow("ts", LastTwo), "all": tumbling("ts", 12)}
    operator = SlicingAggregate(windows, FUNCTIONS, ())
    found = rows(drive(operator, [page, before("ts", 8), END]))
    assert sorted((r["window"], r["wid"], r["window_end"], r["n"]) for r in found) == [
        ("all", 0, 12, 12), ("back", 2, 4, 2), ("back", 6, 8, 2), ("back", 10, 12, 2),
    ]  # fmt: skip
