"""The shell of window aggregates tells which windows are open, and reads the states of before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import attrs
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import count, sum
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element
from operators.testing import Script, streams
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window, tumbling
from operators.window.counted import CountWindow, LastTuples
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.partial_final.low import LowAggregate
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked import CountAggregate, LastAggregate, SlideAggregate
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.stacks import StackAggregate
from punctuation import END, Punctuation, before
from tests.naive_ranked import Counted, naive_ranked
from tests.operators.ranked.cases import Mode, by_number, by_rank, by_tuple, counted, last, modes
from tests.operators.slicing.mixes import Mix, mixes
from tests.operators.slicing.mixes import naive as naive_slices
from tests.operators.slicing.mixes import operator as slicing
from tests.operators.test_window_aggregate import sliding, windows

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: dict[str, AggregateFunction] = {"n": count(), "total": sum("v")}
Teller = SlicingAggregate | CountAggregate | LastAggregate | SlideAggregate | SignedAggregate
S = TypeVar("S", bound=Teller)
Make = Callable[[Window, tuple[str, ...]], StoreShell]
SHELLS: dict[str, Make] = {
    "wid": lambda window, by: WindowAggregate(window, FUNCTIONS, by, strategy="wid"),
    "slices": lambda window, by: WindowAggregate(window, FUNCTIONS, by),
    "buffer": lambda window, by: BufferAggregate(window, FUNCTIONS, by),
    "panes": lambda window, by: BufferAggregate(window, FUNCTIONS, by, panes=True),
    "adaptive": lambda window, by: AdaptiveAggregate(window, FUNCTIONS, by),
    "items": lambda window, by: AdaptiveAggregate(window, FUNCTIONS, by, panes=True),
}
EXTENT = ("wid", "window_start", "window_end")


def told(page: Page, by: tuple[str, ...]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in (*EXTENT, *by)) for row in page.plain_rows()]


def open_at_end(operator: StoreShell, script: Script, by: tuple[str, ...]) -> None:
    tagged = [element for element in drive(Bucket(operator.window), script) if element != END]
    drive(operator, tagged)
    found = told(operator.open_windows(most=10_000), by)
    assert found[:3] == told(operator.open_windows(most=3), by)
    assert [row[0] for row in found] == sorted(row[0] for row in found)  # type: ignore[type-var]
    given = [tuple(row[name] for name in (*EXTENT, *by)) for row in rows(drive(operator, [END]))]
    assert sorted(map(repr, found)) == sorted(map(repr, given))
    assert len(operator.open_windows()) == 0


@given(sliding, st.sampled_from(sorted(SHELLS)), st.sampled_from([(), ("k",)]), streams(SCHEMA, group=("k",)))
def test_the_open_windows_are_those_that_the_end_gives(
    window: SlidingWindow, name: str, by: tuple[str, ...], script: Script
) -> None:
    open_at_end(SHELLS[name](window, by), script, by)


@given(windows, st.sampled_from(["slices", "buffer"]), st.sampled_from([("k",), ("k", "v")]), streams(SCHEMA))
def test_so_they_are_where_windows_begin_with_the_stream_or_are_counted_in_partitions(
    window: Window, name: str, by: tuple[str, ...], script: Script
) -> None:
    assume(not isinstance(window, PartitionedWindow) or set(window.partition) <= set(by))
    open_at_end(SHELLS[name](window, by), script, by)


@given(sliding, streams(SCHEMA, disorder=0, promises=("linear",)))
def test_so_they_are_by_stacks(window: SlidingWindow, script: Script) -> None:
    operator = StackAggregate(window, {"n": count()})
    drive(operator, without(script))
    found = told(operator.open_windows(most=10_000), ())
    assert found[:2] == told(operator.open_windows(most=2), ())
    other = StackAggregate(window, {"n": count()})
    other.restore(operator.state())
    for row in found:
        drive(other, [other.closed_by(int(str(row[0])))])
        assert row not in told(other.open_windows(most=10_000), ())
    assert len(other.open_windows()) == 0
    assert found == [tuple(row[name] for name in EXTENT) for row in rows(drive(operator, [END]))]


def without(script: Script) -> list[Element]:
    """Give the elements of a script before its end."""
    return [element for _, element in script if element != END]


def extents(rows: Iterable[Row], by: Sequence[str]) -> list[str]:
    """Give the groups and the windows of results, in no particular order."""
    return sorted({repr([row.get(name) for name in (*by, "window", *EXTENT)]) for row in rows})


def counting(window: Counted, by: tuple[str, ...], partition: tuple[str, ...] | None) -> Teller:
    if isinstance(window, CountWindow):
        return CountAggregate(window, {"n": count()}, by, partition=partition)
    if isinstance(window, LastTuples):
        return LastAggregate(window, {"n": count()}, by, partition=partition)
    return SlideAggregate(window, {"n": count()}, by, partition=partition)


def told_apart(operator: Teller, script: Script, by: Sequence[str], naive: list[Row]) -> list[Row]:
    """Give the open windows: those of the naive answer that are not in the results so far, and no others."""
    emitted = rows(drive(operator, without(script)))
    found = operator.open_windows(most=10_000).plain_rows()
    assert found[:3] == operator.open_windows(most=3).plain_rows()
    assert extents(found, by) == sorted(set(extents(naive, by)) - set(extents(emitted, by)))
    assert extents(found, by) == extents(rows(drive(restored(operator), [END])), by)
    return found


def restored(operator: S) -> S:
    again = attrs.evolve(operator)
    again.restore(operator.state())
    return again


def closes(operator: Teller, window: Row, promise: Punctuation) -> bool:
    """Tell whether a promise completes a window."""
    again = restored(operator)
    drive(again, [promise])
    return repr(window) not in [repr(row) for row in again.open_windows(most=10_000).plain_rows()]


def is_least(operator: Teller, window: Row, promise: Punctuation) -> None:
    """Check that a promise completes a window, and a lesser one does not."""
    assert closes(operator, window, promise)
    bound = promise.bound("ts")
    if bound is not None:
        assert not closes(operator, window, before("ts", int(bound) - 1))


@given(mixes, st.sampled_from([(), ("k",)]), st.sampled_from(["auto", "lazy"]), streams(SCHEMA, group=("k",)))
def test_so_they_are_of_slices(mix: Mix, by: tuple[str, ...], store: str, script: Script) -> None:
    made = slicing(mix, by, store=store)
    table = [row for element in without(script) if isinstance(element, Page) for row in element.plain_rows()]
    for window in told_apart(made, script, by, naive_slices(mix, by, table))[:4]:
        name = str(window["window"]) if len(mix) > 1 else None
        promise = made.closed_by(int(str(window["wid"])), name)
        assert closes(made, window, promise)
        if not isinstance(mix["w0" if name is None else name], SessionWindow) or not by:
            is_least(made, window, promise)


def test_of_several_windows_one_is_named_and_is_open() -> None:
    made = SlicingAggregate({"a": tumbling("ts", 5), "s": SessionWindow("ts", gap=2)}, {"n": count()})
    assert len(made.open_windows()) == 0
    drive(made, [Page.of(SCHEMA, {"ts": [3], "k": ["a"], "v": [1]})])
    assert made.closed_by(0, "a") == made.closed_by(3, "s") == before("ts", 5)
    with pytest.raises(LookupError, match="there are windows a, s; name the one"):
        made.closed_by(0)
    with pytest.raises(LookupError, match='no window "s" of this id is open'):
        made.closed_by(7, "s")


def test_windows_that_may_be_given_again_are_not_open() -> None:
    made = SlicingAggregate({"a": tumbling("ts", 5)}, {"n": count()}, lateness=10)
    page = Page.of(SCHEMA, {"ts": [3, 7], "k": ["a", "b"], "v": [1, 1]})
    drive(made, [page, before("ts", 6), Page.of(SCHEMA, {"ts": [4], "k": ["a"], "v": [1]})])
    assert told(made.open_windows(), ()) == [(1, 5, 10)]


@given(st.one_of(by_tuple, by_rank, by_number, counted, last), modes, streams(SCHEMA, group=("k",)))
def test_so_they_are_of_windows_that_tuples_define(window: Counted, mode: Mode, script: Script) -> None:
    by, partition = mode
    made = counting(window, by, partition)
    table = [row for element in without(script) if isinstance(element, Page) for row in element.plain_rows()]
    for open_window in told_apart(made, script, by, naive_ranked(window, {}, by, table, partition=partition))[:4]:
        promise = made.closed_by(int(str(open_window["wid"])))
        if promise != END:
            # Of several partitions one may have promised more.
            is_least(made, open_window, promise) if not by else closes(made, open_window, promise)


@given(sliding, st.sampled_from([(), ("k",)]), streams(SCHEMA, promises=("linear",)))
def test_so_they_are_of_negative_tuples(window: SlidingWindow, by: tuple[str, ...], script: Script) -> None:
    made = SignedAggregate(window, {"n": count()}, by)
    # Tuples that have not expired as yet are in windows without end, of which the last that differs is told.
    drive(made, drive(Expire(), drive(Bucket(window), without(script))))
    found = told(made.open_windows(most=10_000), by)
    for row in found[:3]:
        again = restored(made)
        drive(again, [made.closed_by(int(str(row[0])))])
        assert row not in told(again.open_windows(most=10_000), by)
    assert sorted(map(repr, found)) == sorted(
        repr(tuple(row[name] for name in (*EXTENT, *by))) for row in rows(drive(made, [END]))
    )


def test_what_has_no_windows_of_its_own_says_so() -> None:
    operator = LowAggregate({"n": count()})
    assert len(operator.open_windows()) == 0
    drive(operator, drive(Bucket(tumbling("ts", 5)), [Page.of(SCHEMA, {"ts": [3], "k": ["a"], "v": [1]})]))
    with pytest.raises(NotImplementedError, match="LowAggregate has no windows of its own"):
        operator.open_windows()
    with pytest.raises(NotImplementedError, match="LowAggregate has no windows of its own"):
        operator.closed_by(0)


def test_a_window_tells_which_promise_closes_it() -> None:
    operator = WindowAggregate(tumbling("ts", 10), FUNCTIONS, ("k",))
    page = Page.of(SCHEMA, {"ts": [3, 14], "k": ["a", "b"], "v": [1, 2]})
    drive(operator, drive(Bucket(operator.window), [page]))
    assert told(operator.open_windows(), ("k",)) == [(0, 0, 10, "a"), (1, 10, 20, "b")]
    assert operator.closed_by(0) == before("wid_from", 1)
    drive(operator, [operator.closed_by(0)])
    assert told(operator.open_windows(), ("k",)) == [(1, 10, 20, "b")]


@pytest.mark.parametrize("name", sorted(SHELLS))
def test_skipped_nulls_are_still_counted_at_the_end(name: str) -> None:
    operator = SHELLS[name](SlidingWindow("ts", size=4, slide=2), ())
    page = Page.of(SCHEMA, {"ts": [3, 4, 9], "k": ["a", "b", "c"], "v": [None, 2, None]})
    drive(operator, drive(Bucket(operator.window), [page, END]))
    # By "wid" a tuple is looked at once a window.
    assert operator.statistics()["null_arguments"] == (4 if name == "wid" else 2)


@pytest.mark.parametrize("name", sorted(SHELLS))
def test_every_shell_asks_for_a_bucket(name: str) -> None:
    with pytest.raises(SchemaError, match="put a Bucket in front"):
        SHELLS[name](tumbling("ts", 10), ()).output_schema(SCHEMA)


def test_states_of_before_have_fewer_numbers() -> None:
    """Those of a WindowAggregate did not count nulls, those of a BufferAggregate had no last window."""
    for name, missing in (("slices", "nulls"), ("buffer", "last")):
        make = SHELLS[name]
        operator = make(LandmarkWindow("ts", slide=5), ("k",))
        page = Page.of(SCHEMA, {"ts": [3, 14], "k": ["a", "b"], "v": [1, 2]})
        drive(operator, drive(Bucket(operator.window), [page, before("ts", 7)]))
        state = operator.state()
        del state["version"], state[missing]
        other = make(LandmarkWindow("ts", slide=5), ("k",))
        other.restore(state)
        assert other.open_windows().plain_rows() == operator.open_windows().plain_rows()
        assert rows(drive(other, [END])) == rows(drive(operator, [END]))
