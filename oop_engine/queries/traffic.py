"""Read packets and flow records as traffic: how much a tuple stands for, and which attempts nobody answered."""

from __future__ import annotations

from typing import Final

from oop_engine.api.stream import Stream
from oop_engine.errors import SchemaError
from operators.functions import AggregateFunction, count
from operators.functions import sum as total

_BYTES: Final = ("bytes", "ip_length", "length")
_PACKETS, _OCTETS = "_packets", "_octets"

ATTEMPT: Final = "proto = 6 and flags % 4 >= 2 and flags % 32 < 16"
"""A packet with SYN and without ACK, or a flow in which there was none with ACK."""


def octets_of(stream: Stream) -> str:
    """Return the attribute that has the bytes of a tuple; SchemaError where there is none."""
    found = next((name for name in _BYTES if name in stream.schema), None)
    if found is None:
        raise SchemaError(
            f"the stream has no bytes to count: {', '.join(stream.schema.names)}.\n"
            f'  Name an attribute as one of {", ".join(_BYTES)}: stream.derive(bytes="...").'
        )
    return found


def weighed(stream: Stream) -> tuple[Stream, AggregateFunction, AggregateFunction]:
    """Return the stream, and the functions that count its packets and its bytes.

    A flow record counts what it stands for, times `sampling` where it has that. Needs `bytes`, `ip_length` or `length`.
    """
    schema = stream.schema
    octets = octets_of(stream)
    if "packets" not in schema:
        return stream, count(), total(octets)
    if "sampling" not in schema:
        return stream, total("packets"), total(octets)
    scaled = stream.derive(**{_PACKETS: "packets * sampling", _OCTETS: f"{octets} * sampling"})
    return scaled, total(_PACKETS), total(_OCTETS)


def attempts(stream: Stream) -> tuple[Stream, AggregateFunction]:
    """Return the attempts to open a connection that got no answer, and the function that counts them."""
    tried = stream.filter(ATTEMPT)
    if "packets" not in stream.schema:
        return tried, count()
    scaled, packets, _ = weighed(tried)
    return scaled, packets
