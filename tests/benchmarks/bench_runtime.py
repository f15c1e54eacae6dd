"""What a page costs on its way through the runtime: one inbox, five, threads or none; medians of runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import trio

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.runtime import run_plan
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

SCHEMA = Schema(pa.schema([("ts", pa.int64()), ("x", pa.int64())]), progress=["ts"])
PAGES = 5_000
TUPLES = 1


def source(pages: Sequence[Page]) -> Stream:
    return oop.pages(iter(pages), SCHEMA)


def made(tuples: int, pages: int) -> list[Page]:
    columns = {"ts": list(range(tuples)), "x": [0] * tuples}
    page = Page.of(SCHEMA, columns)
    return [page] * pages


def direct(stream: Stream) -> float:
    started = time.perf_counter()
    for _ in Run(Plan((stream.node,))):
        pass
    return time.perf_counter() - started


def live(stream: Stream, *, waiting: bool = False) -> float:
    def take(element: Element) -> None:
        """Do nothing with it."""

    async def main() -> float:
        started = time.perf_counter()
        await run_plan(Plan((stream.node,)), [take], waiting=waiting)
        return time.perf_counter() - started

    return trio.run(main)


def median(run: Callable[[], float], times: int = 5) -> float:
    return statistics.median(run() for _ in range(times))


def main() -> None:
    pages = made(TUPLES, PAGES)
    halves = pages[: PAGES // 2]

    def chain(inboxes: int) -> Stream:
        """Make as many melds of one live and one ended stream in a row: each has an inbox."""
        stream = source(pages)
        for _ in range(inboxes):
            stream = oop.meld(stream, source([]))
        return stream

    cost = {n: median(lambda n=n: live(chain(n))) for n in (0, 1, 5)}
    per_inbox = (cost[5] - cost[1]) / 4 / PAGES
    rows = [
        ("synchronous driver, no inbox", median(lambda: direct(source(pages)))),
        ("synchronous driver, meld of 2", median(lambda: direct(oop.meld(source(halves), source(halves))))),
        ("trio, reader and output channel only", cost[0]),
        ("trio, one inbox (meld)", cost[1]),
        ("trio, five inboxes in a row", cost[5]),
        ("trio, meld of 2", median(lambda: live(oop.meld(source(halves), source(halves))))),
        ("trio, meld of 2, threads", median(lambda: live(oop.meld(source(halves), source(halves)), waiting=True), 3)),
    ]
    print(f"{PAGES:,} pages of {TUPLES} tuple; capacity of an inbox 8; medians of 5 runs")
    for name, seconds in rows:
        print(f"  {name:<40} {seconds / PAGES * 1e6:7.1f} us a page {PAGES * TUPLES / seconds / 1e3:9.0f} k tuples/s")
    print(f"  one more inbox costs {per_inbox * 1e6:.1f} us a page")
    large = made(8192, 1_000)
    seconds = median(lambda: live(oop.meld(source(large[:500]), source(large[500:]))))
    print(
        f"1,000 pages of 8,192 tuples, meld of 2: {seconds / 1_000 * 1e6:.1f} us a page, "
        f"{1_000 * 8192 / seconds / 1e6:.0f} M tuples/s"
    )


if __name__ == "__main__":
    main()
