"""The nodes of an expression; Python's operators on them build larger ones, nothing is computed before there is a page.

One class stands behind all nodes because Python looks for `__add__` and its kin there, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NoReturn, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import arithmetic, bits, casting, comparison, scalar_functions
from operators.expression.bound import Bound, Constant, Datum, Literally, Run, family
from operators.expression.constants import plain, shown, type_of
from operators.expression.junction import Junction, Part


class NotTraceable(TypeError):
    """Say that an expression was used where only the arrays of a page will do."""


@attrs.frozen(eq=False)
class Expression:
    """A value computed from each tuple.

    >>> str((Column("length") > 100) & ~Column("srcIP").in_network("10.0.0.0/8"))
    'length > 100 and not srcIP in "10.0.0.0/8"'
    """

    strength: ClassVar[int] = 10
    """How tightly the text of this node binds, the greater the tighter."""

    def bind(self, schema: Schema) -> Bound:
        """Check the expression against a `schema` and return what computes it for pages; SchemaError when it does not
        fit.
        """
        raise NotImplementedError

    def type(self, schema: Schema) -> pa.DataType:
        """Return the Arrow type of the result over a `schema`; SchemaError when the expression does not fit it."""
        return self.bind(schema).type

    def field(self, schema: Schema, name: str = "") -> pa.Field:
        """Return the Arrow field of the result over a `schema`, with metadata such as "this is an IP address".

        `name` renames it.
        """
        found = self.bind(schema).field
        return found.with_name(name) if name else found

    def evaluate(self, page: Page) -> pa.Array:
        """Compute the result for every tuple of a `page`, shape (n,); operators bind once, and keep the result."""
        return self.bind(page.schema).evaluate(page)

    def equals(self, other: Expression) -> bool:
        """Return whether this and the `other` expression are the same tree; `==` builds a comparison instead."""
        return type(self) is type(other) and all(
            _same(getattr(self, a.name), getattr(other, a.name)) for a in attrs.fields(type(self))
        )

    def reads(self, schema: Schema, *, where: str) -> frozenset[str]:
        """Name the attributes of a `schema` that take part; all of them where that cannot be known.

        SchemaError, which tells `where`, for an attribute that the schema lacks.
        """
        names: set[str] = set()
        for a in attrs.fields(type(self)):
            value = getattr(self, a.name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Expression):
                    names |= part.reads(schema, where=where)
        return frozenset(names)

    def __eq__(self, other: object) -> Comparison:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Comparison("=", self, as_expression(other))

    def __ne__(self, other: object) -> Comparison:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Comparison("!=", self, as_expression(other))

    def __lt__(self, other: object) -> Comparison:
        return Comparison("<", self, as_expression(other))

    def __le__(self, other: object) -> Comparison:
        return Comparison("<=", self, as_expression(other))

    def __gt__(self, other: object) -> Comparison:
        return Comparison(">", self, as_expression(other))

    def __ge__(self, other: object) -> Comparison:
        return Comparison(">=", self, as_expression(other))

    __hash__ = object.__hash__

    # Beside a number these are of bits, beside all else of truth values.
    def __and__(self, other: object) -> Logical | Binary:
        return (
            Binary("&", self, as_expression(other)) if _is_bits(other) else Logical("and", self, as_expression(other))
        )

    def __rand__(self, other: object) -> Logical | Binary:
        return (
            Binary("&", as_expression(other), self) if _is_bits(other) else Logical("and", as_expression(other), self)
        )

    def __or__(self, other: object) -> Logical | Binary:
        return Binary("|", self, as_expression(other)) if _is_bits(other) else Logical("or", self, as_expression(other))

    def __ror__(self, other: object) -> Logical | Binary:
        return Binary("|", as_expression(other), self) if _is_bits(other) else Logical("or", as_expression(other), self)

    def __lshift__(self, other: object) -> Binary:
        return Binary("<<", self, as_expression(other))

    def __rshift__(self, other: object) -> Binary:
        return Binary(">>", self, as_expression(other))

    def __invert__(self) -> Not:
        return Not(self)

    def __add__(self, other: object) -> Binary:
        return Binary("+", self, as_expression(other))

    def __radd__(self, other: object) -> Binary:
        return Binary("+", as_expression(other), self)

    def __sub__(self, other: object) -> Binary:
        return Binary("-", self, as_expression(other))

    def __rsub__(self, other: object) -> Binary:
        return Binary("-", as_expression(other), self)

    def __mul__(self, other: object) -> Binary:
        return Binary("*", self, as_expression(other))

    def __rmul__(self, other: object) -> Binary:
        return Binary("*", as_expression(other), self)

    def __truediv__(self, other: object) -> Binary:
        return Binary("/", self, as_expression(other))

    def __rtruediv__(self, other: object) -> Binary:
        return Binary("/", as_expression(other), self)

    def __floordiv__(self, other: object) -> Binary:
        return Binary("//", self, as_expression(other))

    def __rfloordiv__(self, other: object) -> Binary:
        return Binary("//", as_expression(other), self)

    def __mod__(self, other: object) -> Binary:
        return Binary("%", self, as_expression(other))

    def __rmod__(self, other: object) -> Binary:
        return Binary("%", as_expression(other), self)

    def __neg__(self) -> Unary:
        return Unary("-", self)

    def __pos__(self) -> Expression:
        return self

    def cast(self, name: str) -> Cast:
        """Cast the value to the type `name`, such as "float64", "int64", "string" or "timestamp[s]"."""
        return Cast(self, name)

    def __abs__(self) -> Unary:
        return Unary("abs", self)

    def isin(self, values: Sequence[object]) -> IsIn:
        """Test whether the value is one of `values`, constants."""
        if isinstance(values, str | bytes):
            raise TypeError(f"isin takes a list of constants, not {values!r}; write isin([{values!r}])")
        return IsIn(self, tuple(plain(v) for v in values))

    def between(self, low: object, high: object) -> Between:
        """Test whether `low` <= value <= `high`."""
        return Between(self, as_expression(low), as_expression(high))

    def in_network(self, network: str) -> InNetwork:
        """Test whether an IP address is in a `network` such as "10.0.0.0/8"."""
        return InNetwork(self, network)

    def is_null(self) -> IsNull:
        """Test whether there is no value; the answer itself is never null."""
        return IsNull(self)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"({self}) has no truth value before there are tuples.\n"
            '  Write & | ~ instead of and, or, not, each side in parentheses: (p["a"] > 1) & (p["b"] < 2); '
            "x.between(1, 2) instead of 1 <= x <= 2; x.isin([...]) instead of in."
        )

    def _arrays_wanted(self, *_: object, **__: object) -> NoReturn:
        raise NotTraceable(f"({self}) is not an array")

    __array__ = __array_function__ = __len__ = __iter__ = __getitem__ = _arrays_wanted
    __float__ = __int__ = __index__ = __complex__ = __round__ = __pow__ = __rpow__ = _arrays_wanted
    __contains__ = _arrays_wanted

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: object, **options: object) -> Expression:
        # Circle: what is recorded is made of the expressions here.
        from operators.expression.tracing import recorded

        return recorded(function, method, inputs, options)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotTraceable(f'({self}) has no method "{name}"')


L = TypeVar("L", "Binary", "Logical")


def _is_bits(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _same(one: object, other: object) -> bool:
    if isinstance(one, Expression) and isinstance(other, Expression):
        return one.equals(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


def as_expression(value: object) -> Expression:
    """Return an expression itself, a plain value as a constant; TypeError for what is neither."""
    return value if isinstance(value, Expression) else Literal(value)


def _inside(part: Expression, strength: int) -> str:
    return str(part) if part.strength >= strength else f"({part})"


@attrs.frozen(eq=False, str=False)
class Column(Expression):
    """Name an attribute of the tuple, `name`, in an expression; Python's operators on it build larger expressions.

    >>> from operators.data.page import Page
    >>> v, schema = Column("v"), Schema.of(v="int64")
    >>> page = Page.of_rows(schema, [(1,), (5,), (None,)])
    >>> [(v * 2).evaluate(page).to_pylist(), v.between(1, 3).evaluate(page).to_pylist()]
    [[2, 10, None], [True, False, None]]
    >>> v.isin([5]).evaluate(page).to_pylist(), v.is_null().evaluate(page).to_pylist()
    ([False, True, None], [False, False, True])
    >>> str(v.cast("string") == "1"), v.type(schema), v.field(schema, "w").name, v.reads(schema, where="example")
    ('cast(v, "string") = "1"', DataType(int64), 'w', frozenset({'v'}))
    >>> v.equals(Column("v")), v.bind(schema).type, str(Column("srcIP").in_network("10.0.0.0/8"))
    (True, DataType(int64), 'srcIP in "10.0.0.0/8"')
    """

    name: str

    def bind(self, schema: Schema) -> Bound:
        name = schema.resolve(self.name, where="expression")
        field = schema.arrow.field(name)
        if pa.types.is_dictionary(field.type):
            return Bound(field.with_type(field.type.value_type), lambda page: page.column(name).dictionary_decode())
        rising = family(field) in ("integer", "timestamp", "duration", "number")
        carry = (_float_bound if family(field) == "number" else _whole_bound) if rising else None
        return Bound(field, lambda page: page.column(name), attribute=name if rising else None, carry=carry)

    def reads(self, schema: Schema, *, where: str) -> frozenset[str]:
        return frozenset((schema.resolve(self.name, where=where),))

    def __str__(self) -> str:
        return self.name if self.name.isidentifier() else f"`{self.name}`"


def _whole_bound(bound: object) -> int | None:
    """Return the least integer that a bound allows: x >= 2.5 is x >= 3."""
    if isinstance(bound, float):
        return -int(-bound // 1) if np.isfinite(bound) else None
    return bound if isinstance(bound, int) else None


def _float_bound(bound: object) -> float | None:
    return float(bound) if isinstance(bound, int | float) else None


@attrs.frozen(eq=False, str=False)
class Literal(Expression):
    """A constant; how text is meant (a time, an address) follows from what it is compared with."""

    value: Constant = attrs.field(converter=plain)

    def bind(self, schema: Schema) -> Bound:
        kind = type_of(self.value)
        constant = pa.scalar(None if pa.types.is_null(kind) else self.value, kind)

        def run(page: Page) -> Datum:
            if self.value is not None and not constant.is_valid:
                raise OverflowError(f"{self} does not fit any type; so large a number can only be compared with.")
            return constant

        return Bound(pa.field(str(self), kind), run, literal=Literally(self.value))

    def __str__(self) -> str:
        return shown(self.value)


@attrs.frozen(eq=False, str=False)
class Null(Expression):
    """A null of a type, as a column that this tuple has not."""

    kind: pa.DataType

    def bind(self, schema: Schema) -> Bound:
        nothing = pa.scalar(None, self.kind)
        return Bound(pa.field(str(self), self.kind), lambda page: nothing, literal=Literally(None))

    def __str__(self) -> str:
        return "null"


@attrs.frozen(eq=False, str=False)
class Unary(Expression):
    """`-x` or `abs(x)`."""

    op: str = attrs.field(validator=attrs.validators.in_(("-", "abs")))
    argument: Expression

    strength = 9

    def bind(self, schema: Schema) -> Bound:
        bind = arithmetic.negate if self.op == "-" else arithmetic.absolute
        return bind(self.argument.bind(schema), str(self))

    def __str__(self) -> str:
        return f"abs({self.argument})" if self.op == "abs" else f"-{_inside(self.argument, 10)}"


@attrs.frozen(eq=False, str=False)
class Cast(Expression):
    """`cast(x, "type")`: the value as one of another type, one of `casting.NAMES`; null stays null.

    OverflowError for a value that does not fit. A promise on whole numbers or points in time carries over.
    """

    argument: Expression
    name: str

    def bind(self, schema: Schema) -> Bound:
        return casting.cast(self.argument.bind(schema), self.name, str(self))

    def __str__(self) -> str:
        return f"cast({self.argument}, {shown(self.name)})"


def _links(node: L) -> list[L]:
    """Return the operations of a chain such as a + b - c from the left, however long it is."""
    links = [node]
    while isinstance(left := links[-1].left, type(node)) and left.strength == node.strength:
        links.append(left)
    links.reverse()
    return links


def _in_a_row(links: Sequence[Binary | Logical]) -> str:
    first = _inside(links[0].left, links[0].strength)
    return "".join([first, *(f" {link.op} {_inside(link.right, link.strength + 1)}" for link in links)])


_STRENGTHS = {"||": 6, "&": 6, "|": 6, "<<": 6, ">>": 6, "+": 7, "-": 7, "*": 8, "/": 8, "//": 8, "%": 8}


@attrs.frozen(eq=False, str=False)
class Binary(Expression):
    """Arithmetic `+ - * / // %`, the bits of integers `& | << >>`, and text after text `||`."""

    op: str = attrs.field(validator=attrs.validators.in_(tuple(_STRENGTHS)))
    left: Expression
    right: Expression

    @property
    def strength(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _STRENGTHS[self.op]

    def bind(self, schema: Schema) -> Bound:
        links = _links(self)
        bound = links[0].left.bind(schema)
        for link in links:
            bind = bits.BINDERS.get(link.op, arithmetic.arithmetic)
            bound = bind(link.op, bound, link.right.bind(schema), str(link))
        return bound

    def __str__(self) -> str:
        return _in_a_row(_links(self))


@attrs.frozen(eq=False, str=False)
class Comparison(Expression):
    """`= != < <= > >=`; null where a side is null."""

    op: str = attrs.field(validator=attrs.validators.in_(tuple(comparison.FLIPPED)))
    left: Expression
    right: Expression

    strength = 5

    def bind(self, schema: Schema) -> Bound:
        return comparison.compare(self.op, self.left.bind(schema), self.right.bind(schema), str(self))

    def __str__(self) -> str:
        return f"{_inside(self.left, 6)} {self.op} {_inside(self.right, 6)}"


@attrs.frozen(eq=False, str=False)
class Logical(Expression):
    """`and`, `or` in three-valued logic: false and null is false, true or null is true.

    The right side need not be defined for tuples of which the left one decides: `a != 0 and v % a = 0`.
    """

    op: str = attrs.field(validator=attrs.validators.in_(("and", "or")))
    left: Expression
    right: Expression

    @property
    def strength(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 3 if self.op == "and" else 2

    def bind(self, schema: Schema) -> Bound:
        links = _links(self)
        written = [links[0].left, *(link.right for link in links)]
        truths = [_truth(part, schema, links[max(0, place - 1)]) for place, part in enumerate(written)]
        inside = [list(nodes(part)) for part in written]
        # What is not of this module, such as a user's function, is asked about all tuples of a page.
        known = all(type(node) in _KNOWN for some in inside for node in some)
        parts = [
            Part(
                run=truth,
                names=_names(some, schema),
                cost=max(map(_cost, some)) if known else 1.0,
            )
            for truth, some in zip(truths, inside, strict=True)
        ]
        movable = known and all(_cannot_fail(node) for some in inside for node in some)
        run = Junction.run(parts, conjunction=self.op == "and", movable=movable)
        return comparison.truth(run, str(self))

    def __str__(self) -> str:
        return _in_a_row(_links(self))


_TEXT_COSTS = {
    "like": 60.0, "ilike": 90.0, "regexp_matches": 90.0, "contains": 30.0, "starts_with": 10.0, "ends_with": 10.0,
}  # fmt: skip
"""What patterns of text cost, as multiples of a comparison of numbers."""


def nodes(expression: Expression) -> Iterator[Expression]:
    """Yield an expression and all that it is made of."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        for field in attrs.fields(type(part)):
            value = getattr(part, field.name)
            waiting += [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Expression)]


