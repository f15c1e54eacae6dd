"""A portion of the results of several windows is what its own windows give alone, and promises what they promise."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, max, sum
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import Portion, SlicingAggregate
from operators.window_aggregate.stores.slices.windows import Spec
from punctuation import Progress, before
from tests.examples import share
from tests.naive_slicing import naive_slicing
from tests.operators.slicing.mixes import ANSWERS, FUNCTIONS, SCHEMA, Mix, kinds, mixed, slidings

GROUPS = st.sampled_from([(), ("k",)])
COLUMNS = {"tuples": "n", "most": "most"}
TICKS = Schema.of(ts=pa.int64(), progress=["ts"])


def columns(by: Sequence[str]) -> dict[str, str]:
    return {name: name for name in by} | COLUMNS


def together(mix: Mix, by: Sequence[str]) -> SlicingAggregate:
    return SlicingAggregate(mix, FUNCTIONS, by, named=True)  # type: ignore[arg-type]


@share(1)
@given(
    st.lists(kinds, min_size=1, max_size=3),
    st.lists(kinds, min_size=1, max_size=2),
    GROUPS,
    streams(SCHEMA, group=("k",), tuples=10),
)
def test_a_portion_keeps_the_laws_and_gives_the_naive_answer(
    own: list[Spec], others: list[Spec], by: tuple[str, ...], script: Script
) -> None:
    mix = mixed([*others, *own])
    mine = {name: mix[name] for name in list(mix)[len(others) :]}
    labels = {name: name.upper() for name in mine} if len(mine) > 1 else {}
    answers = {"tuples": ANSWERS["n"], "most": ANSWERS["most"]}
    called = {labels.get(name, name): window for name, window in mine.items()}
    check_operator(
        lambda: Chain([together(mix, by), Portion(mine, columns(by), labels)]),  # type: ignore[arg-type]
        script,
        naive=lambda table: naive_slicing(called, answers, by, table),
    )


@given(slidings, st.lists(kinds, min_size=1, max_size=3), GROUPS, streams(SCHEMA, group=("k",), tuples=12))
def test_a_window_that_repeats_promises_as_if_it_were_alone(
    window: SlidingWindow, others: list[Spec], by: tuple[str, ...], script: Script
) -> None:
    functions = {"tuples": count(), "most": max("v")}
    alone = Chain([Bucket(window), WindowAggregate(window, functions, by)])
    portion = Portion({"own": window}, columns(by), by_group="wid")
    fused = Chain([together({"own": window, **mixed(others)}, by), portion])
    assert fused.output_schema(SCHEMA) == alone.output_schema(SCHEMA)
    told = Progress()
    for step in script:
        ours, theirs = drive(fused, [step]), drive(alone, [step])
        assert sorted(map(repr, rows(ours))) == sorted(map(repr, rows(theirs)))
        for promise in punctuations(ours):
            told.advance(promise)
        for promise in punctuations(theirs):
            assert told.implies(promise)


def script(*ticks: int, bound: int) -> list[Element]:
    return [Page.of(TICKS, {"ts": list(ticks)}), before("ts", bound)]


def test_sessions_promise_the_least_begin_of_all_windows() -> None:
    windows = {"busy": SessionWindow("ts", gap=3), "long": SlidingWindow("ts", size=100, slide=100)}
    both = SlicingAggregate(windows, {"n": count()})
    fused = Chain([both, Portion({"busy": windows["busy"]}, {"n": "n"})])
    assert [str(p) for p in punctuations(drive(fused, script(1, 20, bound=22)))] == [
        "[wid < 0]", "[window_start < 0]", "[window_end < 23]",
    ]  # fmt: skip
    alone = SlicingAggregate({"busy": windows["busy"]}, {"n": count()})
    assert [str(p) for p in punctuations(drive(alone, script(1, 20, bound=22)))] == [
        "[wid < 20]", "[window_start < 20]", "[window_end < 23]",
    ]  # fmt: skip


def test_windows_that_say_their_edges_have_no_promise_on_ids() -> None:
    windows = {"own": EdgeWindow("ts", lambda t: (t // 7 + 1) * 7), "long": SlidingWindow("ts", size=5, slide=5)}
    portion = Portion({"own": windows["own"]}, {"n": "n"})
    fused = Chain([SlicingAggregate(windows, {"n": count(), "total": sum("ts")}), portion])
    assert sorted(map(sorted, fused.output_schema(TICKS).progress)) == [["window_end"], ["window_start"]]
    found = drive(fused, script(1, 9, bound=12))
    assert rows(found) == [{"n": 1, "wid": 0, "window_start": 0, "window_end": 7}]
    assert [str(p) for p in punctuations(found)] == ["[window_start < 7]", "[window_end < 13]"]


def test_several_windows_without_names_are_refused() -> None:
    windows = {name: SlidingWindow("ts", size=5, slide=5) for name in "ab"}
    with pytest.raises(SchemaError, match="only names in `labels`"):
        Portion(windows, {"n": "n"})
