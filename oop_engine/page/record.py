"""A record keeps the views of a run in a file, without its data, so that its page can be shown at any moment later.

The file begins with `MAGIC`. Blocks follow: the first has the drawing of the plan, each other some moments in a row. A
block is the length of its times, the length of its body, and the CRC of both, then the times, 8 bytes each, and the
body, packed by zlib: JSON, a line each. A file that ends within a block, as one of a killed run may, is read up to
there.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from io import BufferedWriter
from pathlib import Path
from time import monotonic, time_ns
from types import TracebackType
from typing import Any, Final, Self

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.view import View, Viewer
from oop_engine.errors import PlanError
from oop_engine.page.outline import outline
from oop_engine.plan.graph import Plan
from oop_engine.sources.errors import TableError
from operators.data.printable import printable

MAGIC: Final = b"oop-engine record 1\n"
_HEAD: Final = struct.Struct(">III")
_MOMENTS: Final = 16
"""Moments of a block: a seek unpacks one block."""
_LARGEST: Final = 1 << 26
"""Bytes of a block, unpacked; a file that says more is damaged."""
_EVERY: Final = 0.1
"""Seconds between two moments at least, at first."""
_MANY: Final = 10_000
"""Each time that a record has so many moments more, twice as long passes between two."""
_SHARE: Final = 0.05
"""The share of the time that open windows and `why` may take, so that each moment has those of its own."""


@attrs.define(eq=False)
class Recorder:
    """Write what `watch` sees to a file: a moment for each change of a promise, a window or a count of late tuples.

    - `path`: the file; one that is there is written anew if it is a record, and refused if it is not.
    - `title`: what runs.
    - `clock`: seconds that rise; `now`: the time in ns since 1970.
    """

    path: Path
    plan: Plan
    title: str = ""
    clock: Callable[[], float] = monotonic
    now: Callable[[], int] = time_ns
    moments: int = attrs.field(init=False, default=0)
    _file: BufferedWriter | None = attrs.field(init=False, default=None)
    _viewer: Viewer | None = attrs.field(init=False, default=None)
    _last: object = attrs.field(init=False, default=None)
    _due: float = attrs.field(init=False, default=float("-inf"))
    _held: list[tuple[int, str]] = attrs.field(init=False, factory=list)

    def __enter__(self) -> Self:
        try:
            if self.path.exists():
                with self.path.open("rb") as there:
                    if there.read(len(MAGIC)) != MAGIC:
                        raise PlanError(
                            f'record="{self.path}" (--record) is there, and is no record of a run.\n'
                            "  Name another file, or remove it."
                        )
            self._file = self.path.open("wb")
        except OSError as error:
            raise PlanError(f'record="{self.path}" (--record) cannot be written: {error.strerror or error}.') from None
        title = self.title or "; ".join(output.label for output in self.plan.outputs)
        self._file.write(MAGIC)
        self._write([], json.dumps({"title": printable(title), **outline(self.plan)}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def finish(self) -> None:
        """Keep how a run ended."""
        if self._viewer is not None and self._file is not None:
            self._keep(self._viewer.look(self.now()))
            self._flush()

    def close(self) -> None:
        """Write what is held, and close the file; no more moments are kept."""
        if self._file is not None:
            with self._file:
                self._flush()
            self._file = None

    def watch(self, circuit: Circuit) -> None:
        """Keep a moment, if it is time and something has changed; call it where no operator is at work."""
        now = self.clock()
        if now < self._due or self._file is None:
            return
        self._due = now + _EVERY * 2 ** (self.moments // _MANY)
        if self._viewer is None:
            self._viewer = Viewer(circuit, _SHARE, self.clock)
        if (seen := self._viewer.look(self.now())).nodes:
            self._keep(seen)

    def _keep(self, seen: View) -> None:
        changed = [
            (node.low_watermark, node.open_windows, node.windows, node.late, node.ended, node.waiting > 0)
            for node in seen.nodes
        ]
        told = [changed, [output.wait and (output.wait.cause, output.wait.holder) for output in seen.outputs]]
        if told == self._last:
            return
        self._last = told
        self._held.append((seen.at, seen.to_json()))
        self.moments += 1
        if len(self._held) == _MOMENTS:
            self._flush()

    def _flush(self) -> None:
        if self._held and self._file is not None:
            self._write([at for at, _ in self._held], "\n".join(text for _, text in self._held))
            self._held = []
            self._file.flush()

    def _write(self, times: list[int], text: str) -> None:
        assert self._file is not None
        stamps, body = struct.pack(f">{len(times)}q", *times), zlib.compress(text.encode(), 6)
        self._file.write(_HEAD.pack(len(stamps), len(body), zlib.crc32(stamps + body)) + stamps + body)


@attrs.define(eq=False)
class Record:
    """Read a record: when its moments were, and each of them.

    - `whole`: whether the file ends with a block, as that of a run does that was not killed.
    """

    path: Path
    title: str = attrs.field(init=False, default="")
    outlined: Mapping[str, Any] = attrs.field(init=False, factory=dict)
    whole: bool = attrs.field(init=False, default=True)
    _data: bytes = attrs.field(init=False, repr=False)
    _times: list[int] = attrs.field(init=False, factory=list)
    _places: list[tuple[int, int]] = attrs.field(init=False, factory=list)
    """For each moment, its block and its line there."""
    _blocks: list[tuple[int, int]] = attrs.field(init=False, factory=list)
    _unpacked: Callable[[int], list[str]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            self._data = self.path.read_bytes()
        except OSError as error:
            raise PlanError(f'cannot read "{self.path}": {error.strerror or error}.') from None
        if not self._data.startswith(MAGIC):
            raise TableError(
                f'"{self.path}" is no record of a run that this version reads. --record FILE of a run makes one.'
            )
        self._unpacked = lru_cache(4)(self._unpack)
        blocks = self._scan()
        head = next(blocks, None)
        if head is None:
            raise TableError(f'"{self.path}" ends before the plan of its run.')
        self._blocks.append(head[1])
        found = json.loads(self._unpacked(0)[0])
        self.title = str(found.pop("title"))
        self.outlined = found
        for stamps, body in blocks:
            number = len(self._blocks)
            self._blocks.append(body)
            times = struct.unpack(f">{len(stamps) // 8}q", stamps)
            self._times += times
            self._places += [(number, line) for line in range(len(times))]

    def times(self) -> list[int]:
        """Return when each moment was, in ns since 1970."""
        return self._times

    def moment(self, number: int) -> str:
        """Return the view of a moment as JSON, in the form of `View.to_json`; cost: one block unpacked."""
        block, line = self._places[number]
        return self._unpacked(block)[line]

    def _scan(self) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield the times of each block, and where its body is."""
        at = len(MAGIC)
        while at < len(self._data):
            head = self._data[at : at + _HEAD.size]
            if len(head) < _HEAD.size:
                self.whole = False
                return
            long, size, crc = _HEAD.unpack(head)
            at += _HEAD.size
            if at + long + size > len(self._data):
                self.whole = False
                return
            if zlib.crc32(self._data[at : at + long + size]) != crc or long % 8:
                raise TableError(f'"{self.path}" is damaged in the block at byte {at - _HEAD.size}.')
            yield self._data[at : at + long], (at + long, at + long + size)
            at += long + size

    def _unpack(self, block: int) -> list[str]:
        begin, end = self._blocks[block]
        unpacking = zlib.decompressobj()
        try:
            text = unpacking.decompress(self._data[begin:end], _LARGEST)
        except zlib.error:
            text = b""
        if not text or unpacking.unconsumed_tail:
            raise TableError(f'"{self.path}" is damaged in the block of {end - begin} bytes at byte {begin}.')
        return text.decode().split("\n")
