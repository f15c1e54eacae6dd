"""Read the packets that an interface sees, as they come, with the columns of a capture.

One interface gives packets as good as in order: it promises its clock less a slack, also while nothing comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oop_engine.sources.capture.batch import decode_batch
from oop_engine.sources.capture.rows import Rows
from oop_engine.sources.capture.schema import packet_schema, prune
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.live.blocks import walk_block
from oop_engine.sources.live.exporters import SECOND
from oop_engine.sources.live.packet_ring import BLOCKS, PacketRing
from oop_engine.sources.live.reading import ClockPromises, Live, LiveReading
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.turn import Turn
from punctuation import NO_TIME, Punctuation

TICK: Final = 0.1
Opened: TypeAlias = "Callable[[InterfaceReader], None]"


@attrs.frozen(eq=False)
class Interface(Live):
    """An interface by its name, such as "eth0" or "lo".

    `slack` (ns) is how long after its time a packet is read at the latest; `promiscuous`: also what is for others. The
    stream ends after `lasting` ns or `most` packets, if either is given. `columns` are attributes of
    FURTHER_SCHEMA. With `inner` headers from IP on are those of packets in tunnels.
    """

    interface: str
    slack: int = attrs.field(default=SECOND, kw_only=True)
    promiscuous: bool = attrs.field(default=False, kw_only=True)
    lasting: int | None = attrs.field(default=None, kw_only=True)
    most: int | None = attrs.field(default=None, kw_only=True)
    columns: tuple[str, ...] = attrs.field(converter=tuple, default=(), kw_only=True)
    inner: bool = attrs.field(default=False, kw_only=True)
    label: str = attrs.field(default="", kw_only=True)
    opened: Opened | None = attrs.field(default=None, kw_only=True)
    _turn: Turn = attrs.field(init=False, factory=Turn, repr=False)

    @property
    def name(self) -> str:
        return self.label or f"interface {self.interface}"

    @property
    def arrow(self) -> pa.Schema:
        return packet_schema(self.columns)

    def open(self, columns: Sequence[str], batch_rows: int) -> InterfaceReader:
        self._turn.take(self.name)
        return InterfaceReader(self, prune(columns))


@attrs.define(eq=False)
class InterfaceReader(LiveReading):
    """One reading of an interface. `stop`, `poll` and `describe` are for other threads than the one that reads."""

    source: Interface
    schema: pa.Schema
    ring: PacketRing | None = attrs.field(init=False, default=None)
    _decoded: pa.Schema = attrs.field(init=False, repr=False)
    """What is decoded: beside the columns the first tag in a frame, which one that the kernel took off makes inner."""
    _promises: ClockPromises = attrs.field(init=False)
    _latest: int = attrs.field(init=False, default=NO_TIME)
    _bytes: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._promises = ClockPromises(self.source.slack)
        names = self.schema.names
        self._decoded = prune([*names, "vlan"]) if "inner_vlan" in names else self.schema

    def chunks(self) -> Iterator[Chunk]:
        """Yield what comes, and what is promised; nothing, an empty batch, ten times a second in between."""
        self._warm()
        ring = self.ring = PacketRing(self.source.interface, self.source.promiscuous)
        nothing = pa.RecordBatch.from_pylist([], schema=self.schema)
        try:
            if self.source.opened is not None:
                self.source.opened(self)
            lasting, most = self.source.lasting, self.source.most
            ends = None if lasting is None else time.monotonic_ns() + lasting
            drained = 0
            while (most is None or ring.received < most) and drained < BLOCKS:
                if ends is not None and time.monotonic_ns() >= ends:
                    self._stopped = True
                # A packet that comes after this has a time after this.
                stopped, now = self._stopped, time.time_ns()
                count = ring.receive()
                drained += stopped
                if count >= 0:
                    if count:
                        yield self._batch(ring, count)
                    ring.release()
                    yield from self._promise(self._latest, assumed=False)
                    continue
                yield from self._promise(now, assumed=True)
                if stopped:
                    break
                ring.wait(TICK)
                yield nothing
        finally:
            ring.close()

    def _warm(self) -> None:
        """Compile or load what decodes before the ring is opened, rather than while packets fill it."""
        data, rows = np.zeros(64, np.uint8), Rows.empty(1)
        data.flags.writeable = False
        walk_block(
            np.zeros(64, np.uint32), 0, 256, 1, rows.offset, rows.ts, rows.caplen, rows.length, rows.interface,
            rows.link, np.zeros(1, np.int32),
        )  # fmt: skip
        decode_batch(data, rows, 1, 0, self._decoded, inner=self.source.inner)

    def _batch(self, ring: PacketRing, count: int) -> pa.RecordBatch:
        batch, _, _ = decode_batch(ring.data, ring.rows, count, 0, self._decoded, inner=self.source.inner)
        self._latest = max(self._latest, int(ring.rows.ts[:count].max()))
        self._bytes += int(ring.rows.caplen[:count].sum())
        tags = ring.vlan[:count]
        return (tagged(batch, tags) if (tags >= 0).any() else batch).select(self.schema.names)

    def _promise(self, reached: int, *, assumed: bool) -> Iterator[Punctuation]:
        polled = self._is_polled()
        return self._promises.until(reached, exactly=polled, assumed=assumed)

    def describe(self, grains: Mapping[str, Grain]) -> bool:
        """Promise ts so finely from now on."""
        return self._promises.describe(grains)

    def progress(self) -> tuple[int, int | None]:
        return self._bytes, None

    def notes(self) -> list[str]:
        if self.ring is None:
            return []
        dropped = self.ring.dropped
        found = [f"{self.source.name}: {self.ring.received:,} packets seen"]
        return [*found, f"{self.source.name}: {dropped:,} packets dropped by the kernel"] if dropped else found


def tagged(batch: pa.RecordBatch, tags: NDArray[np.int32]) -> pa.RecordBatch:
    """Put the tags that the kernel took off a frame, those from 0 on, before the tags that are left in it."""
    apart = pa.array(tags >= 0)
    before = {name: batch.column(name) for name in ("vlan", "inner_vlan", "vlan_count") if name in batch.schema.names}
    after = {"vlan": pa.array(np.maximum(tags, 0).astype(np.uint16)), "inner_vlan": before.get("vlan")}
    if (counted := before.get("vlan_count")) is not None:
        after["vlan_count"] = pc.min_element_wise(pc.add(counted.cast(pa.int32()), 1), 255).cast(counted.type)
    for name, column in before.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place), pc.if_else(apart, after[name], column))
    return batch
