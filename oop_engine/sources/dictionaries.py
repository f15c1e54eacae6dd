"""Number the words of dictionaries by at least 32 bits in a stream, however few a single batch has.

The batches of a stream each bring a dictionary of their own, and what is grouped by them has the words of all. Views of
text and bytes, as Polars gives them, are laid out as the text and bytes that operators know.
"""

from __future__ import annotations

import pyarrow as pa


def widely_numbered(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which no dictionary is numbered by less than 32 bits, and nothing is a view."""
    return pa.schema([field.with_type(_wide(field.type)) for field in schema], metadata=schema.metadata)


def renumbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of such a schema; what is no batch is told by whoever reads it."""
    if not isinstance(batch, pa.RecordBatch) or all(_wide(kind) == kind for kind in batch.schema.types):
        return batch
    columns = [_widened(column, _wide(column.type)) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=widely_numbered(batch.schema))


def _widened(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    indices, words = column.indices.cast(kind.index_type), _widened(column.dictionary, kind.value_type)
    return pa.DictionaryArray.from_arrays(indices, words, ordered=kind.ordered)


def _wide(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        index = kind.index_type if kind.index_type.bit_width >= 32 else pa.int32()
        return pa.dictionary(index, _wide(kind.value_type), ordered=kind.ordered)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
