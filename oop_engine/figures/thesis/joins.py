"""Fig 7-5 to 7-7: promises of a join, and what joins hold that keep order and that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from time import process_time
from typing import Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, repeated
from oop_engine.sources.generator import SECOND
from operators.chain import Chain
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver, drive, rows
from operators.functions import count
from operators.join import Band, OAJoin, OPIBJoin, OPOBJoin
from operators.protocol import Element, Operator
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Punctuation, before, below

INDIVIDUAL, JOINT = "individual", "joint"
OA, OPOB, OPIB = "OA-Join", "OPOB-Join", "OPIB-Join"
PROMISES: Final = ((1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4))
"""p1 to p6 in the order of arrival: the input, and the time below which nothing comes."""
GROUP: Final = (0, 1)
_EDGE: Final = 5

Script = list[tuple[int, Element]]


def measure_promises(size: Size) -> Measured:
    """List what a join promises of the times of its results with each promise of its inputs, band of 2."""
    found: list[dict[str, object]] = []
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    ways: dict[str, Literal["individual", "joint"]] = {INDIVIDUAL: "individual", JOINT: "joint"}
    for name, way in ways.items():
        join = OAJoin(Band("ts", "ts", left=2, right=2, closed=True), promises=way)
        join.output_schema(schema, schema)
        seen = [0, 0]
        for number, (port, bound) in enumerate(PROMISES, 1):
            tuples = Page.of(schema, {"ts": list(range(seen[port], bound))})
            seen[port] = bound
            for element in drive(join, [(port, tuples), (port, before("ts", bound))]):
                if isinstance(element, Punctuation):
                    found.append({"series": name, "number": number, **_covered(element, number)})
    said = ", ".join(f"p{n}: S{port}.ts >= {bound}" for n, (port, bound) in enumerate(PROMISES, 1))
    return Measured.of(
        found,
        f"Promises of the inputs from now on: {said}. The band is 2. A point (a, b) says that no result with S0.ts < a"
        " and S1.ts < b is to come; * is any time, drawn at the edge.",
        "The thesis reads promises on S1 inclusively; here they are exclusive and one larger: its (2, 1) is (2, 2).",
    )


def _covered(promise: Punctuation, number: int) -> dict[str, object]:
    """Return the corner of what a promise covers, and whether it completes the group."""
    patterns = dict(promise.patterns)
    left, right = (int(str(below(patterns[name]))) if name in patterns else None for name in ("ts", "right_ts"))
    return {
        "left": _EDGE if left is None else left,
        "right": _EDGE if right is None else right,
        "completes": all(bound is None or bound > at for bound, at in zip((left, right), GROUP, strict=True)),
        "label": f"p{number} ({'*' if left is None else left}, {'*' if right is None else right})",
    }


def judge_promises(measured: Measured) -> Verdict:
    """Find with which promise of the inputs the group of S0.ts = 0 and S1.ts = 1 is complete."""
    rows = [row for row in measured.table.to_pylist() if row["completes"]]
    first = {name: min((r["number"] for r in rows if r["series"] == name), default=0) for name in (INDIVIDUAL, JOINT)}
    return Verdict.of(
        Check(first[JOINT] == 3, f"joint promises complete the group (0, 1) at p{first[JOINT]}"),
        Check(first[INDIVIDUAL] == 5, f"individual promises complete it at p{first[INDIVIDUAL]}"),
    )


@attrs.frozen
class Counted:
    """Hold what one run of Q7-2 did: results, most tuples held, processor seconds, median seconds of a release."""

    results: tuple[tuple[object, ...], ...]
    held: int
    seconds: float
    latency: float


FLOW: Final = ("srcIP", "destIP", "srcPort", "destPort")
LINK: Final = Schema.of(ts=pa.int64(), **dict.fromkeys(FLOW, pa.int64()), progress=["ts"])


def _links(seconds: int, rate: int, flows: int, page: int) -> Script:
    """Make packets of flows on two links, in order and in step, in opposite directions; pages with a promise each."""
    rng = np.random.default_rng(7)
    n, script = seconds * rate, Script()
    ends = rng.integers(0, 1 << 32, (4, flows))
    ts = np.arange(n) * (SECOND // rate)
    drawn = [rng.integers(0, flows, n) for _ in range(2)]
    for at in range(0, n, page):
        for port, order in enumerate(((0, 1, 2, 3), (1, 0, 3, 2))):
            flow = drawn[port][at : at + page]
            columns = {name: ends[number][flow] for name, number in zip(FLOW, order, strict=True)}
            script.append((port, Page.of(LINK, {"ts": ts[at : at + page], **columns})))
            if at + page < n:
                script.append((port, before("ts", int(ts[at + page]))))
    return [*script, (0, END), (1, END)]


def _counted(make: Callable[[OAJoin], Operator], band: int, script: Script) -> Counted:
    """Run Q7-2: join packets of one flow in opposite directions, and count the pairs by the minute."""
    on = list(zip(FLOW, ("destIP", "srcIP", "destPort", "srcPort"), strict=True))
    join = make(OAJoin(Band("ts", "ts", left=band * SECOND, right=band * SECOND), on, attributes=["ts", "right_ts"]))
    window = tumbling("ts", 60 * SECOND)
    behind = Chain([Bucket(window), WindowAggregate(window, {"count": count()})])
    behind.output_schema(join.output_schema(LINK, LINK))
    out: list[Element] = []
    releases: list[float] = []
    begun = process_time()
    for port, element in script:
        known, asked = len(out), process_time()
        deliver(join, element, lambda each: deliver(behind, each, out.append), port)
        if isinstance(element, Punctuation) and not element.is_end and any(isinstance(e, Page) for e in out[known:]):
            releases.append(process_time() - asked)
    seconds = process_time() - begun
    results = tuple(tuple(row.values()) for row in rows(out))
    return Counted(results, join.statistics()["peak_state_tuples"], seconds, median(releases))  # pyright: ignore


def _compared(makers: dict[str, Callable[[OAJoin], Operator]], size: Size, runs: int) -> Measured:
    length, rate = size.of(tiny=75, small=130, paper=400), size.of(tiny=16, small=500, paper=4_000)
    flows = size.of(tiny=100, small=500, paper=2_000)
    script = _links(length, rate, flows, page=size.of(tiny=32, small=rate // 4, paper=rate // 4))
    found: list[dict[str, object]] = []
    for band in size.of(tiny=(1, 9), small=(1, 3, 5, 7, 9), paper=(1, 2, 3, 4, 5, 6, 7, 8, 9)):
        works = {name: partial(_counted, make, band, script) for name, make in makers.items()}
        measured = repeated(works, runs)
        agreed({name: each[0].results for name, each in measured.items()})
        for name, each in measured.items():
            latency, seconds = (median(getattr(one, what) for one in each) for what in ("latency", "seconds"))
            found.append({"series": name, "band": band, "held": each[0].held, "ms": latency * 1e3, "seconds": seconds})
    return Measured.of(
        found,
        f"Q7-2: 2 links of {rate:,} packets a second for {length} s, {flows:,} flows, a promise every quarter second."
        " Latency is the processor time from a promise to the minute that it completes.",
        f"Medians of {runs} alternate runs. The thesis has 4,000 packets a second.",
    )


def measure_output(size: Size) -> Measured:
    """Compare with the join that buffers its output."""
    return _compared(
        {OA: lambda join: join, OPOB: lambda join: OPOBJoin(join)}, size, size.of(tiny=1, small=3, paper=8)
    )


def _ratios(measured: Measured, other: str, column: str) -> list[float]:
    ours, theirs = (measured.along(name, "band", column) for name in (OA, other))
    return [theirs[band] / ours[band] for band in ours]


def _between(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f} times"


def judge_output(measured: Measured) -> Verdict:
    """Compare memory, latency and time at each band."""
    held, latency, time = (_ratios(measured, OPOB, column) for column in ("held", "ms", "seconds"))
    return Verdict.of(
        Check(
            min(held) > 1.5 and max(held) > 3,
            f"OPOB-Join holds {_between(held)} the tuples of OA-Join; 1.5 at each band and 3 at one are far more",
        ),
        Check(min(latency) > 1, f"it takes {_between(latency)} the latency"),
        Check(median(time) > 0.95, f"OA-Join takes no more time: OPOB-Join takes {_between(time)} its time"),
    )


def measure_input(size: Size) -> Measured:
    """Compare with the join that buffers its left input."""
    measured = _compared({OA: lambda join: join, OPIB: lambda join: OPIBJoin(join)}, size, runs=1)
    return attrs.evolve(measured, table=measured.table.select(["series", "band", "held"]))


def judge_input(measured: Measured) -> Verdict:
    """Compare memory at each band."""
    held = _ratios(measured, OPIB, "held")
    return Verdict.of(
        Check(min(held) >= 1, f"OA-Join holds no more at any band: OPIB-Join holds {_between(held)} its tuples"),
    )


BAND: Final = Axis("band", "band, s")
HELD: Final = Axis("held", "tuples held")
FIG_7_5: Final = Figure(
    "7-5",
    "thesis",
    "Individual and joint promises of a join",
    "Joint promises cover boxes, and complete the group of both times (0, 1) at p3; individual promises cover slabs,"
    " and complete it only at p5.",
    Axis("left", "S0.ts"),
    [Axis("right", "S1.ts")],
    measure_promises,
    judge_promises,
    shape="points",
)
FIG_7_6: Final = Figure(
    "7-6",
    "thesis",
    "OA-Join and a join that buffers its output, by band",
    "OA-Join needs far less memory and has far less latency than a join that keeps order by buffering its output, and"
    " takes no more time.",
    BAND,
    [HELD, Axis("ms", "latency, ms", scale="log"), Axis("seconds", "processor time, s")],
    measure_output,
    judge_output,
)
FIG_7_7: Final = Figure(
    "7-7",
    "thesis",
    "OA-Join and a join that buffers its input, by band",
    "OA-Join needs slightly less memory at every band than a join that keeps order by buffering its left input.",
    BAND,
    [HELD],
    measure_input,
    judge_input,
)
