"""The columns of a flow record, the same for all exporters, and the elements each of them is filled from.

A column has a short name; the IANA names of the elements that fill it, and other tools' names for it, are its aliases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.sources.flows.elements import ELEMENTS, REVERSE, Element, element
from operators.data.schema import aliased, ip_field, is_ip
from operators.errors import SchemaError, did_you_mean

_TIME = pa.timestamp("ns", "UTC")


@attrs.frozen
class Column:
    """A column and where it comes from: of `elements` the first that a template has."""

    field: pa.Field
    elements: tuple[tuple[int, int], ...] = ()
    type: str = ""
    """The elements' type, where all have one; "" for columns that have rules of their own in `plans`."""
    same: int = 1
    """How many of the elements mean just this; those behind stand in for them where they are missing."""
    name: str = attrs.field(init=False)
    width: int = attrs.field(init=False)
    """The bytes of an entry before it becomes an Arrow array; 0 for byte strings of any length."""
    address: bool = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "name", str(self.field.name))
        object.__setattr__(self, "width", _width(self.field.type))
        object.__setattr__(self, "address", is_ip(self.field))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 0
    return 1 if pa.types.is_boolean(kind) else int(kind.byte_width)


def _unsigned(name: str, kind: pa.DataType, *same: int, instead: Sequence[int] = (), reverse: bool = False) -> Column:
    keys = (*((REVERSE * reverse, number) for number in same), *((0, number) for number in instead))
    return Column(pa.field(name, kind), keys, "unsigned", len(same))


def _given(name: str, kind: pa.DataType, *, nullable: bool = False) -> Column:
    return Column(pa.field(name, kind, nullable=nullable))


_PLAIN: Final = (
    Column(pa.field("ts", _TIME)),
    Column(pa.field("end_ts", _TIME)),
    Column(ip_field("srcIP")),
    Column(ip_field("destIP")),
    _unsigned("srcPort", pa.uint16(), 7, instead=(182, 180)),
    _unsigned("destPort", pa.uint16(), 11, instead=(183, 181)),
    _unsigned("proto", pa.uint8(), 4, instead=(193,)),
    _unsigned("bytes", pa.uint64(), 1, instead=(85, 231, 23, 171)),
    _unsigned("packets", pa.uint64(), 2, instead=(86, 298, 24, 172)),
    _unsigned("flags", pa.uint16(), 6),
    _unsigned("tos", pa.uint8(), 5),
    _unsigned("in_if", pa.uint32(), 10, instead=(252,)),
    _unsigned("out_if", pa.uint32(), 14, instead=(253,)),
    _unsigned("src_as", pa.uint32(), 16),
    _unsigned("dest_as", pa.uint32(), 17),
    _unsigned("src_mask", pa.uint8(), 9, 29),
    _unsigned("dest_mask", pa.uint8(), 13, 30),
    Column(ip_field("next_hop")),
    _unsigned("vlan", pa.uint16(), 58, instead=(243,)),
    _unsigned("end_reason", pa.uint8(), 136),
    _unsigned("direction", pa.uint8(), 61),
    _unsigned("rev_bytes", pa.uint64(), 1, 85, instead=(232,), reverse=True),
    _unsigned("rev_packets", pa.uint64(), 2, 86, instead=(299,), reverse=True),
    _unsigned("rev_flags", pa.uint16(), 6, reverse=True),
    _given("sampling", pa.uint32()),
    Column(ip_field("exporter")),
    _given("exporter_port", pa.uint16()),
    _given("domain", pa.uint32()),
    _given("version", pa.uint8()),
    _given("export_ts", _TIME, nullable=True),
    _given("arrival_ts", _TIME, nullable=True),
)

_MORE: Final = {column.name: column for column in (_given("lost", pa.int64()), _given("received", pa.int64()))}
"""Columns beyond the common ones that datagrams tell of themselves."""

STARTS: Final = ((0, 156), (0, 154), (0, 152), (0, 150), (0, 158), (0, 22), (0, 325), (0, 324), (0, 323), (0, 322))
ENDS: Final = ((0, 157), (0, 155), (0, 153), (0, 151), (0, 159), (0, 21), (0, 325), (0, 324), (0, 323), (0, 322))
ADDRESSES: Final = {"srcIP": (8, 27), "destIP": (12, 28), "next_hop": (15, 62)}
"""The IPv4 and the IPv6 element of each column of addresses."""


def _aliases() -> dict[str, str]:
    known = {
        "start": "ts", "end": "end_ts", "arrival": "arrival_ts", "src": "srcIP", "dst": "destIP", "sport": "srcPort",
        "dport": "destPort", "tcp_flags": "flags", "dst_as": "dest_as", "dst_mask": "dest_mask",
        "src_addr": "srcIP", "dst_addr": "destIP", "src_port": "srcPort", "dst_port": "destPort",
        "vlan_id": "vlan", "sampling_rate": "sampling", "sampler_address": "exporter",
        "collectionTimeMilliseconds": "arrival_ts", "exporterIPv4Address": "exporter",
        "exporterTransportPort": "exporter_port", "observationDomainId": "domain", "exportProtocolVersion": "version",
        "samplingInterval": "sampling", "samplerRandomInterval": "sampling", "samplingPacketInterval": "sampling",
    }  # fmt: skip
    names = {entry.key: name for name, entry in ELEMENTS.items()}
    for column in _PLAIN:
        for key in column.elements[: column.same]:
            known[names[key]] = column.name
    for column, numbers in ADDRESSES.items():
        known.update({names[0, number]: column for number in numbers})
    known.update({names[key]: "ts" for key in STARTS[:6]})
    known.update({names[key]: "end_ts" for key in ENDS[:6]})
    return known


