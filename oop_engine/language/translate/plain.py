"""A SELECT list becomes the columns of a result, in its order and under its names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.translate.scope import Scope
from oop_engine.language.translate.tree import column_name
from oop_engine.query_errors import LanguageError
from operators.expression import Column, Expression

Starred: TypeAlias = Callable[[s.Star], Sequence[str]]
"""Gives the attributes that `*` or `A.*` stands for, or raises the LanguageError that points at it."""


@attrs.define(eq=False)
class Columns:
    """The columns of a result as they are collected; no two bear one name."""

    text: str
    found: dict[str, Expression] = attrs.field(init=False, factory=dict)

    def add(self, name: str, expression: Expression, item: s.SelectItem) -> None:
        """Add a column; LanguageError, pointing at the item of the SELECT list, when there is one of its name."""
        if name in self.found:
            message = f'two columns of the result are named "{name}".'
            raise LanguageError.at(item.span, message, self.text, hint="Rename one with AS.")
        self.found[name] = expression

    def of(self, stream: Stream) -> Stream:
        """Return a stream with these columns; itself when it has just these."""
        same = all(isinstance(e, Column) and e.name == name for name, e in self.found.items())
        if same and list(self.found) == stream.schema.names:
            return stream
        return stream.project(**self.found)


def selected(tree: s.Query, scope: Scope, starred: Starred) -> Stream:
    """Return the results of a query without aggregates."""
    if tree.having is not None:
        message = "HAVING is about groups, and this query has neither GROUP BY nor aggregates."
        raise LanguageError.at(tree.having.span, message, tree.text, hint="Write the condition after WHERE.")
    columns = Columns(tree.text)
    for item in tree.select:
        if isinstance(item.expr, s.Star):
            for name in starred(item.expr):
                columns.add(name, Column(name), item)
        else:
            columns.add(column_name(item), scope.expression(item.expr), item)
    return columns.of(scope.stream)
