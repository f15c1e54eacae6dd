"""LOOKUP adds the columns of tables, or of streams of rows, to what FROM gives, and says what qualified names mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
import pyarrow as pa

from oop_engine.api.exporter_names import KINDS, ExporterNames, announcing, exporter_names
from oop_engine.api.lookup import READY, RELOADED, Reference, as_of, label, lookup_of, table_name, table_of
from oop_engine.api.stream import Stream
from oop_engine.api.versions import Replaced
from oop_engine.errors import PlanError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import attribute_of
from oop_engine.language.translate.amounts import Amounts
from oop_engine.language.translate.scope import Scope
from oop_engine.language.translate.source import Sources
from oop_engine.language.translate.tree import free_name
from oop_engine.language.walk import chain, pieces, rewritten, rewritten_alert
from oop_engine.plan.graph import operator_node
from oop_engine.query_errors import LanguageError
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.join.as_of import AsOfLookup
from operators.rows.lookup import Lookup

Change: TypeAlias = Callable[[s.Expr], "s.Expr | None"]


@attrs.frozen(eq=False)
class Tables:
    """The tables that a query and those in it may look up, each read once."""

    given: Mapping[str, Reference]
    _read: dict[str, pa.RecordBatch] = attrs.field(init=False, factory=dict)
    _replaced: dict[str, tuple[Mapping[str, object], Stream]] = attrs.field(init=False, factory=dict)
    """Files that are replaced while a run goes on, with their keys and the types of these."""

    def find(
        self, lookup: s.Lookup, text: str, streams: Mapping[str, Stream]
    ) -> pa.RecordBatch | Stream | ExporterNames | Replaced:
        """Return the table or the stream of rows that a lookup names; raises LanguageError."""
        given = lookup.table if lookup.path else self._named(lookup, text, streams)
        if isinstance(given, Stream | ExporterNames):
            return given
        if isinstance(given, str) and given.startswith(RELOADED):
            with placed(lookup.span, text):
                return Replaced.of(given.removeprefix(RELOADED))
        if lookup.wait or lookup.revise is not None:
            message = f"{lookup.table} is a table, which is there at once; WAIT and REVISE are for streams of rows."
            raise LanguageError.at(lookup.span, message, text, hint="Leave it out.")
        key = f"{'path' if lookup.path else 'name'} {lookup.table.lower()}"
        if key not in self._read:
            with placed(lookup.span, text, errors=(ValueError, OSError)):
                self._read[key] = table_of(given, lookup.table)
        return self._read[key]

    def replaced(self, file: Replaced, pairs: Sequence[tuple[str, str]], schema: Schema) -> Stream:
        """Return the rows of a file that is replaced, the same to all lookups: a version is taken once."""
        types = {column: None for _, column in pairs} | file.types(pairs, schema)
        before, stream = self._replaced.get(file.text, (types, None))
        if before != types:
            raise PlanError(
                f'"{RELOADED}{file.text}": one lookup finds its rows by {", ".join(before)}, and another by'
                f" {', '.join(types)}, or by attributes of another type.\n"
                "  Look up by the same columns and types, or have a file and a folder for each."
            )
        if stream is None:
            stream = file.stream(types, {column: kind for column, kind in types.items() if kind is not None})
            self._replaced[file.text] = types, stream
        return stream

    def _named(self, lookup: s.Lookup, text: str, streams: Mapping[str, Stream]) -> Reference | Stream | ExporterNames:
        for tables in (self.given, streams):
            alike = [name for name in tables if name.lower() == lookup.table.lower()]
            if lookup.table in tables or len(alike) == 1:
                return tables[lookup.table if lookup.table in tables else alike[0]]
        if lookup.table.lower() in READY:
            return READY[lookup.table.lower()]()
        if lookup.table.lower() in KINDS:
            return exporter_names(lookup.table.lower())
        hint = did_you_mean(lookup.table, [*self.given, *streams])
        if not self.given:
            name = lookup.table
            hint = (
                f'No table is given. Write --table {name}={name}.csv, in Python query(..., tables={{"{name}":'
                f' "{name}.csv"}}), or\n  LOOKUP "{name}.csv" AS {name} ON ...'
            )
        raise LanguageError.at(lookup.span, f'there is no table "{lookup.table}".', text, hint=hint)


@attrs.frozen(eq=False)
class Lookups:
    """The lookups of a query, in order, and the query in which names of their tables are those of attributes."""

    tree: s.Query
    operators: Sequence[tuple[Lookup | AsOfLookup, Stream | ExporterNames | None]]
    """Each with the stream of rows that it looks up in, or the names that the exporters of its own stream send."""

    def over(self, scope: Scope) -> Scope:
        """Return a scope behind the lookups."""
        own = scope.stream.node
        if any(isinstance(rows, ExporterNames) for _, rows in self.operators):
            own = announcing(own)
        node = own
        for operator, rows in self.operators:
            others = () if rows is None else (rows.rows(own) if isinstance(rows, ExporterNames) else rows.node,)
            node = operator_node(operator, node, *others, label=label(operator), remarks=operator.remarks())
        return scope.over(Stream(node))


def lookups_of(tree: s.Query, sources: Sources, tables: Tables) -> Lookups:
    """Make the lookups of a query over the stream of its FROM clause; raises LanguageError."""
    if isinstance(tree.source, s.Join):
        message = "LOOKUP is over one stream, and this FROM joins several."
        hint = (
            "Look up before the join, FROM (SELECT * FROM A LOOKUP ...) AS A [RANGE ...], B ..., or behind it,"
            " FROM (SELECT ... FROM A, B ...) LOOKUP ..."
        )
        raise LanguageError.at(tree.lookups[0].span, message, tree.text, hint=hint)
    scope = sources.scope(tree.source)
    operators: list[tuple[Lookup | AsOfLookup, Stream | ExporterNames | None]] = []
    schema, waiting = scope.schema, list(tree.lookups)
    tree = attrs.evolve(tree, lookups=())
    taken = [stream.lower() for stream in scope.streams]
    while waiting:
        lookup = waiting.pop(0)
        name = lookup.alias or (table_name(lookup.table) if lookup.path else lookup.table)
        if name.lower() in taken:
            message = f'"{name}" is the name of another input of this query.'
            hint = f"Name the table: LOOKUP {name} AS other ON ..."
            raise LanguageError.at(lookup.span, message, tree.text, hint=hint)
        taken.append(name.lower())
        given = tables.find(lookup, tree.text, sources.streams)
        stream = given if isinstance(given, Stream) else None
        if isinstance(given, Replaced):
            with placed(lookup.span, tree.text, errors=(ValueError, OSError)):
                columns = given.columns()
            pairs = list(_Over(lookup, name, columns, schema, scope, None).pairs())
            with placed(lookup.span, tree.text, errors=(ValueError, OSError)):
                stream = tables.replaced(given, pairs, schema)
            lookup = lookup if lookup.valid_from is not None else _valid_since(lookup)
        if isinstance(given, ExporterNames):
            with placed(lookup.span, tree.text):
                stream = Stream(given.rows(announcing(scope.stream.node)))
            lookup = lookup if lookup.valid_from is not None else _valid_since(lookup)
        table = given if isinstance(given, pa.RecordBatch) else None
        if table is None:
            assert stream is not None
            table = pa.RecordBatch.from_pylist([], schema=stream.schema.arrow)
        names = [*_names(tree), *(piece for later in waiting for piece in _named(later.on))]
        asked = {piece.parts[1] for piece in names if _of_table(piece, name)}
        first_holds = isinstance(given, ExporterNames)
        operator = _Over(lookup, name, table, schema, scope, stream, first_holds).operator(asked)
        brought = {old: new for new, old in operator.columns.items()}
        operators.append((operator, given if isinstance(given, ExporterNames) else stream))
        schema = operator.output_schema(schema, *(() if stream is None else (stream.schema,)))
        change = _renaming(name, table, brought, tree.text)
        tree = _changed(tree, name, change, [new for old, new in brought.items() if old not in operator.keys])
        waiting = [attrs.evolve(later, on=rewritten(later.on, change)) for later in waiting]
    return Lookups(tree, operators)


def _valid_since(lookup: s.Lookup) -> s.Lookup:
    """Return a lookup of rows that hold from the time in their column since."""
    return attrs.evolve(lookup, valid_from=s.Name(("since",), span=lookup.span))


@attrs.frozen(eq=False)
class _Over:
    """One lookup over a schema, and the names of streams in the query."""

    lookup: s.Lookup
    name: str
    table: pa.RecordBatch
    schema: Schema
    scope: Scope
    stream: Stream | None
    """The stream of rows, where it is no table."""
    first_holds: bool = False
    """Whether its first row of a key was valid before, too."""

    def operator(self, asked: Collection[str]) -> Lookup | AsOfLookup:
        """Make the operator; of the columns that are looked up it brings those that are asked for."""
        lookup, text = self.lookup, self.scope.text
        names: list[str] = self.table.schema.names
        pairs = list(self.pairs())
        valid_from = None if lookup.valid_from is None else _column(lookup.valid_from, self.name, self.table, text)
        at = "ts" if lookup.at is None else self._attribute(lookup.at)
        keys = {key for _, key in pairs} | {valid_from}
        columns: dict[str, str] = {}
        for column in names:
            if column not in keys or column in asked:
                free = column not in self.schema and column not in columns
                new = column if free else f"{self.name}_{column}"
                columns[new if free else free_name(new, [*self.schema.names, *columns, *names])] = column
        if self.stream is not None:
            revise = None
            if lookup.revise is not None:
                revise = Amounts(self.schema.field(at, where="query"), text).amount(lookup.revise, "REVISE")
            with placed(lookup.span, text, said=f"lookup in {self.name}"):
                looked = as_of(
                    self.schema, self.stream.schema, self.name, pairs, columns=columns, required=lookup.required,
                    valid_from=valid_from, at=at, wait=lookup.wait, revise=revise,
                    first_holds=self.first_holds,
                )  # fmt: skip
                looked.output_schema(self.schema, self.stream.schema)
            return looked
        with placed(lookup.span, text, said=f"lookup in {self.name}"):
            operator = lookup_of(
                self.schema, self.table, self.name, pairs,
                columns=columns, required=lookup.required, valid_from=valid_from, at=at,
            )  # fmt: skip
            operator.output_schema(self.schema)
        return operator

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the attribute and the column of each condition after ON."""
        on, name = self.lookup.on, self.name
        names: list[str] = self.table.schema.names
        for condition in chain(on)[1] if isinstance(on, s.Binary) and on.op == "and" else [on]:
            match condition:
                case s.Binary(op="=", l=s.Name() as one, r=s.Name() as other):
                    pass
                case _:
                    message = "a LOOKUP finds rows by columns that are equal to attributes."
                    hint = (
                        f"Write ON attribute = {name}.{next(iter(names), 'column')} AND ...; compute an attribute in"
                        " FROM (SELECT ...), and put\n  other conditions after WHERE."
                    )
                    raise LanguageError.at(condition.span, message, self.scope.text, hint=hint)
            if not _of_table(one, name):
                one, other = other, one
            if not _of_table(one, name) and (len(one.parts) > 1 or str(one) in self.schema):
                one, other = other, one
            streams = [stream.lower() for stream in self.scope.streams]
            if len(other.parts) == 2 and other.parts[0].lower() not in streams and str(other) not in self.schema:
                message = f'"{other}" is of no table or stream of this query.'
                raise LanguageError.at(other.span, message, self.scope.text, hint=f"Write {name}.{other.parts[-1]}.")
            yield self._attribute(other), _column(one, name, self.table, self.scope.text)

    def _attribute(self, name: s.Name) -> str:
        return attribute_of(name, self.schema, self.scope.text, streams=self.scope.streams)


