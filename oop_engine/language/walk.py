"""Pieces of an expression are found, replaced and read here; a long chain of operators is walked, not recursed into."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import attrs

from oop_engine.language import syntax as s

_NODES = (s.Name, s.Literal, s.Call, s.Unary, s.Binary, s.Between, s.InList, s.InNetwork, s.IsNull)
Number = int | float | Decimal


def rewritten(node: s.Expr, change: Callable[[s.Expr], s.Expr | None]) -> s.Expr:
    """Replace every piece for which `change` gives another, from the top down; a replacement is not looked into."""
    spine: list[s.Binary] = []
    while (found := change(node)) is None and isinstance(node, s.Binary):
        spine.append(node)
        node = node.l
    done = _inside(node, change) if found is None else found
    for piece in reversed(spine):
        done = attrs.evolve(piece, l=done, r=rewritten(piece.r, change))
    return done


def rewritten_alert(alert: s.Alert, change: Callable[[s.Expr], s.Expr | None]) -> s.Alert:
    """Replace pieces of the conditions of an alert, as `rewritten` does."""
    clear = None if alert.clear is None else rewritten(alert.clear, change)
    return attrs.evolve(alert, when=rewritten(alert.when, change), clear=clear)


def _inside(node: s.Expr, change: Callable[[s.Expr], s.Expr | None]) -> s.Expr:
    changed: dict[str, object] = {}
    for field in attrs.fields(type(node)):
        value: object = getattr(node, field.name)
        if isinstance(value, _NODES):
            changed[field.name] = rewritten(value, change)
        elif isinstance(value, tuple) and value and isinstance(value[0], _NODES):
            changed[field.name] = tuple(rewritten(part, change) for part in value)
    return attrs.evolve(node, **changed) if changed else node


def pieces(node: s.Expr) -> Iterator[s.Expr]:
    """Return an expression and every expression inside it, from the top down."""
    found: list[s.Expr] = []

    def note(piece: s.Expr) -> None:
        found.append(piece)

    rewritten(node, note)
    return iter(found)


def chain(node: s.Binary) -> tuple[list[s.Binary], list[s.Expr]]:
    """Return the links of a chain of one operator, such as a AND b AND c, and what they link; both from the left."""
    links: list[s.Binary] = []
    first: s.Expr = node
    while isinstance(first, s.Binary) and first.op == node.op:
        links.append(first)
        first = first.l
    links.reverse()
    return links, [first, *(link.r for link in links)]


def number_of(node: s.Expr) -> Number | None:
    """Return the number that a constant is, with or without a sign; None for what is none."""
    negative = False
    while isinstance(node, s.Unary) and node.op == "-":
        negative = not negative
        node = node.x
    if not isinstance(node, s.Literal) or not isinstance(node.value, Number) or isinstance(node.value, bool):
        return None
    return negated(node.value) if negative else node.value


def negated(value: Number) -> Number:
    """Return a number with the other sign; a decimal keeps all its digits."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def replaced(query: s.Query, named: Mapping[str, s.Query]) -> s.Query:
    """Put queries in the places of the tables of their names, as WITH says; names differ in case as streams do."""
    window = query.window
    if window is not None and window.events is not None:
        window = attrs.evolve(window, events=attrs.evolve(_with_named(window.events, named), alias=None))
    return attrs.evolve(query, source=_with_named(query.source, named), window=window)


def _with_named(source: s.From, named: Mapping[str, s.Query]) -> s.From:
    match source:
        case s.Table(path=False) if source.name in named:
            alias = source.alias or source.name
            return s.SubQuery(
                named[source.name], alias=alias, window=source.window, steps=source.steps, span=source.span
            )
        case s.SubQuery():
            return attrs.evolve(source, query=replaced(source.query, named))
        case s.Union() | s.Join():
            return attrs.evolve(source, items=tuple(_with_named(item, named) for item in source.items))
        case _:
            return source


def tables_of(query: s.Query) -> Iterator[s.Table]:
    """Yield the streams and files that a query reads, those of events too, in the order of its sources."""
    for source in (query.source, *_events(query)):
        yield from tables(source)


def _events(query: s.Query) -> Iterator[s.From]:
    """Yield what fires the windows of a query."""
    yield from (window.events for window in query.windows if window.events is not None)


def tables(source: s.From) -> Iterator[s.Table]:
    """Yield the streams and files that a source reads, those inside queries too, in the order of the text."""
    stack: list[s.From] = [source]
    while stack:
        found = stack.pop()
        match found:
            case s.Table():
                yield found
            case s.SubQuery():
                stack.extend((*_events(found.query), found.query.source))
            case s.Union() | s.Join():
                stack.extend(reversed(found.items))
