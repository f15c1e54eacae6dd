"""Behind every link type, tag and extension header the same addresses and ports are found."""

from __future__ import annotations

import io
import struct

import pytest

from oop_engine.sources.capture import Capture
from tests.capture_files import (
    DATAGRAM,
    FRAMES,
    LINKS,
    RECORDS,
    SECOND,
    SHIMS,
    SIX,
    ether,
    ipv4,
    ipv6,
    mapped,
    only,
    pcap,
    rows,
    syn,
    tcp,
    udp,
)
from tests.examples import mostly_slow


@pytest.mark.parametrize("name", LINKS)
def test_every_link_type_leads_to_the_same_datagram(name: str) -> None:
    link, header = LINKS[name]
    row = only(header + DATAGRAM, link)
    assert (row["srcIP"], row["srcPort"], row["payload_length"], row["status"]) == (mapped("10.1.2.3"), 53, 1, 0)


@pytest.mark.parametrize("name", SHIMS)
def test_tags_and_shims_are_passed_and_the_outer_vlan_is_kept(name: str) -> None:
    shim, vlan = SHIMS[name]
    row = only(b"\2" * 12 + shim + DATAGRAM)
    assert (row["srcIP"], row["destPort"], row["status"], row["vlan"]) == (mapped("10.1.2.3"), 5353, 0, vlan)


@pytest.mark.parametrize(
    "frame", [ether(b"x" * 50, 0x88E5), ether(b"\x50" * 40), b"\2" * 12 + b"\0\x20\x42\x42\3" + b"\0" * 40]
)
def test_what_is_not_ip_is_kept_without_addresses(frame: bytes) -> None:
    row = only(frame)
    assert (row["srcIP"], row["proto"], row["status"], row["length"]) == (None, None, 2, len(frame))


def test_a_link_type_that_is_not_decoded_is_counted() -> None:
    capture = Capture(io.BytesIO(pcap(RECORDS, link=147)))
    assert [row["status"] for batch in capture.batches() for row in batch.to_pylist()] == [2] * 4
    assert capture.counts["undecoded"] == capture.counts["packets"] == 4


def test_ipv4_options_are_passed() -> None:
    row = only(ether(ipv4(tcp(b"abc"), 6, options=b"\1" * 40)))
    assert (row["srcPort"], row["ip_length"], row["payload_length"]) == (443, 83, 3)


def test_a_total_length_of_zero_means_what_was_on_the_wire() -> None:
    row = only(ether(ipv4(tcp(b"abc"), 6, total=0)))
    assert (row["ip_length"], row["payload_length"], row["status"]) == (43, 3, 0)
    row = only(ether(ipv6(b"\x06\0\xc2\4\0\1\0\0" + tcp(b"abc"), 0, length=0), 0x86DD))
    assert (row["ip_length"], row["payload_length"], row["proto"]) == (40 + 8 + 23, 3, 6)


def test_padding_of_the_frame_is_no_payload() -> None:
    row = only(ether(ipv4(tcp(), 6)) + b"\0" * 6)
    assert (row["payload_length"], row["length"]) == (0, 60)


def test_padding_is_not_read_as_ports() -> None:
    # The IP length leaves two bytes behind the header; what follows them belongs to the frame.
    row = only(ether(ipv4(b"\1\1", 17, total=22) + b"\xff" * 24))
    assert (row["srcPort"], row["proto"], row["ip_length"], row["status"]) == (None, 17, 22, 1)


def test_only_the_first_fragment_has_ports() -> None:
    first = only(ether(ipv4(udp(b"x"), 17, fragment=0x2000)))
    later = only(ether(ipv4(b"\xff" * 24, 17, fragment=0x00B9)))
    assert (first["fragment"], first["srcPort"], first["status"]) == (0, 53, 0)
    assert (later["fragment"], later["srcPort"], later["proto"], later["status"]) == (0xB9 * 8, None, 17, 1)


def test_extension_headers_are_passed_and_fragments_of_ipv6_known() -> None:
    hop = b"\x2b\0" + b"\1" * 6  # routing follows
    routing = b"\x33\1" + b"\0" * 14  # AH follows
    ah = b"\x3c\4" + b"\0" * 22  # destination options follow
    options = b"\x2c\0" + b"\1" * 6  # fragment follows
    for bits, fragment, port in ((0, None, 443), (1, 0, 443), (185 << 3, 185 * 8, None), (185 << 3 | 1, 185 * 8, None)):
        row = only(ether(ipv6(hop + routing + ah + options + struct.pack(">BBHI", 6, 0, bits, 1) + tcp(), 0), 0x86DD))
        assert (row["fragment"], row["srcPort"], row["proto"]) == (fragment, port, 6)
        assert row["status"] == (0 if port else 1)


