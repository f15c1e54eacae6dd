"""Loops around a user's scalar functions: states of a slot are one entry in each of several columns.

A state is a tuple of scalars; `taken` and `put` read and write it, for any number of columns of any types.
Columns hold int64, float64 or truth values. A slot of which a whole number left 64 bits has a number of tuples below 0,
and so has every one that it is combined into.
These loops are built around functions that are only known at run time, so they are compiled when they are first called
and not cached on disk.
"""

from __future__ import annotations

import importlib
import typing as t
from collections.abc import Callable
from types import FunctionType
from typing import TypeAlias

import numba
import numpy as np
import numpy.typing as npt

from operators.kernels.compile import compiler
from operators.kernels.functions.checked import Wrapped, checking

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Column: TypeAlias = "npt.NDArray[np.generic]"
Columns: TypeAlias = "tuple[Column, ...]"
ScalarFunction: TypeAlias = Callable[..., t.Any]


overload = importlib.import_module("numba.extending").overload
NONE: object = importlib.import_module("numba.types").none


def switched_off() -> bool:
    """Return whether users' functions are never compiled: compiling is off, or this numba can't check whole numbers."""
    return compiler.interpreted() or not compiler.redefinable()


def taken(columns: Columns, i: int) -> tuple[int | float, ...]:
    """Return entry i of each column; interpreted functions get Python's own numbers."""
    return tuple(column[i].item() for column in columns)


def put(columns: Columns, i: int, values: tuple[int | float, ...]) -> None:
    """Write entry i of each column."""
    for column, value in zip(columns, values, strict=True):
        try:
            column[i] = value
        except OverflowError as error:
            raise Wrapped from error


def answer(found: float | None, results: Column, there: Bools, j: int) -> None:
    """Write result j, and that there is one, unless it is None."""
    if found is not None:
        results[j] = found
        there[j] = True


@overload(taken)
def _taken(columns, i):
    if len(columns) == 0:
        return lambda columns, i: ()
    return lambda columns, i: (columns[0][i], *taken(columns[1:], i))


@overload(put)
def _put(columns, i, values):
    if len(columns) == 0:
        return lambda columns, i, values: None

    def write(columns, i, values):
        columns[0][i] = values[0]
        put(columns[1:], i, values[1:])

    return write


@overload(answer)
def _answer(found, results, there, j):
    if found == NONE:
        # A function that never gives a result.
        return lambda found, results, there, j: None

    def write(found, results, there, j):
        if found is not None:
            results[j] = found
            there[j] = True

    return write


def compiled(loop: ScalarFunction, interpreted: bool) -> ScalarFunction:
    """Compile a function that loops over arrays; nothing happens before it is called."""
    if interpreted or switched_off():
        return loop
    made: ScalarFunction = numba.njit(nogil=True)(loop)
    return made


def checked(function: ScalarFunction, interpreted: bool) -> ScalarFunction:
    """Compile a scalar function, so that it raises `Wrapped` where a whole number leaves 64 bits."""
    return function if interpreted or switched_off() else checking(_written(function))


def _written(function: ScalarFunction) -> ScalarFunction:
    """Return a function written in Python, which the compiler wants, for one that is not, such as max or math.log."""
    if isinstance(function, FunctionType):
        return function
    return lambda *given: function(*given)


def refusal(function: ScalarFunction, given: tuple[object, ...]) -> Exception | None:
    """Return what the compiler raises of a scalar function for these arguments; None when it can be compiled."""
    made = checking(_written(function))
    try:
        made(*given)
    except Exception as error:
        # What was compiled fails on these values as it would in Python.
        return None if getattr(made, "signatures", ()) else error
    return None


def tupled(function: ScalarFunction, states: int, scalar: bool, *, interpreted: bool) -> ScalarFunction:
    """Let a function whose first `states` arguments are scalar states, and whose result is one, use tuples of one."""
    if not scalar:
        return function
    inner = checked(function, interpreted)
    if states == 0:

        def lift(*arguments):
            return (inner(*arguments),)

        return lift

    def combine(one, two):
        return (inner(one[0], two[0]),)

    return combine


def updating(lift: ScalarFunction, combine: ScalarFunction, *, interpreted: bool) -> ScalarFunction:
    """Make the loop that adds tuples (slots, arguments) to states (columns, numbers of tuples); -1 is no slot.

    done[0] is the tuple that it is at, as in the other loops, so that it is known where a function raised.
    """
    lift, combine = checked(lift, interpreted), checked(combine, interpreted)

    def update(slots, arguments, columns, numbers, done):
        for i in range(len(slots)):
            done[0] = i
            slot = slots[i]
            if slot >= 0 and numbers[slot] >= 0:
                put(columns, slot, combine(taken(columns, slot), lift(*taken(arguments, i))))
                numbers[slot] += 1

    return compiled(update, interpreted)


def combining(combine: ScalarFunction, *, interpreted: bool) -> ScalarFunction:
    """Make the loop that adds states source[j] to into[j], in order."""
    combine = checked(combine, interpreted)

    def merge(into, source, columns, numbers, done):
        for j in range(len(into)):
            done[0] = j
            to, of = into[j], source[j]
            held, more = numbers[to], numbers[of]
            if more > 0 and held >= 0:
                put(columns, to, combine(taken(columns, to), taken(columns, of)))
                numbers[to] = held + more
            elif more < 0:
                numbers[to] = -1

    return compiled(merge, interpreted)


def inverting(invert: ScalarFunction, *, interpreted: bool) -> ScalarFunction:
    """Make the loop that takes states source[j] from into[j], in order; one of no tuples is the identity again."""
    invert = checked(invert, interpreted)

    def separate(into, source, columns, numbers, identity, done):
        for j in range(len(into)):
            done[0] = j
            to, of = into[j], source[j]
            if numbers[of] > 0 and numbers[to] > 0:
                if numbers[of] == numbers[to]:
                    put(columns, to, taken(identity, 0))
                    numbers[to] = 0
                else:
                    put(columns, to, invert(taken(columns, to), taken(columns, of)))
                    numbers[to] -= numbers[of]

    return compiled(separate, interpreted)


def lowering(lower: ScalarFunction, scalar: bool, *, interpreted: bool) -> ScalarFunction:
    """Make the loop that writes one result a slot, and where there is one."""
    lower = checked(lower, interpreted)
    if scalar:

        def lower_scalars(slots, columns, numbers, results, there, done):
            for j in range(len(slots)):
                done[0] = j
                there[j] = False
                if numbers[slots[j]] > 0:
                    answer(lower(taken(columns, slots[j])[0]), results, there, j)

        return compiled(lower_scalars, interpreted)

    def lower_tuples(slots, columns, numbers, results, there, done):
        for j in range(len(slots)):
            done[0] = j
            there[j] = False
            if numbers[slots[j]] > 0:
                answer(lower(taken(columns, slots[j])), results, there, j)

    return compiled(lower_tuples, interpreted)
