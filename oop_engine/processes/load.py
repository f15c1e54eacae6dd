"""The process that sends packets into a ring, or datagrams of NetFlow to a port, at the rate that it is asked for.

    python -m oop_engine.processes.load GROUPS DESCRIPTOR CAPACITY

Each line that it reads asks for one turn: `{"rate": 100000, "seconds": 2.0, "lead": 0.0, "port": 0}`. Port 0 means the
ring. For the seconds of the lead few are sent, so that what reads them has begun. One line answers: what was sent, when
it began and ended, how much processor time that took, and the longest pause.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Final, TypedDict

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.processes.frames import Sender, Watch
from oop_engine.processes.parent import Orphaned, parent_watch
from oop_engine.processes.ring import Ring
from operators.data.page import Page
from operators.data.schema import Schema
from punctuation import END, before

PACKETS: Final = Schema.of(
    ts=pa.timestamp("ns", "UTC"), srcIP="ip", destIP="ip", srcPort="uint16", destPort="uint16", proto="uint8",
    len="uint32", progress=["ts"],
)  # fmt: skip
RECORDS: Final = 30
"""Flows in a datagram, as many as NetFlow v5 allows."""
PAUSE: Final = 0.002
"""Seconds between two bursts."""
MOST: Final = 1 << 16
"""Packets in a page."""
_HEAD: Final = struct.Struct(">HHIIIIHH")
_RECORD: Final = struct.Struct(">4s4s4sHHIIIIHHBBBBHHBBH")
_BODIES: Final = 64
_SLOW: Final = 10_000
"""The rate of a lead, at most."""
_PATIENCE: Final = 4
"""Times the length of a turn after which one is given up that cannot reach its rate."""


class Turn(TypedDict):
    """Say what a turn is asked for."""

    rate: int
    seconds: float
    lead: float
    port: int


@attrs.frozen
class Sent:
    """Hold what a turn did: packets or flows, begin and end (seconds since 1970), processor time, longest pause.

    `led` is how many it sent before it began.
    """

    led: int
    sent: int
    began: float
    ended: float
    cpu: float
    longest: float


@attrs.define(eq=False)
class Pool:
    """The addresses and ports that packets have: of each of so many sources, in an order that looks random."""

    groups: int
    _columns: pa.RecordBatch = attrs.field(init=False)
    _at: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        random, n = np.random.default_rng(1), 2 * MOST
        plain = Schema.of(srcIP="ip", destIP="ip", srcPort="uint16", destPort="uint16", proto="uint8", len="uint32")
        numbers = np.arange(n) % self.groups
        random.shuffle(numbers)
        addresses = np.zeros((n, 2, 16), np.uint8)
        addresses[:, :, 10:12] = 255
        addresses[:, 0, 12:] = (10 * 2**24 + numbers).astype(">u4").view(np.uint8).reshape(n, 4)
        addresses[:, 1, 12:] = (192 * 2**24 + random.integers(0, 250, n)).astype(">u4").view(np.uint8).reshape(n, 4)
        kind = plain.arrow.field("srcIP").type
        ips = [
            pa.FixedSizeBinaryArray.from_buffers(kind, n, [None, pa.py_buffer(addresses[:, i].tobytes())])
            for i in (0, 1)
        ]
        others = [
            pa.array(random.integers(1024, 2**16, n), pa.uint16()),
            pa.array(random.choice([53, 80, 443], n), pa.uint16()),
            pa.array(random.choice([6, 17], n), pa.uint8()),
            pa.array(random.integers(40, 1500, n), pa.uint32()),
        ]
        self._columns = pa.RecordBatch.from_arrays([*ips, *others], schema=plain.arrow)

    def page(self, begin: int, end: int, n: int) -> Page:
        """Make a page of n packets whose times, in ns, go from `begin` to below `end`."""
        if self._at + n > len(self._columns):
            self._at = 0
        columns = self._columns.slice(self._at, n).columns
        self._at += n
        times = begin + np.arange(n) * (end - begin) // n
        ts = pa.array(times, pa.int64()).cast(PACKETS.arrow.field("ts").type)
        return Page(PACKETS, pa.RecordBatch.from_arrays([ts, *columns], schema=PACKETS.arrow))


def send_packets(ring: Ring, pool: Pool, turn: Turn, watch: Watch = lambda: None) -> Sent:
    """Write packets into a ring at a rate, dropping what it has no room for, and then END.

    Promises wait for room; `watch` is called meanwhile, and raises when nobody reads any more.
    """
    sender, reached = Sender(ring, full="drop", waiting=watch), time.time_ns()

    def burst(due: int) -> None:
        nonlocal reached
        while due:
            n, now = min(due, MOST), time.time_ns()
            sender.send(pool.page(reached, max(now, reached + 1), n))
            reached = max(now, reached + 1)
            sender.send(before("ts", reached))
            due -= n

    found = _paced(turn, 1, burst)
    sender.send(END)
    return found


def send_flows(groups: int, turn: Turn) -> Sent:
    """Send datagrams of flows to a port of this machine at a rate, of so many sources."""
    bodies, number = bodies_of(groups), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("127.0.0.1", turn["port"]))

        def burst(due: int) -> None:
            nonlocal number
            now = time.time()
            for _ in range(due // RECORDS):
                head = _HEAD.pack(
                    5, RECORDS, 1_000_000, int(now), int(now % 1 * 1e9), RECORDS * number & 0xFFFFFFFF, 0, 0
                )
                out.send(head + bodies[number % len(bodies)])
                number += 1

        return _paced(turn, RECORDS, burst)


def _paced(turn: Turn, unit: int, burst: Callable[[int], None]) -> Sent:
    """Call `burst` with how many are due, a multiple of a unit, until the turn is over."""
    slow = min(turn["rate"], _SLOW)
    led, _, _ = _send(slow, turn["lead"], unit, burst)
    used = time.process_time()
    sent, began, longest = _send(turn["rate"], turn["seconds"], unit, burst)
    return Sent(led, sent, began, time.time(), time.process_time() - used, longest)


def _send(rate: int, seconds: float, unit: int, burst: Callable[[int], None]) -> tuple[int, float, float]:
    """Return how many were sent, when that began, and the longest pause."""
    began, sent, longest = time.time(), 0, 0.0
    whole = int(rate * seconds) // unit * unit
    last = began
    while sent < whole and last < began + _PATIENCE * seconds:
        now = time.time()
        longest, last = max(longest, now - last), now
        due = min(whole, int((now - began) * rate) // unit * unit) - sent
        if due > 0:
            burst(due)
            sent += due
        time.sleep(PAUSE)
    return sent, began, longest


def bodies_of(groups: int) -> list[bytes]:
    """Make the records of datagrams of NetFlow v5, with times relative to an uptime that the header gives."""
    random = np.random.default_rng(1)
    count = max(_BODIES, -(-groups // RECORDS))
    numbers = (np.arange(count * RECORDS) % groups).reshape(count, RECORDS)
    ports = random.integers(1024, 2**16, (count, RECORDS))
    return [
        b"".join(
            _RECORD.pack(
                (10 * 2**24 + number).to_bytes(4, "big"), bytes((192, 0, 2, number % 250)), bytes(4), 1, 2,
                1 + number % 99, 40 + number % 9999, 995_000, 999_000, port, 443, 0, 27, 6, 0, 0, 0, 24, 24, 0,
            )
            for number, port in zip(row.tolist(), its.tolist(), strict=True)
        )
        for row, its in zip(numbers, ports, strict=True)
    ]  # fmt: skip


def main(arguments: list[str]) -> int:
    """Take turns until there are no more lines to read, or nobody is there to read what is sent."""
    # The process that began this one takes the interrupt, and closes what this one reads.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    groups, descriptor, capacity = (int(argument) for argument in arguments)
    ring, pool = Ring(descriptor, capacity), Pool(groups)
    watch = parent_watch()
    _say("ready")
    try:
        for line in sys.stdin:
            turn: Turn = json.loads(line)
            found = send_flows(groups, turn) if turn["port"] else send_packets(ring, pool, turn, watch)
            _say(json.dumps(attrs.asdict(found)))
    except (Orphaned, BrokenPipeError):
        return 3
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
