"""IPFIX: fields of every type and length, times in every form, biflows, options, withdrawal and expiry."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.flows import ELEMENTS, Element
from operators.errors import SchemaError
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    VARIABLE,
    Spec,
    a_set,
    address,
    four,
    ipfix,
    ipfix_options,
    ipfix_templates,
    long,
    ntp,
    number,
    read,
    template,
    v5,
    v5_record,
    withdrawal,
)

# Written by hand after RFC 7011: a template with a field of variable length and one of enterprise 6871, two records.
BY_HAND = bytes.fromhex(
    "000a 0051 6856 3300 0000 0005 0000 0063"
    "0002 0020 0100 0005 0008 0004 0060 ffff 8028 0002 00001ad7 0001 0004 0004 0001"
    "0100 0021"
    "0a000001 03 646e73 0001 00000064 11"
    "0a000002 ff0000 0002 000000c8 06 "
)


def one(fields: list[Spec], body: bytes, **options: Any) -> dict[str, Any]:
    """Give the row of one record."""
    (row,) = read([ipfix([ipfix_templates(template(256, fields)), a_set(256, body)])], **options).rows
    return row


def test_a_message_written_by_hand() -> None:
    seen = read([BY_HAND], more=["applicationName", Element("label", 40, "unsigned16", enterprise=6871)])
    assert [tuple(row[n] for n in ("srcIP", "bytes", "proto", "applicationName", "label")) for row in seen.rows] == [
        (address("10.0.0.1"), 100, 17, "dns", 1),
        (address("10.0.0.2"), 200, 6, "", 2),
    ]
    assert seen.only.malformed == {} and (seen.only.domain, seen.only.records) == (0x63, 2)
    assert seen.rows[0]["export_ts"] == 0x68563300 * SECOND


@pytest.mark.parametrize(
    ("start", "body", "want"),
    [
        (150, number(NOW - 9, 4), (NOW - 9) * SECOND),
        (152, number(NOW * 1000 - 9, 8), NOW * SECOND - 9_000_000),
        (154, ntp(NOW * SECOND + 123_457_000), NOW * SECOND + 123_457_000),
        (156, ntp(NOW * SECOND + 123_456_789), NOW * SECOND + 123_456_789),
        (158, number(1_500, 4), NOW * SECOND - 1_500_000),
        (158, number(15, 1), NOW * SECOND - 15_000),
        (322, number(NOW - 9, 4), (NOW - 9) * SECOND),
        (323, number(NOW * 1000 + 5, 8), NOW * SECOND + 5_000_000),
        (324, ntp(NOW * SECOND + 1_000), NOW * SECOND + 1_000),
        (325, ntp(NOW * SECOND + 999_999_999), NOW * SECOND + 999_999_999),
        (150, number(0, 4), None),
        (152, number(2**63 + 5, 8), None),
        (152, number(4_102_444_800_000, 8), None),
        (152, number(4_102_444_799_999, 8), 4_102_444_799_999_000_000),
        (156, b"\xff" * 8, 2_085_978_496 * SECOND),
        (156, b"\0" * 4 + b"\x80\0\0\0", 2_085_978_496 * SECOND + 500_000_000),
    ],
)
def test_a_start_in_every_form(start: int, body: bytes, want: int | None) -> None:
    assert one([(start, len(body))], body)["ts"] == want


@pytest.mark.parametrize("end", [151, 153, 155, 157, 159])
def test_an_end_in_every_form(end: int) -> None:
    body = {
        151: number(NOW, 4), 153: number(NOW * 1000, 8), 155: ntp(NOW * SECOND), 157: ntp(NOW * SECOND),
        159: number(0, 4),
    }[end]  # fmt: skip
    row = one([(end, len(body))], body)
    assert (row["ts"], row["end_ts"]) == (None, NOW * SECOND)


def test_the_finest_of_several_times_counts_wherever_it_stands() -> None:
    fields: list[Spec] = [(150, 4), (152, 8), (156, 8), (22, 4)]
    body = number(NOW - 9, 4) + number(NOW * 1000 - 8, 8) + ntp(NOW * SECOND - 7) + number(1, 4)
    assert one(fields, body)["ts"] == NOW * SECOND - 7


def test_a_start_and_a_duration_give_the_end_and_the_other_way_round() -> None:
    start = number(NOW * 1000, 8)
    assert one([(152, 8), (161, 4)], start + number(25, 4))["end_ts"] == NOW * SECOND + 25_000_000
    assert one([(162, 4), (152, 8)], number(25, 4) + start)["end_ts"] == NOW * SECOND + 25_000
    assert one([(161, 4), (153, 8)], number(25, 4) + start)["ts"] == NOW * SECOND - 25_000_000
    assert one([(161, 4), (153, 8)], number(25, 4) + start, columns=["ts"]) == {"ts": NOW * SECOND - 25_000_000}


@given(st.integers(0, 2**33), st.integers(-3_000_000, 2_000))
def test_uptime_counts_from_the_init_time_that_options_or_the_record_tell(up: int, ago: int) -> None:
    """The exporter's 32 bits may have wrapped since it began."""
    init = NOW * 1000 - up
    want = (NOW * 1000 + ago) * 1_000_000
    field = number((up + ago) & 0xFFFFFFFF, 4)
    own = one([(22, 4), (160, 8)], field + number(init, 8))
    assert own["ts"] == want
    options = ipfix_options(512, [(144, 4)], [(160, 8)])
    said = a_set(512, number(1, 4) + number(init, 8))
    fields = ipfix_templates(template(256, [(21, 4)]))
    seen = read([ipfix([options, said, fields, a_set(256, field)])])
    assert seen.column("end_ts") == [want]


