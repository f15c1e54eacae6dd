"""Copy data that threads of Arrow read into memory that Arrow owns.

Such a thread lets go of what it was given a moment after the call that it worked for has returned. To let go of memory
of Python's it needs the interpreter; where that ends in this moment, it aborts the process, after all was done.
"""

from __future__ import annotations

import pyarrow as pa


def owned(data: bytes) -> pa.Buffer:
    """Copy bytes into memory that belongs to Arrow alone."""
    buffer = pa.allocate_buffer(len(data))
    with pa.FixedSizeBufferWriter(buffer) as writer:
        writer.write(data)
    return buffer
