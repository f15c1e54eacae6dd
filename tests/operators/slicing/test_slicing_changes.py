"""Windows come and go while the stream runs: each gives what it gives alone, from where it counts to where it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.drive import deliver, drive, rows
from operators.errors import SchemaError
from operators.functions import count
from operators.page import Page, Row
from operators.protocol import Element
from operators.saved import decode_state, encode_state
from operators.schema import Schema
from operators.slicing import SlicingAggregate
from operators.testing import Script, streams
from operators.window import SlidingWindow, tumbling
from operators.window.session import SessionWindow
from punctuation import END, Punctuation, before
from tests.naive_slicing import naive_slicing
from tests.operators.slicing.mixes import ANSWERS, FUNCTIONS, SCHEMA, kinds, slidings

Bag = Counter[tuple[tuple[str, object], ...]]


def bag(found: Sequence[Row]) -> Bag:
    return Counter(tuple(sorted(row.items())) for row in found)


changes = st.lists(st.tuples(st.integers(0, 12), st.one_of(kinds, st.none())), min_size=1, max_size=4)


@given(
    slidings,
    changes,
    st.sampled_from([(), ("k",)]),
    st.sampled_from(["lazy", "eager"]),
    st.booleans(),
    streams(SCHEMA, tuples=14, promises=("linear",)),
)
def test_windows_added_and_removed_at_any_time_give_the_naive_answer(
    first: SlidingWindow,
    planned: list[tuple[int, object]],
    by: tuple[str, ...],
    store: str,
    saving: bool,
    script: Script,
) -> None:
    def make() -> SlicingAggregate:
        windows = {"first": first}
        return SlicingAggregate(windows, FUNCTIONS, by, store="auto" if by else store, named=True)  # type: ignore[arg-type]

    operator = make()
    windows: dict[str, object] = {"first": first}
    since: dict[str, int] = {}
    ended: dict[str, int] = {}
    bound = -(2**62)
    emitted: list[Element] = []
    for place, (port, element) in enumerate(script):
        for at, window in planned:
            if at != place:
                continue
            if window is not None:
                name = f"w{len(windows)}"
                windows[name] = window
                since[name] = operator.add(name, window)  # type: ignore[arg-type]
            elif running := sorted(operator.windows):
                operator.remove(running[-1])
                ended[running[-1]] = bound
        deliver(operator, element, emitted.append, port)
        if isinstance(element, Punctuation) and isinstance(value := element.bound("ts"), int):
            bound = max(bound, value)
        if saving:
            fresh = make()
            fresh.restore(decode_state(encode_state(operator.state())))
            operator = fresh
    expected = naive_slicing(windows, ANSWERS, by, script.tables()[0], named=True, since=since)
    expected = [row for row in expected if row["window_end"] <= ended.get(str(row["window"]), 2**62)]  # type: ignore[operator]
    assert bag(rows(emitted)) == bag(expected)


def test_an_added_window_counts_after_the_largest_tick_and_the_bound() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [3, 7]})
    operator = SlicingAggregate({"a": tumbling("ts", 10)}, {"n": count()}, named=True)
    assert operator.add("at once", tumbling("ts", 4)) == -(2**62)
    drive(operator, [page])
    assert operator.add("b", tumbling("ts", 4)) == 8
    drive(operator, [before("ts", 12)])
    assert operator.add("c", SessionWindow("ts", gap=3)) == 12
    later = rows(drive(operator, [Page.of(schema, {"ts": [12, 13]}), END]))
    assert [(r["window"], r["wid"], r["n"]) for r in later if r["window"] in "bc"] == [("b", 3, 2), ("c", 12, 2)]


def test_a_removed_window_gives_no_more_results_and_its_edges_go() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    operator = SlicingAggregate({"fine": tumbling("ts", 1), "coarse": tumbling("ts", 100)}, {"n": count()})
    drive(operator, [Page.of(schema, {"ts": list(range(50))}), before("ts", 10)])
    assert operator.statistics()["slices"] == 41
    operator.remove("fine")
    drive(operator, [before("ts", 50)])
    found = rows(drive(operator, [before("ts", 60), before("ts", 100)]))
    assert [(r["window"], r["n"]) for r in found] == [("coarse", 50)]
    assert operator.statistics()["slices"] == 0


def test_names_are_taken_once_and_known_when_removed() -> None:
    operator = SlicingAggregate({"a": tumbling("ts", 1)}, {"n": count()}, named=True)
    with pytest.raises(SchemaError, match='a window "a" already'):
        operator.add("a", tumbling("ts", 2))
    with pytest.raises(SchemaError, match='no window "b" to remove; there are a'):
        operator.remove("b")
    with pytest.raises(SchemaError, match="slices are shared over one attribute"):
        operator.add("b", tumbling("other", 2))
    with pytest.raises(SchemaError, match="write named=True"):
        SlicingAggregate({"a": tumbling("ts", 1)}, {"n": count()}).add("b", tumbling("ts", 2))
