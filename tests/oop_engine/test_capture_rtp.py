"""Headers of RTP are those in the datagrams, and jitter does not hang on the order of arrival."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import oop_engine as oop
from tests.capture_files import SECOND, Record, ether, ipv4, pcap, rows, tcp
from tests.examples import chosen

NAMES = ["rtp_type", "rtp_seq", "rtp_ts", "rtp_ssrc"]
COOKBOOK = Path(__file__).resolve().parents[2] / "docs/cookbook.md"


def datagram(content: bytes) -> bytes:
    return ether(ipv4(struct.pack(">HHHH", 4000, 5004, 8 + len(content), 0) + content, 17))


def rtp(number: int, *, kind: int = 8, time: int = 0, source: int = 7, bits: int = 0x80) -> bytes:
    return struct.pack(">BBHII", bits, kind, number & 0xFFFF, time, source) + bytes(20)


def naive(content: bytes) -> tuple[int | None, ...]:
    if len(content) < 12 or content[0] >> 6 != 2 or 72 <= content[1] & 0x7F <= 76:
        return (None,) * 4
    return content[1] & 0x7F, *struct.unpack(">HII", content[2:12])


def test_headers_of_any_datagrams_cut_anywhere_are_read_as_byte_by_byte() -> None:
    made, contents = random.Random(2), []
    for _ in range(60 * chosen.unit):
        content = rtp(
            made.randrange(1 << 16), kind=made.randrange(256), time=made.randrange(1 << 32),
            source=made.randrange(1 << 32), bits=made.choice((0x80, 0x80, 0x9F, 0xB0, 0x40, 0xC0)),
        )  # fmt: skip
        contents.append(content[: made.choice((len(content), made.randrange(len(content) + 1)))])
    read = rows(pcap([(SECOND, datagram(content)) for content in contents]), columns=NAMES)
    assert [tuple(row[name] for name in NAMES) for row in read] == [naive(content) for content in contents]


def test_only_udp_has_rtp() -> None:
    (row,) = rows(pcap([(SECOND, ether(ipv4(tcp(rtp(1)), 6)))]), columns=NAMES)
    assert set(row.values()) == {None}


def call(count: int = 60) -> list[Record]:
    late = random.Random(6)
    return [
        (1_700_000_000 * SECOND + k * 20_000_000 + late.randrange(9) * 1_000_000, datagram(rtp(k, time=160 * k)))
        for k in range(count)
    ]


def test_jitter_is_the_mean_of_the_differences_for_every_order_of_arrival(tmp_path: Path) -> None:
    section = re.search(r'JITTER = """(.*?)"""', COOKBOOK.read_text(encoding="utf-8"), re.DOTALL)
    assert section is not None
    records = call()
    gaps = [abs(two - one - 20_000_000) / SECOND for (one, _), (two, _) in pairwise(records)]
    path = tmp_path / "call.pcap"
    for order in (records, records[::-1], random.Random(1).sample(records, len(records))):
        path.write_bytes(pcap(order))
        stream = oop.pcap(path, columns=NAMES, slack="1 minute")
        (row,) = oop.query(section[1], M=stream).to_arrow().to_pylist()
        assert row["jitter"] == pytest.approx(sum(gaps) / len(gaps))
        assert (row["most"], row["packets"]) == (pytest.approx(max(gaps)), len(gaps))


def test_headers_are_those_of_tshark(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    path = tmp_path / "call.pcap"
    path.write_bytes(
        pcap([*call(5), (1_700_000_009 * SECOND, datagram(rtp(65_535, kind=0xE0, time=2**32 - 1, bits=0x90)))])
    )
    fields = ("rtp.p_type", "rtp.seq", "rtp.timestamp", "rtp.ssrc")
    command = ["tshark", "-r", str(path), "-n", "-d", "udp.port==5004,rtp", "-T", "fields"]
    command += [argument for field in fields for argument in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    told: list[tuple[Any, ...]] = [tuple(int(cell, 0) for cell in line.split("\t")) for line in lines]
    assert [tuple(row[name] for name in NAMES) for row in rows(path, columns=NAMES)] == told