def _names(some: Iterable[Expression], schema: Schema) -> tuple[str, ...]:
    """Name the attributes of a schema among some nodes."""
    return tuple(sorted({schema.resolve(node.name, where="expression") for node in some if isinstance(node, Column)}))


def _cost(node: Expression) -> float:
    """Return what a node costs by itself, about, as a multiple of a comparison of numbers."""
    if isinstance(node, Call):
        return _TEXT_COSTS.get(node.function, 1.0)
    return 15.0 if isinstance(node, IsIn | InNetwork) else 1.0


def _cannot_fail(node: Expression) -> bool:
    """Return whether a node has a value, or none, whatever its parts have: it computes nothing that may not fit."""
    return node.function in _TEXT_COSTS if isinstance(node, Call) else type(node) in _SAFE


@attrs.frozen(eq=False, str=False)
class Not(Expression):
    """`not x`; null stays null."""

    argument: Expression

    strength = 4

    def bind(self, schema: Schema) -> Bound:
        argument = _truth(self.argument, schema, self)
        return comparison.truth(lambda page: pc.invert(argument(page)), str(self))

    def __str__(self) -> str:
        return f"not {_inside(self.argument, 4)}"


@attrs.frozen(eq=False, str=False)
class Between(Expression):
    """`low <= x <= high`."""

    argument: Expression
    low: Expression
    high: Expression

    strength = 5

    def bind(self, schema: Schema) -> Bound:
        bound = Logical("and", self.argument >= self.low, self.argument <= self.high).bind(schema)
        return comparison.truth(bound.run, str(self))

    def __str__(self) -> str:
        return f"{_inside(self.argument, 6)} between {_inside(self.low, 6)} and {_inside(self.high, 6)}"


