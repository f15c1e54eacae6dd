"""Decoded columns become an Arrow record batch without copying, nulls where a packet has no such header."""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture import decode as d
from oop_engine.sources.capture.rows import NO_TIME, Rows

# column: (bit of `want`, its array's type, bit of `seen` without which it is null)
_DECODED: Final[dict[str, tuple[int, type[np.generic], int]]] = {
    "srcIP": (d.WANT_SRC, np.uint64, d.HAS_IP),
    "destIP": (d.WANT_DST, np.uint64, d.HAS_IP),
    "srcPort": (d.WANT_PORTS, np.uint16, d.HAS_PORTS),
    "destPort": (d.WANT_PORTS, np.uint16, d.HAS_PORTS),
    "proto": (d.WANT_PROTO, np.uint8, d.HAS_PROTO),
    "flags": (d.WANT_FLAGS, np.uint8, d.HAS_FLAGS),
    "ip_length": (d.WANT_IP_LENGTH, np.int32, d.HAS_IP),
    "payload_length": (d.WANT_PAYLOAD, np.int32, d.HAS_PAYLOAD),
    "ttl": (d.WANT_TTL, np.uint8, d.HAS_IP),
    "vlan": (d.WANT_VLAN, np.uint16, d.HAS_VLAN),
    "fragment": (d.WANT_FRAGMENT, np.int32, d.HAS_FRAGMENT),
    "status": (d.WANT_STATUS, np.uint8, 0),
}
_ADDRESSES: Final = ("srcIP", "destIP")
_PORTS: Final = ("srcPort", "destPort")


def decode_batch(
    data: NDArray[np.uint8], rows: Rows, count: int, untimed: int, schema: pa.Schema
) -> tuple[pa.RecordBatch, int, int]:
    """Decode the first `count` rows, `untimed` of them without a time, into a batch of `schema`.

    Gives (batch, packets that are not IP, packets cut short).
    """
    wanted = set(schema.names)
    if not wanted.isdisjoint(_PORTS):
        wanted.update(_PORTS)  # stored together
    want = 0
    made: dict[str, NDArray[Any]] = {}
    for name, (bit, kind, _) in _DECODED.items():
        used = name in wanted
        want |= bit if used else 0
        made[name] = _room(kind, count * (2 if name in _ADDRESSES else 1) if used else 0)
    others, shorts, common = d.decode(
        data, count, rows.offset, rows.caplen, rows.length, rows.link, want,
        made["srcIP"], made["destIP"], made["srcPort"], made["destPort"], made["proto"], made["flags"],
        made["ip_length"], made["payload_length"], made["ttl"], made["vlan"], made["fragment"], made["status"],
        rows.seen,
    )  # fmt: skip
    arrays: list[pa.Array] = []
    for field in schema:
        name = field.name
        present = None
        if name in made:
            values, mask = made[name], _DECODED[name][2]
            if name in _ADDRESSES and sys.byteorder == "big":
                values.byteswap(inplace=True)
            if mask & ~common:
                present = (rows.seen[:count] & mask) != 0
        else:
            filled: NDArray[Any] = getattr(rows, name)[:count]
            values = _room(filled.dtype.type, count)
            values[:] = filled
            if name == "ts" and untimed:
                present = filled != NO_TIME
        arrays.append(_array(field.type, values, count, present))
    return pa.RecordBatch.from_arrays(arrays, schema=schema), int(others), int(shorts)


def _room(kind: type[np.generic], count: int) -> NDArray[Any]:
    # Arrow's pool keeps freed memory, where fresh pages would cost more than the decoding.
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)


def _array(kind: pa.DataType, values: NDArray[Any], count: int, present: NDArray[np.bool_] | None) -> pa.Array:
    nulls = 0 if present is None else count - int(np.count_nonzero(present))
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little")) if present is not None and nulls else None
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(values)], nulls)
