"""Several inputs in a FROM clause become a chain of window joins; each condition of WHERE goes where it is cheapest.

An equality between two inputs is hashed, a condition on one input filters it before the join, any other is asked of the
pairs; none is lost. The rest of the query reads one stream, and its names are replaced by those of that stream's
attributes.

Three inputs or more meet when each two of them do: of times that last for a while, all have a moment in common as soon
as each two have (thesis 5.2: they were in their windows at the same time). So the order of the chain does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

from oop_engine.api.join import Joining, flush_said
from oop_engine.api.stream import Stream
from oop_engine.errors import SchemaError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import expression_of
from oop_engine.language.quoted import Known
from oop_engine.language.translate.checks import refuse_quoted
from oop_engine.language.translate.inputs import Inputs
from oop_engine.language.translate.join_times import timed
from oop_engine.language.translate.join_window import InputWindow, input_windows, pair_window, within
from oop_engine.language.translate.plain import Starred
from oop_engine.language.translate.scope import Scope, check_condition
from oop_engine.language.translate.source import Sources
from oop_engine.language.translate.tree import column_name, free_name
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import pieces, rewritten
from oop_engine.query_errors import LanguageError
from operators.data.schema import Schema
from operators.expression import Expression, Logical
from operators.join import OAJoin, SameWindow


def joined(tree: s.Query, source: s.Join, sources: Sources) -> tuple[s.Query, Scope, Starred]:
    """Join the inputs of a query.

    Gives the query over the joined stream, with what of WHERE can only be asked there; that stream; and what `*` and
    `A.*` stand for. Raises LanguageError.
    """
    inputs = Inputs.of(source, sources)
    outer = source.kind != "inner"
    on = [] if source.on is None else list(_parts(source.on))
    where = [] if tree.where is None else list(_parts(tree.where))
    inputs.enter((*_names(tree), *(name for part in on for name in pieces(part) if isinstance(name, s.Name))))
    if len(inputs) == 2 and source.window is None and all(item.window is None for item in source.items):
        asked = on if outer else [*on, *where]
        source, asked = timed(source, asked, inputs.meant)
        inputs.put_windows(source)
        on, where = (asked, where) if outer else ([], asked)
    schemas = [some.scope.schema for some in inputs.inputs]
    refuse_quoted(tree, Known.of(*schemas, streams=[name for some in inputs.inputs for name in some.scope.streams]))
    windows = input_windows(inputs, source)
    extreme = _extreme(tree, inputs, windows)
    conditions = _Conditions(inputs)
    conditions.sort(where if outer else [*on, *where], source.kind if outer else "inner", on if outer else [])
    inputs.name_columns()
    columns = [name for some in inputs.inputs for name in some.columns.values()]
    named = {} if extreme is None else {extreme.function: free_name(extreme.function, columns)}
    stream = inputs[0].scope.stream
    for number in range(1, len(inputs)):
        stream = _chained(stream, number, inputs, windows, conditions, source, named)
    if extreme is not None:
        tree = _with_extreme(tree, extreme, named[extreme.function])
    if source.kind in ("semi", "anti"):
        inputs.hidden = f"{source.kind.upper()} JOIN"
    left = None
    for condition in conditions.left:
        left = condition if left is None else s.Binary("and", left, condition, span=condition.span)
    return _over(attrs.evolve(tree, where=left), inputs), Scope(stream, (), tree.text), inputs.starred


@attrs.define(eq=False)
class _Conditions:
    """The conditions of WHERE, each at its place."""

    inputs: Inputs
    keys: dict[int, list[tuple[tuple[int, str], str]]] = attrs.field(init=False, factory=dict)
    """By number of the later input: the attribute of an input before it, and its own."""
    residual: dict[int, list[s.Expr]] = attrs.field(init=False, factory=dict)
    """By number of the last input they look at."""
    left: list[s.Expr] = attrs.field(init=False, factory=list)
    """Those that look at no input's attribute."""
    _filters: dict[int, list[Expression]] = attrs.field(init=False, factory=dict)

    def sort(self, conditions: Sequence[s.Expr], kind: s.JoinKind, on: Sequence[s.Expr]) -> None:
        """Find the place of every condition; filter the inputs.

        - `conditions`: those of WHERE, which are about pairs, or all of them for an inner join.
        - `kind`: the kind of the join.
        - `on`: of another join than an inner one, what makes a pair. A tuple that no pair has must be kept, so only
          the input that gives no such tuples is filtered.
        """
        if kind != "inner":
            self.left = list(conditions)
            filtered = {"left": 1, "semi": 1, "anti": 1, "right": 0}.get(kind)
            conditions = on
        else:
            filtered = None
        for place, condition in enumerate(conditions):
            meant = [self.inputs.meant(name) for name in pieces(condition) if isinstance(name, s.Name)]
            sides = {found[0] for found in meant if found is not None}
            if kind != "inner" and (not sides or None in meant or (len(sides) == 1 and sides != {filtered})):
                self.residual.setdefault(len(self.inputs) - 1, []).append(condition)
            elif not sides or None in meant:
                self.left.append(condition)
            elif len(sides) == 1:
                self._filter(min(sides), condition, conditions[place + 1 : place + 2])
            elif not self._hashed(condition):
                self.residual.setdefault(max(sides), []).append(condition)
        for number, expressions in self._filters.items():
            whole, *others = expressions
            for expression in others:
                whole = Logical("and", whole, expression)
            scope = self.inputs[number].scope
            self.inputs[number].scope = scope.over(scope.stream.filter(whole))

    def _filter(self, number: int, condition: s.Expr, following: Sequence[s.Expr]) -> None:
        scope, text = self.inputs[number].scope, self.inputs.text
        expression = scope.expression(self.inputs.own(condition))
        names = [name for name in (condition, *following) if isinstance(name, s.Name)]
        if len(names) == 2 and not pa.types.is_boolean(expression.type(scope.schema)):
            message = f"WHERE takes conditions, and {names[0]} is neither true nor false."
            raise LanguageError.at(condition.span, message, text, hint=f"Did you mean {names[0]} = {names[1]}?")
        check_condition(expression, scope.schema, "WHERE", condition, text)
        self._filters.setdefault(number, []).append(expression)

    def _hashed(self, condition: s.Expr) -> bool:
        """Take an equality of two inputs as a key of their join, unless their types are not hashed alike."""
        if not isinstance(condition, s.Binary) or condition.op != "=":
            return False
        sides = [self._of_one(part) for part in (condition.l, condition.r)]
        if None in sides or sides[0] == sides[1]:
            return False
        (one, left), (other, right) = sorted(zip(sides, (condition.l, condition.r), strict=True), key=_number)
        assert one is not None and other is not None
        fields = [self._field(number, part) for number, part in ((one, left), (other, right))]
        if not _hashable(*fields):
            return False
        key = (one, self._attribute(one, left)), self._attribute(other, right)
        self.keys.setdefault(other, []).append(key)
        # NaN equals NaN where it is hashed, and nothing where it is compared.
        return not any(pa.types.is_floating(field.type) for field in fields)

    def _of_one(self, node: s.Expr) -> int | None:
        """Return the one input that an expression looks at."""
        meant = [self.inputs.meant(name) for name in pieces(node) if isinstance(name, s.Name)]
        sides = {None if found is None else found[0] for found in meant}
        return sides.pop() if len(sides) == 1 else None

    def _field(self, number: int, node: s.Expr) -> pa.Field:
        """Return the type of an expression over one input."""
        scope = self.inputs[number].scope
        own = self.inputs.own(node)
        expression = scope.expression(own)
        if isinstance(own, s.Name):
            return scope.schema.field(own.parts[0])
        return pa.field("key", expression.type(scope.schema))

    def _attribute(self, number: int, node: s.Expr) -> str:
        """Return the attribute that holds an expression over one input, derived unless it is one."""
        own = self.inputs.own(node)
        if isinstance(own, s.Name):
            return own.parts[0]
        expression = self.inputs[number].scope.expression(own)
        return self.inputs.derive(number, unparse_expression(own), expression)


