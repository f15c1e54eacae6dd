"""Interface counters of sFlow are those in the datagrams, each sample a row; hostile bytes are counted."""

from __future__ import annotations

import random
import shutil
import socket
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

import oop_engine as oop
from oop_engine.sources.capture import DecodeError
from oop_engine.sources.flows import COUNTER_SCHEMA, InterfaceCounters
from oop_engine.sources.flows.counter_samples import FIELDS
from tests.capture_files import SECOND, ether, ipv4, pcap
from tests.examples import chosen
from tests.open_set import OPEN_SET, with_open_set

NAMES = COUNTER_SCHEMA.names[5:]
BEGIN = 1_700_000_000 * SECOND


def record(values: dict[str, int]) -> bytes:
    numbers = [values.get(name, 0) for name in NAMES]
    return struct.pack(">" + "".join("Q" if size == 8 else "I" for size in FIELDS), *numbers)


def sample(*records: bytes, sequence: int = 1, expanded: bool = False, kind: int = 1) -> bytes:
    body = struct.pack(">III", sequence, 0, 7) if expanded else struct.pack(">II", sequence, 7)
    body += struct.pack(">I", len(records))
    body += b"".join(struct.pack(">II", kind, len(one)) + one for one in records)
    return struct.pack(">II", 4 if expanded else 2, len(body)) + body


def datagram(*samples: bytes, agent: str = "192.0.2.7", uptime: int = 5000) -> bytes:
    head = struct.pack(">II", 5, 1) + socket.inet_aton(agent) + struct.pack(">IIII", 3, 9, uptime, len(samples))
    return head + b"".join(samples)


def frame(payload: bytes, port: int = 6343) -> bytes:
    return ether(ipv4(struct.pack(">HHHH", 40_000, port, 8 + len(payload), 0) + payload, 17))


def written(path: Path, payloads: list[bytes], port: int = 6343) -> Path:
    path.write_bytes(pcap([(BEGIN + k * SECOND, frame(one, port)) for k, one in enumerate(payloads)]))
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    return oop.sflow_counters(path, **options).to_arrow().to_pylist()


def test_every_counter_of_a_sample_is_an_attribute(tmp_path: Path) -> None:
    values = {name: 3 + place for place, name in enumerate(NAMES)}
    values |= {"in_bytes": 2**63 + 5, "if_speed": 10**11, "in_unknown": 2**32 - 1, "out_bytes": 2**64 - 1}
    for expanded in (False, True):
        payload = datagram(sample(record(values), sequence=12, expanded=expanded))
        (row,) = read(written(tmp_path / "counters.pcap", [payload]))
        assert {name: row[name] for name in NAMES} == {**values, "in_unknown": None, "out_bytes": None}
        assert (row["exporter"], row["domain"], row["sequence"], row["uptime"]) == ("192.0.2.7", 3, 12, 5000)
        assert row["ts"].value == BEGIN


def test_samples_and_records_of_other_kinds_are_passed_and_counted(tmp_path: Path) -> None:
    flow = struct.pack(">II", 1, 40) + bytes(40)
    one = record({"if_index": 1})
    payload = datagram(flow, sample(one), sample(bytes(52), kind=2), sample(one, one, expanded=True))
    path = written(tmp_path / "mixed.pcap", [payload, struct.pack(">HH", 9, 0) + bytes(16), payload])
    reader = InterfaceCounters((path,)).open(["if_index"], 2)
    sizes = [len(batch) for batch in reader.chunks()]
    assert sum(sizes) == 6 and max(sizes) <= 2
    told = reader.notes()
    assert told[0].endswith("1 datagrams of other protocols left out")
    assert told[1].endswith("2 records of other counters than those of interfaces left out")
    assert reader.progress() == (path.stat().st_size,) * 2


def test_files_of_datagrams_have_counters_without_a_time(tmp_path: Path) -> None:
    path = tmp_path / "counters.bin"
    path.write_bytes(datagram(sample(record({"if_index": 4}))) * 3)
    assert [(row["ts"], row["if_index"]) for row in read(path)] == [(None, 4)] * 3
    path.write_bytes(path.read_bytes()[:-10])
    assert len(read(path)) == 2
    with pytest.raises(DecodeError, match="truncated"):
        read(path, strict=True)


def test_ports_choose_the_datagrams_of_a_capture(tmp_path: Path) -> None:
    path = written(tmp_path / "elsewhere.pcap", [datagram(sample(record({})))], port=7000)
    assert read(path) == []
    assert len(read(path, ports=7000)) == 1
    assert oop.read(path, format="sflow_counters").schema.names == COUNTER_SCHEMA.names


