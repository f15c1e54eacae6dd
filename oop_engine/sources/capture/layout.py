"""The tables that kernels of captures take together, and what each of their arrays has."""

from __future__ import annotations

from typing import TypeAlias

from numpy import int32, int64, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

Record: TypeAlias = tuple[bool, int, int, bool, int]
"""How records of a classic file are written: big-endian or not, the nanoseconds of a tick, bytes of a record header
beyond 16, whether the file is from before version 2.4, where some writers swapped the two lengths, its link type."""
RowTables: TypeAlias = tuple[
    NDArray[int64], NDArray[int64], NDArray[int32], NDArray[int32], NDArray[int32], NDArray[int32]
]
"""Packets, a row each: where its bytes are, when it came, how many were captured and were on the wire, the interface,
the link type."""
PacketTables: TypeAlias = tuple[NDArray[int64], NDArray[int64], NDArray[int32], NDArray[int32], NDArray[int32]]
"""Packets to decode: the row of each, where its bytes are, how many were captured and were on the wire, link type."""
PassedTables: TypeAlias = tuple[NDArray[int64], NDArray[int64], NDArray[int32], NDArray[int32]]
"""The same of packets that are passed over, without the link type."""
ColumnTables: TypeAlias = tuple[
    NDArray[uint64], NDArray[uint64], NDArray[uint16], NDArray[uint16], NDArray[uint8], NDArray[uint8], NDArray[int32],
    NDArray[int32], NDArray[uint8], NDArray[uint16], NDArray[int32], NDArray[uint8], NDArray[uint32], NDArray[uint32],
    NDArray[uint16], NDArray[uint16], NDArray[uint16],
]  # fmt: skip
"""Columns: both addresses, both ports, protocol, flags, lengths of the IP packet and the payload, TTL, VLAN, fragment,
status, sequence and acknowledgement number, window and largest segment of TCP, and which of them a row has (`seen`).
An address is two numbers, its 16 bytes as they lie in memory."""
LinkTables: TypeAlias = tuple[
    NDArray[int64], NDArray[int64], NDArray[int32], NDArray[int32], NDArray[uint8], NDArray[int32], NDArray[int32],
    NDArray[uint8],
]  # fmt: skip
"""The link layer of packets: the hardware addresses of sender and receiver, the EtherType behind all tags, the second
VLAN tag and how many there are, the labels on top and below all others and how many there are; -1 for none."""
PayloadTables: TypeAlias = tuple[NDArray[int64], NDArray[int64], NDArray[uint8], NDArray[uint16], NDArray[uint16]]
"""The payloads of packets: where each begins and ends, the protocol of its header or 0, both ports."""
DnsTables: TypeAlias = tuple[NDArray[int32], NDArray[int32], NDArray[int32], NDArray[int32]]
"""Messages of DNS: number, 1 for a response, its code, the type of the first question; -1 for none."""
RtpTables: TypeAlias = tuple[NDArray[int64], NDArray[int64], NDArray[int64], NDArray[int64]]
"""Headers of RTP: the type of the payload, sequence number, timestamp, source (SSRC); -1 for none."""
TextTables: TypeAlias = tuple[NDArray[int32], NDArray[uint8]]
"""Texts end to end: where each begins, and where the last one ends; their bytes, and room for more."""
TunnelTables: TypeAlias = tuple[
    NDArray[int64], NDArray[int32], NDArray[int32], NDArray[int32], NDArray[uint8], NDArray[int64], NDArray[uint64],
    NDArray[uint64],
]  # fmt: skip
"""Packets in tunnels: where each begins, how many of its bytes were captured and were on the wire, its link type; of
the outermost tunnel the kind or 0, the number or -1, and both addresses, as two numbers each."""
OutTables: TypeAlias = tuple[NDArray[uint8], NDArray[uint16], NDArray[uint32], NDArray[uint64]]
"""One memory under four types."""
