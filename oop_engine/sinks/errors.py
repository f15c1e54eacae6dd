"""A sink that cannot be opened says what it was asked for and what it could be asked for."""

from __future__ import annotations


class SinkError(ValueError):
    """Say that results cannot go where they were sent: an unknown suffix, a folder that is not there."""
