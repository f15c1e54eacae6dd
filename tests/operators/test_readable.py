"""Values read the same wherever they are shown, at any depth: addresses as addresses, times as ISO 8601."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from operators.data.address import parse_ip
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import address_text, address_text_field, printable_texts, python_values, text_of
from operators.data.schema import Schema, ip_field

V4, V6 = parse_ip("10.0.0.1"), parse_ip("2001:db8::7")
IP = ip_field("v")
PAIR = pa.struct([IP, pa.field("t", pa.timestamp("ns", "UTC")), pa.field("x", pa.float64())])
NESTED = [
    (pa.list_(IP), [[V4], None, [V4, V6], []], [["10.0.0.1"], None, ["10.0.0.1", "2001:db8::7"], []]),
    (pa.large_list(IP), [[V4], None, [None, V6]], [["10.0.0.1"], None, [None, "2001:db8::7"]]),
    (pa.list_(IP, 2), [[V4, V6], None, [V6, None]], [["10.0.0.1", "2001:db8::7"], None, ["2001:db8::7", None]]),
    (pa.list_view(IP), [[V4], None, [V6, V4], []], [["10.0.0.1"], None, ["2001:db8::7", "10.0.0.1"], []]),
    (pa.list_(pa.list_(IP)), [[[V4], []], None, [None, [V6]]], [[["10.0.0.1"], []], None, [None, ["2001:db8::7"]]]),
    (pa.map_(IP.with_nullable(False), IP), [[(V4, V6)], None, []], [[("10.0.0.1", "2001:db8::7")], None, []]),
]


@pytest.mark.parametrize(("kind", "values", "wanted"), NESTED, ids=[str(kind)[:20] for kind, *_ in NESTED])
def test_addresses_in_lists_structs_and_maps_are_text(kind: pa.DataType, values: list, wanted: list) -> None:
    field, array = pa.field("c", kind), pa.array(values, kind)
    found = address_text(array, field)
    found.validate(full=True)
    assert found.to_pylist() == python_values(array, field) == wanted
    assert found.type == address_text_field(field).type
    assert address_text(array.slice(1), field).to_pylist() == wanted[1:]
    assert [None if t is None else json.loads(t) for t in text_of(array, field).to_pylist()] == json.loads(
        json.dumps(wanted)
    )


def test_what_holds_no_address_stays_the_array_it_was() -> None:
    array, field = pa.array([[b"x"], None]), pa.field("c", pa.list_(pa.binary()))
    assert address_text(array, field) is array
    assert address_text_field(field) is field


def test_times_and_numbers_in_structs_are_what_json_has() -> None:
    array = pa.array([{"v": V4, "t": 1_500_000_000, "x": float("nan")}, {"v": None, "t": None, "x": 1.5}], PAIR)
    assert [json.loads(text) for text in text_of(array, pa.field("c", PAIR)).to_pylist()] == [
        {"v": "10.0.0.1", "t": "1970-01-01T00:00:01.5Z", "x": None},
        {"v": None, "t": None, "x": 1.5},
    ]


def test_addresses_of_a_dictionary_are_text() -> None:
    array = pa.array([V4, V6, None, V4], pa.binary(16)).dictionary_encode()
    field = ip_field("c").with_type(array.type)
    assert address_text(array, field).to_pylist() == python_values(array, field) == text_of(array, field).to_pylist()
    assert address_text(array, field).to_pylist() == ["10.0.0.1", "2001:db8::7", None, "10.0.0.1"]


def test_json_takes_the_rows_of_a_page_whatever_their_types() -> None:
    columns = {
        "ip": pa.array([V4], pa.binary(16)),
        "ts": pa.array([1], pa.timestamp("ns", "UTC")),
        "day": pa.array([date(2026, 11, 24)]),
        "rtt": pa.array([2_500_000], pa.duration("ns")),
        "price": pa.array([Decimal("1.50")]),
        "raw": pa.array([b"\x01\xff"]),
        "word": pa.array(["a"]).dictionary_encode(),
        "top": pa.array([[{"v": V6, "t": 0, "x": 1.0}]], pa.list_(PAIR)),
        "n": pa.array([None], pa.int64()),
    }
    fields = [ip_field("ip") if name == "ip" else pa.field(name, column.type) for name, column in columns.items()]
    page = Page.of(Schema(pa.schema(fields)), columns)
    assert json.loads(json.dumps(page.rows())) == [
        {
            "ip": "10.0.0.1",
            "ts": "1970-01-01T00:00:00.000000001Z",
            "day": "2026-11-24",
            "rtt": 0.0025,
            "price": "1.50",
            "raw": "01ff",
            "word": "a",
            "top": [{"v": "2001:db8::7", "t": "1970-01-01T00:00:00Z", "x": 1.0}],
            "n": None,
        }
    ]
    assert page.plain_rows()[0]["ts"] == 1
    assert page.plain_rows()[0]["ip"] == V4


@pytest.mark.parametrize("mark", ["\x1b", "\x07", "\x7f", "\x9b", "\x85", "\u202e", "\u2066", "\u200f", "\u2028", "\n"])
def test_what_steers_a_terminal_is_an_escape(mark: str) -> None:
    assert printable(f"a{mark}b").isprintable()
    assert printable_texts(pa.array([f"a{mark}b", None, "plain"])).to_pylist() == [
        printable(f"a{mark}b"),
        None,
        "plain",
    ]


def test_letters_of_any_script_stay() -> None:
    assert printable("Grüße, 世界 \u05e9") == "Grüße, 世界 \u05e9"
