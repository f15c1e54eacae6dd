"""Examples of the slicing aggregate: what it gives when, what it keeps, what it says of late tuples and wrong plans."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions import count, count_distinct, max, sum
from operators.protocol import Emit
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow, tumbling
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, Below, Equals, OneOf, Progress, Punctuation, before
from tests.operators.slicing.mixes import FUNCTIONS, SCHEMA, Mix, mixed, mixes, naive, operator, slidings

TICKS = Schema.of(ts=pa.int64(), progress=["ts"])
KEYED = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts", ("k", "ts"), "k"])


def ticks(*values: int) -> Page:
    return Page.of(TICKS, {"ts": list(values)})


@given(slidings, st.sampled_from([(), ("k",)]), streams(SCHEMA, group=("k",), tuples=12, promises=("linear", "group")))
def test_one_window_gives_what_bucket_and_window_aggregate_give(
    window: SlidingWindow, by: tuple[str, ...], script: Script
) -> None:
    slicing = SlicingAggregate({"w": window}, FUNCTIONS, by)
    chained = Chain([Bucket(window), WindowAggregate(window, FUNCTIONS, by)])
    assert slicing.output_schema(SCHEMA).arrow == chained.output_schema(SCHEMA).arrow
    for step in script:
        ours, theirs = drive(slicing, [step]), drive(chained, [step])
        assert sorted(map(repr, rows(ours))) == sorted(map(repr, rows(theirs)))
        if window.partial:
            linear = [[str(p) for p in punctuations(some) if len(p.patterns) == 1] for some in (ours, theirs)]
            assert linear[0] == linear[1]
    lost = {name: slicing.statistics()[name] for name in ("late", "in_no_window", "without_value")}
    assert lost == {name: chained.statistics()[name] for name in lost}


@pytest.mark.parametrize("disorder", [0, 3, 400])
@pytest.mark.parametrize("size", [70, 700, 10_000])
@pytest.mark.parametrize("page", [300, 5_000])
def test_stretches_of_tuples_in_one_slice_are_placed_as_tuples_one_by_one(disorder: int, size: int, page: int) -> None:
    rng = np.random.default_rng(disorder + size)
    times = np.arange(5_000) + rng.integers(-disorder, disorder + 1, 5_000)
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    whole = Page.of(schema, {"ts": times, "v": rng.integers(0, 9, 5_000)})
    window = SlidingWindow("ts", size=size, slide=size // 2)
    fed = [whole.slice(at, at + page) for at in range(0, 5_000, page)]
    functions = {"n": count(), "total": sum("v")}
    ours = rows(drive(SlicingAggregate({"w": window}, functions), [*fed, END]))
    theirs = rows(drive(Chain([Bucket(window), WindowAggregate(window, functions)]), [*fed, END]))
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))


CASES = [
    ("1.1 within a session", 6, [(5, 8, 3), (14, 14, 1)]),
    ("1.1 at its first tick", 5, [(5, 8, 3), (14, 14, 1)]),
    ("1.1 at its last tick", 8, [(5, 8, 3), (14, 14, 1)]),
    ("1.2 extends the end", 9, [(5, 9, 3), (14, 14, 1)]),
    ("1.2 one tick from joining both", 10, [(5, 10, 3), (14, 14, 1)]),
    ("1.2 as far as the gap lets it", 17, [(5, 8, 2), (14, 17, 2)]),
    ("1.3 extends the start", 4, [(4, 8, 3), (14, 14, 1)]),
    ("1.3 as far as the gap lets it", 2, [(2, 8, 3), (14, 14, 1)]),
    ("1.3 one tick from joining both", 12, [(5, 8, 2), (12, 14, 2)]),
    ("2 joins two sessions", 11, [(5, 14, 4)]),
    ("3 a gap before the start", 1, [(1, 1, 1), (5, 8, 2), (14, 14, 1)]),
    ("3 a gap after the end", 18, [(5, 8, 2), (14, 14, 1), (18, 18, 1)]),
    ("3 between two others", 23, [(5, 8, 2), (14, 14, 1), (23, 23, 1)]),
]


@pytest.mark.parametrize("cells", [(), (3,), (4,), (100,)], ids=str)
@pytest.mark.parametrize(("late", "sessions"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("by", [(), ("k",)])
def test_the_cases_of_a_late_tuple_and_sessions(
    by: tuple[str, ...], late: int, sessions: list[tuple[int, int, int]], cells: tuple[int, ...]
) -> None:
    """Cases of the paper's Fig 9 with gap 4, alone and cut by other windows; 30 makes every other tuple a late one."""
    windows = {"s": SessionWindow("ts", gap=4), **{f"c{size}": tumbling("ts", size) for size in cells}}
    slicing = SlicingAggregate(windows, {"n": count()}, by, named=True)
    drive(slicing, [Page.of(KEYED, {"ts": [5, 8, 14, 30, late], "k": ["a"] * 5})])
    if cells in ((), (100,)):
        assert slicing.statistics()["slices"] == len(sessions) + 1
    found = [r for r in rows(drive(slicing, [END])) if r["window"] == "s"]
    expected = [(first, last + 4, n) for first, last, n in [*sessions, (30, 30, 1)]]
    assert [(r["wid"], r["window_end"], r["n"]) for r in found] == expected


