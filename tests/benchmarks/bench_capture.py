"""Measure how fast a capture becomes Arrow batches, beside dpkt in the same run.

Usage: python tests/benchmarks/bench_capture.py [packets] [runs]
"""

from __future__ import annotations

import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dpkt
import numpy as np

from oop_engine.sources.capture import Capture

SNAPLEN = 96
COLUMNS = ["ts", "srcIP", "destIP", "srcPort", "destPort", "proto", "length"]


def write(path: Path, packets: int) -> None:
    """Write a capture of TCP (80 in 100) and UDP over IPv4, cut at 96 bytes, in the order of time."""
    rng = np.random.default_rng(20_080_824)
    records = np.zeros(packets, dtype=[("head", "<u4", 4), ("data", "u1", SNAPLEN)])
    head, data = records["head"], records["data"]
    wire = rng.integers(SNAPLEN, 1515, packets)
    head[:, 0] = 1_700_000_000 + np.arange(packets) // 100_000
    head[:, 1] = np.arange(packets) % 100_000 * 10
    head[:, 2] = SNAPLEN
    head[:, 3] = wire
    data[:, :12] = 2
    data[:, 12] = 8
    data[:, 14] = 0x45
    data[:, 16:18] = (wire - 14).astype(">u2").view("u1").reshape(packets, 2)
    data[:, 22] = 64
    data[:, 23] = np.where(rng.random(packets) < 0.8, 6, 17)
    data[:, 26:38] = rng.integers(0, 256, (packets, 12))
    data[:, 46] = 0x50
    data[:, 47] = 0x10
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAPLEN, 1) + records.tobytes())


def speed(read: Callable[[], int], runs: int) -> float:
    """Give the median packets a second of CPU time over `runs` runs, after one that compiles and warms the cache."""
    read()
    measured: list[float] = []
    for _ in range(runs):
        start = time.thread_time()
        packets = read()
        measured.append(packets / (time.thread_time() - start))
    return statistics.median(measured)


def with_dpkt(path: Path, most: int) -> int:
    """Read the 5-tuple, time and length of the first `most` packets with dpkt."""
    rows: list[tuple[float, bytes, bytes, int, int, int, int]] = []
    with path.open("rb") as file:
        for ts, frame in dpkt.pcap.Reader(file):
            packet = dpkt.ethernet.Ethernet(frame).data
            rows.append((ts, packet.src, packet.dst, packet.data.sport, packet.data.dport, packet.p, packet.len))
            if len(rows) == most:
                break
    return len(rows)


def with_stream(path: Path) -> int:
    """Read the columns from an open file as from a pipe, without mapping it."""
    with path.open("rb") as file:
        return sum(batch.num_rows for batch in Capture(file, columns=COLUMNS).batches())


def main(packets: int = 1_000_000, runs: int = 7) -> None:
    """Print packets, batch rows and millions of packets a second for each way of reading."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snap.pcap"
        write(path, packets)
        print(f"{packets:,} packets, {path.stat().st_size / 1e6:.1f} MB, snaplen {SNAPLEN}, median of {runs}, CPU time")
        results = {
            "times only": speed(lambda: sum(map(len, Capture(path).times())), runs),
            "ts, 5-tuple, length": speed(
                lambda: sum(batch.num_rows for batch in Capture(path, columns=COLUMNS).batches()), runs
            ),
            "ts, 5-tuple, length; 8,192 rows": speed(
                lambda: sum(b.num_rows for b in Capture(path, columns=COLUMNS, batch_rows=8192).batches()), runs
            ),
            "all 16 columns": speed(lambda: sum(batch.num_rows for batch in Capture(path).batches()), runs),
            "ts, 5-tuple, length; stream": speed(lambda: with_stream(path), runs),
            "dpkt": speed(lambda: with_dpkt(path, min(packets, 20_000)), 3),
        }
        for name, value in results.items():
            print(f"{name:34}{value / 1e6:10.3f} M packets/s{value / results['dpkt']:10.0f} times dpkt")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
