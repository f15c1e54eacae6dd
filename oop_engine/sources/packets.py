"""Captures as a source: pcap and pcapng files read one after the other as one stream, or one from a pipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import attrs
import pyarrow as pa

from oop_engine.sources.capture import Capture
from oop_engine.sources.capture.compression import is_packed
from oop_engine.sources.capture.schema import packet_schema
from oop_engine.sources.protocol import Chunk
from oop_engine.sources.reading import OfFiles, Reading, total
from oop_engine.sources.turn import Turn
from operators.data.page import Int64s
from punctuation import NO_TIME


@attrs.frozen
class Packets(OfFiles):
    """The packets of captures, in the order of the files and of the packets in them.

    `columns` are attributes of FURTHER_SCHEMA, which the stream has beside those of PACKET_SCHEMA. With
    `inner` headers from IP on are those of packets in tunnels.
    """

    paths: tuple[Path | BinaryIO, ...] = attrs.field(converter=tuple)
    label: str = ""
    strict: bool = False
    columns: tuple[str, ...] = attrs.field(converter=tuple, default=(), kw_only=True)
    inner: bool = attrs.field(default=False, kw_only=True)
    _arrow: pa.Schema = attrs.field(init=False, eq=False, repr=False)
    _turn: Turn = attrs.field(init=False, factory=Turn, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_arrow", packet_schema(self.columns))

    @property
    def arrow(self) -> pa.Schema:
        return self._arrow

    @property
    def laborious(self) -> bool:
        return any(isinstance(path, Path) and is_packed(path) for path in self.paths)

    def open(self, columns: Sequence[str], batch_rows: int) -> PacketReader:
        if not self.rewindable:
            self._turn.take(self.name)
        return PacketReader(
            [
                Capture(p, batch_rows=batch_rows, columns=columns, inner=self.inner, strict=self.strict)
                for p in self.paths
            ]
        )

    def values(self, column: str) -> Iterator[Int64s]:
        for path in self.paths:
            if column == "ts":
                yield from Capture(path).times()
            else:
                for batch in Capture(path, columns=(column,), inner=self.inner).batches():
                    yield batch.column(0).cast(pa.int64()).fill_null(NO_TIME).to_numpy()


@attrs.define
class PacketReader(Reading):
    """One reading of captures."""

    captures: list[Capture]
    _first: int = attrs.field(init=False, default=0)
    _given: int = attrs.field(init=False, default=0)
    _reading: int = attrs.field(init=False, default=0)

    def chunks(self) -> Iterator[Chunk]:
        for number, capture in enumerate(self.captures):
            if number < self._first:
                continue
            self._reading = number
            for batch in capture.batches():
                self._given += len(batch)
                yield batch

    def mark(self) -> tuple[Mapping[str, object], int] | None:
        place = self.captures[self._reading].mark()
        return None if place is None else ({"capture": self._reading, "place": place}, self._given)

    def seek(self, mark: Mapping[str, object] | None, at: int, tuples: int) -> int:
        if mark is None:
            return 0
        number, place = mark["capture"], mark["place"]
        assert isinstance(number, int) and isinstance(place, dict)
        self._first = self._reading = number
        for capture in self.captures[:number]:
            capture.position = capture.size or 0
        self.captures[number].seek(place)
        return at

    def progress(self) -> tuple[int, int | None]:
        return sum(c.position for c in self.captures), total(capture.size for capture in self.captures)

    def notes(self) -> list[str]:
        return [note for capture in self.captures for note in capture.notes]