@pytest.mark.parametrize(("distance", "slices"), [(1, 1), (3, 1), (4, 2), (5, 2)])
def test_a_distance_equal_to_the_gap_separates(distance: int, slices: int) -> None:
    slicing = SlicingAggregate({"s": SessionWindow("ts", gap=4), "wide": SessionWindow("ts", gap=9)}, {"n": count()})
    drive(slicing, [ticks(10, 10 + distance)])
    # The wider gap shares the slices of the smaller one.
    assert slicing.statistics()["slices"] == slices
    found = rows(drive(slicing, [END]))
    assert [(r["window"], r["n"]) for r in found] == [("s", 2 // slices)] * slices + [("wide", 2)]


def test_sessions_span_cells_and_cells_span_sessions() -> None:
    windows = {"s": SessionWindow("ts", gap=3), "c": tumbling("ts", 10)}
    slicing = SlicingAggregate(windows, {"n": count()})
    drive(slicing, [ticks(1, 2, 8, 9, 10, 11)])
    # Two sessions, the second of which is cut at 10: three slices.
    assert slicing.statistics()["slices"] == 3
    found = rows(drive(slicing, [before("ts", 14)]))
    assert [(r["window"], r["wid"], r["n"]) for r in found] == [("c", 0, 4), ("s", 1, 2), ("s", 8, 4)]


def edges(mix: Mix) -> set[int]:
    """Give the begins and ends of more than enough windows."""
    found: set[int] = set()
    for window in mix.values():
        assert isinstance(window, SlidingWindow)
        for wid in range(-40, 120):
            begin, end = window.extent(wid)
            if window.partial or begin >= window.origin:
                found |= {begin, end}
    return found


covering = st.builds(
    lambda size, part, origin: SlidingWindow("ts", size=size, slide=max_of(1, size - part), origin=origin),
    st.integers(1, 6), st.integers(0, 4), st.integers(-2, 2),
)  # fmt: skip


def max_of(a: int, b: int) -> int:
    return a if a > b else b


@given(
    st.tuples(covering, st.lists(slidings, max_size=2)).map(lambda drawn: mixed([drawn[0], *drawn[1]])),
    streams(SCHEMA, tuples=14, promises=("linear",), nulls=("v",)),
)
def test_there_are_as_few_slices_as_edges_allow(mix: Mix, script: Script) -> None:
    """Behind a release only begins of open windows separate slices, ahead of it all edges do."""
    slicing = operator(mix, store="lazy")
    all_edges = sorted(edges(mix))
    ends = [window.extent(wid)[1] for window in mix.values() for wid in range(-40, 120)]  # type: ignore[attr-defined]
    seen: list[int] = []
    bound = -100
    for _, element in script:
        drive(slicing, [element])
        if isinstance(element, Page):
            seen += [int(row["ts"]) for row in element.rows()]  # type: ignore[arg-type]
            if bound > -100:
                continue
        elif element.is_end:
            assert slicing.statistics()["slices"] == 0
            continue
        else:
            value = element.bound("ts")
            assert isinstance(value, int)
            # Slices are joined when a window is released.
            if value <= bound or not any(bound < end <= value for end in ends):
                bound = max_of(bound, value)
                continue
            bound = value
        begins = {
            begin
            for window in mix.values()
            for begin, end in (window.extent(wid) for wid in range(-40, 120))  # type: ignore[attr-defined]
            if end > bound and (window.partial or begin >= window.origin)  # type: ignore[attr-defined]
        }
        slices: set[object] = set()
        for tick in seen:
            after = next(edge for edge in all_edges if edge > tick)
            if after > bound:
                slices.add(("open", after))
            elif any(begin <= tick for begin in begins):
                slices.add(("final", sum_of(begin <= tick for begin in begins)))
        assert slicing.statistics()["slices"] == len(slices)


def sum_of(truths: object) -> int:
    return len([truth for truth in truths if truth])  # type: ignore[attr-defined]


@given(st.integers(1, 6), streams(KEYED, group=("k",), tuples=14, nulls=()))
def test_sessions_keep_one_slice_for_each_session_that_is_not_over(gap: int, script: Script) -> None:
    def kept(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> int:
        if progress[0].ended:
            return 0
        found = naive({"s": SessionWindow("ts", gap=gap)}, ("k",), [{**row, "v": 0} for row in tables[0]])
        linear = progress[0].bound("ts")
        return sum_of(linear is None or row["window_end"] > linear for row in found)  # type: ignore[operator]

    check_operator(
        lambda: SlicingAggregate({"s": SessionWindow("ts", gap=gap)}, {"n": count()}, ("k",)),
        script,
        kept=kept,
        laws={2},
    )


@given(mixes, streams(SCHEMA, group=("k",), tuples=12))
def test_a_gap_that_is_one_tick_too_wide_is_caught(mix: Mix, script: Script) -> None:
    wider = {
        name: SessionWindow("ts", gap=window.gap + 1) if isinstance(window, SessionWindow) else window
        for name, window in mix.items()
    }
    expected, found = (naive(some, (), script.tables()[0]) for some in (mix, wider))
    if expected != found:
        with pytest.raises(OperatorBug, match="law 10"):
            check_operator(lambda: operator(wider), script, naive=lambda table: naive(mix, (), table), laws={10})


class Hasty(SlicingAggregate):
    """Releases at a bound that is one tick too high."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = punctuation.bound("ts")
        wrong = punctuation if not isinstance(bound, int) else before("ts", bound + 1)
        super().punctuate(wrong, emit, port)


def test_a_release_that_is_one_tick_early_is_caught() -> None:
    caught = 0

    @given(mixes, streams(SCHEMA, tuples=12, promises=("linear",)))
    def attempt(mix: Mix, script: Script) -> None:
        nonlocal caught
        try:
            check_operator(lambda: Hasty(mix, FUNCTIONS), script, naive=lambda table: naive(mix, (), table))  # type: ignore[arg-type]
        except OperatorBug:
            caught += 1

    attempt()
    assert caught > 0


def test_a_late_tuple_counts_in_the_windows_that_are_still_open() -> None:
    windows = {"ten": SlidingWindow("ts", size=10, slide=5), "s": SessionWindow("ts", gap=6)}
    slicing = SlicingAggregate(windows, {"n": count()})
    assert rows(drive(slicing, [before("ts", 10), ticks(7, 12)])) == []
    # 7 belongs to [0, 10), which is over, and to [5, 15), which is open; its session goes on to 12.
    found = rows(drive(slicing, [END]))
    assert [(r["window"], r["wid"], r["n"]) for r in found] == [("ten", 2, 2), ("ten", 3, 1), ("s", 7, 2)]
    assert slicing.statistics()["late_for_some"] == 1


@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_a_late_tuple_changes_what_was_combined_ahead(store: str) -> None:
    windows = {"long": tumbling("ts", 100), "short": tumbling("ts", 10)}
    slicing = SlicingAggregate(windows, {"n": count(), "most": max("ts")}, store=store)  # type: ignore[arg-type]
    drive(slicing, [ticks(*range(0, 60, 5)), before("ts", 50), ticks(3, 33), before("ts", 70)])
    found = rows(drive(slicing, [END]))
    assert [(r["window"], r["n"], r["most"]) for r in found] == [("long", 14, 55)]


@pytest.mark.parametrize("step", [1, 3, 64])
def test_what_is_combined_ahead_grows_and_shrinks_with_the_slices(step: int) -> None:
    windows = {"long": SlidingWindow("ts", size=100, slide=1), "short": SlidingWindow("ts", size=7, slide=2)}
    functions = {"n": count(), "total": sum("ts"), "most": max("ts"), "kinds": count_distinct("ts")}
    found: list[list[Row]] = []
    for store in ("lazy", "eager"):
        slicing = SlicingAggregate(windows, functions, store=store)  # type: ignore[arg-type]
        out: list[Row] = []
        for start in range(0, 400, step):
            out += rows(drive(slicing, [ticks(*range(start, start + step)), before("ts", start + step)]))
        found.append(sorted(out + rows(drive(slicing, [END])), key=repr))
    assert found[0] == found[1] and len(found[0]) > 400


@pytest.mark.parametrize("store", ["lazy", "eager"])
def test_many_windows_that_end_at_once_are_given_in_few_pages(store: str) -> None:
    slicing = SlicingAggregate({"w": SlidingWindow("ts", size=50, slide=1)}, {"n": count()}, store=store)  # type: ignore[arg-type]
    pages = [page for page in drive(slicing, [ticks(*range(2_000)), END]) if isinstance(page, Page)]
    assert builtins.sum(map(len, pages)) == 2_049 and len(pages) <= 3


def test_a_tuple_whose_session_is_over_is_late() -> None:
    slicing = SlicingAggregate({"s": SessionWindow("ts", gap=5)}, {"n": count()})
    assert [r["n"] for r in rows(drive(slicing, [ticks(1, 3, 9), before("ts", 12)]))] == [2]
    drive(slicing, [ticks(4, 7)])
    # 4 is a gap away from 9, whose session is open, and the one of 3 is over. 7 still goes to 9.
    assert [(r["wid"], r["n"]) for r in rows(drive(slicing, [before("ts", 20)]))] == [(7, 2)]
    drive(slicing, [ticks(2)])
    assert slicing.statistics()["late"] == 2


def test_tuples_in_no_window_and_without_a_tick_are_counted() -> None:
    slicing = SlicingAggregate({"w": SlidingWindow("ts", size=2, slide=5)}, {"n": count()})
    page = Page.of(TICKS, {"ts": [6, 8, None, 2**62, -(2**61)]})
    assert [r["n"] for r in rows(drive(slicing, [page, END]))] == [1]
    counted = slicing.statistics()
    assert (counted["in_no_window"], counted["without_value"]) == (1, 3)


def test_promises_on_single_groups_release_these_alone() -> None:
    windows = {"c": tumbling("ts", 10), "s": SessionWindow("ts", gap=3)}
    slicing = SlicingAggregate(windows, {"n": count()}, ("k",))
    page = Page.of(KEYED, {"ts": [1, 2, 11, 4], "k": ["a", "b", "a", "c"]})
    early = drive(slicing, [page, Punctuation({"k": OneOf(["a", "b"]), "ts": Below(10)})])
    expected = [("a", "c", 1), ("a", "s", 1), ("b", "c", 1), ("b", "s", 1)]
    assert sorted((r["k"], r["window"], r["n"]) for r in rows(early)) == expected
    assert str(punctuations(early)[-1]) == "[k in {a, b}, window_end < 11]"
    assert slicing.statistics()["state_tuples"] == 2
    over = drive(slicing, [Punctuation({"k": Equals("a")})])
    assert sorted((r["window"], r["wid"]) for r in rows(over)) == [("c", 1), ("s", 11)]
    assert str(punctuations(over)[-1]) == "[k = a]"
    assert sorted((r["k"], r["window"]) for r in rows(drive(slicing, [before("ts", 20)]))) == [("c", "c"), ("c", "s")]
    assert slicing.statistics()["state_tuples"] == slicing.statistics()["groups"] == 0


def test_promises_say_what_later_results_are_beyond() -> None:
    slicing = SlicingAggregate({"s": SessionWindow("ts", gap=5)}, {"n": count()})
    made = punctuations(drive(slicing, [ticks(1, 8), before("ts", 10)]))
    assert [str(p) for p in made] == ["[wid < 8]", "[window_start < 8]", "[window_end < 11]"]
    two = SlicingAggregate({"a": tumbling("ts", 4), "b": tumbling("ts", 6)}, {"n": count()})
    made = punctuations(drive(two, [ticks(1, 8), before("ts", 10)]))
    assert [str(p) for p in made] == ["[window_start < 6]", "[window_end < 12]"]


def test_addresses_and_times_are_keys_and_bounds_of_windows() -> None:
    schema = Schema(pa.schema([pa.field("ts", pa.timestamp("us", "UTC")), ip_field("ip")]), progress=["ts"])
    address = bytes(10) + b"\xff\xff\x0a\x00\x00\x00"
    page = Page.of(schema, {"ts": [1, 2, 11], "ip": [address, None, address]})
    slicing = SlicingAggregate({"s": SessionWindow("ts", gap=10)}, {"n": count()}, ("ip",))
    assert slicing.output_schema(schema).field("window_start").type == pa.timestamp("us", "UTC")
    found = rows(drive(slicing, [page, END]))
    assert {(r["ip"], r["n"], r["window_end"]) for r in found} == {(address, 1, 11), (None, 1, 12), (address, 1, 21)}


@pytest.mark.parametrize("kind", [pa.date32(), pa.time32("ms"), pa.int16(), pa.uint64()])
def test_any_type_that_counts_is_a_windowing_attribute(kind: pa.DataType) -> None:
    schema = Schema.of(ts=kind, progress=["ts"])
    page = Page.of(
        schema,
        {
            "ts": pa.array([1, 5], pa.int32()).cast(pa.int64()).cast(pa.int32()).view(kind)
            if pa.types.is_temporal(kind)
            else [1, 5]
        },
    )
    for promises in ([END], [before("ts", 4), before("ts", 8)]):
        found = rows(drive(SlicingAggregate({"w": tumbling("ts", 4)}, {"n": count()}), [page, *promises]))
        assert [(r["wid"], r["window_start"], r["n"]) for r in found] == [(0, 0, 1), (1, 4, 1)]


def test_a_sum_that_does_not_fit_names_the_aggregate_the_window_and_the_group() -> None:
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "a"], "v": [2**63 - 1, 1]})
    slicing = SlicingAggregate({"w": tumbling("ts", 10)}, {"total": sum("v")}, ("k",), named=True)
    with pytest.raises(AggregateOverflow, match='total of window 0 of "w", k = a'):
        drive(slicing, [page, END])


def test_wrong_plans_are_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match="there is no window"):
        SlicingAggregate({}, {"n": count()})
    with pytest.raises(SchemaError, match="one slicing aggregate for each attribute"):
        SlicingAggregate({"a": tumbling("ts", 1), "b": tumbling("x", 1)}, {"n": count()})
    with pytest.raises(SchemaError, match="only `window` tells their results apart"):
        SlicingAggregate({"a": tumbling("ts", 1), "b": tumbling("ts", 2)}, {"n": count()}, named=False)
    with pytest.raises(SchemaError, match=r'each group has sessions.*Write store="lazy"'):
        SlicingAggregate({"a": SessionWindow("ts", gap=1)}, {"n": count()}, ("k",), store="eager").output_schema(KEYED)
    with pytest.raises(SchemaError, match="an integer, a time or a decimal"):
        SlicingAggregate({"a": tumbling("k", 1)}, {"n": count()}).output_schema(KEYED)
    with pytest.raises(SchemaError, match="two results are named wid"):
        SlicingAggregate({"a": tumbling("ts", 1)}, {"wid": count()}).output_schema(KEYED)


def test_thousands_of_groups_and_tiny_pages_leave_no_state_behind() -> None:
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
    windows = {"w": SlidingWindow("ts", size=4, slide=2), "s": SessionWindow("ts", gap=2)}
    slicing = SlicingAggregate(windows, {"n": count()}, ("k",))
    keys = np.arange(5_000)
    found = 0
    for ts in (0, 1, 4, 5):
        page = Page.of(schema, {"ts": np.full(5_000, ts), "k": keys})
        for element in drive(slicing, [page, page.slice(0, 1), page.slice(0, 0), before("ts", ts)]):
            found += len(element) if isinstance(element, Page) else 0
    found += len(rows(drive(slicing, [END])))
    assert found == 5_000 * (4 + 2)
    held = slicing.statistics()
    assert held["state_tuples"] == held["groups"] == held["state_bytes"] == 0


def test_far_jumps_cost_no_walk_over_empty_windows() -> None:
    slicing = SlicingAggregate({f"w{i}": SlidingWindow("ts", size=7 + i, slide=1) for i in range(3)}, {"n": count()})
    found = rows(drive(slicing, [ticks(0, 10**15), before("ts", 10**15), ticks(2 * 10**15, 10**15 + 3), END]))
    assert len(found) == 4 * (7 + 8 + 9) - (4 + 5 + 6)


def test_the_kernel_files_agree_on_the_layout() -> None:
    modules = [
        importlib.import_module(f"operators.kernels.slicing.{name}")
        for name in ("place", "release", "settle", "tree", "vectors")
    ]
    known: dict[str, object] = {}
    for module in modules:
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, int | np.integer):
                assert known.setdefault(name, value) == value, name