@attrs.frozen(eq=False, str=False)
class IsIn(Expression):
    """Membership in a list of constants."""

    argument: Expression
    values: tuple[Constant, ...]

    strength = 5

    def bind(self, schema: Schema) -> Bound:
        return comparison.is_in(self.argument.bind(schema), self.values, str(self))

    def __str__(self) -> str:
        return f"{_inside(self.argument, 6)} in ({', '.join(shown(v) for v in self.values)})"


@attrs.frozen(eq=False, str=False)
class InNetwork(Expression):
    """Membership of an IP address in a network."""

    argument: Expression
    network: str

    strength = 5

    def bind(self, schema: Schema) -> Bound:
        return comparison.in_network(self.argument.bind(schema), self.network, str(self))

    def __str__(self) -> str:
        return f"{_inside(self.argument, 6)} in {shown(self.network)}"


@attrs.frozen(eq=False, str=False)
class IsNull(Expression):
    """Test whether there is no value."""

    argument: Expression

    strength = 5

    def bind(self, schema: Schema) -> Bound:
        argument = self.argument.bind(schema)
        return comparison.truth(lambda page: pc.is_null(argument.run(page)), str(self))

    def __str__(self) -> str:
        return f"{_inside(self.argument, 6)} is null"


@attrs.frozen(eq=False, str=False)
class Call(Expression):
    """A function of one tuple's values by its name, such as `coalesce(vlan, 0)` or `network(srcIP, 24)`.

    >>> schema = Schema.of(host="string")
    >>> page = Page.of_rows(schema, [("www.Example.org",), (None,)])
    >>> host = Column("host")
    >>> Call("lower", (host,)).evaluate(page).to_pylist(), str(Call("like", (host, Literal("www.%"))))
    (['www.example.org', None], 'host like "www.%"')
    """

    function: str
    arguments: tuple[Expression, ...] = attrs.field(converter=tuple)

    @property
    def strength(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 5 if self.function in scalar_functions.OPERATORS - {"case"} and len(self.arguments) == 2 else 10

    def bind(self, schema: Schema) -> Bound:
        return scalar_functions.bind_function(self.function, [a.bind(schema) for a in self.arguments], str(self))

    def __str__(self) -> str:
        if self.strength == 5:
            left, right = self.arguments
            return f"{_inside(left, 6)} {self.function} {_inside(right, 6)}"
        if self.function == "case":
            return _branches(self.arguments)
        return f"{self.function}({', '.join(map(str, self.arguments))})"


def _branches(arguments: Sequence[Expression]) -> str:
    pairs = zip(arguments[::2], arguments[1::2], strict=False)
    last = f" else {arguments[-1]}" if len(arguments) % 2 else ""
    return f"case{''.join(f' when {when} then {then}' for when, then in pairs)}{last} end"


def _truth(part: Expression, schema: Schema, whole: Expression) -> Run:
    bound = part.bind(schema)
    if family(bound.field) == "truth value":
        return bound.run
    if bound.literal is not None and bound.literal.value is None:
        unknown = pa.scalar(None, pa.bool_())
        return lambda page: unknown
    raise SchemaError(
        f'{whole}: "{part}" is of type {bound.type}; and, or, not take truth values.\n'
        "  Compare it with something first."
    )


_SAFE = {Column, Literal, Null, Comparison, Logical, Not, Between, IsIn, InNetwork, IsNull}
_KNOWN = {*_SAFE, Unary, Cast, Binary, Call}
