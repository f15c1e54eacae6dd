"""Errors of sinks say what was asked for, and what could be asked for instead."""

from __future__ import annotations

from punctuation.errors import Error


class SinkError(Error, ValueError):
    """Report that results cannot go where they were sent: an unknown suffix, a missing folder."""


class WriteFailed(SinkError):
    """Report that writing failed after the run had begun: a full disk, a file that may not grow."""

    @classmethod
    def of(cls, where: object, error: OSError) -> WriteFailed:
        """Make the error for `where`, the file that was written, from the system's `error`."""
        return cls(f"{where} cannot be written: {error.strerror or error}.")
