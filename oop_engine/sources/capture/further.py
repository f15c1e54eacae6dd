"""Decode what packets have beyond the columns of every capture, each kind by itself and only where it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import PacketTables
from oop_engine.sources.capture.links import NONE, read_links
from oop_engine.sources.capture.schema import FURTHER_SCHEMA

Arrays = dict[str, pa.Array]
_MAC: Final = 17
"""Characters of a hardware address."""
_HEXADECIMAL: Final = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)


def further_columns(data: NDArray[np.uint8], packets: PacketTables, names: Sequence[str]) -> list[pa.Array]:
    """Decode these columns of FURTHER_SCHEMA of packets, in the order of the names."""
    found: Arrays = {}
    for name in names:
        if name not in found:
            found |= _READERS[name](data, packets)
    return [found[name] for name in names]


def _links(data: NDArray[np.uint8], packets: PacketTables) -> Arrays:
    count = len(packets[1])
    wide = [np.empty(count, np.int64) for _ in range(2)]
    source, target = wide
    kind, second, top, bottom = (np.empty(count, np.int32) for _ in range(4))
    tags, labels = (np.empty(count, np.uint8) for _ in range(2))
    read_links(data, count, packets, (source, target, kind, second, tags, top, bottom, labels))
    return {
        "srcMAC": _addresses(source),
        "destMAC": _addresses(target),
        **{
            name: _numbers(name, values)
            for name, values in (
                ("ethertype", kind), ("inner_vlan", second), ("vlan_count", tags), ("mpls_label", top),
                ("mpls_bottom", bottom), ("mpls_count", labels),
            )
        },
    }  # fmt: skip


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


_READERS: Final[Mapping[str, Callable[[NDArray[np.uint8], PacketTables], Arrays]]] = dict.fromkeys(
    ("srcMAC", "destMAC", "ethertype", "inner_vlan", "vlan_count", "mpls_label", "mpls_bottom", "mpls_count"), _links
)
"""What decodes a column, with others of its kind."""