def test_uptime_without_an_init_time_is_no_time() -> None:
    seen = read([ipfix([ipfix_templates(template(256, [(22, 4)])), a_set(256, number(5, 4))])])
    assert seen.column("ts") == [None] and seen.only.untimed == 1


def test_a_biflow_has_the_other_direction_beside_its_own() -> None:
    fields: list[Spec] = [(1, 8), (29_305, 1, 8), (2, 4), (29_305, 2, 4), (29_305, 6, 1), (29_305, 152, 8)]
    body = number(10, 8) + number(20, 8) + number(1, 4) + number(2, 4) + b"\x12" + number(NOW * 1000, 8)
    row = one(fields, body, more=["reverseFlowStartMilliseconds"])
    assert (row["bytes"], row["rev_bytes"], row["packets"], row["rev_packets"], row["rev_flags"]) == (10, 20, 1, 2, 18)
    assert row["reverseFlowStartMilliseconds"] == NOW * SECOND


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.booleans(), st.binary(max_size=5)), max_size=12),
    st.integers(0, 3),
)
def test_fields_of_variable_length_come_one_after_another(
    values: list[tuple[bytes, bool, bytes]], padding: int
) -> None:
    fields: list[Spec] = [(2, 2), (9, 40, VARIABLE), (7, 2), (9, 41, VARIABLE), (9, 42, VARIABLE), (1, 3)]
    body = b"".join(
        number(k, 2) + long(a, wide=wide) + number(100 + k, 2) + long(b"") + long(b) + number(k, 3)
        for k, (a, wide, b) in enumerate(values)
    )
    data = [a_set(256, body, padding=padding)] if values else []
    seen = read(
        [ipfix([ipfix_templates(template(256, fields)), *data])], more=["9/40", "9/41", Element("z", 42, enterprise=9)]
    )
    assert [tuple(row[n] for n in ("packets", "9/40", "srcPort", "9/41", "z", "bytes")) for row in seen.rows] == [
        (k, a, 100 + k, b"", b, k) for k, (a, _, b) in enumerate(values)
    ]
    assert all(e.malformed == {} for e in seen.exporters)


def test_a_record_that_reaches_beyond_its_set_ends_it() -> None:
    fields = ipfix_templates(template(256, [(2, 2), (96, VARIABLE)]))
    good = number(1, 2) + long(b"ab")
    for bad in (b"\0\2\5abc", b"\0\2\xff\0", b"\0\2\xff\0\2x", b"\0\2\xff"):
        seen = read([ipfix([fields, a_set(256, good + bad), a_set(256, good)])], more=["applicationName"])
        assert seen.column("applicationName") == ["ab", "ab"]
        assert seen.only.malformed == {"record": 1}
        last = read([ipfix([fields, a_set(256, good + bad)])])  # where nothing lies behind it
        assert len(last.rows) == 1 and last.only.malformed == {"record": 1}


