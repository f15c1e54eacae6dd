"""The packets that sFlow sampled become rows by the decoder of captures, and what the samples say beside them."""

from __future__ import annotations

from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture import decode as d
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import samples as s
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.layout import Room, Runs

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
    _headers(writer, datagrams.data, samples)
    return bad


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
    source, target = np.zeros(2 * n, np.uint64), np.zeros(2 * n, np.uint64)
    ports = np.zeros(n, np.uint16), np.zeros(n, np.uint16)
    proto, flags, ttl, status = (np.zeros(n, np.uint8) for _ in range(4))
    ip_length, payload, fragment = (np.zeros(n, np.int32) for _ in range(3))
    vlan, seen = np.zeros(n, np.uint16), np.zeros(n, np.uint8)
    d.decode(
        data, n, np.arange(n), np.where(headed, samples[:, s.S_HEADER], 0), kept.astype(np.int32),
        np.maximum(wire, kept).astype(np.int32), np.where(headed, samples[:, s.S_LINK], -1).astype(np.int32),
        0x7FF, source, target, *ports, proto, flags, ip_length, payload, ttl, vlan, fragment, status, seen,
    )  # fmt: skip
    plain = (samples[:, s.S_PACKET] >= 0) & ((seen & d.HAS_IP) == 0)
    position = np.where(plain, samples[:, s.S_PACKET] + 8, -1)
    size = samples[:, s.S_PACKET_BYTES].copy()
    for name, found, place in (("srcIP", source, position), ("destIP", target, np.where(plain, position + size, -1))):
        if writer.wants(name):
            into = writer.room.values(name)
            into[writer.rows] = found.view(np.uint8).reshape(n, 16)
            s.read_addresses(data, place, size, writer.rows, into.reshape(-1))
            writer.mark(name, plain | (seen & d.HAS_IP != 0))
    decoded: dict[str, tuple[NDArray[Any], NDArray[np.bool_]]] = {
        # Of what is no IP packet the frame is counted, since that is all that is known.
        "bytes": (np.where(seen & d.HAS_IP, ip_length, wire), headed),
        "proto": (proto, seen & d.HAS_PROTO != 0),
        "srcPort": (ports[0], seen & d.HAS_PORTS != 0),
        "destPort": (ports[1], seen & d.HAS_PORTS != 0),
        "flags": (flags, seen & d.HAS_FLAGS != 0),
        "tos": (np.zeros(n, np.uint8), np.zeros(n, np.bool_)),
    }
    read = np.empty(n, np.int64)
    for name, (values, has) in decoded.items():
        s.read_packets(data, samples, _PACKET[name], read)
        writer.put(name, np.where(plain, read, values), has | plain)
    tagged = seen & d.HAS_VLAN != 0
    switched = samples[:, s.S_VLAN]
    writer.put("vlan", np.where(tagged, vlan, switched), tagged | (switched >= 0))
