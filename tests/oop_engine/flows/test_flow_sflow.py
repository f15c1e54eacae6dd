"""sFlow v5: each sampled packet is a row, decoded as a capture would be, with what the sample says beside it."""

from __future__ import annotations

import struct

import pytest

from tests.capture_files import DATAGRAM, ether, ipv4, ipv6, tcp, udp
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    SECOND,
    address,
    flow_sample,
    four,
    header_record,
    read,
    sflow,
    v5,
    v5_record,
    xdr,
)

# Written by hand after the sFlow version 5 memo: one flow sample with one raw packet header of 42 bytes.
BY_HAND = bytes.fromhex(
    "00000005 00000001 0a090909 00000003 00000007 000186a0 00000001"  # agent 10.9.9.9, sub-agent 3, sequence 7
    "00000001 00000064 00000001 00000005 00000200 00010000 00000000 0000001d 0000001e 00000001"  # 1 in 512, 29 to 30
    "00000001 0000003c 00000001 00000600 00000004 0000002a"  # Ethernet, 1,536 bytes, 4 stripped, 42 kept
    "020202020202 040404040404 0800"
    "45000400 00070000 3d110000 0a010203 c0000209 0035 14e9 03ec 0000 0000"
)


def test_a_datagram_written_by_hand() -> None:
    seen = read([BY_HAND])
    now = NOW * SECOND
    none = dict.fromkeys(seen.schema.names)
    assert seen.rows == [
        {
            **none, "ts": now, "end_ts": now, "srcIP": address("10.1.2.3"), "destIP": address("192.0.2.9"),
            "srcPort": 53, "destPort": 5353, "proto": 17, "bytes": 1024, "packets": 1, "in_if": 29, "out_if": 30,
            "sampling": 512, "tos": 0, "exporter": address("10.9.9.9"), "exporter_port": 5000, "domain": 3,
            "version": 105, "arrival_ts": now,
        }
    ]  # fmt: skip
    assert (seen.only.protocol, seen.only.records, seen.only.malformed) == ("sFlow v5", 1, {})


@pytest.mark.parametrize("expanded", [False, True])
def test_samples_of_both_forms_and_packets_of_both_families(expanded: bool) -> None:
    frames = [ether(ipv4(tcp(b"x"), 6)), ether(ipv6(udp(b"abc"), 17), 0x86DD), ether(b"arp", 0x0806)]
    samples = [flow_sample([header_record(frame)], expanded=expanded, rate=k) for k, frame in enumerate(frames)]
    seen = read([sflow(samples)])
    assert [(r["proto"], r["srcPort"], r["flags"], r["bytes"], r["sampling"], r["in_if"]) for r in seen.rows] == [
        (6, 443, 0x12, 41, 1, 1), (17, 53, None, 51, 1, 1), (None, None, None, 21, 2, 1),
    ]  # fmt: skip


def test_headers_of_other_layers_begin_where_they_do() -> None:
    plain = ipv4(udp(b"abc"), 17)
    samples = [flow_sample([header_record(plain, protocol=11)]), flow_sample([header_record(plain, protocol=13)])]
    assert read([sflow(samples)]).column("proto") == [17, None]


def test_records_of_packets_stand_in_for_headers() -> None:
    v4 = xdr(3, struct.pack(">II4s4sIIII", 99, 6, four("10.0.0.1"), four("10.0.0.2"), 1, 2, 0x10, 8))
    v6 = xdr(4, struct.pack(">II16s16sIIII", 98, 17, address("2001:db8::1"), address("2001:db8::2"), 3, 4, 0, 9))
    seen = read([sflow([flow_sample([v4]), flow_sample([v6]), flow_sample([])])])
    names = ("srcIP", "destIP", "srcPort", "destPort", "proto", "bytes", "flags", "tos", "packets")
    assert [tuple(row[name] for name in names) for row in seen.rows] == [
        (address("10.0.0.1"), address("10.0.0.2"), 1, 2, 6, 99, 0x10, 8, 1),
        (address("2001:db8::1"), address("2001:db8::2"), 3, 4, 17, 98, 0, 9, 1),
        (None, None, None, None, None, None, None, None, 1),
    ]


