"""Traffic made from a seed in which attacks are hidden: background of many clients, and what `Truth` tells of.

Clients open connections to a few services and get answers, servers ask a resolver, a monitor pings every two seconds;
among them are a SYN flood, a vertical and a slow horizontal scan, a DNS amplification, a heavy sender and a beacon.
`flows` makes flow records of the packets, as an exporter with active and inactive timeouts does, late and out of order.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.generator import START
from operators.data.schema import ip_field

SECOND = 1_000_000_000
TIME = pa.timestamp("ns", "UTC")
LENGTH = 900 * SECOND
SCHEMA = pa.schema(
    [
        pa.field("ts", TIME), ip_field("srcIP"), ip_field("destIP"), pa.field("srcPort", pa.uint16()),
        pa.field("destPort", pa.uint16()), pa.field("proto", pa.uint8()), pa.field("length", pa.int32()),
        pa.field("flags", pa.uint8()),
    ]
)  # fmt: skip
FLOWS = pa.schema(
    [
        *list(SCHEMA)[:6], pa.field("flags", pa.uint16()), pa.field("end_ts", TIME), pa.field("bytes", pa.uint64()),
        pa.field("packets", pa.uint64()), pa.field("sampling", pa.uint32()),
    ]
)  # fmt: skip
SYN, ACK, DATA = 2, 16, 24


@attrs.frozen
class Truth:
    """Who did what to whom, and when; times in ns since 1970."""

    flooded: str
    scanner: str
    scanned: str
    crawler: str
    victim: str
    sender: str
    beacon: str
    home: str
    flood: tuple[int, int]
    scan: tuple[int, int]
    crawl: tuple[int, int]
    amplification: tuple[int, int]


@attrs.define
class Packets:
    """Packets as columns, in any order."""

    ts: list[np.ndarray] = attrs.field(factory=list)
    rows: list[np.ndarray] = attrs.field(factory=list)

    def add(
        self,
        ts: np.ndarray,
        source: object,
        target: object,
        sport: object,
        dport: object,
        proto: int,
        length: object,
        flags: int,
    ) -> None:
        columns = [np.broadcast_to(np.asarray(c, np.int64), ts.shape) for c in
                   (source, target, sport, dport, proto, length, flags)]  # fmt: skip
        self.ts.append(ts.astype(np.int64))
        self.rows.append(np.stack(columns, axis=1))


def number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def packed(numbers: Iterable[int]) -> pa.Array:
    words = [bytes(10) + b"\xff\xff" + int(n).to_bytes(4, "big") for n in numbers]
    return pa.array(words, pa.binary(16))


def scenario(seed: int) -> tuple[pa.Table, Truth]:
    """Give the packets of fifteen minutes in order of time, and what is hidden in them."""
    random = np.random.default_rng(seed)
    clients = number("10.1.0.0") + random.choice(4000, 150, replace=False)
    services = number("203.0.113.0") + np.arange(1, 9)
    hosts = [str(ipaddress.IPv4Address(int(c))) for c in clients[:4]]
    began = [START + int(t) * SECOND for t in random.integers(100, 500, 3)]
    truth = Truth(
        flooded=str(ipaddress.IPv4Address(int(services[random.integers(8)]))), scanner="192.0.2.66", scanned=hosts[0],
        crawler="192.0.2.99", victim="203.0.113.34", sender=hosts[1], beacon=hosts[2], home="198.51.100.77",
        flood=(began[0], began[0] + 40 * SECOND), scan=(began[1], began[1] + 20 * SECOND),
        crawl=(START + 60 * SECOND, START + 700 * SECOND), amplification=(began[2], began[2] + 30 * SECOND),
    )  # fmt: skip
    packets = Packets()
    _background(packets, random, clients, services)
    _attacks(packets, random, truth)
    ts, rows = np.concatenate(packets.ts), np.concatenate(packets.rows)
    order = np.argsort(ts, kind="stable")
    ts, rows = ts[order], rows[order]
    arrays = [
        pa.array(ts).view(TIME), packed(rows[:, 0]), packed(rows[:, 1]), pa.array(rows[:, 2].astype(np.uint16)),
        pa.array(rows[:, 3].astype(np.uint16)), pa.array(rows[:, 4].astype(np.uint8)),
        pa.array(rows[:, 5].astype(np.int32)), pa.array(rows[:, 6].astype(np.uint8), mask=rows[:, 6] < 0),
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=SCHEMA), truth


def _background(packets: Packets, random: np.random.Generator, clients: np.ndarray, services: np.ndarray) -> None:
    n = 3000
    opened = START + random.integers(0, LENGTH - 5 * SECOND, n)
    client, service = random.choice(clients, n), random.choice(services, n, p=random.dirichlet(np.ones(8)))
    sport, dport = random.integers(20_000, 60_000, n), random.choice([443, 80, 25], n)
    rtt = random.integers(5_000_000, 80_000_000, n)
    packets.add(opened, client, service, sport, dport, 6, 60, SYN)
    packets.add(opened + rtt, service, client, dport, sport, 6, 60, SYN | ACK)
    for k in range(3):
        after = opened + (k + 2) * rtt + random.integers(0, SECOND, n)
        packets.add(after, client, service, sport, dport, 6, random.integers(60, 600, n), DATA)
        packets.add(after + rtt, service, client, dport, sport, 6, random.integers(60, 1500, n), DATA)
    asked = START + random.integers(0, LENGTH, 1500)
    asker = random.choice(clients, len(asked))
    resolver, port = number("10.1.255.53"), random.integers(20_000, 60_000, len(asked))
    packets.add(asked, asker, resolver, port, 53, 17, 80, -1)
    packets.add(asked + 2_000_000, resolver, asker, 53, port, 17, random.integers(90, 500, len(asked)), -1)
    pings = START + np.arange(0, LENGTH, 2 * SECOND)
    packets.add(pings, number("10.1.0.1"), int(services[0]), 8, 0, 1, 98, -1)


def _attacks(packets: Packets, random: np.random.Generator, truth: Truth) -> None:
    def times(span: tuple[int, int], n: int) -> np.ndarray:
        return random.integers(span[0], span[1], n)

    made_up = number("100.64.0.0") + random.choice(1 << 20, 6000, replace=False)
    ports = random.integers(1024, 65_000, 6000)
    packets.add(times(truth.flood, 6000), made_up, number(truth.flooded), ports, 443, 6, 60, SYN)
    tried = random.permutation(np.arange(1, 1001))
    packets.add(times(truth.scan, 1000), number(truth.scanner), number(truth.scanned), 45_000, tried, 6, 60, SYN)
    swept = number("10.1.3.0") + np.arange(1, 161)
    slow = np.linspace(*truth.crawl, 160).astype(np.int64)
    packets.add(slow, number(truth.crawler), swept, 46_000, 3389, 6, 60, SYN)
    reflectors = number("198.18.0.0") + random.integers(0, 200, 2500)
    sizes = random.integers(1000, 1500, 2500)
    packets.add(times(truth.amplification, 2500), reflectors, number(truth.victim), 53, 40_000, 17, sizes, -1)
    heavy = times((START + 600 * SECOND, START + 660 * SECOND), 4000)
    packets.add(heavy, number(truth.sender), number("198.51.100.200"), 50_000, 443, 6, 1500, DATA)
    calls = START + 5 * SECOND + 20 * SECOND * np.arange(43) + random.integers(0, SECOND // 2, 43)
    packets.add(calls, number(truth.beacon), number(truth.home), random.integers(1024, 65_000, 43), 8443, 6, 74, SYN)


def disordered(table: pa.Table, seed: int, delay: int) -> pa.Table:
    """Give the same tuples, each up to so much later than it was."""
    ts = table.column("ts").cast(pa.int64()).to_numpy()
    late = np.random.default_rng(seed).integers(0, delay, len(ts))
    return table.take(pa.array(np.argsort(ts + late, kind="stable")))


def flows(table: pa.Table, *, active: int = 60 * SECOND, inactive: int = 15 * SECOND) -> pa.Table:
    """Give flow records of packets, in the order of their export: when a scan every 10 s finds them over."""
    columns = {name: table.column(name).to_pylist() for name in SCHEMA.names[1:]}
    ts = table.column("ts").cast(pa.int64()).to_pylist()
    keys = list(zip(*(columns[name] for name in SCHEMA.names[1:6]), strict=True))
    live: dict[tuple[object, ...], list[int]] = {}
    done: list[tuple[int, int, tuple[object, ...], list[int]]] = []

    def export(key: tuple[object, ...], flow: list[int]) -> None:
        over = min(flow[1] + inactive, flow[0] + active)
        done.append((over // (10 * SECOND), hash(key) & 0xFFFF, key, flow))

    for at, key, length, flags in zip(ts, keys, columns["length"], columns["flags"], strict=True):
        flow = live.get(key)
        if flow is not None and (at - flow[1] > inactive or at - flow[0] > active):
            export(key, flow)
            flow = None
        if flow is None:
            flow = live[key] = [at, at, 0, 0, 0]
        flow[1], flow[2], flow[3], flow[4] = at, flow[2] + length, flow[3] + 1, flow[4] | (flags or 0)
    for key, flow in live.items():
        export(key, flow)
    done.sort(key=lambda record: record[:2])
    own = list(zip(*(record[2] for record in done), strict=True))
    told = list(zip(*(record[3] for record in done), strict=True))
    arrays = [
        pa.array(told[0]).view(TIME), pa.array(own[0], pa.binary(16)), pa.array(own[1], pa.binary(16)),
        *(pa.array(own[k], SCHEMA.field(k + 1).type) for k in (2, 3, 4)), pa.array(told[4], pa.uint16()),
        pa.array(told[1]).view(TIME), pa.array(told[2], pa.uint64()), pa.array(told[3], pa.uint64()),
        pa.array([1] * len(done), pa.uint32()),
    ]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=FLOWS)
