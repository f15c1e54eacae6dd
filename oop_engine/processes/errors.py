"""Errors of processes that run a part of a plan."""

from __future__ import annotations

from punctuation.errors import Error


class ProcessError(Error, RuntimeError):
    """Report that another process failed or is gone, which one, and what it said last."""
