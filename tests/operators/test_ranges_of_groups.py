"""A promise on a range of groups releases and promises what one that lists these groups does, in every store."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import deliver, drive, rows
from operators.expression import Column
from operators.functions import count, max, sum
from operators.protocol import Element, Measured, Operator
from operators.streams.named_groups import group_bound
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.counted import CountWindow, LastTuples, SlideByTuple
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.sessions import EarlySessions
from operators.window_aggregate.stores.per_window.wid import Strategy, WindowAggregate
from operators.window_aggregate.stores.ranked import RankedWindow, ranked_aggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.slices.windows import Spec
from operators.window_aggregate.triggers.aggregate import TriggeredAggregate
from operators.window_aggregate.triggers.condition import Rows
from operators.window_aggregate.triggers.sessions import TriggeredSessions
from punctuation import END, Below, Between, Equals, OneOf, Pattern, Punctuation, Range
from tests.examples import share
from tests.naive_aggregate import naive_windows

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": count(), "total": sum("v")}
WIDE = SlidingWindow("ts", size=5, slide=2)


def tagged(window: SlidingWindow | LandmarkWindow, strategy: Strategy) -> Callable[[], Operator]:
    return lambda: Chain([Bucket(window), WindowAggregate(window, FUNCTIONS, ("k",), strategy=strategy)])


def sliced(*windows: Spec, lateness: int = 0, functions: bool = True) -> Callable[[], Operator]:
    named = {str(number): window for number, window in enumerate(windows)}
    made = FUNCTIONS if functions else {"most": max("v")}
    return lambda: SlicingAggregate(named, made, ("k",), named=True, lateness=lateness)


def ranked(window: RankedWindow) -> Callable[[], Operator]:
    return lambda: ranked_aggregate(window, FUNCTIONS, ("k",))


MADE: Final[dict[str, Callable[[], Operator]]] = {
    **{strategy: tagged(WIDE, strategy) for strategy in ("wid", "panes", "differential")},
    "two stacks": lambda: Chain(
        [Bucket(WIDE), WindowAggregate(WIDE, {"most": max("v")}, ("k",), strategy="two_stacks")]
    ),
    "landmark": tagged(LandmarkWindow("ts", slide=3), "panes"),
    "slices in vectors": sliced(WIDE),
    "slices of each group": sliced(WIDE, SessionWindow("ts", gap=2), functions=False),
    "edges": sliced(EdgeWindow("ts", lambda tick: tick // 3 * 3 + 3), WIDE),
    "rows": ranked(CountWindow("ts", size=2, slide=1)),
    "last tuples": ranked(LastTuples("ts", size=2, slide=3)),
    "slide by tuple": ranked(SlideByTuple("ts", size=4)),
    "predicates": ranked(PredicateWindow("ts", Column("v") > 0, runs=True)),
    "early sessions": lambda: EarlySessions(SessionWindow("ts", gap=2), FUNCTIONS, ("k",), every=2),
    "sessions that fire": lambda: TriggeredSessions(SessionWindow("ts", gap=2), FUNCTIONS, ("k",), condition=Rows(2)),
    "windows that fire": lambda: TriggeredAggregate(WIDE, FUNCTIONS, ("k",), condition=Rows(2), tagged=False),
}
LATE: Final[dict[str, Callable[[], Operator]]] = {
    "slices with a lateness": sliced(WIDE, SessionWindow("ts", gap=2), lateness=2),
    "sessions that fire with a lateness": lambda: TriggeredSessions(
        SessionWindow("ts", gap=2), FUNCTIONS, ("k",), condition=Rows(2), lateness=2
    ),
}
"""Late tuples may belong to any group, so promises on groups release nothing here."""


def as_list(element: Element) -> Element:
    """Name the groups of a promise by constants, where it names them by a range."""
    return element if isinstance(element, Page) else _with_keys(element, lambda low, high: OneOf(range(low, high)))


def as_range(element: Element) -> Element:
    """Name the groups of a promise by a range, where it names them by constants that follow each other."""
    return element if isinstance(element, Page) else _with_keys(element, Between)


def _with_keys(promise: Punctuation, made: Callable[[int, int], Pattern]) -> Punctuation:
    patterns = dict(promise.patterns)
    keys: list[int] = []
    match patterns.get("k"):
        case Equals(value):
            keys = [int(str(value))]
        case OneOf(values):
            keys = sorted(int(str(value)) for value in values)
        case Range(int(low), int(high), low_open=False, high_open=True):
            keys = list(range(low, high))
        case _:
            pass
    if not keys or keys != list(range(keys[0], keys[-1] + 1)):
        return promise
    return Punctuation(patterns | {"k": made(keys[0], keys[-1] + 1)}, assumed=promise.assumed)


def bag(found: list[Row]) -> list[str]:
    return sorted(map(str, found))


@pytest.mark.parametrize("name", [*MADE, *LATE])
@share(1)
@given(streams(SCHEMA, group=("k",), nulls=("k", "v"), promises=("linear", "group"), tuples=12))
def test_ranges_of_groups_release_what_lists_of_them_do_call_by_call(name: str, script: Script) -> None:
    listed, ranged = ({**MADE, **LATE}[name]() for _ in range(2))
    for operator in (listed, ranged):
        operator.output_schema(SCHEMA)
    for port, element in script:
        found = list[Element](), list[Element]()
        deliver(listed, as_list(element), found[0].append, port)
        deliver(ranged, as_range(element), found[1].append, port)
        assert bag(rows(found[0])) == bag(rows(found[1]))
        assert isinstance(listed, Measured) and isinstance(ranged, Measured)
        held = [one.statistics()["state_tuples"] for one in (listed, ranged)]
        assert held[0] == held[1]


@pytest.mark.parametrize("name", [name for name in (*MADE, *LATE) if "fire" not in name and "tuple" not in name])
@share(0.3)
@given(streams(SCHEMA, group=("k",), nulls=("k", "v"), tuples=10))
def test_stores_keep_the_laws_under_ranges_of_groups(name: str, script: Script) -> None:
    ranged = Script(script.schemas, tuple((port, as_range(element)) for port, element in script.steps))
    # Ties make a difference to what counts rows.
    check_operator({**MADE, **LATE}[name], ranged, order_matters=name == "rows")


@share(1)
@given(
    st.sampled_from(["wid", "panes", "differential", "slices in vectors"]),
    streams(SCHEMA, group=("k",), nulls=("k", "v"), tuples=12),
)
def test_a_range_of_groups_changes_no_answer(name: str, script: Script) -> None:
    ranged = Script(script.schemas, tuple((port, as_range(element)) for port, element in script.steps))
    answers = {"n": len, "total": lambda members: _total([row["v"] for row in members])}
    told = {"window": "0"} if "slices" in name else {}
    check_operator(
        MADE[name], ranged, naive=lambda table: [row | told for row in naive_windows(WIDE, answers, ("k",), table)]
    )


def _total(values: list[object]) -> object:
    known = [int(str(value)) for value in values if value is not None]
    return builtins.sum(known) if known else None


@pytest.mark.parametrize("name", [name for name in MADE if name not in ("rows", "slide by tuple", "predicates")])
def test_a_range_of_groups_releases_their_open_windows(name: str) -> None:
    operator = MADE[name]()
    page = Page.of(SCHEMA, {"ts": [0, 1, 1, 2], "k": [5, 6, 9, 6], "v": [1, 2, 3, 4]})
    found = drive(operator, [page, Punctuation({"k": Between(5, 8), "ts": Below(40)})])
    final = [row for row in rows(found) if row.get("final", True)]
    assert {row["k"] for row in final} == {5, 6}
    assert {row["k"] for row in rows(drive(operator, [END])) if row.get("final", True)} >= {9}


def test_what_names_no_group_settles_nothing() -> None:
    below, some = Below(5), Between(5, 7)
    assert group_bound(Punctuation({"k": some, "v": below}), ["k"], "ts") is None
    assert group_bound(Punctuation({"ts": below}), ["k"], "ts") is None
    assert group_bound(Punctuation({"k": some, "ts": some}), ["k"], "ts") is None
    found = group_bound(Punctuation({"k": below, "ts": below}), ["k"], "ts")
    assert found is not None and (str(found.groups), found.bound) == ("[k < 5]", 5)


def test_a_group_at_one_time_is_not_over_at_others() -> None:
    """Where the windowing attribute groups, too, an equality on it names groups and is no bound."""
    promise = Punctuation({"ts": Equals(1), "k": Equals(5)})
    found = group_bound(promise, ["ts", "k"], "ts")
    assert found is not None and (found.groups, found.bound) == (promise, None)
    operator = SlicingAggregate({"": WIDE}, FUNCTIONS, ("ts", "k"))
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": [5, 5], "v": [1, 2]})
    assert {row["ts"] for row in rows(drive(operator, [page, promise]))} == {1}
