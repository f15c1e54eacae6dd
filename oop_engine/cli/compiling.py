"""Kernels are compiled once and kept on disk; the first run says so, since it is some seconds slower than others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from operators.kernels.compile import compiler
from operators.kernels.compile import disk_cache as kept

NOTICE: Final = "compiling kernels, once: the first run takes some seconds longer, later ones start at once."
_ALWAYS: Final = ("windows.window", "windows.slots")
"""The kernels of every window aggregate: when these are there, a run has compiled before."""


def compiled(kernels: Sequence[str] = _ALWAYS) -> bool:
    """Return whether an earlier run left these kernels on disk as they are now, or they are not compiled at all."""
    if compiler.interpreted():
        return True
    return all(kept.found(import_module(f"operators.kernels.{name}")) for name in kernels)
