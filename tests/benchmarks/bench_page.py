"""What a page costs: a run that nobody looks at, one with an open page, first paint, and updates a second.

    python tests/benchmarks/bench_page.py [tuples] [rounds]

Q-a (tumbling 10 s, count and sum(length) by srcIP) runs from memory in three ways, in turn and in an order that
changes: alone; with a page that nobody looks at; with one that another process reads.

Two figures are given. One is counted: the CPU time of the looks at the run and of the page's thread, as a share of the
rest; it is steady, though it is too large where other work makes the run longer, as looks go by the clock. The other is
compared: the CPU time of the process, as a ratio to that of the run alone in the same round. Its median is given, and
between which values it is with 95 % (by signs, so no distribution is assumed); to tell half a percent takes a quiet
machine and many rounds.

Then the page of a lesson is opened in chromium, if playwright is installed: the time to first paint and to the first
view.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from math import comb
from pathlib import Path
from time import perf_counter, process_time

import attrs

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import Watch, run_to_end
from oop_engine.page.address import Address
from oop_engine.page.feed import Feed
from oop_engine.page.record import Record
from oop_engine.page.serving import Served
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.passes import prepared

LESSON = Path(__file__).parents[2] / "demos" / "slack_and_punctuation.oop"
WAYS = ("alone", "nobody looks", "a page is open")
READER = """
import sys, urllib.request
views = 0
with urllib.request.urlopen(sys.argv[1] + "events") as events:
    for line in events:
        views += line.startswith(b"event: view")
print(views)
"""
"""Reads a page until it ends, and counts its views."""


@attrs.frozen
class Ran:
    """A run: its CPU time, that of its looks and of the page's thread, its time, and how many views a reader got."""

    cpu: float
    looks: float
    serving: float
    took: float
    views: int


def run(plan: Plan, way: str) -> Ran:
    """Run a plan in one way."""
    looks = 0.0
    with ExitStack() as stack:
        watch: Watch | None = None
        reader = clock = None
        if way != "alone":
            feed = Feed(None)
            page = stack.enter_context(Served.of_plan(Address.of("127.0.0.1:0"), plan, feed))
            (thread,) = (thread for thread in threading.enumerate() if thread.name == "page")
            clock = time.pthread_getcpuclockid(thread.ident or 0)

            def looking(circuit: Circuit) -> None:
                nonlocal looks
                began = time.thread_time()
                feed.watch(circuit)
                looks += time.thread_time() - began

            watch = looking

            if way == "a page is open":
                reader = subprocess.Popen([sys.executable, "-c", READER, page.url], stdout=subprocess.PIPE, text=True)
                while not feed.asked:
                    time.sleep(0.01)
        served = 0.0 if clock is None else time.clock_gettime(clock)
        began, cpu = perf_counter(), process_time()
        run_to_end(plan, (lambda element: None,), watch=watch)
        spent, took = process_time() - cpu, perf_counter() - began
        served = 0.0 if clock is None else time.clock_gettime(clock) - served
    views = 0 if reader is None else int(reader.communicate()[0])
    return Ran(spent, looks, served, took, views)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the values between which the median is, by the signs of binomial chance, with 95 %."""
    ordered, n, below = sorted(values), len(values), 0.0
    for k in range(n // 2):
        below += comb(n, k) / 2**n
        if below > 0.025:
            return ordered[max(k - 1, 0)], ordered[min(n - k, n - 1)]
    return ordered[0], ordered[-1]


def costs(tuples: int, rounds: int) -> None:
    """Compare the three ways, round by round."""
    table = oop.packets(tuples, sources=1000).to_arrow()
    count = oop.arrow(table, punctuate=oop.ordered()).window(range="10 s")
    plan = prepared(count.aggregate(oop.count(), oop.sum("length"), by="srcIP").node)
    run(plan, WAYS[-1])
    ratios: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    counted: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    alone, rates = list[float](), list[float]()
    for number in range(rounds):
        turn = WAYS[number % 3 :] + WAYS[: number % 3]
        found = {way: run(plan, way) for way in turn}
        alone.append(found["alone"].cpu)
        for way in WAYS[1:]:
            ran = found[way]
            ratios[way].append(100 * (ran.cpu / found["alone"].cpu - 1))
            counted[way].append(100 * (ran.looks + ran.serving) / (ran.cpu - ran.looks - ran.serving))
        rates.append(found[WAYS[-1]].views / found[WAYS[-1]].took)
    print(f"{tuples:,} tuples alone: {statistics.median(alone):.3f} s of CPU time, the median of {rounds}")
    for way, each in ratios.items():
        low, high = interval(each)
        print(
            f"{way:16} counted {statistics.median(counted[way]):6.3f} %, at most {max(counted[way]):.3f} %;"
            f" compared {statistics.median(each):+6.2f} %, between {low:+.2f} and {high:+.2f} %"
        )
    print(f"updates          {statistics.median(rates):6.2f} a second")


def paints(times: int = 9) -> None:
    """Print how long a browser takes to paint the page first, and to have the first view."""
    try:
        # Optional: few machines have a browser to drive.
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("first paint      not measured: pip install playwright")
        return
    record, took = Record(LESSON), list[tuple[float, float]]()
    with (
        Served(Address.of("127.0.0.1:0"), record.title, record.outlined, record) as page,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(times):
            shown = browser.new_page()
            shown.goto(page.url)
            shown.wait_for_selector("#lanes svg")
            viewed = shown.evaluate("performance.now()")
            (paint,) = shown.evaluate("performance.getEntriesByName('first-contentful-paint').map((e) => e.startTime)")
            took.append((paint, viewed))
            shown.close()
        browser.close()
    for what, each in zip(("first paint", "first view"), zip(*took, strict=True), strict=True):
        print(f"{what:16} {statistics.median(each):6.0f} ms, at most {max(each):.0f} ms of {times}")


if __name__ == "__main__":
    costs(int(float(sys.argv[1])) if len(sys.argv) > 1 else 20_000_000, int(sys.argv[2]) if len(sys.argv) > 2 else 30)
    paints()
