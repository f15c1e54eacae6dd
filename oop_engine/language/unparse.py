"""Canonical text of a syntax tree: what it says, in one spelling, that parses back to an equal tree."""

from __future__ import annotations

import re
import typing as t
from decimal import Decimal

from oop_engine.language import syntax as s
from oop_engine.language.scan import RESERVED

_PLAIN = re.compile(r"[^\W\d]\w*")
# Behind a comma in FROM, "lookup" would begin a LOOKUP; behind UNTIL, "next" alone is a word.
_ALIKE = re.compile("|".join([*sorted(RESERVED), "row_num", "arrival_ts", "lookup", "next"]), re.IGNORECASE)

# How strongly each construct binds; a child that binds less than its place demands goes into parentheses.
_OR, _AND, _NOT, _PREDICATE, _BITS, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)
_BINDING: t.Final[dict[str, int]] = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _PREDICATE),
    **dict.fromkeys(("||", "&", "|", "<<", ">>"), _BITS),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys(("*", "/", "//", "%"), _PRODUCT),
}


def unparse(query: s.Query) -> str:
    """Write `query` as text on one line; `parse(unparse(query)) == query`.

    Raises ValueError for a tree that no text says, such as one with an infinite constant or an empty name.
    """
    parts = ["SELECT DISTINCT"] if query.distinct else ["SELECT"]
    parts.append(", ".join(_item(item) for item in query.select))
    if query.window is not None:
        parts.append(", ".join(_window(window) for window in query.windows))
    parts.append(f"FROM {_from(query.source)}")
    parts += map(_lookup, query.lookups)
    if query.where is not None:
        parts.append(f"WHERE {_expr(query.where)}")
    if query.group_by:
        items = (_expr(item) if isinstance(item, s.Name) else _item(item) for item in query.group_by)
        parts.append(f"GROUP BY {', '.join(items)}")
    if query.having is not None:
        parts.append(f"HAVING {_expr(query.having)}")
    if query.alert is not None:
        parts.append(_alert(query.alert))
    if query.bill is not None:
        parts.append(_bill(query.bill))
    if query.order:
        items = (f"{_expr(item.expr)}{' DESC' if item.descending else ''}" for item in query.order)
        parts.append(f"ORDER BY {', '.join(items)}")
    if query.limit is not None:
        parts.append(f"LIMIT {_constant(query.limit.value)}")
    if query.within:
        parts.append(f"WITHIN {', '.join(map(_expr, query.within))}")
    return " ".join(parts)


def unparse_expression(expr: s.Expr | s.Star) -> str:
    """Write one expression in canonical text, for the name of a result's column or for a message."""
    if isinstance(expr, s.Star):
        return "*" if expr.stream is None else f"{_identifier(expr.stream)}.*"
    return _expr(expr)


def _alert(alert: s.Alert) -> str:
    windows = "" if alert.windows == 1 else f" FOR {alert.windows} WINDOWS"
    clear = "" if alert.clear is None else f" CLEAR WHEN {_expr(alert.clear)}"
    return f"ALERT {_identifier(alert.name)} WHEN {_expr(alert.when)}{windows}{clear}"


def _bill(bill: s.Bill) -> str:
    zone = "" if bill.zone == "UTC" else f" IN {_constant(bill.zone)}"
    share = "" if bill.share == 0.95 else f" AT {_constant(Decimal(str(bill.share)))}"
    more = "".join(f", {_item(item)}" for item in bill.more)
    return f"BILL {_expr(bill.value)}{more} PER {bill.per}{zone}{share}"


def _item(item: s.SelectItem) -> str:
    written = unparse_expression(item.expr)
    return written if item.alias is None else f"{written} AS {_identifier(item.alias)}"


def _window(window: s.WindowClause) -> str:
    parts = [_reach(window)]
    if window.rattr is not None:
        parts.append(f"RATTR {_expr(window.rattr)}")
    if window.slide is not None:
        parts.append(f"SLIDE {window.slide}")
    if window.sattr is not None:
        parts.append(f"SATTR {_expr(window.sattr)}")
    if window.wattr is not None:
        parts.append(f"WA {_expr(window.wattr)}")
    if window.partition:
        names = ", ".join(_expr(name) for name in window.partition)
        parts.append(f"PA ({names})" if len(window.partition) > 1 else f"PA {names}")
    if window.origin is not None:
        parts.append(f"ORIGIN {_begin(window.origin)}")
    if not window.partial:
        parts.append("NO PARTIAL")
    if not window.idle:
        parts.append("NO IDLE")
    if window.closed:
        parts.append("CLOSED")
    refine = "" if window.refine == "accumulate" else f" {window.refine.upper()}"
    if window.fires:
        every = "" if window.early is None else f" {window.early}"
        at = f" AT {' AND '.join(map(_moment, window.at))}" if window.at else ""
        when = "" if window.when is None else f" WHEN {_trigger(window.when)}"
        held = "" if window.interval is None else f" INTERVAL {_moment(window.interval)}"
        events = "" if window.events is None else f" FROM {_from(window.events)}"
        parts.append(f"EARLY{every}{at}{when}{events}{held}{refine}")
    if window.lateness is not None:
        parts.append(f"LATENESS {window.lateness}{'' if window.fires else refine}")
    if window.consistent:
        parts.append("CONSISTENT")
    if window.empty:
        parts.append("EMPTY")
    if window.strategy is not None:
        parts.append(f"STRATEGY {_named(window.strategy)}")
    written = f"[{', '.join(parts)}]"
    return written if window.name is None else f"{written} AS {_identifier(window.name)}"