def _number(side: tuple[int | None, s.Expr]) -> int:
    assert side[0] is not None
    return side[0]


def _chained(
    stream: Stream,
    number: int,
    inputs: Inputs,
    windows: Sequence[InputWindow],
    conditions: _Conditions,
    source: s.Join,
    named: Mapping[str, str],
) -> Stream:
    """Join what was joined so far with the next input."""
    item, right = inputs[number], inputs[number].scope.stream
    on = [(inputs[i].columns[a], b) for (i, a), b in conditions.keys.get(number, [])]
    window = pair_window(windows[0], windows[number], inputs.text)
    span = source.window.span if source.window is not None else item.item.span
    with placed(span, inputs.text):
        joining = Joining(window=window, on=tuple(on), prefix=item.prefix, least=named.get("least", ""))
        joining = attrs.evolve(joining, greatest=named.get("greatest", ""), cardinality=source.cardinality)
        node = joining.over(stream.node, right.node)
    if (flush := source.flush) is not None:
        with placed(flush.span, inputs.text, said=f'join(kind="{source.kind}", flush="{flush.name}")'):
            joining = attrs.evolve(joining, flush=flush_said(source.kind, flush.name, dict(flush.options)))
    asked: list[Expression] = []
    for before in range(1, number):
        names = inputs[before].columns[windows[before].wattr], item.columns[windows[number].wattr]
        if (related := within(windows[before], windows[number], names)) is not None:
            asked.append(related)
    for condition in conditions.residual.get(number, []):
        expression = expression_of(
            inputs.renamed(condition), node.schema, inputs.text, resolve=lambda name: name.parts[0]
        )
        check_condition(expression, node.schema, "WHERE", condition, inputs.text)
        asked.append(expression)
    if not asked and source.kind == "inner":
        return Stream(node)
    residual = None
    for expression in asked:
        residual = expression if residual is None else Logical("and", residual, expression)
    with placed(span, inputs.text):
        return Stream(attrs.evolve(joining, residual=residual, kind=source.kind).over(stream.node, right.node))


