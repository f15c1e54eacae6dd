"""Decode what packets have beyond the columns of every capture, each kind by itself and only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import PacketTables, PayloadTables, TextTables
from oop_engine.sources.capture.links import NONE, read_links
from oop_engine.sources.capture.names import read_dns, read_names
from oop_engine.sources.capture.payloads import find_payloads
from oop_engine.sources.capture.rtp import read_rtp
from oop_engine.sources.capture.schema import FURTHER_SCHEMA, IN_TUNNELS
from oop_engine.sources.capture.tunnels import NAMES, find_tunnels

Arrays = dict[str, pa.Array]
_IN_LINKS: Final = frozenset(
    ("srcMAC", "destMAC", "ethertype", "inner_vlan", "vlan_count", "mpls_label", "mpls_bottom", "mpls_count")
)
_IN_DNS: Final = frozenset(("dns_query", "dns_type", "dns_response", "dns_rcode", "dns_id"))
_IN_RTP: Final = ("rtp_type", "rtp_seq", "rtp_ts", "rtp_ssrc")
_ROOM: Final = 1 << 14
"""Bytes of text for which there is room at first."""
_MAC: Final = 17
"""Characters of a hardware address."""
_HEXADECIMAL: Final = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


@attrs.frozen(eq=False)
class Tunnelled:
    """Packets and the tunnels that hold them: the innermost packets, then of the outermost tunnel what it is."""

    packets: PacketTables
    kind: NDArray[np.uint8]
    number: NDArray[np.int64]
    source: NDArray[np.uint64]
    target: NDArray[np.uint64]

    @classmethod
    def of(cls, data: NDArray[np.uint8], packets: PacketTables) -> Tunnelled:
        """Find the tunnels of packets."""
        count = len(packets[1])
        offset, number = np.empty((2, count), np.int64)
        caplen, length, link = np.empty((3, count), np.int32)
        kind = np.empty(count, np.uint8)
        source, target = np.zeros((2, 2 * count), np.uint64)
        find_tunnels(data, count, packets, (offset, caplen, length, link, kind, number, source, target))
        return cls((packets[0], offset, caplen, length, link), kind, number, source, target)

    def columns(self) -> Arrays:
        """Return what the columns of tunnels have."""
        names = pa.array([None, *NAMES])
        return {
            "tunnel": names.take(pa.array(self.kind)),
            "tunnel_id": _numbers("tunnel_id", self.number),
            "outer_srcIP": self._addresses(self.source),
            "outer_destIP": self._addresses(self.target),
        }

    def _addresses(self, values: NDArray[np.uint64]) -> pa.Array:
        kind = FURTHER_SCHEMA.field("outer_srcIP").type
        bitmap = pa.py_buffer(np.packbits(self.kind != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(self.kind), [bitmap, pa.py_buffer(values.astype("<u8", copy=False))])


def further_columns(
    data: NDArray[np.uint8], packets: PacketTables, inner: PacketTables, tunnels: Tunnelled | None, names: Sequence[str]
) -> list[pa.Array]:
    """Decode these columns of FURTHER_SCHEMA of packets, in the order of the names.

    Those of the link layer are of `packets`, names of `inner`; `tunnels` are there where a column of theirs is wanted.
    """
    found: Arrays = {}
    payloads = None
    for name in names:
        if name in found:
            continue
        if name in _IN_LINKS:
            found |= _links(data, packets, names)
        elif tunnels is not None and name in IN_TUNNELS:
            found |= tunnels.columns()
        else:
            payloads = payloads or _payloads(data, inner)
            if name in _IN_DNS:
                found |= _dns(data, payloads)
            elif name in _IN_RTP:
                found |= _rtp(data, payloads)
            else:
                found[name] = _names(data, payloads, name)
    return [found[name] for name in names]


def _links(data: NDArray[np.uint8], packets: PacketTables, names: Sequence[str]) -> Arrays:
    count = len(packets[1])
    source, target = np.empty((2, count), np.int64)
    kind, second, top, bottom = np.empty((4, count), np.int32)
    tags, labels = np.empty((2, count), np.uint8)
    read_links(data, count, packets, (source, target, kind, second, tags, top, bottom, labels))
    addresses = {"srcMAC": source, "destMAC": target}
    numbers = {
        "ethertype": kind, "inner_vlan": second, "vlan_count": tags, "mpls_label": top, "mpls_bottom": bottom,
        "mpls_count": labels,
    }  # fmt: skip
    # Text takes longer than all else, so it is made of what is asked for alone.
    found = {name: _addresses(values) for name, values in addresses.items() if name in names}
    return found | {name: _numbers(name, values) for name, values in numbers.items()}


def _numbers(name: str, values: NDArray[Any]) -> pa.Array:
    """Make a column of numbers, null where they are below 0."""
    kind = FURTHER_SCHEMA.field(name).type
    missing = values < 0
    return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=missing if missing.any() else None)


def _addresses(values: NDArray[np.int64]) -> pa.Array:
    """Write hardware addresses as text."""
    text = np.full((len(values), _MAC), ord(":"), np.uint8)
    for place in range(6):
        text[:, 3 * place : 3 * place + 2] = _HEXADECIMAL[values >> (40 - 8 * place) & 0xFF]
    offsets = np.arange(0, _MAC * (len(values) + 1), _MAC, dtype=np.int32)
    return _texts(offsets, text.reshape(-1), values != NONE)


def _texts(offsets: NDArray[np.int32], text: NDArray[np.uint8], present: NDArray[np.bool_]) -> pa.Array:
    """Make a column of texts that lie end to end, null where none is present."""
    bitmap = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.StringArray.from_buffers(len(present), pa.py_buffer(offsets), pa.py_buffer(text), bitmap)


def _payloads(data: NDArray[np.uint8], packets: PacketTables) -> PayloadTables:
    """Find the payloads of packets."""
    count = len(packets[1])
    start, stop = np.empty((2, count), np.int64)
    source, target = np.zeros((2, count), np.uint16)
    found = start, stop, np.empty(count, np.uint8), source, target
    find_payloads(data, count, packets, found)
    return found


def _dns(data: NDArray[np.uint8], payloads: PayloadTables) -> Arrays:
    count = len(payloads[0])
    number, response, code, kind = np.empty((4, count), np.int32)
    numbers = number, response, code, kind
    offsets, text = _read_texts(count, lambda first, text: read_dns(data, first, payloads, numbers, text))
    return {
        "dns_query": _texts(offsets, text, np.diff(offsets) > 0),
        "dns_type": _numbers("dns_type", kind),
        "dns_response": pa.array(response == 1, mask=response < 0),
        "dns_rcode": _numbers("dns_rcode", code),
        "dns_id": _numbers("dns_id", number),
    }


def _rtp(data: NDArray[np.uint8], payloads: PayloadTables) -> Arrays:
    kind, number, time, source = np.empty((4, len(payloads[0])), np.int64)
    read_rtp(data, payloads, (kind, number, time, source))
    return {name: _numbers(name, values) for name, values in zip(_IN_RTP, (kind, number, time, source), strict=True)}


def _names(data: NDArray[np.uint8], payloads: PayloadTables, name: str) -> pa.Array:
    http = name == "http_host"
    count = len(payloads[0])
    offsets, text = _read_texts(count, lambda first, text: read_names(data, first, http, payloads, text))
    return _texts(offsets, text, np.diff(offsets) > 0)


def _read_texts(
    count: int, read: Callable[[int, TextTables], tuple[Any, Any]]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Read a text of each of so many packets, in more room where there is not enough."""
    offsets, text, reached = np.zeros(count + 1, np.int32), np.empty(_ROOM, np.uint8), 0
    while True:
        found, used = read(reached, (offsets, text))
        reached = int(found)
        if reached == count:
            return offsets, text[: int(used)]
        more = np.empty(2 * len(text), np.uint8)
        more[: int(used)] = text[: int(used)]
        text = more
