"""A query with aggregates becomes an aggregation between a derivation and a projection.

Values computed from tuples (group by expressions, arguments of aggregates) are derived under names of their own; what
is computed from results (the SELECT list, HAVING) is the written expression with groups and aggregates replaced by the
attributes that hold them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from decimal import Decimal

import attrs

from oop_engine.api.stream import Stream
from oop_engine.api.windowed import Windowed
from oop_engine.errors import SchemaError
from oop_engine.language import syntax as s
from oop_engine.language.elsewhere import JOINED, about_function, of_one_tuple
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import SCALARS, expression_of, is_aggregate
from oop_engine.language.translate.plain import Columns
from oop_engine.language.translate.rates import RATE, of_windows
from oop_engine.language.translate.scope import Scope, check_condition
from oop_engine.language.translate.tree import aggregates, column_name, free_name, written_name
from oop_engine.language.translate.window import computed, windowed
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import number_of, pieces, rewritten
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span
from operators.expression import Column, Expression
from operators.functions import by_name, constants
from operators.functions.protocol import AggregateFunction
from operators.retractions import SIGN
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.early.firing import ARRIVED, ENDINGS, FINAL, FIRED, FIRING
from operators.window_aggregate.results import REVISION
from operators.window_aggregate.results import WINDOW as PART
from operators.window_aggregate.stores.per_window.wid import START, STOP, WID

WINDOW, EARLY = (WID, START, STOP), (FIRED, FINAL)
"""The attributes that a windowed result has after its own, and one that may be given early."""


def aggregated(tree: s.Query, scope: Scope, events: Stream | None = None) -> Stream:
    """Return the results of a query with aggregates or groups, columns as selected, then those of the window.

    `events`: the stream whose tuples fire the windows.
    The attributes of PA belong to the window: if they are not selected they stand before wid, so that windows of one
    number stay distinct.
    """
    grouping = _Grouping(tree, scope, events)
    grouping.group()
    columns, having = grouping.results()
    stream = grouping.stream()
    if having is not None and tree.having is not None:
        condition = grouping.expression(having, stream)
        check_condition(condition, stream.schema, "HAVING", tree.having, tree.text)
        with placed(tree.having.span, tree.text):
            stream = stream.filter(condition)
    made = Columns(tree.text)
    for item, expression in columns:
        name = column_name(item)
        if name in grouping.told and expression != s.Name((name,)):
            message = f'"{name}" is the name of the window in windowed results.'
            raise LanguageError.at(item.span, message, tree.text, hint="Rename this column with AS.")
        made.add(name, grouping.expression(expression, stream), item)
    if grouping.window is not None:
        grouping.add_partition(made)
        for name in grouping.told:
            made.found.setdefault(name, Column(name))
        for name in grouping.estimates(stream):
            made.found.setdefault(name, Column(name))
    return made.of(stream)


@attrs.define(eq=False)
class _Grouping:
    """Groups and aggregates as they are found, each under the attribute that will hold it."""

    tree: s.Query
    scope: Scope
    events: Stream | None = None
    keys: dict[s.Expr, str] = attrs.field(init=False, factory=dict)
    aliases: dict[str, str] = attrs.field(init=False, factory=dict)
    """Names given in GROUP BY, to the attribute of the group."""
    aggregates: dict[s.Call, str] = attrs.field(init=False, factory=dict)
    functions: dict[str, tuple[AggregateFunction, Span]] = attrs.field(init=False, factory=dict)
    derived: dict[str, Expression] = attrs.field(init=False, factory=dict)
    _inputs: dict[s.Expr, str] = attrs.field(init=False, factory=dict)

    @property
    def window(self) -> s.WindowClause | None:
        return self.tree.window

    @property
    def told(self) -> tuple[str, ...]:
        """Return the attributes that tell of the window of a result."""
        window = self.window
        if window is None:
            return ()
        revision = () if window.lateness is None or window.lateness.value == 0 else (REVISION,)
        # Windows of these kinds fire as promises come, on event time too.
        numbered = isinstance(window.range, s.All | s.Band | s.Calendar | s.When) or (window.session and bool(revision))
        numbered = numbered or (window.when is not None and not window.when.on_event_time)
        early = (*EARLY, *((FIRING,) if numbered else ())) if window.fires else ()
        sign = (SIGN,) if window.refine == "retract" and (early or revision) else ()
        arrived = () if window.interval is None else (ARRIVED,)
        return (*(() if window.name is None else (PART,)), *WINDOW, *early, *revision, *sign, *arrived)

    def estimates(self, stream: Stream) -> Iterator[str]:
        """Yield the attributes of early results that estimate final values."""
        for name in self.functions if self.window is not None and self.window.interval is not None else ():
            yield from (found for ending in ENDINGS if (found := f"{name}_{ending}") in stream.schema)

    def group(self) -> None:
        """Find the groups of PA and GROUP BY."""
        for name in self.window.partition if self.window is not None else ():
            attribute = self.scope.attribute(name)
            self.keys[s.Name((attribute,))] = attribute
        for item in self.tree.group_by:
            if isinstance(item, s.Name):
                self._group(self._meant(item), None)
            elif not isinstance(item.expr, s.Star):
                self._group(item.expr, item.alias)

    def add_partition(self, columns: Columns) -> None:
        """Add the attributes of PA that are not selected to the columns of the result."""
        given = {column.name for column in columns.found.values() if isinstance(column, Column)}
        for name in self.window.partition if self.window is not None else ():
            attribute = self.scope.attribute(name)
            if attribute in columns.found and attribute not in given:
                message = f'"{attribute}" partitions the windows of the result.'
                hint = f"Rename the other column with AS, or select {attribute} under another name."
                raise LanguageError.at(name.span, message, self.tree.text, hint=hint)
            if attribute not in given:
                columns.found[attribute] = Column(attribute)

    def _meant(self, name: s.Name) -> s.Expr:
        """Return the attribute that GROUP BY names, or the item of the SELECT list that bears the name."""
        for item in self.tree.select:
            if item.alias is None or isinstance(item.expr, s.Star):
                continue
            if name.parts == (item.alias,) and item.alias not in self.scope.schema:
                return item.expr
        return name

    def _group(self, expr: s.Expr, alias: str | None) -> None:
        self._refuse_aggregates(expr, "a group is found before anything is aggregated.")
        resolved = self.scope.resolved(expr)
        if not any(isinstance(piece, s.Name) for piece in pieces(resolved)):
            message = "this is the same for all tuples and makes no groups."
            hint = "Group by attributes, by expressions over them, or by what AS names in the SELECT list."
            raise LanguageError.at(expr.span, message, self.tree.text, hint=hint)
        if resolved not in self.keys:
            taken = (*self.told, PART) if self.window is not None and self.window.fires else self.told
            reserved = isinstance(resolved, s.Name) and resolved.parts[0] in taken
            self.keys[resolved] = self._input(resolved, alias or written_name(expr), again=reserved)
        if alias is not None:
            self.aliases[alias] = self.keys[resolved]

    def results(self) -> tuple[list[tuple[s.SelectItem, s.Expr]], s.Expr | None]:
        """Find the aggregates; give the SELECT list and HAVING as expressions over results."""
        for item in self.tree.select:
            if isinstance(item.expr, s.Call) and item.expr.function not in (*SCALARS, RATE):
                self._aggregate(item.expr, column_name(item))
        columns: list[tuple[s.SelectItem, s.Expr]] = []
        for item in self.tree.select:
            if isinstance(item.expr, s.Star):
                message = "* stands for the attributes of single tuples, and this query gives results of many."
                raise LanguageError.at(item.span, message, self.tree.text, hint="Name the groups and aggregates.")
            columns.append((item, self._lifted(item.expr, {})))
        named = {column_name(i): lifted for i, lifted in columns if i.alias or not isinstance(i.expr, s.Name)}
        having = None if self.tree.having is None else self._lifted(self.tree.having, named)
        if not self.functions:
            self._count_groups()
        return columns, having

    def _count_groups(self) -> None:
        """Aggregate something where only the groups are wanted."""
        if not self.tree.group_by:
            assert self.window is not None
            message = "this window has nothing to compute."
            hint = "Add an aggregate to the SELECT list, e.g. count(*)."
            raise LanguageError.at(self.window.span, message, self.tree.text, hint=hint)
        name = free_name("count", self._taken())
        self.functions[name] = (by_name("count", ()), self.tree.span)

    def stream(self) -> Stream:
        """Return the stream of all groups and aggregates."""
        scope, text = self.scope, self.tree.text
        if self.derived:
            scope = scope.over(scope.stream.derive(**self.derived))
        for name, (function, span) in self.functions.items():
            with placed(span, text):
                function.output_field(scope.schema, name)
        functions = {name: function for name, (function, _) in self.functions.items()}
        by = tuple(self.keys.values())
        span = self.window.span if self.window is not None else self.tree.span
        stream = scope.stream if self.window is None else windowed(scope, self.tree.windows)
        with placed(span, text, errors=(SchemaError,)):
            if isinstance(stream, Windowed):
                return computed(stream, functions, by, self.tree.windows[0], text, self.events)
            return stream.aggregate(by=by, **functions)

    def expression(self, lifted: s.Expr, stream: Stream) -> Expression:
        """Make an expression over results."""
        return expression_of(lifted, stream.schema, self.tree.text, resolve=lambda name: name.parts[0])

    def _lifted(self, expr: s.Expr, named: dict[str, s.Expr]) -> s.Expr:
        """Replace groups, aggregates and `named` columns of the result by the attributes that hold them."""

        def change(piece: s.Expr) -> s.Expr | None:
            key = self.keys.get(self.scope.resolved(piece, tolerant=True))
            if key is not None:
                return s.Name((key,), span=piece.span)
            if isinstance(piece, s.Call) and piece.function == RATE:
                return self._lifted(of_windows(piece, self.tree.windows, self.tree.text), named)
            if isinstance(piece, s.Call) and piece.function not in SCALARS:
                return s.Name((self._aggregate(piece, written_name(piece)),), span=piece.span)
            return self._lifted_name(piece, named) if isinstance(piece, s.Name) else None

        return rewritten(expr, change)

    def _lifted_name(self, name: s.Name, named: dict[str, s.Expr]) -> s.Expr:
        if len(name.parts) == 1:
            (word,) = name.parts
            if word in self.aliases:
                return s.Name((self.aliases[word],), span=name.span)
            if word in named:
                return named[word]
            if word in self.told:
                return name
        self.scope.attribute(name)
        message = f'"{name}" is neither grouped nor aggregated: a result stands for many tuples.'
        hint = f"Add {name} to GROUP BY, or aggregate it, e.g. max({name})."
        raise LanguageError.at(name.span, message, self.tree.text, hint=hint)

    def _aggregate(self, call: s.Call, wanted: str) -> str:
        """Return the attribute that holds an aggregate, one for all places where it is written."""
        for argument in call.args:
            self._refuse_aggregates(argument, "an aggregate of aggregates needs a query inside FROM ( ... ).")
        arguments = tuple(self.scope.resolved(argument) for argument in call.args)
        resolved = attrs.evolve(call, args=arguments)
        if resolved not in self.aggregates:
            if not is_aggregate(call.function):
                hint = about_function(call.function, SCALARS)
                if not hint.startswith("Functions"):
                    raise LanguageError.at(
                        call.span, f'there is no function "{call.function}".', self.tree.text, hint=hint
                    )
            given = [self._argument(call, place, argument) for place, argument in enumerate(arguments)]
            names = ["*"] if call.star else given
            with placed(call.span, self.tree.text), _of_ones_own(call, self.tree.text):
                function = by_name(call.function, names, distinct=call.distinct)
            name = free_name(wanted, self._taken())
            self.aggregates[resolved] = name
            self.functions[name] = (function, call.span)
        return self.aggregates[resolved]

    def _argument(self, call: s.Call, place: int, resolved: s.Expr) -> str | float:
        """Return the number that stands where a function takes one, or the attribute that holds an expression."""
        if place in constants(call.function) and (value := number_of(resolved)) is not None:
            return float(value) if isinstance(value, Decimal) else value
        return self._input(resolved, written_name(resolved))

    def _input(self, resolved: s.Expr, wanted: str, *, again: bool = False) -> str:
        """Return the attribute of the input that holds an expression over it, derived unless there is one.

        `again`: under another name than its own, because that one will mean something else in the results.
        """
        if isinstance(resolved, s.Name) and not again:
            return resolved.parts[0]
        if resolved not in self._inputs:
            reserved = (*self.scope.schema.names, *self.derived, *_RESERVED)
            name = self._inputs[resolved] = free_name(wanted, reserved)
            self.derived[name] = self.scope.expression(resolved)
        return self._inputs[resolved]

    def _taken(self) -> set[str]:
        return {*self.keys.values(), *self.functions, *_RESERVED}

    def _refuse_aggregates(self, expr: s.Expr, why: str) -> None:
        for call in aggregates(expr):
            if is_aggregate(call.function):
                message, hint = f"{call.function} cannot stand here: {why}", JOINED if call.function == "concat" else ""
                raise LanguageError.at(call.span, message, self.tree.text, hint=hint)


@contextmanager
def _of_ones_own(call: s.Call, text: str) -> Generator[None, None, None]:
    """Say how a function that is not known, and none of a name near to it, is made; and what stands for DISTINCT."""
    try:
        yield
    except SchemaError as error:
        message, _, known = str(error).partition("\n")
        if is_aggregate(call.function) and call.distinct:
            listed = ", ".join(unparse_expression(argument) for argument in call.args)
            query = f"SELECT {call.function}({listed}) FROM (SELECT DISTINCT {listed} FROM ...)"
            hint = f"{known.strip()}\n  Over distinct values: {query}."
            raise LanguageError.at(call.span, message, text, hint=hint) from error
        if is_aggregate(call.function) or "Did you mean" in str(error):
            raise
        hint = (
            f"{of_one_tuple(SCALARS)}\n  Aggregates are {known.strip().removeprefix('Known are ')}\n"
            "  One of your own is computed in Python: .aggregate(x=oop.user_aggregate(...))."
        )
        message = f'there is no function "{call.function}".'
        raise LanguageError.at(call.span, message, text, hint=hint) from error


_RESERVED = (*WINDOW, *EARLY, FIRING, SIGN, PART, REVISION, FROM, UNTIL, "by", "self")
"""Names that an attribute in between cannot have: Python takes the last two for itself."""
