"""Daily questions about packets have one answer whatever the order of arrival, and it is that of a plain reading."""

from __future__ import annotations

import random
import re
import struct
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import oop_engine as oop
from tests.capture_files import SECOND, Record, ether, ipv4, pcap, rows

BEGIN = 1_700_000_000 * SECOND
COOKBOOK = Path(__file__).resolve().parents[2] / "docs/cookbook.md"


def query_of(title: str) -> str:
    """Return the query of a section of the cookbook."""
    section = re.search(rf"^## {title}$(.*?)^## ", COOKBOOK.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert section is not None, title
    command = re.search(r'oop-engine query "(.*?)" -s', section[1])
    assert command is not None, title
    return re.sub(r" ORDER BY .*| HAVING .*", "", command[1])


def packets() -> list[Record]:
    """Make segments of two connections, some behind, some twice, in the order of time."""
    made = random.Random(8)
    found = []
    for k in range(120):
        port = made.choice((1000, 1001))
        sequence = 100 * k - made.choice((0, 0, 0, 150, 500))
        head = struct.pack(">HHIIBBHHH", port, 80, max(sequence, 0), 1, 5 << 4, 0x10, 512, 0, 0)
        found.append((BEGIN + k * 170_000_000 + made.randrange(1000) * 1000, ether(ipv4(head + bytes(k % 3), 6))))
    return found


def answer(path: Path, text: str, records: list[Record]) -> Counter[Any]:
    path.write_bytes(pcap(records))
    found = oop.query(text, M=oop.pcap(path, slack="1 minute")).to_arrow().to_pylist()
    return Counter(tuple(sorted((name, str(value)) for name, value in row.items())) for row in found)


@pytest.mark.parametrize("title", ["Retransmissions", "Segments out of order", "Traffic matrix", "Microbursts"])
def test_the_answer_is_the_same_for_every_order_of_arrival(tmp_path: Path, title: str) -> None:
    records, text = packets(), query_of(title)
    in_order = answer(tmp_path / "packets.pcap", text, records)
    assert in_order
    for order in (records[::-1], random.Random(1).sample(records, len(records))):
        assert answer(tmp_path / "packets.pcap", text, order) == in_order


def test_segments_out_of_order_are_those_that_a_plain_reading_finds(tmp_path: Path) -> None:
    path = tmp_path / "packets.pcap"
    path.write_bytes(pcap(packets()))
    behind: dict[int, int] = defaultdict(int)
    seen = [row for row in rows(path) if row["payload_length"]]
    for one in seen:
        earlier = (
            other["seq"]
            for other in seen
            if other["srcPort"] == one["srcPort"] and one["ts"] - 3 * SECOND <= other["ts"] <= one["ts"]
        )
        behind[one["ts"] // (10 * SECOND)] += max(earlier) > one["seq"]
    found = oop.query(query_of("Segments out of order"), M=oop.pcap(path)).to_arrow().to_pylist()
    assert {row["wid"]: row["behind"] for row in found} == {wid: many for wid, many in behind.items() if many}


def test_a_handshake_takes_from_the_syn_to_its_answer(tmp_path: Path) -> None:
    def segment(flags: int, *, back: bool = False) -> bytes:
        ports = (80, 1000) if back else (1000, 80)
        packet = bytearray(ipv4(struct.pack(">HHIIBBHHH", *ports, 1, 1, 5 << 4, flags, 512, 0, 0), 6))
        if back:
            packet[12:20] = packet[16:20] + packet[12:16]
        return ether(bytes(packet))

    records = [(BEGIN, segment(2)), (BEGIN + 25_000_000, segment(0x12, back=True)), (BEGIN + 26_000_000, segment(0x10))]
    for order in (records, records[::-1]):
        (tmp_path / "handshake.pcap").write_bytes(pcap(order))
        stream = oop.pcap(tmp_path / "handshake.pcap", slack="1 minute")
        (row,) = oop.query(query_of("Round trip of TCP handshakes"), M=stream).to_arrow().to_pylist()
        assert row["handshakes"] == 1
        assert row["max_rtt"].total_seconds() == 0.025