def test_what_the_switch_the_router_and_the_gateway_say() -> None:
    switch = xdr(1001, struct.pack(">IIII", 42, 0, 43, 0))
    router = xdr(1002, struct.pack(">I4sII", 1, four("10.0.0.254"), 24, 16))
    gateway = xdr(1003, struct.pack(">I4sIIII", 1, four("10.0.0.253"), 65_000, 64_512, 1, 2)
                  + struct.pack(">IIIIIIII", 1, 1, 7, 2, 3, 8, 9, 10) + struct.pack(">II", 0, 100))  # fmt: skip
    seen = read([sflow([flow_sample([switch, router, gateway, header_record(DATAGRAM)])])])
    names = ("vlan", "next_hop", "src_mask", "dest_mask", "src_as", "dest_as")
    assert tuple(seen.rows[0][name] for name in names) == (42, address("10.0.0.254"), 24, 16, 64_512, 10)


def test_interfaces_that_are_none_are_null() -> None:
    (row,) = read([sflow([flow_sample([], inward=0x3FFFFFFF, outward=0x80000002)])]).rows
    assert (row["in_if"], row["out_if"]) == (0x3FFFFFFF, None)
    (row,) = read([sflow([flow_sample([], inward=0x40000001, outward=7)])]).rows
    assert (row["in_if"], row["out_if"]) == (None, 7)


def test_counter_samples_are_counted_and_others_too() -> None:
    sample = flow_sample([header_record(ether(ipv4(udp(), 17)))])
    one = read([sflow([xdr(2, bytes(40)), sample, xdr(4, b""), xdr(4096 + 1, bytes(8)), xdr(1, bytes(8))])]).only
    assert (one.counter_samples, one.skipped, one.records, one.malformed) == (2, 2, 1, {})


def test_a_sample_cut_short_gives_what_came_before_it() -> None:
    frame = ether(ipv4(udp(b"abcd"), 17))
    whole = sflow([flow_sample([header_record(frame)]), flow_sample([header_record(frame)])])
    seen = read([whole[:-8]])
    assert len(seen.rows) == 1 and seen.only.malformed == {"sample": 1}
    longer = flow_sample([header_record(frame), xdr(1001, bytes(16))[:-16]])
    seen = read([sflow([longer])])
    assert seen.column("proto") == [17] and seen.only.malformed == {"sample": 1}


def test_records_of_several_protocols_keep_the_order_of_their_datagrams() -> None:
    sample = sflow([flow_sample([header_record(ether(ipv4(udp(), 17)))])] * 2)
    payloads = [v5([v5_record(tos=1)] * 2), sample, v5([v5_record(tos=2)], sequence=2), sflow([], sequence=1)]
    seen = read(payloads)
    assert seen.column("version") == [5, 5, 105, 105, 5]
    assert seen.column("tos") == [1, 1, 0, 0, 2]
    assert read(payloads, block=1).rows == seen.rows


def test_agents_may_have_addresses_of_six_or_of_none() -> None:
    frame = flow_sample([header_record(ether(ipv4(udp(), 17)))])
    none = struct.pack(">IIIIII", 5, 0, 3, 0, 100_000, 1) + frame
    for payload in (sflow([frame], agent="2001:db8::9"), none + bytes(4)):
        assert read([payload]).column("domain") == [3]


def test_a_header_longer_than_its_record_is_read_to_the_end_of_the_record() -> None:
    frame = ether(ipv4(udp(b"abcd"), 17))[:36]
    record = xdr(1, struct.pack(">IIII", 1, 60, 4, 5000) + frame)
    seen = read([sflow([flow_sample([record]), flow_sample([])])])
    assert [(row["proto"], row["srcPort"]) for row in seen.rows] == [(17, None), (None, None)]
    assert seen.only.malformed == {"sample": 1}


