"""How fast addresses find their networks in a full routing table, and flows are decoded, named and summed.

    python -m tests.benchmarks.bench_lookup [networks] [addresses] [datagrams] [runs]

The table is generated with the shares of prefix lengths that a routing table of the internet has: 60 % are /24. Some
answers are compared with a search through all networks. Medians of the runs, in processor time of one thread.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, thread_time

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import oop_engine as oop
from oop_engine.sources.flows import FlowDecoder, flow_columns
from operators.data.lookup_table import LookupTable
from operators.data.networks import NetworkIndex
from operators.data.page import Page
from operators.data.schema import Schema
from tests.benchmarks.bench_flows import capture, datagrams, parts, templated, v5

LENGTHS = dict(zip(range(8, 25), (16, 13, 40, 100, 300, 580, 1200, 2100, 13_500, 8_300, 13_800, 25_000, 45_000, 53_000,
                                  112_000, 98_000, 600_000), strict=True))  # fmt: skip
"""Networks of IPv4 by length, as routers have them."""
SIX = {29: 4, 32: 24, 36: 6, 40: 9, 44: 12, 48: 45}
"""The same of IPv6, in per cent."""
Numbers = npt.NDArray[np.int64]


def four(n: int, rng: np.random.Generator) -> list[str]:
    """Draw networks of IPv4, each once."""
    share = np.array(list(LENGTHS.values())) / sum(LENGTHS.values())
    lengths = rng.choice(np.array(list(LENGTHS)), n + n // 5, p=share)
    starts = rng.integers(0x01000000, 0xE0000000, len(lengths)) & ~((1 << (32 - lengths)) - 1)
    drawn = np.unique(np.stack([starts, lengths], 1), axis=0)
    rng.shuffle(drawn)
    return [f"{a >> 24}.{a >> 16 & 255}.{a >> 8 & 255}.{a & 255}/{length}" for a, length in drawn[:n].tolist()]


def six(n: int, rng: np.random.Generator) -> list[str]:
    """Draw networks of IPv6, each once, in the blocks that registries give away."""
    blocks = np.array([0x2001, 0x2400, 0x2406, 0x2600, 0x2606, 0x2800, 0x2A00, 0x2A03, 0x2A0E, 0x2C0F])
    lengths = rng.choice(np.array(list(SIX)), 2 * n, p=np.array(list(SIX.values())) / sum(SIX.values()))
    starts = rng.choice(blocks, 2 * n) << 32 | rng.integers(0, 1 << 32, 2 * n)
    starts &= ~((1 << (48 - lengths)) - 1)
    drawn = np.unique(np.stack([starts, lengths], 1), axis=0)
    rng.shuffle(drawn)
    return [f"{a >> 32:x}:{a >> 16 & 0xFFFF:x}:{a & 0xFFFF:x}::/{length}" for a, length in drawn[:n].tolist()]


def addresses(n: int, rng: np.random.Generator, *, of_six: bool) -> pa.Array:
    """Draw addresses: of IPv4 all over, of IPv6 in the blocks that are given away."""
    data = np.zeros((n, 16), np.uint8)
    if of_six:
        data[:] = rng.integers(0, 256, (n, 16), dtype=np.uint8)
        data[:, 0], data[:, 1] = 0x2A, rng.choice(np.array([0, 3, 14], np.uint8), n)
    else:
        data[:, 10:12] = 255
        data[:, 12:] = rng.integers(0x01000000, 0xE0000000, n).astype(">u4").view(np.uint8).reshape(n, 4)
    return pa.Array.from_buffers(pa.binary(16), n, [None, pa.py_buffer(data)])


def check(index: NetworkIndex, networks: list[str], looked_up: pa.Array, some: int = 5) -> float:
    """Compare some answers with a search through all networks, and return the share of addresses that are in one."""
    read = [ipaddress.ip_network(network) for network in networks]
    found = index.find(looked_up)
    for place in range(some):
        wanted = ipaddress.IPv6Address(looked_up[place].as_py())
        address = wanted.ipv4_mapped or wanted
        best = max(((n.prefixlen, row) for row, n in enumerate(read) if address in n), default=(0, -1))[1]
        assert best == found[place], (address, networks[best], networks[found[place]])
    return float((found >= 0).mean())


def measured(run: Callable[[], object], runs: int) -> float:
    """Give the median seconds of processor time, after one run that compiles."""
    run()
    took: list[float] = []
    for _ in range(runs):
        start = thread_time()
        run()
        took.append(thread_time() - start)
    return median(took)


def pipeline(networks: list[str], count: int, runs: int) -> None:
    """Decode flows, look them up in networks and two tables of names, and sum them by minute."""
    rng = np.random.default_rng(3)
    autonomous = {"network": networks, "asn": rng.integers(1, 70_000, len(networks))}
    protocols = {"proto": list(range(256)), "protocol": [f"protocol {n}" for n in range(256)]}
    ports = {"destPort": list(range(4096)), "service": [f"service {n}" for n in range(4096)]}
    blocks = parts(datagrams(v5(count)), 1 << 10)
    columns = ("ts", "srcIP", "destPort", "proto", "bytes")
    batches = [batch for block in blocks[:1] for batch in FlowDecoder(columns).decode(block)]
    schema = Schema(batches[0].schema, progress=["ts"])

    def decoded() -> list[pa.RecordBatch]:
        decoder = FlowDecoder(columns, available=flow_columns(()))
        return [batch for block in blocks for batch in decoder.decode(block)]

    records = sum(map(len, decoded()))
    seconds = measured(decoded, runs)
    print(f"{'decoded':52}{records / seconds / 1e6:8.2f} M flows/s")
    plain = oop.pages([Page(schema, batch) for batch in decoded()], schema, slack="1 minute")
    named = (
        plain.lookup(autonomous, on=("srcIP", "network"), name="networks")
        .lookup(protocols, "proto", name="protocols")
        .lookup(ports, "destPort", name="ports")
    )

    def summed(stream: oop.Stream, *by: str) -> int:
        windows = stream.window(range="1 minute").aggregate(oop.count(), oop.sum("bytes"), by=by)
        return sum(page["count"].sum() for page in windows)

    assert summed(named, "protocol", "service") == records
    alone = measured(lambda: summed(plain, "proto", "destPort"), runs)
    print(f"{'summed by minute, by numbers':52}{records / alone / 1e6:8.2f} M flows/s")
    enriched = measured(lambda: summed(named.filter("asn > 100"), "protocol", "service"), runs)
    print(f"{'looked up in three tables, summed by names':52}{records / enriched / 1e6:8.2f} M flows/s")
    print(f"{'all: decoded, looked up, summed':52}{records / (seconds + enriched) / 1e6:8.2f} M flows/s")


ENRICHED = (
    "SELECT p.protocol, s.service, count(*) AS flows, sum(bytes) AS bytes [RANGE TUMBLING 1 minute, WA ts] FROM Flows"
    " LOOKUP networks AS n ON srcIP = n.network LOOKUP protocols AS p ON proto = p.proto LOOKUP services AS s"
    " ON destPort = s.port WHERE n.asn > 0 OR n.asn IS NULL GROUP BY p.protocol, s.service"
)


def whole(networks: list[str], count: int, runs: int) -> None:
    """Read captures of exports as users do: decoded, looked up in a million networks and two tables, summed by minute.

    Promises are those of the exporters. Medians of the runs, in processor time of all threads.
    """
    rng = np.random.default_rng(3)
    tables = {
        "networks": {"network": networks, "asn": rng.integers(1, 70_000, len(networks))},
        "protocols": {"proto": list(range(256)), "protocol": [f"protocol {n}" for n in range(256)]},
        "services": {"port": list(range(4096)), "service": [f"service {n}" for n in range(4096)]},
    }
    made = {"NetFlow v5": v5(count), "NetFlow v9": templated(count, 9), "IPFIX": templated(count, 10)}
    with TemporaryDirectory() as folder:
        for name, payloads in made.items():
            path = Path(folder) / f"{name}.pcap"
            capture(path, payloads)
            flows = oop.netflow(path, progress="exporters", active="1 minute", inactive="15 s")
            stream = oop.query(ENRICHED, Flows=flows, tables=tables)
            records = sum(page["flows"].sum() for page in stream)
            took: list[float] = []
            for _ in range(runs):
                start = process_time()
                assert sum(page["flows"].sum() for page in stream) == records
                took.append(process_time() - start)
            print(f"{f'{name}, a capture from file to sums by minute':52}{records / median(took) / 1e6:8.2f} M flows/s")


def main(n: int = 1_000_000, looked_up: int = 4_000_000, count: int = 20_000, runs: int = 5) -> None:
    rng = np.random.default_rng(1)
    networks = [*four(n * 4 // 5, rng), *six(n - n * 4 // 5, rng)]
    texts = pa.array(networks)
    index = NetworkIndex.of(texts, "t.network")
    seconds = measured(lambda: NetworkIndex.of(texts, "t.network"), 1)
    size = sum(array.nbytes for starts in (index.four, index.six) for array in starts.arrays)
    print(f"{len(networks):,} networks: index made in {seconds:.1f} s, {size / 1e6:.0f} MB")
    for name, of_six in (("IPv4", False), ("IPv6", True)):
        drawn = addresses(looked_up, rng, of_six=of_six)
        share = check(index, networks, drawn)
        seconds = measured(lambda drawn=drawn: index.find(drawn), runs)
        print(f"{f'{name}, random addresses, {share:.0%} found':52}{looked_up / seconds / 1e6:8.1f} M lookups/s")
        some = drawn.take(pa.array(rng.zipf(1.2, looked_up) % looked_up))
        seconds = measured(lambda some=some: index.find(some), runs)
        print(f"{f'{name}, addresses as in traffic (Zipf 1.2)':52}{looked_up / seconds / 1e6:8.1f} M lookups/s")
    batch = pa.record_batch({"port": list(range(4096)), "name": [f"service {n}" for n in range(4096)]})
    ports = LookupTable.of("ports", batch, ["port"])
    numbers = pa.array(rng.integers(0, 5000, looked_up).astype(np.uint16))
    seconds = measured(lambda: ports.find([numbers]), runs)
    print(f"{'ports, equal keys, 4,096 rows':52}{looked_up / seconds / 1e6:8.1f} M lookups/s")
    print(f"{count:,} datagrams of NetFlow v5")
    pipeline(networks, count, runs)
    whole(networks, count, runs)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
