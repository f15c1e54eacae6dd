"""What a user declares of lift, combine and invert is tried on small, large and negative values before a stream runs.

A law that fails is told with the values that break it. The trial also finds of what type each field of a state is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise, product
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
            scalar = field.item() if hasattr(field, "item") else field  # type: ignore[union-attr]
            if not isinstance(scalar, int | float):
                raise self.error(f"{part}({_listed(shown)}) gives {found!r}; states are numbers and truth values")
            fields.append(scalar)
        return tuple(fields)

    def show(self, state: object) -> object:
        """Give a state as the user's functions know it."""
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
    return arguments, [*states, *pairs.values()]


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
    """Give values of an argument's type as the user's functions see them."""
    if is_floating(kind):
        return FLOATING
    if pa.types.is_boolean(kind):
        return (0, 1)
    if pa.types.is_unsigned_integer(kind):
        return tuple(value for value in map(abs, WHOLE) if value < 256)
    return tuple(value for value in WHOLE if kind != pa.int8() or -128 <= value < 128)


def _mixed(columns: Sequence[Sequence[Scalar]]) -> Iterator[tuple[Scalar, ...]]:
    """Give combinations in which every value of every column comes early."""
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
