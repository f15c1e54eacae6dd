"""Resolve names in a query of several inputs: to an attribute of one, and to its name in the joined stream.

The joined name is the input's own, or alias_name where an input before it has an attribute of that name, or
alias_2_name and so on where that is taken too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import refuse_paths
from oop_engine.language.translate.scope import Scope
from oop_engine.language.translate.source import Sources
from oop_engine.language.translate.tree import free_name
from oop_engine.language.walk import rewritten
from oop_engine.plan.arrival_attributes import numbered, stamped
from oop_engine.plan.graph import Node
from oop_engine.query_errors import LanguageError
from oop_engine.sources.protocol import ARRIVAL
from operators.data.schema import ALIASES, ROW_NUM
from operators.errors import SchemaError, did_you_mean
from operators.expression import Expression

Item = s.Table | s.Union | s.SubQuery


@attrs.define(eq=False)
class Input:
    """One input of a join: its stream, which filters and derivations are put over, and what names mean there."""

    item: Item
    scope: Scope
    starred: tuple[str, ...]
    """The attributes that `*` stands for."""
    columns: dict[str, str] = attrs.field(init=False, factory=dict)
    """Attributes to their names in the joined stream."""
    prefix: str = attrs.field(init=False, default="")
    """What goes before an attribute's name that an input before this one has too."""

    @property
    def name(self) -> str:
        """Return the name that the query gives the input; empty if none."""
        return self.scope.streams[-1] if self.scope.streams else ""

    def shown(self, attribute: str) -> str:
        """Write an attribute as the query may."""
        return f"{self.name}.{attribute}" if self.name else attribute

    def name_columns(self, taken: Collection[str]) -> None:
        """Say what the attributes are called in the joined stream, in which some names are taken."""
        names, number = self.scope.schema.names, 1
        others = {name for name in names if name not in taken}
        self.prefix = f"{self.name or 'right'}_"
        while any(self.prefix + name in others or self.prefix + name in taken for name in names if name in taken):
            number += 1
            self.prefix = f"{self.name or 'right'}_{number}_"
        self.columns = {name: self.prefix + name if name in taken else name for name in names}


