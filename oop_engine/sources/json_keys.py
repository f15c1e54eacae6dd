"""Count keys of NDJSON that are no columns, so that nothing is left out silently.

Most lines have known keys alone, which `familiar` tells without reading their structure: whatever stands between
quotes before a colon is looked up. Only where it finds another, as in objects within objects, the structure is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import attrs
import numpy as np
from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.errors import TableError
from oop_engine.sources.lines import way_out
from oop_engine.sources.nested_objects import Other as NestedOther
from oop_engine.sources.text import Piece
from operators.kernels.compile.kernel import kernel

_ROOM: Final = 1 << 14
_TOLD: Final = 8
"""Keys that are told by name; of others how many there are."""
_BASIS: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_WORDS: Final = {bool: "bool", int: "int", float: "float", str: "text"}

_QUOTE, _ESCAPE, _COLON, _COMMA, _LINE = 34, 92, 58, 44, 10
_OPEN, _CLOSE, _FIRST, _LAST = 123, 125, 91, 93
_BLANK, _NULL = 32, 110


@kernel
def familiar(data: NDArray[uint8], keys: NDArray[uint8], cuts: NDArray[int64]) -> bool:
    """Return whether all that stands in quotes before a colon is one of the keys, keys[cuts[k]:cuts[k+1]]; O(n)."""
    count, guess = len(cuts) - 1, 0
    stop, at, one = uint64(len(data)), uint64(1), uint64(1)
    while at < stop:
        if data[at] != _COLON:
            at += one
            continue
        before = data[at - one]
        if before == _QUOTE:
            known = False
            for k in range(count):
                # Keys mostly come in one order.
                key = guess + k if guess + k < count else guess + k - count
                begin = cuts[uint64(key)]
                size = cuts[uint64(key + 1)] - begin
                start = int64(at) - 1 - size
                if start < 1 or data[uint64(start - 1)] != _QUOTE:
                    continue
                same = start < 2 or data[uint64(start - 2)] != _ESCAPE
                for j in range(size):
                    if data[uint64(start + j)] != keys[uint64(begin + j)]:
                        same = False
                        break
                if same:
                    known = True
                    guess = key + 1 if key + 1 < count else 0
                    break
            if not known:
                return False
        elif before <= _BLANK:
            # Blanks are let stand before a colon, too.
            return False
        at += one
    return True


@kernel
def other_keys(
    data: NDArray[uint8], known: NDArray[uint64], place: NDArray[int64],
    starts: NDArray[int64], ends: NDArray[int64], lines: NDArray[int64], hashes: NDArray[uint64],
) -> int:  # fmt: skip
    """Find keys of the outermost objects that are not among the known hashes and whose value is not null; O(n).

    `place` is (offset, line, depth, whether a key is due), from which the search goes on and which it leaves where the
    room of the other arrays ends. Gives how many were found.
    """
    stop, room, found = len(data), len(starts), 0
    at, line, depth, due = place[0], place[1], place[2], place[3] == 1
    while at < stop and found < room:
        byte = data[uint64(at)]
        if byte == _QUOTE:
            start, hashed = at + 1, uint64(_BASIS)
            at = start
            while at < stop and data[uint64(at)] != _QUOTE:
                if data[uint64(at)] == _ESCAPE:
                    hashed = (hashed ^ uint64(_ESCAPE)) * uint64(_PRIME)
                    at += 1
                if due and at < stop:
                    hashed = (hashed ^ uint64(data[uint64(at)])) * uint64(_PRIME)
                at += 1
            if due:
                due, other = False, True
                for k in range(len(known)):
                    if known[uint64(k)] == hashed:
                        other = False
                value = at + 1
                while value < stop and (data[uint64(value)] <= _BLANK or data[uint64(value)] == _COLON):
                    value += 1
                if other and value < stop and data[uint64(value)] != _NULL:
                    starts[found], ends[found], lines[found], hashes[found] = start, at, line, hashed
                    found += 1
        elif byte == _OPEN:
            depth += 1
            due = depth == 1
        elif byte == _FIRST:
            depth += 1
        elif byte in (_CLOSE, _LAST):
            depth -= 1
        elif byte == _COMMA:
            due = depth == 1
        elif byte == _LINE:
            line += 1
        at += 1
    place[0], place[1], place[2], place[3] = at, line, depth, 1 if due else 0
    return found


@attrs.define
class _Other:
    """A key that is no column: in how many lines it has a value, and in which first."""

    lines: int
    first: int
    file: str
    word: str | None


@attrs.define
class LeftOut:
    """The keys of one reading that are no columns; `strict` takes the first as an error.

    `typed` says whether a key that is given a type is a column.
    """

    strict: bool = False
    typed: bool = attrs.field(default=True, kw_only=True)
    _others: dict[str, _Other] = attrs.field(init=False, factory=dict)
    _columns: frozenset[str] = attrs.field(init=False, default=frozenset[str]())
    _keys: NDArray[uint8] = attrs.field(init=False, factory=lambda: np.zeros(0, np.uint8))
    _cuts: NDArray[int64] = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64))
    _hashes: NDArray[uint64] = attrs.field(init=False, factory=lambda: np.zeros(0, np.uint64))

    def known(self, columns: Iterable[str]) -> None:
        """Say which keys are columns."""
        self._columns = frozenset(columns)
        # As they stand in a file that writes them as they are, and in one that writes ASCII alone.
        texts = dict.fromkeys(
            json.dumps(name, ensure_ascii=ascii_)[1:-1].encode() for name in columns for ascii_ in (False, True)
        )
        self._keys = np.frombuffer(b"".join(texts), np.uint8)
        self._cuts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        self._hashes = np.array([_hash(text) for text in texts], np.uint64)
        self._cuts.flags.writeable = self._hashes.flags.writeable = False

    def look(self, piece: Piece, file: str) -> None:
        """Count what the lines of a piece have besides; TableError, naming the line, where that is strict."""
        data = np.frombuffer(piece.data, np.uint8)
        if familiar(data, self._keys, self._cuts):
            return
        place = np.zeros(4, np.int64)
        starts, ends, lines = (np.empty(_ROOM, np.int64) for _ in range(3))
        hashes = np.empty(_ROOM, np.uint64)
        while place[0] < len(data):
            count = other_keys(data, self._hashes, place, starts, ends, lines, hashes)
            _, firsts, counts = np.unique(hashes[:count], return_index=True, return_counts=True)
            for at, many in sorted(zip(firsts.tolist(), counts.tolist(), strict=True)):
                self._count(piece, file, slice(int(starts[at]), int(ends[at])), int(lines[at]), many)

    def look_into(self, piece: Piece, others: Iterable[NestedOther], file: str) -> None:
        """Count values in objects that are no columns; TableError, naming the line, where that is strict."""
        for found in others:
            self._note(found.name, found.word, piece.line + found.row, file, found.lines)

    def _count(self, piece: Piece, file: str, place: slice, line: int, many: int) -> None:
        written = piece.data[place].decode("utf-8", "replace")
        try:
            name = str(json.loads(f'"{written}"', strict=False))
        except ValueError:
            name = written
        if name in self._columns:
            return
        word = None if name in self._others else _word(piece.data.split(b"\n", line + 1)[line], name)
        self._note(name, word, piece.line + line, file, many)

    def _note(self, name: str, word: str | None, line: int, file: str, many: int) -> None:
        if (other := self._others.get(name)) is None:
            if self.strict:
                raise TableError(
                    f'line {line}: the key "{name}" is no column, since the first lines had it not.'
                    f"{self._hint(name, word)}"
                )
            other = self._others[name] = _Other(0, line, file, word)
        other.lines += many

    def notes(self) -> list[str]:
        """Say which keys were left out, how often, and how they are read."""
        told = [
            f'{o.file}: the key "{name}" is left out, which '
            f"{f'line {o.first:,} has' if o.lines == 1 else f'{o.lines:,} lines have (first line {o.first:,})'}, "
            f"since the first lines had it not.{self._hint(name, o.word)}"
            for name, o in list(self._others.items())[:_TOLD]
        ]
        more = len(self._others) - len(told)
        return [*told, f"{more:,} more keys that the first lines had not are left out"] if more > 0 else told

    def _hint(self, name: str, word: str | None) -> str:
        if not self.typed:
            return " Begin the file with a line that has it."
        if word is None:
            return " It holds objects or arrays: begin the file with a line that has it."
        return f" {way_out(name, word)} makes it a column."


def _word(line: bytes, name: str) -> str | None:
    """Return the word for the type of a value, None for what no word reads."""
    try:
        value = json.loads(line)[name]
    except (ValueError, KeyError, TypeError):
        return "text"
    return _WORDS.get(type(value))


def _hash(text: bytes) -> int:
    """Hash as the kernel does: FNV-1a."""
    hashed = _BASIS
    for byte in text:
        hashed = (hashed ^ byte) * _PRIME % 2**64
    return hashed