FLOW_ALIASES: Final = _aliases()
"""IANA's and other tools' names for the common columns."""


def _named(column: Column) -> Column:
    """Let a column's field bear its aliases, so that queries may be written in any of these names."""
    names = [alias for alias, name in FLOW_ALIASES.items() if name == column.name]
    return attrs.evolve(column, field=aliased(column.field, names)) if names else column


COMMON: Final = tuple(_named(column) for column in _PLAIN)

FLOW_SCHEMA: Final = pa.schema([column.field for column in COMMON])
"""One row a flow record, or a packet sampled by sFlow.

`ts` and `end_ts` are its first and last packet; null where the record has no such time, or one before 1990 or from 2100
on. Times that count from an exporter's uptime are as exact as the date in its datagrams: up to 2 ms off with v5 (both
clocks are rounded to ms), and up to a second early with v9, half a second on average, as its header has whole seconds;
with IPFIX also by what its date was put right by since it booted. `end_ts - ts` is exact to a ms. Addresses are 16
bytes, IPv4 as ::ffff:a.b.c.d. `bytes` and `packets` are as exported: times `sampling` they estimate the traffic,
which is what the record, its sampler or its exporter has announced, and 1 where nobody has.
`flags` are all TCP flags seen; `end_reason` is 1 idle, 2 active timeout, 3 end seen, 4 forced, 5 lack of resources;
`rev_...` the other direction of a biflow. `exporter` and `exporter_port` are where the datagram came from (null and 0
where a file does not tell); the `exporter` of sFlow is the agent, as it says itself. `domain` is the observation domain
(v9: source id; v5: engine type and id; sFlow: sub-agent), `version` 1, 5, 7, 9, 10 (IPFIX) or 105 (sFlow 5).
`export_ts` is the exporter's clock when it sent (sFlow has none), `arrival_ts` ours when it came. For sFlow, `ts` and
`end_ts` are the arrival, `packets` is 1 and `bytes` the IP length.
"""

_ARROW: Final = {
    "boolean": pa.bool_(),
    "macAddress": pa.binary(6),
    "string": pa.string(),
    "octetArray": pa.binary(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "unsigned8": pa.uint8(),
    "unsigned16": pa.uint16(),
    "unsigned32": pa.uint32(),
    "unsigned64": pa.uint64(),
    "signed8": pa.int8(),
    "signed16": pa.int16(),
    "signed32": pa.int32(),
    "signed64": pa.int64(),
}


def column_of(wanted: Element) -> Column:
    """Return the nullable column of an element, under its own name."""
    if wanted.type in ("ipv4Address", "ipv6Address"):
        field = ip_field(wanted.name)
    else:
        field = pa.field(wanted.name, _ARROW.get(wanted.type, _TIME))
    return Column(field, (wanted.key,), wanted.type)


def is_more(name: str) -> bool:
    """Return whether a name is that of a column beyond the common ones: an element, or what datagrams tell."""
    return name in _MORE or element(name) is not None


def more_columns(names: Iterable[str | Element]) -> tuple[Column, ...]:
    """Return the columns beyond the common ones that a user names: elements, or their names.

    A name is IANA's ("postNATSourceIPv4Address"), "reverse" and one of those, or "6871/40": number 40 of enterprise
    6871 as bytes. "lost" and "received" count from the first datagram of an exporter's session up to the one of a
    record: what its sequence says never came, and what came before it, both flow records of v5 and IPFIX, datagrams of
    v9 and sFlow. An alias of a common column means that column, so nothing is added. SchemaError for other names.
    """
    found: dict[str, Column] = {}
    common = set(FLOW_SCHEMA.names)
    for name in names:
        if isinstance(name, str) and (name in common or name in FLOW_ALIASES):
            continue
        if isinstance(name, str) and name in _MORE:
            found[name] = _MORE[name]
            continue
        wanted = element(name) if isinstance(name, str) else name
        if wanted is None:
            raise SchemaError(
                f'flow records have no column "{name}".\n'
                f"  common columns: {', '.join(FLOW_SCHEMA.names)}\n"
                '  More are named as IANA names elements, or by number: "postNATSourceIPv4Address", "6871/40".\n'
                f"  {did_you_mean(str(name), [*FLOW_SCHEMA.names, *_MORE, *FLOW_ALIASES, *ELEMENTS])}"
            )
        if wanted.name in common or wanted.name in found:
            raise SchemaError(
                f'there is a column "{wanted.name}" already; give the element {wanted.number} another name.'
            )
        found[wanted.name] = column_of(wanted)
    return tuple(found.values())
