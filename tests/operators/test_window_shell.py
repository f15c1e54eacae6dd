"""The shell of window aggregates tells which windows are open, and reads the states of before."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.errors import SchemaError
from operators.functions import count, sum
from operators.functions.protocol import AggregateFunction
from operators.testing import Script, streams
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window, tumbling
from operators.window.counted import CountWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.shell import StoreShell
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked import CountAggregate
from operators.window_aggregate.stores.stacks import StackAggregate
from punctuation import END, before
from tests.operators.test_window_aggregate import sliding, windows

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: dict[str, AggregateFunction] = {"n": count(), "total": sum("v")}
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
    drive(operator, [element for element in script if element != END])
    found = told(operator.open_windows(most=10_000), ())
    assert found[:2] == told(operator.open_windows(most=2), ())
    other = StackAggregate(window, {"n": count()})
    other.restore(operator.state())
    for row in found:
        drive(other, [other.closed_by(int(str(row[0])))])
        assert row not in told(other.open_windows(most=10_000), ())
    assert len(other.open_windows()) == 0
    assert found == [tuple(row[name] for name in EXTENT) for row in rows(drive(operator, [END]))]


def test_what_does_not_tell_its_open_windows_says_so() -> None:
    operator = CountAggregate(CountWindow("ts", size=2, slide=2), {"n": count()})
    assert len(operator.open_windows()) == 0
    drive(operator, [Page.of(SCHEMA, {"ts": [3], "k": ["a"], "v": [1]})])
    with pytest.raises(NotImplementedError, match="CountAggregate does not tell its open windows"):
        operator.open_windows()


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
        del state[missing]
        other = make(LandmarkWindow("ts", slide=5), ("k",))
        other.restore(state)
        assert other.open_windows().plain_rows() == operator.open_windows().plain_rows()
        assert rows(drive(other, [END])) == rows(drive(operator, [END]))
