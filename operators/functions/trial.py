"""Try a user's lift, combine and invert on small, large and negative values before a stream runs.

A law that fails is told with the values that break it. The trial also finds of what type each field of a state is.
Small values are tried in all threes; then states of up to 16 values each, of ever larger sizes up to 2**40, since what
saturates, wraps or rounds holds for small values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dis import get_instructions
from functools import reduce
from inspect import getclosurevars
from itertools import islice, pairwise, product
from types import CodeType, FunctionType
from typing import TypeAlias

import attrs
import pyarrow as pa

from operators.errors import SchemaError
from operators.functions.arguments import is_floating

Scalar: TypeAlias = int | float | bool
State: TypeAlias = tuple[Scalar, ...]

WHOLE = (0, 1, -1, 2, -3, 7, 10, -128, 1000)
FLOATING = (0.0, 1.0, -1.0, 0.5, -2.25, 7.0, 1000.0, -0.001, 1e9)
TUPLES = 18
"""Combinations of arguments that are tried; all states of up to two of them, in threes, would be too many."""
STATES = 11
SIZES = (4, 8, 10, 13, 15, 16, 20, 24, 31, 32, 36, 40)
"""Powers of two that values come close to, as far as their type holds them."""
_LOOPED = 13
"""Up to what power of two values are tried by functions with a loop, which may run as often as a value says."""
_FOLDS = (1, 1, 2, 3, 5, 8, 11, 16)
"""Values in a state that is tried."""
_NEAR = 4
"""Of the values of a size, so many are next to the power of two."""


@attrs.frozen
class Laws:
    """The functions of a user's aggregate, with its name and what is declared of them."""

    name: str
    lift: Callable[..., object]
    combine: Callable[..., object]
    lower: Callable[..., object]
    invert: Callable[..., object] | None
    identity: State
    scalar: bool
    commutative: bool

    def call(self, part: str, *values: object) -> object:
        """Call a part by its name; SchemaError, with the values, for what it raises."""
        function: Callable[..., object] = getattr(self, part)
        try:
            return function(*values)
        except Exception as error:
            raise self.error(f"{part}({_listed(values)}) raises {type(error).__name__}: {error}") from error

    def state(self, part: str, *values: object) -> State:
        """Call a part that gives a state, and give it as a tuple."""
        shown = tuple(self.show(v) for v in values) if part != "lift" else values
        found = self.call(part, *shown)
        state = (found,) if self.scalar else found
        if not isinstance(state, tuple) or len(state) != len(self.identity):
            wanted = "a number, as identity is" if self.scalar else f"a tuple of {len(self.identity)}, as identity is"
            raise self.error(f"{part}({_listed(shown)}) gives {found!r}; a state is {wanted}")
        fields: list[Scalar] = []
        for field in state:
            scalar = field.item() if hasattr(field, "item") else field  # pyright: ignore[reportAttributeAccessIssue]
            if not isinstance(scalar, int | float):
                raise self.error(f"{part}({_listed(shown)}) gives {found!r}; states are numbers and truth values")
            fields.append(scalar)
        return tuple(fields)

    def show(self, state: object) -> object:
        """Return a state as the user's functions know it."""
        return state[0] if self.scalar and isinstance(state, tuple) else state

    def error(self, what: str, instead: str = "") -> SchemaError:
        """Make the error that names the aggregate."""
        return SchemaError(f'aggregate "{self.name}": {what}.' + (f"\n  {instead}" if instead else ""))


def tried(laws: Laws, kinds: Sequence[pa.DataType]) -> tuple[list[tuple[Scalar, ...]], list[State]]:
    """Check the laws over arguments of these types; gives the arguments and the states that were tried."""
    arguments, lifted = _lifted(laws, kinds)
    singles = _distinct(lifted)[: STATES - 3]
    doubles = [laws.state("combine", a, b) for a, b in pairwise(singles)]
    states = [laws.identity, *singles, *doubles[-3:]]
    for a in states:
        _same(laws, a, "identity", ("combine(identity, a)", laws.state("combine", laws.identity, a)), ("a", a), a=a)
        _same(laws, a, "identity", ("combine(a, identity)", laws.state("combine", a, laws.identity)), ("a", a), a=a)
    pairs = {(a, b): laws.state("combine", a, b) for a, b in product(states, states)}
    for a, b in pairs:
        if laws.commutative:
            sides = ("combine(a, b)", pairs[a, b]), ("combine(b, a)", pairs[b, a])
            _same(laws, a, "commutativity", *sides, a=a, b=b)
        if laws.invert is not None:
            undone = laws.state("invert", pairs[a, b], b)
            _same(laws, a, "invertibility", ("invert(combine(a, b), b)", undone), ("a", a), a=a, b=b)
    for a, b, c in product(states, states, states):
        left, right = laws.state("combine", pairs[a, b], c), laws.state("combine", a, pairs[b, c])
        sides = ("combine(combine(a, b), c)", left), ("combine(a, combine(b, c))", right)
        _same(laws, a, "associativity", *sides, a=a, b=b, c=c)
    _try_sizes(laws, kinds)
    return arguments, [*states, *pairs.values()]


