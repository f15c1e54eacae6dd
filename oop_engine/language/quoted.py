"""Refuse quoted text where only the name of an attribute makes sense.

Elsewhere double quotes are for names, so that `"srcIP" = '10.0.0.6'` would compare two texts and be false in silence.
Beside an attribute text is text, whatever it says: `host = "name"`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs

from oop_engine.language import syntax as s
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import pieces
from oop_engine.query_errors import LanguageError
from oop_engine.span import NOWHERE, Span
from operators.data.schema import ALIASES, Schema, aliases_of
from operators.expression.scalar_functions import FUNCTIONS

_PREDICATES = (s.Between, s.InList, s.InNetwork, s.IsNull)
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


@attrs.frozen
class Known:
    """The names that attributes and results have, by themselves in small letters."""

    names: Mapping[str, str]
    streams: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *schemas: Schema, streams: Iterable[str] = (), more: Iterable[str] = ()) -> Known:
        """Take the names of the attributes of some schemas, and further ones."""
        found: dict[str, str] = {}
        for schema in schemas:
            short = [short for short, name in ALIASES.items() if name in schema]
            of_fields = [alias for field in schema.arrow for alias in aliases_of(field)]
            for name in (*schema.names, *short, *of_fields):
                found.setdefault(name.lower(), name)
        return cls(found, frozenset(stream.lower() for stream in streams)).also(more)

    def also(self, more: Iterable[str]) -> Known:
        """Return these names and more."""
        return attrs.evolve(self, names={**{name.lower(): name for name in more}, **self.names})

    def meant(self, text: object) -> s.Name | None:
        """Return the name that a text is; None when it is none."""
        written = str(text)
        if (name := self.names.get(written.lower())) is not None:
            return s.Name((name,))
        stream, dot, attribute = written.partition(".")
        name = self.names.get(attribute.lower()) if dot and stream.lower() in self.streams else None
        return None if name is None else s.Name((stream, name))


def refuse_names(node: s.Expr, known: Known, text: str) -> None:
    """Raise the LanguageError for a name in quotes that stands by itself, in a call, in arithmetic, or beside texts."""
    for literal in _suspects(node):
        _refuse(literal, known, text)


def refuse_selected(item: s.SelectItem, known: Known, text: str) -> None:
    """Raise the LanguageError for a name in quotes in a SELECT list; 'name' AS x is a text, as it says."""
    if isinstance(item.expr, s.Star):
        return
    if item.alias is not None and isinstance(item.expr, s.Literal) and _first(item.expr.span, text) == "'":
        return
    refuse_names(item.expr, known, text)


def about_names(node: s.Expr, known: Known) -> str:
    """Say of a piece that does not fit which of its texts could be meant as a name; nothing where none could."""
    for literal in _texts(_operands(node)):
        if (name := known.meant(literal.value)) is not None:
            return _sentence(literal, name)
    return ""


def _refuse(literal: s.Literal, known: Known, text: str) -> None:
    name = known.meant(literal.value)
    if name is not None:
        raise LanguageError.at(literal.span, _sentence(literal, name), text)


def _sentence(literal: s.Literal, name: s.Name) -> str:
    back_quoted = ".".join("`" + part.replace("`", "``") + "`" for part in name.parts)
    plain = unparse_expression(name)
    written = back_quoted if plain == back_quoted else f"{plain} or {back_quoted}"
    return f'"{literal.value}" in quotes is text; write {written}.'


def _suspects(node: s.Expr) -> Iterator[s.Literal]:
    """Yield the texts that stand where no text makes sense, or where nothing but constants is compared."""
    yield from _texts([node])
    for piece in pieces(node):
        operands = _operands(piece)
        compared = (
            isinstance(piece, _PREDICATES)
            or (isinstance(piece, s.Call) and piece.function in FUNCTIONS)
            or (isinstance(piece, s.Binary) and piece.op in _COMPARISONS)
        )
        if not compared or all(_constant(operand) for operand in operands):
            yield from _texts(operands)


def _operands(node: s.Expr) -> list[s.Expr]:
    """Return the expressions directly inside one, but for the name of a type or a network, which are text."""
    match node:
        case s.Name() | s.Literal():
            return []
        case s.Call():
            return list(node.args[:1] if node.function == "cast" else node.args)
        case s.Binary():
            return [node.l, node.r]
        case s.Between():
            return [node.x, node.low, node.high]
        case s.InList():
            return [node.x, *node.items]
        case s.Unary() | s.InNetwork() | s.IsNull():
            return [node.x]


def _texts(nodes: Collection[s.Expr]) -> Iterator[s.Literal]:
    return (node for node in nodes if isinstance(node, s.Literal) and isinstance(node.value, str))


def _constant(node: s.Expr) -> bool:
    return not any(isinstance(piece, s.Name) or (isinstance(piece, s.Call) and piece.star) for piece in pieces(node))


def _first(span: Span, text: str) -> str:
    """Return the character that a piece of the text begins with."""
    if span == NOWHERE:
        return ""
    return text.split("\n")[span.line - 1][span.column - 1 : span.column]
