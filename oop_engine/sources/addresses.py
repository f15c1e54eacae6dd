"""Text columns of IP addresses become 16-byte columns: dotted quads compiled, the rest once a distinct text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from operators.data.address import parse_ip
from operators.data.schema import IP_TYPE
from operators.kernels.data.dotted import read_dotted


def parse_addresses(texts: pa.Array) -> pa.Array:
    """Return the addresses of a string column, shape (n,); null and empty text is null, ValueError names other text."""
    n = len(texts)
    if n == 0:
        return pa.array([], IP_TYPE)
    _, offsets, data = texts.buffers()
    cuts = np.frombuffer(offsets, np.int32, n + 1, 4 * texts.offset)
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    text.flags.writeable = False
    cuts.flags.writeable = False
    addresses, other = np.zeros(16 * n, np.uint8), np.zeros(n, np.bool_)
    read_dotted(cuts, text, addresses, other)
    absent = np.zeros(n, np.bool_)
    if other.any():
        rows = addresses.reshape(n, 16)
        rare = texts.filter(pa.array(other)).dictionary_encode()
        known = [parse_ip(t) if t.strip() else None for t in rare.dictionary.to_pylist()]
        table = np.frombuffer(b"".join(k or bytes(16) for k in known) + bytes(16), np.uint8).reshape(-1, 16)
        codes = rare.indices.fill_null(len(known)).to_numpy()
        rows[other] = table[codes]
        absent[other] = np.array([k is None for k in known] + [True])[codes]
    nulls = int(absent.sum())
    bitmap = pa.py_buffer(np.packbits(~absent, bitorder="little")) if nulls else None
    return pa.Array.from_buffers(IP_TYPE, n, [bitmap, pa.py_buffer(addresses)], nulls)
