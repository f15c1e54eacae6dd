"""GROUP BY time_bucket(...) or date_trunc(...) is a tumbling window, as other dialects of SQL write one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from oop_engine.language import syntax as s
from oop_engine.language.translate.tree import column_name
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import rewritten, rewritten_alert
from oop_engine.plan.dates import UNITS as CALENDAR
from oop_engine.plan.durations import DAY, Duration, parse_duration
from oop_engine.query_errors import LanguageError
from operators.window_aggregate.results import START

BUCKETS: Final[dict[str, str]] = {
    "time_bucket": "time_bucket(INTERVAL '1 minute', ts)",
    "date_bin": "date_bin(INTERVAL '1 minute', ts)",
    "date_trunc": "date_trunc('minute', ts)",
}
"""Functions that make a window in GROUP BY, each with an example."""
_UNITS: Final = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_MONDAY: Final = Duration(4 * DAY, "ns", "4 days")
"""1970 began on a Thursday."""


def bucketed(tree: s.Query, known: Callable[[str], bool]) -> s.Query:
    """Return a query with the window that GROUP BY makes, and what names its beginning as window_start.

    - `tree`: the query as it is written.
    - `known`: tells whether a name is that of an attribute, which then is meant.

    Raises LanguageError, also for two such windows, or one beside brackets.
    """
    grouped = [_bucket(item, tree, known) for item in tree.group_by]
    calls = list(dict.fromkeys(call for call in grouped if call is not None))
    if not calls:
        return tree
    first = calls[0]
    if tree.window is not None or len(calls) > 1:
        message = f"{unparse_expression(calls[-1])} makes a second window for one query."
        raise LanguageError.at(calls[-1].span, message, tree.text, hint="Keep one of the two.")
    aliases = [item.alias for item in tree.group_by if isinstance(item, s.SelectItem) and item.expr == first]
    names = {s.Name((alias,)) for alias in aliases if alias is not None}

    def change(piece: s.Expr) -> s.Expr | None:
        return s.Name((START,), span=piece.span) if piece == first or piece in names else None

    def selected(item: s.SelectItem) -> s.SelectItem:
        if isinstance(item.expr, s.Star):
            return item
        expr = rewritten(item.expr, change)
        return item if expr == item.expr else attrs.evolve(item, expr=expr, alias=column_name(item))

    return attrs.evolve(
        tree,
        select=tuple(selected(item) for item in tree.select),
        window=_window(first, tree.text),
        group_by=tuple(item for item, call in zip(tree.group_by, grouped, strict=True) if call is None),
        having=None if tree.having is None else rewritten(tree.having, change),
        alert=None if tree.alert is None else rewritten_alert(tree.alert, change),
        order=tuple(attrs.evolve(item, expr=rewritten(item.expr, change)) for item in tree.order),
    )


def _bucket(item: s.Name | s.SelectItem, tree: s.Query, known: Callable[[str], bool]) -> s.Call | None:
    """Return the call by which an item of GROUP BY makes a window, perhaps through a name of the SELECT list."""
    if isinstance(item, s.SelectItem):
        return item.expr if isinstance(item.expr, s.Call) and item.expr.function in BUCKETS else None
    for selected in tree.select:
        call = selected.expr
        if isinstance(call, s.Call) and call.function in BUCKETS and item.parts == (selected.alias,):
            return None if known(item.parts[0]) else call
    return None


def _window(call: s.Call, text: str) -> s.WindowClause:
    example = BUCKETS[call.function]
    match call.args:
        case (s.Literal(value=str(step)) as written, s.Name() as wattr):
            origin = None
        case (s.Literal(value=str(step)) as written, s.Name() as wattr, s.Literal(value=str()) as origin):
            pass
        case (s.Literal(value=int(number)) as written, s.Name(), *_) if call.function != "date_trunc":
            hint = f"Write {call.function}('{number} s', ts)."
            raise LanguageError.at(written.span, f"{call.function}: {number} of what?", text, hint=hint)
        case _:
            message = f"{call.function} takes an amount of time and an attribute; a third argument is where it begins."
            raise LanguageError.at(call.span, message, text, hint=f"Write {example}.")
    if call.function == "date_trunc":
        unit = step.lower()
        if unit in CALENDAR and (origin is not None or unit not in _UNITS):
            zone = "UTC" if origin is None else str(origin.value)
            return s.WindowClause(range=s.Calendar(unit, zone, span=call.span), wattr=wattr, span=call.span)
        if unit not in _UNITS or origin is not None:
            message = f'date_trunc takes one of {", ".join((*_UNITS, *CALENDAR[2:]))}, not "{step}".'
            if unit in _UNITS:
                message = f"date_trunc takes a time zone with {', '.join(CALENDAR)}, and not with {unit}."
            raise LanguageError.at(written.span, message, text, hint=f"Write {example}.")
        length = attrs.evolve(parse_duration(f"1 {unit}"), span=written.span)
        return s.WindowClause(
            range=length, tumbling=True, wattr=wattr, origin=_MONDAY if unit == "week" else None, span=call.span
        )
    try:
        length = parse_duration(step)
    except LanguageError as error:
        raise LanguageError.at(written.span, error.message, text, hint=error.hint) from error
    if length.value == 0:
        raise LanguageError.at(written.span, "a window must be longer than 0.", text)
    length = attrs.evolve(length, span=written.span)
    return s.WindowClause(range=length, tumbling=True, wattr=wattr, origin=origin, span=call.span)
