"""Errors of reading name the fault: something that is not there, or a damaged file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from punctuation.errors import Error, StreamError

if TYPE_CHECKING:
    from oop_engine.drive.outcome import Outcome


class SourceError(Error, ValueError):
    """Report that a source cannot be opened as named: no such file, an unknown format, an attribute that it lacks."""


class SourceEnded(SourceError):
    """Report why a live source cannot go on. All it gave is good; the run ends as by Ctrl-C."""

    outcome: Outcome | None = None
    """The results so far, where a run was to keep them in memory."""


class TableError(StreamError):
    """Report that the content of a file is damaged, or not of the form or type it should have, and where."""