def _moment(moment: s.Duration | s.Literal) -> str:
    """Write where in a window it fires."""
    return f"{_constant(moment.value)} %" if isinstance(moment, s.Literal) else str(moment)


def _trigger(trigger: s.Trigger) -> str:
    """Write when windows fire; the right part of each pair stands in brackets if it is a pair itself."""
    match trigger.kind, trigger.value:
        case "rows", rows:
            return f"{rows} ROWS"
        case "event", name:
            return f"EVENT {_constant(str(name))}"
        case "at", (s.Duration() | s.Literal()) as moment:
            return f"AT {_moment(moment)}"
        case "promise", pattern:
            return f"PROMISE {_expr(t.cast('s.Expr', pattern), _PREDICATE)}"
        case ("clock" | "every" | "lull") as kind, amount:
            return f"{kind.upper()} {amount}"
        case kind, _:
            left, right = (f"({_trigger(part)})" if part.parts else _trigger(part) for part in trigger.parts)
            return f"{left} {kind.upper()} {right}"


def _reach(window: s.WindowClause) -> str:
    """Write how far a window reaches."""
    match window.range:
        case s.All():
            return "RANGE ALL"
        case s.Band(size, start):
            return f"BAND {size} FROM {_begin(start)}"
        case s.Marked(by):
            return f"MARKED BY {_expr(by)}"
        case s.Calendar(unit, zone):
            return f"CALENDAR {unit}" + ("" if zone == "UTC" else f" IN {_constant(zone)}")
        case s.When(enter, leave, goes_on, within):
            until = " UNTIL NEXT" if goes_on else "" if leave is None else f" UNTIL {_expr(leave)}"
            return f"WHEN {_expr(enter)}{until}" + ("" if within is None else f" WITHIN {within}")
        case length:
            return f"{'SESSION' if window.session else 'RANGE TUMBLING' if window.tumbling else 'RANGE'} {length}"


def _begin(begin: s.Duration | s.Literal) -> str:
    return _expr(begin) if isinstance(begin, s.Literal) else str(begin)


def _step(step: s.Step) -> str:
    """Write what is done to the tuples of a source."""
    if isinstance(step, s.Numbered):
        return f"NUMBER AS {_identifier(step.name)}"
    if isinstance(step, s.Deduped):
        by = "" if not step.by else f" BY ({', '.join(map(_expr, step.by))})"
        return f"DEDUP{by}" + ("" if step.mark is None else f" MARK {_identifier(step.mark)}")
    over = "" if step.over is None else f" OVER {', '.join(map(_expr, step.over))}"
    return f"SPREAD {', '.join(map(_expr, step.columns))}{over} BY {step.step}"


def _named(choice: s.Strategy | s.Flush) -> str:
    """Write one of a few words with its options."""
    options = ", ".join(f"{name} {value}" for name, value in choice.options)
    return choice.name + (f"({options})" if options else "")


def _from(source: s.From) -> str:
    if isinstance(source, s.Join) and source.on is not None:
        *others, last = map(_from, source.items)
        kind = "" if source.kind == "inner" else f"{source.kind.upper()} "
        kind += "" if source.cardinality == "many to many" else f"{source.cardinality.upper()} "
        window = "" if source.window is None else f" {_window(source.window)}"
        flush = "" if source.flush is None else f" FLUSH {_named(source.flush)}"
        return f"{', '.join(others)} {kind}JOIN {last}{window} ON {_expr(source.on)}{flush}"
    if isinstance(source, s.Join):
        written = ", ".join(_from(item) for item in source.items)
    elif isinstance(source, s.Union):
        written = " UNION ".join(_member(item) for item in source.items)
    elif isinstance(source, s.SubQuery):
        written = f"({unparse(source.query)})"
    else:
        written = _constant(source.name) if source.path else _identifier(source.name)
    if not isinstance(source, s.Join):
        written = " ".join([written, *map(_step, source.steps)])
    if not isinstance(source, s.Join) and source.alias is not None:
        written += f" AS {_identifier(source.alias)}"
    return written if source.window is None else f"{written} {_window(source.window)}"


