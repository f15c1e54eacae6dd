"""What comes late is a result of its own: with those before it, it adds up to what a window has been told."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state, restore
from operators.data.schema import Schema
from operators.drive import deliver, rows
from operators.functions import count, max
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window_aggregate.early import discard
from operators.window_aggregate.early.discard import DiscardLate
from operators.window_aggregate.stores.slices import SlicingAggregate
from punctuation import END, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts"])
FUNCTIONS = {"n": count(), "most": max("v")}
Tuple = tuple[int, str, int]
WINDOWS = st.fixed_dictionaries(
    {"w": st.builds(lambda r, s, o: SlidingWindow("ts", size=r, slide=s, origin=o), *[st.integers(1, 6)] * 3)},
    optional={"x": st.builds(lambda r: SlidingWindow("ts", size=r, slide=r, partial=False), st.integers(2, 9))},
)
STEPS = st.lists(
    st.one_of(st.tuples(st.integers(-3, 24), st.sampled_from("ab"), st.integers(0, 9)), st.integers(-2, 22))
)


def naive(windows: dict[str, SlidingWindow], lateness: int, steps: Sequence[Tuple | int]) -> list[tuple[object, ...]]:
    """Give (window, wid, k, n, most, revision) of each result, tuple by tuple and window by window."""
    bound = -(10**9)
    timely: dict[tuple[str, int, str], list[int]] = {}
    late: dict[tuple[str, int, str], list[int]] = {}
    again: Counter[tuple[str, int, str]] = Counter()
    found: list[tuple[object, ...]] = []

    def promise(value: int) -> None:
        nonlocal bound, late
        for key, values in late.items():
            again[key] += 1
            found.append((*key, len(values), builtin_max(values), again[key]))
        late, bound = {}, builtin_max([bound, value])
        for key in [key for key in timely if windows[key[0]].extent(key[1])[1] <= bound]:
            values = timely.pop(key)
            found.append((*key, len(values), builtin_max(values), 0))

    for step in steps:
        if isinstance(step, int):
            promise(step)
            continue
        ts, k, v = step
        for name, window in windows.items():
            for wid in range(-40, 40):
                begin, end = window.extent(wid)
                if begin <= ts < end and wid >= window.least:
                    if end > bound:
                        timely.setdefault((name, wid, k), []).append(v)
                    elif end > bound - lateness:
                        late.setdefault((name, wid, k), []).append(v)
    promise(10**9)
    return found


def builtin_max(values: Sequence[int]) -> int:
    return sorted(values)[-1]


def told(elements: Sequence[Element], name: str = "w") -> Counter[tuple[object, ...]]:
    return Counter(
        (row.get("window", name), row["wid"], row["k"], row["n"], row["most"], row["revision"])
        for row in rows(elements)
    )


def run(operator: DiscardLate, steps: Sequence[Tuple | int], size: int, *, saving: bool = False) -> list[Element]:
    """Run tuples, in pages of a size, and promises; each promise that was made is kept from then on."""
    emitted: list[Element] = []
    waiting: list[Tuple] = []
    operator.output_schema(SCHEMA)

    def give(element: Element) -> None:
        nonlocal operator
        made: list[Element] = []
        deliver(operator, element, made.append)
        for promise in emitted:
            assert isinstance(promise, Page) or not any(promise.matches(row) for row in rows(made))
        emitted.extend(made)
        if saving:
            fresh = DiscardLate(operator.windows, FUNCTIONS, ("k",), lateness=operator.lateness)
            fresh.output_schema(SCHEMA)
            restore(fresh, decode_state(encode_state(operator.state())))
            operator = fresh

    for step in (*steps, None):
        if isinstance(step, tuple):
            waiting.append(step)
        if waiting and (not isinstance(step, tuple) or len(waiting) == size):
            give(Page.of_rows(SCHEMA, waiting))
            waiting = []
        if isinstance(step, int):
            give(before("ts", step))
    give(END)
    assert operator.statistics()["state_tuples"] == 0
    return emitted


@share(4)
@given(WINDOWS, st.integers(1, 9), STEPS, st.integers(1, 4), st.booleans())
def test_late_tuples_are_results_of_their_own(
    windows: dict[str, SlidingWindow], lateness: int, steps: list[Tuple | int], size: int, saving: bool
) -> None:
    operator = DiscardLate(windows, FUNCTIONS, ("k",), lateness=lateness)
    assert told(run(operator, steps, size, saving=saving)) == Counter(naive(windows, lateness, steps))


@pytest.mark.slow
@given(streams(SCHEMA, tuples=10, promises=("linear",)))
def test_without_late_tuples_it_gives_what_windows_without_a_lateness_give(script: Script) -> None:
    windows = {"w": SlidingWindow("ts", size=6, slide=4)}

    def answer(table: list[dict[str, object]]) -> list[dict[str, object]]:
        plain = SlicingAggregate(windows, FUNCTIONS, ("k",))  # type: ignore[arg-type]
        emitted: list[Element] = []
        for element in (Page.of_rows(SCHEMA, [list(row.values()) for row in table]), END):
            deliver(plain, element, emitted.append)
        return [{**row, "revision": 0} for row in rows(emitted)]

    check_operator(lambda: DiscardLate(windows, FUNCTIONS, ("k",), lateness=5), script, naive=answer)  # type: ignore[arg-type]


def test_what_came_late_and_too_late_is_counted() -> None:
    operator = DiscardLate({"w": SlidingWindow("ts", size=10, slide=5)}, FUNCTIONS, ("k",), lateness=10)
    run(operator, [(31, "a", 1), 30, (12, "a", 1), (21, "a", 1), (28, "a", 1), 31], 9)
    counts = operator.statistics()
    # 12 is in [5, 15) and [10, 20), which are settled; 21 in [15, 25) and [20, 30), which are not.
    assert (counts["late"], counts["late_for_some"], counts["late_results"]) == (1, 0, 2)


def test_examples() -> None:
    assert doctest.testmod(discard).failed == 0
