"""Measure what several UDP sockets at one address are worth on loopback: datagrams a second that are lost.

Usage: python tests/benchmarks/bench_sockets.py [seconds] [datagrams a second ...]
The sender is a process of its own; it sends in bursts from 16 ports. It and the collector share the machine, and so do
others: compare lines of one run. Each line is one number of sockets at one rate and receive buffer.
"""

from __future__ import annotations

import multiprocessing
import socket
import struct
import sys
import threading
import time
from multiprocessing.connection import Connection

import oop_engine as oop
from oop_engine.drive.runtime import run_to_end
from oop_engine.plan.graph import Plan
from oop_engine.processes.load import RECORDS, bodies_of
from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import SECOND

PORTS = 16
BURST = 0.05
"""Seconds between two bursts, which are what buffers are for."""


def sender(rate: float, seconds: float, told: Connection) -> None:
    """Send at a rate, in bursts, from several ports; tell how many and how long it took."""
    made, head = bodies_of(64 * RECORDS), struct.Struct(">HHIIIIHH")
    port = told.recv()
    out = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PORTS)]
    for one in out:
        one.connect(("127.0.0.1", port))
    numbers, sent, began = [0] * PORTS, 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds:
        stamp = time.time()
        while sent < (now - began) * rate:
            k = sent % PORTS
            first = head.pack(5, RECORDS, 1_000_000, int(stamp), int(stamp % 1 * 1e9), numbers[k], 0, 0)
            out[k].send(first + made[sent % len(made)])
            numbers[k] += RECORDS
            sent += 1
        time.sleep(BURST)
    told.send((sent, time.perf_counter() - began))


def measure(rate: float, seconds: float, sockets: int, buffer: int) -> tuple[int, float, int, int]:
    """Return how many were sent, in how many seconds, how many were received, and how many were dropped."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=sender, args=(rate, seconds, theirs))
    process.start()
    readers: list[LiveReader] = []
    answers: list[tuple[int, float]] = []

    def conduct() -> None:
        door = readers[0].door
        assert door is not None
        ours.send(door.address.port)
        answers.append(ours.recv())
        readers[0].stop()

    def opened(reader: LiveReader) -> None:
        readers.append(reader)
        threading.Thread(target=conduct, daemon=True).start()

    rules = Rules(active=10 * SECOND, inactive=0, scan=0, settle=SECOND, trusted_after=1)
    source = LiveFlows("127.0.0.1:0", rules=rules, buffer=buffer, sockets=sockets, opened=opened)
    windows = oop.from_source(source).window(range="1s", wattr="ts").aggregate(oop.sum("bytes"), by="srcIP")
    run_to_end(Plan((windows.node,)), [lambda element: None])
    process.join()
    door, ((sent, took),) = readers[0].door, answers
    assert door is not None
    return sent, took, door.received, door.dropped


def main(seconds: float = 3, *rates: float) -> None:
    """Print a line for every rate, receive buffer and number of sockets."""
    measure(1000, 0.5, 2, 1 << 20)
    print(f"{'buffer KiB':>10}{'asked/s':>9}{'sockets':>8}{'sent/s':>9}{'received/s':>11}{'dropped/s':>10}{'share':>8}")
    for buffer in (208 << 10, 4 << 20):
        for rate in rates or (10_000, 30_000):
            for sockets in (1, 2, 4):
                sent, took, received, dropped = measure(rate, seconds, sockets, buffer)
                print(
                    f"{buffer >> 10:10,}{rate:9,.0f}{sockets:8}{sent / took:9,.0f}{received / took:11,.0f}"
                    f"{dropped / took:10,.0f}{dropped / max(sent, 1):8.1%}"
                )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
