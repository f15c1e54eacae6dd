"""The columns of a packet, in the order that every capture has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from operators.data.schema import ip_field
from operators.errors import SchemaError, did_you_mean
from punctuation import NO_TIME

__all__ = ["FURTHER_SCHEMA", "NO_TIME", "PACKET_SCHEMA", "packet_schema", "prune"]

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

#: What packets have beyond PACKET_SCHEMA. It is decoded where it is asked for, and null where a packet has none.
#: ``srcMAC`` and ``destMAC`` are text; ``ethertype`` is that behind all VLAN tags; ``inner_vlan`` is the second tag,
#: where ``vlan`` is the first; ``mpls_label`` is the label on top of the stack, ``mpls_bottom`` that below all others.
#: ``dns_query`` is the name of the first question, ``tls_sni`` the server that a client of TLS names, ``http_host`` the
#: header of a request; `names` says how they are written.
#: ``tunnel``, ``tunnel_id``, ``outer_srcIP`` and ``outer_destIP`` are of the outermost tunnel: `tunnels` says which.
FURTHER_SCHEMA: pa.Schema = pa.schema(
    [
        pa.field("srcMAC", pa.string()),
        pa.field("destMAC", pa.string()),
        pa.field("ethertype", pa.uint16()),
        pa.field("inner_vlan", pa.uint16()),
        pa.field("vlan_count", pa.uint8()),
        pa.field("mpls_label", pa.uint32()),
        pa.field("mpls_bottom", pa.uint32()),
        pa.field("mpls_count", pa.uint8()),
        pa.field("dns_query", pa.string()),
        pa.field("dns_type", pa.uint16()),
        pa.field("dns_response", pa.bool_()),
        pa.field("dns_rcode", pa.uint8()),
        pa.field("dns_id", pa.uint16()),
        pa.field("tls_sni", pa.string()),
        pa.field("http_host", pa.string()),
        pa.field("rtp_type", pa.uint8()),
        pa.field("rtp_seq", pa.uint16()),
        pa.field("rtp_ts", pa.uint32()),
        pa.field("rtp_ssrc", pa.uint32()),
        pa.field("tunnel", pa.string()),
        pa.field("tunnel_id", pa.uint32()),
        ip_field("outer_srcIP"),
        ip_field("outer_destIP"),
    ]
)

IN_TUNNELS: Final = frozenset(("tunnel", "tunnel_id", "outer_srcIP", "outer_destIP"))
"""The columns for which tunnels have to be found."""


def packet_schema(columns: Sequence[str] = ()) -> pa.Schema:
    """Return PACKET_SCHEMA and behind it these of FURTHER_SCHEMA, each once.

    Raises SchemaError for a name that packets do not have.
    """
    known = prune(columns)
    return pa.schema([*PACKET_SCHEMA, *(field for field in known if field.name not in PACKET_SCHEMA.names)])


def prune(columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the columns named, those of PACKET_SCHEMA first; None means PACKET_SCHEMA.

    Raises SchemaError for a name that packets do not have.
    """
    if columns is None:
        return PACKET_SCHEMA
    known = [*PACKET_SCHEMA.names, *FURTHER_SCHEMA.names]
    for name in columns:
        if name not in known:
            raise SchemaError(
                f'a packet has no column "{name}".\n  columns: {", ".join(known)}\n  {did_you_mean(name, known)}'
            )
    return pa.schema([field for field in (*PACKET_SCHEMA, *FURTHER_SCHEMA) if field.name in columns])