def naive(payload: bytes) -> tuple[list[int], int]:
    """Return the indexes of the interfaces in a datagram, and how many of its samples or records are bad."""
    found: list[int] = []
    bad, at, left = 0, 28, struct.unpack_from(">I", payload, 24)[0]
    for _ in range(left):
        head = payload[at : at + 8]
        if len(head) < 8 or at + 8 + int.from_bytes(head[4:], "big") > len(payload):
            return found, bad + 1
        kind, size = struct.unpack(">II", head)
        body, at = payload[at + 8 : at + 8 + size], at + 8 + size
        if kind not in (2, 4):
            continue
        place = 8 if kind == 2 else 12
        if len(body) < place + 4:
            bad += 1
            continue
        (many,) = struct.unpack_from(">I", body, place)
        place += 4
        for _ in range(many):
            head = body[place : place + 8]
            if len(head) < 8 or place + 8 + int.from_bytes(head[4:], "big") > len(body):
                bad += 1
                break
            kind_of, size = struct.unpack(">II", head)
            if kind_of == 1 and size >= 88:
                found.append(int.from_bytes(body[place + 8 : place + 12], "big"))
            bad += kind_of == 1 and size < 88
            place += 8 + size
    return found, bad


def test_changed_and_cut_datagrams_give_what_a_reading_record_by_record_gives(tmp_path: Path) -> None:
    made, payloads = random.Random(4), []
    for _ in range(60 * chosen.unit):
        samples = [
            sample(
                *(record({"if_index": made.randrange(99)}) for _ in range(made.randrange(3))),
                expanded=made.random() < 0.5,
            )
            for _ in range(made.randrange(1, 4))
        ]
        payload = bytearray(datagram(*samples))
        if made.random() < 0.7:
            payload[made.randrange(24, len(payload))] = made.choice((0, 1, 2, 88, 255))
        payloads.append(bytes(payload[: made.choice((len(payload), made.randrange(28, len(payload) + 1)))]))
    reader = InterfaceCounters((written(tmp_path / "hostile.pcap", payloads),)).open(COUNTER_SCHEMA.names, 100)
    rows = [row for batch in reader.chunks() for row in batch.to_pylist()]
    known = [naive(payload) for payload in payloads]
    # An index of all bits is none.
    indexes = [None if index == 2**32 - 1 else index for found, _ in known for index in found]
    assert [row["if_index"] for row in rows] == indexes
    assert reader.counts[2] == sum(bad for _, bad in known)


def test_utilisation_of_a_window_does_not_hang_on_the_order_of_arrival(tmp_path: Path) -> None:
    def counters(second: int) -> bytes:
        one = record({"if_index": 1, "if_speed": 1_000_000, "in_bytes": 2**62 + 25_000 * second})
        return datagram(sample(one, sequence=second))

    records = [(BEGIN + second * SECOND, frame(counters(second))) for second in range(0, 60, 10)]
    text = (
        "SELECT if_index, (max(in_bytes) - min(in_bytes)) * 8 AS bits, max(ts) - min(ts) AS seconds"
        " [RANGE 10 minutes, WA ts] FROM C GROUP BY if_index"
    )
    answers = []
    for order in (records, records[::-1], random.Random(1).sample(records, len(records))):
        (tmp_path / "c.pcap").write_bytes(pcap(order))
        stream = oop.sflow_counters(tmp_path / "c.pcap", slack="2 minutes")
        answers.append(oop.query(text, C=stream).to_arrow().to_pylist())
    assert answers[1:] == [answers[0]] * 2
    assert answers[0][0]["bits"] == 50 * 25_000 * 8


FIELDS_OF_TSHARK = [
    f"sflow_245.{name}" for name in ("ifindex", "iftype", "ifspeed", "ifinoct", "ifinpkt", "ifoutoct", "ifouterr")
]


@with_open_set
def test_counters_of_others_are_those_of_tshark() -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    path = OPEN_SET / "linktypes/tcpdump__sflow_multiple_counter_30_pdus.pcap"
    command = ["tshark", "-r", str(path), "-n", "-T", "fields", "-E", "occurrence=a"]
    command += [argument for field in FIELDS_OF_TSHARK for argument in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    told = [
        tuple(int(value) for value in values)
        for line in lines
        for values in zip(*(cell.split(",") if cell else [] for cell in line.split("\t")), strict=True)
    ]
    names = ("if_index", "if_type", "if_speed", "in_bytes", "in_unicast", "out_bytes", "out_errors")
    assert [tuple(row[name] for name in names) for row in read(path)] == told
    assert len(told) == 142
