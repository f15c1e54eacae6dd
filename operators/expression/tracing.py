"""A user's function of columns is called once with a tracer that records what it does; the arrays come later, in bulk.

A function that cannot be recorded is kept as `Opaque`, and called once a page with the page itself, never once a tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.data.page import Array, Bools, Int64s, Page, concatenate
from operators.data.schema import IP_TYPE, Schema, ip_field, is_ip
from operators.errors import SchemaError
from operators.expression.arithmetic import decimal_hint
from operators.expression.bound import NUMBERS, Bound, Datum, family
from operators.expression.tree import (
    Binary,
    Column,
    Comparison,
    Expression,
    Logical,
    Not,
    NotTraceable,
    Unary,
    as_expression,
)

PageFunction: TypeAlias = Callable[[Page], object]


@attrs.frozen
class Tracer:
    """Stand in for a page while a function of columns is recorded: `p["length"]` is the attribute, not its values."""

    schema: Schema

    def __getitem__(self, name: str) -> Column:
        return Column(self.schema.resolve(name, where="expression"))

    def __contains__(self, name: str) -> bool:
        return name in self.schema

    def __len__(self) -> int:
        raise NotTraceable("a tracer has no length")

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotTraceable(f'a tracer has no method "{name}"')


def trace(
    function: Callable[..., object], schema: Schema, *, where: str = "trace", result: pa.DataType | None = None
) -> Expression | Mapping[str, Expression]:
    """Call a function of columns once and give what it computes, an expression or one a name.

    A function that needs arrays becomes `Opaque`, with the type of its `result` if that is known. SchemaError for an
    unknown attribute, a type that does not fit, and a result that is no value of a tuple (it names the call, `where`);
    TypeError for `and`, `or`, `not` and chained comparisons, which Python does not let anyone record.

    >>> str(trace(lambda p: p["length"] * 8 > 1000, Schema.of(length=pa.int32())))
    'length * 8 > 1000'
    """
    try:
        found = function(Tracer(schema))
    except NotTraceable:
        opaque = Opaque(function, result=result)
        opaque.bind(schema)
        return opaque
    if isinstance(found, Mapping):
        named = {str(name): as_expression(value) for name, value in found.items()}
        for expression in named.values():
            expression.bind(schema)
        return named
    try:
        expression = as_expression(found)
    except TypeError as error:
        raise SchemaError(f"{where}: {_several(found)}") from error
    expression.bind(schema)
    return expression


def _several(found: object) -> str:
    """Say that a function gave constants, or several columns, where one value of each tuple is wanted."""
    write = 'Compute with columns, as p["x"] * 2, or np.where(p["x"] > 1, 1, 0) for one of two values.'
    if isinstance(found, list | tuple) and any(isinstance(each, Expression) for each in found):
        write = 'Write one function for each column: derive(a=lambda p: p["x"], b=lambda p: p["y"]).'
    return f"the function gave {found!r:.60} of type {type(found).__name__}, no value of each tuple.\n  {write}"


@attrs.frozen(eq=False, repr=False)
class _Watched(Page):
    """A page that knows of which attributes it gave arrays, in which nulls do not show."""

    _given: set[str] = attrs.field(factory=set, init=False)
    _known: set[str] = attrs.field(factory=set, init=False)
    _read: set[str] = attrs.field(factory=set, init=False)

    def column(self, name: str) -> pa.Array:
        self._read.add(self.schema.resolve(name, where="page"))
        return super().column(name)

    def __getitem__(self, name: str) -> Array:
        self._given.add(self.schema.resolve(name, where="page"))
        return super().__getitem__(name)

    def ticks(self, name: str) -> Int64s:
        self._given.add(self.schema.resolve(name, where="page"))
        return super().ticks(name)

    def valid(self, name: str) -> Bools | None:
        self._known.add(self.schema.resolve(name, where="page"))
        return super().valid(name)

    def lost(self) -> Bools | None:
        """Return which tuples have a null in such an attribute that nobody asked about; None where none has."""
        lost: Bools | None = None
        for name in self._given - self._known:
            if (valid := super().valid(name)) is not None:
                lost = ~valid if lost is None else lost | ~valid
        return lost

    def fixed(self, kind: pa.DataType) -> list[pa.Field]:
        """Return the attributes of a type that were read; a result of fixed-size bytes is one of those."""
        return [field for field in self.schema.arrow if field.name in self._read and field.type == kind]


@attrs.frozen(eq=False, str=False)
class Opaque(Expression):
    """A function of the whole page, called once a page; it gives one value a tuple, as an array of the page's length.

    It must depend on nothing but the tuple it computes for, or the answer would change with the page's size. The type
    of its result is what it gives for an empty page, unless `result` says it. As no one knows what it reads before it
    runs, it counts as reading all attributes. Where one that it read as numpy's array is null, so is the result, as of
    what is recorded; a function that asks for `page.valid(name)` or `page.column(name)` knows of nulls itself.
    """

    function: PageFunction
    result: pa.DataType | None = attrs.field(default=None, kw_only=True)

    def bind(self, schema: Schema) -> Bound:
        field = pa.field(str(self), self.result) if self.result is not None else None
        if field is None:
            try:
                field = self._field(concatenate(schema, ()))
            except SchemaError:
                raise
            except Exception as error:
                raise SchemaError(
                    f"{self}: the function cannot be recorded as an expression, and fails on an empty page: "
                    f"{type(error).__name__}: {error}\n"
                    "  Use + - * / // % == < & | ~ and numpy's functions on columns; or give it as "
                    "Opaque(function, result=pa.int64())."
                ) from error
        wanted = field.type

        def run(page: Page) -> Datum:
            found = self._checked(page)
            return found if found.type == wanted else found.cast(wanted)

        return Bound(field, run)

    def reads(self, schema: Schema, *, where: str) -> frozenset[str]:
        return frozenset(schema.names)

    def _field(self, page: Page) -> pa.Field:
        """Return the field of what a page gives: made of addresses alone, it holds addresses."""
        watched = _Watched(page.schema, page.batch)
        kind = self._array(watched, page).type
        addresses = kind == IP_TYPE and (read := watched.fixed(kind)) and all(map(is_ip, read))
        return ip_field(str(self)) if addresses else pa.field(str(self), kind)

    def _checked(self, page: Page) -> pa.Array:
        watched = _Watched(page.schema, page.batch)
        array = self._array(watched, page)
        lost = watched.lost()
        return array if lost is None else pc.if_else(pa.array(lost), pa.scalar(None, array.type), array)

    def _array(self, watched: _Watched, page: Page) -> pa.Array:
        found = self.function(watched)
        if isinstance(found, Mapping):
            raise SchemaError(f"{self}: a function that needs arrays computes one column; write one function for each.")
        if isinstance(found, list | tuple) and not found and self.result is None:
            raise SchemaError(
                f"{self}: the function gave an empty {type(found).__name__} for an empty page, which tells no type.\n"
                '  Compute with columns, p["x"] > 100, without a loop; or give it as'
                " Opaque(function, result=pa.bool_())."
            )
        array: pa.Array = _as_array(found, watched) if isinstance(found, np.ndarray | list | tuple) else found
        if not isinstance(array, pa.Array):
            raise SchemaError(
                f"{self}: the function gave {type(found).__name__} for a page of {len(page)} tuples.\n"
                "  It must give an array with one value for each tuple."
            )
        if len(array) != len(page):
            raise SchemaError(
                f"{self}: the function gave {len(array)} values for a page of {len(page)} tuples.\n"
                "  It must give one value for each tuple."
            )
        return array

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', type(self.function).__name__)}(page)"


def _as_array(found: Array | list[object] | tuple[object, ...], watched: _Watched) -> pa.Array:
    """Return what a function made as an Arrow array; bytes as wide as those that it read are all of it, zeros too."""
    if isinstance(found, np.ndarray) and found.dtype.kind == "S" and found.ndim == 1:
        kind = pa.binary(found.itemsize)
        if watched.fixed(kind):
            return pa.Array.from_buffers(kind, len(found), [None, pa.py_buffer(np.ascontiguousarray(found))])
    return pa.array(found)


@attrs.frozen(eq=False, str=False)
class Ufunc(Expression):
    """One of numpy's functions on columns, e.g. `np.sqrt(p["x"])`; null where an argument is null."""

    function: np.ufunc
    arguments: tuple[Expression, ...]

    def bind(self, schema: Schema) -> Bound:
        bounds = [argument.bind(schema) for argument in self.arguments]
        for bound in bounds:
            if family(bound.field) not in NUMBERS | {"truth value"}:
                raise SchemaError(
                    f'{self}: "{bound.field.name}" is of type {bound.type}; numpy\'s functions here take numbers.'
                    f"{decimal_hint(bound)}"
                )
        empty = [np.empty(0, bound.type.to_pandas_dtype()) for bound in bounds]
        try:
            kind = pa.from_numpy_dtype(self.function(*empty).dtype)
        except TypeError as error:
            raise SchemaError(f"{self}: {error}") from error

        def run(page: Page) -> Datum:
            length = len(page)
            columns = [bound.evaluate(page) for bound in bounds]
            valid = np.ones(length, np.bool_)
            for column in columns:
                if column.null_count:
                    valid &= column.is_valid().to_numpy(zero_copy_only=False)
            with np.errstate(all="ignore"):
                found = self.function(*(_numbers(column) for column in columns))
            return pa.array(found, kind, mask=None if valid.all() else ~valid)

        return Bound(pa.field(str(self), kind), run)

    def __str__(self) -> str:
        return f"{self.function.__name__}({', '.join(str(a) for a in self.arguments)})"


