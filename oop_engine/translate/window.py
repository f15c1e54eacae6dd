"""The brackets of a query become the window of a stream; an amount that does not fit is shown where it stands."""

from __future__ import annotations

import attrs
import pyarrow as pa

from oop_engine.language import syntax as s
from oop_engine.language.errors import LanguageError
from oop_engine.language.placed import placed
from oop_engine.stream import Windowed
from oop_engine.ticks import tick_ns, ticks_of
from oop_engine.translate.scope import Scope
from oop_engine.windows import ROW_NUM
from operators.expression.constants import instant_ns


def windowed(scope: Scope, clause: s.WindowClause) -> Windowed:
    """Specify the window of an aggregate over a stream; without SLIDE it is tumbling. Raises LanguageError."""
    partition = tuple(scope.attribute(name) for name in clause.partition)
    name = _attribute(clause, scope)
    counted = bool(partition) and name.parts[-1] == ROW_NUM
    wattr = ROW_NUM if counted else scope.attribute(name)
    field = pa.field(ROW_NUM, pa.int64()) if counted else scope.schema.field(wattr)
    if not (pa.types.is_integer(field.type) or pa.types.is_temporal(field.type)):
        message = f'"{wattr}" has type {field.type}; a window needs an attribute with an order in steps.'
        hint = "Window on an integer or a time, or compute one in a query inside FROM ( ... )."
        raise LanguageError.at(name.span, message, scope.text, hint=hint)
    amounts = _Amounts(field, scope.text)
    length = "ALL" if isinstance(clause.range, s.All) else amounts.ticks(clause.range, "RANGE")
    slide = None if clause.slide is None else amounts.ticks(clause.slide, "SLIDE")
    origin = 0 if clause.origin is None else amounts.origin(clause.origin)
    with placed(clause.partition[0].span if partition and not counted else clause.span, scope.text):
        return scope.stream.window(
            range=length, slide=slide, wattr=wattr, partition=partition, origin=origin, partial=clause.partial
        )


def counts_arrivals(clause: s.WindowClause | None) -> bool:
    """Tell whether a window is over the arrival numbers of the whole stream, which must then have been given."""
    if clause is None or clause.partition:
        return False
    name = clause.wattr if clause.wattr is not None else clause.rattr
    return name.parts[-1] == ROW_NUM if name is not None else _in_rows(clause)


def _attribute(clause: s.WindowClause, scope: Scope) -> s.Name:
    """Give the windowing attribute: WA, or what RATTR and SATTR agree on, else ts for times and row_num for rows."""
    if clause.rattr is not None and clause.sattr is not None:
        if clause.sattr != clause.rattr:
            message = "windows that range over one attribute and slide by another are not in this version yet."
            hint = f"Write WA {clause.rattr}, with RANGE and SLIDE both measured on {clause.rattr}."
            raise LanguageError.at(clause.sattr.span, message, scope.text, hint=hint)
        return clause.rattr
    if clause.wattr is not None:
        return clause.wattr
    wanted = ROW_NUM if _in_rows(clause) else "ts"
    if wanted not in scope.schema and not clause.partition:
        message = "this window does not say on which attribute it is defined."
        raise LanguageError.at(clause.span, message, scope.text, hint="Add WA and the attribute's name.")
    return s.Name((wanted,), span=clause.span)


def _in_rows(clause: s.WindowClause) -> bool:
    return any(isinstance(a, s.Duration) and a.unit == "rows" for a in (clause.range, clause.slide))


@attrs.frozen(eq=False)
class _Amounts:
    """What amounts are measured on."""

    field: pa.Field
    text: str

    def ticks(self, amount: s.Duration, what: str) -> int:
        with placed(amount.span, self.text):
            return ticks_of(amount, self.field, what=what, rows=self.field.name == ROW_NUM)

    def origin(self, origin: s.Duration | s.Literal) -> int:
        if isinstance(origin, s.Duration):
            return self.ticks(origin, "ORIGIN")
        with placed(origin.span, self.text):
            instant = instant_ns(str(origin.value))
        tick = tick_ns(self.field.type)
        if tick is None:
            message = f'ORIGIN is a time, but "{self.field.name}" is a number ({self.field.type}).'
            hint = f"Write a number in the unit of {self.field.name}, without quotes."
            raise LanguageError.at(origin.span, message, self.text, hint=hint)
        if instant % tick:
            message = f'this ORIGIN is finer than "{self.field.name}" ({self.field.type}) can tell.'
            raise LanguageError.at(origin.span, message, self.text)
        return instant // tick
