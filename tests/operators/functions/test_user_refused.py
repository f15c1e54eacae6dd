"""What a user's compiled functions cannot have is told in words of these functions, and runs interpreted."""

from __future__ import annotations

import contextlib
import decimal
import math
import re
from collections.abc import Callable
from types import FunctionType

import attrs
import numpy as np
import pyarrow as pa
import pytest
from numba.core.errors import TypingError, UnsupportedBytecodeError

from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions import AggregateFailure, user_aggregate
from operators.functions.refusal import reason
from operators.functions.user import UserAggregate
from operators.kernels.functions.lifted import switched_off
from tests.examples import mostly_slow

SCHEMA = Schema.of(x=pa.int64(), f=pa.float64())


def a_sum(**changed: object) -> UserAggregate:
    given: dict[str, object] = {
        "lift": lambda x: x, "combine": lambda a, b: a + b, "arguments": "x", "identity": 0, "output": pa.int64(),
    }  # fmt: skip
    return user_aggregate("mine", **{**given, **changed})  # type: ignore[arg-type]


def result(function: UserAggregate, *values: float) -> object:
    """Aggregate a few values."""
    accumulator, slots = function.accumulator(SCHEMA), np.zeros(len(values), np.int32)
    accumulator.reserve(1)
    accumulator.init(slots[:1])
    columns = {
        f.name: pa.array(values if (f.name,) == function.arguments else [None] * len(values), f.type)
        for f in SCHEMA.arrow
    }
    accumulator.update(slots, Page.of(SCHEMA, columns))
    return accumulator.finalize(slots[:1]).to_pylist()[0]


def imports(x: int) -> int:
    import math

    return math.gcd(x, 0) if x > 0 else x


def remembers(x: int) -> int:
    global SEEN
    SEEN = x
    return x


def is_with(x: int) -> int:
    with contextlib.suppress(Exception):
        return x
    return 0


def catches_one(x: int) -> int:
    try:
        return x // (x * x) * 0 + x
    except ZeroDivisionError:
        return 0


def deletes(x: int) -> int:
    y = x
    del y
    return x


def calls_itself(x: int) -> int:
    return x if -2 < x < 2 else calls_itself(x - 1 if x > 0 else x + 1) + (1 if x > 0 else -1)


def unpacks(x: int) -> int:
    first, *_ = (x, 1, 2)
    return first


def two_kinds(x: int) -> int:
    y: int | str = x
    if x > 10**9:
        y = "many"
    return int(y)


def one(x: int) -> int:
    return x


class Own:
    def __call__(self, x: int) -> int:
        return x


SEEN = 0
LISTED = [0, 1]
NAMED = {0: 1}

