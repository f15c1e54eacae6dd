"""Slices of many groups are vectors: they answer as slices of single groups do, take less memory, and become those."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.saved import decode_state, encode_state
from operators.data.schema import Schema
from operators.drive import deliver, drive, rows
from operators.functions import avg, count, count_distinct, last, max, sum
from operators.protocol import Element
from operators.testing import Script, check_operator, streams
from operators.window import SlidingWindow, tumbling
from operators.window.session import SessionWindow
from operators.window_aggregate.stores.slices import SlicingAggregate, vectors
from punctuation import END, Below, OneOf, Punctuation, before
from tests.examples import share
from tests.operators.slicing.mixes import FUNCTIONS, SCHEMA, Mix, bands, mixed, must_be_out, naive, operator, slidings

fixed = st.lists(st.one_of(slidings, slidings, bands), min_size=1, max_size=4).map(mixed)
KEYED = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
NUMBERS = {"n": count("v"), "mean": avg("v"), "most": max("v"), "kinds": count_distinct("v")}


def vectored(slicing: SlicingAggregate) -> bool:
    """Tell whether slices are of many groups."""
    return slicing.state().get("vectors") is True


@pytest.fixture(params=[0, 1 << 11], ids=["many groups", "few groups"], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all groups be many, and few."""
    monkeypatch.setattr(vectors, "FEW", request.param)


@share(1)
@given(fixed, st.sampled_from([("k",), ("k", "v")]), streams(SCHEMA, group=("k",), tuples=12))
def test_vectors_give_the_naive_answer(mix: Mix, by: tuple[str, ...], script: Script) -> None:
    check_operator(
        lambda: operator(mix, by),
        script,
        naive=lambda table: naive(mix, by, table),
        settled=lambda tables, progress: must_be_out(mix, by, tables[0], progress[0]),
    )


def grouped_stream(seed: int, groups: int, steps: int, *, disorder: int) -> list[Element]:
    """Make pages of many groups, and promises on all, on some groups up to a tick, and on some for ever."""
    rng = np.random.default_rng(seed)
    script: list[Element] = []
    now, bound, over, own = 0, 0, np.zeros(groups, np.bool_), np.zeros(groups, np.int64)
    for _ in range(steps):
        n = int(rng.integers(1, 3 * groups))
        ts, k = now + rng.integers(-disorder, 4, n), rng.integers(0, groups, n)
        allowed = (ts >= bound) & ~over[k] & (ts >= own[k])
        values = pa.array(rng.integers(0, 4, n), mask=rng.random(n) < 0.1)
        script.append(Page.of(KEYED, {"ts": ts, "k": k, "v": values}).select(allowed))
        now += int(rng.integers(0, 4))
        kind = rng.integers(0, 5)
        some = rng.choice(groups, int(rng.integers(1, groups + 1)), replace=False)
        if kind < 2:
            bound = builtins.max(bound, now - disorder)
            script.append(before("ts", bound))
        elif kind == 2:
            up_to = int(rng.integers(bound, now + 4))
            own[some] = np.maximum(own[some], up_to)
            script.append(Punctuation({"k": OneOf(some.tolist()), "ts": Below(up_to)}))
        elif kind == 3 and rng.random() < 0.3:
            over[some] = True
            script.append(Punctuation({"k": OneOf(some.tolist())}))
    return [*script, END]


def shown(elements: Sequence[Element]) -> list[str]:
    return sorted(map(repr, rows(list(elements))))


@share(1)
@given(
    fixed, st.integers(0, 10**6), st.integers(1, 200), st.integers(0, 5), st.integers(0, 12), st.integers(0, 12),
    st.sampled_from([0, 3]),
)  # fmt: skip
def test_vectors_and_links_agree_step_by_step_whenever_one_becomes_the_other(
    mix: Mix, seed: int, groups: int, disorder: int, saved: int, changed: int, lateness: int
) -> None:
    ours, theirs = (
        SlicingAggregate(mix, NUMBERS, ("k",), lateness=lateness, named=True)  # type: ignore[arg-type]
        for _ in range(2)
    )
    for place, element in enumerate(grouped_stream(seed, groups, 6, disorder=disorder)):
        if lateness and isinstance(element, Punctuation) and "k" in element.patterns:
            continue
        if place == saved:
            restored = SlicingAggregate(mix, NUMBERS, ("k",), lateness=lateness, named=True)  # type: ignore[arg-type]
            restored.restore(decode_state(encode_state(ours.state())))
            ours = restored
        if place == changed:
            ours._link()
        theirs._link()
        found: list[list[Element]] = [[], []]
        for slicing, out in zip((ours, theirs), found, strict=True):
            deliver(slicing, element, out.append)
        assert shown(found[0]) == shown(found[1])
        told = ours.statistics(), theirs.statistics()
        for name in ("slices", "groups", "late", "in_no_window", "late_for_some", "results"):
            assert told[0][name] == told[1][name], name
    assert ours.statistics()["state_bytes"] == 0


