"""Fig 6-8 and 6-9: two kinds of disorder, as the generator makes them."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.sources.generator import SECOND, START

BAND: Final = 3.2
"""Seconds by which a packet arrives late at most (the data set of Fig 6-11)."""
BLOCK: Final = 60.0
"""Seconds after which a router writes all its flow records."""


def _flows(size: Size, kind: oop.Band | oop.Blocks, rate: float) -> tuple[pa.Table, str]:
    """Return start and arrival of flows in seconds, and the shape of disorder that the engine sees in them."""
    n = size.of(tiny=300, small=3_000, paper=6_000)
    stream = oop.packets(n, rate=rate, disorder=kind, arrival_ts=True)
    flows = stream.to_arrow()
    seconds = {name: (flows[name].cast(pa.int64()).to_numpy() - START) / SECOND for name in ("ts", "arrival_ts")}
    found = oop.disorder(stream, on="ts", samples=0).of("ts")
    table = {"series": ["flows"] * n, "start": seconds["ts"], "arrival": seconds["arrival_ts"], "position": range(n)}
    return pa.table(table), found.shaped.shape


def measure_band(size: Size) -> Measured:
    """Draw flows whose later packets are delayed by up to the band."""
    table, shape = _flows(size, oop.Band(round(BAND * SECOND)), rate=size.of(tiny=30.0, small=200.0, paper=500.0))
    return Measured(table.select(["series", "start", "arrival"]), [f"oop.disorder finds: {shape}."])


def judge_band(measured: Measured) -> Verdict:
    """Look for a line, a band above it that is full, and nothing outside it."""
    start, arrival = (measured.table[name].to_numpy() for name in ("start", "arrival"))
    delay, line = arrival - start, float(np.corrcoef(start, arrival)[0, 1])
    low, high = float(delay.min()), float(delay.max())
    return Verdict.of(
        Check(line > 0.95, f"start and later packet lie on a line: correlation {line:.4f}, at least 0.95"),
        Check(low >= 0 and high <= BAND, f"all delays are in the band of {BAND} s: {low:.2f} to {high:.2f} s"),
        Check(high - low > 0.8 * BAND, f"the band is full: delays spread over {high - low:.2f} s, over 80 % of it"),
    )


def measure_blocks(size: Size) -> Measured:
    """Draw the records of a router that writes all it has each minute."""
    table, shape = _flows(size, oop.Blocks(round(BLOCK * SECOND)), rate=size.of(tiny=1.0, small=10.0, paper=20.0))
    return Measured(table.select(["series", "position", "start"]), [f"oop.disorder finds: {shape}."])


def judge_blocks(measured: Measured) -> Verdict:
    """Look for blocks of time one after the other, without order inside."""
    start = measured.table["start"].to_numpy()
    blocks = [part for part in np.split(start, np.flatnonzero(np.diff(start // BLOCK)) + 1) if len(part) > 1]
    disjoint = all(a.max() < b.min() for a, b in pairwise(blocks))
    down = float(np.concatenate([np.diff(block) < 0 for block in blocks]).mean())
    return Verdict.of(
        Check(len(blocks) > 2 and disjoint, f"{len(blocks)} blocks of {BLOCK:.0f} s follow one another, none overlaps"),
        Check(0.4 < down < 0.6, f"inside a block there is no order: {down:.0%} of steps go back, half if shuffled"),
    )


FIG_6_8: Final = Figure(
    "6-8",
    "thesis",
    "Band disorder",
    "The time of a later packet of a flow over the start of the flow is a line that network delays widen to a band.",
    Axis("start", "start of the flow, s"),
    [Axis("arrival", "time of a later packet, s")],
    measure_band,
    judge_band,
    shape="points",
)
FIG_6_9: Final = Figure(
    "6-9",
    "thesis",
    "Block-sorted disorder",
    "Records of a router come in ascending disjoint blocks of time, each shuffled, since it writes all it has each"
    " minute.",
    Axis("position", "position of arrival"),
    [Axis("start", "start of the flow, s")],
    measure_blocks,
    judge_blocks,
    shape="points",
)