@attrs.define(eq=False)
class Inputs:
    """The inputs of a join, in order."""

    inputs: list[Input]
    text: str
    hidden: str = attrs.field(init=False, default="")
    """Why only the first input has attributes: "SEMI JOIN" or "ANTI JOIN"; empty where all have."""
    _entered: dict[tuple[int, str], Node] = attrs.field(init=False, factory=dict)

    @classmethod
    def of(cls, join: s.Join, sources: Sources) -> Inputs:
        """Find the streams; raises LanguageError."""
        found: list[Input] = []
        for item in join.items:
            scope = sources.scope(attrs.evolve(item, window=None))
            found.append(Input(item, scope, tuple(scope.schema.names)))
        return cls(found, sources.text)

    def __getitem__(self, number: int) -> Input:
        return self.inputs[number]

    def __len__(self) -> int:
        return len(self.inputs)

    def put_windows(self, join: s.Join) -> None:
        """Take the windows of a join's items, which are those of the inputs."""
        for some, item in zip(self.inputs, join.items, strict=True):
            some.item = attrs.evolve(some.item, window=item.window)

    def enter(self, names: Iterable[s.Name]) -> None:
        """Add the arrival numbers and times that are asked of inputs by name, as in M1.arrival-ts."""
        for name in names:
            if len(name.parts) == 2 and name.parts[-1] in (ROW_NUM, ARRIVAL):
                self.enter_one(self._qualified(name), name)

    def enter_one(self, number: int, name: s.Name) -> None:
        """Add the arrival number or time that a name asks of an input, unless it has it; one stream stays one."""
        scope, wanted = self[number].scope, name.parts[-1]
        if wanted not in (ROW_NUM, ARRIVAL) or wanted in scope.schema:
            return
        key = id(scope.stream.node), wanted
        with placed(name.span, self.text):
            if key not in self._entered:
                node = scope.stream.node
                self._entered[key] = numbered(node) if wanted == ROW_NUM else stamped(node)
        self[number].scope = scope.over(Stream(self._entered[key]))

    def derive(self, number: int, wanted: str, expression: Expression) -> str:
        """Derive an attribute of an input, under the wanted name unless it has that; gives the name."""
        scope = self[number].scope
        name = free_name(wanted, scope.schema.names)
        self[number].scope = scope.over(scope.stream.derive(**{name: expression}))
        return name

    def name_columns(self) -> None:
        """Say what all attributes are called in the joined stream, as a chain of joins calls them."""
        taken: set[str] = set()
        for some in self.inputs:
            some.name_columns(taken)
            taken |= set(some.columns.values())

    def meant(self, name: s.Name) -> tuple[int, str] | None:
        """Return the input and the attribute that a name means; None for one that no input has.

        Raises LanguageError for a name that several have, and for a qualified one that means nothing.
        """
        *qualifiers, word = name.parts
        if qualifiers:
            number = self._qualified(name)
            return number, self[number].scope.attribute(name)
        found: list[tuple[int, str]] = []
        for number, some in enumerate(self._seen):
            try:
                found.append((number, some.scope.schema.resolve(word, where="query")))
            except SchemaError:
                continue
        if len(found) > 1:
            ways = [self[number].shown(word) for number, _ in found]
            said = [way if "." in way else f"that of input {n + 1}" for way, (n, _) in zip(ways, found, strict=True)]
            message = f'"{name}" could be {" or ".join(said)}.'
            hint = "Write it with the name of its stream."
            if not all("." in way for way in ways):
                hint = "Give each input a name, as in (SELECT ...) AS a, and write a." + word + "."
            raise LanguageError.at(name.span, message, self.text, hint=hint)
        if found:
            return found[0]
        joined = ((n, a) for n, some in enumerate(self._seen) for a, c in some.columns.items() if c == word)
        return next(joined, None)

    def renamed(self, node: s.Expr, *, aliases: Collection[str] = ()) -> s.Expr:
        """Replace names by those of the joined stream; one that no input has stays, and an alias that several have."""

        def change(piece: s.Expr) -> s.Expr | None:
            if not isinstance(piece, s.Name):
                return None
            try:
                found = self.meant(piece)
            except LanguageError:
                if len(piece.parts) == 1 and piece.parts[0] in aliases:
                    return piece
                raise
            return piece if found is None else self._column(piece, self[found[0]].columns[found[1]])

        return rewritten(node, change)

    def own(self, node: s.Expr) -> s.Expr:
        """Replace names by those of the one input that they are of."""

        def change(piece: s.Expr) -> s.Expr | None:
            if not isinstance(piece, s.Name):
                return None
            found = self.meant(piece)
            return piece if found is None else s.Name((found[1],), span=piece.span)

        return rewritten(node, change)

    def _column(self, name: s.Name, column: str) -> s.Name:
        """Name a column as it was written where that means it, so that results are called what the query says."""
        written = name.parts[-1]
        known = any(written in some.columns.values() for some in self.inputs)
        same = not known and ALIASES.get(written) == column
        return s.Name((written if same else column,), said=str(name), span=name.span)

    def starred(self, star: s.Star) -> list[str]:
        """Return the names, in the joined stream, of the attributes that `*` or `A.*` stands for."""
        chosen = self._seen
        if star.stream is not None:
            chosen = [self[self._qualified(s.Name((star.stream, "*"), span=star.span))]]
        return [some.columns[name] for some in chosen for name in some.starred]

    @property
    def _seen(self) -> list[Input]:
        return self.inputs[:1] if self.hidden else self.inputs

    def _streams(self) -> list[str]:
        return [stream for some in self.inputs for stream in some.scope.streams]

    def _qualified(self, name: s.Name) -> int:
        """Return the input that stands before the dot."""
        *qualifiers, attribute = name.parts
        for some in self.inputs:
            refuse_paths(name, some.scope.schema, self.text, streams=self._streams())
        if len(qualifiers) > 1:
            message = f'"{name}" has {len(name.parts)} parts; write stream.attribute.'
            raise LanguageError.at(name.span, message, self.text)
        (qualifier,) = qualifiers
        found = [
            number
            for number, some in enumerate(self.inputs)
            if qualifier.lower() in (stream.lower() for stream in some.scope.streams)
        ]
        if self.hidden and found and 0 not in found:
            message = f"{self.hidden} gives the tuples of {self[0].name or 'its first input'} alone, and not {name}."
            raise LanguageError.at(name.span, message, self.text, hint="Conditions on both stand after ON.")
        exact = [number for number in found if qualifier == self[number].name]
        if len(exact) == 1:
            return exact[0]
        if len(found) == 1:
            return found[0]
        if found:
            message = f'several inputs are called "{qualifier}".'
            hint = (
                f"Name them apart, as in FROM {qualifier} AS a [...], {qualifier} AS b [...], and write a.{attribute}."
            )
            raise LanguageError.at(name.span, message, self.text, hint=hint)
        hint = did_you_mean(qualifier, self._streams())
        raise LanguageError.at(name.span, f'there is no stream "{qualifier}" here.', self.text, hint=hint)
