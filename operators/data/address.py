"""An address is 16 bytes in network order, IPv4 mapped into IPv6 (::ffff:a.b.c.d), so that one column holds both."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Final

import numpy as np
import pyarrow as pa

from operators.kernels.data.address import address_room, write_addresses

_MOST_TEXT: Final = 2**31 - 1


def format_ip(array: pa.Array) -> pa.Array:
    """Write a column of addresses (fixed_size_binary(16)) as text; nulls stay null.

    Mapped IPv4 gives a dotted quad, all else the form of RFC 5952. Raises TypeError for a column of another type,
    ValueError beyond 2 GiB of text.

    >>> format_ip(pa.array([parse_ip("10.0.0.7"), parse_ip("2001:DB8:0:0::1"), None], pa.binary(16))).to_pylist()
    ['10.0.0.7', '2001:db8::1', None]
    """
    if array.type != pa.binary(16):
        raise TypeError(f"addresses are fixed_size_binary[16]; this column is {array.type}.")
    count = len(array)
    validity, values = array.buffers()
    data = np.frombuffer(values if values is not None else b"", np.uint8)[16 * array.offset :]
    data.flags.writeable = False
    nulls = array.null_count
    absent = np.zeros(0, np.bool_)
    if nulls:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        absent = bits[array.offset : array.offset + count] == 0
    room = int(address_room(data, absent, count))
    if room > _MOST_TEXT:
        raise ValueError(f"{count:,} addresses need more than 2 GiB of text; format them in smaller pages.")
    offsets = np.empty(count + 1, np.int32)
    text = np.empty(room, np.uint8)
    write_addresses(data, absent, count, offsets, text)
    bitmap = pa.py_buffer(np.packbits(~absent, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(
        pa.string(), count, [bitmap, pa.py_buffer(offsets), pa.py_buffer(text[: offsets[count]])], nulls
    )


def parse_ip(text: str) -> bytes:
    """Read an IPv4 or IPv6 address into its 16 bytes. Raises ValueError naming the text."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError as error:
        raise ValueError(f'"{text}" is no IP address; write one like 10.0.0.7 or 2001:db8::7.') from error
    return _bytes(address)


def parse_network(text: str) -> tuple[bytes, bytes]:
    """Read a network such as 10.0.0.0/8 into its first and last address, 16 bytes each; a bare address is both.

    Raises ValueError naming the text, and the network meant where bits are set behind the prefix.
    """
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError as error:
        hint = "write one like 10.0.0.0/8 or 2001:db8::/32"
        with contextlib.suppress(ValueError):
            hint = f"did you mean {ipaddress.ip_network(text.strip(), strict=False)}"
        raise ValueError(f'"{text}" is no network ({error}); {hint}.') from error
    return _bytes(network.network_address), _bytes(network.broadcast_address)


def _bytes(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bytes:
    if isinstance(address, ipaddress.IPv4Address):
        return b"\0" * 10 + b"\xff\xff" + address.packed
    return address.packed
