"""Limit a micro-batch to the files, bytes and rows that its reader's options allow, but read at least something.

Files that are not decoded yet are assumed to have 100 bytes a row.
"""

from __future__ import annotations

from typing import Final

import attrs
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxFiles, ReadMaxRows

from oop_engine.sources.errors import SourceError
from oop_engine.spark.options import Options

_ROW_BYTES: Final = 100
_LIMITS: Final = {
    "maxFilesPerTrigger": ReadMaxFiles,
    "maxBytesPerTrigger": ReadMaxBytes,
    "maxRowsPerTrigger": ReadMaxRows,
}


@attrs.define
class Allowance:
    """The rest of what one batch may take."""

    files: float = float("inf")
    bytes: float = float("inf")
    rows: float = float("inf")
    taken: bool = False

    @classmethod
    def of(cls, limit: ReadLimit) -> Allowance:
        """Take what Spark allows."""
        if isinstance(limit, ReadMaxFiles):
            return cls(files=limit.max_files)
        if isinstance(limit, ReadMaxBytes):
            return cls(bytes=limit.max_bytes)
        if isinstance(limit, ReadMaxRows):
            return cls(rows=limit.max_rows)
        return cls()

    @property
    def spent(self) -> bool:
        return min(self.files, self.bytes, self.rows) <= 0

    def fits(self, size: int) -> bool:
        """Return whether a whole file may still be taken; the first always may, or nothing would go on."""
        return not self.taken or (self.files >= 1 and self.bytes >= size and self.rows * _ROW_BYTES >= size)

    def take(self, size: int, rows: int | None = None) -> None:
        """Count what was taken."""
        self.taken = True
        self.bytes -= size
        self.rows -= -(-size // _ROW_BYTES) if rows is None else rows


def limit_of(options: Options) -> ReadLimit:
    """Read how much a batch may take; SourceError when several options say it."""
    given = [name for name in _LIMITS if options.text(name) is not None]
    if len(given) > 1:
        raise SourceError(f"{options.format}: give one of {', '.join(given)}, not several.")
    return _LIMITS[given[0]](options.number(given[0], 1)) if given else ReadAllAvailable()
