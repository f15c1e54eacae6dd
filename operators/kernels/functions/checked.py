# pyright: reportMissingParameterType=false
"""A user's function is compiled so that whole numbers that leave 64 bits are told, where they would wrap otherwise.

Before types are known, each +, -, *, **, << and negation in the function is replaced by a call; for whole numbers the
call is an instruction and a look at the processor's overflow flag, for any others it is the operation itself.
"""

from __future__ import annotations

import importlib
import operator
import typing as t
from collections.abc import Callable
from typing import TypeAlias

import numba

from operators.kernels.compile.compiler import redefine

Function: TypeAlias = "Callable[..., t.Any]"

compiler = importlib.import_module("numba.core.compiler")
machinery = importlib.import_module("numba.core.compiler_machinery")
extending = importlib.import_module("numba.extending")
ir = importlib.import_module("numba.core.ir")
types = importlib.import_module("numba.core.types")
cgutils = importlib.import_module("numba.core.cgutils")
untyped = importlib.import_module("numba.core.untyped_passes")


class Wrapped(ArithmeticError):
    """Say that a whole number does not fit 64 bits."""


def added(a, b):
    """Add, in a compiled function."""
    return a + b


def subtracted(a, b):
    """Subtract, in a compiled function."""
    return a - b


def multiplied(a, b):
    """Multiply, in a compiled function."""
    return a * b


def raised(a, b):
    """Raise to a power, in a compiled function."""
    return a**b


def shifted(a, b):
    """Shift to the left, in a compiled function."""
    return a << b


def negated(a):
    """Negate, in a compiled function."""
    return -a


_CHECKED: dict[object, Function] = {
    operator.add: added, operator.sub: subtracted, operator.mul: multiplied, operator.pow: raised,
    operator.lshift: shifted, operator.neg: negated,
}  # fmt: skip


def _is_whole(kind) -> bool:
    """Return whether values are whole numbers of which 64 bits with a sign hold all."""
    return isinstance(kind, types.Boolean) or (isinstance(kind, types.Integer) and (kind.signed or kind.bitwidth < 64))


def _flagged(name: str) -> Function:
    """Make what gives the result of an instruction and whether it wrapped."""

    def both(typing, a, b):
        def generate(context, builder, signature, arguments):
            pair = getattr(builder, name)(*arguments)
            found = builder.extract_value(pair, 0), builder.extract_value(pair, 1)
            return context.make_tuple(builder, signature.return_type, found)

        pair = types.Tuple((types.int64, types.boolean))
        return pair(types.int64, types.int64), generate

    made: Function = extending.intrinsic(both)
    return made


def _check(function: Function, instruction: str) -> None:
    flagged, wrapped = _flagged(instruction), Wrapped
    plain = {"sadd_with_overflow": operator.add, "ssub_with_overflow": operator.sub}.get(instruction, operator.mul)

    def checked(a, b):
        found, beyond = flagged(a, b)
        if beyond:
            raise wrapped
        return found

    def choose(a, b):
        return checked if _is_whole(a) and _is_whole(b) else lambda a, b: plain(a, b)

    extending.overload(function, inline="never")(choose)


_check(added, "sadd_with_overflow")
_check(subtracted, "ssub_with_overflow")
_check(multiplied, "smul_with_overflow")


@extending.overload(raised)
def _raised(a, b):
    if not (_is_whole(a) and _is_whole(b)):
        return lambda a, b: a**b

    def checked(a, b):
        # Powers are rare; 9.2e18 is a little less than 2^63, more than what rounding loses.
        if abs(float(a) ** b) > 9.2e18:
            raise Wrapped
        return a**b

    return checked


@extending.overload(shifted)
def _shifted(a, b):
    if not (_is_whole(a) and _is_whole(b)):
        return lambda a, b: a << b

    def checked(a, b):
        found = a << b
        if a != 0 and (b > 62 or (found >> b) != a):
            raise Wrapped
        return found

    return checked


@extending.overload(negated)
def _negated(a):
    if not _is_whole(a):
        return lambda a: -a
    return lambda a: subtracted(0, a)


@machinery.register_pass(mutates_CFG=False, analysis_only=False)
class _Check(machinery.FunctionPass):
    """Replace operations by calls that look at the result."""

    _name = "check_whole_numbers"

    def __init__(self) -> None:
        machinery.FunctionPass.__init__(self)

    def run_pass(self, state: t.Any) -> bool:
        changed = False
        for block in state.func_ir.blocks.values():
            body: list[t.Any] = []
            for statement in block.body:
                call = _call_for(statement)
                if call is not None:
                    function, given = call
                    where = statement.loc
                    name = ir.Var(block.scope, f"${function.__name__}.{len(body)}.{statement.target.name}", where)
                    body.append(ir.Assign(ir.Global(function.__name__, function, where), name, where))
                    statement = ir.Assign(ir.Expr.call(name, given, (), where), statement.target, where)
                    changed = True
                body.append(statement)
            block.body = body
        if changed:
            redefine(state.func_ir)
        return changed


def _call_for(statement: t.Any) -> tuple[Function, list[t.Any]] | None:
    """Return what an operation on perhaps whole numbers is replaced by, and what it is of."""
    if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Expr):
        return None
    value = statement.value
    if value.op == "binop" and value.fn in _CHECKED:
        return _CHECKED[value.fn], [value.lhs, value.rhs]
    if value.op == "inplace_binop" and value.immutable_fn in _CHECKED:
        return _CHECKED[value.immutable_fn], [value.lhs, value.rhs]
    if value.op == "unary" and value.fn in _CHECKED:
        return _CHECKED[value.fn], [value.value]
    return None


class _Compiler(compiler.CompilerBase):
    """Compile as ever, with the checks."""

    def define_pipelines(self) -> list[t.Any]:
        manager = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.add_pass_after(_Check, untyped.InlineClosureLikes)
        manager.finalize()
        return [manager]


def checking(function: Function) -> Function:
    """Compile a scalar function when it is first called; it raises `Wrapped` where a whole number leaves 64 bits."""
    made: Function = numba.njit(nogil=True, pipeline_class=_Compiler)(function)
    return made
