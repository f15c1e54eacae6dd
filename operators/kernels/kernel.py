"""One decorator compiles every hot loop: cached on disk, without the interpreter lock."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TypeVar

import numba
import numpy as np

Function = TypeVar("Function", bound=Callable[..., object])


def interpreted() -> bool:
    """Tell whether kernels stay Python."""
    return bool(importlib.import_module("numba.core.config").DISABLE_JIT)


def _counting(count: bool) -> dict[str, bool]:
    """Give the option that says whether references to arrays are counted; a numba without it always counts them."""
    return {"_nrt": count} if hasattr(importlib.import_module("numba.core.options").DefaultOptions, "_nrt") else {}


def kernel(function: Function) -> Function:
    """Compile a function of arrays and scalars that makes no array; with NUMBA_DISABLE_JIT=1 it stays Python.

    Its arrays belong to the caller, so no references to them are counted: at each call from one kernel to another that
    is an atomic addition and subtraction for each array, several times what a short kernel itself costs.
    Compiled integers wrap silently, which hashes rely on, and infinities meet; interpreted numpy scalars warn of both,
    so these warnings are turned off.
    """
    return _compiled(function, count=False)


def making_kernel(function: Function) -> Function:
    """Compile as `kernel` a function that makes arrays of its own, or calls one that does."""
    return _compiled(function, count=True)


def _compiled(function: Function, *, count: bool) -> Function:
    if interpreted():
        return np.errstate(over="ignore", invalid="ignore")(function)
    compiled: Function = numba.njit(cache=True, nogil=True, **_counting(count))(function)  # type: ignore[assignment]
    return compiled
