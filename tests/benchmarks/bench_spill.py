"""What a memory limit costs: distinct keys, each counted exactly, with their state in memory and in files.

    python tests/benchmarks/bench_spill.py --keys 5e6
    python tests/benchmarks/bench_spill.py --keys 50e6 --memory 400MB

Each run has a process of its own, whose peak of resident memory the system tells. The answer is checked: as many
groups as keys, and the sums of their counts and values.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.limit import limit_of
from oop_engine.drive.runtime import run_to_end
from oop_engine.rewrite.passes import prepared
from operators.data.page import Page
from operators.protocol import Element

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
_CHUNK = 1 << 18
_SPREAD = np.int64(-7046029254386353131)


def batches(keys: int, times: int) -> Iterator[pa.RecordBatch]:
    """Yield each key so many times, far from one another."""
    for at in range(0, keys * times, _CHUNK):
        number = np.arange(at, min(keys * times, at + _CHUNK), dtype=np.int64)
        columns = [number // 1_000, (number % keys) * _SPREAD, number & 7]
        yield pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


def run(keys: int, times: int, memory: str | None, threads: int) -> dict[str, float]:
    """Count each key in one window, and return what it took."""
    groups = counted = total = 0

    def take(element: Element) -> None:
        nonlocal groups, counted, total
        if isinstance(element, Page):
            groups += len(element)
            counted += int(element["count"].sum())
            total += int(element["sum_v"].sum())

    stream = oop.arrow(batches(keys, times), schema=SCHEMA, punctuate=oop.ordered("ts"))
    whole = stream.window(range=1 << 40, wattr="ts").aggregate(oop.count(), oop.sum("v"), by="k")
    began = time.perf_counter()
    told = run_to_end(prepared(whole.node), (take,), threads=threads, limit=limit_of(memory))
    seconds = time.perf_counter() - began
    expected = sum(
        int((np.arange(at, min(keys * times, at + _CHUNK)) & 7).sum()) for at in range(0, keys * times, _CHUNK)
    )
    if (groups, counted, total) != (keys, keys * times, expected):
        raise SystemExit(f"wrong: {groups:,} groups, {counted:,} tuples, sum {total:,}, where {expected:,} is right")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": seconds, "rss": peak, "state": told.total("peak_state_bytes"),
        "spilled": told.total("spilled_bytes"), "spills": told.total("spills"),
    }  # fmt: skip


def measured(*arguments: str) -> dict[str, float]:
    """Run in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *arguments, "--child"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=float, default=5e6)
    parser.add_argument("--times", type=int, default=1, help="how often each key comes")
    parser.add_argument("--memory", default="200MB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--alone", action="store_true", help="with the limit only: without it, memory may not be enough"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    keys, memory = int(given.keys), given.memory
    if given.child:
        print(json.dumps(run(keys, given.times, None if memory == "none" else memory, given.threads)))
        return
    common = ["--keys", str(keys), "--times", str(given.times), "--threads", str(given.threads)]
    print(f"{keys:,} keys, {given.times} times each, {given.threads} threads")
    print("limit       seconds  tuples/s  peak RSS  peak state   written  spills")
    for limit in [memory] if given.alone else ["none", memory]:
        found = measured(*common, "--memory", limit)
        rate = keys * given.times / found["seconds"]
        print(
            f"{limit:<10} {found['seconds']:>8.2f} {rate / 1e6:>7.2f} M {found['rss'] / 1e6:>6,.0f} MB"
            f" {found['state'] / 1e6:>8,.0f} MB {found['spilled'] / 1e6:>6,.0f} MB {found['spills']:>7,.0f}"
        )


if __name__ == "__main__":
    main()
