"""`rate(x)` is an amount per second of the window: rate(bytes) means rate(sum(bytes)), rate(*) means rate(count(*))."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import attrs

from oop_engine.language import syntax as s
from oop_engine.language.expressions import is_aggregate
from oop_engine.language.translate.tree import aggregates
from oop_engine.plan.durations import SECOND
from oop_engine.query_errors import LanguageError

RATE: Final = "rate"
_EXAMPLE: Final = "SELECT rate(bytes) [RANGE 1 minute, WA ts] FROM ..."


def of_windows(call: s.Call, windows: Sequence[s.WindowClause], text: str) -> s.Expr:
    """Return what a call of rate means: an aggregate over the seconds of a window; raises LanguageError.

    - `call`: the call as it is written.
    - `windows`: those of the query; a RANGE of time has seconds that are known, whatever it holds.
    - `text`: the query.
    """
    inner = call.args[0] if len(call.args) == 1 else None
    if call.star == (inner is not None):
        raise LanguageError.at(call.span, "rate takes one argument, as in rate(bytes), or rate(*).", text)
    if len(windows) > 1:
        message = "rate is per second of a window, and here are several, each of another length."
        raise LanguageError.at(call.span, message, text, hint="Write a query for each window, or select sum(bytes).")
    window = windows[0] if windows else None
    if window is None:
        raise LanguageError.at(call.span, "rate is per second of a window, and here is none.", text, hint=_EXAMPLE)
    if not isinstance(window.range, s.Duration) or window.range.unit != "ns" or window.session or window.fires:
        message = "rate is per second of a window whose RANGE is a time, and that gives one result."
        raise LanguageError.at(call.span, message, text, hint=_EXAMPLE)
    if inner is None:
        amount: s.Expr = s.Call("count", (), star=True, span=call.span)
    elif any(is_aggregate(piece.function) for piece in aggregates(inner)):
        amount = inner
    else:
        amount = s.Call("sum", call.args, distinct=call.distinct, span=call.span)
    seconds = Fraction(window.range.value, SECOND)
    per = s.Literal(int(seconds) if seconds.denominator == 1 else float(seconds), span=call.span)
    return attrs.evolve(s.Binary("/", amount, per), span=call.span)
