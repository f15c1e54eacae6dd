"""What an operator holds never exceeds what it says it held at most, at whatever moment it is asked."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.api.windowing import WindowOf
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from punctuation import Below, Equals, Punctuation, before
from tests.examples import mostly_slow

SCHEMA = oop.Schema.of(ts=pa.int64(), k=pa.int64(), x=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS = {"n": oop.count(), "total": oop.sum("x"), "middle": oop.median("x")}
STRATEGIES = (
    "auto", "wid", "panes", "differential", "two_stacks", "slicing", "adaptive", "adaptive_panes", "buffer",
    "buffer_panes", "negative", "two_level",
)  # fmt: skip


def elements(seed: int) -> Stream:
    """Keys that come and go, out of order, with promises on all and on single ones."""
    drawn = random.Random(seed)
    found: list[object] = []
    for block in range(12):
        rows = [
            [20 * block + drawn.randint(-6, 19), 3 * block + drawn.randint(0, 3), drawn.randint(0, 9)]
            for _ in range(drawn.choice((3, 30, 90)))
        ]
        found.append(Page.of_rows(SCHEMA, rows))
        if block % 3 == 2:
            found.append(before("ts", 20 * block + 14))
        else:
            found.append(Punctuation({"k": Equals(3 * block), "ts": Below(20 * block + 14)}))
    return oop.pages(found, SCHEMA)  # type: ignore[arg-type]


def ranked(window: WindowOf, by: str | tuple[str, ...] = (), partition: str = "") -> Callable[[Stream], Stream]:
    return lambda s: s.window(window, partition=partition or ()).aggregate(**FUNCTIONS, by=by)


QUERIES: dict[str, Callable[[Stream], Stream]] = {
    **{
        strategy: lambda s, strategy=strategy: s.window(30, slide=10).aggregate(
            **(FUNCTIONS if strategy != "two_level" else {"n": oop.count()}), by="k", strategy=strategy
        )
        for strategy in STRATEGIES
    },
    **{
        f"{strategy}, no groups": lambda s, strategy=strategy: s.window(30, slide=10).aggregate(
            **FUNCTIONS, strategy=strategy
        )
        for strategy in ("auto", "slicing", "buffer", "adaptive")
    },
    "stacks": lambda s: (
        s.reorder(slack=40).window(30, slide=10).aggregate(n=oop.count(), most=oop.max("x"), strategy="stacks")
    ),
    "eager": lambda s: s.window(30, slide=10).aggregate(
        n=oop.count(), strategy=oop.strategy("slicing", store="eager")
    ),
    "sessions": lambda s: s.window(oop.session(2)).aggregate(**FUNCTIONS, by="k"),
    "first": lambda s: s.window(30, slide=10).aggregate(oop.first("x"), by="k", strategy="slicing"),
    "landmark": lambda s: s.window("ALL", slide=20).aggregate(**FUNCTIONS, by="k"),
    "counted": ranked(oop.counted(7, slide=3)),
    "counted by partition": ranked(oop.counted(7), "k", "k"),
    "counted, groups": ranked(oop.counted(7), "k"),
    "latest": ranked(oop.latest(5, every=10)),
    "latest by partition": ranked(oop.latest(5, every=10), "k", "k"),
    "latest, not idle": ranked(oop.latest(5, every=10, idle=False), "k", "k"),
    "slide by tuple": ranked(oop.slide_by_tuple(12), "k", "k"),
    "slide by rank": ranked(oop.slide_by_rank(12, 3), "k", "k"),
    "slide by rows": ranked(oop.slide_by_rows(12, 3), "k", "k"),
    "groups": lambda s: s.aggregate(**FUNCTIONS, by=("k", "ts")),
    "distinct": lambda s: s.distinct("k", "ts"),
    "join": lambda s: s.join(s, "k", range=5),
    "tumbling join": lambda s: s.join(s, "k", tumbling=20),
    "sorted": lambda s: s.reorder(slack=3),
}  # fmt: skip


def checked(circuit: Circuit) -> None:
    for found in circuit.statistics():
        for what in ("state_tuples", "state_bytes"):
            if f"peak_{what}" in found.details:
                assert found.details[what] <= found.details[f"peak_{what}"], (found.label, what, found.details)


@pytest.mark.parametrize("name", mostly_slow(QUERIES, every=3))
def test_no_state_is_larger_than_its_peak(name: str) -> None:
    for seed in range(3):
        run = Run(Plan((QUERIES[name](elements(seed)).node,)), 25)
        seen: dict[tuple[int, str], int] = {}
        for _ in run:
            checked(run.circuit)
            for i, found in enumerate(run.circuit.statistics()):
                for what in ("peak_state_tuples", "peak_state_bytes"):
                    if what in found.details:
                        # What was told to be the peak is so for ever.
                        assert found.details[what] >= seen.get((i, what), 0), (found.label, what)
                        seen[i, what] = found.details[what]
        checked(run.circuit)
        assert any(peak > 0 for peak in seen.values())


@pytest.mark.parametrize(
    "name", [*sorted({*STRATEGIES} - {"two_level"}), "eager", "sessions", "counted", "latest", "slide by tuple"]
)
def test_window_aggregates_tell_tuples_and_bytes_and_the_peaks_of_both(name: str) -> None:
    run = Run(Plan((QUERIES[name](elements(0)).node,)), 25)
    for _ in run:
        pass
    held = [o.details for o in run.circuit.statistics() if o.details.get("peak_state_tuples")]
    assert held
    for details in held:
        assert details["state_tuples"] == 0
        assert details["peak_state_bytes"] > 0