def _of_table(written: s.Name, name: str) -> bool:
    return len(written.parts) == 2 and written.parts[0].lower() == name.lower()


def _column(written: s.Name, name: str, table: pa.RecordBatch, text: str) -> str:
    """Return the column that a name means; raises LanguageError."""
    column, names = written.parts[-1], table.schema.names
    own = len(written.parts) == 1 or _of_table(written, name)
    if column in names and own:
        return column
    message = f'the table {name} has no column "{column if own else written}".'
    hint = f"{name} has {', '.join(names)}. {did_you_mean(column, names)}"
    raise LanguageError.at(written.span, message, text, hint=hint)


def _renaming(name: str, table: pa.RecordBatch, brought: Mapping[str, str], text: str) -> Change:
    """Return the change that puts attributes in the places of columns of a table."""

    def change(piece: s.Expr) -> s.Expr | None:
        if not isinstance(piece, s.Name) or not _of_table(piece, name):
            return None
        column = _column(piece, name, table, text)
        return s.Name((brought[column],), said=str(piece), span=piece.span)

    return change


def _changed(tree: s.Query, name: str, change: Change, starred: Sequence[str]) -> s.Query:
    """Return a query with its expressions changed, and what `name.*` stands for."""
    select: list[s.SelectItem] = []
    for item in tree.select:
        if not isinstance(item.expr, s.Star):
            select.append(attrs.evolve(item, expr=rewritten(item.expr, change)))
        elif item.expr.stream is not None and item.expr.stream.lower() == name.lower():
            select += [s.SelectItem(s.Name((new,), span=item.span), None, span=item.span) for new in starred]
        else:
            select.append(item)
    return attrs.evolve(
        tree,
        select=tuple(select),
        where=None if tree.where is None else rewritten(tree.where, change),
        group_by=tuple(_grouped(item, change) for item in tree.group_by),
        having=None if tree.having is None else rewritten(tree.having, change),
        alert=None if tree.alert is None else rewritten_alert(tree.alert, change),
        order=tuple(attrs.evolve(item, expr=rewritten(item.expr, change)) for item in tree.order),
        within=tuple(_renamed(name, change) for name in tree.within),
    )


def _grouped(item: s.Name | s.SelectItem, change: Change) -> s.Name | s.SelectItem:
    if isinstance(item, s.Name):
        return _renamed(item, change)
    return item if isinstance(item.expr, s.Star) else attrs.evolve(item, expr=rewritten(item.expr, change))


def _renamed(name: s.Name, change: Change) -> s.Name:
    found = rewritten(name, change)
    assert isinstance(found, s.Name)
    return found


def _names(tree: s.Query) -> Iterator[s.Name]:
    """Yield the names in what a query computes of the tuples of FROM."""
    found: list[s.Expr | s.Star] = [item.expr for item in tree.select]
    found += [item if isinstance(item, s.Name) else item.expr for item in tree.group_by]
    found += [*(item.expr for item in tree.order), *tree.within]
    alert = () if tree.alert is None else (tree.alert.when, tree.alert.clear)
    found += [condition for condition in (tree.where, tree.having, *alert) if condition is not None]
    for expression in found:
        if not isinstance(expression, s.Star):
            yield from _named(expression)


def _named(expression: s.Expr) -> Iterator[s.Name]:
    return (piece for piece in pieces(expression) if isinstance(piece, s.Name))