def _extreme(tree: s.Query, inputs: Inputs, windows: Sequence[InputWindow]) -> s.Call | None:
    """Return the lesser or greater of both times that the window of an aggregate is over; None for another window."""
    call = None if tree.window is None else tree.window.wattr
    if not isinstance(call, s.Call) or call.function not in ("least", "greatest"):
        return None
    meant = [inputs.meant(name) for name in call.args if isinstance(name, s.Name)]
    times = [(number, window.wattr) for number, window in enumerate(windows)]
    if len(inputs) == 2 and sorted(found for found in meant if found is not None) == times and len(call.args) == 2:
        return call
    message = f"a window over {call.function}(...) is over the times of a join of two inputs."
    hint = f"Write WA {call.function}({inputs[0].shown(windows[0].wattr)}, {inputs[1].shown(windows[1].wattr)})."
    raise LanguageError.at(call.span, message, inputs.text, hint=hint)


def _with_extreme(tree: s.Query, call: s.Call, name: str) -> s.Query:
    """Return a query with the attribute that holds the lesser or greater time in the place of its call."""

    def change(piece: s.Expr) -> s.Expr | None:
        same = isinstance(piece, s.Call) and piece.function == call.function and set(piece.args) == set(call.args)
        return s.Name((name,), said=unparse_expression(call), span=piece.span) if same else None

    def item(given: s.SelectItem) -> s.SelectItem:
        if isinstance(given.expr, s.Star):
            return given
        expr = rewritten(given.expr, change)
        return given if expr == given.expr else attrs.evolve(given, expr=expr, alias=column_name(given))

    assert tree.window is not None
    groups = tuple(group if isinstance(group, s.Name) else item(group) for group in tree.group_by)
    window = attrs.evolve(tree.window, wattr=s.Name((name,), span=call.span))
    return attrs.evolve(tree, select=tuple(item(given) for given in tree.select), group_by=groups, window=window)


