"""Aggregates that users define: lift a tuple to a state, combine states, lower a state to a result; plain functions.

The verbs are those of Tangwongsan et al. (PVLDB 2015). A state is a number or truth value, or a tuple of some. lift
gets one tuple's arguments as Python numbers: whole numbers, truth values and times (in ticks) as int, others as float.
Whole numbers have 64 bits: where one leaves them by +, -, *, **, << or a change of sign in these functions,
AggregateOverflow names the group. Compiled functions that they call, and int() of a float, are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import argument, is_floating, is_point_in_time, is_whole, refuse
from operators.functions.protocol import Accumulator
from operators.functions.states import InvertibleStates, States, Verbs
from operators.functions.trial import Laws, Scalar, State, tried
from operators.kernels.functions import lifted

Function: TypeAlias = Callable[..., object]


def user_aggregate(
    name: str,
    lift: Function,
    combine: Function,
    lower: Function | None = None,
    *,
    arguments: str | Sequence[str],
    identity: Scalar | State,
    output: pa.DataType,
    invert: Function | None = None,
    commutative: bool = True,
    interpreted: bool = False,
) -> UserAggregate:
    """Make an aggregate function of plain Python functions on scalars; pass it to `aggregate` as any other.

    - `name`: its results are called `name` and the arguments.
    - `lift`: lift(x, ...) returns the state of one tuple: a number, a truth value, or a tuple of some.
    - `combine`: combine(a, b) returns the state of a and b together.
    - `lower`: lower(state) returns the result, or None for null; by default the state is the result.
    - `arguments`: the attribute that lift gets, or several in a list.
    - `identity`: the state that changes nothing, as 0 or (0, 0.0). A group without a tuple has the result null.
    - `output`: type of the result, as `pa.float64()`.
    - `invert`: invert(a, b) returns what is left of a without b. Windows then share slices by subtraction.
    - `commutative`: False if the order matters; then a comes before b in the order of the windowing attribute, and of
      arrival where that is equal.
    - `interpreted`: run the functions as they are, not compiled: microseconds a tuple instead of nanoseconds, 20 to 60
      times as long for a whole query. `explain` and the notes of a run say so.

    With commutative=False tuples are kept until a promise makes their order certain. strategy="slicing" and "buffer" do
    so; the others refuse such a function over a time. Windows over row_num, and groups without windows, see tuples as
    they arrive.

    AggregateOverflow names the window and the group if a whole number in a state leaves 64 bits, or a result leaves
    `output`. Let a state that may grow so large be floating: lift=lambda x: float(x), identity=0.0.

    When the types of the arguments are known, the functions are compiled, and associativity, identity, commutativity
    and inversion are tried, once: on small values of both signs, and on states of up to 16 values of any size up to
    2**40 or as far as the type goes (2**13 if there is a loop). SchemaError shows a counterexample, or what cannot be
    compiled. A law that fails beyond that is not found, and then results depend on the strategy.

    Where Python raises an error of math functions or powers, as for math.sqrt(-1), math.exp(1000) or 0.0**-1, compiled
    functions return NaN or infinity; interpreted ones end the run with AggregateFailure, as both do for 1 / 0.

    >>> mean = user_aggregate(
    ...     "mean", lambda x: (x, 1), lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s: s[0] / s[1],
    ...     arguments="length", identity=(0, 0), output=pa.float64(),
    ... )
    >>> mean.output_name(), mean.over("delay").output_name()
    ('mean_length', 'mean_delay')
    """
    taken = (arguments,) if isinstance(arguments, str) else tuple(arguments)
    return UserAggregate(
        name, lift, combine, lower, taken, identity, output, invert, commutative=commutative, interpreted=interpreted
    )


@attrs.frozen
class UserAggregate:
    """Lift, combine, lower. Cost: 8 bytes a slot and 8 (a truth value: 1) for each field of the state."""

    name: str
    lift: Function
    combine: Function
    lower: Function | None
    arguments: tuple[str, ...]
    identity: Scalar | State
    output: pa.DataType
    invert: Function | None = None
    commutative: bool = attrs.field(default=True, kw_only=True)
    interpreted: bool = attrs.field(default=False, kw_only=True)
    _verbs: dict[tuple[str, ...], Verbs] = attrs.field(
        factory=lambda: {}, kw_only=True, eq=False, repr=False, alias="verbs"
    )
    """What was compiled, by the types of the arguments."""

    def __attrs_post_init__(self) -> None:
        if not self.arguments or not all(self.arguments):
            raise self._wrong(f"arguments={self.arguments!r} names no attribute", 'Write arguments="length", say.')
        fields = self.identity if isinstance(self.identity, tuple) else (self.identity,)
        if not fields or not all(map(_is_scalar, fields)):
            instead = "Write a number, a truth value, or a tuple of some, as lift gives them: 0, or (0, 0.0)."
            raise self._wrong(f"identity={self.identity!r} is no state", instead)
        if self.lower is None and isinstance(self.identity, tuple):
            raise self._wrong(
                f"a state of {len(fields)} fields needs a lower that makes one result of it",
                "Write lower=lambda state: state[0], say.",
            )
        kind: object = self.output
        known = isinstance(kind, pa.DataType) and (is_whole(kind) or is_floating(kind) or is_point_in_time(kind))
        if not known or pa.types.is_uint64(kind):
            instead = "Write pa.int64(), pa.float64(), pa.bool_(), or a type of times."
            raise self._wrong(f"output={self.output} is no type of a result", instead)

    @property
    def invertible(self) -> bool:
        return self.invert is not None

    @property
    def arrival_order(self) -> bool:
        """Return False: a function that is not commutative goes by the windowing attribute, never by arrival."""
        return False

    def output_name(self) -> str:
        """Return "name_x"."""
        return "_".join((self.name, *self.arguments))

    def over(self, *arguments: str) -> UserAggregate:
        """Return the same aggregate of other attributes, compiled once for both when these have the same types."""
        return attrs.evolve(self, arguments=arguments)

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of the declared type; SchemaError when an argument is no number or a law does not hold."""
        self._compiled(self._fields(schema))
        return pa.field(name, self.output)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        fields = self._fields(schema)
        verbs = self._compiled(fields)
        return (InvertibleStates if verbs.separate is not None else States)(fields, self.output, verbs)

    def _fields(self, schema: Schema) -> list[pa.Field]:
        where = self.name + "(" + ", ".join(self.arguments) + ")"
        fields = [argument(schema, name, where=where) for name in self.arguments]
        for field in fields:
            kind = field.type
            if pa.types.is_uint64(kind):
                raise refuse(where, field, "half of its values have no int64", "Cast it to int64 or float64 before.")
            if not (is_whole(kind) or is_floating(kind) or is_point_in_time(kind)):
                raise refuse(where, field, "numbers, truth values or times are needed", "Cast it to a number before.")
        return fields

    def _compiled(self, fields: Sequence[pa.Field]) -> Verbs:
        kinds = tuple(str(field.type) for field in fields)
        if kinds not in self._verbs:
            self._verbs[kinds] = self._made([field.type for field in fields])
        return self._verbs[kinds]

    def _made(self, kinds: Sequence[pa.DataType]) -> Verbs:
        """Try the laws, find the types of the state, compile, and hold what is compiled against the interpreted."""
        scalar = not isinstance(self.identity, tuple)
        identity = self.identity if isinstance(self.identity, tuple) else (self.identity,)
        laws = Laws(
            self.name, self.lift, self.combine, self.lower or _itself, self.invert, identity, scalar, self.commutative
        )
        values, states = tried(laws, kinds)
        types = tuple(_type_of([state[i] for state in states]) for i in range(len(identity)))
        for state in states[1:]:
            self._check_result(laws, state)
        verbs = Verbs.of(laws, types, interpreted=self.interpreted)
        if not self.interpreted and not lifted.switched_off():
            self._rehearse(laws, verbs, kinds, values)
        return verbs

    def _wrong(self, what: str, instead: str) -> SchemaError:
        return SchemaError(f'aggregate "{self.name}": {what}.\n  {instead}')

    def _check_result(self, laws: Laws, state: State) -> None:
        try:
            found = laws.lower(laws.show(state))
        except Exception:
            # Not every combination of the trial need have a result; a stream that meets one says so then.
            return
        fits = found is None or isinstance(found, int | np.integer | np.bool_)
        if not (fits or (is_floating(self.output) and isinstance(found, float | np.floating))):
            raise laws.error(
                f"lower({laws.show(state)!r}) gives {found!r}, and output is {self.output}",
                "Declare output=pa.float64(), or give whole numbers.",
            )

    def _rehearse(
        self, laws: Laws, verbs: Verbs, kinds: Sequence[pa.DataType], values: Sequence[tuple[Scalar, ...]]
    ) -> None:
        """Run a few tuples through the compiled functions, each of its own, and compare."""
        verbs.check_compiled(laws, kinds, values)
        fields = [pa.field(f"a{i}", kind) for i, kind in enumerate(kinds)]
        states = States(fields, self.output, verbs)
        states.reserve(len(values))
        slots = np.arange(len(values), dtype=np.int32)
        states.init(slots)
        columns = tuple(
            np.array([row[i] for row in values], np.float64 if is_floating(kind) else np.int64)
            for i, kind in enumerate(kinds)
        )
        states.add(slots, columns)
        for i, row in enumerate(values):
            wanted = laws.state("combine", laws.identity, laws.state("lift", *row))
            if states.beyond(i):
                raise laws.error(
                    f"of the tuple ({', '.join(map(repr, row))}) the state is {wanted}, which does not fit 64 bits",
                    "Let that field be floating: lift to float(x) and write 0.0 in identity.",
                )
            found = states.held(i)
            if not np.allclose(found, wanted, rtol=1e-9, atol=1e-9, equal_nan=True):
                raise laws.error(
                    f"lift({', '.join(map(repr, row))}) gives {found} when compiled and {wanted} in Python",
                    "Compiled whole numbers have 64 bits. Write what both do alike, or interpreted=True.",
                )


def _is_scalar(given: object) -> bool:
    return isinstance(given, int | float)


def _itself(state: object) -> object:
    return state


def _type_of(found: Sequence[Scalar]) -> np.dtype[np.generic]:
    if all(isinstance(value, bool) for value in found):
        return np.dtype(np.bool_)
    return np.dtype(np.float64 if any(isinstance(value, float) for value in found) else np.int64)
