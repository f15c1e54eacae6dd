"""A scope is a stream that a query reads, and the meaning of the query's names in it."""

from __future__ import annotations

import attrs
import pyarrow as pa

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.expressions import attribute_of, expression_of
from oop_engine.language.walk import rewritten
from oop_engine.query_errors import LanguageError
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.expression import Expression


def check_condition(expression: Expression, schema: Schema, what: str, node: s.Expr, text: str) -> None:
    """Raise the LanguageError for a WHERE or HAVING that is neither true nor false."""
    kind = expression.type(schema)
    if not pa.types.is_boolean(kind):
        message = f"{what} takes a condition, and this is of type {kind}."
        raise LanguageError.at(node.span, message, text, hint="Compare it with something, e.g. length > 100.")


@attrs.frozen(eq=False)
class Scope:
    """The streams and attributes that a FROM clause gives to the rest of its query."""

    stream: Stream
    streams: tuple[str, ...]
    """What may stand before the dot of a qualified name."""
    text: str

    @property
    def schema(self) -> Schema:
        """Return the attributes of the stream."""
        return self.stream.schema

    def over(self, stream: Stream) -> Scope:
        """Return the same names over what became of the stream."""
        return attrs.evolve(self, stream=stream)

    def attribute(self, name: s.Name) -> str:
        """Return the attribute that a name means; raises LanguageError."""
        return attribute_of(name, self.schema, self.text, streams=self.streams)

    def starred(self, star: s.Star) -> list[str]:
        """Return the attributes that `*`, or `M.*` of the stream M, stands for; raises LanguageError."""
        if star.stream is not None and star.stream.lower() not in (stream.lower() for stream in self.streams):
            hint = did_you_mean(star.stream, self.streams) if self.streams else "Write *."
            raise LanguageError.at(star.span, f'there is no stream "{star.stream}" here.', self.text, hint=hint)
        return self.schema.names

    def expression(self, node: s.Expr) -> Expression:
        """Make the expression that a piece of the query means; raises LanguageError."""
        return expression_of(node, self.schema, self.text, resolve=self.attribute)

    def resolved(self, node: s.Expr, *, tolerant: bool = False) -> s.Expr:
        """Replace names by those of their attributes, so that `M.len` and `length` become equal trees.

        A name that means nothing is left as it is when `tolerant`, else raises LanguageError.
        """

        def change(piece: s.Expr) -> s.Expr | None:
            if not isinstance(piece, s.Name):
                return None
            try:
                return s.Name((self.attribute(piece),), span=piece.span)
            except LanguageError:
                if tolerant:
                    return piece
                raise

        return rewritten(node, change)
