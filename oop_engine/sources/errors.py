"""Whose fault a failed reading is: the user named something that is not there, or the file is not what it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from punctuation.errors import Error, StreamError

if TYPE_CHECKING:
    from oop_engine.drive.outcome import Outcome


class SourceError(Error, ValueError):
    """Say that a source cannot be opened as named: no such file, an unknown format, an attribute it has not."""


class SourceEnded(SourceError):
    """Say why a source that is live cannot go on, though all that it gave is good: the run ends as by Ctrl-C."""

    outcome: Outcome | None = None
    """The results so far, where a run was to keep them in memory."""


class TableError(StreamError):
    """Say that a file's content is damaged or not of the form or type it should have, and where."""