def _lookup(lookup: s.Lookup) -> str:
    table = _constant(lookup.table) if lookup.path else _identifier(lookup.table)
    alias = "" if lookup.alias is None else f" AS {_identifier(lookup.alias)}"
    written = f"{'INNER ' if lookup.required else ''}LOOKUP {table}{alias} ON {_expr(lookup.on)}"
    if lookup.valid_from is not None:
        written += f" VALID FROM {_expr(lookup.valid_from)}"
        written += "" if lookup.at is None else f" AT {_expr(lookup.at)}"
    if lookup.revise is not None:
        written += f" REVISE {lookup.revise}"
    return f"{written} WAIT" if lookup.wait else written


def _member(source: s.From) -> str:
    single = isinstance(source, s.Table | s.SubQuery)
    bare = single and source.alias is None and source.window is None and not source.steps
    return _from(source) if bare else f"({_from(source)})"


def _expr(expr: s.Expr, at_least: int = _OR) -> str:
    written, binding = _written(expr)
    return written if binding >= at_least else f"({written})"


def _written(expr: s.Expr) -> tuple[str, int]:
    """Write `expr` without parentheses around it, and say how strongly it binds."""
    match expr:
        case s.Name():
            return ".".join(_identifier(part) for part in expr.parts), _ATOM
        case s.Literal():
            return f"{expr.kind.upper()} {_constant(expr.value)}".lstrip(), _ATOM
        case s.Call(function="like" | "ilike" | "has", args=(x, pattern), distinct=False):
            return f"{_expr(x, _BITS)} {expr.function.upper()} {_expr(pattern, _BITS)}", _PREDICATE
        case s.Call(function="case", args=(_, _, *_), distinct=False):
            return _branches(expr.args), _ATOM
        case s.Call():
            args = "*" if expr.star else ", ".join(_expr(arg) for arg in expr.args)
            return f"{expr.function}({'DISTINCT ' if expr.distinct else ''}{args})", _ATOM
        case s.Unary(op="-"):
            # Two signs in a row would begin a comment.
            return f"-{_expr(expr.x, _ATOM)}", _SIGN
        case s.Unary():
            return f"NOT {_expr(expr.x, _NOT)}", _NOT
        case s.Binary():
            return _chain(expr), _BINDING[expr.op]
        case s.Between():
            test = f"BETWEEN {_expr(expr.low, _BITS)} AND {_expr(expr.high, _BITS)}"
        case s.InList():
            test = f"IN ({', '.join(_expr(item) for item in expr.items)})"
        case s.InNetwork():
            test = f"IN {_constant(expr.network.value)}"
        case s.IsNull():
            return f"{_expr(expr.x, _BITS)} IS {'NOT ' if expr.negated else ''}NULL", _PREDICATE
    return f"{_expr(expr.x, _BITS)} {'NOT ' if expr.negated else ''}{test}", _PREDICATE


def _branches(args: tuple[s.Expr, ...]) -> str:
    """Write condition, value, condition, value, ... and perhaps the value of all others as CASE."""
    pairs = [f"WHEN {_expr(when)} THEN {_expr(then)}" for when, then in zip(args[::2], args[1::2], strict=False)]
    other = [f"ELSE {_expr(args[-1])}"] if len(args) % 2 else []
    return " ".join(["CASE", *pairs, *other, "END"])


def _chain(expr: s.Binary) -> str:
    """Write operators in a row, which group from the left; a comparison does not follow another."""
    binding = _BINDING[expr.op]
    written: list[str] = []
    left: s.Expr = expr
    while left is expr or (isinstance(left, s.Binary) and in_a_row(expr, left)):
        assert isinstance(left, s.Binary)
        written.append(f" {left.op.upper()} {_expr(left.r, binding + 1)}")
        left = left.l
    written.append(_expr(left, _BITS if binding == _PREDICATE else binding))
    return "".join(reversed(written))


def in_a_row(outer: s.Binary, left: s.Binary) -> bool:
    """Return whether what stands left of an operator needs no parentheses: a chain, as a + b - c or a AND b AND c."""
    return _BINDING[outer.op] == _BINDING[left.op] != _PREDICATE


def _constant(value: s.Value) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper() if value is not None else "NULL"
    if isinstance(value, str):
        doubled = value.replace('"', '""')
        return f'"{doubled}"'
    written = _digits(value) if isinstance(value, Decimal) else repr(value)
    if not written[0].isdigit():
        raise ValueError(f"no query text says the constant {written}: write a sign as Unary('-', ...).")
    return written


def _digits(value: Decimal) -> str:
    """Write a decimal digit by digit, with a point: what has an exponent is read as a float."""
    written = f"{value:f}"
    return written if "." in written else f"{written}.0"


def _identifier(name: str) -> str:
    if _PLAIN.fullmatch(name) and (not _ALIKE.fullmatch(name) or name in ("row_num", "arrival_ts")):
        return name
    if not name:
        raise ValueError("no query text says an empty name.")
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