def test_agents_behind_one_relay_are_exporters_of_their_own() -> None:
    frame = flow_sample([header_record(ether(ipv4(udp(), 17)))])
    agents = ("10.1.1.1", "10.1.1.2", "2001:db8::9", "0.0.0.0", "::")
    payloads = [
        sflow([frame], agent=agent, sequence=1_000_000 * number + k)
        for k in range(5)
        for number, agent in enumerate(agents)
    ]
    seen = read(payloads)
    known = [address(agent) for agent in agents[:3]]
    # One that does not know its address has that of its sender; the two of them are one.
    assert [one.address for one in seen.exporters] == [*known, HERE[0]]
    assert [(one.lost, one.reordered, one.restarts) for one in seen.exporters[:3]] == [(0, 0, 0)] * 3
    assert seen.column("exporter") == [*known, HERE[0], HERE[0]] * 5
    assert read(payloads, block=1).rows == seen.rows


def test_who_may_send_is_asked_of_the_sender_and_not_of_the_agent() -> None:
    allow = [(address("192.0.2.0"), address("192.0.2.255"))]
    payload = sflow([flow_sample([])], agent="192.0.2.77")
    relay, stranger = (address("192.0.2.1"), 1), (address("203.0.113.1"), 1)
    seen = read([payload] * 2, exporters=[stranger, relay], allow=allow)
    assert [(one.address, one.records, one.refused) for one in seen.exporters] == [
        (stranger[0], 0, 1), (address("192.0.2.77"), 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("tags", [b"", b"\0\7\x81\0\0\x08", b"\0\7\x88\x47\0\0\x11\x40"])
def test_the_type_of_service_is_that_of_the_sampled_header(tags: bytes) -> None:
    four = b"\x45\xb8" + ipv4(udp(b"abc"), 17)[2:]
    six = b"\x6b\x80" + ipv6(udp(b"abc"), 17)[2:]
    frames = []
    for packet, kind in ((four, b"\x08\0"), (six, b"\x86\xdd")):
        behind = tags + kind if tags and tags[-1] == 8 else tags
        frames.append(ether(behind + packet, 0x8100) if tags else ether(packet, int.from_bytes(kind, "big")))
    samples = [flow_sample([header_record(frame)]) for frame in frames]
    samples += [flow_sample([header_record(packet, protocol=11)]) for packet in (four, six)]
    samples += [flow_sample([header_record(ether(b"arp", 0x0806))])]
    assert read([sflow(samples)]).column("tos") == [0xB8, 0xB8, 0xB8, 0xB8, None]


def _dropping(drops: int, source: int = 5, *, expanded: bool = False) -> bytes:
    if expanded:
        return xdr(3, struct.pack(">IIIIIIIIIII", 1, 0, source, 10, 100, drops, 0, 1, 0, 2, 0))
    return xdr(1, struct.pack(">IIIIIIII", 1, source, 10, 100, drops, 1, 2, 0))


@pytest.mark.parametrize("expanded", [False, True])
def test_what_an_agent_could_not_sample_is_counted_by_its_sources(expanded: bool) -> None:
    payloads = [
        sflow(
            [_dropping(drops, 5, expanded=expanded), _dropping((2**32 - 2 + k) % 2**32, 6, expanded=expanded)],
            sequence=k,
        )
        for k, drops in enumerate((1000, 1000, 1004, 1009))
    ]
    assert read(payloads).only.unsampled == 9 + 3
    assert read([payloads[k] for k in (0, 2, 1, 3, 3)]).only.unsampled == 9 + 3
    assert read([payloads[3], sflow([_dropping(2, 5, expanded=expanded)], sequence=4)]).only.unsampled == 0
    twice = [sflow([_dropping(1000 + drops)] * 2, sequence=drops, agent=agent) for drops in (0, 1) for agent in "ab"
             for agent in [f"10.0.0.{ord(agent)}"]]  # fmt: skip
    assert [one.unsampled for one in read(twice).exporters] == [1, 1]
