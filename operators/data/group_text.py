"""A group is described in a message by its keys, each as it is written in results: addresses as addresses."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from operators.data.page import Page
from operators.data.schema import Schema


def group_text(schema: Schema, by: Sequence[str], keys: Sequence[pa.Array]) -> str:
    """Describe the first of these keys, which are attributes `by` of the schema."""
    if not by:
        return "all tuples"
    named = Schema(pa.schema([schema.field(name) for name in by]))
    return Page(named, pa.RecordBatch.from_arrays([key[:1] for key in keys], schema=named.arrow)).describe(0)
