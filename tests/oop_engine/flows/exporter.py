"""Exporters that the tests make themselves: datagrams of every protocol, packed byte by byte from plain values."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa

from oop_engine.sources.flows import Datagrams, Element, ExporterCounters, FlowDecoder, flow_columns

SECOND = 1_000_000_000
NOW = 1_750_000_000
VARIABLE = 0xFFFF

Spec = tuple[int, int] | tuple[int, int, int]
"""A field of a template: number and length, or enterprise, number and length."""


def address(text: str) -> bytes:
    """Give the 16 bytes of an address."""
    parsed = ipaddress.ip_address(text)
    return parsed.packed if parsed.version == 6 else b"\0" * 10 + b"\xff\xff" + parsed.packed


def four(text: str) -> bytes:
    return ipaddress.IPv4Address(text).packed


def v5(
    records: Sequence[bytes], *, sequence: int = 0, uptime: int = 100_000, seconds: int = NOW, nanoseconds: int = 0,
    engine: int = 0, sampling: int = 0, count: int | None = None,
) -> bytes:  # fmt: skip
    head = struct.pack(
        ">HHIIIIHH", 5, len(records) if count is None else count, uptime, seconds, nanoseconds, sequence & 0xFFFFFFFF,
        engine, sampling,
    )  # fmt: skip
    return head + b"".join(records)


def v5_record(
    source: str = "10.0.0.1", target: str = "10.0.0.2", *, hop: str = "10.0.0.9", inward: int = 1, outward: int = 2,
    packets: int = 3, octets: int = 400, first: int = 90_000, last: int = 95_000, sport: int = 1234, dport: int = 80,
    flags: int = 0x1B, proto: int = 6, tos: int = 8, source_as: int = 64_512, target_as: int = 64_513,
    source_mask: int = 24, target_mask: int = 16,
) -> bytes:  # fmt: skip
    return struct.pack(
        ">4s4s4sHHIIIIHHBBBBHHBBH", four(source), four(target), four(hop), inward, outward, packets, octets,
        first & 0xFFFFFFFF, last & 0xFFFFFFFF, sport, dport, 0, flags, proto, tos, source_as, target_as, source_mask,
        target_mask, 0,
    )  # fmt: skip


def v9(
    sets: Iterable[bytes], *, sequence: int = 0, uptime: int = 100_000, seconds: int = NOW, source: int = 7,
    count: int = 1,
) -> bytes:  # fmt: skip
    return struct.pack(">HHIIII", 9, count, uptime & 0xFFFFFFFF, seconds, sequence & 0xFFFFFFFF, source) + b"".join(
        sets
    )


def ipfix(sets: Iterable[bytes], *, sequence: int = 0, seconds: int = NOW, domain: int = 7) -> bytes:
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), seconds, sequence & 0xFFFFFFFF, domain) + body


def a_set(kind: int, body: bytes, *, padding: int = 0) -> bytes:
    body += bytes(padding)
    return struct.pack(">HH", kind, 4 + len(body)) + body


def _specs(fields: Iterable[Spec]) -> bytes:
    out = b""
    for field in fields:
        if len(field) == 2:
            out += struct.pack(">HH", *field)
        else:
            out += struct.pack(">HHI", field[1] | 0x8000, field[2], field[0])
    return out


def template(number: int, fields: Sequence[Spec]) -> bytes:
    """Give one template as it stands in a set of templates."""
    return struct.pack(">HH", number, len(fields)) + _specs(fields)


def v9_templates(*templates: bytes, padding: int = 0) -> bytes:
    return a_set(0, b"".join(templates), padding=padding)


def ipfix_templates(*templates: bytes, padding: int = 0) -> bytes:
    return a_set(2, b"".join(templates), padding=padding)


def v9_options(number: int, scopes: Sequence[Spec], fields: Sequence[Spec], *, padding: int = 0) -> bytes:
    body = struct.pack(">HHH", number, 4 * len(scopes), 4 * len(fields)) + _specs(scopes) + _specs(fields)
    return a_set(1, body, padding=padding)


def ipfix_options(number: int, scopes: Sequence[Spec], fields: Sequence[Spec]) -> bytes:
    body = struct.pack(">HHH", number, len(scopes) + len(fields), len(scopes)) + _specs(scopes) + _specs(fields)
    return a_set(3, body)


def withdrawal(number: int, *, options: bool = False) -> bytes:
    return a_set(3 if options else 2, struct.pack(">HH", number, 0))


def long(value: bytes, *, wide: bool = False) -> bytes:
    """Give a field of variable length, its length in one byte or in three."""
    if len(value) < 255 and not wide:
        return bytes([len(value)]) + value
    return b"\xff" + struct.pack(">H", len(value)) + value


def number(value: int, length: int) -> bytes:
    return value.to_bytes(length, "big", signed=value < 0)


def ntp(nanoseconds: int) -> bytes:
    """Give a time as NTP writes it."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return struct.pack(">II", (seconds + 2_208_988_800) & 0xFFFFFFFF, (rest << 32) // SECOND)


