"""Measure how fast a capture becomes Arrow batches, beside `read()` and dpkt in the same run, and a query's answer.

Packed captures, of several files, take turns with pigz and zstd where these are installed.

Usage: python tests/benchmarks/bench_capture.py [packets] [runs]
"""

from __future__ import annotations

import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dpkt
import numpy as np
import pyarrow.parquet as pq

import oop_engine as oop
from oop_engine.sources.capture import Capture

SNAPLEN = 96
FULL = 1000
COLUMNS = ["ts", "srcIP", "destIP", "srcPort", "destPort", "proto", "length"]
SOURCES = (10_000, 100_000)
RATE = 100_000
PARTS = 4
BUFFER = memoryview(mmap.mmap(-1, 1 << 20))
Reading = Callable[[], int]


def write(path: Path, packets: int, kept: int = SNAPLEN, *, short: float = 0.0, sources: int = 2**32) -> None:
    """Write a capture of TCP (80 in 100) and UDP over IPv4, in the order of time, 100,000 packets a second.

    `kept` bytes of each packet are captured; a share `short` of them is of 66 bytes, as acknowledgements are. The
    sources are so many, drawn alike.
    """
    rng = np.random.default_rng(20_080_824)
    records = np.zeros(packets, dtype=[("head", "<u4", 4), ("data", "u1", kept)])
    head, data = records["head"], records["data"]
    wire = rng.integers(kept, 1515, packets)
    sizes = np.full(packets, kept)
    small = rng.random(packets) < short
    wire[small] = sizes[small] = 66
    head[:, 0] = 1_700_000_000 + np.arange(packets) // RATE
    head[:, 1] = np.arange(packets) % RATE * (1_000_000 // RATE)
    head[:, 2] = sizes
    head[:, 3] = wire
    data[:, :12] = 2
    data[:, 12] = 8
    data[:, 14] = 0x45
    data[:, 16:18] = (wire - 14).astype(">u2").view("u1").reshape(packets, 2)
    data[:, 22] = 64
    data[:, 23] = np.where(rng.random(packets) < 0.8, 6, 17)
    data[:, 26:30] = (rng.integers(0, sources, packets) + 0x0A000000).astype(">u4").view("u1").reshape(packets, 4)
    data[:, 30:38] = rng.integers(0, 256, (packets, 8))
    data[:, 46] = 0x50
    data[:, 47] = 0x10
    laid = records.view("u1").reshape(packets, 16 + kept)
    body = laid.tobytes() if not short else laid[np.arange(16 + kept) < sizes[:, None] + 16].tobytes()
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, kept, 1) + body)
        file.flush()
        os.fsync(file.fileno())  # or the kernel writes it back while it is read


def times(ways: Mapping[str, Reading], runs: int) -> dict[str, tuple[float, float]]:
    """Give the median seconds a packet of each way, taken by turns, after one to warm up.

    By the clock, and of CPU time of all threads.
    """
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, way in ways.items():
            begun = time.perf_counter(), time.process_time()
            packets = way()
            ended = time.perf_counter(), time.process_time()
            if run:
                measured[name].append(((ended[0] - begun[0]) / packets, (ended[1] - begun[1]) / packets))
    return {
        name: (statistics.median(clock for clock, _ in found), statistics.median(cpu for _, cpu in found))
        for name, found in measured.items()
    }


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
    """Read the columns from an open file as from a pipe."""
    with path.open("rb") as file:
        return sum(batch.num_rows for batch in Capture(file, columns=COLUMNS).batches())


def with_read(path: Path, packets: int) -> int:
    """Read the bytes alone, into one buffer of 1 MiB that begins with a page, as a fast copy asks for."""
    with path.open("rb", buffering=0) as file:
        while file.readinto(BUFFER):
            pass
    return packets


def decoded(path: Path, packets: int, runs: int) -> None:
    """Print packets a second for each way of reading, and how much longer it takes than `read()`, clock and CPU."""

    def batches(**options: Any) -> Reading:
        return lambda: sum(batch.num_rows for batch in Capture(path, **options).batches())

    ways: dict[str, Reading] = {
        "read() into 1 MiB": lambda: with_read(path, packets),
        "times only": lambda: sum(map(len, Capture(path).times())),
        "ts, 5-tuple, length": batches(columns=COLUMNS),
        "ts, 5-tuple, length; 8,192 rows": batches(columns=COLUMNS, batch_rows=8192),
        "all 16 columns": batches(),
        "ts, 5-tuple, length; stream": lambda: with_stream(path),
    }
    results = times(ways, runs)
    plain = results["read() into 1 MiB"]
    for name, (clock, cpu) in results.items():
        print(
            f"  {name:34}{1e-6 / clock:10.3f} M packets/s{clock / plain[0]:8.2f} times read() by the clock,"
            f"{cpu / plain[1]:6.2f} in CPU time"
        )