def _try_sizes(laws: Laws, kinds: Sequence[pa.DataType]) -> None:
    """Check the laws over states of several values each, of one size after the other.

    Values that raise or leave 64 bits break no law: a stream that meets them says so then. Where nothing of a size and
    sign can be lifted, nothing larger is tried. Floating states are made of values of one sign that lie apart: of
    others, whatever the function, most may cancel, and what rounding leaves depends on the grouping.
    """
    whole = all(isinstance(field, int) for field in laws.identity)
    looped = any(map(_loops, (laws.lift, laws.combine, laws.invert)))
    signs = {True, False}
    for power in SIZES:
        if looped and power > _LOOPED:
            return
        columns = [sized(kind, power, turn) for turn, kind in enumerate(kinds)]
        near: dict[bool, list[State]] = {sign: [] for sign in signs}
        apart: dict[bool, list[State]] = {sign: [] for sign in signs}
        for i, values in enumerate(zip(*columns, strict=True)):
            negative = any(value < 0 for value in values)
            if negative in signs and (state := _tame(laws, "lift", *values)) is not None:
                (near if i < _NEAR else apart)[negative].append(state)
        # What fails for a size may take for ever for a larger one: 2**x, say.
        signs = {sign for sign in signs if near[sign] or apart[sign]}
        every = [state for pool in (*near.values(), *apart.values()) for state in pool]
        whole = whole and all(isinstance(field, int) for state in every for field in state)
        pools = [near[sign] + apart[sign] for sign in signs] + [every] if whole else list(apart.values())
        for pool in pools:
            _try_folds(laws, pool, inverts=whole)


def _try_folds(laws: Laws, pool: Sequence[State], *, inverts: bool) -> None:
    if not pool:
        return
    folds: list[State] = []
    at = 0
    for size in _FOLDS:
        parts = [pool[(at + i) % len(pool)] for i in range(size)]
        at += size
        total = reduce(lambda a, b: None if a is None else _tame(laws, "combine", a, b), parts[1:], parts[0])
        if total is not None:
            folds.append(total)
    for i, a in enumerate(folds):
        for j, b in enumerate(folds[i:], i):
            both = _tame(laws, "combine", a, b)
            if both is None:
                continue
            if laws.commutative and (other := _tame(laws, "combine", b, a)) is not None:
                _same(laws, a, "commutativity", ("combine(a, b)", both), ("combine(b, a)", other), a=a, b=b)
            if laws.invert is not None and inverts and (undone := _tame(laws, "invert", both, b)) is not None:
                _same(laws, a, "invertibility", ("invert(combine(a, b), b)", undone), ("a", a), a=a, b=b)
            for k in (i + j, i + 2 * j + 1, 3 * i + j + 2):
                c = pool[k % len(pool)]
                inner = _tame(laws, "combine", b, c)
                left = _tame(laws, "combine", both, c)
                right = None if inner is None else _tame(laws, "combine", a, inner)
                if left is not None and right is not None:
                    sides = ("combine(combine(a, b), c)", left), ("combine(a, combine(b, c))", right)
                    _same(laws, a, "associativity", *sides, a=a, b=b, c=c)


def _tame(laws: Laws, part: str, *values: object) -> State | None:
    """Call a part that gives a state; None for what it raises, and for what leaves 64 bits or is not finite."""
    try:
        state = laws.state(part, *values)
    except SchemaError as error:
        if error.__cause__ is None:
            raise
        return None
    fits = (math.isfinite(f) if isinstance(f, float) else -(2**63) <= f < 2**63 for f in state)
    return state if all(fits) else None


