"""On a terminal results stand in aligned columns, and leave as soon as the promise that settled them arrives."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, TextIO, cast

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import is_number, is_text, printable_texts, python_values, text_of
from operators.data.schema import Schema, is_ip
from operators.protocol import Element

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 60
_LEAST = 3
_SHORTEST = 12
"""Columns are not cut below this."""


@attrs.frozen
class TerminalSink:
    """Results as a table on a terminal: a header once, then rows as they are released, null as a dot.

    Columns are as wide as what has been shown needs. Where the terminal is too narrow, the widest columns of text
    and of lists are cut first, then the line at the edge; the end says which. Lists of values and their counts read
    "a ×2, b ×1". Control characters of the data are shown as escapes, so that data cannot steer the terminal.
    """

    file: TextIO | None = None

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Write to the file, standard output by default."""
        # Start-up: output into a pipe needs no terminal.
        from rich.console import Console

        table = _Table(Console(file=self.file, highlight=False, markup=False, emoji=False), list(schema.arrow))
        yield table.deliver
        table.show()
        table.tell()


@attrs.define
class _Table:
    console: Console
    fields: list[pa.Field]
    _held: list[Page] = attrs.field(factory=list, init=False)
    _widths: list[int] = attrs.field(factory=list, init=False)
    _narrowed: set[int] = attrs.field(factory=set, init=False)
    """Columns of which something was cut."""

    def deliver(self, element: Element) -> None:
        if not isinstance(element, Page):
            self.show()
            return
        self._held.append(element)
        if sum(len(page) for page in self._held) >= 8192:
            self.show()

    def show(self) -> None:
        """Write what is held."""
        pages, self._held = [page for page in self._held if len(page)], []
        if not pages:
            return
        columns = [
            pa.chunked_array([_shown(page.batch.column(i), field) for page in pages]).combine_chunks()
            for i, field in enumerate(self.fields)
        ]
        first = not self._widths
        names = [printable(field.name) for field in self.fields]
        known = self._widths or [max(_LEAST, len(name)) for name in names]
        longest = [pc.max(pc.utf8_length(column)).as_py() or 0 for column in columns]
        self._widths = self._fitted([min(_WIDEST, max(pair)) for pair in zip(known, longest, strict=True)])
        columns = [self._narrow(i, column, longest[i]) for i, column in enumerate(columns)]
        if first:
            self._line("  ".join(self._beside(name, i) for i, name in enumerate(names)), style="bold")
        padded = [
            (pc.utf8_lpad if is_number(self.fields[i]) else pc.utf8_rpad)(column, self._widths[i])
            for i, column in enumerate(columns)
        ]
        for line in pc.binary_join_element_wise(*padded, "  ").to_pylist():
            self._line(line)

    def tell(self) -> None:
        """Say which columns the terminal was too narrow for."""
        ends = list(accumulate(self._widths, lambda end, width: end + 2 + width))
        beyond = {i for i, end in enumerate(ends) if end > self.console.width}
        names = [self.fields[i].name for i in sorted(beyond | self._narrowed)]
        if names and self.console.is_terminal:
            listed = ", ".join(names)
            told = f"... {len(names)} of {len(self.fields)} columns cut: {listed}.", "A file or a pipe has them all."
            for line in told:
                self.console.print(line, soft_wrap=True)

    def _fitted(self, widths: list[int]) -> list[int]:
        """Return widths that the terminal has room for, if columns of text and lists can be that narrow."""
        flexible = [i for i, field in enumerate(self.fields) if _is_flexible(field)]
        while self.console.is_terminal and sum(widths) + 2 * (len(widths) - 1) > self.console.width:
            widest = max(flexible, key=lambda i: widths[i], default=None)
            if widest is None or widths[widest] <= max(_SHORTEST, len(self.fields[widest].name)):
                break
            widths[widest] -= 1
        return widths

    def _narrow(self, i: int, column: pa.Array, longest: int) -> pa.Array:
        """Cut the texts of a column that are longer than it is on a terminal."""
        width = self._widths[i]
        if longest <= width or not self.console.is_terminal or not _is_flexible(self.fields[i]):
            return column
        self._narrowed.add(i)
        cut = pc.binary_join_element_wise(pc.utf8_slice_codeunits(column, 0, width - 1), "…", "")
        return pc.if_else(pc.greater(pc.utf8_length(column), width), cut, column)

    def _beside(self, name: str, i: int) -> str:
        return name.rjust(self._widths[i]) if is_number(self.fields[i]) else name.ljust(self._widths[i])

    def _line(self, text: str, *, style: str | None = None) -> None:
        cut = self.console.is_terminal
        self.console.print(text.rstrip(), style=style, no_wrap=True, overflow="ellipsis" if cut else "ignore", crop=cut)


def _is_flexible(field: pa.Field) -> bool:
    """Return whether a part of a value says something of it: of text and of lists, not of numbers, times, addresses."""
    kind = field.type
    return (is_text(field) and not is_ip(field)) or pa.types.is_nested(kind)


def _shown(array: pa.Array, field: pa.Field) -> pa.Array:
    if _is_counts(field.type):
        # Structs of two fields, as top_k and heavy_hitters give them.
        lists = python_values(array, field)
        return printable_texts(pa.array([_counts(found) for found in lists], pa.string())).fill_null("·")
    return printable_texts(text_of(array, field)).fill_null("·")


def _is_counts(kind: pa.DataType) -> bool:
    """Return whether a type is that of lists of values and their counts."""
    item = kind.value_type if pa.types.is_list(kind) else None
    return item is not None and pa.types.is_struct(item) and [field.name for field in item] == ["value", "count"]


def _counts(found: object) -> str | None:
    """Write a list of values and their counts."""
    if not isinstance(found, list):
        return None
    return ", ".join(
        f"{'·' if one['value'] is None else one['value']} ×{one['count']}"
        for one in cast("list[dict[str, object]]", found)
    )
