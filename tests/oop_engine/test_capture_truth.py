"""On captures of others the counts, times, addresses and ports are those that other tools give."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import dpkt
import numba
import pyarrow as pa
import pytest

from oop_engine.sources.capture import Capture
from tests.capture_files import (
    SECOND,
    mapped,
    rows,
)
from tests.open_set import OPEN_SET, with_open_set

# tshark counts headers anywhere in a frame: quoted in ICMP errors and inside tunnels too. It takes custom blocks as
# packets, reads no BIG TCP, and has its own way with times that int64 nanoseconds cannot hold, or whose fraction
# exceeds a second.
INSIDE = {"tcp", "udp"}


COUNTED_OTHERWISE: dict[str, set[str]] = {
    "communityid/combined.pcap.gz": INSIDE,
    "communityid/icmp.pcap": INSIDE,
    "communityid/icmp6.pcap": INSIDE,
    "linktypes/tcpdump__mpls-traceroute.pcap": INSIDE,
    "linktypes/tcpdump__sflow_expanded.pcap": INSIDE | {"vlan"},
    "linktypes/zeek__4in6.pcap": INSIDE | {"ipv4", "ipv6"},
    "linktypes/zeek__6in4.pcap": INSIDE,
    "linktypes/zeek__gre-sample.pcap": INSIDE,
    "traffic/ipfixprobe__mixed.pcap": INSIDE,
    "traffic/suricata-verify__denial6-5.pcap": INSIDE,
    "linktypes/tcpdump__bigtcp-ipv6.pcap": {"tcp"},
    "linktypes/pcapplusplus__pcapng-example.pcapng": {"last", "bad_time"},
    "linktypes/tcpdump__timestamp_invalid_nano.pcap": {"last"},
    "pcapng/le/test017.pcapng": {"packets", "bytes", "bad_time"},
    "pcapng/le/test018.pcapng": {"packets", "bytes", "bad_time"},
    "pcapng/le/test102.pcapng": {"packets", "bytes", "bad_time"},
    "pcapng/le/test202.pcapng": {"packets", "bytes", "bad_time"},
}


SMALL = 300_000 if numba.config.DISABLE_JIT else 1 << 40


def tshark_counts() -> Iterator[dict[str, str]]:
    if OPEN_SET.is_dir():
        yield from csv.DictReader((OPEN_SET / "truth/tshark_counts.csv").read_text().splitlines())
        for row in csv.DictReader((OPEN_SET / "own/s1.tshark_counts.csv").read_text().splitlines()):
            yield {**row, "file": "own/s1.pcap.zst"}


def size_allows(path: Path) -> None:
    if path.stat().st_size > SMALL:
        pytest.skip("with the JIT off only small captures are read")


@with_open_set
@pytest.mark.parametrize("truth", list(tshark_counts()), ids=lambda row: row["file"])
def test_counts_and_times_are_those_of_tshark(truth: dict[str, str]) -> None:
    path = OPEN_SET / truth["file"]
    size_allows(path)
    capture = Capture(path)
    read = pa.Table.from_batches(capture.batches(), schema=capture.schema)
    sources = [address for address in read["srcIP"].to_pylist() if address is not None]
    four = sum(address[:12] == b"\0" * 10 + b"\xff\xff" for address in sources)
    with_ports = [
        proto
        for proto, port in zip(read["proto"].to_pylist(), read["srcPort"].to_pylist(), strict=True)
        if port is not None
    ]
    times = read["ts"].drop_null().cast(pa.int64()).to_pylist()
    got: dict[str, Any] = {
        "packets": read.num_rows, "bytes": sum(read["length"].to_pylist()), "ipv4": four, "ipv6": len(sources) - four,
        "tcp": with_ports.count(6), "udp": with_ports.count(17), "vlan": read.num_rows - read["vlan"].null_count,
        "distinct_src": len(set(sources)), "first": times[0] if times else "", "last": times[-1] if times else "",
        "bad_time": read["ts"].null_count,
    }  # fmt: skip
    for name, value in got.items():
        if name not in COUNTED_OTHERWISE.get(truth["file"], set()):
            if name in ("first", "last") and value != "":
                assert abs(Fraction(value, SECOND) - Fraction(truth[name])) < Fraction(1, 10**6), name
            else:
                assert str(value) == truth[name], name


def per10s() -> Iterator[tuple[Path, Path]]:
    for truth in sorted((OPEN_SET / "truth/per10s").glob("*.csv.gz")):
        yield truth, OPEN_SET / "traffic" / truth.name.removesuffix(".csv.gz")
    if OPEN_SET.is_dir():
        yield OPEN_SET / "own/s1.per10s.csv.gz", OPEN_SET / "own/s1.pcap.zst"


@with_open_set
@pytest.mark.parametrize(("truth", "path"), list(per10s()), ids=lambda path: path.name)
def test_packets_and_bytes_of_each_source_in_ten_seconds_are_the_truth(truth: Path, path: Path) -> None:
    size_allows(path)
    packets: Counter[tuple[int, bytes | None]] = Counter()
    octets: Counter[tuple[int, bytes | None]] = Counter()
    for batch in Capture(path, columns=["ts", "srcIP", "length"]).batches():
        columns = (batch["ts"].cast(pa.int64()).to_pylist(), batch["srcIP"].to_pylist(), batch["length"].to_pylist())
        for ts, source, length in zip(*columns, strict=True):
            key = (ts // (10 * SECOND) * 10, source)
            packets[key] += 1
            octets[key] += length
    with gzip.open(truth, "rt") as text:
        want = {
            (int(row["window_start"]), address_bytes(row["src"])): (int(row["packets"]), int(row["frame_bytes"]))
            for row in csv.DictReader(text)
        }
    assert {key: (packets[key], octets[key]) for key in packets} == want


def address_bytes(text: str) -> bytes | None:
    if not text:
        return None
    return IPv6Address(text).packed if ":" in text else mapped(text)


@with_open_set
@pytest.mark.parametrize("name", ["zeek__workshop_2011_browse.pcap", "zeek__bruteforce.pcap", "tcpdump__mptcp-v0.pcap"])
def test_ports_flags_and_lengths_are_those_of_dpkt(name: str) -> None:
    path = OPEN_SET / "traffic" / name
    with path.open("rb") as file:
        frames = [frame for _, frame in dpkt.pcap.Reader(file)]
    for row, frame in zip(rows(path), frames, strict=True):
        packet = dpkt.ethernet.Ethernet(frame).data
        assert (row["srcIP"][12:], row["destIP"][12:]) == (packet.src, packet.dst)
        assert (row["proto"], row["ttl"], row["ip_length"]) == (packet.p, packet.ttl, packet.len)
        if isinstance(packet.data, dpkt.tcp.TCP | dpkt.udp.UDP):
            assert (row["srcPort"], row["destPort"]) == (packet.data.sport, packet.data.dport)
            assert row["payload_length"] == len(packet.data.data)
        if isinstance(packet.data, dpkt.tcp.TCP):
            assert row["flags"] == packet.data.flags & 0xFF
            assert (row["seq"], row["ack"], row["tcp_window"]) == (packet.data.seq, packet.data.ack, packet.data.win)
            sizes = [value for kind, value in dpkt.tcp.parse_opts(packet.data.opts) if kind == dpkt.tcp.TCP_OPT_MSS]
            opening = packet.data.flags & dpkt.tcp.TH_SYN
            assert row["mss"] == (int.from_bytes(sizes[0], "big") if opening and sizes else None)
        else:
            assert all(row[name] is None for name in ("flags", "seq", "ack", "tcp_window", "mss"))
