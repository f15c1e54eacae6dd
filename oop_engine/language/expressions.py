"""An expression of the syntax tree becomes an expression over a schema, its names resolved and its types checked.

Names follow the thesis' aliases (`len` is `length` where there is no `len`). LanguageError points at the smallest piece
of the text that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from decimal import Decimal
from typing import Final, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.language import syntax as s
from oop_engine.language.elsewhere import CLOCKS, JOINED, about_function, without_function
from oop_engine.language.error_position import placed
from oop_engine.language.parse import parse_expr
from oop_engine.language.quoted import Known, about_names, refuse_names
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import Number, chain, negated, number_of
from oop_engine.query_errors import LanguageError
from operators.data.address import parse_network
from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError, did_you_mean
from operators.expression import (
    Between,
    Binary,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    InNetwork,
    IsIn,
    IsNull,
    Literal,
    Logical,
    Not,
    Unary,
)
from operators.expression.expensive import MOST, Expensive, are_workers
from operators.expression.names import known_names
from operators.expression.scalar_functions import FUNCTIONS
from operators.expression.tracing import Ufunc
from operators.functions import is_function

Resolve: TypeAlias = Callable[[s.Name], str]
"""Gives the attribute that a name means, or raises the LanguageError that points at the name."""

_UFUNCS: dict[str, np.ufunc] = {
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "round": np.rint,
    "sqrt": np.sqrt,
}
SCALARS: frozenset[str] = frozenset({"abs", "cast", "expensive", *_UFUNCS, *FUNCTIONS})
"""The functions of one tuple's values; every other function is an aggregate or unknown.