def test_columns_on_request_have_the_type_of_their_element() -> None:
    wanted: dict[str, tuple[bytes, Any]] = {
        "postNATSourceIPv4Address": (four("10.1.1.1"), address("10.1.1.1")),
        "sourceMacAddress": (b"\1\2\3\4\5\6", b"\1\2\3\4\5\6"),
        "interfaceName": (b"eth0\0\0\0\0", "eth0"),
        "selectorId": (number(2**64 - 1, 8), 2**64 - 1),
        "samplingProbability": (struct.pack(">d", 0.25), 0.25),
        "upperCILimit": (struct.pack(">f", -1.5), -1.5),
        "dataRecordsReliability": (b"\1", True),
        "hashDigestOutput": (b"\2", False),
        "ipv6ExtensionHeaders": (number(7, 4), 7),
        "minFlowStartSeconds": (number(NOW, 4), NOW * SECOND),
        "maxFlowEndNanoseconds": (ntp(NOW * SECOND), NOW * SECOND),
        "mplsTopLabelStackSection": (b"\1\2\3", b"\1\2\3"),
        "octetTotalCount": (number(77, 8), 77),
        "destinationIPv6Prefix": (address("2001:db8::"), address("2001:db8::")),
    }
    fields: list[Spec] = [(ELEMENTS[name].number, len(body)) for name, (body, _) in wanted.items()]
    row = one(fields, b"".join(body for body, _ in wanted.values()), more=list(wanted))
    assert {name: row[name] for name in wanted} == {name: value for name, (_, value) in wanted.items()}
    assert row["bytes"] == 77  # the total stands in for the difference that is not there


@pytest.mark.parametrize(
    ("bits", "want"),
    [(0x00000001, 2.0**-149), (0x80000000, -0.0), (0x7F800000, float("inf")), (0x3F800000, 1.0), (0xC2F6E979, None)],
)
def test_a_float_of_four_bytes_fills_a_column_of_eight(bits: int, want: float | None) -> None:
    value = struct.unpack(">f", number(bits, 4))[0] if want is None else want
    assert one([(311, 4)], number(bits, 4), more=["samplingProbability"])["samplingProbability"] == value


def test_signed_numbers_keep_their_sign_at_any_length() -> None:
    more = [Element("s", 1, "signed64", enterprise=9)]
    for length in range(1, 9):
        assert one([(9, 1, length)], number(-3, length), more=more)["s"] == -3


def test_text_that_is_no_utf8_is_kept_as_far_as_it_can_be() -> None:
    assert one([(96, 4)], b"a\xffb\0", more=["applicationName"])["applicationName"] == "a\ufffdb"


def test_a_record_of_both_families_has_the_address_that_is_set() -> None:
    fields: list[Spec] = [(8, 4), (27, 16), (12, 4), (28, 16)]
    row = one(fields, four("0.0.0.0") + address("2001:db8::1") + four("10.0.0.2") + bytes(16))
    assert (row["srcIP"], row["destIP"]) == (address("2001:db8::1"), address("10.0.0.2"))


def test_aliases_are_no_further_columns_and_unknown_names_are_refused() -> None:
    assert read([], more=["sourceIPv4Address", "bytes", "octetDeltaCount"]).schema == read([]).schema
    with pytest.raises(SchemaError, match=r'no column "sourceIPv4Adress"(.|\n)*Did you mean "sourceIPv4Address"'):
        read([], more=["sourceIPv4Adress"])
    with pytest.raises(SchemaError, match='a column "ts" already'):
        read([], more=[Element("ts", 7)])
    with pytest.raises(SchemaError, match=r'no column "bites"'):
        read([], columns=["bites"])


def test_a_withdrawn_template_is_gone_where_templates_may_be_withdrawn() -> None:
    fields = ipfix_templates(template(256, [(1, 4)]), template(257, [(1, 4)]))
    data = [a_set(kind, number(kind, 4)) for kind in (256, 257)]
    for gone, left in ((256, [257]), (2, [])):
        message = ipfix([fields, withdrawal(gone), *data])
        seen = read([message], reliable=True)
        assert seen.column("bytes") == left and seen.only.no_template == 2 - len(left)
        assert seen.only.withdrawn == 2 - len(left)
        over_udp = read([message])
        assert over_udp.column("bytes") == [256, 257] and over_udp.only.malformed == {"template": 1}


