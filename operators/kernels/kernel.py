"""One decorator compiles every hot loop: cached on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numba import config, njit

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function of arrays and scalars; with NUMBA_DISABLE_JIT=1 it stays Python.

    Compiled integers wrap silently, which hashes rely on; interpreted numpy scalars warn, so the warning is turned off.
    """
    if config.DISABLE_JIT:
        return np.errstate(over="ignore")(function)
    return njit(cache=True, nogil=True)(function)
