"""Convert amounts in a window's brackets to ticks of an attribute, and point at one that does not fit."""

from __future__ import annotations

from typing import Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.plan.ticks import amount_of, tick_ns, ticks_of
from oop_engine.query_errors import LanguageError
from operators.data.schema import ROW_NUM
from operators.data.steps import in_steps, tick_number
from operators.expression.constants import instant_ns
from operators.kernels.ticks import LIMIT
from operators.window.columns import into_steps

_YEAR: Final = 31_556_952 * 10**9
"""Nanoseconds of a mean year."""
_POINTS: Final = ("ORIGIN", "FROM")
"""Amounts that say where windows begin, and so may be negative."""
_UNITS: Final = {1: "nanoseconds", 1_000: "microseconds", 1_000_000: "milliseconds", 1_000_000_000: "seconds"}


@attrs.frozen(eq=False)
class Amounts:
    """The attributes that amounts are measured on."""

    field: pa.Field
    text: str

    def ticks(self, amount: s.Duration, what: str) -> int:
        """Return an amount in ticks; raises LanguageError, also for more than windows can be computed with."""
        signed = what in _POINTS
        with placed(amount.span, self.text):
            ticks = ticks_of(amount, self.field, what=what, rows=self.field.name == ROW_NUM, signed=signed)
            if abs(ticks) > LIMIT:
                raise PlanError(f"{what} is {amount.text}, and {self._most()}\n  {self._way_out(what)}")
        return ticks

    def amount(self, amount: s.Duration, what: str) -> int | str:
        """Return an amount as Python's windows take it; raises LanguageError as `ticks` does."""
        return amount_of(self.ticks(amount, what), self.field.type)

    def begin(self, origin: s.Duration | s.Literal | None, what: str = "ORIGIN") -> int | str:
        """Return where windows begin as Python's windows take it; raises LanguageError as `origin` does."""
        return 0 if origin is None else amount_of(self.origin(origin, what), self.field.type)

    def origin(self, origin: s.Duration | s.Literal, what: str = "ORIGIN") -> int:
        """Read where windows begin, an amount since the attribute's zero or a time as text; raises LanguageError."""
        if isinstance(origin, s.Duration):
            return self.ticks(origin, what)
        with placed(origin.span, self.text):
            instant = instant_ns(str(origin.value))
        tick = tick_ns(self.field.type)
        if tick is None:
            message = f'{what} is a time, but "{self.field.name}" is a number ({self.field.type}).'
            hint = f"Write a number in the unit of {self.field.name}, without quotes."
            raise LanguageError.at(origin.span, message, self.text, hint=hint)
        if instant % tick:
            message = f'this {what} is finer than "{self.field.name}" ({self.field.type}) can tell.'
            raise LanguageError.at(origin.span, message, self.text)
        if abs(instant // tick) > LIMIT:
            message = f"{what} is {instant // _YEAR + 1970}, and {self._most()}"
            raise LanguageError.at(origin.span, message, self.text, hint=self._way_out(what))
        return instant // tick

    def _most(self) -> str:
        tick = tick_ns(self.field.type)
        if tick is None:
            return f'the most on "{self.field.name}" is {tick_number(LIMIT, self.field.type)}.'
        unit = _UNITS.get(tick, "days")
        return f'the most is {LIMIT * tick // _YEAR:,} years on "{self.field.name}", which counts {unit}.'

    def _way_out(self, what: str) -> str:
        name = self.field.name
        whole = "RANGE ALL reaches back to the beginning" if what == "RANGE" else ""
        coarser = ""
        if pa.types.is_timestamp(self.field.type):
            coarser = f"coarser times reach further: FROM (SELECT cast({name}, 'timestamp[s]') AS {name}, ... FROM ...)"
        hint = "; ".join(part for part in (whole, coarser) if part) or f"Write less, or divide {name} in FROM ( ... )"
        return f"{hint[0].upper()}{hint[1:]}."


def check_steps(field: pa.Field, name: s.Name, text: str) -> None:
    """Refuse a windowing attribute that does not count in steps; raises LanguageError."""
    if not in_steps(field.type):
        message = f'"{field.name}" has type {field.type}; a window needs an attribute with an order in steps.'
        raise LanguageError.at(name.span, message, text, hint=into_steps(field))


def rows(amount: s.Reach, what: str, clause: s.WindowClause, text: str) -> int:
    """Return an amount that counts tuples; raises LanguageError."""
    if isinstance(amount, s.Duration) and amount.unit in ("rows", "plain") and not amount.places:
        if amount.value > LIMIT:
            message = f"{what} is {amount.text}, and the most is {LIMIT:,} rows."
            raise LanguageError.at(amount.span, message, text, hint="Write RANGE ALL for all of the stream.")
        return amount.value
    span = getattr(amount, "span", clause.span)
    raise LanguageError.at(span, f"{what} counts tuples here.", text, hint="Write for example 100 rows.")