`round` gives the nearest whole number, as a float; a half goes to the even one, round(-2.5) is -2, as in Python, numpy
and IEEE 754. `floor` and `ceil` give floats too; `a // b` is the integer below a / b, exactly.
"""
_OF_ROUND: Final = "It gives a whole number, a half the even one beside it; of hundredths write round(x * 100) / 100."
_ARITHMETIC: Final = frozenset({"||", "&", "|", "<<", ">>", "+", "-", "*", "/", "//", "%"})


def parse_expression(text: str, schema: Schema) -> Expression:
    """Read an expression that stands alone, such as `length * 8 > 1000`, over a schema; raises LanguageError."""
    node = parse_expr(text)
    refuse_names(node, Known.of(schema), text)
    return expression_of(node, schema, text)


def expression_of(node: s.Expr, schema: Schema, text: str, *, resolve: Resolve | None = None) -> Expression:
    """Make the expression that `node`, a piece of the query `text`, means over a schema.

    `resolve` says what names mean; without it they are the schema's attributes, unqualified. The result has been bound
    once, so `Stream.filter` and its kin will not refuse it. Raises LanguageError.
    """
    meaning = resolve if resolve is not None else lambda name: attribute_of(name, schema, text)
    return _Reading(schema, text, meaning).whole(node)


def attribute_of(name: s.Name, schema: Schema, text: str, *, streams: Collection[str] = ()) -> str:
    """Return the attribute of a schema that a name means; before a dot stands one of `streams`, in any case."""
    *qualifiers, attribute = name.parts
    if len(qualifiers) > 1 and (path := _path_of(name, schema, streams)) is not None:
        return path
    refuse_paths(name, schema, text, streams=streams)
    if len(qualifiers) > 1:
        raise LanguageError.at(name.span, f'"{name}" has {len(name.parts)} parts; write stream.attribute.', text)
    for qualifier in qualifiers:
        if qualifier.lower() not in (stream.lower() for stream in streams):
            dotted = f"{qualifier}.{attribute}"
            with suppress(SchemaError):
                # Zeek has a dot in some of its names.
                return schema.resolve(dotted, where="query")
            hint = did_you_mean(qualifier, streams) if streams else f"Write {attribute}."
            raise LanguageError.at(name.span, f'there is no stream "{qualifier}" here.', text, hint=hint)
    try:
        return schema.resolve(attribute, where="query")
    except SchemaError as error:
        hint = (
            _of_flows(attribute, schema)
            or _of_packets(attribute, schema)
            or _of_constants(attribute)
            or did_you_mean(attribute, schema.names)
        )
        raise LanguageError.at(name.span, f'there is no attribute "{attribute}" here.', text, hint=hint) from error


def _path_of(name: s.Name, schema: Schema, streams: Collection[str]) -> str | None:
    """Return the attribute whose own name has dots, as those of flattened JSON; None where there is none."""
    first, *inside = name.parts
    known = first.lower() in (stream.lower() for stream in streams)
    found = [".".join(parts) for parts in ((inside, name.parts) if known else (name.parts,))]
    return next((path for path in found if path in schema), None)


def refuse_paths(name: s.Name, schema: Schema, text: str, *, streams: Collection[str] = ()) -> None:
    """Raise the LanguageError for a path into an attribute, as into an object of JSON: names have one dot at most."""
    first, *inside = name.parts
    known = [stream.lower() for stream in streams]
    if len(inside) > 1 and first.lower() in known:
        first, *inside = inside
    if not inside or first.lower() in known or first not in schema or ".".join(name.parts) in schema:
        return
    if ".".join([first, *inside]) in schema:
        return
    field = schema.field(first)
    if not pa.types.is_struct(field.type):
        message = f'there is no stream "{first}" here, and the attribute "{first}" ({field.type}) has no parts.'
        raise LanguageError.at(name.span, message, text, hint=f"Write {first}.")
    path = ", ".join(f'"{part}"' for part in inside)
    flat = "_".join([first, *inside])
    hint = (
        f"Read the file with --flatten (in Python flatten=True): {'.'.join([first, *inside])} is then an attribute."
        " Or in Python:\n"
        f'  stream.derive({flat}=lambda p: pc.struct_field(p.column("{first}"), [{path}])).'
    )
    message = f'"{first}" is an attribute that holds an object, and a query has no paths into objects.'
    raise LanguageError.at(name.span, message, text, hint=hint)


def _of_constants(name: str) -> str:
    """Say how the name of a protocol is written, or that there is no clock; nothing of any other name."""
    if name.lower() in CLOCKS:
        return without_function(name)
    if name.lower() in known_names("proto"):
        return f"Names of protocols stand in quotes: proto = '{name.lower()}'."
    return ""


def _of_flows(name: str, schema: Schema) -> str:
    """Say how an element of flow records beyond the common columns is asked for; nothing where it is none."""
    if not {"exporter", "domain", "export_ts"} <= set(schema.names):
        return ""
    # Start-up: these are many names, and few streams are flow exports.
    from oop_engine.sources.flows.elements import ELEMENTS, element

    if element(name) is not None:
        return f'It is an element of flow records; the source reads those it is asked for: columns=["{name}"].'
    near = did_you_mean(name, [*schema.names, *ELEMENTS])
    return near if near.startswith("Did you mean") else ""


def _of_packets(name: str, schema: Schema) -> str:
    """Say how a further attribute of packets is asked for; nothing where it is none."""
    if not {"caplen", "interface", "status"} <= set(schema.names):
        return ""
    # Start-up: few queries name what their stream lacks.
    from oop_engine.sources.capture.schema import FURTHER_SCHEMA

    known = {field.lower(): field for field in FURTHER_SCHEMA.names}
    if (found := known.get(name.lower())) is None:
        return ""
    return f'It is a further attribute of packets; the source reads those it is asked for: columns=["{found}"].'


def is_aggregate(function: str) -> bool:
    """Return whether a function, named in lower case, is one over many tuples."""
    return is_function(function)


@attrs.frozen(eq=False)
class _Reading:
    """One schema and one text, between which expressions are made."""

    schema: Schema
    text: str
    resolve: Resolve
    _pieces: list[tuple[s.Expr, Expression]] = attrs.field(init=False, factory=list)
    """What was made of each piece, the smaller ones first."""

    def whole(self, node: s.Expr) -> Expression:
        """Make an expression; where it does not fit the schema, the smallest piece that does not is pointed at."""
        made = self._typed(self.expression(node))
        if isinstance(node, s.Literal) and node.kind:
            made = self._alone(node, made)
        try:
            made.bind(self.schema)
        except (SchemaError, PlanError):
            for piece, part in self._pieces:
                self._check(piece, part)
            self._check(node, made)
        return made

    def expression(self, node: s.Expr) -> Expression:
        """Make an expression from the leaves up, without a look at types."""
        made = self._made(node)
        self._pieces.append((node, made))
        return made

    def _check(self, node: s.Expr, made: Expression) -> None:
        known = Known.of(self.schema)
        with placed(node.span, self.text, said=str(made), hint=lambda: about_names(node, known)):
            made.bind(self.schema)

    def _made(self, node: s.Expr) -> Expression:
        match node:
            case s.Name():
                return Column(self.resolve(node))
            case s.Literal():
                return Literal(node.value)
            case s.Unary(op="-"):
                return _negative(self.expression(node.x))
            case s.Unary():
                return Not(self.expression(node.x))
            case s.Binary(op="and" | "or" as op):
                return self._together(op, node)
            case s.Binary() if node.op in _ARITHMETIC:
                return self._computed(node)
            case s.Binary():
                return self._comparison(node)
            case s.Between():
                for end in (node.low, node.high):
                    self._check_time(end, node.x)
                argument = self.expression(node.x)
                test: Expression = Between(argument, *(self._beside(argument, end) for end in (node.low, node.high)))
            case s.InList():
                test = self._in_list(node)
            case s.InNetwork():
                test = self._in_network(node)
            case s.IsNull():
                test = IsNull(self.expression(node.x))
            case s.Call():
                return self._call(node)
        return Not(test) if node.negated else test

    def _comparison(self, node: s.Binary) -> Expression:
        for side, other in ((node.l, node.r), (node.r, node.l)):
            if isinstance(side, s.Literal) and side.value is None:
                shown = str(self.expression(other))
                hint = f"Write {shown} IS {'NOT ' if node.op == '<>' else ''}NULL."
                raise LanguageError.at(node.span, "nothing compares with NULL.", self.text, hint=hint)
        op = "!=" if node.op == "<>" else node.op
        for side, other in ((node.l, node.r), (node.r, node.l)):
            self._check_time(side, other)
        if number_of(node.l) is not None:
            right = self.expression(node.r)
            return Comparison(op, self._beside(right, node.l), right)
        left = self.expression(node.l)
        return Comparison(op, left, self._beside(left, node.r))

    def _check_time(self, node: s.Expr, other: s.Expr) -> None:
        """Refuse TIMESTAMP or INTERVAL beside a text, with which it would compare as a text."""
        if not isinstance(node, s.Literal) or not node.kind or (isinstance(other, s.Literal) and other.kind):
            return
        made = self._made(other)
        with suppress(SchemaError, PlanError):
            if pa.types.is_string(made.type(self.schema)):
                message = f"{made} is text, and {unparse_expression(node)} is a time."
                hint = f"Read it as a time: cast({made}, 'timestamp[ns]'), or --types {made}=epoch."
                raise LanguageError.at(node.span, message, self.text, hint=hint)

    def _together(self, op: str, node: s.Binary) -> Expression:
        links, parts = chain(node)
        made = self.expression(parts[0])
        for link, part in zip(links, parts[1:], strict=True):
            made = Logical(op, made, self.expression(part))
            if link is not node:
                self._pieces.append((link, made))
        return made

    def _computed(self, node: s.Binary) -> Expression:
        """Make a sum or product, in a walk along its left sides: many may stand in a row."""
        waiting: list[s.Binary] = []
        first: s.Expr = node
        while isinstance(first, s.Binary) and first.op in _ARITHMETIC:
            waiting.append(first)
            first = first.l
        made = self._plain(first)
        for piece in reversed(waiting):
            made = Binary(piece.op, made, self._plain(piece.r))
            if piece is not node:
                self._pieces.append((piece, made))
        return made

    def _plain(self, node: s.Expr) -> Expression:
        """Make what is computed with: digits that no float has are rounded to one there."""
        made = self.expression(node)
        if isinstance(node, s.Literal) and node.kind == "timestamp":
            return self._alone(node, made)
        return _rounded(made)

    def _alone(self, node: s.Literal, made: Expression) -> Expression:
        """Make a time of TIMESTAMP '...' where nothing beside it says that it is one; refuse an INTERVAL there."""
        if node.kind == "timestamp":
            return Cast(made, "timestamp[ns]")
        hint = "Write ts - INTERVAL '2' SECOND, or ts - end_ts > INTERVAL '2' SECOND."
        raise LanguageError.at(node.span, "an INTERVAL stands beside a time or a duration.", self.text, hint=hint)

    def _beside(self, argument: Expression, node: s.Expr) -> Expression:
        """Make what is compared with an argument.

        All digits of a constant count, but beside a float, where they mean the float nearest to them as ever.
        """
        made = self.expression(node)
        if isinstance(made, Literal) and isinstance(made.value, Decimal):
            if isinstance(argument, Literal):
                return self._typed(made)
            with suppress(SchemaError):
                if pa.types.is_floating(argument.type(self.schema)):
                    return _rounded(made)
        return made

    def _typed(self, made: Expression) -> Expression:
        """Round a constant of more digits than any decimal has, where it stands alone."""
        alone = isinstance(made, Literal) and isinstance(made.value, Decimal)
        return _rounded(made) if alone and pa.types.is_null(made.type(self.schema)) else made

    def _in_list(self, node: s.InList) -> Expression:
        """Test constants at once, and computed items one by one."""
        for item in node.items:
            self._check_time(item, node.x)
        argument = self.expression(node.x)
        items = [self._beside(argument, item) for item in node.items]
        constants = [item.value for item in items if isinstance(item, Literal)]
        networks = [value for value in constants if isinstance(value, str) and "/" in value]
        if networks and self._holds_addresses(argument):
            constants = [value for value in constants if value not in networks]
        else:
            networks = []
        for item, made in zip(node.items, items, strict=True):
            if isinstance(item, s.Literal) and isinstance(made, Literal) and made.value in networks:
                self._check_network(item)
        tests: list[Expression] = [IsIn(argument, tuple(constants))] if constants else []
        tests += [InNetwork(argument, network) for network in networks]
        tests += [Comparison("=", argument, item) for item in items if not isinstance(item, Literal)]
        found, *rest = tests
        for test in rest:
            found = Logical("or", found, test)
        return found

    def _holds_addresses(self, argument: Expression) -> bool:
        """Return whether a value is an address; one that does not fit the schema is told where it stands."""
        try:
            return is_ip(argument.field(self.schema))
        except (SchemaError, PlanError):
            return False

    def _in_network(self, node: s.InNetwork) -> Expression:
        return InNetwork(self.expression(node.x), self._check_network(node.network))

    def _check_network(self, node: s.Literal) -> str:
        network = str(node.value)
        try:
            parse_network(network)
        except ValueError as error:
            raise LanguageError.at(node.span, f"{error}.".replace("..", "."), self.text) from error
        return network

    def _call(self, node: s.Call) -> Expression:
        if node.function not in SCALARS:
            if is_aggregate(node.function):
                message = f"{node.function} is computed over many tuples, and this is about one tuple at a time."
                hint = "Aggregates stand in the SELECT list or in HAVING."
                hint = JOINED if node.function == "concat" else hint
            else:
                message = f'there is no function "{node.function}" of one tuple\'s values.'
                hint = about_function(node.function, SCALARS)
            raise LanguageError.at(node.span, message, self.text, hint=hint)
        if node.function == "cast":
            return self._cast(node)
        if node.function == "expensive":
            return self._expensive(node)
        if node.function in FUNCTIONS and not node.distinct and not node.star:
            return self._function(node)
        if len(node.args) != 1 or node.distinct:
            message = f"{node.function} takes one argument, as in {node.function}(length)."
            raise LanguageError.at(node.span, message, self.text, hint=_OF_ROUND if node.function == "round" else "")
        argument = self._plain(node.args[0])
        return Unary("abs", argument) if node.function == "abs" else Ufunc(_UFUNCS[node.function], (argument,))

    def _function(self, node: s.Call) -> Expression:
        """Make a function of any number of arguments; digits of a constant that no float has are rounded."""
        made = [self._plain(argument) for argument in node.args]
        if any(self._is_time(argument) for argument in made if not isinstance(argument, Literal | Cast)):
            made = [_rounded(self.expression(argument)) for argument in node.args]
        return Call(node.function, tuple(made))

    def _is_time(self, argument: Expression) -> bool:
        with suppress(SchemaError, PlanError):
            return pa.types.is_temporal(argument.type(self.schema))
        return False

    def _expensive(self, node: s.Call) -> Expression:
        workers = number_of(node.args[1]) if len(node.args) == 2 else None
        if len(node.args) not in (1, 2) or node.distinct or (len(node.args) == 2 and not are_workers(workers)):
            message = f"expensive takes a condition, and how many threads compute it: 1 to {MOST}, or 4 if not said."
            raise LanguageError.at(node.span, message, self.text, hint="Write expensive(host like '%.example.org', 8).")
        return Expensive(self.expression(node.args[0]), workers if isinstance(workers, int) else None)

    def _cast(self, node: s.Call) -> Expression:
        kind = node.args[1] if len(node.args) == 2 and not node.distinct else None
        if not isinstance(kind, s.Literal) or not isinstance(kind.value, str):
            message = "cast takes a value and the name of a type, as in cast(price, 'float64')."
            raise LanguageError.at(node.span, message, self.text)
        return Cast(self.expression(node.args[0]), kind.value)


def _negative(argument: Expression) -> Expression:
    if isinstance(argument, Literal) and isinstance(argument.value, Number) and not isinstance(argument.value, bool):
        return Literal(negated(argument.value))
    return Unary("-", argument)


def _rounded(made: Expression) -> Expression:
    """Return a decimal constant as the float nearest to it, anything else as it is."""
    return Literal(float(made.value)) if isinstance(made, Literal) and isinstance(made.value, Decimal) else made