@pytest.mark.parametrize("spare", [0, 10**9])
def test_groups_in_few_slices_become_slices_of_their_own(spare: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "SMALL", spare)
    rng = np.random.default_rng(5)
    windows = {"w": SlidingWindow("ts", size=20, slide=1)}
    slicing = SlicingAggregate(windows, {"n": count(), "total": sum("v")}, ("k",))
    k = rng.integers(0, 600, 2_000)
    page = Page.of(KEYED, {"ts": np.arange(2_000) // 20, "k": k, "v": k})
    drive(slicing, [page.slice(at, at + 100) for at in range(0, 2_000, 100)])
    assert vectored(slicing) == (spare > 0)
    if spare == 0:
        assert slicing.statistics()["state_bytes"] < 150 * 2_000
    found = rows(drive(slicing, [before("ts", 50), END]))
    assert builtins.sum(int(row["n"]) for row in found) == 2_000 * 20  # type: ignore[arg-type]


def test_groups_in_most_slices_take_little_more_than_their_aggregates() -> None:
    windows = {f"w{i}": tumbling("ts", i) for i in range(1, 21)}
    slicing = SlicingAggregate(windows, {"n": count(), "total": sum("v")}, ("k",))
    keys = np.arange(2_000)
    for ts in range(24):
        page = Page.of(KEYED, {"ts": np.full(2_000, ts), "k": keys, "v": keys})
        drive(slicing, [page, before("ts", ts)])
    assert vectored(slicing)
    told = slicing.statistics()
    # Sum and count are 8 bytes each, results in the making are two slices more at most, and there is room to grow.
    assert told["peak_state_bytes"] < 1.2 * 16 * (told["peak_state_tuples"] + 4_000) + 60 * 2_000
    drive(slicing, [END])
    assert slicing.statistics()["results"] == 2_000 * builtins.sum(-(-24 // i) for i in range(1, 21))


def test_vectors_are_for_edges_that_all_groups_share_and_for_aggregates_without_order() -> None:
    page = Page.of(KEYED, {"ts": [1], "k": [1], "v": [1]})
    session, ten = SessionWindow("ts", gap=3), tumbling("ts", 10)
    for windows, functions, by, wanted in (
        ({"a": ten}, {"n": count()}, ("k",), True),
        ({"a": ten}, {"n": count()}, (), False),
        ({"a": ten, "s": session}, {"n": count()}, ("k",), False),
        ({"a": ten}, {"n": last("v")}, ("k",), False),
    ):
        slicing = SlicingAggregate(windows, functions, by, named=True)  # type: ignore[arg-type]
        drive(slicing, [page])
        assert vectored(slicing) == wanted
    slicing = SlicingAggregate({"a": ten}, {"n": count()}, ("k",), named=True)
    drive(slicing, [page])
    slicing.add("b", tumbling("ts", 5))
    assert vectored(slicing)
    slicing.add("s", session)
    assert not vectored(slicing)
    drive(slicing, [Page.of(KEYED, {"ts": [7, 8], "k": [1, 1], "v": [1, 1]})])
    found = {(row["window"], row["wid"]): row["n"] for row in rows(drive(slicing, [END]))}
    assert found == {("a", 0): 3, ("b", 1): 2, ("s", 7): 2}


def test_the_functions_of_the_mixes_are_answered_from_vectors() -> None:
    slicing = operator({"w": tumbling("ts", 3)}, ("k",))
    drive(slicing, [Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})])
    assert vectored(slicing) and set(FUNCTIONS) == {"n", "total", "most", "least", "kinds"}