def test_a_template_that_was_not_sent_again_expires() -> None:
    fields, data = ipfix_templates(template(256, [(1, 4)])), a_set(256, number(5, 4))
    times = [NOW * SECOND + k * SECOND for k in (0, 10, 11, 15, 21)]
    seen = read(
        [ipfix([fields]), ipfix([data]), ipfix([data], sequence=1), ipfix([fields], sequence=2),
         ipfix([data], sequence=2)],
        arrival=times, lifetime=10 * SECOND, hold_for=0,
    )  # fmt: skip
    assert seen.column("arrival_ts") == [times[1], times[4]]
    assert (seen.only.expired, seen.only.no_template) == (1, 1)


def test_data_wait_for_their_template_and_then_come_with_their_own_times() -> None:
    fields, other = ipfix_templates(template(256, [(1, 4)])), ipfix_templates(template(257, [(2, VARIABLE), (1, 2)]))
    data = [a_set(256, number(k, 4) + number(k + 1, 4)) for k in (10, 20)]
    varying = a_set(257, long(b"x") + number(7, 2))
    times = [NOW * SECOND + k for k in range(5)]
    payloads = [ipfix([data[0]]), ipfix([data[1], varying], sequence=2), ipfix([fields], sequence=5),
                ipfix([other], sequence=5), ipfix([a_set(256, number(30, 4))], sequence=5)]  # fmt: skip
    seen = read(payloads, arrival=times)
    assert list(zip(seen.column("arrival_ts"), seen.column("bytes"), strict=True)) == [
        (times[0], 10), (times[0], 11), (times[1], 20), (times[1], 21), (times[1], 7), (times[4], 30),
    ]  # fmt: skip
    assert (seen.only.no_template, seen.only.held, seen.only.records, seen.only.lost) == (0, 0, 6, 0)
    assert read(payloads, arrival=times, block=1) == seen


def test_no_more_waits_than_there_is_room_and_time_for() -> None:
    data = a_set(256, bytes(1000))
    times = [NOW * SECOND + k * SECOND for k in range(200)]
    fields = ipfix([ipfix_templates(template(256, [(1, 4)]))])
    many = read([ipfix([data])] * 0 + [ipfix([data], sequence=k) for k in range(199)] + [fields], arrival=times)
    kept = 64 * 1024 // 1000  # fewer than 64 sets fill the room
    assert many.only.no_template == 199 - min(kept, 64) and many.only.records == 250 * min(kept, 64)
    short = read(
        [ipfix([data], sequence=k) for k in range(199)] + [fields], arrival=times, hold_for=5 * SECOND + SECOND // 2
    )
    assert (
        short.only.records == 250 * 6 and short.only.no_template == 193
    )  # those of 193 s on, by the last one that came
    never = read([ipfix([data], sequence=k) for k in range(3)])
    assert never.only.no_template == 3 and never.rows == []


def test_sampling_by_interval_and_space_by_selector_and_by_probability() -> None:
    fields = ipfix_templates(
        template(256, [(1, 4)]), template(257, [(1, 4), (302, 8)]), template(258, [(305, 4), (306, 4)])
    )
    data = [a_set(256, number(1, 4)), a_set(257, number(2, 4) + number(9, 8)), a_set(258, number(2, 4) + number(3, 4))]
    for options, body, rates in (
        (ipfix_options(512, [(149, 4)], [(305, 4), (306, 4)]), number(7, 4) + number(1, 4) + number(99, 4), (100, 100)),
        (ipfix_options(512, [(302, 8)], [(304, 2), (305, 4), (306, 4)]),
         number(9, 8) + number(1, 2) + number(1, 4) + number(4, 4), (1, 5)),
        (ipfix_options(512, [(302, 8)], [(309, 4), (310, 4)]), number(9, 8) + number(2, 4) + number(64, 4), (1, 32)),
        (ipfix_options(512, [(149, 4)], [(311, 8)]), number(7, 4) + struct.pack(">d", 0.125), (8, 8)),
    ):  # fmt: skip
        seen = read([ipfix([fields, options, a_set(512, body), *data])])
        assert seen.column("sampling") == [*rates, 3]  # 2 of 5 packets: 2.5, rounded up


