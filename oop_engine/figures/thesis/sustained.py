"""Fig 8-7 and Table 8-1 on this machine: rates from a ring that another process fills, and shares of a core at them."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from oop_engine.api.in_memory import arrow
from oop_engine.api.stream import Stream
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, cores, run
from oop_engine.figures.thesis.low_level import IOP, OOP, SLOW, TABLES
from oop_engine.plan.strategies import strategy
from oop_engine.processes.capacity import Capacity, CapacityTrial, capacity
from oop_engine.processes.load import Pool
from operators.functions import count

ROOM: Final = 2 << 20
"""Bytes of the ring: some 30,000 packets."""
WINDOW: Final = "250 ms"
FLUSHES: Final = {
    IOP: {"flush": "in_order", "every": 1},
    SLOW: {"flush": "slow", "every": 160, "delay": 2},
    OOP: {"flush": "lazy", "delay": 2},
}
"""When old groups leave the table: one a tuple, one every 160 tuples, or when their place is needed."""
PROCESSES: Final = 3
"""The sender, the low level, the high level."""


def counted(name: str, places: int, packets: Stream) -> Stream:
    """Count the packets of each source, with a flush and so many places in the table."""
    how = strategy("two_level", size=places, **FLUSHES[name])
    return packets.window(range=WINDOW).aggregate(count(), by="srcIP", strategy=how)


def at_rate(found: Capacity) -> CapacityTrial:
    """Return the last turn at the rate that was found; the slowest one where each lost something."""
    asked = found.rate or min(trial.asked for trial in found.trials)
    return [trial for trial in found.trials if trial.asked == asked][-1]


def measure(size: Size) -> Measured:
    """Search the rate of each flush and table with the sender of `oop-engine capacity`, by groups."""
    seconds, step = size.of(tiny=0.1, small=0.5, paper=2.0), size.of(tiny=50_000, small=50_000, paper=5_000)
    start, most = size.of(tiny=50_000, small=400_000, paper=400_000), size.of(tiny=50_000, small=1 << 23, paper=1 << 26)
    few, *more = size.of(tiny=(100, 200), small=(1_000, 66_000), paper=(1_000, 66_000, 130_000, 260_000, 520_000))
    points = [(name, "2", few) for name in FLUSHES]
    for groups in more:
        tables = size.of(tiny=["2"], small=["2"], paper=["1/2", "1"])
        points += [(name, table, groups) for name in FLUSHES for table in dict.fromkeys((*tables, "2"))]
        points += [(IOP, "1", groups)] * ("1" not in tables)
    check(few)
    rows: list[dict[str, object]] = []
    for name, table, groups in points:
        places = int(TABLES[table] * groups)
        found = capacity(
            partial(counted, name, places), step=step, start=start, most=most, seconds=seconds, groups=groups,
            room=ROOM, two_processes=True,
        )  # fmt: skip
        trial = at_rate(found)
        whole = (trial.seconds + trial.behind) / 100
        rows.append({
            "series": f"{name}, {table}", "groups": groups, "rate": found.rate / 1e6,
            "low": trial.cpu["engine"] / whole, "high": trial.cpu["high level"] / whole,
            "sender": trial.cpu["sender"] / whole, "limit": found.limit, "cores": cores(),
        })  # fmt: skip
    return Measured.of(
        rows,
        f"A count by source in windows of {WINDOW}; each rate for {seconds:g} s, in steps of {step:,} a second, from a"
        f" ring of {ROOM >> 20} MiB. The low level is the process that reads the ring, the high level another one.",
        "The thesis runs Gigascope on a machine of 2008. 1/2, 1 and 2 are the places of the table, in times of the"
        " groups. Processor time of the high level is above what its process takes to begin.",
    )


def check(groups: int) -> None:
    """Compare what each flush counts; PlanError when they differ."""
    page = Pool(groups).page(0, 10**9, 10_000)
    packets = arrow(pa.Table.from_batches([page.batch]))
    agreed({name: run(counted(name, groups, packets)).rows for name in FLUSHES})


def judge(measured: Measured) -> Verdict:
    """Compare the rates where groups are few and many, IOP by table, and CPU at the rate."""
    table = measured.table
    groups = sorted(set(table["groups"].to_pylist()))
    few, many = groups[0], groups[-1]

    def at(name: str, places: str, number: int, column: str = "rate") -> float:
        return measured.along(f"{name}, {places}", "groups", column)[number]

    def times(above: float, below: float) -> float:
        return above / below if below else 0.0

    equal = times(max(at(OOP, "2", few), at(SLOW, "2", few)), at(IOP, "2", few))
    ratio = times(max(at(OOP, "2", many), at(SLOW, "2", many)), at(IOP, "2", many))
    hurt = times(at(IOP, "2", many), at(IOP, "1", many))
    used = at(IOP, "2", many, "low"), max(at(OOP, "2", many, "low"), at(SLOW, "2", many, "low"))
    checks = (
        Check(0.8 <= equal <= 1.25, f"at {few:,} groups OOP takes {equal:.2f} times the rate of IOP: about the same"),
        Check(ratio >= 1.5, f"at {many:,} groups in a table of 2 it takes {ratio:.2f} times the rate of IOP; about 2"),
        Check(hurt < 1, f"at {many:,} groups a table of 2 has {hurt:.2f} times the rate of one of 1 with IOP"),
        Check(
            used[0] < used[1],
            f"IOP stalls: its CPU is {used[0]:.0f} % at the rate it takes, that of OOP {used[1]:.0f} %",
        ),
    )
    had = min(table["cores"].to_pylist())
    if had < PROCESSES:
        why = (
            f"It needs {PROCESSES} cores, one each for the sender, the low level and the high level. They share {had}"
            " here, so a rate says how the cores are shared. 8-7 counts processor time alone."
        )
        return Verdict("not comparable", checks, why=why)
    if not all(table["rate"].to_pylist()):
        return Verdict("not comparable", checks, why="Something was lost at each rate, the lowest that there is too.")
    if any(limit != "query" for limit in table["limit"].to_pylist()):
        return Verdict("not comparable", checks, why="The sender could send no faster in some searches, or was not to.")
    return Verdict.of(
        *checks,
        why="How much OOP gains hangs on the ring: a ring that holds what comes during a stall loses none of it, and"
        " rates then differ by what a tuple costs alone.",
    )


TABLE_8_1: Final = Figure(
    "8-7-ring",
    "thesis",
    "Rate without loss from a ring that another process fills, and shares of a core at it (Fig 8-7, Table 8-1)",
    "With few groups both take the same rate; with many, and a table that holds them, OOP takes about twice that of"
    " IOP. Large tables hurt IOP, whose CPU is low at its rate, since it stalls.",
    Axis("groups", "groups", scale="log"),
    [
        Axis("rate", "M packets/s"),
        Axis("low", "CPU of the low level at that rate, %"),
        Axis("high", "CPU of the high level at that rate, %"),
    ],
    measure,
    judge,
)
