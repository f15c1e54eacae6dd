"""Random grammatical streams on toy domains, where an error of one tick cannot hide.

Times lie close together (gaps of 0 to 3, now and then 9), from about 0 on or mostly before it; values are few, tuples
come twice now and then, pages are cut anywhere and may be empty.
Tuples arrive disordered; every punctuation that is drawn is true of the rest of its stream: linear ones, some stale or
repeated, group-wise ones by constants, lists and ranges, and general ones on any attributes. Each port ends with END.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

import attrs
import pyarrow as pa

from operators.data.page import Page, Row, Scalar
from operators.data.schema import Schema, is_ip
from operators.data.steps import from_ticks, in_steps, is_stepped_decimal
from operators.protocol import Element
from operators.testing.script import Script
from punctuation import END, Below, Between, Equals, OneOf, Pattern, Punctuation, Range, Value, before

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "operators.testing draws its streams with hypothesis, which is not installed.\n"
        '  Install the extra: pip install "oop-engine[test]".'
    ) from error

T = TypeVar("T")

_BEFORE = -30
"""Where times begin that are mostly before 0: there, what was never set is no longer what lies before all of them."""
_ADDRESSES = tuple(bytes(10) + b"\xff\xff" + bytes(rest) for rest in ((10, 0, 0, 1), (10, 0, 0, 2), (192, 168, 1, 0)))


@attrs.frozen
class Domain:
    """The values from which the tuples and promises of one port are drawn."""

    schema: Schema
    wattrs: tuple[str, ...]
    group: tuple[str, ...]
    tuples: int
    disorder: int
    nulls: frozenset[str]
    promises: frozenset[str]


def streams(
    schema: Schema | Sequence[Schema],
    *,
    wattr: str | Sequence[str] = "ts",
    group: Sequence[str] = (),
    ports: int | None = None,
    tuples: int = 10,
    disorder: int = 4,
    nulls: Collection[str] | None = None,
    promises: Collection[str] = ("linear", "group", "general"),
) -> st.SearchStrategy[Script]:
    """Return a strategy of scripts.

    One schema for all of `ports` (1 when not said), or one a port. `wattr`: the attributes on which the streams
    progress, integers, times or decimals; those a schema lacks are left out. `group`: the attributes of group-wise
    promises. `tuples`: at most so many a port. `disorder`: how far, in ticks, a tuple may lag. `nulls`: the attributes
    that may be null, by default all but `wattr`. `promises`: the kinds to draw.
    """
    schemas = (schema,) * (ports or 1) if isinstance(schema, Schema) else tuple(schema)
    wattrs = (wattr,) if isinstance(wattr, str) else tuple(wattr)
    domains = [
        Domain(
            schema=each,
            wattrs=tuple(name for name in wattrs if name in each),
            group=tuple(name for name in group if name in each),
            tuples=tuples,
            disorder=disorder,
            nulls=frozenset(set(each.names) - set(wattrs) if nulls is None else set(nulls) & set(each.names)),
            promises=frozenset(promises),
        )
        for each in schemas
    ]
    return _scripts(domains)


@st.composite
def _scripts(draw: st.DrawFn, domains: Sequence[Domain]) -> Script:
    since = _pick(draw, (0, 0, _BEFORE))
    queues = [_elements(draw, domain, since) for domain in domains]
    order = [port for port, queue in enumerate(queues) for _ in queue]
    if len(queues) > 1:
        order = draw(st.permutations(order))
    taken = [iter(queue) for queue in queues]
    return Script(tuple(d.schema for d in domains), tuple((port, next(taken[port])) for port in order))


def _elements(draw: st.DrawFn, domain: Domain, since: int) -> list[Element]:
    """Draw the stream of one port: tuples in order of arrival, cut into pages, with true promises between."""
    arriving = _tuples(draw, domain, since)
    elements: list[Element] = []
    page: list[Row] = []
    made: list[Punctuation] = []

    def close(*, empty: bool = False) -> None:
        if page or empty:
            names = domain.schema.names
            elements.append(_page(domain.schema, [[row[name] for name in names] for row in page]))
            page.clear()

    for i in range(len(arriving) + 1):
        action = _pick(draw, ("go on", "go on", "go on", "cut", "empty page", "promise", "promise", "two promises"))
        if action in ("cut", "empty page"):
            close(empty=action == "empty page")
        for _ in range({"promise": 1, "two promises": 2}.get(action, 0)):
            promise = _promise(draw, domain, arriving[i:], arriving, made)
            if promise is not None:
                close()
                elements.append(promise)
                made.append(promise)
        if i < len(arriving):
            page.append(arriving[i])
    close()
    return [*elements, END]


def _page(schema: Schema, rows: Sequence[Sequence[Scalar]]) -> Page:
    """Make a page of tuples whose decimals are in ticks."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    arrays = [
        from_ticks(pa.array(values, pa.int64()), field.type) if is_stepped_decimal(field.type) else values
        for values, field in zip(columns, schema.arrow, strict=True)
    ]
    return Page.of(schema, dict(zip(schema.names, arrays, strict=True)))


