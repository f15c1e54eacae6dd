"""The shape of a join: which attributes go in and come out, what the inputs must share, what is promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from operators.data.extremes import greatest, least
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Page
from operators.data.schema import Schema, is_ip
from operators.data.steps import in_steps, same_steps
from operators.errors import SchemaError, did_you_mean
from operators.expression import Bound, Expression
from operators.join.window import JoinWindow

Kind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]
KINDS: Final[tuple[Kind, ...]] = ("inner", "left", "right", "full", "semi", "anti")
Columns: TypeAlias = Callable[[int], pa.Array]
"""Gives an attribute of some tuples of one input, by its number in that input's schema."""


@attrs.frozen(eq=False)
class Shape:
    """A join that was checked against the schemas of its inputs."""

    inputs: tuple[Schema, Schema]
    output: Schema
    kind: Kind
    keys: tuple[pa.Field, ...]
    """Fields of the equality attributes, of a type that both sides fit."""
    on: tuple[tuple[str, ...], tuple[str, ...]]
    """Their names in each input."""
    wattrs: tuple[str, str]
    names: tuple[Mapping[str, str], Mapping[str, str]]
    """Where each input's attributes are found in the output; those that are not kept are missing."""
    sources: tuple[tuple[int, int], ...]
    """Port and number of each attribute of the output that an input has."""
    stored: tuple[tuple[int, ...], tuple[int, ...]]
    """Numbers of the attributes that must be kept with a stored tuple, by port."""
    stored_schemas: tuple[pa.Schema, pa.Schema]
    residual: Bound | None
    asked: tuple[tuple[int, int], ...]
    """Port and number of each attribute that the residual predicate looks at."""
    question: Schema
    """Schema of the tuples that the residual predicate looks at."""
    extremes: tuple[str, str]
    """Names of the attributes for the lesser and the greater of both times, empty when not asked for."""
    once: tuple[bool, bool] = (False, False)
    """The inputs whose tuples have at most one partner, as the user states."""
    equal: tuple[Mapping[int, int], Mapping[int, int]] = attrs.field(factory=lambda: ({}, {}))
    """By port: numbers of attributes of which each partner has the same value, and their numbers in the other input."""

    @property
    def tracked(self) -> tuple[bool, bool]:
        """Return the inputs whose tuples must know whether they had a partner."""
        left, right = self.once
        return left or self.kind in ("left", "full", "semi", "anti"), right or self.kind in ("right", "full")

    @property
    def outer(self) -> tuple[bool, bool]:
        """Return the inputs whose tuples come out without a partner."""
        return self.kind in ("left", "full", "anti"), self.kind in ("right", "full")

    @property
    def filtering(self) -> bool:
        """Return whether tuples of the left input come out as they are."""
        return self.kind in ("semi", "anti")

    def tells_all(self, port: int) -> bool:
        """Return whether pairs show nothing of the stored tuple that the arriving one, of this port, does not have."""
        told = all(p == port or number in self.equal[p] for p, number in self.sources)
        return told and not any(self.extremes) and not self.filtering and not self.tracked[1 - port]

    def key_columns(self, page: Page, port: int) -> list[pa.Array]:
        """Return the equality attributes of a page, in the types that both sides have in common."""
        columns = [page.column(name) for name in self.on[port]]
        return [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self.keys, strict=True)]

    def accepts(self, left: Columns, right: Columns, length: int) -> Bools | None:
        """Return for which pairs the residual predicate is true, shape (n,); None when there is no such predicate."""
        if self.residual is None:
            return None
        sides = (left, right)
        arrays = [sides[port](number) for port, number in self.asked]
        arrow = self.question.arrow
        batch = pa.RecordBatch.from_arrays(arrays, schema=arrow) if arrays else _bare(length)
        page = Page(self.question if arrays else Schema(batch.schema), batch)
        true = self.residual.evaluate(page)
        return (true.fill_null(False) if true.null_count else true).to_numpy(zero_copy_only=False)

    def page(self, left: Columns | None, right: Columns | None, length: int) -> Page:
        """Make tuples of the output; a side that is None is null, as in a tuple without a partner."""
        sides = (left, right)
        made: dict[tuple[int, int], pa.Array] = {}

        def column(port: int, number: int) -> pa.Array:
            side = sides[port]
            if side is None:
                return pa.nulls(length, self.inputs[port].arrow.field(number).type)
            if (port, number) not in made:
                made[port, number] = side(number)
            return made[port, number]

        arrays = [column(port, number) for port, number in self.sources]
        if any(self.extremes):
            times = [column(p, self.inputs[p].names.index(self.wattrs[p])) for p in (0, 1)]
            for name, function in zip(self.extremes, (least, greatest), strict=True):
                if name:
                    arrays.append(function(times, times[0].type))
        return Page(self.output, pa.RecordBatch.from_arrays(arrays, schema=self.output.arrow))

    def namings(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the port and the names that its equality attributes have in the output, if it has them all."""
        for port in (0, 1):
            names = [self.names[port].get(name, "") for name in self.on[port]]
            if names and all(names) and len(set(names)) == len(names):
                yield port, tuple(names)


def fit(
    inputs: tuple[Schema, ...],
    window: JoinWindow,
    *,
    on: Sequence[tuple[str, str]],
    residual: Expression | None,
    kind: Kind,
    prefix: str,
    attributes: Sequence[str],
    extremes: tuple[str, str],
    joint: bool,
    individual: bool,
    once: tuple[bool, bool] = (False, False),
) -> Shape:
    """Check a join against its inputs; SchemaError naming what does not fit, and what to write instead."""
    if len(inputs) != 2:
        raise SchemaError(f"join takes two inputs, it was given {len(inputs)}.")
    left, right = inputs
    if any(once) and kind in ("semi", "anti"):
        raise SchemaError(
            f"join: a {kind} join lets go of a left tuple with its first partner anyway, however many there are.\n"
            "  Leave its cardinality out."
        )
    wattrs = tuple(_time(s, a, port) for port, (s, a) in enumerate(zip(inputs, window.attributes, strict=True)))
    times = [s.arrow.field(a) for s, a in zip(inputs, wattrs, strict=True)]
    if not same_steps(times[0].type, times[1].type):
        raise SchemaError(
            f'join: the windowing attribute "{wattrs[0]}" of the left input is {times[0].type},'
            f' "{wattrs[1]}" of the right input is {times[1].type}.\n  Windows need one unit; cast one of them first.'
        )
    pairs = [(_name(left, a, 0), _name(right, b, 1)) for a, b in on]
    keys = tuple(common_field(left.arrow.field(a), right.arrow.field(b)) for a, b in pairs)
    KeyIndex(keys)
    its = renamed(left, right, prefix)
    where = {name: (0, i) for i, name in enumerate(left.names)}
    where |= {its[name]: (1, i) for i, name in enumerate(right.names)}
    joined = [left.arrow.field(n) for n in left.names]
    joined += [right.arrow.field(n).with_name(its[n]) for n in right.names]
    bound, asked = _residual(residual, Schema(pa.schema(joined)), where)
    kept = _kept(attributes, [f.name for f in (joined[: len(left.names)] if kind in ("semi", "anti") else joined)])
    fields: list[pa.Field] = []
    for field in joined:
        if field.name in kept:
            port = where[field.name][0]
            absent = kind == "full" or kind == ("left", "right")[1 - port]
            fields.append(field.with_nullable(True) if absent else field)
    fields += _extreme_fields(extremes, kind, times, {f.name for f in fields})
    sources = tuple(where[f.name] for f in fields if f.name in where)
    names = (
        {n: n for n in left.names if n in kept},
        {n: its[n] for n in right.names if its[n] in kept},
    )
    stored = _stored(sources, asked, pairs, (left, right), wattrs)
    shape = Shape(
        inputs=(left, right),
        output=Schema(pa.schema(fields)),
        kind=kind,
        keys=keys,
        on=(tuple(a for a, _ in pairs), tuple(b for _, b in pairs)),
        wattrs=(wattrs[0], wattrs[1]),
        names=names,
        sources=sources,
        stored=stored,
        stored_schemas=(_some(left, stored[0]), _some(right, stored[1])),
        residual=bound,
        asked=asked,
        question=Schema(pa.schema([joined[n if p == 0 else len(left.names) + n] for p, n in asked])),
        extremes=extremes,
        once=once,
        equal=_equal(left, right, pairs),
    )
    return attrs.evolve(shape, output=Schema(shape.output.arrow, progress=_progress(shape, individual, joint)))


def _time(schema: Schema, attribute: str, port: int) -> str:
    name = _name(schema, attribute, port)
    kind = schema.arrow.field(name).type
    if not in_steps(kind):
        raise SchemaError(
            f'join: the windowing attribute "{name}" of the {_SIDES[port]} input has type {kind}.\n'
            "  A window needs an attribute that counts: an integer, a time or a decimal."
        )
    return name


def _name(schema: Schema, attribute: str, port: int) -> str:
    return schema.resolve(attribute, where=f"join, {_SIDES[port]} input")


_SIDES = ("left", "right")


def renamed(left: Schema, right: Schema, prefix: str) -> dict[str, str]:
    """Return what each right attribute is called in the result; SchemaError when another has that name."""
    names = {name: prefix + name if name in left else name for name in right.names}
    taken = set(left.names)
    for name in names.values():
        if name in taken:
            raise SchemaError(
                f'join: two attributes of the result would be named "{name}".\n'
                f"  left: {', '.join(left.names)}\n  right: {', '.join(right.names)}\n"
                f'  Give another prefix than "{prefix}" for the right attributes that the left input has too.'
            )
        taken.add(name)
    return names


def common_field(left: pa.Field, right: pa.Field) -> pa.Field:
    """Return the field whose type holds the keys of both sides; SchemaError when their values never could be equal."""
    one, other = (f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in (left, right))
    found: pa.DataType | None = None
    if is_ip(left) == is_ip(right):
        if one == other:
            found = one
        elif pa.types.is_integer(one) and pa.types.is_integer(other):
            unsigned = [pa.types.is_unsigned_integer(kind) for kind in (one, other)]
            if all(unsigned):
                found = pa.uint64()
            elif not any(unsigned) or pa.uint64() not in (one, other):
                found = pa.int64()
        elif pa.types.is_floating(one) and pa.types.is_floating(other):
            found = pa.float64()
        elif _text(one) and _text(other):
            found = pa.large_string()
        elif _binary(one) and _binary(other):
            found = pa.large_binary()
    if found is None:
        raise SchemaError(
            f'join: "{left.name}" of the left input is {_kind(left)}, "{right.name}" of the right input is'
            f" {_kind(right)}; they cannot be compared for equality.\n  Cast one to the type of the other first."
        )
    return pa.field(left.name, found, metadata=left.metadata)


def _equal(left: Schema, right: Schema, pairs: Sequence[tuple[str, str]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the numbers of attributes that have one value in both tuples of a pair, not only equal ones.

    Floats are left out, for 0 equals -0.
    """
    found: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for a, b in pairs:
        kind = left.arrow.field(a).type
        told = pa.types.is_integer(kind) or pa.types.is_temporal(kind) or _text(kind) or _binary(kind)
        if told and right.arrow.field(b).type == kind:
            numbers = left.names.index(a), right.names.index(b)
            found[0].setdefault(numbers[0], numbers[1])
            found[1].setdefault(numbers[1], numbers[0])
    return found


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _kind(field: pa.Field) -> str:
    return "an IP address" if is_ip(field) else str(field.type)


def _residual(
    residual: Expression | None, joined: Schema, where: Mapping[str, tuple[int, int]]
) -> tuple[Bound | None, tuple[tuple[int, int], ...]]:
    if residual is None:
        return None, ()
    bound = residual.bind(joined)
    if not pa.types.is_boolean(bound.type):
        raise SchemaError(
            f"join(residual={residual}): this is of type {bound.type}, a predicate gives a truth value.\n"
            "  Compare it with something, e.g. length > right_length."
        )
    names = sorted(residual.reads(joined, where="join"))
    return bound, tuple(where[name] for name in names)


def _kept(attributes: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    for name in attributes:
        if name not in known:
            raise SchemaError(f'join: the result has no attribute "{name}".\n  {did_you_mean(name, known)}')
    return frozenset(attributes or known)


def _extreme_fields(
    extremes: tuple[str, str], kind: Kind, times: Sequence[pa.Field], taken: set[str]
) -> list[pa.Field]:
    named = [name for name in extremes if name]
    for name in named:
        if kind in ("semi", "anti"):
            raise SchemaError(f'join: a {kind} join has no right tuples, so there is no "{name}" of both times.')
        if name in taken or named.count(name) > 1:
            raise SchemaError(f'join: the result already has an attribute "{name}"; choose another name.')
        if times[0].type != times[1].type:
            raise SchemaError(
                f'join: "{name}" compares {times[0].type} with {times[1].type}; cast one windowing attribute first.'
            )
    return [pa.field(name, times[0].type) for name in named]


def _stored(
    sources: Sequence[tuple[int, int]],
    asked: Sequence[tuple[int, int]],
    pairs: Sequence[tuple[str, str]],
    inputs: tuple[Schema, Schema],
    wattrs: tuple[str, ...],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    needed: tuple[set[int], set[int]] = (set(), set())
    for port, number in (*sources, *asked):
        needed[port].add(number)
    for port in (0, 1):
        needed[port].update(inputs[port].names.index(pair[port]) for pair in pairs)
        needed[port].add(inputs[port].names.index(wattrs[port]))
    return tuple(sorted(needed[0])), tuple(sorted(needed[1]))


def _some(schema: Schema, numbers: Sequence[int]) -> pa.Schema:
    return pa.schema([schema.arrow.field(number) for number in numbers])


def _progress(shape: Shape, individual: bool, joint: bool) -> frozenset[frozenset[str]]:
    """Return what the output will be punctuated on: only what the other input's progress is sure to settle."""
    linear = [frozenset((w,)) in s.progress for s, w in zip(shape.inputs, shape.wattrs, strict=True)]
    found: set[frozenset[str]] = set()
    for port in (0, 1):
        names, own = shape.names[port], shape.wattrs[port]
        if individual and linear[1 - port]:
            for promise in shape.inputs[port].progress:
                if all(name in names for name in promise):
                    found.add(frozenset(names[name] for name in promise))
        grouped = [frozenset((*shape.on[p], shape.wattrs[p])) in shape.inputs[p].progress for p in (0, 1)]
        if individual and own in names and any(grouped) and all(a or b for a, b in zip(linear, grouped, strict=True)):
            found |= {frozenset((*naming, names[own])) for _, naming in shape.namings()}
    if joint and all(linear) and all(w in n for w, n in zip(shape.wattrs, shape.names, strict=True)):
        found.add(frozenset(n[w] for w, n in zip(shape.wattrs, shape.names, strict=True)))
    if all(linear):
        found |= {frozenset((name,)) for name in shape.extremes if name}
    return frozenset(found)


def _bare(length: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(length)], names=["nothing"])
