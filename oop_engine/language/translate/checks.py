"""Refuse texts that read like a query and do not mean what they seem to."""

from __future__ import annotations

from oop_engine.language import syntax as s
from oop_engine.language.quoted import Known, refuse_names, refuse_selected
from oop_engine.language.translate.scope import Scope
from oop_engine.language.translate.tree import aggregates
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import pieces, rewritten
from oop_engine.query_errors import LanguageError


def refuse_quoted(tree: s.Query, known: Known) -> None:
    """Raise the LanguageError for the name of an attribute or a result that stands in quotes, and so is text."""
    results = known.also(item.alias for item in tree.select if item.alias is not None)
    for item in tree.select:
        refuse_selected(item, known, tree.text)
    if tree.where is not None:
        refuse_names(tree.where, known, tree.text)
    for item in tree.group_by:
        if isinstance(item, s.SelectItem) and not isinstance(item.expr, s.Star):
            refuse_names(item.expr, results, tree.text)
    if tree.having is not None:
        refuse_names(tree.having, results, tree.text)


def refuse_results(tree: s.Query, scope: Scope) -> None:
    """Raise the LanguageError for a condition in WHERE on what the SELECT list computes and names."""
    named = {item.alias: item.expr for item in tree.select if item.alias is not None}
    for name in pieces(tree.where) if tree.where is not None else ():
        if not isinstance(name, s.Name) or len(name.parts) != 1 or name.parts[0] not in named:
            continue
        try:
            scope.attribute(name)
        except LanguageError as error:
            computed = named[name.parts[0]]
            message = f'"{name}" names a column of the result, and WHERE comes before: it looks at single tuples.'
            hint = "Write the condition after HAVING."
            if not isinstance(computed, s.Star) and not any(aggregates(computed)):
                hint = f"Write {unparse_expression(rewritten(computed, _as_said))} in its place."
            raise LanguageError.at(name.span, message, tree.text, hint=hint) from error


def _as_said(piece: s.Expr) -> s.Expr | None:
    """Return a name as the query says it, where a join has put that of its own attribute there."""
    return s.Name(tuple(piece.said.split("."))) if isinstance(piece, s.Name) and piece.said else None
