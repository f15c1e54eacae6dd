"""Validate record batches from outside as a whole before anything reads them.

Arrow itself believes what a batch says of its lengths, offsets and numbers of dictionary words, and reads wherever they
point: a batch that lies ends the process. The check costs 1 ns a text or word of a dictionary, and nothing a number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from oop_engine.sources.errors import TableError


def sound(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Return a batch that is safe to read; TableError, which begins with `where`, for one that is not."""
    try:
        batch.validate()
        for column in batch.columns:
            if not _is_plain(column.type) and not _is_sound_text(column):
                column.validate(full=True)
    except pa.ArrowException as error:
        raise TableError(f"{where} is damaged: {error}.\n  Copy the data again, or write them anew.") from error
    return batch


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers, times or addresses side by side: no bit in them leads anywhere."""
    return pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind)


def _is_sound_text(column: pa.Array) -> bool:
    """Return whether a column is of texts that are whole; False where Arrow, which looks at each by itself, must tell.

    Texts are whole where their bytes together are, and none begins within a character.
    """
    large = pa.types.is_large_string(column.type)
    if not (large or pa.types.is_string(column.type)) or not len(column):
        return False
    column.view(pa.large_binary() if large else pa.binary()).validate(full=True)
    _, places, letters = column.buffers()
    if places is None or letters is None:
        return False
    offsets = np.frombuffer(places, np.int64 if large else np.int32)[column.offset : column.offset + len(column) + 1]
    ends = pa.py_buffer(offsets[[0, -1]])
    together = (pa.LargeStringArray if large else pa.StringArray).from_buffers(1, ends, letters)
    try:
        together.validate(full=True)
    except pa.ArrowInvalid:
        return False
    text = np.frombuffer(letters, np.uint8)[: offsets[-1]]
    if text[offsets[0] :].max(initial=0) < 0x80:
        return True
    begun = text[offsets[:-1][offsets[:-1] < offsets[-1]]]
    return bool(((begun & 0xC0) != 0x80).all())
