"""Pieces of a syntax tree are found and replaced here, and named as a result's columns are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import attrs

from oop_engine.language import syntax as s
from oop_engine.language.expressions import SCALARS
from oop_engine.language.unparse import unparse_expression

_NODES = (s.Name, s.Literal, s.Call, s.Unary, s.Binary, s.Between, s.InList, s.InNetwork, s.IsNull)


def rewritten(node: s.Expr, change: Callable[[s.Expr], s.Expr | None]) -> s.Expr:
    """Replace every piece for which `change` gives another, from the top down; a replacement is not looked into."""
    found = change(node)
    if found is not None:
        return found
    changed: dict[str, object] = {}
    for field in attrs.fields(type(node)):
        value: object = getattr(node, field.name)
        if isinstance(value, _NODES):
            changed[field.name] = rewritten(value, change)
        elif isinstance(value, tuple) and value and isinstance(value[0], _NODES):
            changed[field.name] = tuple(rewritten(part, change) for part in value)
    return attrs.evolve(node, **changed) if changed else node


def pieces(node: s.Expr) -> Iterator[s.Expr]:
    """Give an expression and every expression inside it, from the top down."""
    found: list[s.Expr] = []

    def note(piece: s.Expr) -> None:
        found.append(piece)

    rewritten(node, note)
    return iter(found)


def aggregates(node: s.Expr) -> Iterator[s.Call]:
    """Give the calls, from the top down, of what is no function of one tuple's values."""
    return (piece for piece in pieces(node) if isinstance(piece, s.Call) and piece.function not in SCALARS)


def column_name(item: s.SelectItem) -> str:
    """Give the name of a result's column: its alias, else what was written, `sum(len)` as sum_len."""
    return item.alias if item.alias is not None else written_name(item.expr)


def written_name(expr: s.Expr | s.Star) -> str:
    """Name an expression by what was written: an attribute without its stream, sum(len) as sum_len, else its text."""
    match expr:
        case s.Name():
            return expr.parts[-1]
        case s.Call() if expr.function not in SCALARS and all(isinstance(arg, s.Name) for arg in expr.args):
            distinct = ["distinct"] if expr.distinct else []
            return "_".join([expr.function, *distinct, *(written_name(arg) for arg in expr.args)])
        case _:
            return unparse_expression(expr)


def free_name(wanted: str, taken: Collection[str]) -> str:
    """Give the wanted name, numbered when it is taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
