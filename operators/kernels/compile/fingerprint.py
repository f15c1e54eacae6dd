"""A fingerprint of a kernel changes with everything that the compiler freezes into its machine code.

That is its own code, and the values, at the time of compiling, of all names it reads: constants of any module, options
of the compiler, and in the same way every kernel that it calls, with its module, which is imported when the machine
code is loaded. Values are hashed rather than files. So it does not matter which file a constant stands in nor how it
got its value, and a change recompiles the kernels it touches, no others.
"""

from __future__ import annotations

import enum
import hashlib
import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import numpy as np

from operators.kernels.compile.compiler import options_of, python_of, versions

FOREIGN = sys.stdlib_module_names | {"numpy", "numba", "llvmlite"}
"""Packages whose versions are part of a fingerprint, so that what they define is known by its name."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)


class Unknown(Exception):
    """A kernel reads a value of which it is not known what the compiler takes from it."""


def fingerprint(kernel: object) -> str | None:
    """Return the fingerprint of a compiled function, 20 letters; None when it reads a value of an unknown kind."""
    first = python_of(kernel)
    if first is None:
        return None
    hashed = hashlib.blake2b(f"{_versions()}{options_of(kernel)}".encode(), digest_size=10)
    # Functions are numbered in the order in which they are found, so that those that call each other come to an end.
    numbers = {first: 0}
    queue = [first]
    try:
        for function in queue:
            own, called = _own(function)
            for other in called:
                if other not in numbers:
                    numbers[other] = len(numbers)
                    queue.append(other)
            foreign = [other.__module__ for other in called if other.__module__ != first.__module__]
            hashed.update(f"{own}{[numbers[other] for other in called]}{foreign or ''}".encode())
    except Unknown:
        return None
    return hashed.hexdigest()


@cache
def _versions() -> str:
    # A patch of Python that compiles to other bytecode is seen by that; machine code is the same for all patches.
    return repr((sys.implementation.cache_tag, *versions()))


def _own(function: FunctionType) -> tuple[str, list[FunctionType]]:
    """Return what a function says and reads itself, and the functions it calls."""
    code, called = function.__code__, list[FunctionType]()
    names = _names(code)
    there = function.__globals__
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    parts = [
        _code(code, names, called),
        *(f"{name}={_value(there[name], names, called)}" for name in sorted(names) if name in there),
        *(f"{name}={_value(value, names, called)}" for name, value in zip(code.co_freevars, cells, strict=True)),
        _value(function.__defaults__, names, called),
        _value(sorted((function.__kwdefaults__ or {}).items()), names, called),
    ]
    return "\n".join(parts), called


@cache
def _names(code: CodeType) -> frozenset[str]:
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return frozenset(code.co_names).union(*inner)


def _code(code: CodeType, names: frozenset[str], called: list[FunctionType]) -> str:
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    words = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    jumps: bytes = getattr(code, "co_exceptiontable", b"")
    constants = [_value(constant, names, called) for constant in code.co_consts]
    return f"{shape}{words}{code.co_code.hex()}{jumps.hex()}{constants}"


def _value(value: object, names: frozenset[str], called: list[FunctionType]) -> str:
    """Return in words what the compiler takes from a value that a function reads."""
    if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
        return f"{type(value).__name__} {value!r}"
    compiled = python_of(value)
    if compiled is not None:
        called.append(compiled)
        return f"function {options_of(value)}"
    for kinds, words in _KINDS:
        if isinstance(value, kinds):
            return words(value, names, called)
    raise Unknown(f"{value!r} of type {type(value).__qualname__}")


def _array(value: np.generic | np.ndarray, *_: object) -> str:
    if value.dtype.hasobject:
        raise Unknown(f"an array of {value.dtype}")
    return f"array {value.dtype.descr} {value.shape} {value.tobytes()!r}"


def _several(value: Iterable[object], names: frozenset[str], called: list[FunctionType]) -> str:
    words = [_value(one, names, called) for one in value]
    return f"{type(value).__name__} {sorted(words) if isinstance(value, frozenset) else words}"


def _module(value: ModuleType, names: frozenset[str], called: list[FunctionType]) -> str:
    """Take the names that the function reads of a module."""
    if _is_foreign(value.__name__):
        return f"module {value.__name__}"
    read = sorted(names & vars(value).keys())
    return f"module {value.__name__} {[(name, _value(vars(value)[name], names, called)) for name in read]}"


def _class(value: type, names: frozenset[str], called: list[FunctionType]) -> str:
    members = [(one.name, one.value) for one in value] if issubclass(value, enum.Enum) else []
    return f"class {value.__module__}.{value.__qualname__} {getattr(value, '_fields', ())} {members}"


def _function(value: FunctionType | BuiltinFunctionType, names: frozenset[str], called: list[FunctionType]) -> str:
    """Take a function of Python's or NumPy's by its name; of one of ours the compiler may use something else."""
    if not _is_foreign(value.__module__ or "builtins"):
        raise Unknown(f"the function {value.__qualname__}, which is not compiled")
    return f"function {value.__module__}.{value.__qualname__}"


def _is_foreign(module: str) -> bool:
    return module.partition(".")[0] in FOREIGN


_KINDS: tuple[tuple[type | tuple[type, ...], Callable[..., str]], ...] = (
    ((np.generic, np.ndarray), _array),
    ((tuple, list, frozenset), _several),
    (CodeType, _code),
    (ModuleType, _module),
    (type, _class),
    (enum.Enum, lambda value, *_: f"{type(value).__qualname__}.{value.name} {value.value!r}"),
    (np.dtype, lambda value, *_: f"dtype {value.descr}"),
    (np.ufunc, lambda value, *_: f"ufunc {value.__name__}"),
    ((FunctionType, BuiltinFunctionType), _function),
)
