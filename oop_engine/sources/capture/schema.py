"""The columns of a packet, in the order that every capture has them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from operators.data.schema import ip_field
from operators.errors import SchemaError, did_you_mean
from punctuation import NO_TIME

__all__ = ["NO_TIME", "PACKET_SCHEMA", "prune"]

#: One row a packet. ``ts`` is null for packets that carry no (or no representable) time. Addresses are 16 bytes in
#: network order, IPv4 as ::ffff:a.b.c.d; null for frames without an IP header. For ICMP the ports are type and
#: code. ``length`` is bytes on the wire, ``caplen`` bytes kept; ``ip_length`` the IP packet, its header included;
#: ``payload_length`` what follows the transport header; ``fragment`` the offset in bytes of a fragment, null for
#: whole packets; ``interface`` counts from 0 through the whole file; ``status`` is 0 decoded to the transport
#: header, 1 IP only, 2 not IP or of a link type that is not decoded, 3 cut before the headers end. ``seq``, ``ack``
#: and ``tcp_window`` stand in the header of TCP; ``mss`` among the options of a SYN.
PACKET_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("ts", pa.timestamp("ns", tz="UTC")),
        ip_field("srcIP"),
        ip_field("destIP"),
        pa.field("srcPort", pa.uint16()),
        pa.field("destPort", pa.uint16()),
        pa.field("proto", pa.uint8()),
        pa.field("length", pa.int32(), nullable=False),
        pa.field("flags", pa.uint8()),
        pa.field("caplen", pa.int32(), nullable=False),
        pa.field("ip_length", pa.int32()),
        pa.field("payload_length", pa.int32()),
        pa.field("ttl", pa.uint8()),
        pa.field("vlan", pa.uint16()),
        pa.field("fragment", pa.int32()),
        pa.field("interface", pa.int32(), nullable=False),
        pa.field("status", pa.uint8(), nullable=False),
        pa.field("seq", pa.uint32()),
        pa.field("ack", pa.uint32()),
        pa.field("tcp_window", pa.uint16()),
        pa.field("mss", pa.uint16()),
    ]
)


def prune(columns: Sequence[str] | None) -> pa.Schema:
    """Return PACKET_SCHEMA with only the columns named, in its own order; None keeps all.

    Raises SchemaError for a name that packets do not have.
    """
    if columns is None:
        return PACKET_SCHEMA
    for name in columns:
        if name not in PACKET_SCHEMA.names:
            columns_text = ", ".join(PACKET_SCHEMA.names)
            raise SchemaError(
                f'a packet has no column "{name}".\n'
                f"  columns: {columns_text}\n"
                f"  {did_you_mean(name, PACKET_SCHEMA.names)}"
            )
    return pa.schema([field for field in PACKET_SCHEMA if field.name in columns])
