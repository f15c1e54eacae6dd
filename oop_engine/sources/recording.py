"""Write generated packets as a real capture, or as Parquet, for demos and measurements on files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oop_engine.sinks import FileSink, Parquet
from oop_engine.sources.generator import Generated
from operators.data.page import Page
from operators.data.schema import Schema
from operators.kernels.data.pack import pack_rows

Bytes: TypeAlias = npt.NDArray[np.uint8]

SNAPLEN = 96
_ETHERNET = bytes.fromhex("02000000000202000000000108 00")
_HEADER = 16 + SNAPLEN


def write_pcap(generated: Generated, path: str | Path, *, nanosecond: bool = False) -> int:
    """Write packets in arrival order as classic pcap, 96 bytes of each; give how many.

    Ethernet, IPv4 with its checksum, TCP or UDP (their checksums are left 0: the payload is not there). Microsecond
    files lose the last three digits of the time.
    """
    magic = 0xA1B23C4D if nanosecond else 0xA1B2C3D4
    written = 0
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, SNAPLEN, 1))
        for batch in generated.batches():
            file.write(_records(batch, nanosecond))
            written += len(batch)
    return written


def write_parquet(generated: Generated, path: str | Path) -> int:
    """Write packets in arrival order as Parquet, as the Parquet sink does; give how many."""
    schema = Schema(generated.schema)
    written = 0
    with FileSink(Path(path), Parquet).opened(schema) as deliver:
        for batch in generated.batches():
            deliver(Page(schema, batch))
            written += len(batch)
    return written


def _records(batch: pa.RecordBatch, nanosecond: bool) -> bytes:
    """Lay out records as rows of one width, then leave out what is behind each packet's end."""
    page = Page(Schema(batch.schema), batch)
    n = len(page)
    rows = np.zeros((n, _HEADER), np.uint8)
    ts, wire = page.ticks("ts"), page.ticks("length")
    kept = np.minimum(wire, SNAPLEN)
    _little(rows, 0, ts // 10**9)
    _little(rows, 4, ts % 10**9 // (1 if nanosecond else 1000))
    _little(rows, 8, kept)
    _little(rows, 12, wire)
    rows[:, 16:30] = np.frombuffer(_ETHERNET, np.uint8)
    _ip(rows[:, 30:50], page, wire - 14)
    _transport(rows[:, 50:70], page, wire - 34)
    packed = np.empty(int(kept.sum()) + 16 * n, np.uint8)
    pack_rows(rows, kept + 16, packed)
    return packed.tobytes()


def _ip(header: Bytes, page: Page, length: npt.NDArray[np.int64]) -> None:
    header[:, 0] = 0x45
    _big(header, 2, length, 2)
    header[:, 6] = 0x40  # do not fragment
    header[:, 8] = 64
    header[:, 9] = page.ticks("proto")
    for place, name in ((12, "srcIP"), (16, "destIP")):
        column = page.column(name)
        addresses = np.frombuffer(column.buffers()[1], np.uint8)[16 * column.offset : 16 * (column.offset + len(page))]
        header[:, place : place + 4] = addresses.reshape(-1, 16)[:, 12:]
    words = header.reshape(len(page), 10, 2).astype(np.int64)
    total = (words[:, :, 0] * 256 + words[:, :, 1]).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    _big(header, 10, ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF, 2)


def _transport(header: Bytes, page: Page, length: npt.NDArray[np.int64]) -> None:
    _big(header, 0, page.ticks("srcPort"), 2)
    _big(header, 2, page.ticks("destPort"), 2)
    udp = page.ticks("proto") == 17
    header[~udp, 12] = 0x50
    header[:, 13] = np.where(udp, 0, page.ticks("flags"))
    header[~udp, 14:16] = 255
    _big(header, 4, np.where(udp, length, 0), 2)


def _little(rows: Bytes, place: int, values: npt.NDArray[np.int64]) -> None:
    rows[:, place : place + 4] = np.ascontiguousarray(values, "<u4").view(np.uint8).reshape(-1, 4)


def _big(rows: Bytes, place: int, values: npt.NDArray[np.int64], width: int) -> None:
    words = np.ascontiguousarray(values.astype(">u4"))
    rows[:, place : place + width] = words.view(np.uint8).reshape(-1, 4)[:, 4 - width :]
