"""The grammar's tree becomes the syntax tree; what a grammar cannot say is checked here.

Names the methods of `_Builder` after the rules and aliases of grammar.lark. Walks without recursion.
"""

from __future__ import annotations

import itertools
import math
import typing as t
from decimal import Decimal

import attrs
from lark import Token, Tree, v_args
from lark.exceptions import VisitError
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from oop_engine.language import syntax as s
from oop_engine.language.walk import replaced, tables_of
from oop_engine.plan.durations import Word, measure, parse_duration
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span
from operators.errors import SchemaError
from operators.expression.constants import instant_ns, instant_text

Clear: t.TypeAlias = "tuple[s.BinaryOperator | None, s.Expr, Span]"
"""What ends an alert: a condition, or the operator and the bound of a threshold."""
_MOST_WINDOWS: t.Final = 1_000_000
_KINDS: t.Final[tuple[s.JoinKind, ...]] = ("semi", "anti", "left", "right", "full")
_INNER: t.Final[s.JoinKind] = "inner"
LARGEST_INTEGER = 2**64 - 1
MAX_TABLES = 256
"""How many streams a query may read once the queries that WITH names stand in their places."""
_CONSTANTS: t.Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}


@attrs.frozen
class _Parameter:
    """One entry of a window's brackets, by the name of the WindowClause field it fills."""

    field: str
    written: str
    value: t.Any
    span: Span


@attrs.frozen
class _Sources:
    """The inputs of a query as they are read, and how they are joined."""

    items: tuple[t.Any, ...]
    kind: s.JoinKind = "inner"
    on: s.Expr | None = None
    flush: s.Flush | None = None
    cardinality: s.Cardinality = "many to many"


def _join_words(kind: s.JoinKind, cardinality: s.Cardinality) -> str:
    """Write which join it is, as the text does."""
    words = ["" if kind == "inner" else kind, "" if cardinality == "many to many" else cardinality, "join"]
    return " ".join(word for word in words if word).upper()


def build(tree: Tree[Token], text: str) -> s.Query | s.Expr:
    """Make the syntax tree of the grammar's `tree` for `text`; raises LanguageError."""
    try:
        return t.cast("s.Query | s.Expr", _Builder(text).transform(tree))
    except VisitError as error:
        if isinstance(error.orig_exc, LanguageError):
            raise error.orig_exc from None
        raise


