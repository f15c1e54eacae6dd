"""Small streams with what makes streams hard: tuples out of order, links that lag, lulls, a packet without a time."""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address

import pyarrow as pa

from oop_engine.api.stream import Stream
from oop_engine.plan.graph import source_node
from oop_engine.plan.punctuate import Promise
from oop_engine.sources.memory import Rows
from operators.data.address import parse_ip
from operators.data.page import Page, Row, Scalar
from operators.data.schema import Schema, ip_field

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
START = 1_795_255_190 * SECOND
"""2026-11-21T09:59:50Z: no boundary of a window."""

PACKETS = pa.schema(
    [
        pa.field("ts", pa.timestamp("ns", tz="UTC")),
        ip_field("srcIP"),
        ip_field("destIP"),
        pa.field("srcPort", pa.uint16()),
        pa.field("length", pa.int32()),
    ]
)
Tables = Mapping[str, Sequence[Row]]


def packets(
    seed: int, count: int, *, gap: int, disorder: int, skew: int = 0, lull: int = 0, timeless: int = 0
) -> list[Row]:
    """Make a table in arrival order: `gap` seconds apart on average, delayed by up to `disorder` seconds.

    All times are `skew` seconds back, in the middle nothing happens for `lull` seconds, and `timeless` rows have no ts.
    """
    draw = random.Random(seed)
    rows: list[tuple[float, Row]] = []
    clock = 0.0
    for n in range(count):
        clock += draw.expovariate(1 / gap) + (lull if n == count // 2 else 0)
        row: Row = {
            "ts": START + round((clock - skew) * SECOND),
            "srcIP": f"202.101.0.{min(draw.randrange(4), draw.randrange(4))}",
            "destIP": draw.choice(["10.0.0.1", "10.0.1.1", "2001:db8::1"]),
            "srcPort": draw.choice([80, 443, 1024, 5353, 65535]),
            "length": draw.randrange(40, 1500),
        }
        rows.append((clock + draw.uniform(0, disorder), row))
    rows.sort(key=lambda arrival: arrival[0])
    arrived = [row for _, row in rows]
    for n in draw.sample(range(count), timeless):
        arrived[n]["ts"] = None
    return arrived


TABLES: Tables = {
    "Main": packets(1, 90, gap=8, disorder=90, lull=400, timeless=1),
    "M": packets(2, 60, gap=20, disorder=0),
    "Control": packets(3, 4, gap=150, disorder=5),
    "Main1": packets(4, 80, gap=6, disorder=40),
    "Main2": packets(5, 80, gap=6, disorder=40, skew=170),
}


def stream(name: str, table: Sequence[Row], *, rows: int = 13, promises: Sequence[Promise] = ()) -> Stream:
    """Make a stream of a table, in record batches of so many rows."""
    batches = [batch(table[at : at + rows]) for at in range(0, len(table), rows)]
    return Stream(source_node(Rows(name, tuple(batches), PACKETS), promises=promises))


def streams(tables: Tables = TABLES) -> dict[str, Stream]:
    """Make a stream of each table."""
    return {name: stream(name, table) for name, table in tables.items()}


def batch(table: Sequence[Row]) -> pa.RecordBatch:
    """Make a record batch; addresses are given as text."""
    columns = [[_stored(row[field.name], field.name) for row in table] for field in PACKETS]
    return Page.of(Schema(PACKETS), dict(zip(PACKETS.names, columns, strict=True))).batch


def plain(row: Row) -> tuple[Scalar, ...]:
    """Give the values of a row of results as a table has them: times as integers, addresses as text."""
    return tuple(_shown(value) for value in row.values())


@functools.cache
def _stored(value: Scalar, name: str) -> Scalar:
    return parse_ip(value) if name.endswith("IP") and isinstance(value, str) else value


def _shown(value: Scalar) -> Scalar:
    if not isinstance(value, bytes):
        return value
    address = IPv6Address(value)
    return str(address.ipv4_mapped or address)