def sized(kind: pa.DataType, power: int, turn: int) -> tuple[Scalar, ...]:
    """Return 16 values of an argument's type about 2**power in size, or as large as it holds; half of them negative.

    The first four are next to the power; the others lie between a quarter of it and itself, in no order that
    columns share, each of which is another `turn`.
    """
    if pa.types.is_boolean(kind):
        return tuple(bool((i >> (turn % 4)) & 1) for i in range(16))
    most, signed = float(2**power), not pa.types.is_unsigned_integer(kind)
    if not is_floating(kind):
        most = min(2**power, 2 ** (kind.bit_width - signed) - 1)
    found: list[Scalar] = []
    mixed = 12345 + 6789 * turn + power
    for i in range(16):
        mixed = (1103515245 * mixed + 12345) % 2**31
        value = most - i // 2 if i < _NEAR else most // 4 + most * 3 * (mixed >> 8) // (4 << 23)
        value = value + mixed / 2**33 if is_floating(kind) else int(min(value, most))
        found.append(-value if signed and (i + turn * (i >> 2)) % 2 else value)
    return tuple(found)


def _loops(function: object) -> bool:
    """Return whether a function, or one that it calls by name, has a loop."""
    seen: set[object] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        one = getattr(one, "py_func", one)
        if not isinstance(one, FunctionType) or one in seen:
            continue
        seen.add(one)
        if _has_loop(one.__code__):
            return True
        known = getclosurevars(one)
        waiting += [*known.globals.values(), *known.nonlocals.values()]
    return False


def _has_loop(code: CodeType) -> bool:
    jumps = any(i.opname == "FOR_ITER" or "JUMP_BACKWARD" in i.opname for i in get_instructions(code))
    # From 3.11 on, a jump with a condition may go backward by its target alone.
    jumps = jumps or any("POP_JUMP" in i.opname and i.argval <= i.offset for i in get_instructions(code))
    return jumps or any(_has_loop(inner) for inner in code.co_consts if isinstance(inner, CodeType))


def _lifted(laws: Laws, kinds: Sequence[pa.DataType]) -> tuple[list[tuple[Scalar, ...]], list[State]]:
    """Lift what can be lifted: a function need not be one of all numbers, but it must be one of some."""
    arguments: list[tuple[Scalar, ...]] = []
    states: list[State] = []
    refused: SchemaError | None = None
    for values in islice(_mixed([samples(kind) for kind in kinds]), TUPLES):
        try:
            state = laws.state("lift", *values)
        except SchemaError as error:
            if error.__cause__ is None:
                raise
            refused = refused or error
            continue
        arguments.append(values)
        states.append(state)
    if not states and refused is not None:
        raise refused
    return arguments, states


def samples(kind: pa.DataType) -> tuple[Scalar, ...]:
    """Return values of an argument's type as the user's functions see them."""
    if is_floating(kind):
        return FLOATING
    if pa.types.is_boolean(kind):
        return (0, 1)
    if pa.types.is_unsigned_integer(kind):
        return tuple(value for value in map(abs, WHOLE) if value < 256)
    return tuple(value for value in WHOLE if kind != pa.int8() or -128 <= value < 128)


def _mixed(columns: Sequence[Sequence[Scalar]]) -> Iterator[tuple[Scalar, ...]]:
    """Yield combinations in which every value of every column comes early."""
    longest = max(len(column) for column in columns)
    for turn in range(longest):
        for i in range(longest):
            yield tuple(column[(i + k * turn) % len(column)] for k, column in enumerate(columns))
        if len(columns) == 1:
            return


def _distinct(states: Sequence[State]) -> list[State]:
    return list(dict.fromkeys(states))


def _same(
    laws: Laws, first: State, law: str, left: tuple[str, State], right: tuple[str, State], **values: State
) -> None:
    if all(_equal(one, two) for one, two in zip(left[1], right[1], strict=True)):
        return
    given = ", ".join(f"{name} = {laws.show(state)!r}" for name, state in values.items())
    found = f"{left[0]} is {laws.show(left[1])!r} and {right[0]} is {laws.show(right[1])!r}"
    raise laws.error(f"{law} does not hold: with {given}, {found}", _INSTEAD[law])


def _equal(one: Scalar, two: Scalar) -> bool:
    if isinstance(one, float) or isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(two))
    return one == two


def _listed(values: Sequence[object]) -> str:
    return ", ".join(repr(value) for value in values)


_INSTEAD = {
    "identity": "identity is the state of no tuple: 0 for a sum, minus infinity for a maximum.",
    "commutativity": "Declare commutative=False, and tuples are combined in the order of the windowing attribute.",
    "invertibility": "Leave invert out, and windows are combined anew instead.",
    "associativity": "Keep parts in the state that can be combined in any grouping: for a mean, a sum and a count.",
}
