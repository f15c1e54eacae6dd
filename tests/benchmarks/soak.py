"""Let a collector run for long, with a query and checkpoints: nothing may be lost, and memory may not grow.

    python tests/benchmarks/soak.py [--minutes 30] [--rate 5000] [--every "10 s"] [--journal]

A process of its own sends so many datagrams a second, of 30 records each. Printed are the memory of the collector in
each third of the run (the median of what was seen each second) and what was lost. Exit status 1 if a datagram was lost,
or if the last third has over 3 % more memory than the first. The first tenth of the run is left out of the first third:
kernels are loaded then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import threading
from itertools import pairwise
from pathlib import Path

from bench_live import RECORDS, sender

import oop_engine as oop
from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import SECOND

MOST_GROWTH = 0.03


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch(seen: list[int], ended: threading.Event) -> None:
    """Note the memory each second."""
    while not ended.wait(1.0):
        seen.append(resident())


def growth(seen: list[int]) -> tuple[list[float], float]:
    """Return the medians of thirds, in bytes, and by how much the last is above the first."""
    settled = seen[len(seen) // 10 :]
    ends = [len(settled) * k // 3 for k in range(4)]
    thirds = [statistics.median(settled[a:b]) for a, b in pairwise(ends)]
    return thirds, thirds[2] / thirds[0] - 1


def main(minutes: float, rate: float, every: str, journal: bool) -> int:
    """Run for so long; return the exit status."""
    ours, theirs = multiprocessing.Pipe()
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    process = multiprocessing.get_context("spawn").Process(
        target=sender, args=(listening.getsockname()[1], rate, 60 * minutes, theirs)
    )
    process.start()
    seen: list[int] = []
    readers: list[LiveReader] = []
    answers: list[tuple[int, float, float]] = []
    ended = threading.Event()

    def conduct() -> None:
        ours.send("go")
        answers.append(ours.recv())
        readers[0].stop()
        ended.set()

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        threading.Thread(target=conduct, daemon=True).start()
        threading.Thread(target=watch, args=(seen, ended), daemon=True).start()

    rules = Rules(active=10 * SECOND, inactive=0, scan=0, settle=SECOND, trusted_after=1)
    stream = oop.from_source(LiveFlows(listening, rules=rules, buffer=32 << 20, opened=opened))
    windows = stream.window(range="1s", wattr="ts").aggregate(oop.count(), oop.sum("bytes"), by="srcIP")
    with tempfile.TemporaryDirectory() as folder:
        output = windows.to(Path(folder, "out.parquet"))
        ran = output.run(checkpoint=Path(folder, "job"), every=every, journal="100 ms" if journal else None)
        results = ran.total("results")
    process.join()
    ((sent, _, seconds),) = answers
    (report,) = readers[0].exporters()
    thirds, more = growth(seen)
    # What was dropped behind the last datagram received, no sequence tells of.
    lost = sent - report.counters.datagrams
    print(f"{sent:,} datagrams in {seconds:.0f} s ({sent / seconds:,.0f}/s), {results:,} results, {ran.late:,} late")
    print(f"lost: {lost:,} datagrams; the sequence numbers say {report.counters.lost // RECORDS:,}")
    print(f"memory of thirds: {', '.join(f'{third / 1e6:.1f} MB' for third in thirds)}; the last has {more:+.1%}")
    return 1 if lost or more > MOST_GROWTH else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=5000)
    parser.add_argument("--every", default="10 s")
    parser.add_argument("--journal", action="store_true")
    given = parser.parse_args()
    sys.exit(main(given.minutes, given.rate, given.every, given.journal))
