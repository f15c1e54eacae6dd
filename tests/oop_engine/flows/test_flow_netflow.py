"""NetFlow v5 and v9: records as the exporter wrote them, in the columns of a flow."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    SECOND,
    a_set,
    address,
    four,
    number,
    read,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
)

# Written by hand after the layouts of the Cisco paper on NetFlow v5 and of RFC 3954.
V5_BY_HAND = bytes.fromhex(
    "0005 0001 0001 86a0 6856 3300 1dcd 6500 0000 002a 0102 4064"  # 1 record, up 100 s, + 0.5 s, sequence 42, 1 in 100
    "0a000001 c0000209 0a0000fe 0003 0004 00000005 00000190 00015f90 00017318"
    "04d2 0050 00 1b 06 08 fc00 fc01 18 10 0000"
)
V9_BY_HAND = bytes.fromhex(
    "0009 0003 0001 86a0 6856 3300 0000 0007 0000 0011"  # 3 records, sequence 7, source id 17
    "0000 0020 0100 0006 0008 0004 000c 0004 0001 0004 0002 0004 0016 0004 0015 0004"  # template 256 of 6 fields
    "0100 0034"  # two records, no padding
    "0a000001 0a000002 00000064 00000002 00015f90 00017318"
    "0a000003 0a000004 000000c8 00000003 00017318 000186a0"
)


def test_a_v5_datagram_written_by_hand() -> None:
    seen = read([V5_BY_HAND], arrival=[5])
    base = 0x68563300 * SECOND + 500_000_000
    assert seen.rows == [
        {
            "ts": base - 10_000_000_000, "end_ts": base - 5_000_000_000, "srcIP": address("10.0.0.1"),
            "destIP": address("192.0.2.9"), "srcPort": 1234, "destPort": 80, "proto": 6, "bytes": 400, "packets": 5,
            "flags": 0x1B, "tos": 8, "in_if": 3, "out_if": 4, "src_as": 0xFC00, "dest_as": 0xFC01, "src_mask": 24,
            "dest_mask": 16, "next_hop": address("10.0.0.254"), "vlan": None, "end_reason": None, "direction": None,
            "rev_bytes": None, "rev_packets": None, "rev_flags": None, "sampling": 100, "exporter": HERE[0],
            "exporter_port": 5000, "domain": 0x102, "version": 5, "export_ts": base, "arrival_ts": 5,
        }
    ]  # fmt: skip
    assert (seen.only.datagrams, seen.only.records, seen.only.malformed) == (1, 1, {})
    assert (seen.only.address, seen.only.port, seen.only.domain, seen.only.protocol) == (*HERE, 0x102, "NetFlow v5")


def test_a_v9_datagram_written_by_hand() -> None:
    seen = read([V9_BY_HAND])
    base = 0x68563300 * SECOND
    columns = ("ts", "end_ts", "srcIP", "destIP", "bytes", "packets", "proto", "domain", "version", "sampling")
    assert [tuple(row[name] for name in columns) for row in seen.rows] == [
        (base - 10 * SECOND, base - 5 * SECOND, address("10.0.0.1"), address("10.0.0.2"), 100, 2, None, 17, 9, 1),
        (base - 5 * SECOND, base, address("10.0.0.3"), address("10.0.0.4"), 200, 3, None, 17, 9, 1),
    ]
    assert (seen.only.templates, seen.only.records, seen.only.protocol) == (1, 2, "NetFlow v9")


@given(
    st.integers(0, 2**32 - 1), st.integers(-2_000_000_000, 5_000), st.integers(0, 999_999_999), st.integers(5, 30)
)  # fmt: skip
def test_uptime_is_a_signed_difference_wherever_it_wraps(uptime: int, since: int, rest: int, years: int) -> None:
    """A flow may begin before the wrap of the 32 bits, and end a little after what the header says is now."""
    seconds = years * 365 * 86_400 + NOW - 5 * 365 * 86_400
    record = v5_record(first=uptime + since, last=uptime + 3)
    (row,) = read([v5([record], uptime=uptime, seconds=seconds, nanoseconds=rest)]).rows
    base = seconds * SECOND + rest
    assert (row["ts"], row["end_ts"]) == (base + since * 1_000_000, base + 3_000_000)


def test_a_v5_count_that_is_not_the_length_gives_the_smaller_and_is_counted() -> None:
    records = [v5_record(octets=k) for k in range(4)]
    for count, given_rows in ((9, 4), (3, 3)):
        seen = read([v5(records, count=count)])
        assert seen.column("bytes") == list(range(given_rows))
        assert seen.only.malformed == {"length": 1}
    seen = read([v5(records)[:-10]])
    assert seen.column("bytes") == [0, 1, 2] and seen.only.malformed == {"length": 1}


def test_a_template_may_come_with_its_data_or_before_and_change() -> None:
    one = v9_templates(template(256, [(8, 4), (1, 4)]))
    other = v9_templates(template(256, [(1, 8), (8, 4)]))
    first = a_set(256, four("10.0.0.1") + number(7, 4))
    second = a_set(256, number(8, 8) + four("10.0.0.2"))
    seen = read([v9([one]), v9([first], sequence=1), v9([other, second], sequence=2), v9([second], sequence=3)])
    assert [(row["srcIP"], row["bytes"]) for row in seen.rows] == [
        (address("10.0.0.1"), 7), (address("10.0.0.2"), 8), (address("10.0.0.2"), 8),
    ]  # fmt: skip
    assert seen.only.templates == 2 and seen.only.lost == 0


def test_a_template_that_is_sent_again_as_it_was_before_a_change_holds_again() -> None:
    """Sets of templates that were read are known by their bytes; a change in between must make them new."""
    one = v9_templates(template(256, [(8, 4), (1, 4)]))
    other = v9_templates(template(256, [(1, 4), (8, 4)]))
    data = a_set(256, four("10.0.0.1") + four("10.0.0.2"))
    payloads = [v9([part, data], sequence=k) for k, part in enumerate((one, one, other, other, one, other))]
    first, second = address("10.0.0.1"), address("10.0.0.2")
    seen = read(payloads)
    assert seen.column("srcIP") == [first, first, second, second, first, second] and seen.only.templates == 6


def test_templates_belong_to_their_exporter_and_source_id() -> None:
    fields = v9_templates(template(256, [(8, 4)]))
    data = a_set(256, four("10.0.0.1"))
    near, far = (address("192.0.2.1"), 1), (address("192.0.2.1"), 2)
    seen = read(
        [v9([fields], source=1), v9([data], source=2), v9([data], source=1, sequence=1), v9([data], source=1)],
        exporters=[near, near, near, far],
    )
    assert len(seen.rows) == 1
    assert [(e.port, e.domain, e.records, e.no_template) for e in seen.exporters] == [
        (1, 1, 1, 0), (1, 2, 0, 1), (2, 1, 0, 1),
    ]  # fmt: skip


def test_padding_is_no_record_whether_of_a_set_or_of_a_datagram() -> None:
    fields = v9_templates(template(256, [(8, 4), (4, 1)]), padding=2)
    data = a_set(256, four("10.0.0.1") + b"\6" + four("10.0.0.2") + b"\7", padding=2)
    seen = read([v9([fields, data, bytes(40)])])
    assert seen.column("proto") == [6, 7]
    assert seen.only.malformed == {} and seen.only.skipped == 0


def test_fields_of_no_length_are_absent_and_unknown_ones_passed_over() -> None:
    fields = v9_templates(template(256, [(4, 0), (40_001, 3), (1, 4), (2, 0)]))
    seen = read([v9([fields, a_set(256, b"xyz" + number(9, 4))])])
    assert [(row["bytes"], row["proto"], row["packets"]) for row in seen.rows] == [(9, None, None)]


def test_reduced_sizes_of_every_length_are_read() -> None:
    for length in range(1, 9):
        value = 2 ** (8 * length) - 3
        fields = v9_templates(template(256, [(1, length)]))
        assert read([v9([fields, a_set(256, number(value, length))])]).column("bytes") == [value]


def test_a_length_that_the_type_cannot_have_leaves_the_field_out() -> None:
    fields = v9_templates(template(256, [(8, 50), (4, 2), (1, 9), (7, 2)]))
    seen = read([v9([fields, a_set(256, bytes(61) + number(53, 2))])])
    (row,) = seen.rows
    assert (row["srcIP"], row["proto"], row["bytes"], row["srcPort"]) == (None, None, None, 53)
    assert seen.only.malformed == {"field": 3}


def test_sampling_is_of_the_record_its_sampler_its_interface_or_its_exporter() -> None:
    plain = template(256, [(1, 4)])
    own = template(257, [(1, 4), (34, 4)])
    by_sampler = template(258, [(1, 4), (48, 1)])
    by_interface = template(259, [(1, 4), (10, 2)])
    data = [
        a_set(256, number(1, 4)),
        a_set(257, number(2, 4) + number(50, 4)),
        a_set(258, number(3, 4) + b"\1" + number(4, 4) + b"\2" + number(5, 4) + b"\3"),
        a_set(259, number(6, 4) + number(8, 2) + number(7, 4) + number(9, 2)),
    ]
    every = v9_options(512, [(1, 4)], [(34, 4), (35, 1)])
    sampler = v9_options(513, [(1, 4)], [(48, 1), (49, 1), (50, 4)], padding=2)
    interface = v9_options(514, [(2, 4)], [(34, 4)])
    said = [
        a_set(512, number(0, 4) + number(10, 4) + b"\1"),
        a_set(513, number(0, 4) + b"\1\1" + number(20, 4) + number(0, 4) + b"\2\1" + number(30, 4)),
        a_set(514, number(8, 4) + number(40, 4)),
    ]
    templates = v9_templates(plain, own, by_sampler, by_interface)
    seen = read([v9([templates, *data, every, sampler, interface, *said, *data])])
    assert seen.column("sampling") == [1, 50, 1, 1, 1, 1, 1, 10, 50, 20, 30, 10, 40, 10]
    assert seen.only.options == 4 and seen.only.records == 14 and seen.only.malformed == {}


def test_a_session_that_goes_takes_its_rates_along() -> None:
    """Records that wait to be filled keep the rates of their session even if another takes its place."""
    fields = v9_templates(template(256, [(1, 4), (48, 1)]))
    sampler = v9_options(513, [(1, 4)], [(48, 1), (50, 4)])

    def announced(rate: int) -> bytes:
        return a_set(513, number(0, 4) + b"\1" + number(rate, 4))

    data = a_set(256, number(3, 4) + b"\1")
    first = v9([fields, sampler, announced(99), data], source=1)
    others = [v5([v5_record()], engine=k) for k in range(1023)]
    last = v9([fields, sampler, announced(50), data], source=2)
    seen = read([first, *others, last])
    assert (seen.rows[0]["sampling"], seen.rows[-1]["sampling"], len(seen.exporters)) == (99, 50, 1025)


def test_a_header_of_v5_tells_its_rate() -> None:
    for said, rate in ((0, 1), (0x4000 | 10, 10), (0x8001, 1), (0x3FFF, 0x3FFF)):
        assert read([v5([v5_record()], sampling=said)]).column("sampling") == [rate]


def test_only_the_columns_asked_for_are_given_and_they_are_the_same() -> None:
    whole = read([V5_BY_HAND, V9_BY_HAND])
    for names in (["ts"], ["end_ts", "bytes"], ["exporter"], ["srcPort", "destPort", "domain"], ["sampling", "vlan"]):
        part = read([V5_BY_HAND, V9_BY_HAND], columns=names)
        kept = [name for name in whole.schema.names if name in names]
        assert part.schema.names == kept
        assert part.rows == [{name: row[name] for name in kept} for row in whole.rows]


@pytest.mark.parametrize("batch_rows", [1, 2, 7, 2000, 5000])
@pytest.mark.parametrize("block", [0, 1, 3])
def test_neither_batches_nor_blocks_change_what_is_read(batch_rows: int, block: int) -> None:
    payloads = [v5([v5_record(octets=100 * d + k) for k in range(d % 5)], sequence=d * (d - 1) // 2) for d in range(9)]
    payloads.insert(4, V9_BY_HAND)
    assert read(payloads, batch_rows=batch_rows, block=block) == read(payloads)


def test_times_no_clock_can_have_are_null_and_counted() -> None:
    seen = read([v5([v5_record()], seconds=0), v5([v5_record()], seconds=4_200_000_000)])
    assert seen.column("ts") == seen.column("end_ts") == seen.column("export_ts") == [None, None]
    assert seen.only.untimed == 2


def test_what_is_shorter_than_a_header_or_of_no_known_version_is_nobodys() -> None:
    payloads = [b"", b"\0", b"\0\5", bytes(23), struct.pack(">H", 8) + bytes(60), V5_BY_HAND[:23], V9_BY_HAND[:19]]
    seen = read(payloads)
    assert seen.rows == []
    assert (seen.only.address, seen.only.datagrams, seen.only.malformed) == (None, 7, {"header": 7})
    assert seen.only.protocol == "unknown"


def test_v9_uses_its_own_clock_when_asked_for_milliseconds() -> None:
    fields = v9_templates(template(256, [(152, 8), (153, 8)]))
    start = NOW * 1000 - 1_234
    seen = read([v9([fields, a_set(256, number(start, 8) + number(start + 7, 8))])])
    assert (seen.rows[0]["ts"], seen.rows[0]["end_ts"]) == (start * 1_000_000, (start + 7) * 1_000_000)
