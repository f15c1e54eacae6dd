"""Schemas of files that are written at different times: the same, whatever the streams declared as never null."""

from __future__ import annotations

import pyarrow as pa


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which every attribute, and what is in it, may be null."""
    return pa.schema([_nullable(field) for field in schema], schema.metadata)


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(f) for f in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(_nullable(kind.key_field).with_nullable(False), _nullable(kind.item_field))
    elif pa.types.is_fixed_size_list(kind):
        kind = pa.list_(_nullable(kind.value_field), kind.list_size)
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_nullable(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def differences(there: pa.Schema, wanted: pa.Schema) -> str:
    """Say in what the attributes that are there and those to be written differ, a line each."""
    known, given = ({field.name: field.type for field in schema} for schema in (there, wanted))
    lines = [
        f"  {name}: {known.get(name, 'absent')} there, {given.get(name, 'absent')} to be written.\n"
        for name in {**known, **given}
        if known.get(name) != given.get(name)
    ]
    return "".join(lines) or "  They are the same in another order.\n"


def plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which what a dictionary numbers is there as it is.

    The file form of Arrow has one dictionary a column, and the pages of a stream bring one each.
    """
    return pa.schema([f.with_type(_plain(f.type)) for f in schema], metadata=schema.metadata)


def looked_up(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch in the types of such a schema, itself where it has no dictionary."""
    if not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
        return batch
    columns = [
        column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
