"""Faults of processes that run a part of a plan."""

from __future__ import annotations


class ProcessError(RuntimeError):
    """Say that another process failed or is gone, which one, and what it said last."""