@v_args(meta=True)
class _Builder(Transformer_NonRecursive[Token, t.Any]):
    def __init__(self, text: str) -> None:
        super().__init__(visit_tokens=False)
        self._text = text
        self._lines = text.split("\n")
        self._triggers: dict[str, s.Trigger] = {}
        """Those that WITH has named so far."""

    def _span(self, at: Meta | Token) -> Span:
        line, column, end_line, end_column = at.line, at.column, at.end_line, at.end_column
        assert line is not None and column is not None and end_column is not None
        if end_line != line:
            end_column = len(self._lines[line - 1].rstrip()) + 1
        return Span(line, column, end_column)

    def _error(self, span: Span, message: str, hint: str = "") -> LanguageError:
        return LanguageError.at(span, message, self._text, hint=hint)

    # The query

    def start(self, _meta: Meta, children: list[t.Any]) -> s.Query:
        named, query = children
        return query if named is None else self._replaced(query, named)

    def ctes(self, _meta: Meta, children: list[t.Any]) -> dict[str, s.Query]:
        """Return the queries that WITH names; each may read those before it."""
        found: dict[str, s.Query] = {}
        for name, query, span in (child for child in children if child is not None):
            if name in found or name in self._triggers:
                raise self._error(span, f'WITH names "{name}" twice.', "Rename one.")
            found[name] = self._replaced(query, found)
        return found

    def _replaced(self, query: s.Query, named: dict[str, s.Query]) -> s.Query:
        """Put queries in their places; what reads itself twice in a row over and over would grow without end."""
        made = replaced(query, named)
        if sum(1 for _ in itertools.islice(tables_of(made), MAX_TABLES + 1)) > MAX_TABLES:
            raise self._error(query.span, f"with the queries of WITH, this reads more than {MAX_TABLES} streams.")
        return made

    def named(self, meta: Meta, children: list[t.Any]) -> tuple[str, s.Query, Span]:
        name, query = children
        return name, query, self._span(meta)

    def named_trigger(self, meta: Meta, children: list[t.Any]) -> None:
        """Keep a trigger for the windows behind it; what it is made of comes before."""
        name, trigger = children
        if name in self._triggers:
            raise self._error(self._span(meta), f'WITH names "{name}" twice.', "Rename one.")
        self._triggers[name] = trigger

    def fires_named(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        (name,) = children
        if name not in self._triggers:
            known = ", ".join(self._triggers)
            hint = "WITH name AS TRIGGER (1 ROW THEN 1000 ROWS) stands before SELECT."
            seen = f"those of WITH are {known}" if known else "WITH names none"
            raise self._error(self._span(meta), f'no trigger is called "{name}"; {seen}.', hint)
        return attrs.evolve(self._triggers[name], span=self._span(meta))

    def alone(self, _meta: Meta, children: list[t.Any]) -> s.Expr:
        return children[0]

    def query(self, meta: Meta, children: list[t.Any]) -> s.Query:
        distinct, select, windows, source, lookups, where, group_by, having, alert, bill, order, limit = children
        window, *beside = windows or (None,)
        if not isinstance(source, s.Join) and source.window is not None:
            if window is not None:
                problem = "this is a second window for one query; the first stands after the select list."
                hint = "Keep one of the two. Several stand after the select list: [SESSION 5 s] AS a, [RANGE 9 s] AS b."
                raise self._error(source.window.span, problem, hint)
            source, window = attrs.evolve(source, window=None), source.window
            if window.named:
                window = attrs.evolve(window, named=False)
                group_by = tuple(item for item in group_by or () if not _of_window(item))
        for closed in (one for one in (window, *beside) if one is not None and one.closed):
            problem = "CLOSED belongs to the inputs of a join: with it, tuples exactly RANGE apart meet."
            raise self._error(closed.span, problem, "The windows of an aggregate hold their begin and not their end.")
        return s.Query(
            select=select,
            window=window,
            beside=tuple(beside),
            source=source,
            lookups=lookups or (),
            where=where,
            group_by=group_by or (),
            having=having,
            alert=alert,
            bill=bill,
            order=order or (),
            limit=None if limit is None else limit[0],
            within=() if limit is None else limit[1],
            distinct=distinct is not None,
            text=self._text,
            span=self._span(meta),
        )

    def select_list(self, _meta: Meta, children: list[t.Any]) -> tuple[s.SelectItem, ...]:
        return tuple(children)

    def star(self, meta: Meta, _children: list[t.Any]) -> s.SelectItem:
        span = self._span(meta)
        return s.SelectItem(s.Star(span=span), None, span=span)

    def star_of(self, meta: Meta, children: list[t.Any]) -> s.SelectItem:
        span = self._span(meta)
        return s.SelectItem(s.Star(stream=children[0], span=span), None, span=span)

    def item(self, meta: Meta, children: list[t.Any]) -> s.SelectItem:
        expr, alias = children
        return s.SelectItem(expr, alias, span=self._span(meta))

    def lookups(self, _meta: Meta, children: list[t.Any]) -> tuple[s.Lookup, ...]:
        return tuple(children)

    def lookup(self, meta: Meta, children: list[t.Any]) -> s.Lookup:
        word, table, alias, on, valid_from, at, rows = children
        path = isinstance(table, Token)
        return s.Lookup(
            _unquoted(table) if path else table,
            on,
            alias=alias,
            path=path,
            required=word.lower().startswith("inner"),
            valid_from=valid_from,
            at=at,
            wait=rows is True,
            revise=None if rows is True else rows,
            span=self._span(meta),
        )

    def wait_for_rows(self, _meta: Meta, _children: list[t.Any]) -> bool:
        return True

    def revise(self, _meta: Meta, children: list[t.Any]) -> s.Duration:
        return children[0]

    def where(self, _meta: Meta, children: list[t.Any]) -> s.Expr:
        return children[0]

    def having(self, _meta: Meta, children: list[t.Any]) -> s.Expr:
        return children[0]

    def alert(self, meta: Meta, children: list[t.Any]) -> s.Alert:
        name, when, windows, clear = children
        if windows is not None and not 1 <= int(windows) <= _MOST_WINDOWS:
            raise self._error(self._span(windows), f"FOR is a number of windows from 1 to {_MOST_WINDOWS:,}.")
        if clear is not None and clear[0] is not None:
            op, bound, span = clear
            if not isinstance(when, s.Binary) or when.op not in ("<", "<=", ">", ">="):
                problem = "CLEAR BELOW and CLEAR ABOVE need a WHEN that compares with <, <=, > or >=."
                raise self._error(span, problem, "Write a condition: CLEAR WHEN count < 10.")
            clear = (None, s.Binary(op, when.l, bound, span=span), span)
        return s.Alert(
            name,
            when,
            windows=1 if windows is None else int(windows),
            clear=None if clear is None else clear[1],
            span=self._span(meta),
        )

    def clear_when(self, meta: Meta, children: list[t.Any]) -> Clear:
        return None, children[0], self._span(meta)

    def clear_below(self, meta: Meta, children: list[t.Any]) -> Clear:
        return "<", children[0], self._span(meta)

    def clear_above(self, meta: Meta, children: list[t.Any]) -> Clear:
        return ">", children[0], self._span(meta)

    def bill(self, meta: Meta, children: list[t.Any]) -> s.Bill:
        value, *more, per, zone, share = children
        if share is not None and not 0 < float(share) <= 1:
            problem = "AT is a share above 0 and at most 1."
            raise self._error(self._span(share), problem, "Write 0.95 for the 95th percentile.")
        return s.Bill(
            value,
            str(per).lower() if isinstance(per, Token) else per,
            more=tuple(more),
            zone="UTC" if zone is None else _unquoted(zone),
            share=0.95 if share is None else float(share),
            span=self._span(meta),
        )

    def billed(self, meta: Meta, children: list[t.Any]) -> s.SelectItem:
        return self.item(meta, children)

    def order_by(self, _meta: Meta, children: list[t.Any]) -> tuple[s.OrderItem, ...]:
        return tuple(children)

    def order_item(self, meta: Meta, children: list[t.Any]) -> s.OrderItem:
        expr, direction = children
        falling = direction is not None and direction.upper() == "DESC"
        return s.OrderItem(expr, descending=falling, span=self._span(meta))

    def limit(self, meta: Meta, children: list[t.Any]) -> tuple[s.Literal, tuple[s.Name, ...]]:
        within = tuple(name for name in children[1:] if name is not None)
        digits = children[0].lstrip("0")
        if not digits or len(digits) > 9:
            raise self._error(self._span(children[0]), "LIMIT is a number of results from 1 to 999999999.")
        return s.Literal(int(digits), span=self._span(meta)), within

    def group_by(self, _meta: Meta, children: list[t.Any]) -> tuple[s.Name | s.SelectItem, ...]:
        return tuple(children)

    def group_item(self, meta: Meta, children: list[t.Any]) -> s.Name | s.SelectItem:
        expr, alias = children
        if isinstance(expr, s.Name) and alias is None:
            return expr
        return s.SelectItem(expr, alias, span=self._span(meta))

    # The sources

    def sources(self, _meta: Meta, children: list[t.Any]) -> _Sources:
        if len(children) == 1:
            return _Sources((children[0],))
        return attrs.evolve(children[0], items=(*children[0].items, children[1]))

    def joins(self, _meta: Meta, children: list[t.Any]) -> _Sources:
        before, word, item, on, flush = children
        said = word.lower().split()
        kind: s.JoinKind = _INNER
        for other in _KINDS:
            if other in said and kind == _INNER:
                kind = other
        one = " ".join(said[said.index("to") - 1 : said.index("to") + 2]) if "to" in said else "many to many"
        cardinality = t.cast("s.Cardinality", one)
        if (kind != "inner" or cardinality != "many to many") and len(before.items) > 1:
            problem = f"{' '.join(said).upper()} joins two inputs, and here are more."
            raise self._error(self._span(word), problem, "Join the others in a query inside FROM (SELECT ...) AS x.")
        if before.kind != "inner" or before.cardinality != "many to many":
            problem = f"{_join_words(before.kind, before.cardinality)} joins two inputs, and here are more."
            raise self._error(self._span(word), problem, "Join two in a query inside FROM (SELECT ...) AS x.")
        both = on if before.on is None else s.Binary("and", before.on, on, span=on.span)
        return _Sources((*before.items, item), kind, both, flush or before.flush, cardinality)

    def flush(self, meta: Meta, children: list[t.Any]) -> s.Flush:
        name, *options = children
        given = tuple(option for option in options if option is not None)
        return s.Flush(str(name).lower(), given, span=self._span(meta))

    def trailing(self, meta: Meta, _children: list[t.Any]) -> Span:
        return self._span(meta)

    def source(self, meta: Meta, children: list[t.Any]) -> s.From:
        sources, trailing = children
        items = list(sources.items)
        last = items[-1]
        if trailing is not None and last.window is None:
            raise self._error(trailing, 'expected the name of a stream after ",".')
        if len(items) == 1:
            return last
        window = None
        only_last = all(item.window is None for item in items[:-1])
        if only_last and last.window is not None and last.window.tumbling:
            window, items = last.window, [*items[:-1], attrs.evolve(last, window=None)]
        if (sources.kind != "inner" or sources.cardinality != "many to many") and len(items) > 2:
            problem = f"{_join_words(sources.kind, sources.cardinality)} joins two inputs, and here are more."
            raise self._error(items[-1].span, problem, "Join two in a query inside FROM (SELECT ...) AS x.")
        return s.Join(
            tuple(items), window=window, kind=sources.kind, on=sources.on, flush=sources.flush,
            cardinality=sources.cardinality, span=self._span(meta),
        )  # fmt: skip

    def from_item(self, _meta: Meta, children: list[t.Any]) -> s.Table | s.Union | s.SubQuery:
        item, *steps, alias, window = children
        if steps:
            if item.window is not None:
                problem = "a window comes after what is done to the tuples in it."
                raise self._error(item.window.span, problem, "Write FROM a SPREAD bytes BY 1 s [RANGE 1 minute].")
            item = attrs.evolve(item, steps=(*item.steps, *steps))
        if alias is not None:
            if item.alias is not None:
                problem = f'this has two names, "{item.alias}" and "{alias}".'
                raise self._error(item.span, problem, "Keep one.")
            item = attrs.evolve(item, alias=alias)
        if window is not None:
            if item.window is not None:
                problem = "this is a second window for one source."
                raise self._error(window.span, problem, "Keep one of the two.")
            item = attrs.evolve(item, window=window)
        return item

    def union(self, meta: Meta, children: list[t.Any]) -> s.Table | s.Union | s.SubQuery:
        # UNION keeps duplicates, and so ALL says nothing more.
        members = [child for child in children if child is not None and not isinstance(child, Token)]
        return members[0] if len(members) == 1 else s.Union(tuple(members), span=self._span(meta))

    def spread(self, meta: Meta, children: list[t.Any]) -> s.Spread:
        *columns, start, end, step = children
        over = None if start is None or end is None else (start, end)
        if step.value <= 0:
            raise self._error(step.span, "BY must be more than 0.")
        return s.Spread(tuple(columns), step, over, span=self._span(meta))

    def numbered(self, meta: Meta, children: list[t.Any]) -> s.Numbered:
        return s.Numbered(children[0], span=self._span(meta))

    def deduped(self, meta: Meta, children: list[t.Any]) -> s.Deduped:
        by, mark = children
        return s.Deduped(by or (), mark, span=self._span(meta))

    def deduped_by(self, _meta: Meta, children: list[t.Any]) -> tuple[s.Name, ...]:
        return tuple(children)

    def table(self, meta: Meta, children: list[t.Any]) -> s.Table:
        return s.Table(children[0], span=self._span(meta))

    def file(self, meta: Meta, children: list[t.Any]) -> s.Table:
        return s.Table(_unquoted(children[0]), path=True, span=self._span(meta))

    def subquery(self, meta: Meta, children: list[t.Any]) -> s.SubQuery:
        return s.SubQuery(children[0], span=self._span(meta))

    def windowed(self, meta: Meta, children: list[t.Any]) -> s.Table:
        """Make a window of the window functions that SQL and Flink write: TUMBLE, HOP, CUMULATE and SESSION."""
        function, name, wattr, *amounts = children
        span, kind = self._span(meta), function.upper()
        form = _WINDOWED[kind]
        if len(amounts) != form.count("INTERVAL"):
            raise self._error(span, f"{kind} takes other arguments.", f"Write {kind}({form}).")
        if any(amount.value <= 0 for amount in amounts):
            raise self._error(span, "a window must be longer than 0.")
        window = s.WindowClause(
            range=amounts[-1],
            slide=amounts[0] if kind == "HOP" else None,
            tumbling=kind in ("TUMBLE", "CUMULATE"),
            session=kind == "SESSION",
            early=amounts[0] if kind == "CUMULATE" else None,
            wattr=wattr,
            named=True,
            span=span,
        )
        path = isinstance(name, Token)
        return s.Table(_unquoted(name) if path else name, path=path, window=window, span=span)

    def interval(self, meta: Meta, children: list[t.Any]) -> s.Duration:
        amount, unit = children
        text = _unquoted(amount) if amount.type == "STRING" else str(amount)
        span = self._span(meta)
        if unit is None and text.strip().isdigit() and int(text):
            raise self._error(span, f"INTERVAL {text.strip()} of what?", f"Write INTERVAL '{text.strip()}' SECOND.")
        try:
            duration = parse_duration(text if unit is None else f"{text} {unit}".lower(), signed=True)
        except LanguageError as error:
            raise self._error(span, error.message, error.hint) from error
        if duration.unit != "ns":
            raise self._error(span, f"INTERVAL is a time, and {duration.text} is none.", "Write INTERVAL '2' SECOND.")
        return attrs.evolve(duration, span=span)

    def grouped(self, _meta: Meta, children: list[t.Any]) -> s.Table | s.Union | s.SubQuery:
        return children[0]

    # The window

    def windows(self, _meta: Meta, children: list[t.Any]) -> tuple[s.WindowClause, ...]:
        """Return the windows of a query; what holds for all of several stands with the first."""
        if len(children) == 1:
            return tuple(children)
        shared: dict[str, t.Any] = {}
        seen: set[str] = set()
        for window in t.cast("list[s.WindowClause]", children):
            if window.name is None:
                hint = "Write [RANGE 1 minute, WA ts] AS minute, [SESSION 5 s, WA ts] AS burst."
                raise self._error(window.span, "windows beside one another have names.", hint)
            if window.name in seen:
                raise self._error(window.span, f'two windows are called "{window.name}".', "Rename one.")
            if window.partition:
                raise self._error(window.span, "PA is of a query with one window.", "GROUP BY holds for all windows.")
            seen.add(window.name)
            for field, written in SHARED_BY_ALL.items():
                value = getattr(window, field)
                if value == _field_default(field):
                    continue
                if shared.setdefault(field, value) != value:
                    problem = f"{written} holds for all windows of a query, and here are two of it."
                    raise self._error(window.span, problem, "Write it in one of the windows.")
        first, *others = children
        usual = {field: _field_default(field) for field in SHARED_BY_ALL}
        return (attrs.evolve(first, **{**usual, **shared}), *(attrs.evolve(other, **usual) for other in others))

    def window_item(self, _meta: Meta, children: list[t.Any]) -> s.WindowClause:
        window, name = children
        return window if name is None else attrs.evolve(window, name=name)

    def window(self, meta: Meta, children: list[t.Any]) -> s.WindowClause:
        span = self._span(meta)
        given: dict[str, t.Any] = {}
        parameters = t.cast("list[_Parameter]", children)
        for parameter in parameters:
            if parameter.field in given:
                raise self._error(parameter.span, f"this window has {parameter.written} twice.")
            given[parameter.field] = parameter.value
            for other, written in (("rattr", "RATTR"), ("sattr", "SATTR")):
                if {"wattr", other} <= given.keys():
                    problem = f"WA stands for both RATTR and SATTR; here are WA and {written}."
                    raise self._error(parameter.span, problem)
        if "range" not in given:
            hint = "Write for example [RANGE 10 minutes, SLIDE 1 minute, WA ts]."
            raise self._error(span, "this window has no RANGE.", hint)
        self._refuse_beside_range(given, parameters)
        if ("rattr" in given) != ("sattr" in given):
            seen, missing = ("RATTR", "SATTR") if "rattr" in given else ("SATTR", "RATTR")
            raise self._error(span, f"this window has {seen} but no {missing}.", "Or write WA for both.")
        length, given["tumbling"], given["session"] = given.pop("range")
        if given["tumbling"] and "slide" in given:
            raise self._error(span, "a TUMBLING window moves by its RANGE; it has no SLIDE.")
        for field, written in (("slide", "SLIDE"), ("origin", "ORIGIN"), ("sattr", "SATTR")):
            if given["session"] and field in given:
                raise self._error(span, f"a SESSION ends where a gap begins; it has no {written}.")
        self._refinement(given, span)
        amounts = [("SESSION" if given["session"] else "RANGE", length)]
        amounts += [(name.upper(), given.get(name)) for name in ("slide", "early", "lateness")]
        amounts += [("AT", moment) for moment in given["at"]]
        amounts += [("BAND", length.size)] if isinstance(length, s.Band) else []
        for written, duration in amounts:
            closed = written == "RANGE" and "closed" in given
            if isinstance(duration, s.Duration) and duration.value == 0 and not closed:
                raise self._error(duration.span, f"{written} must be more than 0.")
        return s.WindowClause(range=length, span=span, **given)

    def _refinement(self, given: dict[str, t.Any], span: s.Span) -> None:
        """Part what EARLY and LATENESS say into when windows are given, and how a result relates to the last one."""
        given["early"], given["at"], given["when"], given["interval"], given["events"], early = given.get(
            "early", (None, (), None, None, None, None)
        )
        late = None
        if "lateness" in given:
            given["lateness"], late = given["lateness"]
        if early is not None and late is not None and early != late:
            raise self._error(
                span,
                f"EARLY says {early.upper()} and LATENESS {late.upper()}; both relate results to the last one.",
                "Leave one of the two words out.",
            )
        given["refine"] = early or late or "accumulate"

    def _parameter(self, field: str, written: str, value: t.Any, meta: Meta) -> _Parameter:
        return _Parameter(field, written, value, self._span(meta))

    def range(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        tumbling, duration = children
        return self._parameter("range", "RANGE", (duration, tumbling is not None, False), meta)

    def range_all(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("range", "RANGE", (s.All(span=self._span(children[0])), False, False), meta)

    def session(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("range", "SESSION", (children[0], False, True), meta)

    def slide(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("slide", "SLIDE", children[0], meta)

    def wattr(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("wattr", "WA", children[0], meta)

    def rattr(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("rattr", "RATTR", children[0], meta)

    def sattr(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("sattr", "SATTR", children[0], meta)

    def partition(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._parameter("partition", "PA", tuple(children), meta)

    def origin(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        minus, duration = children
        if minus is not None:
            span = attrs.evolve(duration.span, line=minus.line, column=minus.column)
            duration = attrs.evolve(duration, value=-duration.value, text=f"-{duration.text}", span=span)
        return self._parameter("origin", "ORIGIN", duration, meta)

    def origin_string(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        literal = s.Literal(_unquoted(children[0]), span=self._span(children[0]))
        return self._parameter("origin", "ORIGIN", literal, meta)

    def no_partial(self, meta: Meta, _children: list[t.Any]) -> _Parameter:
        return self._parameter("partial", "NO PARTIAL", False, meta)

    def closed(self, meta: Meta, _children: list[t.Any]) -> _Parameter:
        return self._parameter("closed", "CLOSED", True, meta)

    def early(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        duration, *others = children
        return self._early(duration, others, meta)

    def early_at(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        return self._early(None, children, meta)

    def _early(self, duration: s.Duration | None, others: list[t.Any], meta: Meta) -> _Parameter:
        at = tuple(other for other in others if isinstance(other, s.Duration | s.Literal))
        return self._parameter("early", "EARLY", (duration, at, None, None, None, _refine(others)), meta)

    def early_when(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        trigger, *others = children
        held = next((other for other in others if isinstance(other, s.Literal)), None)
        events = next((other for other in others if isinstance(other, s.Table | s.SubQuery)), None)
        return self._parameter("early", "EARLY", (None, (), trigger, held, events, _refine(others)), meta)

    def fires_rows(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        number, span = int(children[0]), self._span(meta)
        if not 0 < number <= _MOST_ROWS:
            raise self._error(span, f"windows fire after so many rows, from 1 to {_MOST_ROWS:,}.")
        return s.Trigger("rows", number, span=span)

    def fires_event(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        name, span = _unquoted(children[0]), self._span(meta)
        if not name:
            raise self._error(span, "an event has a name.", "Write for example EVENT 'flush'.")
        return s.Trigger("event", name, span=span)

    def fires_clock(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        (duration,) = children
        if duration.unit != "ns" or duration.value == 0:
            raise self._error(duration.span, "a clock ticks after a time.", "Write for example CLOCK 5 s.")
        return s.Trigger("clock", duration, span=self._span(meta))

    def fires_every(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        (duration,) = children
        if duration.value == 0:
            raise self._error(duration.span, "EVERY must be more than 0.")
        return s.Trigger("every", duration, span=self._span(meta))

    def fires_lull(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        (duration,) = children
        return s.Trigger("lull", duration, span=self._span(meta))

    def fires_at(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return s.Trigger("at", children[0], span=self._span(meta))

    def fires_promise(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return s.Trigger("promise", children[0], span=self._span(meta))

    def fires_any(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return self._combined("or", children, meta)

    def fires_both(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return self._combined("and", children, meta)

    def fires_then(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return self._combined("then", children, meta)

    def fires_until(self, meta: Meta, children: list[t.Any]) -> s.Trigger:
        return self._combined("until", children, meta)

    def _combined(self, kind: t.Literal["or", "and", "then", "until"], children: list[t.Any], meta: Meta) -> s.Trigger:
        parts = tuple(child for child in children if isinstance(child, s.Trigger))
        return s.Trigger(kind, None, parts, span=self._span(meta))

    def moment(self, _meta: Meta, children: list[t.Any]) -> s.Duration:
        return children[0]

    def share(self, meta: Meta, children: list[t.Any]) -> s.Literal:
        number, span = Decimal(children[0]), self._span(meta)
        if not 0 < number < 100:
            raise self._error(span, "a share of a window lies between 0 % and 100 %.")
        return s.Literal(int(number) if number == int(number) else number, span=span)

    def held(self, meta: Meta, children: list[t.Any]) -> s.Literal:
        number, span = Decimal(children[0]), self._span(meta)
        if not 0 < number < 100:
            raise self._error(span, "an interval holds between 0 % and 100 % of windows.", "Write INTERVAL 95 %.")
        return s.Literal(int(number) if number == int(number) else number, span=span)

    def lateness(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        duration, *others = children
        return self._parameter("lateness", "LATENESS", (duration, _refine(others)), meta)

    def consistent(self, meta: Meta, _children: list[t.Any]) -> _Parameter:
        return self._parameter("consistent", "CONSISTENT", True, meta)

    def empty(self, meta: Meta, _children: list[t.Any]) -> _Parameter:
        return self._parameter("empty", "EMPTY", True, meta)

    def no_idle(self, meta: Meta, _children: list[t.Any]) -> _Parameter:
        return self._parameter("idle", "NO IDLE", False, meta)

    def strategy(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        name, *options = children
        given = tuple(option for option in options if option is not None)
        return self._parameter("strategy", "STRATEGY", s.Strategy(str(name), given, span=self._span(meta)), meta)

    def option(self, _meta: Meta, children: list[t.Any]) -> tuple[str, int | float | str]:
        name, value = children
        if value.type == "INTEGER" and len(value) > 18:
            raise self._error(self._span(value), "this integer is too large.")
        kinds: dict[str, type[int] | type[float]] = {"INTEGER": int, "DECIMAL": float, "FLOAT": float}
        return str(name), kinds.get(value.type, str)(value)

    def band(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        size, *_, start = children
        if isinstance(start, Token):
            start = s.Literal(_unquoted(start), span=self._span(start))
        elif len(children) > 2 and children[1] is not None:
            start = attrs.evolve(start, value=-start.value, text=f"-{start.text}")
        return self._parameter("range", "BAND", (s.Band(size, start, span=self._span(meta)), False, False), meta)

    def marked(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        reach = s.Marked(children[0], span=self._span(meta))
        return self._parameter("range", "MARKED BY", (reach, False, False), meta)

    def calendar(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        unit, zone = children
        name = "UTC" if zone is None else _unquoted(zone)
        return self._parameter(
            "range", "CALENDAR", (s.Calendar(unit.lower(), name, span=self._span(meta)), False, False), meta
        )

    def until(self, _meta: Meta, children: list[t.Any]) -> tuple[s.Expr | None]:
        return (children[0],)

    def until_next(self, _meta: Meta, _children: list[t.Any]) -> tuple[s.Expr | None]:
        return (None,)

    def when_true(self, meta: Meta, children: list[t.Any]) -> _Parameter:
        enter, until, within = children
        leave = None if until is None else until[0]
        goes_on = until is not None and leave is None
        reach = s.When(enter, leave, next=goes_on, within=within, span=self._span(meta))
        return self._parameter("range", "WHEN", (reach, False, False), meta)

    def _refuse_beside_range(self, given: t.Mapping[str, t.Any], parameters: list[_Parameter]) -> None:
        """Refuse what has no meaning for windows that are neither regular nor sessions."""
        reach = given["range"][0]
        if isinstance(reach, s.Band | s.Marked | s.Calendar | s.When):
            kind = {s.Band: "BAND", s.Marked: "MARKED BY", s.Calendar: "CALENDAR", s.When: "WHEN"}[type(reach)]
            for parameter in parameters:
                if parameter.field in ("slide", "sattr", "rattr", "origin", "partial") or (
                    parameter.field == "early" and isinstance(reach, s.Marked)
                ):
                    raise self._error(parameter.span, f"a window of {kind} has no {parameter.written}.")

    def duration(self, _meta: Meta, children: list[t.Any]) -> s.Duration:
        words = [None if token is None else Word(str(token), self._span(token)) for token in children]
        numbers = [word for word in words[::2] if word is not None]
        return measure(list(zip(numbers, words[1::2], strict=True)), self._text)

    # Expressions

    def binary(self, meta: Meta, children: list[t.Any]) -> s.Binary:
        left, operator, right = children
        symbol = "<>" if operator == "!=" else str(operator).lower()
        return s.Binary(t.cast(s.BinaryOperator, symbol), left, right, span=self._span(meta))

    def unary(self, meta: Meta, children: list[t.Any]) -> s.Unary:
        operator, x = children
        return s.Unary("-" if operator == "-" else "not", x, span=self._span(meta))

    def positive(self, _meta: Meta, children: list[t.Any]) -> s.Expr:
        return children[1]

    def between(self, meta: Meta, children: list[t.Any]) -> s.Between:
        x, negated, low, _, high = children
        return s.Between(x, low, high, negated=negated is not None, span=self._span(meta))

    def in_list(self, meta: Meta, children: list[t.Any]) -> s.InList:
        x, negated, *items = children
        return s.InList(x, tuple(items), negated=negated is not None, span=self._span(meta))

    def in_network(self, meta: Meta, children: list[t.Any]) -> s.InNetwork:
        x, negated, string = children
        network = s.Literal(_unquoted(string), span=self._span(string))
        return s.InNetwork(x, network, negated=negated is not None, span=self._span(meta))

    def is_null(self, meta: Meta, children: list[t.Any]) -> s.IsNull:
        x, negated, _ = children
        return s.IsNull(x, negated=negated is not None, span=self._span(meta))

    def like(self, meta: Meta, children: list[t.Any]) -> s.Expr:
        x, negated, operator, pattern = children
        span = self._span(meta)
        test = s.Call(str(operator).lower(), (x, pattern), span=span)
        return test if negated is None else s.Unary("not", test, span=span)

    def case(self, meta: Meta, children: list[t.Any]) -> s.Call:
        operand, *branches, other = children
        args: list[s.Expr] = []
        for condition, value in branches:
            same = condition if operand is None else s.Binary("=", operand, condition, span=condition.span)
            args += [same, value]
        args += [] if other is None else [other]
        return s.Call("case", tuple(args), span=self._span(meta))

    def when(self, _meta: Meta, children: list[t.Any]) -> tuple[s.Expr, s.Expr]:
        condition, value = children
        return condition, value

    def call(self, meta: Meta, children: list[t.Any]) -> s.Call:
        function, distinct, *args = children
        return s.Call(function.lower(), tuple(args), distinct=distinct is not None, span=self._span(meta))

    def call_star(self, meta: Meta, children: list[t.Any]) -> s.Call:
        return s.Call(children[0].lower(), (), star=True, span=self._span(meta))

    def name(self, meta: Meta, children: list[t.Any]) -> s.Name:
        return s.Name(tuple(children), span=self._span(meta))

    def ident(self, _meta: Meta, children: list[t.Any]) -> str:
        token: Token = children[0]
        if token.type == "QUOTED":
            return token[1:-1].replace("``", "`")
        return {"ROW_NUM": "row_num", "ARRIVAL_TS": "arrival_ts"}.get(token.type, str(token))

    def amount(self, meta: Meta, children: list[t.Any]) -> s.Literal:
        return s.Literal(str(children[0]), kind="interval", span=self._span(meta))

    def timestamp(self, meta: Meta, children: list[t.Any]) -> s.Literal:
        span = self._span(meta)
        try:
            instant = instant_ns(_unquoted(children[0]))
        except SchemaError as error:
            sentence, _, hint = str(error).partition("\n")
            raise self._error(span, sentence, hint.strip()) from error
        return s.Literal(instant_text(instant), kind="timestamp", span=span)

    def size(self, meta: Meta, children: list[t.Any]) -> s.Literal:
        number, unit = children
        place = "kmgt".index(unit[0].lower()) + 1
        size = Decimal(number) * (1024 if unit[1].lower() == "i" else 1000) ** place
        if size != int(size) or size > LARGEST_INTEGER:
            raise self._error(self._span(meta), f"a size is a whole number of bytes, at most {LARGEST_INTEGER}.")
        return s.Literal(int(size), span=self._span(meta))

    def constant(self, _meta: Meta, children: list[t.Any]) -> s.Literal:
        token: Token = children[0]
        span = self._span(token)
        if token.type in _CONSTANTS:
            return s.Literal(_CONSTANTS[token.type], span=span)
        if token.type == "STRING":
            return s.Literal(_unquoted(token), span=span)
        if token.type == "INTEGER":
            digits = token.lstrip("0") or "0"
            if len(digits) > 20 or int(digits) > LARGEST_INTEGER:
                raise self._error(span, f"this integer is too large; the largest is {LARGEST_INTEGER}.")
            return s.Literal(int(digits), span=span)
        if math.isinf(number := float(token)):
            raise self._error(span, "this number is too large for a 64-bit float.")
        return s.Literal(Decimal(token) if token.type == "DECIMAL" else number, span=span)


_WINDOWED: t.Final = {
    "TUMBLE": "TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE",
    "HOP": "TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE",
    "CUMULATE": "TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE",
    "SESSION": "TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND",
}


_MOST_ROWS: t.Final = 10**18
SHARED_BY_ALL: t.Final = {
    "consistent": "CONSISTENT",
    "empty": "EMPTY",
    "lateness": "LATENESS",
    "strategy": "STRATEGY",
    "early": "EARLY",
    "at": "EARLY AT",
    "when": "EARLY WHEN",
    "interval": "EARLY INTERVAL",
    "events": "EARLY FROM",
    "refine": "EARLY",
}
"""What holds for all windows of a query, by field."""


def _refine(children: t.Iterable[t.Any]) -> str | None:
    """Return ACCUMULATE, DISCARD or RETRACT in small letters, None where none is written."""
    return next((str(o).lower() for o in children if isinstance(o, Token) and o.type == "REFINE"), None)


def _field_default(field: str) -> object:
    return getattr(attrs.fields(s.WindowClause), field).default


def _of_window(item: s.Name | s.SelectItem) -> bool:
    """Return whether GROUP BY names the bounds of a window, which make groups anyway."""
    return isinstance(item, s.Name) and item.parts[-1].lower() in ("window_start", "window_end", "window_time")


def _unquoted(string: str) -> str:
    quote = string[0]
    return string[1:-1].replace(quote * 2, quote)
