"""Turn the brackets of a query into the window of a stream, and point at an amount that does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import attrs
import pyarrow as pa

from oop_engine.api.stream import Stream
from oop_engine.api.windowed import Windowed
from oop_engine.api.windowing import (
    WindowOf,
    band,
    calendar,
    counted,
    latest,
    marked,
    session,
    slide_by_rank,
    slide_by_rows,
    slide_by_tuple,
    sliding,
    when,
)
from oop_engine.errors import PlanError, SchemaError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.amounts import Amounts, check_steps, rows
from oop_engine.language.translate.scope import Scope
from oop_engine.language.unparse import unparse_expression
from oop_engine.plan.strategies import strategy
from oop_engine.query_errors import LanguageError
from operators.data.schema import ROW_NUM
from operators.functions.protocol import AggregateFunction

if TYPE_CHECKING:
    from oop_engine.api.early import Early
    from oop_engine.api.trigger import Trigger


def windowed(scope: Scope, clauses: Sequence[s.WindowClause]) -> Windowed:
    """Specify the windows of an aggregate over a stream; without SLIDE one is tumbling. Raises LanguageError."""
    first = clauses[0]
    for clause in clauses:
        _check(scope, clause)
    if first.name is None:
        return _alone(scope, first)
    windows: dict[str, WindowOf] = {}
    for clause in clauses:
        if clause.partition:
            message = "a window with a name has no PA."
            raise LanguageError.at(clause.span, message, scope.text, hint="GROUP BY gives each group results.")
        with placed(clause.span, scope.text):
            windows[str(clause.name)] = _special(scope, clause) or _regular(scope, clause)
    with placed(first.span, scope.text):
        return scope.stream.windows(windows, consistent=first.consistent)


def computed(
    windows: Windowed,
    functions: Mapping[str, AggregateFunction],
    by: Sequence[str],
    clause: s.WindowClause,
    text: str,
    events: Stream | None = None,
) -> Stream:
    """Compute aggregates of windows, as the brackets say how; raises LanguageError.

    - `windows`: the windows, of which `clause` is the first.
    - `functions`: aggregate functions by the names of their results.
    - `by`: the attributes that make groups.
    - `clause`: what holds for all windows: EARLY, LATENESS, EMPTY and STRATEGY.
    - `text`: the query.
    - `events`: the stream whose tuples fire the windows.
    """
    options: dict[str, Any] = {"empty": clause.empty, "early": _early_of(windows, clause, text, events)}
    if clause.strategy is not None:
        name = clause.strategy.name
        with placed(clause.strategy.span, text, said=f'aggregate(strategy="{name}")'):
            options["strategy"] = strategy(name, **dict(clause.strategy.options))
    if clause.lateness is not None:
        options["lateness"] = str(clause.lateness)
        if clause.refine != "accumulate" and clause.lateness.value:
            options["refine"] = clause.refine
    try:
        return windows.compute(functions, by=by, **options)
    except (PlanError, SchemaError):
        plain = attrs.evolve(windows, consistent=False)
        if not any(options.values()) and not windows.consistent:
            raise
        # What is wrong without them too says so itself.
        plain.compute(functions, by=by)
        with placed(clause.span, text):
            raise


def _check(scope: Scope, clause: s.WindowClause) -> None:
    """Refuse what some kinds of windows do not have; raises LanguageError."""
    landmark = isinstance(clause.range, s.All)
    if not clause.idle and not _of_last(clause):
        message = "NO IDLE is of windows of the last rows, of which some may hold what the one before held."
        hint = "Write for example [RANGE 100 rows, SLIDE 10 s, WA ts, NO IDLE]."
        raise LanguageError.at(clause.span, message, scope.text, hint=hint)
    if not clause.partial and (clause.session or landmark or _of_last(clause) or _by_tuples(clause)):
        what = "a SESSION" if clause.session else "RANGE ALL" if landmark else "windows that tuples define"
        message = f"NO PARTIAL leaves out windows that begin before the origin, and {what} cannot."
        raise LanguageError.at(clause.span, message, scope.text, hint="Leave NO PARTIAL out.")


def _regular(scope: Scope, clause: s.WindowClause) -> WindowOf:
    """Return a window of RANGE and SLIDE over one attribute, or over the order of arrival."""
    name = _attribute(clause, scope)
    wattr = ROW_NUM if name.parts[-1] == ROW_NUM else scope.attribute(name)
    field = pa.field(ROW_NUM, pa.int64()) if wattr == ROW_NUM else _ordered(scope, name, wattr)
    amounts = Amounts(field, scope.text)
    length = "ALL" if not isinstance(clause.range, s.Duration) else amounts.amount(clause.range, "RANGE")
    if clause.slide is None and length == "ALL":
        raise LanguageError.at(clause.span, "RANGE ALL needs a SLIDE: how often the result is extended.", scope.text)
    slide = length if clause.slide is None else amounts.amount(clause.slide, "SLIDE")
    return sliding(length, slide, wattr=wattr, origin=amounts.begin(clause.origin), partial=clause.partial)


def _alone(scope: Scope, clause: s.WindowClause) -> Windowed:
    consistent = clause.consistent
    with placed(clause.span, scope.text):
        if (special := _special(scope, clause)) is not None:
            names = tuple(scope.attribute(name) for name in clause.partition)
            return scope.stream.window(special, partition=names, consistent=consistent)
    partition = tuple(scope.attribute(name) for name in clause.partition)
    name = _attribute(clause, scope)
    counted = bool(partition) and name.parts[-1] == ROW_NUM
    wattr = ROW_NUM if counted else scope.attribute(name)
    field = pa.field(ROW_NUM, pa.int64()) if counted else _ordered(scope, name, wattr)
    amounts = Amounts(field, scope.text)
    length = "ALL" if not isinstance(clause.range, s.Duration) else amounts.amount(clause.range, "RANGE")
    slide = None if clause.slide is None else amounts.amount(clause.slide, "SLIDE")
    origin = amounts.begin(clause.origin)
    with placed(clause.partition[0].span if partition and not counted else clause.span, scope.text):
        return scope.stream.window(
            range=length, slide=slide, wattr=wattr, partition=partition, origin=origin, partial=clause.partial,
            consistent=consistent,
        )  # fmt: skip


def _early_of(stream: Windowed, clause: s.WindowClause, text: str, events: Stream | None) -> Early | None:
    """Say when windows give results before they are complete, None when they do not. Raises LanguageError."""
    if not clause.fires:
        return None
    # Start-up: few windows fire.
    from oop_engine.api.early import early
    from oop_engine.api.early_sessions import check

    every = None if clause.early is None else str(clause.early)
    at = [_moment(moment) for moment in clause.at]
    first = clause.when or clause.early or clause.at[0]
    with placed(first.span, text, said="aggregate(early=...)"):
        when = None if clause.when is None else _trigger(clause.when)
        held = None if clause.interval is None else float(Decimal(str(clause.interval.value)) / 100)
        asked = early(every, at=at, when=when, refine=clause.refine, events=events, interval=held)
        if asked.on_event_time:
            check(asked, stream.windows, stream.stream.schema, named=stream.named)
        return asked


def _trigger(trigger: s.Trigger) -> Trigger:
    """Return when windows fire as Python has it."""
    # Start-up: few windows fire.
    from oop_engine.api.trigger import Trigger

    match trigger.kind, trigger.value:
        case "rows", int(rows):
            return Trigger.rows(rows)
        case "event", str(name):
            return Trigger.event(name)
        case "clock", period:
            return Trigger.clock(str(period))
        case "every", amount:
            return Trigger.every(str(amount))
        case "lull", amount:
            return Trigger.lull(str(amount))
        case "at", (s.Duration() | s.Literal()) as moment:
            return Trigger.at(_moment(moment))
        case "promise", pattern:
            return Trigger.promise(*map(unparse_expression, _conjuncts(cast("s.Expr", pattern))))
        case kind, _:
            one, other = map(_trigger, trigger.parts)
            if kind == "or":
                return one | other
            if kind == "and":
                return one & other
            return one.then(other) if kind == "then" else one.until(other)


def _conjuncts(expr: s.Expr) -> Iterator[s.Expr]:
    """Yield what AND joins."""
    if isinstance(expr, s.Binary) and expr.op == "and":
        yield from _conjuncts(expr.l)
        yield from _conjuncts(expr.r)
    else:
        yield expr


def _moment(moment: s.Duration | s.Literal) -> float | str:
    """Return where in a window it fires as Python has it: a share of it, or how long after it began."""
    return str(moment) if isinstance(moment, s.Duration) else float(Fraction(str(moment.value)) / 100)


def counts_arrivals(clause: s.WindowClause | None) -> bool:
    """Return whether a window is over the arrival numbers of the whole stream, which must then have been given."""
    if clause is None or clause.partition or isinstance(clause.wattr, s.Call) or _of_last(clause):
        return False
    name = clause.wattr if clause.wattr is not None else clause.rattr
    return name.parts[-1] == ROW_NUM if name is not None else _in_rows(clause)


def _special(scope: Scope, clause: s.WindowClause) -> WindowOf | None:
    """Return a window that is more than RANGE and SLIDE over one attribute, None for one that is not."""
    if isinstance(clause.range, s.Band):
        wattr, amounts = _wattr(scope, clause)
        start = amounts.begin(clause.range.start, "FROM")
        return band(start, amounts.amount(clause.range.size, "BAND"), wattr=wattr)
    if isinstance(clause.range, s.Calendar):
        return calendar(clause.range.unit, zone=clause.range.zone, wattr=_wattr(scope, clause)[0])
    if isinstance(clause.range, s.Marked):
        return marked(scope.attribute(clause.range.by), wattr=_wattr(scope, clause)[0])
    if isinstance(clause.range, s.When):
        wattr, amounts = _wattr(scope, clause)
        reach = clause.range
        within = None if reach.within is None else amounts.amount(reach.within, "WITHIN")
        enter = scope.expression(reach.enter)
        if reach.leave is None and not reach.next:
            return when(enter, within=within, wattr=wattr)
        leave = None if reach.leave is None else scope.expression(reach.leave)
        return when(enter=enter, leave=leave, within=within, wattr=wattr)
    if clause.session:
        wattr, amounts = _wattr(scope, clause)
        assert isinstance(clause.range, s.Duration)
        return session(amounts.amount(clause.range, "SESSION"), wattr=wattr)
    if isinstance(clause.origin, s.Duration | s.Literal) and (isinstance(clause.wattr, s.Call) or _by_tuples(clause)):
        raise LanguageError.at(clause.origin.span, "windows that tuples define have no ORIGIN.", scope.text)
    if isinstance(clause.wattr, s.Call):
        wattr = _ranked(scope, clause.wattr)
        size, slide = rows(clause.range, "RANGE", clause, scope.text), None
        if clause.slide is not None:
            slide = rows(clause.slide, "SLIDE", clause, scope.text)
        return counted(size, slide=slide, wattr=wattr, partial=clause.partial)
    if _of_last(clause):
        assert clause.slide is not None
        wattr, amounts = _wattr(scope, clause)
        origin = amounts.begin(clause.origin)
        size = rows(clause.range, "RANGE", clause, scope.text)
        every = amounts.amount(clause.slide, "SLIDE")
        return latest(size, every=every, wattr=wattr, origin=origin, idle=clause.idle)
    if clause.rattr is None or clause.sattr is None or not _by_tuples(clause):
        return None
    wattr = scope.attribute(clause.rattr)
    amounts = Amounts(_ordered(scope, clause.rattr, wattr), scope.text)
    if not isinstance(clause.range, s.Duration):
        raise LanguageError.at(clause.range.span, "a window that slides by tuples has a RANGE.", scope.text)
    length = amounts.amount(clause.range, "RANGE")
    count = 1 if clause.slide is None else rows(clause.slide, "SLIDE", clause, scope.text)
    if isinstance(clause.sattr, s.Name):
        if clause.sattr.parts[-1] != ROW_NUM:
            message = f"windows that range over {wattr} slide by row-num or by rank({wattr}), not by {clause.sattr}."
            hint = f"Or write WA {clause.rattr}, with RANGE and SLIDE both measured on {clause.rattr}."
            raise LanguageError.at(clause.sattr.span, message, scope.text, hint=hint)
        return slide_by_tuple(length, wattr=wattr) if count == 1 else slide_by_rows(length, count, wattr=wattr)
    if _ranked(scope, clause.sattr) != wattr:
        message = f"tuples are ranked by the attribute that the RANGE is on, which is {wattr}."
        raise LanguageError.at(clause.sattr.span, message, scope.text, hint=f"Write SATTR rank({wattr}).")
    return slide_by_tuple(length, wattr=wattr) if count == 1 else slide_by_rank(length, count, wattr=wattr)


def _by_tuples(clause: s.WindowClause) -> bool:
    """Return whether a window ranges over one attribute and slides by tuples."""
    return clause.sattr is not None and clause.sattr != clause.rattr


def _wattr(scope: Scope, clause: s.WindowClause) -> tuple[str, Amounts]:
    name = clause.wattr if isinstance(clause.wattr, s.Name) else clause.rattr or s.Name(("ts",), span=clause.span)
    wattr = scope.attribute(name)
    return wattr, Amounts(_ordered(scope, name, wattr), scope.text)


def _ordered(scope: Scope, name: s.Name, wattr: str) -> pa.Field:
    field = scope.schema.field(wattr)
    check_steps(field, name, scope.text)
    return field


def _ranked(scope: Scope, call: s.Call) -> str:
    """Return the attribute of rank(attribute)."""
    if call.function != "rank" or len(call.args) != 1 or not isinstance(call.args[0], s.Name) or call.star:
        message = f"a window is over an attribute, row-num or rank(an attribute), not over {call.function}(...)."
        raise LanguageError.at(call.span, message, scope.text, hint="Write for example rank(ts).")
    name = call.args[0]
    wattr = scope.attribute(name)
    _ordered(scope, name, wattr)
    return wattr


def _attribute(clause: s.WindowClause, scope: Scope) -> s.Name:
    """Return the windowing attribute: WA, or what RATTR and SATTR agree on, else ts for times and row_num for rows."""
    if clause.rattr is not None:
        return clause.rattr
    if isinstance(clause.wattr, s.Name):
        return clause.wattr
    wanted = ROW_NUM if _in_rows(clause) else "ts"
    if wanted not in scope.schema and not clause.partition:
        message = "this window does not say on which attribute it is defined."
        raise LanguageError.at(clause.span, message, scope.text, hint="Add WA and the attribute's name.")
    return s.Name((wanted,), span=clause.span)


def _of_last(clause: s.WindowClause) -> bool:
    """Return whether a window is of the last rows, every so often: RANGE in rows and SLIDE in time.

    A SLIDE without a unit is in that of the attribute that is named, as `WA seq`; of none, or of row-num, it is rows.
    """
    units = [amount.unit for amount in (clause.range, clause.slide) if isinstance(amount, s.Duration)]
    if len(units) != 2 or units[0] != "rows":
        return False
    named = clause.rattr if clause.wattr is None else clause.wattr
    measured = isinstance(named, s.Name) and named.parts[-1] != ROW_NUM and not _by_tuples(clause)
    return units[1] == "ns" or (units[1] == "plain" and measured)


def _in_rows(clause: s.WindowClause) -> bool:
    return any(isinstance(a, s.Duration) and a.unit == "rows" for a in (clause.range, clause.slide))
