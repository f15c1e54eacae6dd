"""How the words of dictionaries are numbered: in a stream by 32 bits at least, however few a single batch has.

The batches of a stream each bring a dictionary of their own, and what is grouped by them has the words of all.
"""

from __future__ import annotations

import pyarrow as pa


def widely_numbered(schema: pa.Schema) -> pa.Schema:
    """Give a schema in which no dictionary is numbered by less than 32 bits."""
    return pa.schema([field.with_type(_wide(field.type)) for field in schema], metadata=schema.metadata)


def renumbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch of such a schema; what is no batch is told by whoever reads it."""
    if not isinstance(batch, pa.RecordBatch) or all(_wide(kind) == kind for kind in batch.schema.types):
        return batch
    columns = [
        pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary, ordered=column.type.ordered)
        if _wide(column.type) != column.type
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=widely_numbered(batch.schema))


def _wide(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_dictionary(kind) or kind.index_type.bit_width >= 32:
        return kind
    return pa.dictionary(pa.int32(), kind.value_type, ordered=kind.ordered)
