"""What all errors are, and those that are the stream's fault, whose data breaks what it promised."""

from __future__ import annotations


class Error(Exception):
    """Say what is wrong, where, and the way out: the base of all that the engine raises of its own."""


class StreamError(Error):
    """Say that something is wrong with the data of a stream, not with the plan or the engine."""


class StreamViolation(StreamError):
    """Say that a tuple matched an earlier punctuation of its own stream: the stream is not grammatical."""
