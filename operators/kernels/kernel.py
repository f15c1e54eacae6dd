"""One decorator compiles every hot loop: cached on disk, without the interpreter lock."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., object])


def _interpreted() -> bool:
    return bool(importlib.import_module("numba.core.config").DISABLE_JIT)


def kernel(function: Function) -> Function:
    """Compile a function of arrays and scalars; with NUMBA_DISABLE_JIT=1 it stays Python.

    Compiled integers wrap silently, which hashes rely on; interpreted numpy scalars warn, so the warning is turned off.
    """
    if _interpreted():
        return np.errstate(over="ignore")(function)
    compiled: Function = numba.njit(cache=True, nogil=True)(function)  # type: ignore[assignment]
    return compiled
