"""Fig 8-7 and Table 8-1: the rate that a table of fixed size takes from a ring without loss, in order and out of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, repeated
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver, drive
from operators.functions import count
from operators.protocol import Element
from operators.window import SlidingWindow, tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.partial_final import (
    Flush,
    HighAggregate,
    InOrderFlush,
    LazyFlush,
    LowAggregate,
    SlowFlush,
)
from punctuation import END, before

READ: Final = 8192
"""Tuples that the low level reads from the ring at a time."""
RING: Final = 1 << 15
WINDOWS: Final = 4
SCHEMA: Final = Schema.of(ts="int64", srcIP="uint32", destIP="uint32", progress=["ts"])
IOP, SLOW, OOP = "IOP", "OOP (sf)", "OOP"
TABLES: Final = {"1/2": 0.5, "1": 1.0, "2": 2.0}
"""Places of the table, in times of the groups."""


def flushes() -> dict[str, Flush]:
    """Return when old groups leave the table: one a tuple, one every 160 tuples, or when their place is needed."""
    return {IOP: InOrderFlush(every=1), SLOW: SlowFlush(every=160, delay=2), OOP: LazyFlush(delay=2)}


@attrs.frozen
class Reads:
    """Hold what one low level did.

    - `seconds`: processor time of each read.
    - `partials`: partial aggregates that left the table.
    - `state_bytes`: what it holds.
    - `total`: the tuples that the high level counted of them; None if it did not run.
    """

    seconds: npt.NDArray[np.float64]
    partials: int
    state_bytes: int
    total: int | None

    @property
    def stall(self) -> float:
        """Return the longest time between two reads."""
        return float(self.seconds.max())

    def lost(self, rate: float, ring: int) -> bool:
        """Return whether a ring that fills at a rate overflows, each read waiting until all its tuples are there."""
        at, filled = 0.0, np.arange(1, len(self.seconds) + 1) * READ / rate
        for read, ready in enumerate(filled.tolist()):
            # Until the read is over its tuples stay where they are.
            at = max(at, ready) + float(self.seconds[read])
            if at * rate - read * READ > ring:
                return True
        return False

    def rate(self, ring: int) -> float:
        """Raise the rate by 1 % until a tuple is lost; return the last rate at which none was."""
        rate = 1e4
        while not self.lost(rate * 1.01, ring) and rate < 1e9:
            rate *= 1.01
        return rate


def tagged(groups: int, each: int, window: SlidingWindow) -> list[Element]:
    """Draw packets of so many pairs of addresses, as a bucket hands them on; `each` in a window."""
    rng = np.random.default_rng(7)
    pairs = rng.integers(0, 2**32, (2, groups), dtype=np.uint32)
    bucket, elements = Bucket(window), list[Element]()
    for at in range(0, WINDOWS * each, READ):
        picked = rng.integers(0, groups, READ)
        columns = {"ts": np.arange(at, at + READ), "srcIP": pairs[0, picked], "destIP": pairs[1, picked]}
        # An ordered stream promises what it has reached at every read.
        bucket.punctuate(before("ts", at), elements.append)
        bucket.process(Page.of(SCHEMA, columns), elements.append)
    return elements


def reads(elements: list[Element], places: int, flush: Flush, window: SlidingWindow, *, check: bool = False) -> Reads:
    """Run the low level; with `check`, the high level too, on what it gave."""
    low = LowAggregate({"n": count()}, ("srcIP", "destIP"), size=places, flush=flush)
    out, seconds, spent = list[Element](), list[float](), 0.0

    def emit(element: Element) -> None:
        if isinstance(element, Page):
            # As to another process.
            element.batch.serialize()
        if check:
            out.append(element)

    for element in elements:
        begun = process_time()
        deliver(low, element, emit)
        spent += process_time() - begun
        if isinstance(element, Page):
            seconds.append(spent)
            spent = 0.0
    held = low.statistics()["state_bytes"]
    low.punctuate(END, emit)
    total = None
    if check:
        results = drive(HighAggregate(window, {"n": count()}, ("srcIP", "destIP")), out)
        total = sum(int(page["n"].sum()) for page in results if isinstance(page, Page))
    return Reads(np.array(seconds), low.statistics()["partials"], held, total)


def least(runs: list[Reads]) -> Reads:
    """Return the runs as one, of the least time of each read: what else the machine does drops no tuples."""
    return attrs.evolve(runs[0], seconds=np.minimum.reduce([run.seconds for run in runs]))


def measure(size: Size) -> Measured:
    """Search the rate of each flush and table (Q8-1), by groups."""
    each, runs = size.of(tiny=4, small=4, paper=16), size.of(tiny=1, small=2, paper=5)
    rows: list[dict[str, object]] = []
    for groups in size.of(tiny=(2_000, 4_000), small=(66_000, 260_000), paper=(66_000, 130_000, 260_000, 520_000)):
        window = tumbling("ts", groups * each)
        elements = tagged(groups, groups * each, window)
        n = sum(len(page) for page in elements if isinstance(page, Page))
        for table, times in TABLES.items():
            works: dict[str, Callable[[], Reads]] = {
                name: partial(reads, elements, int(groups * times), flush, window) for name, flush in flushes().items()
            }
            checked = {
                name: reads(elements, int(groups * times), flush, window, check=True).total
                for name, flush in flushes().items()
            }
            agreed({"tuples": n, **checked})
            for name, found in repeated(works, runs).items():
                once = least(found)
                rate = once.rate(RING)
                rows.append({
                    "series": f"{name}, {table}", "groups": groups, "rate": rate / 1e6,
                    "cpu": 100 * rate * float(once.seconds.sum()) / n, "stall_ms": 1e3 * once.stall,
                })  # fmt: skip
    return Measured.of(
        rows,
        f"Q8-1: a count by pair of addresses, {WINDOWS} windows of {each} tuples a group; {READ:,} tuples a read from a"
        f" ring of {RING:,}. Processor time of each read, the least of {runs} runs; rates are raised by 1 % until the"
        " ring would lose a tuple. CPU is the share of time at work at that rate.",
        "The thesis runs Gigascope, whose ring and packet sizes it does not give, on a machine of 2008. 1/2, 1 and 2"
        " are the places of the table, in times of the groups.",
    )


def judge(measured: Measured) -> Verdict:
    """Compare the rates where groups are few and many, IOP by table, and CPU at the rate."""
    groups = sorted(set(measured.table["groups"].to_pylist()))
    few, many = groups[0], groups[-1]

    def at(name: str, table: str, number: int, column: str = "rate") -> float:
        return measured.along(f"{name}, {table}", "groups", column)[number]

    best = {name: max(at(name, table, few) for table in TABLES) for name in (IOP, SLOW, OOP)}
    equal = max(best[OOP], best[SLOW]) / best[IOP]
    ratio = max(at(OOP, "2", many), at(SLOW, "2", many)) / at(IOP, "2", many)
    hurt = at(IOP, "2", many) / at(IOP, "1", many)
    cpu = at(IOP, "2", many, "cpu"), max(at(OOP, "2", many, "cpu"), at(SLOW, "2", many, "cpu"))
    return Verdict.of(
        Check(0.8 <= equal <= 1.25, f"at {few:,} groups OOP takes {equal:.2f} times the rate of IOP: about the same"),
        Check(ratio >= 1.5, f"at {many:,} groups in a table of 2 it takes {ratio:.2f} times the rate of IOP; about 2"),
        Check(hurt < 1, f"at {many:,} groups a table of 2 has {hurt:.2f} times the rate of one of 1 with IOP"),
        Check(
            cpu[0] < cpu[1], f"IOP stalls: its CPU is {cpu[0]:.0f} % at the rate it takes, that of OOP {cpu[1]:.0f} %"
        ),
        why="How much OOP gains hangs on the ring: a ring that holds what comes during a stall loses none of it, and"
        " rates then differ by what a tuple costs alone.",
    )


FIG_8_7: Final = Figure(
    "8-7",
    "thesis",
    "Rate without loss of IOP and OOP, by groups and size of the table (and Table 8-1)",
    "With few groups both take the same rate; with many, and a table that holds them, OOP takes about twice that of"
    " IOP. Large tables hurt IOP, whose CPU is low at its rate, since it stalls.",
    Axis("groups", "groups", scale="log"),
    [Axis("rate", "M tuples/s"), Axis("cpu", "CPU at that rate, %")],
    measure,
    judge,
)
