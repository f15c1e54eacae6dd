"""Measure how fast datagrams of flow exports become Arrow batches, from memory and from a capture.

Usage: python tests/benchmarks/bench_flows.py [datagrams] [runs]
"""

from __future__ import annotations

import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.flows import Datagrams, FlowDecoder, FlowExports, flow_columns
from oop_engine.sources.live import Rules
from oop_engine.sources.live.exporters import SECOND

TEN = ("ts", "end_ts", "srcIP", "destIP", "srcPort", "destPort", "proto", "bytes", "packets", "flags")
TWELVE = ((8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (6, 1), (1, 8), (2, 8), (152, 8), (153, 8), (10, 4), (14, 4))
COLUMNS_OF_TWELVE = (*TEN, "in_if", "out_if")
V9 = tuple({152: (22, 4), 153: (21, 4)}.get(field[0], field) for field in TWELVE)
START = 1_750_000_000
LATENCY_RUNS = 100


def v5(count: int) -> list[bytes]:
    """Make datagrams of 30 records."""
    rng = random.Random(5)
    record = struct.Struct(">8s4sHHIIIIHHBBBBHHBBH")
    made: list[bytes] = []
    for k in range(count):
        head = struct.pack(">HHIIIIHH", 5, 30, 100_000 + 10 * k, START + k // 100, 0, 30 * k & 0xFFFFFFFF, 0, 0)
        made.append(
            head
            + b"".join(
                record.pack(rng.randbytes(8), bytes(4), 1, 2, rng.randrange(99), rng.randrange(99_999), 90_000, 95_000,
                            1234, 80, 0, 27, 6, 0, 1, 2, 24, 24, 0)
                for _ in range(30)
            )
        )  # fmt: skip
    return made


def templated(count: int, version: int, *, text: bool = False) -> list[bytes]:
    """Make datagrams of 24 records of 12 fields, the template in every 20th; `text` adds one of variable length."""
    rng = random.Random(9)
    fields = (V9 if version == 9 else TWELVE) + (((96, 0xFFFF),) if text else ())
    layout = struct.pack(">HH", 256, len(fields)) + b"".join(struct.pack(">HH", *field) for field in fields)
    template = struct.pack(">HH", 0 if version == 9 else 2, 4 + len(layout)) + layout
    times = struct.pack(">II", 90_000, 95_000) if version == 9 else struct.pack(">QQ", START * 1000, START * 1000 + 99)
    made: list[bytes] = []
    for k in range(count):
        records = b"".join(
            rng.randbytes(8) + struct.pack(">HHBBQQ", 1234, 80, 6, 27, rng.randrange(99_999), rng.randrange(99)) + times
            + struct.pack(">II", 1, 2) + (b"\x05https" if text else b"")
            for _ in range(24)
        )  # fmt: skip
        body = (template if k % 20 == 0 else b"") + struct.pack(">HH", 256, 4 + len(records)) + records
        seconds = START + k // 100
        if version == 9:
            made.append(struct.pack(">HHIIII", 9, 25, 100_000 + 10 * k, seconds, k, 1) + body)
        else:
            made.append(struct.pack(">HHIII", 10, 16 + len(body), seconds, 24 * k & 0xFFFFFFFF, 1) + body)
    return made


def sflow(count: int) -> list[bytes]:
    """Make datagrams of 7 samples of TCP headers."""
    rng = random.Random(6)
    made: list[bytes] = []
    for k in range(count):
        samples = b""
        for _ in range(7):
            frame = b"\2" * 12 + b"\x08\0" + struct.pack(">BBHHHBBH", 0x45, 0, 1400, 7, 0, 61, 6, 0) + rng.randbytes(8)
            frame += struct.pack(">HHIIBBHHH", 443, 50_000, 1, 2, 0x50, 0x10, 512, 0, 0) + bytes(74)
            record = struct.pack(">IIIIII", 1, 16 + len(frame), 1, 1418, 4, len(frame)) + frame
            samples += struct.pack(">IIIIIIIIII", 1, 32 + len(record), k, 5, 512, 9, 0, 3, 4, 1) + record
        made.append(struct.pack(">II4sIIII", 5, 1, b"\x0a\1\1\1", 0, k, 100_000 + 10 * k, 7) + samples)
    return made


def datagrams(payloads: list[bytes]) -> Datagrams:
    """Lay datagrams of four exporters in memory."""
    exporters = [(bytes(10) + b"\xff\xff\xc0\0\2" + bytes([1]), 5000)] * len(payloads)
    return Datagrams.of(payloads, arrival=[START * 10**9] * len(payloads), exporters=exporters)


def parts(whole: Datagrams, size: int) -> list[Datagrams]:
    """Cut datagrams into blocks, as they come from a socket."""
    cuts = range(0, len(whole), size)
    return [
        Datagrams(
            whole.data, whole.offset[k : k + size], whole.length[k : k + size], whole.arrival[k : k + size],
            whole.address[2 * k : 2 * (k + size)], whole.port[k : k + size],
        )
        for k in cuts
    ]  # fmt: skip


def measured(run: Callable[[], int], runs: int) -> tuple[float, int]:
    """Give the median seconds of CPU time over `runs` runs, after one that compiles, and the records of each."""
    records = run()
    took: list[float] = []
    for _ in range(runs):
        start = time.thread_time()
        run()
        took.append(time.thread_time() - start)
    return statistics.median(took), records


def decode(blocks: Sequence[Datagrams], columns: Sequence[str] | None, more: Sequence[str] = ()) -> int:
    decoder = FlowDecoder(columns, available=flow_columns(more))
    return sum(len(batch) for block in blocks for batch in decoder.decode(block))


def capture(path: Path, payloads: list[bytes]) -> None:
    """Write datagrams as a capture."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1))
        for k, payload in enumerate(payloads):
            total = 28 + len(payload)
            head = b"\2" * 12 + b"\x08\0" + struct.pack(">BBHHHBBHII", 0x45, 0, total, 7, 0, 61, 17, 0, 0xC0000201, 1)
            frame = head + struct.pack(">HHHH", 5000, 2055, 8 + len(payload), 0) + payload
            file.write(struct.pack("<IIII", START + k // 100, k % 100 * 10_000, len(frame), len(frame)) + frame)


def replay(path: Path, often: int) -> int:
    """Read a capture with the promises of its exporters, in steps of so many seconds."""
    reader = FlowExports([path], rules=Rules(active=SECOND, inactive=SECOND)).open(TEN, 262_144)
    reader.describe({"ts": Grain(often * SECOND)})
    return sum(len(chunk) for chunk in reader.chunks() if isinstance(chunk, pa.RecordBatch))


def latency(block: Datagrams) -> float:
    """Give the median seconds from a block of datagrams to its batch."""
    took: list[float] = []
    for one in parts(block, 256)[:LATENCY_RUNS]:
        decoder = FlowDecoder(TEN)
        list(decoder.decode(one))
        decoder = FlowDecoder(TEN)
        start = time.perf_counter()
        list(decoder.decode(one))
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def main(count: int = 20_000, runs: int = 7) -> None:
    """Print records and datagrams a second for each protocol, columns and way of reading."""
    print(f"{count:,} datagrams, median of {runs}, CPU time; no_template, malformed and lost are 0 in all")
    print(f"{'':44}{'M records/s':>12}{'k datagrams/s':>15}{'GB/s':>7}")
    made = {"v5": v5(count), "v9": templated(count, 9), "IPFIX": templated(count, 10), "sFlow": sflow(count)}
    for name, payloads in made.items():
        block = datagrams(payloads)
        size = int(block.length.sum(dtype=np.int64))
        for what, columns in (
            ("10 columns", TEN), ("12 columns", COLUMNS_OF_TWELVE), ("all 31 columns", None)
        ):  # fmt: skip
            show(f"{name}, {what}", *measured(lambda b=block, c=columns: decode([b], c), runs), count, size)
        small = parts(block, 256)
        show(
            f"{name}, 10 columns, 256 datagrams at a time", *measured(lambda b=small: decode(b, TEN), runs), count, size
        )
        print(f"{'  a block of 256 becomes a batch in':44}{latency(block) * 1e6:12.0f} us")
    text = datagrams(templated(count, 10, text=True))
    size = int(text.length.sum(dtype=np.int64))
    both = [*TEN, "applicationName"]
    show("IPFIX, 10 columns and one of variable length",
         *measured(lambda: decode([text], both, ["applicationName"]), runs), count, size)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flows.pcap"
        capture(path, made["v5"])
        source = FlowExports([path])
        run = lambda: sum(len(chunk) for chunk in source.open(TEN, 65_536).chunks() if hasattr(chunk, "num_rows"))  # noqa: E731
        show("v5, 10 columns, from a capture", *measured(run, runs), count, path.stat().st_size)
        for often in (1, 10, 60):
            name = f"v5, the same, promised by {often} s by its exporter"
            show(name, *measured(lambda s=often: replay(path, s), runs), count, path.stat().st_size)


def show(name: str, seconds: float, records: int, count: int, size: int) -> None:
    print(f"{name:44}{records / seconds / 1e6:12.1f}{count / seconds / 1e3:15.0f}{size / seconds / 1e9:7.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
