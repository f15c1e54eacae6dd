"""One decorator compiles every hot loop: kept on disk, without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from operators.kernels.compile import compiler
from operators.kernels.compile.disk_cache import Kept

Function = TypeVar("Function", bound=Callable[..., object])


def kernel(function: Function) -> Function:
    """Compile a function of arrays and scalars that makes no array; with NUMBA_DISABLE_JIT=1 it stays Python.

    Its arrays belong to the caller, so no references to them are counted: at each call from one kernel to another that
    is an atomic addition and subtraction for each array, several times what a short kernel itself costs.
    Compiled integers wrap silently, which hashes rely on, and infinities meet; interpreted numpy scalars warn of both,
    so these warnings are turned off.
    """
    return _compiled(function, counted=False)


def making_kernel(function: Function) -> Function:
    """Compile as `kernel` a function that makes arrays of its own, or calls one that does."""
    return _compiled(function, counted=True)


def inlined_kernel(function: Function) -> Function:
    """Compile as `kernel` a part of another kernel, which is put in the place of its call.

    A long kernel so consists of parts that can be read by themselves. A call of a long part with many results costs
    more than the part: packets were decoded in 1.4 times the time.
    """
    return _compiled(function, counted=False, inlined=True)


def _compiled(function: Function, *, counted: bool, inlined: bool = False) -> Function:
    if compiler.interpreted():
        return np.errstate(over="ignore", invalid="ignore")(function)
    made = compiler.jitted(function, counted=counted, inlined=inlined)
    return compiler.keep(made, Kept(made))
