"""Turn Python rows into pages; rows may carry punctuation, which closes the page in progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from time import time_ns
from typing import Final, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.sources.errors import SourceError
from oop_engine.sources.protocol import Chunk
from operators.data.page import Page
from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError, did_you_mean
from operators.protocol import Element
from punctuation import Punctuation

WAIT: Final = 50_000_000
"""So many ns a row waits for others at most, as far as somebody looks."""

PlainRow: TypeAlias = "Mapping[str, object] | Sequence[object]"


def from_rows(
    rows: Iterable[PlainRow | Punctuation], schema: Schema | pa.Schema, *, page_rows: int = 8192
) -> Iterator[Element]:
    """Return pages of at most `page_rows` tuples of dictionaries or of sequences in the order of the schema.

    A key that is missing is null; addresses may be text. SchemaError names the row and what does not fit.
    """
    return RowPages(rows, schema if isinstance(schema, Schema) else Schema(schema), page_rows).elements()


@attrs.define(eq=False)
class RowPages:
    """Make pages of rows as they come; rows do not wait for the page to be full.

    A page leaves when it is full, before a punctuation, and with the first row that comes when the oldest in it is
    `WAIT` old. While the next row is waited for, another thread may take those `at_hand`.
    """

    rows: Iterable[PlainRow | Punctuation]
    schema: Schema
    page_rows: int = 8192
    clock: Callable[[], int] = time_ns
    """Gives the time in ns since 1970."""
    _held: deque[Sequence[object]] = attrs.field(init=False, factory=deque)
    _taking: Lock = attrs.field(init=False, factory=Lock)
    """Held by whoever takes rows out of those that wait; only `elements` adds to them."""
    _taken: int = attrs.field(init=False, default=0)
    _began: int | None = attrs.field(init=False, default=None)
    """When the oldest row that waits came, in ns since 1970, or some time before."""
    _away: int | None = attrs.field(init=False, default=None)

    def elements(self) -> Iterator[Element]:
        """Yield pages and punctuations until the rows end."""
        held, names = self._held, self.schema.names
        known, wide, full, clock = frozenset(names), len(names), self.page_rows, self.clock
        for number, row in enumerate(self.rows):
            if isinstance(row, dict):
                if not row.keys() <= known:
                    raise _unknown(number, row, names)
                values: Sequence[object] = [row.get(name) for name in names]
            elif isinstance(row, Punctuation):
                yield from self._let_go()
                self._taken += 1
                yield row
                continue
            elif isinstance(row, Mapping):
                if not row.keys() <= known:
                    raise _unknown(number, row, names)
                values = [row.get(name) for name in names]
            elif len(row) != wide:
                raise SchemaError(f"row {number} has {len(row)} values, but the schema {wide}: {', '.join(names)}")
            else:
                values = row
            now = clock()
            began = self._began
            if began is None:
                self._began = began = now
            held.append(values)
            if len(held) >= full or now - began > WAIT:
                yield from self._let_go()
        yield from self._let_go()

    def at_hand(self) -> list[Chunk]:
        """Take the rows that wait; from any thread. Nothing while `elements` is about to give them itself."""
        if not self._taking.acquire(blocking=False):
            return []
        try:
            self._began = None
            return self._page()
        finally:
            self._taking.release()

    @property
    def away(self) -> int | None:
        """Return since when the oldest row is on its way that `elements` gave and the reader may not have passed on.

        In ns since 1970; None when there is none.
        """
        return self._away

    def _let_go(self) -> Iterator[Page]:
        with self._taking:
            self._away, self._began = self._began, None
            pages = self._page()
        yield from pages
        self._away = None

    def _page(self) -> list[Page]:
        count = len(self._held)
        if not count:
            return []
        first = self._taken
        self._taken += count
        return [_page(self.schema, [self._held.popleft() for _ in range(count)], first)]


def _unknown(number: int, row: Mapping[str, object], names: Sequence[str]) -> SchemaError:
    unknown = next(key for key in row if key not in names)
    return SchemaError(f'row {number}: "{unknown}" is no attribute.\n  {did_you_mean(str(unknown), names)}')


def from_pages(elements: Iterable[Element | pa.RecordBatch | pa.Table], schema: Schema) -> Iterator[Element]:
    """Yield pages and punctuations as they come, Arrow data made pages; SchemaError when one has another schema."""
    for number, element in enumerate(elements):
        if isinstance(element, Punctuation):
            yield element
        elif isinstance(element, Page):
            yield _checked(element.batch, schema, number)
        elif isinstance(element, pa.RecordBatch):
            yield _checked(element, schema, number)
        elif isinstance(element, pa.Table):
            for batch in element.to_batches():
                yield _checked(batch, schema, number)
        else:
            raise SourceError(f"element {number} is a {type(element).__name__}; give pages, batches or punctuations")


def _checked(batch: pa.RecordBatch, schema: Schema, number: int) -> Page:
    if not batch.schema.equals(schema.arrow):
        raise SchemaError(
            f"element {number} is not of the stream's schema.\n  element: {Schema(batch.schema)}\n  stream: {schema}"
        )
    return Page(schema, batch)


def _page(schema: Schema, rows: list[Sequence[object]], first: int) -> Page:
    columns: dict[str, pa.Array] = {}
    for field, values in zip(schema.arrow, zip(*rows, strict=True), strict=True):
        try:
            columns[field.name] = _column(field, values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError, OverflowError) as error:
            raise SchemaError(
                f'{_numbered(first, len(rows))}: "{field.name}" is '
                f"{'an ip' if is_ip(field) else field.type}, but a value is not: {error}"
            ) from error
    return Page.of(schema, columns)


def _numbered(first: int, count: int) -> str:
    return f"row {first}" if count == 1 else f"rows {first} to {first + count - 1}"


def _column(field: pa.Field, values: Sequence[object]) -> pa.Array:
    if is_ip(field) and any(isinstance(value, str) for value in values):
        # Start-up: few columns hold addresses as text.
        from operators.data.address import parse_ip

        values = [parse_ip(value) if isinstance(value, str) else value for value in values]
    return pa.array(values, field.type)
