"""Packets become the columns of an Arrow record batch without copying, nulls where a packet has no such header."""

from __future__ import annotations

import sys
from typing import Any, Final, cast

import attrs
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oop_engine.sources.capture import decode as d
from oop_engine.sources.capture import frames as f
from oop_engine.sources.capture.formats import Classic, Format
from oop_engine.sources.capture.layout import ColumnTables, PacketTables
from oop_engine.sources.capture.rows import WALKED, Rows
from oop_engine.sources.capture.schema import IN_TUNNELS
from oop_engine.sources.capture.walk import FULL
from punctuation import NO_TIME


@attrs.frozen
class _Kind:
    """A column: the place of its base, its entries, and what its type depends on."""

    place: int
    type: type[np.generic]
    want: int = 0
    """The bit of `want`; 0 for what the record says."""
    seen: int = 0
    """The bit of `seen` without which it is null."""

    @property
    def bytes(self) -> int:
        """Return what an entry takes."""
        return np.dtype(self.type).itemsize * (2 if self.place in (f.SRC, f.DST) else 1)


_KINDS: Final = {
    "ts": _Kind(f.TS, np.int64),
    "srcIP": _Kind(f.SRC, np.uint64, d.WANT_SRC, d.HAS_IP),
    "destIP": _Kind(f.DST, np.uint64, d.WANT_DST, d.HAS_IP),
    "srcPort": _Kind(f.SRC_PORT, np.uint16, d.WANT_PORTS, d.HAS_PORTS),
    "destPort": _Kind(f.DST_PORT, np.uint16, d.WANT_PORTS, d.HAS_PORTS),
    "proto": _Kind(f.PROTO, np.uint8, d.WANT_PROTO, d.HAS_PROTO),
    "length": _Kind(f.LENGTH, np.int32),
    "flags": _Kind(f.FLAGS, np.uint8, d.WANT_FLAGS, d.HAS_FLAGS),
    "caplen": _Kind(f.CAPLEN, np.int32),
    "ip_length": _Kind(f.IP_LENGTH, np.int32, d.WANT_IP_LENGTH, d.HAS_IP),
    "payload_length": _Kind(f.PAYLOAD, np.int32, d.WANT_PAYLOAD, d.HAS_PAYLOAD),
    "ttl": _Kind(f.TTL, np.uint8, d.WANT_TTL, d.HAS_IP),
    "vlan": _Kind(f.VLAN, np.uint16, d.WANT_VLAN, d.HAS_VLAN),
    "fragment": _Kind(f.FRAGMENT, np.int32, d.WANT_FRAGMENT, d.HAS_FRAGMENT),
    "interface": _Kind(f.INTERFACE, np.int32),
    "status": _Kind(f.STATUS, np.uint8, d.WANT_STATUS),
    "seq": _Kind(f.SEQ, np.uint32, d.WANT_SEQ, d.HAS_SEQ),
    "ack": _Kind(f.ACK, np.uint32, d.WANT_ACK, d.HAS_ACK),
    "tcp_window": _Kind(f.WINDOW, np.uint16, d.WANT_WINDOW, d.HAS_WINDOW),
    "mss": _Kind(f.MSS, np.uint16, d.WANT_MSS, d.HAS_MSS),
    "seen": _Kind(f.SEEN, np.uint16),
}
_DECODED: Final = tuple(name for name, kind in _KINDS.items() if kind.want or name == "seen")
"""The columns that the decoder fills, in its order."""
_PORTS: Final = frozenset(("srcPort", "destPort"))
_BIG: Final = sys.byteorder == "big"
_ALIGNED: Final = 64
_JUDGED: Final = 256
"""Records for the walk where one of them is odd, so that many of these are not judged one by one."""
_COPIED: Final = 2
"""A batch that fills less than this part of its memory is copied."""


def decode_batch(
    data: NDArray[np.uint8], rows: Rows, count: int, untimed: int, schema: pa.Schema, *, inner: bool = False
) -> tuple[pa.RecordBatch, int, int]:
    """Decode the first `count` rows, `untimed` of them without a time, into a batch of `schema`.

    Gives (batch, packets that are not IP, packets cut short). With `inner` those in tunnels are decoded.
    """
    columns = Columns(Layout.of(schema, inner=inner), count)
    columns.put(data, rows, count, untimed)
    return columns.batch(), columns.others, columns.shorts


