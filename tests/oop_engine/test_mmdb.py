"""Files of MaxMind's format are tables of networks."""

from __future__ import annotations

import ipaddress
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import oop_engine as oop

Value = str | int | bool | list[object] | dict[str, object]
RECORDS: Mapping[str, Value] = {
    "10.0.0.0/8": {"asn": 64500, "country": {"iso_code": "XA", "names": {"de": "Eins", "en": "One"}}},
    "10.1.0.0/16": {"asn": 64501, "tags": ["a"]},
    "2001:db8::/32": {"asn": 64502, "anycast": True},
}


def encoded(value: object) -> bytes:
    """Encode a value as the data section has it; bytes are numbers of 16 or 64 bits that are encoded already."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return bytes([value, 14 - 7])
    if isinstance(value, int):
        data = value.to_bytes(4, "big").lstrip(b"\0")
        return bytes([6 << 5 | len(data)]) + data
    if isinstance(value, str):
        return bytes([2 << 5 | len(value)]) + value.encode()
    if isinstance(value, list):
        return bytes([len(value), 11 - 7]) + b"".join(map(encoded, value))
    assert isinstance(value, dict)
    return bytes([7 << 5 | len(value)]) + b"".join(encoded(key) + encoded(item) for key, item in value.items())


def database(records: Mapping[str, Value]) -> bytes:
    """Write a file of IPv6 networks, in which those of IPv4 lie below ::/96; the longer networks come last."""
    nodes: list[list[int | None]] = [[None, None]]
    leaves: dict[tuple[int, int], int] = {}
    data, places = b"", dict[str, int]()
    for text, record in records.items():
        places[text], data = len(data), data + encoded(record)
        network = ipaddress.ip_network(text)
        length = network.prefixlen + (96 if network.version == 4 else 0)
        bits = f"{int(network.network_address):0128b}"[:length]
        at = 0
        for bit in map(int, bits[:-1]):
            following = nodes[at][bit]
            if following is None:
                # What the shorter network said holds for both halves below it.
                following = nodes[at][bit] = len(nodes)
                nodes.append([None, None])
                if (at, bit) in leaves:
                    place = leaves.pop((at, bit))
                    leaves[(following, 0)] = leaves[(following, 1)] = place
            at = following
        leaves[(at, int(bits[-1]))] = places[text]
    tree = b""
    for number, node in enumerate(nodes):
        for bit, following in enumerate(node):
            place = leaves.get((number, bit))
            value = following if following is not None else len(nodes) + (0 if place is None else 16 + place)
            tree += struct.pack(">I", value)[1:]
    about: dict[str, object] = {
        "node_count": len(nodes), "record_size": b"\xa1\x18", "ip_version": b"\xa1\x06", "database_type": "test",
        "languages": ["en"], "binary_format_major_version": b"\xa1\x02", "binary_format_minor_version": b"\xa0",
        "build_epoch": b"\x01\x02\x01", "description": {},
    }  # fmt: skip
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(about)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "as.mmdb"
    path.write_bytes(database(RECORDS))
    return path


def test_a_database_is_a_table_of_networks(file: Path) -> None:
    addresses = [(1, "10.1.2.3"), (2, "10.2.0.1"), (3, "2001:db8::1"), (4, "8.8.8.8")]
    stream = oop.rows(addresses, oop.Schema.of(ts="int64", srcIP="ip"))
    found = stream.lookup(file, on=("srcIP", "network")).project(
        "asn", "country_iso_code", "country_names_en", "anycast"
    )
    assert [tuple(row.values()) for row in found.to_arrow().to_pylist()] == [
        (64501, None, None, None),
        (64500, "XA", "One", None),
        (64502, None, None, True),
        (None, None, None, None),
    ]
    assert "country_names_de" not in stream.lookup(file, on=("srcIP", "network")).schema.names


def test_a_damaged_database_and_one_that_is_not_there_are_named(file: Path, tmp_path: Path) -> None:
    stream = oop.rows([(1, "10.1.2.3")], oop.Schema.of(ts="int64", srcIP="ip"))
    (tmp_path / "cut.mmdb").write_bytes(file.read_bytes()[:100])
    with pytest.raises(oop.TableError, match=r'"[^"]*cut\.mmdb"(.|\n)*Download'):
        stream.lookup(tmp_path / "cut.mmdb", on=("srcIP", "network"))
    with pytest.raises(oop.SourceError, match=r'no file "[^"]*none\.mmdb"'):
        stream.lookup(tmp_path / "none.mmdb", on=("srcIP", "network"))


def test_without_the_extra_the_way_out_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "maxminddb", None)
    with pytest.raises(ImportError, match=r"oop-engine\[mmdb\]"):
        oop.rows([(1, "10.1.2.3")], oop.Schema.of(ts="int64", srcIP="ip")).lookup(file, on=("srcIP", "network"))