def test_a_ninth_extension_header_ends_the_search_and_esp_does_at_once() -> None:
    for count, status in ((8, 0), (9, 1)):
        row = only(ether(ipv6((b"\x3c\0" + b"\1" * 6) * (count - 1) + b"\x06\0" + b"\1" * 6 + tcp(), 60), 0x86DD))
        assert (row["status"], row["proto"]) == (status, 6 if status == 0 else 60)
    assert (only(ether(ipv6(b"\x06\0" + tcp(), 50), 0x86DD))["proto"]) == 50


def test_an_extension_header_longer_than_its_packet_leaves_the_protocol_open() -> None:
    row = only(ether(ipv6(b"\x06\xff" + b"\1" * 6 + tcp(), 0), 0x86DD))
    assert (row["srcIP"], row["srcPort"], row["status"]) == (SIX[0], None, 1)


@pytest.mark.parametrize(("proto", "six"), [(1, False), (58, True)])
def test_icmp_gives_type_and_code_as_ports(proto: int, six: bool) -> None:
    message = b"\3\1\0\0\0\0\0\0quoted"
    row = only(ether(ipv6(message, proto), 0x86DD) if six else ether(ipv4(message, proto)))
    assert (row["srcPort"], row["destPort"], row["payload_length"], row["status"]) == (3, 1, 6, 0)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        (b"\2\4\5\xb4", 1460),
        (b"\1\1\3\3\7\2\4\x23\x28\0\0\0", 9000),
        (b"\4\2\x08\x0a" + bytes(8) + b"\2\4\1\2", 258),
        (b"\1\1\1\2\4\5\xb4\0", 1460),
        (b"\0\0\0\0\2\4\5\xb4", None),
        (b"\3\0\2\4\2\4\5\xb4", None),
        (b"\2\3\5\0", None),
        (b"\5\xff\2\4", None),
        (b"", None),
    ],
    ids=repr,
)
def test_the_largest_segment_is_found_among_the_options_of_a_syn(options: bytes, size: int | None) -> None:
    row = only(ether(ipv4(syn(options), 6)))
    assert (row["mss"], row["seq"], row["ack"], row["tcp_window"], row["status"]) == (size, 1, 0, 512, 0)
    later = bytearray(syn(options))
    later[13] = 0x10
    assert only(ether(ipv4(bytes(later), 6)))["mss"] is None, "only a SYN says it"


def test_what_the_capture_lacks_of_a_header_of_tcp_is_null() -> None:
    whole = ether(ipv4(syn(b"\1\1\2\4\5\xb4\0\0"), 6))
    names = {"srcPort": 4, "seq": 8, "ack": 12, "flags": 14, "tcp_window": 16, "mss": 26}
    for kept in range(len(whole) + 1):
        (row,) = rows(pcap([(SECOND, whole[:kept])], wire=len(whole)))
        assert {name for name in names if row[name] is not None} == {n for n, end in names.items() if kept >= 34 + end}


def test_sctp_has_ports_and_gre_is_ip_only() -> None:
    assert only(ether(ipv4(struct.pack(">HHII", 80, 81, 0, 0) + b"chunk", 132)))["srcPort"] == 80
    row = only(ether(ipv4(b"\0\0\x08\0" + DATAGRAM, 47)))
    assert (row["srcPort"], row["proto"], row["payload_length"], row["status"]) == (None, 47, None, 1)


def test_a_header_length_below_five_words_leaves_only_the_addresses() -> None:
    row = only(ether(b"\x44" + DATAGRAM[1:]))
    assert (row["srcIP"], row["srcPort"], row["status"]) == (mapped("10.1.2.3"), None, 1)


@pytest.mark.parametrize("name", mostly_slow(["ether4", "ether6", *LINKS], every=3))
def test_a_packet_cut_anywhere_says_so_and_never_shows_what_follows_it(name: str) -> None:
    six = ether(ipv6(b"\x06\0" + b"\1" * 6 + tcp(b"x"), 60), 0x86DD)
    link, frame = {"ether4": (1, FRAMES[0]), "ether6": (1, six)}.get(name, (0, b""))
    if not frame:
        link, frame = LINKS[name][0], LINKS[name][1] + DATAGRAM
    whole = only(frame, link)
    for size in range(len(frame)):
        # The next record's bytes stand right behind: whatever they are, this row must be the same.
        seen = []
        for other in (0x00, 0x45, 0x60, 0xFF):
            out = pcap([(SECOND, frame[:size])], link=link, wire=len(frame))
            out += struct.pack("<IIII", *[other * 0x01010101] * 2, 60, 60) + bytes([other]) * 60
            seen.append(rows(out)[0])
        assert seen.count(seen[0]) == 4
        for column in ("srcIP", "srcPort", "proto", "flags", "payload_length", "ttl"):
            assert seen[0][column] in (None, whole[column])
        assert seen[0]["status"] in ((0, 2, 3) if size else (2, 3))
        if seen[0]["srcPort"] is None:
            assert seen[0]["status"] != 0
