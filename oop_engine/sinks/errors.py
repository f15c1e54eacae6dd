"""A sink that cannot be opened says what it was asked for and what it could be asked for."""

from __future__ import annotations

from punctuation.errors import Error


class SinkError(Error, ValueError):
    """Say that results cannot go where they were sent: an unknown suffix, a folder that is not there."""


class WriteFailed(SinkError):
    """Say that results could not be written after the run had begun: a full disk, a file that may not grow."""

    @classmethod
    def of(cls, where: object, error: OSError) -> WriteFailed:
        """Name what was written."""
        return cls(f"{where} cannot be written: {error.strerror or error}.")
