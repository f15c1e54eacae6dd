"""A channel is the port of who sends together with its transport: datagrams of UDP, or a connection of TCP or TLS.

Ports of UDP are themselves; those of connections are beyond all ports. So senders that differ in their transport alone
are told apart wherever ports are. A connection is an exporter's transport session (RFC 7011): nothing in it is lost or
overtakes, templates are sent in it once, and end with it.
"""

from __future__ import annotations

from typing import Final

from oop_engine.sources.flows.entries import STREAM

UDP: Final = "udp"
TCP: Final = "tcp"
TLS: Final = "tls"
_TRANSPORTS: Final = (UDP, TCP, TLS)


def channel_of(transport: str, port: int) -> int:
    """Return the channel of a port, of 0 to 65,535, over "udp", "tcp" or "tls"."""
    return _TRANSPORTS.index(transport) * STREAM + port


def port_of(channel: int) -> int:
    """Return the port of a channel."""
    return channel % STREAM if channel >= STREAM else channel


def transport_of(channel: int | None) -> str:
    """Return the transport of a channel, "udp" where nothing else is known."""
    return UDP if channel is None or channel < STREAM else _TRANSPORTS[min(channel // STREAM, 2)]


def sender_text(address: str, channel: int | None) -> str:
    """Write who sends: an address of UDP as it is, of a connection as tcp://192.0.2.1, to which a port is added."""
    transport = transport_of(channel)
    if transport == UDP:
        return address
    return f"{transport}://[{address}]" if ":" in address else f"{transport}://{address}"
