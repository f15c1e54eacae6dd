"""The base of all errors, and the errors of streams whose data breaks what they promised."""

from __future__ import annotations


class Error(Exception):
    """Report what is wrong, where, and what to do about it: the base of all errors that the engine raises itself."""


class StreamError(Error):
    """Report that the data of a stream is wrong, not the plan or the engine."""


class StreamViolation(StreamError):
    """Report that a tuple breaks an earlier punctuation of its own stream. Allow more slack, or let late tuples be
    dropped.
    """
