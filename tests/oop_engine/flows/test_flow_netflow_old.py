"""NetFlow v1 and v7: records as the exporter wrote them, in the columns of a flow."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.flows.stored import split
from oop_engine.sources.kind import is_stored, kind_of
from tests.capture_files import ether, ipv4, pcap
from tests.naive_flows import naive_flows
from tests.oop_engine.flows.exporter import HERE, NOW, SECOND, address, four, read, v5_record

# Written by hand; records of v1 have 48 bytes, those of v7 52.
V1_BY_HAND = bytes.fromhex(
    "0001 0001 0001 86a0 6856 3300 1dcd 6500"  # 1 record, up 100 s, + 0.5 s
    "0a000001 c0000209 0a0000fe 0003 0004 00000005 00000190 00015f90 00017318"
    "04d2 0050 0000 06 08 1b 00000000000000"
)
V7_BY_HAND = bytes.fromhex(
    "0007 0001 0001 86a0 6856 3300 1dcd 6500 0000 002a 0000 0000"  # sequence 42
    "0a000001 c0000209 00000000 0003 0004 00000005 00000190 00015f90 00017318"
    "04d2 0050 00 1b 06 08 fc00 fc01 18 10 0000 0a0000fd"
)


def v7(count: int, sequence: int = 0, uptime: int = 100_000) -> bytes:
    head = struct.pack(">HHIIIII", 7, count, uptime, NOW, 0, sequence, 0)
    return head + (v5_record() + four("10.0.0.253")) * count


def v1(count: int, uptime: int = 100_000) -> bytes:
    one = v5_record()
    record = one[:36] + b"\0\0" + one[38:40] + one[37:38] + bytes(7)
    return struct.pack(">HHIII", 1, count, uptime, NOW, 0) + record * count


def test_datagrams_written_by_hand() -> None:
    base = 0x68563300 * SECOND + 500_000_000
    for payload, version in ((V1_BY_HAND, 1), (V7_BY_HAND, 7)):
        seen = read([payload], arrival=[5], more=["ipv4RouterSc"])
        (row,) = seen.rows
        assert {name: row[name] for name in ("ts", "end_ts", "srcIP", "destIP", "srcPort", "destPort", "proto")} == {
            "ts": base - 10_000_000_000, "end_ts": base - 5_000_000_000, "srcIP": address("10.0.0.1"),
            "destIP": address("192.0.2.9"), "srcPort": 1234, "destPort": 80, "proto": 6,
        }  # fmt: skip
        assert (row["bytes"], row["packets"], row["flags"], row["tos"], row["in_if"], row["out_if"]) == (
            400,
            5,
            27,
            8,
            3,
            4,
        )
        later = version == 7
        assert (row["src_as"], row["dest_as"]) == ((0xFC00, 0xFC01) if later else (None, None))
        assert (row["src_mask"], row["dest_mask"]) == ((24, 16) if later else (None, None))
        assert row["next_hop"] == address("0.0.0.0" if later else "10.0.0.254")
        assert row["ipv4RouterSc"] == (address("10.0.0.253") if later else None)
        assert (row["version"], row["domain"], row["sampling"], row["export_ts"]) == (version, 0, 1, base)
        assert (seen.only.protocol, seen.only.records, seen.only.malformed) == (f"NetFlow v{version}", 1, {})


@given(st.lists(st.tuples(st.sampled_from([1, 7]), st.integers(0, 5), st.integers(0, 300)), max_size=8))
def test_datagrams_whole_and_cut_are_read_as_record_by_record(drawn: list[tuple[int, int, int]]) -> None:
    payloads, sequence = [], 0
    for place, (version, count, cut) in enumerate(drawn):
        payload = v1(count, uptime=100_000 + place) if version == 1 else v7(count, sequence, 100_000 + place)
        sequence += count if version == 7 else 0
        payloads.append(payload[: len(payload) - cut % 60] if cut > 200 else payload)
    seen = read(payloads)
    rows = naive_flows(payloads, [NOW * SECOND] * len(payloads), [HERE] * len(payloads))
    names = (
        "ts",
        "end_ts",
        "srcIP",
        "destIP",
        "srcPort",
        "destPort",
        "bytes",
        "flags",
        "proto",
        "tos",
        "src_as",
        "version",
    )
    assert [[row[name] for name in names] for row in seen.rows] == [[row[name] for name in names] for row in rows]


def test_what_is_lost_of_v7_is_counted_in_flows_and_a_copy_of_either_is_left_out() -> None:
    seen = read([v7(2, 10), v7(2, 15), v7(2, 15), v7(2, 17)])
    assert (seen.only.lost, seen.only.losses, seen.only.duplicated, len(seen.rows)) == (3, "flow records", 1, 6)
    seen = read([v1(2), v1(2), v1(3, uptime=100_001)])
    assert (seen.only.lost, seen.only.duplicated, len(seen.rows)) == (0, 1, 5)


def test_a_datagram_of_another_length_than_announced_gives_its_whole_records() -> None:
    for whole in (v1(3), v7(3)):
        seen = read([whole[:-10]])
        assert (len(seen.rows), seen.only.malformed) == (2, {"length": 1})
    for short in (v1(0)[:15], v7(0)[:23]):
        assert read([short]).exporters[-1].malformed == {"header": 1}


def test_files_of_datagrams_are_recognised_and_split(tmp_path: Path) -> None:
    data = v1(2) + v7(3) + v1(1)
    assert split(data).places == [(0, 112), (112, 180), (292, 64)]
    path = tmp_path / "flows.bin"
    path.write_bytes(data)
    assert kind_of(path) == "netflow"
    assert len(oop.read(path).to_arrow()) == 6
    for head in (b"\0\1\0\0", b"\0\7\0\x1f", b"\0\1\1\0", b"\0\1"):
        assert not is_stored(head)


def test_a_capture_is_read_as_tshark_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "old.pcap"
    payloads = [V1_BY_HAND, V7_BY_HAND, v1(3), v7(2, 43)]
    frames = [ether(ipv4(struct.pack(">HHHH", 9, 2055, 8 + len(one), 0) + one, 17)) for one in payloads]
    path.write_bytes(pcap([(NOW * SECOND + k, frame) for k, frame in enumerate(frames)]))
    rows = oop.netflow(path).to_arrow().to_pylist()
    assert len(rows) == 7
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    fields = {
        "srcaddr": "srcIP", "dstaddr": "destIP", "srcport": "srcPort", "dstport": "destPort", "protocol": "proto",
        "octets": "bytes", "packets": "packets", "tcpflags": "flags", "tos": "tos", "inputint": "in_if",
        "outputint": "out_if",
    }  # fmt: skip
    command = ["tshark", "-r", str(path), "-n", "-d", "udp.port==2055,cflow", "-T", "fields", "-E", "occurrence=a"]
    command += [argument for field in fields for argument in ("-e", f"cflow.{field}")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    told = [values for line in lines for values in zip(*(cell.split(",") for cell in line.split("\t")), strict=True)]
    shown = [tuple(value if "." in value else int(value, 0) for value in values) for values in told]
    assert shown == [tuple(row[name] for name in fields.values()) for row in rows]
