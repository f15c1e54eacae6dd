"""Find aggregates in a syntax tree, and name its pieces as the columns of a result."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from oop_engine.language import syntax as s
from oop_engine.language.expressions import SCALARS
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import pieces


def aggregates(node: s.Expr) -> Iterator[s.Call]:
    """Return the calls, from the top down, of what is no function of one tuple's values."""
    return (piece for piece in pieces(node) if isinstance(piece, s.Call) and piece.function not in SCALARS)


def column_name(item: s.SelectItem) -> str:
    """Return the name of a result's column: its alias, else what was written, `sum(len)` as sum_len."""
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
    """Return the wanted name, numbered when it is taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