def _over(tree: s.Query, inputs: Inputs) -> s.Query:
    """Return a query with its names replaced by those of the joined stream."""
    aliases = {item.alias for item in (*tree.select, *tree.group_by) if isinstance(item, s.SelectItem) and item.alias}

    def item(given: s.SelectItem) -> s.SelectItem:
        return given if isinstance(given.expr, s.Star) else attrs.evolve(given, expr=inputs.renamed(given.expr))

    groups: list[s.Name | s.SelectItem] = []
    for group in tree.group_by:
        renamed = inputs.renamed(group, aliases=aliases) if isinstance(group, s.Name) else item(group)
        assert isinstance(renamed, s.Name | s.SelectItem)
        groups.append(renamed)
    return attrs.evolve(
        tree,
        select=tuple(item(given) for given in tree.select),
        window=None if tree.window is None else _window(tree.window, inputs),
        beside=tuple(_window(window, inputs) for window in tree.beside),
        group_by=tuple(groups),
        having=None if tree.having is None else inputs.renamed(tree.having, aliases=aliases),
        where=None if tree.where is None else inputs.renamed(tree.where),
    )


def _window(clause: s.WindowClause, inputs: Inputs) -> s.WindowClause:
    wattr = clause.wattr
    in_time = all(d.unit not in ("rows", "plain") for d in (clause.range, clause.slide) if isinstance(d, s.Duration))
    if wattr is None and clause.rattr is None and in_time:
        wattr = s.Name(("ts",), span=clause.span)
        if len(several := [some.shown("ts") for some in inputs.inputs if "ts" in some.scope.schema]) > 1:
            message = f"this window does not say on which time it is: {' or '.join(several)}."
            raise LanguageError.at(clause.span, message, inputs.text, hint=f"Add WA {several[0]}.")
    changed: dict[str, object] = {"wattr": wattr, "rattr": clause.rattr, "sattr": clause.sattr}
    for field, node in changed.items():
        if isinstance(node, s.Name | s.Call):
            changed[field] = inputs.renamed(node)
    if isinstance(clause.range, s.Marked):
        changed["range"] = attrs.evolve(clause.range, by=inputs.renamed(clause.range.by))
    if isinstance(clause.range, s.When):
        leave = clause.range.leave
        changed["range"] = attrs.evolve(
            clause.range,
            enter=inputs.renamed(clause.range.enter),
            leave=None if leave is None else inputs.renamed(leave),
        )
    return attrs.evolve(clause, **changed, partition=tuple(inputs.renamed(name) for name in clause.partition))


def _parts(where: s.Expr) -> Iterator[s.Expr]:
    """Yield the conditions that must all hold."""
    waiting = [where]
    while waiting:
        node = waiting.pop()
        if isinstance(node, s.Binary) and node.op == "and":
            waiting += [node.r, node.l]
        else:
            yield node


def _names(tree: s.Query) -> Iterator[s.Name]:
    """Return all names of a query outside FROM."""
    found: list[s.Expr] = [item.expr for item in tree.select if not isinstance(item.expr, s.Star)]
    for group in tree.group_by:
        if isinstance(group, s.Name):
            found.append(group)
        elif not isinstance(group.expr, s.Star):
            found.append(group.expr)
    found += [node for node in (tree.where, tree.having) if node is not None]
    for window in tree.windows:
        attributes = (window.wattr, window.rattr, window.sattr, *window.partition)
        found += [node for node in attributes if node is not None]
    return (piece for expression in found for piece in pieces(expression) if isinstance(piece, s.Name))


def _hashable(left: pa.Field, right: pa.Field) -> bool:
    """Return whether a join can hash two attributes as equal."""
    tick = pa.field("tick", pa.int64())
    schemas = [Schema(pa.schema([tick, field.with_name("key")])) for field in (left, right)]
    try:
        OAJoin(SameWindow("tick", "tick", size=1), [("key", "key")]).output_schema(*schemas)
    except SchemaError:
        return False
    return True