def recorded(function: np.ufunc, method: str, inputs: Sequence[object], options: Mapping[str, object]) -> Expression:
    """Record a call of one of numpy's functions; NotTraceable where it needs arrays."""
    if method != "__call__" or options or function.nout != 1:
        raise NotTraceable(f"{function.__name__}.{method} needs arrays")
    if any(isinstance(value, np.ndarray) and value.ndim for value in inputs):
        raise NotTraceable(f"{function.__name__} with an array needs arrays")
    # In a comparison numpy's scalars arrive as arrays without dimensions.
    arguments = tuple(as_expression(value[()] if isinstance(value, np.ndarray) else value) for value in inputs)
    name = function.__name__
    if name in _ARITHMETIC:
        return Binary(_ARITHMETIC[name], *arguments)
    if name in _COMPARISONS:
        return Comparison(_COMPARISONS[name], *arguments)
    if name in _LOGICAL:
        return Logical(_LOGICAL[name], *arguments)
    if name in ("logical_not", "invert"):
        return Not(*arguments)
    if name in ("negative", "absolute"):
        return Unary("-" if name == "negative" else "abs", *arguments)
    return Ufunc(function, arguments)


_ARITHMETIC = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
}
_COMPARISONS = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "bitwise_and": "and", "bitwise_or": "or"}


def _numbers(column: pa.Array) -> npt.NDArray[np.generic]:
    """Return a column as numpy sees it; what stands where there is no value is 0."""
    if column.null_count:
        column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    return np.asarray(column.to_numpy(zero_copy_only=False))
