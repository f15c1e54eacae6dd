"""Windows of groups that are combined ahead are those that are combined on demand, from far fewer vectors."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Int32s, Page
from operators.data.schema import Schema
from operators.drive import drive, rows
from operators.functions import count, count_distinct, max, sum
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.stores.slices import SlicingAggregate
from operators.window_aggregate.stores.slices.vectors import Vectors
from punctuation import END, Equals, Punctuation, before
from tests.examples import share

SCHEMA = Schema.of(ts=pa.int64(), k=pa.int64(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
STORES: tuple[Literal["lazy"], Literal["eager"]] = "lazy", "eager"
FUNCTIONS = {"n": count(), "total": sum("v"), "most": max("v"), "kinds": count_distinct("v")}


def made(store: Literal["lazy", "eager"], size: int, slide: int) -> SlicingAggregate:
    windows = {"long": SlidingWindow("ts", size=size, slide=slide), "short": SlidingWindow("ts", size=5, slide=2)}
    return SlicingAggregate(windows, FUNCTIONS, ("k",), store=store)


def elements(seed: int, groups: int) -> list[Element]:
    """Return pages whose tuples are up to 40 late, promises of less, and ends of single groups."""
    luck, made = np.random.default_rng(seed), list[Element]()
    for step in range(30):
        ticks = 10 * step + luck.integers(-40, 10, 25)
        # More groups come later.
        keys = luck.integers(0, 1 + groups * (step + 1) // 30, 25)
        made.append(Page.of(SCHEMA, {"ts": ticks, "k": keys, "v": luck.integers(0, 9, 25)}))
        made.append(before("ts", 10 * step - int(luck.integers(10, 45))))
        if step % 7 == 6:
            made.append(Punctuation({"k": Equals(int(luck.integers(0, groups)))}))
    return [*made, END]


@share(0.2)
@given(st.integers(0, 10**6), st.sampled_from([3, 200]), st.sampled_from([(64, 1), (100, 7), (33, 33)]))
def test_results_are_those_of_the_lazy_store(seed: int, groups: int, window: tuple[int, int]) -> None:
    found: list[list[tuple[object, ...]]] = []
    for store in STORES:
        operator = made(store, *window)
        found.append([tuple(row.values()) for row in rows(drive(operator, elements(seed, groups)))])
        told = operator.statistics()
        assert told["slices"] == told["groups"] == told["state_tuples"] == 0
    assert sorted(found[0]) == sorted(found[1])


def test_slices_are_counted_and_nodes_are_bytes() -> None:
    held: dict[str, dict[str, int]] = {}
    for store in STORES:
        operator = made(store, 64, 1)
        drive(operator, [Page.of(SCHEMA, {"ts": range(100), "k": [1] * 100, "v": [1] * 100}), before("ts", 90)])
        held[store] = operator.statistics()
    assert held["eager"]["slices"] == held["lazy"]["slices"] > 60
    assert held["eager"]["state_bytes"] > held["lazy"]["state_bytes"]


@pytest.mark.parametrize("slices", [64, 512])
def test_a_release_combines_few_vectors_however_long_windows_are(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the order of Fig 16 of the paper in counts: the eager store releases from fewer parts than the lazy one."""
    combined: list[int] = []
    pour = Vectors.pour_table

    def counting(vectors: Vectors, table: Int32s, slots: Int32s, target: Int32s) -> None:
        combined.append(len(slots))
        pour(vectors, table, slots, target)

    ticks, counts = np.repeat(np.arange(slices + 40), 20), dict[str, int]()
    page = Page.of(SCHEMA, {"ts": ticks, "k": np.arange(len(ticks)) % 2_000, "v": ticks})
    for store in STORES:
        operator = SlicingAggregate(
            {"w": SlidingWindow("ts", size=slices, slide=1)}, {"n": count()}, ("k",), store=store
        )  # fmt: skip
        drive(operator, [page, before("ts", slices)])
        with monkeypatch.context() as patched:
            patched.setattr(Vectors, "pour_table", counting)
            combined.clear()
            for bound in range(slices + 1, slices + 33):
                drive(operator, [before("ts", bound)])
        counts[store] = np.sum(combined)
    # At most 2 log2 of the slices of a window for its result, and two for each of the nodes of 32 slices.
    assert counts["eager"] <= 32 * (2 * int(np.log2(slices)) + 2)
    assert counts["lazy"] >= 32 * (slices - 1)
