"""Turn the packets that sFlow sampled into rows, by the decoder of captures, with the facts of their samples."""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture import decode as d
from oop_engine.sources.capture.batch import decode_headers
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import samples as s
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.layout import Room, Runs
from operators.kernels.data.byte_order import each_be

_SAID: Final = {
    "in_if": s.S_IN, "out_if": s.S_OUT, "src_mask": s.S_SRC_MASK, "dest_mask": s.S_DST_MASK, "src_as": s.S_SRC_AS,
    "dest_as": s.S_DST_AS, "sampling": s.S_RATE,
}  # fmt: skip
_PACKET: Final = {"bytes": 0, "proto": 1, "srcPort": 2, "destPort": 3, "flags": 4, "tos": 5}


def fill_samples(
    room: Room, datagrams: Datagrams, runs: Runs, count: int, heads: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Fill the rows of sFlow's runs; give the bad samples of each run."""
    bad = np.zeros(count, np.int64)
    chosen = np.flatnonzero(runs.plan[:count] == e.PLAN_SFLOW)
    samples = np.empty((int(runs.count[chosen].sum()), s.S_WIDTH), np.int64)
    wrong = np.zeros(len(chosen), np.int64)
    s.read_samples(datagrams.data, runs.at[chosen], runs.count[chosen].astype(np.int64), samples, wrong)
    bad[chosen] = wrong
    repeats = runs.count[chosen]
    within = np.arange(len(samples)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = np.repeat(runs.row[chosen], repeats) + within
    writer = _Rows(room, rows)
    arrival = np.repeat(heads[runs.datagram[chosen], e.H_ARRIVAL], repeats)
    for name in ("ts", "end_ts"):
        writer.put(name, arrival, arrival != e.NO_TIME)
    for name, entry in _SAID.items():
        writer.put(name, samples[:, entry], samples[:, entry] >= 0)
    writer.put("packets", np.ones(len(samples), np.int64), None)
    writer.address("next_hop", datagrams.data, samples[:, s.S_HOP].copy(), samples[:, s.S_HOP_BYTES].copy())
    _agents(writer, datagrams, np.repeat(runs.datagram[chosen], repeats))
    _headers(writer, datagrams.data, samples)
    return bad


def _agents(writer: _Rows, datagrams: Datagrams, datagram: NDArray[np.int32]) -> None:
    """Put the agents in the place of those who send for them, but those that do not know their address."""
    if not writer.wants("exporter"):
        return
    used, within = np.unique(datagram, return_inverse=True)
    start = datagrams.offset[used]
    size = np.array([0, 4, 16])[datagrams.data[start + 7]]
    bytes_ = datagrams.data[np.minimum((start + 8)[:, None] + np.arange(16), len(datagrams.data) - 1)]
    told = np.asarray((bytes_ * (np.arange(16) < size[:, None])).any(axis=1), np.bool_)
    place = np.where(told, start + 8, -1)
    into = writer.room.values("exporter").reshape(-1)
    s.read_addresses(datagrams.data, place[within], size[within], writer.rows, into)
    writer.mark("exporter", None if datagrams.addressed else told[within])


@attrs.frozen
class _Rows:
    """The rows of samples in a batch."""

    room: Room
    rows: NDArray[np.int64]

    def wants(self, name: str) -> bool:
        return name in self.room.layout.offsets

    def put(self, name: str, values: NDArray[Any], present: NDArray[np.bool_] | None) -> None:
        """Write a column's entries; `present` tells which there are."""
        if not self.wants(name):
            return
        into = self.room.values(name)
        into[self.rows] = values.astype(into.dtype)
        self.mark(name, present)

    def mark(self, name: str, present: NDArray[np.bool_] | None) -> None:
        known = np.ones(len(self.rows), np.bool_) if present is None else present
        self.room.present[self.room.layout.offsets[name]] = self.rows, known

    def address(self, name: str, data: NDArray[np.uint8], position: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        if self.wants(name):
            s.read_addresses(data, position, size, self.rows, self.room.values(name).reshape(-1))
            self.mark(name, position >= 0)


def _headers(writer: _Rows, data: NDArray[np.uint8], samples: NDArray[np.int64]) -> None:
    """Decode the sampled headers; a sample without one may have a record of the packet's addresses and ports."""
    n = len(samples)
    headed = samples[:, s.S_HEADER] >= 0
    kept = np.where(headed, samples[:, s.S_CAPLEN], 0)
    wire = np.where(headed, samples[:, s.S_LENGTH], 0)
    packets = decode_headers(
        data, np.where(headed, samples[:, s.S_HEADER], 0), kept.astype(np.int32),
        np.maximum(wire, kept).astype(np.int32), np.where(headed, samples[:, s.S_LINK], -1).astype(np.int32),
        "srcIP", "destIP", "srcPort", "destPort", "proto", "flags", "ip_length", "vlan",
    )  # fmt: skip
    source, seen = packets["srcIP"], packets["seen"]
    plain = (samples[:, s.S_PACKET] >= 0) & ((seen & d.HAS_IP) == 0)
    position = np.where(plain, samples[:, s.S_PACKET] + 8, -1)
    size = samples[:, s.S_PACKET_BYTES].copy()
    for name, place in (("srcIP", position), ("destIP", np.where(plain, position + size, -1))):
        if writer.wants(name):
            into = writer.room.values(name)
            into[writer.rows] = packets[name].view(np.uint8).reshape(n, 16)
            s.read_addresses(data, place, size, writer.rows, into.reshape(-1))
            writer.mark(name, plain | (seen & d.HAS_IP != 0))
    tos = np.zeros(n, np.uint8)
    if writer.wants("tos"):
        among = np.flatnonzero(seen & d.HAS_IP)
        mapped = (source[0::2] == 0) & (source[1::2] & np.uint64(0xFFFFFFFF) == np.uint64(0xFFFF0000))
        tos[among] = _services(data, samples[among], ~mapped[among])
    decoded: dict[str, tuple[NDArray[Any], NDArray[np.bool_]]] = {
        # Of what is no IP packet the frame is counted, since that is all that is known.
        "bytes": (np.where(seen & d.HAS_IP, packets["ip_length"], wire), headed),
        "proto": (packets["proto"], seen & d.HAS_PROTO != 0),
        "srcPort": (packets["srcPort"], seen & d.HAS_PORTS != 0),
        "destPort": (packets["destPort"], seen & d.HAS_PORTS != 0),
        "flags": (packets["flags"], seen & d.HAS_FLAGS != 0),
        "tos": (tos, seen & d.HAS_IP != 0),
    }
    read = np.empty(n, np.int64)
    for name, (values, has) in decoded.items():
        s.read_packets(data, samples, _PACKET[name], read)
        writer.put(name, np.where(plain, read, values), has | plain)
    tagged = seen & d.HAS_VLAN != 0
    switched = samples[:, s.S_VLAN]
    writer.put("vlan", np.where(tagged, packets["vlan"], switched), tagged | (switched >= 0))


def _services(data: NDArray[np.uint8], samples: NDArray[np.int64], six: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return the type of service (traffic class) of sampled IP packets, of which those of `six` are IPv6.

    The decoder of packets does not tell where their IP headers begin, but it finds one as soon as its 20 or 40 bytes
    are there. Most stand right behind an Ethernet header; others are looked for.
    """
    start = samples[:, s.S_HEADER] + 14
    plain = (samples[:, s.S_LINK] == 1) & (samples[:, s.S_CAPLEN] >= 34)
    near = np.where(plain, start, 2)
    kind = each_be(data, near - 2, 2)
    other = np.flatnonzero(~plain | (kind != np.where(six, 0x86DD, 0x0800)))
    if len(other):
        start[other] = _found(data, samples[other]) - np.where(six[other], 40, 20)
    wide = (data[start] & 15) << 4 | data[start + 1] >> 4
    return np.where(six, wide, data[start + 1]).astype(np.uint8)


def _found(data: NDArray[np.uint8], samples: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the parts of packets end that are just enough to find an IP header."""
    header = samples[:, s.S_HEADER].copy()
    length, link = samples[:, s.S_LENGTH].astype(np.int32), samples[:, s.S_LINK].astype(np.int32)
    without, found = np.zeros(len(samples), np.int32), samples[:, s.S_CAPLEN].astype(np.int32)
    while (found - without > 1).any():
        part = (without + found) // 2
        headed = decode_headers(data, header, part, length, link)["seen"] & d.HAS_IP != 0
        found, without = np.where(headed, part, found), np.where(headed, without, part)
    return samples[:, s.S_HEADER] + found
