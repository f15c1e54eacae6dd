"""Cut CSV and NDJSON into pieces that end with a line, so that live lines pass as they arrive."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from oop_engine.sources.capture.compression import PackedDamage, Pieces
from oop_engine.sources.errors import TableError

PIECE: Final = 4 << 20
_LONGEST_LINE: Final = 64 << 20
_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark, with which some programs begin a text in UTF-8; it is no part of it."""


@attrs.frozen
class Piece:
    """Hold whole lines of a file, and the number of the first, from 1."""

    line: int
    data: bytes
    at: int = 0
    """Where the piece begins, in bytes from the start of the unpacked text."""


def pieces(source: Pieces, *, quotes: bool, line: int = 1, at: int = 0) -> Iterator[Piece]:
    """Cut a source at line ends; a piece is given when it is large enough, or when the source has no more at hand.

    `quotes`: a line end between double quotes is none (CSV). The source begins with this line, at this byte.
    """
    held, ended = bytearray(), False
    while not ended:
        try:
            more = source.read(PIECE)
        except (PackedDamage, OSError):
            # The whole lines before the damage are what can be read.
            if cut := last_line_end(held, quotes=quotes):
                data = bytes(held[:cut])
                yield Piece(line, data.removeprefix(_MARK) if line == 1 else data, at)
            raise
        ended = not more
        held += more
        if not ended and len(held) < PIECE and source.ready():
            continue
        cut = len(held) if ended else last_line_end(held, quotes=quotes)
        if cut:
            data = bytes(held[:cut])
            del held[:cut]
            yield Piece(line, data.removeprefix(_MARK) if line == 1 else data, at)
            line += data.count(b"\n")
            at += cut
        elif len(held) > _LONGEST_LINE:
            long = f"line {line} is longer than {_LONGEST_LINE >> 20} MiB"
            if quotes and b'"' in held[: held.find(b"\n")]:
                raise TableError(f'{long}: a " in it is never closed; write "" for a quote in text between quotes')
            raise TableError(f"{long}: this is not a file of lines")


def last_line_end(held: bytearray, *, quotes: bool) -> int:
    """Return the length of the whole lines held; with `quotes`, line ends in double quotes do not count. Linear."""
    cut = held.rfind(b"\n") + 1
    odd = quotes and held.count(b'"', 0, cut) % 2
    while odd:
        # The last quote is open, so the line it stands in is the first that may not be cut off.
        start = held.rfind(b"\n", 0, held.rfind(b'"', 0, cut)) + 1
        odd ^= held.count(b'"', start, cut) % 2
        cut = start
    return cut


def first_bad_line(piece: Piece, read: Callable[[Piece], object]) -> int:
    """Return the number of the first line of a piece that cannot be read; `read` raises ValueError for the piece."""
    ends = [end.end() for end in re.finditer(rb"\n|[^\n]\Z", piece.data)]

    def fails(count: int) -> bool:
        lines = piece.data[: ends[count - 1]]
        try:
            if lines.strip(b"\r\n"):
                read(Piece(piece.line, lines))
        except ValueError:
            return True
        return False

    return piece.line + bisect_left(range(1, len(ends)), True, key=fails)