def _tuples(draw: st.DrawFn, domain: Domain, since: int) -> list[Row]:
    """Draw tuples in order of time, then let each arrive up to `disorder` ticks late."""
    now: int = since + draw(st.integers(-3, 3))
    drawn: list[tuple[int, Row]] = []
    count: int = draw(st.integers(0, domain.tuples))
    for _ in range(count):
        gap = _pick(draw, (0, 1, 1, 2, 3, 9, None))
        if gap is None and drawn:
            drawn.append((now + _pick(draw, range(domain.disorder + 1)), dict(drawn[-1][1])))
            continue
        now += gap or 0
        row: Row = {}
        for field in domain.schema.arrow:
            if field.name in domain.wattrs:
                late = 0 if field.name == domain.wattrs[0] else _pick(draw, (0, 1, 2))
                row[field.name] = now + late
            else:
                row[field.name] = _pick(draw, cells(field))
            if field.name in domain.nulls and _pick(draw, (False, False, False, True)):
                row[field.name] = None
        drawn.append((now + _pick(draw, range(domain.disorder + 1)), row))
    return [row for _, row in sorted(drawn, key=lambda pair: pair[0])]


def cells(field: pa.Field) -> tuple[Scalar, ...]:
    """Return a few values of a type, times and decimals in ticks; TypeError for one that streams cannot draw."""
    kind = field.type
    if is_ip(field):
        return _ADDRESSES
    if pa.types.is_boolean(kind):
        return (False, True)
    if pa.types.is_unsigned_integer(kind):
        return (0, 1, 2, 3)
    if in_steps(kind):
        return (0, 1, 2, -1, 3)
    if pa.types.is_floating(kind):
        return (0.0, 1.0, 1.5, -2.0)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ("a", "b", "")
    if pa.types.is_fixed_size_binary(kind):
        return tuple(bytes([i]) * kind.byte_width for i in range(3))
    if pa.types.is_binary(kind):
        return (b"", b"a", b"b")
    raise TypeError(f'streams cannot draw values of type {kind} for "{field.name}"')


def _promise(
    draw: st.DrawFn, domain: Domain, rest: Sequence[Row], all_rows: Sequence[Row], made: Sequence[Punctuation]
) -> Punctuation | None:
    """Draw a promise that is true of the rest of the stream, None when the one drawn is not."""
    kinds = [kind for kind in ("linear", "group", "general") if kind in domain.promises]
    kind = _pick(draw, [k for k in kinds if k != "linear" or domain.wattrs] + (["again"] if made else []))
    if kind == "again":
        return _pick(draw, made)
    if kind == "linear":
        name = _pick(draw, domain.wattrs)
        return before(name, _bound(draw, name, rest, all_rows))
    if kind == "group" and domain.group:
        return _group_promise(draw, domain, rest, all_rows)
    if kind == "general":
        count: int = draw(st.integers(1, min(2, len(domain.schema.names))))
        names = draw(st.permutations(domain.schema.names))
        patterns: dict[str, Pattern] = {}
        for name in names[:count]:
            patterns[name] = _pattern(draw, domain.schema.arrow.field(name))
        promise = Punctuation(patterns)
        return None if any(promise.matches(row) for row in rest) else promise
    return None


def _group_promise(draw: st.DrawFn, domain: Domain, rest: Sequence[Row], all_rows: Sequence[Row]) -> Punctuation:
    patterns: dict[str, Pattern] = {}
    for name in domain.group:
        values = cells(domain.schema.arrow.field(name))
        one, other = _constant(_pick(draw, values)), _constant(_pick(draw, values))
        how = "one" if one == other else _pick(draw, ("one", "one", "listed", "between"))
        listed = OneOf(frozenset((one, other))) if how == "listed" else Equals(one)
        stepped = how == "between" and in_steps(domain.schema.field(name).type) and not is_ip(domain.schema.field(name))
        patterns[name] = Between(*sorted((int(one), int(other)))) if stepped else listed
    of_groups = Punctuation(patterns)
    left = [row for row in rest if of_groups.matches(row)]
    if not domain.wattrs or (not left and _pick(draw, (False, True))):
        return of_groups if not left else Punctuation({**patterns, domain.schema.names[0]: Below(_NOTHING)})
    name = domain.wattrs[0]
    return Punctuation({**patterns, name: Below(_bound(draw, name, left, all_rows))})


_NOTHING = -(2**40)
"""Below every value that is drawn, so that a promise of less than this promises nothing."""


def _bound(draw: st.DrawFn, name: str, rest: Sequence[Row], all_rows: Sequence[Row]) -> int:
    """Draw a bound no greater than every value that is still to come, mostly the greatest such."""
    values = [int(v) for row in rest if (v := row[name]) is not None]
    seen = [int(v) for row in all_rows if (v := row[name]) is not None]
    best = min(values) if values else max(seen, default=0) + _pick(draw, (1, 5))
    return best - _pick(draw, (0, 0, 1, 2))


def _pattern(draw: st.DrawFn, field: pa.Field) -> Pattern:
    values = cells(field)
    one, other = _constant(_pick(draw, values)), _constant(_pick(draw, values))
    if is_ip(field) or not in_steps(field.type):
        return Equals(one) if one == other else OneOf(frozenset((one, other)))
    low, high = sorted((int(one), int(other)))
    return _pick(
        draw,
        (
            Equals(one),
            OneOf(frozenset((one, other))),
            Between(low, high + 1),
            Range(low, high + 2, low_open=True, high_open=True),
            Range(low, high),
            Range(high, None),
            Range(None, low),
        ),
    )


def _constant(value: Scalar) -> Value:
    assert value is not None
    return value


def _pick(draw: st.DrawFn, values: Sequence[T]) -> T:
    return draw(st.sampled_from(values))
