"""Measure the collector over loopback: what it takes in without loss, and that received + counted lost = sent.

Usage: python tests/benchmarks/bench_live.py [seconds] [datagrams a second ...]
The sender is a process of its own that paces datagrams of 30 records (v5) by the clock; it and the collector share the
machine. With an empty query, with a window query behind it, and with that and a checkpoint twice a second, and a
journal, too. What limits is printed: the share of a core that the
collector took, and where kernel drops begin.
"""

from __future__ import annotations

import multiprocessing
import resource
import socket
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import attrs

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.runtime import run_to_end
from oop_engine.plan.graph import Plan
from oop_engine.processes.load import RECORDS, send_flows
from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import SECOND
from operators.data.page import Page
from operators.protocol import Element

GROUPS = 64 * RECORDS
"""Sources of flows: each datagram of 64 has others."""


def sender(port: int, rate: float, seconds: float, told: Connection) -> None:
    """Send so many datagrams a second, as nearly as it may; tell how many, and for how long it was held up."""
    told.recv()
    sent = send_flows(GROUPS, {"rate": int(rate * RECORDS), "seconds": seconds, "lead": 0.0, "port": port})
    told.send((sent.sent // RECORDS, sent.longest, sent.ended - sent.began))


@attrs.frozen
class Measured:
    """What one run took."""

    sent: int
    received: int
    records: int
    lost: int
    dropped: int
    busy: float
    longest: float
    seconds: float
    results: int
    late: int
    buffer: int


def measure(rate: float, seconds: float, *, windowed: bool, buffer: int, kept: str = "") -> Measured:
    """Collect what a sender sends at a rate for so long.

    `kept`: with a "checkpoint" twice a second, or a "journal", too.
    """
    ours, theirs = multiprocessing.Pipe()
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    process = multiprocessing.get_context("spawn").Process(
        target=sender, args=(listening.getsockname()[1], rate, seconds, theirs)
    )
    process.start()
    readers: list[LiveReader] = []
    answers: list[tuple[int, float, float]] = []

    def conduct() -> None:
        ours.send("go")
        answers.append(ours.recv())
        readers[0].stop()

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        threading.Thread(target=conduct, daemon=True).start()

    rules = Rules(active=10 * SECOND, inactive=0, scan=0, settle=SECOND, trusted_after=1)
    stream: Stream = oop.from_source(LiveFlows(listening, rules=rules, buffer=buffer, opened=opened))
    if windowed:
        stream = stream.window(range="1s", wattr="ts").aggregate(oop.count(), oop.sum("bytes"), by="srcIP")
    else:
        stream = stream.filter("bytes < 0")
    results = 0

    def take(element: Element) -> None:
        nonlocal results
        results += len(element) if isinstance(element, Page) else 0

    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    if kept:
        with tempfile.TemporaryDirectory() as folder:
            output = stream.to(Path(folder, "out.parquet"))
            statistics = output.run(
                checkpoint=Path(folder, "job"), every=0.5, journal="100 ms" if kept == "journal" else None
            )
            results = statistics.total("results")
    else:
        statistics = run_to_end(Plan((stream.node,)), [take])
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    process.join()
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    ((sent, longest, sending),) = answers
    reader = readers[0]
    door, (report,) = reader.door, reader.exporters()
    assert door is not None
    counted = report.counters
    return Measured(
        sent, counted.datagrams, counted.records, counted.lost, door.dropped, busy / took, longest, sending, results,
        statistics.late, door.buffer,
    )  # fmt: skip


def main(seconds: float = 5, *rates: float) -> None:
    """Print a line for every rate, without and with a window query."""
    measure(1000, 0.5, windowed=True, buffer=1 << 20)
    print(f"{seconds:g} s a run, datagrams of {RECORDS} records (1,464 bytes), sender in a process of its own")
    print(
        f"{'query':10}{'asked/s':>9}{'sent/s':>9}{'received':>11}{'lost':>9}{'dropped':>9}{'buffer MB':>10}"
        f"{'core':>6}{'sender held':>12}{'results':>9}  received + lost = sent"
    )
    for rate in rates or (5_000, 20_000, 40_000):
        runs = [("none", 4 << 20), *((name, 32 << 20) for name in ("none", "windows", "checkpoint", "journal"))]
        for name, buffer in runs:
            kept = name if name in ("checkpoint", "journal") else ""
            m = measure(rate, seconds, windowed=name != "none", buffer=buffer, kept=kept)
            lost = m.lost // RECORDS
            # What was dropped behind the last datagram received, no sequence tells of; the kernel does.
            sums = "yes" if m.received + max(lost, m.dropped) == m.sent else f"no: {m.sent - m.received - lost}"
            print(
                f"{name:10}{rate:9,.0f}{m.sent / m.seconds:9,.0f}{m.received:11,}{lost:9,}"
                f"{m.dropped:9,}{m.buffer / 1e6:10.1f}{m.busy:6.0%}{m.longest * 1e3:9.0f} ms{m.results:9,}  {sums}"
            )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
