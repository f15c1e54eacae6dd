"""All that the engine uses of numba and numba does not promise to keep stands here, each with a way to do without.

Three things are private to numba: the option that leaves references to arrays uncounted, the definitions of a function
that a pass has changed, and how a compiled function is written to disk and read again. A numba without one of them
still gives right answers: references are counted, users' functions are interpreted, kernels are compiled in each run.
"""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable
from types import FunctionType
from typing import TypeAlias, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])
Compiled: TypeAlias = t.Any
"""What numba makes of a Python function; it has no public type."""


_V2: t.Final = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
LEVELS: t.Final = {
    "x86-64-v3": (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v2": _V2,
}
"""Classes of processors by the names that the compiler knows them by, and what a processor of each is able to do."""

_HASHES: t.Final = b"_numba_hashsecret"
"""How the names of the seeds of hashes begin: no other addresses in machine code need more than numba itself."""


class Storage(t.Protocol):
    """Where numba looks for compiled code before it compiles, and puts it afterwards."""

    def load_overload(self, sig: object, target_context: t.Any) -> Compiled | None: ...
    def save_overload(self, sig: object, data: Compiled) -> None: ...


def interpreted() -> bool:
    """Return whether compiling is turned off altogether, so that kernels stay Python."""
    return bool(importlib.import_module("numba.core.config").DISABLE_JIT)


def jitted(function: Function, *, counted: bool, inlined: bool = False) -> Function:
    """Compile a function when it is first called, with or without counted references to its arrays.

    An `inlined` one is put in the place of each call, however long it is.
    """
    options = importlib.import_module("numba.core.options").DefaultOptions
    # What is not said is as in the kernel that calls, so both are said.
    counting = {"_nrt": counted} if hasattr(options, "_nrt") else {}
    inlining = {"forceinline": True} if inlined and hasattr(options, "forceinline") else {}
    made: Function = numba.njit(nogil=True, **counting, **inlining)(function)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return made


def python_of(compiled: object) -> FunctionType | None:
    """Return the Python function that a compiled one or an intrinsic was made of; None for anything else."""
    made = getattr(compiled, "py_func", None) or getattr(compiled, "_defn", None)
    return made if isinstance(made, FunctionType) else None


def options_of(compiled: object) -> str:
    """Return in words how a function is compiled; an intrinsic has no options."""
    options: dict[str, object] = getattr(compiled, "targetoptions", {})
    return repr(sorted(options.items()))


def versions() -> tuple[str, ...]:
    """Return all versions and settings that decide what the compiler makes of a function."""
    config = importlib.import_module("numba.core.config")
    settings = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML")
    return (
        numba.__version__,
        importlib.import_module("llvmlite").__version__,
        # What numba knows of an array is the same in all patches.
        importlib.import_module("numpy").__version__.rpartition(".")[0],
        *(f"{name}={getattr(config, name, None)}" for name in settings),
    )


def cache_folder() -> str:
    """Return the folder that NUMBA_CACHE_DIR names; empty when it names none."""
    return str(importlib.import_module("numba.core.config").CACHE_DIR or "")


def keep(function: Function, storage: Storage) -> Function:
    """Let a compiled function look in a storage first; one that cannot be stored is compiled in each run."""
    made: t.Any = function
    if storable() and hasattr(made, "_cache"):
        made._cache = storage
    return function


def storable() -> bool:
    """Return whether this numba can write compiled code down."""
    result = importlib.import_module("numba.core.compiler").CompileResult
    serialize = importlib.import_module("numba.core.serialize")
    needed = ((result, "_reduce"), (result, "_rebuild"), (serialize, "dumps"), (serialize, "loads"))
    return all(hasattr(place, name) for place, name in needed)


def processor(target_context: t.Any) -> str:
    """Return in words the processor that code is made for."""
    return repr(target_context.codegen().magic_tuple())


def levels(target_context: t.Any) -> tuple[str, ...]:
    """Return in words the classes of processors that this one belongs to, the most able first.

    Code that was made on another machine for one of these runs here. There are none where NUMBA_CPU_NAME names the
    processor.
    """
    if importlib.import_module("numba.core.config").CPU_NAME is not None:
        return ()
    triple = target_context.codegen().magic_tuple()[0]
    able = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return tuple(repr((triple, name, "")) for name, needed in LEVELS.items() if all(map(able.get, needed)))


def written(result: Compiled) -> bytes | None:
    """Return compiled code as bytes; None where it holds addresses of this process."""
    if result.library.has_dynamic_globals or not all(lifted.can_cache for lifted in result.lifted):
        return None
    dumped: bytes = importlib.import_module("numba.core.serialize").dumps(result._reduce())
    return dumped


def read(data: bytes, target_context: t.Any) -> Compiled:
    """Return the compiled code that `written` made these bytes of."""
    if _HASHES in data:
        target_context.refresh()
    else:
        # All that compiling needs is loaded before something is compiled; running needs only memory.
        importlib.import_module("numba.core.runtime").rtsys.initialize(target_context)
    parts = importlib.import_module("numba.core.serialize").loads(data)
    return importlib.import_module("numba.core.compiler").CompileResult._rebuild(target_context, *parts)


def redefinable() -> bool:
    """Return whether this numba lets a pass change a function."""
    return hasattr(importlib.import_module("numba.core.ir_utils"), "build_definitions")


def redefine(function: t.Any) -> None:
    """Let the compiler know the statements of a function that a pass has changed."""
    function._definitions = importlib.import_module("numba.core.ir_utils").build_definitions(function.blocks)
