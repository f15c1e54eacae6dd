"""Fig 23: what concurrent windows cost in systems that have no slices to share, beside one window of slicing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.figures.figure import Axis, Check, Figure, Measured, Size, Verdict
from oop_engine.figures.measuring import agreed, alternate, timed
from oop_engine.figures.scotty.workload import RATE, SECOND, concurrent

SLICING, APART, POLARS, DUCKDB = "slicing", "a query for each window", "Polars", "DuckDB"
Sums: TypeAlias = list[tuple[int, int]]
"""The length and the total of each window with a tuple, sorted."""


def by_slicing(table: pa.Table, sizes: list[int]) -> Sums:
    """Sum all windows in one query of oop-engine, which shares their slices."""
    windows = {f"w{number}": oop.tumbling(size) for number, size in enumerate(sizes)}
    stream = oop.arrow(table, punctuate=oop.ordered("ts")).windows(windows)
    return _sums(stream.aggregate(total=oop.sum("v")).run().table)


def apart(table: pa.Table, sizes: list[int]) -> Sums:
    """Sum each window in a query of its own of oop-engine, a bucket for each window."""
    found: Sums = []
    for size in sizes:
        windows = oop.arrow(table, punctuate=oop.ordered("ts")).window(range=size, wattr="ts")
        found += _sums(windows.aggregate(total=oop.sum("v"), strategy="wid").run().table)
    return sorted(found)


def by_polars(table: pa.Table, sizes: list[int]) -> Sums:
    """Sum each window by Polars' windows of a sorted column."""
    # Optional: the figure is drawn without Polars, too.
    import polars as pl

    frame, found = pl.from_arrow(table), list[tuple[int, int]]()
    assert isinstance(frame, pl.DataFrame)
    for size in sizes:
        totals = frame.group_by_dynamic("ts", every=f"{size}i").agg(pl.col("v").sum())["v"]
        found += [(size, total) for total in totals.to_list()]
    return sorted(found)


def by_duckdb(table: pa.Table, sizes: list[int]) -> Sums:
    """Sum each window by a GROUP BY of DuckDB."""
    # Optional: the figure is drawn without DuckDB, too.
    import duckdb

    connection, found = duckdb.connect(config={"threads": 1}), list[tuple[int, int]]()
    connection.register("tuples", table)
    for size in sizes:
        rows = connection.execute("SELECT sum(v) FROM tuples GROUP BY ts // ?", [size]).fetchall()
        found += [(size, int(total)) for (total,) in rows]
    return sorted(found)


def _sums(table: pa.Table) -> Sums:
    columns = (table[name].cast(pa.int64()).to_numpy() for name in ("window_start", "window_end", "total"))
    starts, ends, totals = columns
    return sorted(zip((ends - starts).tolist(), totals.tolist(), strict=True))


def measure(size: Size) -> Measured:
    """Time each system that is installed by concurrent windows, in percent of slicing with one window."""
    n, runs = size.of(tiny=4_000, small=40_000, paper=2_000_000), size.of(tiny=1, small=3, paper=7)
    systems: dict[str, Callable[[pa.Table, list[int]], Sums]] = {SLICING: by_slicing, APART: apart}
    systems |= {POLARS: by_polars} if find_spec("polars") else {}
    systems |= {DUCKDB: by_duckdb} if find_spec("duckdb") else {}
    values = np.random.default_rng(1).integers(1, 1_000, n)
    table = pa.table({"ts": np.arange(n) * (SECOND // RATE), "v": values})
    rows: list[dict[str, object]] = []
    whole = 0.0
    for count in size.of(tiny=[1, 5], small=[1, 10, 50], paper=[1, 10, 50, 100, 500, 1_000]):
        sizes = [window.size for window in concurrent(count).values()]
        agreed({name: system(table, sizes) for name, system in systems.items()})
        works: Mapping[str, Callable[[], float]] = {
            name: partial(timed, partial(system, table, sizes)) for name, system in systems.items()
        }
        first = {name: partial(timed, partial(system, table.slice(0, 1), sizes)) for name, system in systems.items()}
        spent, start = alternate(works, runs), alternate(first, runs)
        whole = whole or spent[SLICING]
        for name, seconds in spent.items():
            row = {"percent": whole / seconds * 100, "start": start[name] / seconds * 100}
            rows.append({"series": name, "windows": count, **row})
    return Measured.of(
        rows,
        f"{n:,} tuples in order, {RATE:,} a second of event time; processor time of a thread, medians of {runs} runs.",
        "Polars and DuckDB stand where the paper has stream systems on the JVM. They get the whole stream at once, and"
        " keep no state and no promises. `start` is the time of a run over one tuple, in percent of the whole run.",
    )


def judge(measured: Measured) -> Verdict:
    """See that no other system is faster with one window, and that each is slower with many, and falls."""
    by = {name: measured.along(name, "windows", "percent") for name in measured.series}
    own = by.pop(SLICING)
    least, most, starts = min(own), max(own), measured.along(SLICING, "windows", "start")
    checks: list[Check] = []
    for name, rates in by.items():
        one = f"{name}: {rates[least]:.0f} % of slicing with {least:g} window; up to 110 % is about equal"
        checks.append(Check(rates[least] <= 110, one))
        many = f"{name}: {rates[most]:.1f} % with {most:g} windows, where slicing has {own[most]:.1f} %"
        checks.append(Check(rates[most] < own[most] and rates[most] < rates[least], many))
    return Verdict.of(
        *checks,
        why=f"With {least:g} window a run of slicing over one tuple takes {starts[least]:.0f} % of the time of the"
        f" whole run; with {most:g} windows {starts[most]:.0f} %. That is planning the query, making its operators, and"
        " starting and ending the tasks that run it. Polars and DuckDB aggregate a whole table at once, without"
        " any of that.",
    )


FIG_23: Final = Figure(
    "scotty-23",
    "scotty",
    "Systems by concurrent windows, in percent of one window",
    "Systems without slices are at best as fast with one window, and fall further behind with each more.",
    Axis("windows", "concurrent windows", scale="log"),
    [Axis("percent", "throughput, % of slicing with one window", scale="log")],
    measure,
    judge,
)
