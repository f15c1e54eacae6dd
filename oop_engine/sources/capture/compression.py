"""Read bytes in pieces, as a stream has them or as gzip and zstd unpack them, up to the end or to damage."""

from __future__ import annotations

import select
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

import attrs
import pyarrow as pa

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Formats known by their first bytes but not unpacked here, with the command that does.
UNREAD: Final = {b"\xfd7zXZ": "xz -dc", b"BZh": "bzip2 -dc", b"\x04\x22\x4d\x18": "lz4 -dc", b"PK\x03\x04": "unzip -p"}

_GZIP_MEMBER: Final = 31  # zlib's number for: the largest window, behind a gzip header
_PACKED: Final = 1 << 16
_STEP: Final = 4096


def is_packed(path: Path) -> bool:
    """Return whether a file begins as gzip or zstd do; False for what is no file."""
    if not path.is_file():
        return False
    with path.open("rb", buffering=0) as file:
        head = file.read(4)
    return head[:2] == GZIP or head == ZSTD


class PackedDamage(ValueError):
    """Report what is wrong with compressed data."""


class Pieces(Protocol):
    """A source of bytes in order."""

    @property
    def taken(self) -> int:
        """Return the bytes of the source read so far, as they lie on disk."""
        ...

    def read(self, most: int) -> bytes:
        """Return 1 to `most` bytes, waiting for the first; b"" at the end. PackedDamage where it cannot go on."""
        ...

    def ready(self) -> bool:
        """Return whether another read would give bytes, or the end, without waiting."""
        ...


@attrs.define
class Plain:
    """The bytes of a binary stream, given as soon as the stream has any."""

    stream: BinaryIO
    again: bool = False  # the stream can be read from its start again
    taken: int = 0
    _ahead: bytes = b""
    _short: bool = False
    ended: bool = False

    def peek(self, count: int) -> bytes:
        """Return the first `count` bytes (fewer at the end) without using them up."""
        while len(self._ahead) < count:
            piece = self._more(count - len(self._ahead))
            if not piece:
                break
            self._ahead += piece
        return self._ahead[:count]

    def read(self, most: int) -> bytes:
        if self._ahead:
            piece, self._ahead = self._ahead[:most], self._ahead[most:]
            return piece
        return self._more(most)

    def _more(self, most: int) -> bytes:
        # read1 gives what has arrived; a stream without it is asked for all, which raw streams answer in part.
        read1 = getattr(self.stream, "read1", None)
        piece = self.stream.read(most) if read1 is None else cast(bytes, read1(most))
        if piece is None:  # pyright: ignore[reportUnnecessaryComparison] (a raw stream that does not block)
            raise BlockingIOError("the stream is set not to block; give one that waits for its bytes")
        self._short = len(piece) < most
        self.ended = not piece
        self.taken += len(piece)
        return piece

    def ready(self) -> bool:
        if self._ahead or self.again:  # files on disk keep nobody waiting
            return True
        try:
            return bool(select.select([self.stream.fileno()], [], [], 0)[0])
        except (OSError, ValueError, AttributeError):  # no descriptor, or one that select does not take
            return not self._short


@attrs.define
class Gunzip:
    """The members of a gzip stream, unpacked one after another."""

    _packed: Plain
    _member: Any = attrs.field(factory=lambda: zlib.decompressobj(_GZIP_MEMBER))
    _begun: bool = False
    _rest: bytes = b""
    _fault: str | None = None

    @property
    def taken(self) -> int:
        return self._packed.taken

    def ready(self) -> bool:
        return bool(self._rest) or self._packed.ready()

    def read(self, most: int) -> bytes:
        if self._fault is not None:
            raise PackedDamage(self._fault)
        while True:
            packed = self._rest or self._packed.read(_PACKED)
            if not self._begun:
                packed = packed.lstrip(b"\0")  # padding behind the last member
                self._rest = b""
                if not packed:
                    if self._packed.ended:
                        return b""
                    continue
                self._begun = True
            before = self._member.copy()
            try:
                piece = self._member.decompress(packed, most)
            except zlib.error as error:
                self._fault = f"the gzip data are damaged ({error})"
                return self._last(before, packed, most)
            self._rest = self._member.unconsumed_tail
            if self._member.eof:
                self._rest = self._member.unused_data
                self._member = zlib.decompressobj(_GZIP_MEMBER)
                self._begun = False
            elif not piece and not packed:
                raise PackedDamage("the gzip data are cut")
            if piece:
                return piece

    def _last(self, member: Any, packed: bytes, most: int) -> bytes:
        """Return what can be unpacked before the damage: zlib keeps it back where one call meets both."""
        found = b""
        while most:
            trial = member.copy()
            try:
                piece = trial.decompress(packed, most)
            except zlib.error:
                most //= 2
                continue
            if not piece:
                break
            found += piece
            member, packed = trial, trial.unconsumed_tail
        if not found:
            raise PackedDamage(self._fault)
        return found


@attrs.define
class _Handed:
    """The packed stream in the form that Arrow asks for."""

    packed: Plain
    closed: bool = False

    def read(self, most: int) -> bytes:
        return self.packed.read(most)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


@attrs.define
class Unzstd:
    """The frames of a zstd stream, unpacked by Arrow's codec.

    Arrow loses the bytes of a read that meets damage. So reads of a stream are small. A file is read in large pieces;
    at damage it is read again up to there, then in small ones, and its last bytes one by one.
    """

    _packed: Plain
    _unpacked: Any = None
    _given: int = 0
    _damaged: bool = False
    _fault: str | None = None

    @property
    def taken(self) -> int:
        return self._packed.taken

    def ready(self) -> bool:
        return self._packed.ready()

    def read(self, most: int) -> bytes:
        if self._fault is not None:
            raise PackedDamage(self._fault)
        if self._unpacked is None:
            self._unpacked = self._open()
        small = self._damaged or not self._packed.again
        try:
            piece = cast(bytes, self._unpacked.read(min(most, _STEP) if small else most))
        except OSError as error:
            if not small:
                self._damaged = True
                self._unpacked = self._again()
                return self.read(most)
            self._fault = f"the zstd data are cut or damaged ({error})"
            piece = self._last()
            if not piece:
                raise PackedDamage(self._fault) from error
        self._given += len(piece)
        return piece

    def _open(self) -> Any:
        return pa.CompressedInputStream(pa.PythonFile(_Handed(self._packed), mode="r"), "zstd")

    def _again(self) -> Any:
        """Open the file again, behind the bytes that were given."""
        self._packed.stream.seek(0)
        self._packed = Plain(self._packed.stream, again=True)
        unpacked = self._open()
        left = self._given
        while left and (piece := cast(bytes, unpacked.read(min(left, _STEP)))):
            left -= len(piece)
        return unpacked

    def _last(self) -> bytes:
        if not self._packed.again:
            return b""
        found = bytearray()
        again = self._again()
        try:
            while len(found) < _STEP:
                found += again.read(1)
        except OSError:
            pass  # the same damage, met with nothing in hand
        return bytes(found)


def unpack(source: Plain) -> Pieces:
    """Choose how to read a stream by its first bytes, never by its name."""
    first = source.peek(4)
    if first.startswith(GZIP):
        return Gunzip(source)
    if first == ZSTD:
        return Unzstd(source)
    return source