REFUSED: dict[str, tuple[Callable[[int], int], str]] = {
    "import": (imports, '"import" inside a function is not supported (line 2)'),
    "global": (remembers, '"global" is not supported (line 3)'),
    "with": (is_with, '"with" is not supported (line 2)'),
    "except": (catches_one, '"except" of one kind of error is not supported (line 4); "except Exception" is'),
    "del": (deletes, '"del" is not supported (line 3)'),
    "recursion": (calls_itself, "a function that calls itself is not supported (line 2)"),
    "star": (unpacks, '"*" on the left of "=" is not supported (line 2)'),
    "two kinds": (two_kinds, "y that is a whole number here and a text there is not supported (line 5)"),
    "builtin": (lambda x: x + 0 * len(bin(x)), "bin() is not supported (line 1)"),
    "method": (lambda x: x + 0 * x.bit_length(), '"bit_length" of a whole number is not supported (line 1)'),
    "module": (lambda x: x + 0 * math.isqrt(9), "math.isqrt is not supported (line 1)"),
    "class": (lambda x: int(decimal.Decimal(x)), "decimal.Decimal is not supported (line 1)"),
    "format": (lambda x: x + 0 * len("%d" % x), '"%" of a text and a whole number is not supported (line 1)'),  # noqa: UP031
    "spec": (lambda x: x + 0 * len(f"{x:>5}"), "a format in an f-string is not supported (line 1)"),
    "text": (lambda x: int(f"{x}"), "int() of a text is not supported (line 1)"),
    "keyword": (lambda x: x + int("7", base=10) - 7, 'int() with "base" is not supported (line 1)'),
    "generator": (
        lambda x: sum(v for v in (x,)), "a generator is not supported (line 1); a list is, [... for ... in ...]"
    ),
    "map": (lambda x: sum(map(int, (x, 0))), "sum() of a generator is not supported (line 1)"),
    "empty list": (lambda x: x + len([]), "a list of unknown type is not supported (line 1)"),
    "walrus": (
        lambda x: (y := x + 1) * y - x * x - x - 1, "a value of unknown type is not supported (line 1)"
    ),
    "outer list": (
        lambda x: x + LISTED[0], "LISTED, a list from outside the function, is not supported (line 1); a tuple is"
    ),
    "outer dict": (lambda x: x + NAMED[0] - 1, "NAMED, a dict from outside the function, is not supported (line 1)"),
    "outer function": (
        lambda x: one(x), "one(), which is not compiled itself, is not supported (line 1); with numba.njit it is"
    ),
    "mixed tuple": (
        lambda x: int((x, 0.5)[0 * x]),
        '"[]" with a number that is computed, of a tuple of several types, is not supported (line 1)',
    ),
    "array function": (lambda x: np.einsum("i->", np.array([x])).item(), "numpy.einsum is not supported (line 1)"),
    "object": (Own(), "an object of class Own as a function is not supported"),
    "builtin alone": (math.isqrt, "isqrt() is not supported"),
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(REFUSED, but=("import", "global", "with", "except", "text", "object")))
def test_what_is_not_supported_is_told_in_words_of_the_function(name: str) -> None:
    lift, told = REFUSED[name]
    if not switched_off():
        first = lift.__code__.co_firstlineno if isinstance(lift, FunctionType) else 0
        told = re.sub(r"\(line (\d+)\)", lambda line: f"(line {first - 1 + int(line[1])})", told)
        with pytest.raises(SchemaError) as caught:
            a_sum(lift=lift).output_field(SCHEMA, "n")
        assert str(caught.value).splitlines()[0] == f'aggregate "mine": lift cannot be compiled: {told}.'
    assert result(a_sum(lift=lift, interpreted=True), 4, 5, 9) == sum(map(lift, (4, 5, 9)))


@pytest.mark.parametrize("part", ["lift", "combine", "lower", "invert"])
def test_what_is_no_error_of_the_compilers_own_is_told_of_each_function(part: str) -> None:
    def importing(*given: int) -> int:
        import operator

        return operator.sub(*given) if part == "invert" else sum(given)

    wrong = a_sum(**{"invert": lambda a, b: a - b, part: importing})
    if not switched_off():
        with pytest.raises(SchemaError, match=rf'"mine": {part} cannot be compiled: "import" inside a function is not'):
            wrong.accumulator(SCHEMA)
    assert result(attrs.evolve(wrong, interpreted=True, verbs={}), 1, 2, 3) == 6


def test_what_the_compiler_says_that_is_not_known_is_given_as_it_is() -> None:
    report = "Failed in nopython mode pipeline (step: some)\n\x1b[1mNothing of this kind.\x1b[0m\n\nFile 7"
    assert reason(TypingError(report), one) == "Nothing of this kind"
    assert reason(UnsupportedBytecodeError("Use of unsupported opcode (NEVER_SEEN) found"), one) == (
        "the instruction NEVER_SEEN of Python is not supported"
    )
    assert reason(AssertionError(""), one) == "AssertionError"


OUTSIDE: dict[str, Callable[[float], float]] = {
    "root": lambda f: math.sqrt(f), "exponential": lambda f: math.exp(-1000 * f), "power": lambda f: (f + 1) ** -1.0,
}  # fmt: skip


@pytest.mark.skipif(switched_off(), reason="nothing is compiled")
@pytest.mark.parametrize("name", OUTSIDE)
def test_errors_of_floating_numbers_are_nan_or_infinity_when_compiled(name: str) -> None:
    given = a_sum(lift=OUTSIDE[name], arguments="f", identity=0.0, output=pa.float64())
    found = result(given, -1.0)
    assert isinstance(found, float) and not math.isfinite(found)
    with pytest.raises(AggregateFailure, match=r"lift\(-1\.0\) raises (Value|Overflow|ZeroDivision)Error"):
        result(attrs.evolve(given, interpreted=True, verbs={}), -1.0)
