"""Measure what a flood of forged senders costs a collector over loopback, and what it takes of a good exporter.

Usage: python tests/benchmarks/bench_flood.py [seconds] [forged datagrams a second] [good datagrams a second]
The flood comes from another source address of 127/8 each time, with a record in each datagram; the good exporter sends
from 127.0.0.2. Both are processes of their own, which share the machine with the collector. Everybody may send, or the
good exporter only; with shedding, too, where what is kept is told. Lines: good datagrams sent, taken, lost; how many of
its records results have; what was left out of the flood, by reason; the share of a core that the collector took.
"""

from __future__ import annotations

import multiprocessing
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import oop_engine as oop
from oop_engine.drive.runtime import run_to_end
from oop_engine.plan.graph import Plan
from oop_engine.sources.live import LiveFlows, LiveReader, Rules, Shedding
from oop_engine.sources.live.exporters import SECOND
from operators.data.page import Page
from operators.protocol import Element

GOOD = "127.0.0.2"
RECORDS = 30
BUFFER = 2 << 20
"""Bytes of receive buffer: what a second of such a flood takes."""
_BURST = 0.002


def datagram(sequence: int, records: int) -> bytes:
    """Make a datagram of v5 that was sent now."""
    now = time.time()
    head = struct.pack(">HHIIIIHH", 5, records, 1_000_000, int(now), int(now % 1 * 1e9), sequence & 0xFFFFFFFF, 0, 0)
    record = struct.pack(
        ">4s4s4sHHIIIIHHBBBBHHBBH", b"\x0a\0\0\1", b"\x0a\0\0\2", bytes(4), 1, 2, 3, 400, 995_000, 999_000, 1234, 443,
        0, 27, 6, 0, 0, 0, 24, 24, 0,
    )  # fmt: skip
    return head + record * records


def paced(rate: float, seconds: float, send: Callable[[int], object], told: Connection) -> None:
    """Send at a rate as near as this process may; tell how many."""
    told.recv()
    began, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - began) < seconds:
        while sent < now * rate:
            send(sent)
            sent += 1
        time.sleep(_BURST)
    told.send(sent)


def exporter(port: int, rate: float, seconds: float, told: Connection) -> None:
    """Be the good one."""
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.bind((GOOD, 0))
    out.connect(("127.0.0.1", port))
    paced(rate, seconds, lambda k: out.send(datagram(RECORDS * k, RECORDS)), told)


def flood(port: int, rate: float, seconds: float, told: Connection) -> None:
    """Send each datagram from another address."""
    to, forged = ("127.0.0.1", port), datagram(0, 1)

    def send(k: int) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.bind((f"127.{1 + k // 62_500 % 250}.{k // 250 % 250}.{1 + k % 250}", 0))
            out.sendto(forged, to)

    paced(rate, seconds, send, told)


def measure(seconds: float, forged: float, good: float, *, allow: str | None, shed: bool) -> str:
    """Collect what both send for so long; give a line."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    spawn = multiprocessing.get_context("spawn")
    ends = [spawn.Pipe() for _ in range(2)]
    senders = [
        spawn.Process(target=target, args=(port, rate, seconds, theirs))
        for target, rate, (_, theirs) in zip((exporter, flood), (good, forged), ends, strict=True)
    ]
    for one in senders:
        one.start()
    sent: list[int] = []
    readers: list[LiveReader] = []

    def conduct() -> None:
        for ours, _ in ends:
            ours.send("go")
        sent.extend(ours.recv() for ours, _ in ends)
        readers[0].stop()

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        threading.Thread(target=conduct, daemon=True).start()

    rules = Rules(active=10 * SECOND, inactive=0, scan=0, settle=SECOND)
    source = LiveFlows(
        listening, allow=allow, rules=rules, opened=opened, buffer=BUFFER, shedding=Shedding() if shed else None
    )
    stream = oop.from_source(source).filter(f"exporter = '{GOOD}'").project("bytes", "sampling")
    kept = weighed = 0

    def take(element: Element) -> None:
        nonlocal kept, weighed
        if isinstance(element, Page):
            kept += len(element)
            weighed += int(element["sampling"].sum())

    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    run_to_end(Plan((stream.node,)), [take])
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    for one in senders:
        one.join()
    listening.close()
    every = readers[0].decoder.exporters()
    taken = sum(c.datagrams for c in every if c.address is not None and c.address.endswith(socket.inet_aton(GOOD)))
    refused, unknown = sum(c.refused for c in every), sum(getattr(c, "unadmitted", 0) for c in every)
    door = readers[0].door
    assert door is not None
    busy = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / took
    records = sent[0] * RECORDS
    cells = ("the good one" if allow else "everybody", "yes" if shed else "no", f"{sent[1] / seconds:,.0f}")
    counts = (f"{n:,}" for n in (sent[0], taken, sent[0] - taken))
    shares = (f"{kept / records:.1%}", f"{weighed / records:.1%}")
    return _line(*cells, *counts, *shares, f"{refused:,}", f"{unknown:,}", f"{door.dropped:,}", f"{busy:.0%}")


def _line(who: str, *cells: str) -> str:
    return f"{who:13}" + "".join(f"{cell:>10}" for cell in cells)


def main(seconds: float = 5, forged: float = 10_000, good: float = 1_000) -> None:
    """Print a line for who may send, without and with shedding."""
    measure(0.5, 100, 100, allow=None, shed=False)
    heads = ("shed", "flood/s", "good", "taken", "lost", "kept", "weighed", "refused", "unknown", "dropped", "core")
    print(_line("may send", *heads))
    for allow in (None, f"{GOOD}/32"):
        for shed in (False, True):
            print(measure(seconds, forged, good, allow=allow, shed=shed), flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
