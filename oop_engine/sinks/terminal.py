"""On a terminal results stand in aligned columns, and leave as soon as the promise that settled them arrives."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, TextIO

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import is_number, printable_texts, text_of
from operators.data.schema import Schema
from operators.protocol import Element

if TYPE_CHECKING:
    from rich.console import Console

_WIDEST = 60
_LEAST = 3


@attrs.frozen
class TerminalSink:
    """Results as a table on a terminal: a header once, then rows as they are released, null as a dot.

    Columns are as wide as what has been shown needs, and cut at the edge of the terminal, which is told at the end;
    control characters of the data are shown as escapes, so that data cannot steer the terminal.
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
        self._widths = [min(_WIDEST, max(pair)) for pair in zip(known, longest, strict=True)]
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
        ends = accumulate(self._widths, lambda end, width: end + 2 + width)
        names = [field.name for field, end in zip(self.fields, ends, strict=False) if end > self.console.width]
        if names and self.console.is_terminal:
            listed = ", ".join(names)
            told = f"... {len(names)} of {len(self.fields)} columns cut: {listed}.", "A file or a pipe has them all."
            for line in told:
                self.console.print(line, soft_wrap=True)

    def _beside(self, name: str, i: int) -> str:
        return name.rjust(self._widths[i]) if is_number(self.fields[i]) else name.ljust(self._widths[i])

    def _line(self, text: str, *, style: str | None = None) -> None:
        cut = self.console.is_terminal
        self.console.print(text.rstrip(), style=style, no_wrap=True, overflow="ellipsis" if cut else "ignore", crop=cut)


def _shown(array: pa.Array, field: pa.Field) -> pa.Array:
    return printable_texts(text_of(array, field)).fill_null("·")