def test_what_a_template_cannot_be_is_counted() -> None:
    for wrong in (
        ipfix_templates(template(255, [(1, 4)])),
        ipfix_templates(template(256, [(1, 0)])),
        ipfix_templates(template(256, [(210, 4000), (210, 97)])),
        ipfix_templates(template(256, [(1, 1)] * 257)),
        ipfix_templates(template(256, [(1, 4), (2, 4)])[:-2]),
        ipfix_templates(template(256, [(9, 1, 4)])[:-2]),
        ipfix_options(256, [], [(34, 4)]),
    ):
        seen = read([ipfix([wrong])])
        assert (seen.only.malformed, seen.only.templates) == ({"template": 1}, 0)


def test_lengths_that_cannot_be_are_counted() -> None:
    fields, data = ipfix_templates(template(256, [(1, 4)])), a_set(256, number(5, 4))
    whole = ipfix([fields, data])
    seen = read([whole + b"more", whole[:-1], ipfix([fields, struct.pack(">HH", 256, 3), data], sequence=1)])
    assert seen.column("bytes") == [5]
    assert seen.only.malformed == {"length": 2, "set": 2}
    assert read([struct.pack(">HH", 10, 5) + whole[4:]]).only.malformed == {"length": 1}


def test_a_datagram_gives_no_more_records_than_one_may_hold() -> None:
    fields = ipfix_templates(template(256, [(4, 1)]), template(257, [(4, 1), (210, VARIABLE)]))
    for body in (a_set(256, bytes(5000)), a_set(257, bytes(5000)), a_set(256, bytes(1500)) + a_set(257, bytes(5000))):
        seen = read([ipfix([fields, body, body])])
        assert len(seen.rows) == 2000 and seen.only.malformed == {"too many": 1}


def test_records_beyond_what_a_datagram_may_hold_are_counted_and_none_of_them_is_lost() -> None:
    fields = ipfix_templates(template(256, [(4, 1)]), template(257, [(4, 1), (210, VARIABLE)]))
    for body, many in ((a_set(256, bytes(2300)), 2300), (a_set(257, bytes(3000)) + a_set(256, bytes(800)), 2300)):
        seen = read([ipfix([fields, body]), ipfix([a_set(256, bytes(5))], sequence=many)])
        assert (seen.only.records, seen.only.beyond, seen.only.lost) == (2005, 300, 0)
        assert seen.only.malformed == {"too many": 1}
        held = read([ipfix([a_set(256, bytes(2300))]), ipfix([fields])])
        assert (held.only.records, held.only.beyond) == (2000, 300)
    many_of_v5 = read([v5([v5_record()] * 1300)], most_records=1000).only
    assert (many_of_v5.records, many_of_v5.beyond) == (1000, 300)


@pytest.mark.parametrize(
    ("tcp", "udp", "want"), [((0, 0), (53, 5353), (53, 5353)), ((443, 80), (0, 0), (443, 80)), ((0, 9), (8, 0), (8, 9))]
)
def test_of_ports_of_tcp_and_of_udp_a_record_has_those_that_are_set(
    tcp: tuple[int, int], udp: tuple[int, int], want: tuple[int, int]
) -> None:
    for ports in ([(182, 2), (183, 2), (180, 2), (181, 2)], [(180, 2), (181, 2), (182, 2), (183, 2)]):
        values = dict(zip((182, 183, 180, 181), (*tcp, *udp), strict=True))
        body = b"".join(number(values[port], size) for port, size in ports)
        (row,) = read([ipfix([ipfix_templates(template(256, ports)), a_set(256, body)])]).rows
        assert (row["srcPort"], row["destPort"]) == want


@pytest.mark.parametrize(("four_bits", "six_bits", "want"), [(24, 0, 24), (0, 64, 64), (0, 0, 0)])
def test_of_prefixes_of_both_families_a_record_has_the_one_that_is_set(
    four_bits: int, six_bits: int, want: int
) -> None:
    fields = ipfix_templates(template(256, [(9, 1), (29, 1), (13, 1), (30, 1)]))
    (row,) = read([ipfix([fields, a_set(256, bytes([four_bits, six_bits, four_bits, six_bits]))])]).rows
    assert (row["src_mask"], row["dest_mask"]) == (want, want)
