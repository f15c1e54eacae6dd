"""Whose fault an error is: the stream's here, when data breaks what the stream promised."""

from __future__ import annotations


class StreamError(Exception):
    """Say that something is wrong with the data of a stream, not with the plan or the engine."""


class StreamViolation(StreamError):
    """Say that a tuple matched an earlier punctuation of its own stream: the stream is not grammatical."""
