"""The lines of a growing file that cannot be read, apart from those that can: each line is judged by itself.

So it makes no difference how many lines were there at once, and a run that goes on leaves out what another would have.
In CSV a line end between quotes is none; where such a record cannot be read, each of its lines is judged by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.sources.errors import TableError
from oop_engine.sources.lines import is_text
from oop_engine.sources.sound import sound
from oop_engine.sources.tables import Table

_PLACE: Final = re.compile(r"line \d+(, blank lines not counted)?: ")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_LEADING: Final = 100
"""Damaged lines at the start of the first file behind which its columns are still looked for."""
Read: TypeAlias = Callable[[bytes, int], "pa.RecordBatch | None"]
"""Reads some lines, the first of which has this number; None where there is no tuple in them."""


@attrs.define
class Damage:
    """Count the lines that were left out, and keep the first of them."""

    lines: int = 0
    first: str = ""

    def left_out(self, lines: bytes, line: int, error: TableError) -> None:
        """Count lines, the first of which has this number."""
        if not self.lines:
            why = str(error).partition("\n")[0]
            place = _PLACE.search(why)
            self.first = f"line {line:,}: {why[place.end() :] if place else why}"
        self.lines += lines.count(b"\n") or 1

    def notes(self) -> list[str]:
        """Say how many lines were left out, and which first."""
        if not self.lines:
            return []
        return [f"{self.lines:,} lines could not be read, and were left out; the first is {self.first}"]


def readable(lines: bytes, line: int, read: Read, damage: Damage, *, quotes: bool) -> pa.RecordBatch | None:
    """Return the tuples of the lines that can be read, and count the others; `quotes` is for CSV.

    >>> def read(lines, line):
    ...     found = lines.decode().split()
    ...     if "x" in found:
    ...         raise TableError(f'a.csv: line {line}: "x" is no number.')
    ...     return pa.record_batch({"v": [int(word) for word in found]}) if found else None
    >>> damage = Damage()
    >>> readable(b"1\\nx\\n3\\n", 1, read, damage, quotes=False).to_pydict()
    {'v': [1, 3]}
    >>> damage.notes()
    ['1 lines could not be read, and were left out; the first is line 2: "x" is no number.']
    """
    each = _Lines(read, damage, quotes)
    batch = each.whole(lines, line, lines.count(b"\n") + (lines[-1:] not in (b"\n", b"")))
    if not isinstance(batch, TableError):
        return batch
    found = list(each.parts([*_records(lines, quotes)], line))
    return pa.concat_batches(found) if found else None


def columns_of(lines: bytes, opened: Callable[[bytes], Table], *, quotes: bool) -> Table | None:
    """Return a table of the first lines of a file, but for damaged ones; None where there is no tuple as yet.

    Types are those of the lines before the first whose value does not fit: a number in a column of numbers that is "-"
    makes no column of text, as it would where damage ends the run. TableError where the first 100 are damaged.
    """
    records = [*_records(lines, quotes)]
    header = records[:1] if quotes else []
    rest = [record for record in records[len(header) :] if record.strip()]
    for start in range(min(len(rest), _LEADING)):

        def table(count: int, start: int = start) -> Table:
            return opened(b"".join([*header, *rest[start : start + count]]))

        try:
            first = table(1)
        except TableError:
            if start + 1 == min(len(rest), _LEADING):
                raise
            continue
        return _longest(table, first, len(rest) - start)
    return None


def _longest(table: Callable[[int], Table], first: Table, count: int) -> Table:
    """Return a table of as many lines as fit to the first."""

    def fitting(count: int) -> Table | None:
        try:
            found = table(count)
        except TableError:
            return None
        kinds = {field.name: field.type for field in found.settled.schema}
        before = first.settled.schema
        fits = all(is_text(kinds[f.name]) <= (is_text(f.type) or pa.types.is_null(f.type)) for f in before)
        return found if fits else None

    if (found := fitting(count)) is not None:
        return found
    fit, least, most = first, 1, count
    while most - least > 1:
        middle = (least + most) // 2
        if (found := fitting(middle)) is None:
            most = middle
        else:
            fit, least = found, middle
    return fit


@attrs.frozen
class _Lines:
    """Read lines, and leave out those that cannot be read."""

    read: Read
    damage: Damage
    quotes: bool

    def parts(self, records: list[bytes], line: int) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of records, halving what cannot be read as a whole."""
        lines = b"".join(records)
        batch = self.whole(lines, line, sum(1 for record in records if record.strip()))
        if isinstance(batch, pa.RecordBatch):
            yield batch
        elif batch is not None and len(records) > 1:
            half = len(records) // 2
            before = sum(record.count(b"\n") for record in records[:half])
            yield from self.parts(records[:half], line)
            yield from self.parts(records[half:], line + before)
        elif batch is not None and lines.count(b"\n", 0, -1):
            for number, one in enumerate(_split(lines), line):
                yield from self.parts([one], number)
        elif batch is not None:
            self.damage.left_out(lines, line, batch)

    def whole(self, lines: bytes, line: int, count: int) -> pa.RecordBatch | TableError | None:
        """Read lines, of which so many are not blank, at once; return why that cannot be."""
        if self.quotes and lines.count(b'"') % 2:
            return TableError('a " in it is never closed')
        try:
            batch = self.read(lines, line)
            if batch is not None:
                batch = sound(batch, "the text")
        except TableError as error:
            if isinstance(error.__cause__, MemoryError):
                raise
            return error
        rows = 0 if batch is None else len(batch)
        # An object that lies in several lines is none to a reading that gets them one at a time. A selection of no
        # column has no rows to count.
        if not self.quotes and count > 1 and rows != count and (batch is None or batch.num_columns):
            return TableError("an object lies in several lines")
        return batch


def _split(lines: bytes) -> list[bytes]:
    """Return the lines with their ends, \\n alone."""
    return _LINE.findall(lines)


def _records(lines: bytes, quotes: bool) -> Iterator[bytes]:
    """Yield the lines, with their ends; with `quotes`, those that a text between quotes holds together are one."""
    held = b""
    for line in _split(lines):
        held += line
        if not (quotes and held.count(b'"') % 2):
            yield held
            held = b""
    if held:
        yield held