def counted(paths: list[Path], out: Path) -> None:
    """Count packets and bytes of each source in windows of 10 s, from captures to Parquet."""
    windows = oop.pcap(*paths).window(range="10 s", slide="10 s")
    windows.aggregate(oop.count(), bytes=oop.sum("length"), by="srcIP").to(out).run()


def queried(path: Path, packets: int, runs: int) -> None:
    """Print packets a second, by the clock and by CPU time of all threads, from a capture to counts in Parquet."""
    out = path.with_suffix(".parquet")

    def way() -> int:
        out.unlink(missing_ok=True)
        counted([path], out)
        return packets

    clock, cpu = times({"": way}, runs)[""]
    rows = pq.read_metadata(out).num_rows
    print(
        f"  per-source counts of 10 s, Parquet{1e-6 / clock:10.3f} M packets/s by the clock,"
        f" {1e-6 / cpu:.3f} by CPU time, {rows:,} rows"
    )


def packed(folder: Path, packets: int, runs: int) -> None:
    """Print seconds to unpack several files: those of a program, of reading them, and of counts in Parquet."""
    for program, suffix in (("pigz", ".gz"), ("zstd", ".zst")):
        if shutil.which(program) is None:
            print(f"{program} is not installed")
            continue
        paths = [folder / f"part{number}.pcap" for number in range(PARTS)]
        for path in paths:
            write(path, packets // PARTS, short=0.4, sources=SOURCES[0])
            subprocess.run([program, "-q", "-f", path], check=True)
        files = [path.with_name(path.name + suffix) for path in paths]
        out = folder / "packed.parquet"

        def beside(command: str = program, files: list[Path] = files) -> int:
            subprocess.run([command, "-q", "-d", "-c", *files], check=True, stdout=subprocess.DEVNULL)
            return 1

        def read(files: list[Path] = files) -> int:
            return sum(len(b) for path in files for b in Capture(path, columns=COLUMNS).batches())

        def count(files: list[Path] = files, out: Path = out) -> int:
            counted(files, out)
            return 1

        measured = times({program: beside, "read": lambda: read() and 1, "counts": count}, runs)
        print(f"{PARTS} files {suffix}, {packets:,} packets")
        for name, (clock, cpu) in measured.items():
            ratio = f"{clock / measured[program][0]:.2f} times {program}"
            print(f"  {name:10}{clock:8.2f} s by the clock, {cpu:.2f} of CPU time of this process, {ratio}")


def main(packets: int = 1_000_000, runs: int = 7) -> None:
    """Print millions of packets a second for each kind of capture and way of reading."""
    print(f"{packets:,} packets, median of {runs}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "packets.pcap"
        for name, share, kept, short in (
            (f"snaplen {SNAPLEN}", 1.0, SNAPLEN, 0.0),
            (f"snaplen {SNAPLEN}, 4 in 10 of 66 bytes", 1.0, SNAPLEN, 0.4),
            (f"full packets, {FULL} bytes", 0.3, FULL, 0.0),
            (f"full packets, {FULL} bytes, 4 in 10 of 66", 0.3, FULL, 0.4),
        ):
            count = int(packets * share)
            write(path, count, kept, short=short)
            print(f"{name}, {path.stat().st_size / 1e6:.1f} MB")
            decoded(path, count, runs)
        for sources in SOURCES:
            write(path, 3 * packets, sources=sources)
            print(f"snaplen {SNAPLEN}, {sources:,} sources, {path.stat().st_size / 1e6:.1f} MB")
            queried(path, 3 * packets, min(runs, 5))
        packed(Path(folder), 3 * packets, min(runs, 3))
        write(path, 20_000)
        slow, _ = times({"dpkt": lambda: with_dpkt(path, 20_000)}, 3)["dpkt"]
        print(f"dpkt, snaplen {SNAPLEN}:{1e-6 / slow:10.3f} M packets/s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
