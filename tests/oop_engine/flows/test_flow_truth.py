"""On exports of others the records are those that other collectors read from them."""

from __future__ import annotations

import csv
import gzip
import ipaddress
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oop_engine.sources.flows import FlowExports, NfdumpFiles, ZeekLogs
from tests.oop_engine.flows.exporter import address, plain
from tests.open_set import OPEN_SET, with_open_set

pytestmark = with_open_set


def rows(source: FlowExports | NfdumpFiles | ZeekLogs) -> list[dict[str, Any]]:
    batches = [chunk for chunk in source.open(source.arrow.names, 65_536).chunks() if isinstance(chunk, pa.RecordBatch)]
    return plain(batches, source.arrow)


def text(value: bytes) -> str:
    parsed = ipaddress.IPv6Address(value)
    return str(parsed.ipv4_mapped or parsed)


def test_the_scenario_gives_every_record_as_it_was_exported() -> None:
    """Three exporters, v5, v9 sampled and IPFIX, one of them with an uptime that wraps, clocks behind and ahead."""
    source = FlowExports([OPEN_SET / "own/flows1.pcap"])
    found = rows(source)
    with gzip.open(OPEN_SET / "own/flows1.records.csv.gz", "rt") as file:
        want = list(csv.DictReader(file))
    assert len(found) == len(want) == 30_737
    # The records are listed exporter by exporter.
    order = {"192.0.2.1": 0, "192.0.2.2": 1, "192.0.2.3": 2}
    found.sort(key=lambda row: order[text(row["exporter"])])
    for seen, said in zip(found, want, strict=True):
        # Exporters round to a millisecond, down or to the nearest; and v9 tells its clock in whole seconds.
        off = 1000 if seen["version"] == 9 else 1
        assert abs(seen["ts"] // 1_000_000 - int(said["start_ms_exporter_clock"])) <= off
        assert abs(seen["end_ts"] // 1_000_000 - int(said["end_ms_exporter_clock"])) <= off
        assert abs(seen["arrival_ts"] - float(said["arrival"]) * 1e9) < 2_000
        assert (text(seen["exporter"]), str(seen["version"])) == (said["exporter"], said["version"])
        assert (text(seen["srcIP"]), text(seen["destIP"])) == (said["src"], said["dst"])
        assert seen["version"] != 10 or seen["vlan"] == int(said["vlan"])  # only its template has it
        for ours, theirs in (
            ("srcPort", "sport"), ("destPort", "dport"), ("proto", "proto"), ("packets", "packets"),
            ("bytes", "ip_bytes"), ("flags", "tcp_flags"), ("sampling", "sampling"),
        ):  # fmt: skip
            assert seen[ours] == int(said[theirs]), ours
    reader = source.open(["bytes"], 65_536)
    list(reader.chunks())
    assert reader.notes() == []
    with open(OPEN_SET / "own/flows1.truth.json") as file:
        truth = {e["ip"]: (e["records"], e["datagrams"]) for e in json.load(file)["exporters"]}
    assert {text(e.address or b""): (e.records, e.datagrams) for e in reader.exporters()} == truth


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
def test_nfdump_stored_the_same_records() -> None:
    ours = rows(FlowExports([OPEN_SET / "own/flows1.pcap"]))
    theirs = rows(NfdumpFiles([OPEN_SET / "own/flows1.nfcapd"]))
    names = ("srcIP", "destIP", "srcPort", "destPort", "proto", "packets", "bytes", "flags")

    def tuples(found: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
        return Counter((*(r[n] for n in names), r["ts"] // 10**6, r["end_ts"] // 10**6) for r in found)

    assert tuples(ours) == tuples(theirs)


# How tshark reads these otherwise: it has no template for the ASA's data of another source id, repeats or omits
# fields that a template has twice, and names the vendors' own elements in its own way.
_BUNDLE = "truth/flows/datagrams_bundle.pcap"


def _joined(cell: str) -> list[str]:
    return [value for value in cell.split("|") if value]


def test_the_datagrams_of_real_devices_give_tsharks_values() -> None:
    found = rows(FlowExports([OPEN_SET / _BUNDLE]))
    with open(OPEN_SET / "truth/flows/datagrams_tshark.tsv") as file:
        frames = list(csv.DictReader(file, delimiter="\t"))
    seen: dict[int, list[dict[str, Any]]] = {}
    for row in found:
        # The bundle has one datagram a second.
        seen.setdefault(row["arrival_ts"] // 10**9 - 1_750_000_000 + 1, []).append(row)
    compared = 0
    for frame in frames:
        ours = seen.get(int(frame["frame.number"]), [])
        for name, cell in (("srcPort", "cflow.srcport"), ("destPort", "cflow.dstport"), ("bytes", "cflow.octets"),
                           ("packets", "cflow.packets"), ("proto", "cflow.protocol")):  # fmt: skip
            want = [int(value) for value in _joined(frame[cell])]
            have = [row[name] for row in ours if row[name] is not None]
            if len(want) == len(have):
                assert have == want, (frame["frame.number"], name)
                compared += len(want)
        for name, four, six in (
            ("srcIP", "cflow.srcaddr", "cflow.srcaddrv6"),
            ("destIP", "cflow.dstaddr", "cflow.dstaddrv6"),
        ):
            want = _joined(frame[four]) + _joined(frame[six])
            have = [text(row[name]) for row in ours if row[name] is not None]
            if len(want) == len(have):
                assert sorted(have) == sorted(want), (frame["frame.number"], name)
                compared += len(want)
    assert compared >= 900


def _influx(path: Path) -> list[dict[str, Any]]:
    """Read lines such as `netflow,source=...,version=IPFIX a=1u,b="x" 123`."""
    found: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        fields = dict(re.findall(r'(\w+)=("[^"]*"|[^, ]+)', line.split(" ", 1)[1]))
        found.append({k: v[1:-1] if v[0] == '"' else int(v.rstrip("ui")) for k, v in fields.items()})
    return found


@pytest.mark.parametrize("name", ["ipfix_example", "netflow_v5_example", "netflow_v9_example"])
def test_another_collector_reads_the_same_records(name: str) -> None:
    folder = OPEN_SET / "flows/telegraf" / name
    ours = rows(FlowExports(sorted(folder.glob("*.bin"))))
    want = [row for row in _influx(folder / "expected.out") if "src" in row]  # the others are options

    def key(source: str, target: str, *rest: Any) -> tuple[Any, ...]:
        return address(source), address(target), *rest

    theirs = Counter(
        key(r["src"], r["dst"], r.get("src_port"), r.get("dst_port"), r.get("in_bytes", r.get("in_total_bytes")),
            r.get("in_packets", r.get("in_total_packets")))
        for r in want
    )  # fmt: skip
    assert (
        Counter((r["srcIP"], r["destIP"], r["srcPort"], r["destPort"], r["bytes"], r["packets"]) for r in ours)
        == theirs
    )
    starts = [r["flow_start_ms"] for r in want if "flow_start_ms" in r]
    assert not starts or Counter(starts) == Counter(r["ts"] // 10**6 for r in ours)


def test_sflow_of_others_is_read() -> None:
    (sample,) = rows(FlowExports([OPEN_SET / "linktypes/tcpdump__sflow_expanded.pcap"]))
    assert (sample["sampling"], sample["bytes"], sample["srcPort"], sample["proto"], sample["vlan"]) == (
        1000,
        104,
        22,
        6,
        809,
    )
    source = FlowExports([OPEN_SET / "linktypes/tcpdump__sflow_multiple_counter_30_pdus.pcap"])
    reader = source.open(["ts"], 65_536)
    list(reader.chunks())
    counted = reader.exporters()
    assert sum(e.datagrams for e in counted if e.protocol == "sFlow v5") == 25
    assert sum(e.counter_samples for e in counted) > 100 and all(not e.malformed for e in counted)


def test_a_file_of_ipfix_is_read_whole() -> None:
    found = rows(FlowExports([OPEN_SET / "flows/example_flows.ipfix"]))
    assert len(found) == 3979 and all(row["ts"] <= row["end_ts"] for row in found)


def test_a_log_of_zeek_is_counted_by_minute_as_elsewhere() -> None:
    found = rows(ZeekLogs([OPEN_SET / "logs/dns.log.gz"]))
    assert len(found) == 53_615
    with open(OPEN_SET / "truth/logs/dns.per60s.csv") as file:
        file.readline()
        want = [tuple(int(value) for value in row.values()) for row in csv.DictReader(file)]
    minutes = Counter(row["ts"] // (60 * 10**9) * 60 for row in found)
    hosts = {m: len({row["srcIP"] for row in found if row["ts"] // (60 * 10**9) * 60 == m}) for m in minutes}
    assert sorted((m, minutes[m], hosts[m]) for m in minutes) == sorted(want)
