"""Python rows become pages, and a row iterable may carry punctuation; a punctuation closes the page in progress."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from oop_engine.sources.errors import SourceError
from operators.errors import SchemaError, did_you_mean
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema, is_ip
from punctuation import Punctuation

PlainRow: TypeAlias = "Mapping[str, object] | Sequence[object]"


def from_rows(
    rows: Iterable[PlainRow | Punctuation], schema: Schema | pa.Schema, *, page_rows: int = 8192
) -> Iterator[Element]:
    """Give pages of at most `page_rows` tuples of dictionaries or of sequences in the order of the schema.

    A key that is missing is null; addresses may be text. SchemaError names the row and what does not fit.
    """
    schema = schema if isinstance(schema, Schema) else Schema(schema)
    names = schema.names
    held: list[Sequence[object]] = []
    first = 0
    for number, row in enumerate(rows):
        if isinstance(row, Punctuation):
            if held:
                yield _page(schema, held, first)
                held = []
            yield row
            continue
        if not held:
            first = number
        if isinstance(row, Mapping):
            unknown = next((key for key in row if key not in names), None)
            if unknown is not None:
                raise SchemaError(f'row {number}: "{unknown}" is no attribute.\n  {did_you_mean(str(unknown), names)}')
            held.append([row.get(name) for name in names])
        elif len(row) != len(names):
            raise SchemaError(f"row {number} has {len(row)} values, but the schema {len(names)}: {', '.join(names)}")
        else:
            held.append(row)
        if len(held) == page_rows:
            yield _page(schema, held, first)
            held = []
    if held:
        yield _page(schema, held, first)


def from_pages(elements: Iterable[Element | pa.RecordBatch | pa.Table], schema: Schema) -> Iterator[Element]:
    """Give pages and punctuations as they come, Arrow data made pages; SchemaError when one has another schema."""
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
        from operators.address import parse_ip

        values = [parse_ip(value) if isinstance(value, str) else value for value in values]
    return pa.array(values, field.type)
