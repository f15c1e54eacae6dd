"""Kernels are compiled once and kept on disk; the first run says so, since it is some seconds slower than others."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from operators.kernels.compile import compiler
from operators.kernels.compile import disk_cache as kept

_ONCE: Final = "compiling kernels, once: the first run takes some seconds longer, later ones start at once."
_ANEW: Final = "compiling kernels: this run takes some seconds longer."
_ALWAYS: Final = ("windows.window", "windows.slots")
"""The kernels of every window aggregate: when these are there, a run has compiled before."""


def compiled(kernels: Sequence[str] = _ALWAYS) -> bool:
    """Return whether an earlier run left these kernels on disk as they are now, or they are not compiled at all."""
    if compiler.interpreted():
        return True
    return all(kept.found(import_module(f"operators.kernels.{name}")) for name in kernels)


def notice() -> str:
    """Return the sentence that says why the run begins late: once, or each time where no folder keeps kernels."""
    return _ANEW if kept.lasting() is None else _ONCE