def decode_headers(
    data: NDArray[np.uint8], offset: NDArray[np.int64], caplen: NDArray[np.int32], length: NDArray[np.int32],
    link: NDArray[np.int32], *names: str,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Decode the headers of packets at these offsets into the columns that are named, and what each row has (`seen`).

    Of the two ports one is never named alone. A column that is not named is empty.
    """
    count, want = len(offset), 0
    columns: dict[str, NDArray[Any]] = {}
    for name in _DECODED:
        kind = _KINDS[name]
        wanted = name in names or name == "seen"
        want |= kind.want if wanted else 0
        columns[name] = np.zeros(count * kind.bytes * wanted, np.uint8).view(kind.type)
    packets = (np.arange(count), offset, caplen, length, link)
    d.decode(data, count, packets, want, cast(ColumnTables, tuple(columns.values())))
    return columns


@attrs.frozen(eq=False)
class _Field:
    """A column that is filled, and its type where it is given, too."""

    name: str
    kind: _Kind
    bytes: int
    type: pa.DataType | None


@attrs.frozen(eq=False)
class Layout:
    """The part that all batches of a schema share."""

    schema: pa.Schema
    want: int
    fields: list[_Field]
    further: list[str]
    """The columns that are decoded by themselves; they stand behind the others."""
    inner: bool
    """Whether headers from IP on are those of packets in tunnels."""

    @property
    def plain(self) -> bool:
        """Return whether all that is wanted stands in the outermost headers that every capture is decoded to."""
        return not self.further and not self.inner

    @property
    def tunnels(self) -> bool:
        """Return whether tunnels have to be found."""
        return self.inner or not IN_TUNNELS.isdisjoint(self.further)

    @classmethod
    def of(cls, schema: pa.Schema, *, inner: bool = False) -> Layout:
        """Return the columns of a schema, `seen`, and both ports where one is wanted."""
        names = [*(name for name in schema.names if name in _KINDS), "seen"]
        names += sorted(_PORTS - set(names)) if not _PORTS.isdisjoint(names) else []
        types = {field.name: field.type for field in schema}
        fields = [_Field(name, _KINDS[name], _KINDS[name].bytes, types.get(name)) for name in names]
        want = 0
        for field in fields:
            want |= field.kind.want
        return cls(schema, want, fields, [name for name in schema.names if name not in _KINDS], inner)

    def bases(self, room: int) -> tuple[list[int], int]:
        """Return where each kind of column begins that has room for so many rows, -1 for none, and what all take."""
        bases = [-1] * len(_KINDS)
        size = 0
        for field in self.fields:
            bases[field.kind.place] = size
            size += -(-room * field.bytes // _ALIGNED) * _ALIGNED
        return bases, size


@attrs.define
class Columns:
    """The columns of one batch as they are filled, side by side in one memory, with room for so many rows."""

    layout: Layout
    room: int
    count: int = 0
    untimed: int = 0
    others: int = 0
    """Packets that are not IP."""
    shorts: int = 0
    """Packets cut short."""
    _common: int = attrs.field(init=False, default=d.EVERY)
    _memory: pa.Buffer = attrs.field(init=False)
    _begins: list[int] = attrs.field(init=False)
    _bases: NDArray[np.int64] = attrs.field(init=False)
    _out: tuple[NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint32], NDArray[np.uint64]] = attrs.field(init=False)
    _arrays: dict[str, NDArray[Any]] = attrs.field(init=False, factory=dict)
    _further: list[list[pa.Array]] = attrs.field(init=False, factory=list)
    """Of each part of the rows the columns that are decoded by themselves."""

    def __attrs_post_init__(self) -> None:
        self._begins, size = self.layout.bases(self.room)
        self._bases = np.array(self._begins, np.int64)
        # Arrow's pool keeps freed memory, where fresh pages would cost more than the decoding.
        self._memory = pa.allocate_buffer(max(size, _ALIGNED))
        out = np.frombuffer(self._memory, np.uint8)
        self._out = out, out.view(np.uint16), out.view(np.uint32), out.view(np.uint64)

    def take(self, form: Format, data: NDArray[np.uint8], at: int, end: int, rows: Rows) -> tuple[int, int, int, int]:
        """Read and decode records from data[at:end]; `rows` is room to work in.

        Gives (position, rows read, those of them without a time, why it stopped: FULL where there is no more room).
        """
        before, untimed, why = self.count, self.untimed, FULL
        framed = form if isinstance(form, Classic) and form.framed and self.layout.plain else None
        while self.count < self.room and why == FULL:
            most = min(rows.room, WALKED)
            if framed is not None:
                at, why = self._frames(framed.nanoseconds, data, at, end, rows)
                if why != f.ODD:
                    continue
                most = min(most, _JUDGED)
            at, count, without, why = form.walk(data, at, end, rows.first(min(most, self.room - self.count)))
            self.put(data, rows, count, without)
        return at, self.count - before, self.untimed - untimed, why

    def _frames(self, nanoseconds: int, data: NDArray[np.uint8], at: int, end: int, rows: Rows) -> tuple[int, int]:
        most = min(self.room, self.count + rows.room)
        position, reached, passed, common, why = f.decode_frames(
            data, at, end, nanoseconds, self.count, most, self._bases, self._out, rows.words, rows.place,
            (rows.row, rows.offset, rows.caplen, rows.length),
        )  # fmt: skip
        self.count = int(reached)
        self._common &= int(common)
        if passed:
            rows.link[:passed] = 1
            self._decode(data, _packets(rows, int(passed)), self.layout.want)
        return int(position), int(why)

    def put(self, data: NDArray[np.uint8], rows: Rows, count: int, untimed: int) -> None:
        """Decode the first `count` rows that a walk found, `untimed` of them without a time."""
        first = self.count
        self.count += count
        self.untimed += untimed
        for name, values in (
            ("ts", rows.ts), ("length", rows.length), ("caplen", rows.caplen), ("interface", rows.interface)
        ):  # fmt: skip
            if self._begins[_KINDS[name].place] >= 0:
                self._array(name)[first : self.count] = values[:count]
        rows.row[:count] = np.arange(first, self.count)
        packets = inner = _packets(rows, count)
        if self.layout.plain:
            self._decode(data, packets, self.layout.want)
            return
        # Start-up: few queries read what these decode.
        from oop_engine.sources.capture.further import Tunnelled, further_columns

        tunnels = Tunnelled.of(data, packets) if self.layout.tunnels else None
        if tunnels is not None and self.layout.inner:
            inner = tunnels.packets
            self._decode_inner(data, packets, inner, first)
        else:
            self._decode(data, packets, self.layout.want)
        if self.layout.further and count:
            self._further.append(further_columns(data, packets, inner, tunnels, self.layout.further))

    def _decode_inner(self, data: NDArray[np.uint8], packets: PacketTables, inner: PacketTables, first: int) -> None:
        """Decode packets in tunnels, whose VLAN is that of the frame on the wire."""
        tagged = self.layout.want & d.WANT_VLAN
        if tagged:
            _, _, common = d.decode(data, len(packets[0]), packets, tagged, self._tables())
            here = self._array("seen")[first : self.count]
            outer = here & np.uint16(d.HAS_VLAN)
            before, self._common = self._common & int(common) & d.HAS_VLAN, self._common | d.HAS_VLAN
            self._decode(data, inner, self.layout.want & ~d.WANT_VLAN)
            here[:] = here & np.uint16(d.EVERY & ~d.HAS_VLAN) | outer
            self._common = self._common & ~d.HAS_VLAN | before
        else:
            self._decode(data, inner, self.layout.want)

    def _tables(self) -> ColumnTables:
        return cast(ColumnTables, tuple(map(self._array, _DECODED)))

    def _decode(self, data: NDArray[np.uint8], packets: PacketTables, want: int) -> None:
        others, shorts, common = d.decode(data, len(packets[0]), packets, want, self._tables())
        self.others += int(others)
        self.shorts += int(shorts)
        self._common &= int(common)

    def _array(self, name: str) -> NDArray[Any]:
        """Return the whole of a column, empty where it is not wanted."""
        found = self._arrays.get(name)
        if found is None:
            kind = _KINDS[name]
            base = self._begins[kind.place]
            size = self.room * kind.bytes if base >= 0 else 0
            found = self._arrays[name] = self._out[0][max(base, 0) : max(base, 0) + size].view(kind.type)
        return found

    def batch(self) -> pa.RecordBatch:
        """Return the rows as a batch, whose memory then is not to be written again."""
        count = self.count
        arrays: list[pa.Array] = []
        for field in self.layout.fields:
            if field.type is None:
                continue
            place = field.kind.place
            present = None
            if _BIG and place in (f.SRC, f.DST):
                self._array(field.name)[: 2 * count].byteswap(inplace=True)
            if field.kind.seen & ~self._common:
                present = (self._array("seen")[:count] & field.kind.seen) != 0
            elif place == f.TS and self.untimed:
                present = self._array("ts")[:count] != NO_TIME
            values = self._memory.slice(self._begins[place], count * field.bytes)
            if count * _COPIED < self.room:
                values = pa.py_buffer(values.to_pybytes())
            arrays.append(_array(field.type, values, count, present))
        for place, name in enumerate(self.layout.further):
            parts = [part[place] for part in self._further]
            arrays.append(pa.concat_arrays(parts) if parts else pa.nulls(0, self.layout.schema.field(name).type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.layout.schema)


def _packets(rows: Rows, count: int) -> PacketTables:
    """Return the first rows as packets to decode."""
    return rows.row[:count], rows.offset[:count], rows.caplen[:count], rows.length[:count], rows.link[:count]


def _array(kind: pa.DataType, values: pa.Buffer, count: int, present: NDArray[np.bool_] | None) -> pa.Array:
    nulls = 0 if present is None else count - int(np.count_nonzero(present))
    bitmap = pa.py_buffer(np.packbits(present, bitorder="little")) if present is not None and nulls else None
    return pa.Array.from_buffers(kind, count, [bitmap, values], nulls)
