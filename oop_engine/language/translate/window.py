"""Turn the brackets of a query into the window of a stream, and point at an amount that does not fit."""

from __future__ import annotations

import pyarrow as pa

from oop_engine.api.early import Early, early
from oop_engine.api.windowed import Windowed
from oop_engine.api.windowing import WindowOf, counted, latest, session, slide_by_rank, slide_by_rows, slide_by_tuple
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.amounts import Amounts, check_steps, rows
from oop_engine.language.translate.scope import Scope
from oop_engine.query_errors import LanguageError
from operators.data.schema import ROW_NUM


def windowed(scope: Scope, clause: s.WindowClause) -> Windowed:
    """Specify the window of an aggregate over a stream; without SLIDE it is tumbling. Raises LanguageError."""
    landmark = isinstance(clause.range, s.All)
    if not clause.partial and (clause.session or landmark or _of_last(clause) or _by_tuples(clause)):
        what = "a SESSION" if clause.session else "RANGE ALL" if landmark else "windows that tuples define"
        message = f"NO PARTIAL leaves out windows that begin before the origin, and {what} cannot."
        raise LanguageError.at(clause.span, message, scope.text, hint="Leave NO PARTIAL out.")
    with placed(clause.span, scope.text):
        if (special := _special(scope, clause)) is not None:
            return scope.stream.window(special, partition=tuple(scope.attribute(name) for name in clause.partition))
    partition = tuple(scope.attribute(name) for name in clause.partition)
    name = _attribute(clause, scope)
    counted = bool(partition) and name.parts[-1] == ROW_NUM
    wattr = ROW_NUM if counted else scope.attribute(name)
    field = pa.field(ROW_NUM, pa.int64()) if counted else _ordered(scope, name, wattr)
    amounts = Amounts(field, scope.text)
    length = "ALL" if isinstance(clause.range, s.All) else amounts.amount(clause.range, "RANGE")
    slide = None if clause.slide is None else amounts.amount(clause.slide, "SLIDE")
    origin = amounts.begin(clause.origin)
    with placed(clause.partition[0].span if partition and not counted else clause.span, scope.text):
        return scope.stream.window(
            range=length, slide=slide, wattr=wattr, partition=partition, origin=origin, partial=clause.partial
        )


def early_of(stream: Windowed, clause: s.WindowClause, text: str) -> Early | None:
    """Say when windows give results before they are complete, None when they do not. Raises LanguageError."""
    if clause.early is None:
        return None
    with placed(clause.early.span, text, said="aggregate(early=...)"):
        asked = early(str(clause.early), refine=clause.refine)
        asked.parts(stream.windows, stream.stream.schema, named=stream.named)
        return asked


def counts_arrivals(clause: s.WindowClause | None) -> bool:
    """Return whether a window is over the arrival numbers of the whole stream, which must then have been given."""
    if clause is None or clause.partition or isinstance(clause.wattr, s.Call) or _of_last(clause):
        return False
    name = clause.wattr if clause.wattr is not None else clause.rattr
    return name.parts[-1] == ROW_NUM if name is not None else _in_rows(clause)


def _special(scope: Scope, clause: s.WindowClause) -> WindowOf | None:
    """Return a window that is more than RANGE and SLIDE over one attribute, None for one that is not."""
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
        return latest(size, every=amounts.amount(clause.slide, "SLIDE"), wattr=wattr, origin=origin)
    if clause.rattr is None or clause.sattr is None or not _by_tuples(clause):
        return None
    wattr = scope.attribute(clause.rattr)
    amounts = Amounts(_ordered(scope, clause.rattr, wattr), scope.text)
    if isinstance(clause.range, s.All):
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