def padded(body: bytes) -> bytes:
    return body + bytes(-len(body) % 4)


def sflow(
    samples: Sequence[bytes], *, sequence: int = 0, uptime: int = 100_000, agent: str = "10.9.9.9", sub: int = 3,
    count: int | None = None,
) -> bytes:  # fmt: skip
    packed = ipaddress.ip_address(agent).packed
    return (
        struct.pack(">II", 5, 1 if len(packed) == 4 else 2)
        + packed
        + struct.pack(">IIII", sub, sequence, uptime, len(samples) if count is None else count)
        + b"".join(samples)
    )


def xdr(kind: int, body: bytes) -> bytes:
    body = padded(body)
    return struct.pack(">II", kind, len(body)) + body


def flow_sample(
    records: Sequence[bytes], *, rate: int = 1000, inward: int = 1, outward: int = 2, expanded: bool = False
) -> bytes:
    if expanded:
        head = struct.pack(">IIIIIIIIIII", 1, 0, 5, rate, 100_000, 0, 0, inward, 0, outward, len(records))
        return xdr(3, head + b"".join(records))
    return xdr(1, struct.pack(">IIIIIIII", 1, 5, rate, 100_000, 0, inward, outward, len(records)) + b"".join(records))


def header_record(frame: bytes, *, length: int | None = None, protocol: int = 1, stripped: int = 4) -> bytes:
    size = len(frame) + stripped if length is None else length
    return xdr(1, struct.pack(">IIII", protocol, size, stripped, len(frame)) + frame)


HERE = (address("192.0.2.1"), 5000)


@attrs.frozen
class Read:
    """What a decoder gave."""

    rows: list[dict[str, Any]]
    exporters: list[ExporterCounters]
    schema: pa.Schema

    @property
    def only(self) -> ExporterCounters:
        (one,) = self.exporters
        return one

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]


def plain(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    """Give rows with times as integers."""
    table = pa.Table.from_batches(batches, schema=schema)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.int64()))
    return table.to_pylist()


def read(
    payloads: Sequence[bytes], *, columns: Sequence[str] | None = None, more: Sequence[str | Element] = (),
    arrival: Sequence[int] | None = None, exporters: Sequence[tuple[bytes, int]] | None = None, block: int = 0,
    **options: Any,
) -> Read:  # fmt: skip
    """Decode datagrams, `block` of them at a time (all at once when 0), and check that every batch is well-formed."""
    decoder = FlowDecoder(columns, available=flow_columns(more), **options)
    whence = [HERE] * len(payloads) if exporters is None else list(exporters)
    times = [NOW * SECOND] * len(payloads) if arrival is None else list(arrival)
    batches: list[pa.RecordBatch] = []
    step = block or max(len(payloads), 1)
    for start in range(0, len(payloads), step):
        part = slice(start, start + step)
        datagrams = Datagrams.of(list(payloads[part]), arrival=times[part], exporters=whence[part])
        for batch in decoder.decode(datagrams):
            batch.validate(full=True)
            assert 0 < len(batch) <= options.get("batch_rows", 65_536)
            batches.append(batch)
    decoder.finish()
    return Read(plain(batches, decoder.schema), decoder.exporters(), decoder.schema)
