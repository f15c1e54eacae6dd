"""Turn the windows on the inputs of a join into a join window; refuse those that define none.

RANGE on an input says how long its tuples stay. With a SLIDE, the same on all inputs, tuples meet that have a window in
common (Eq. 5.20); TUMBLING is the case of one RANGE for all.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.amounts import Amounts, check_steps
from oop_engine.language.translate.inputs import Inputs
from oop_engine.plan.ticks import amount_of
from oop_engine.query_errors import LanguageError
from oop_engine.span import Span
from operators.expression import Column, Comparison, Expression, Logical
from operators.join import Band, JoinWindow, SameWindow, WidJoin
from operators.window import SlidingWindow

_EXAMPLE = "[RANGE 1 minute, WA ts]"


@attrs.frozen(kw_only=True)
class InputWindow:
    """The window on one input, in ticks of its attribute."""

    wattr: str
    kind: pa.DataType
    length: int
    slide: int | None
    origin: int
    tumbling: bool
    closed: bool
    span: Span

    def sliding(self) -> SlidingWindow:
        """Return the windows of an input that slide."""
        return SlidingWindow(self.wattr, size=self.length, slide=self.slide or self.length, origin=self.origin)


def input_windows(inputs: Inputs, source: s.Join) -> Sequence[InputWindow]:
    """Read the windows of all inputs, each its own or one tumbling window for all; raises LanguageError."""
    found: list[InputWindow] = []
    for number, some in enumerate(inputs.inputs):
        clause = source.window or some.item.window
        if clause is None:
            name = some.name or "this input"
            message = f"{name} has no window: it is not said how long its tuples wait for those of the other inputs."
            hint = (
                f"Write {name} {_EXAMPLE}, or [RANGE TUMBLING 1 minute, WA ts] after the last input for all of them,\n"
                "  or for two inputs ON a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '2' SECOND."
            )
            raise LanguageError.at(some.item.span, message, inputs.text, hint=hint)
        found.append(_input_window(inputs, number, clause))
    first = found[0]
    for window in found[1:]:
        _check_alike(first, window, inputs.text)
    if len(found) > 2 and first.slide is not None and not first.tumbling:
        message = "windows with a SLIDE join two inputs, and there are more."
        raise LanguageError.at(first.span, message, inputs.text, hint="Join two in a query inside FROM ( ... ).")
    return found


def pair_window(left: InputWindow, right: InputWindow, text: str) -> JoinWindow:
    """Return the join window of two inputs."""
    with placed(right.span, text):
        if left.tumbling:
            return SameWindow(left.wattr, right.wattr, size=left.length, origin=left.origin)
        if left.slide is not None:
            return WidJoin(left.sliding(), right.sliding())
        return Band(left.wattr, right.wattr, left=left.length, right=right.length, closed=left.closed)


def within(left: InputWindow, right: InputWindow, names: tuple[str, str]) -> Expression | None:
    """Return the condition that two inputs, which a chain does not join directly, are in each other's windows.

    None for tumbling windows: what is in the same one as the first input is in the same one as the others.
    """
    if left.tumbling:
        return None
    one, other = (Column(name) for name in names)
    less = "<=" if left.closed else "<"
    after = Comparison(less, one - amount_of(right.length, right.kind), other)
    return Logical("and", after, Comparison(less, other, one + amount_of(left.length, left.kind)))


def _input_window(inputs: Inputs, number: int, clause: s.WindowClause) -> InputWindow:
    text = inputs.text
    _refuse(clause, text)
    if not isinstance(clause.range, s.Duration):
        message = "RANGE ALL would keep the tuples of a join's input for ever."
        raise LanguageError.at(clause.range.span, message, text, hint=f"Say how long they stay, e.g. {_EXAMPLE}.")
    name = clause.wattr if isinstance(clause.wattr, s.Name) else s.Name(("ts",), span=clause.span)
    inputs.enter_one(number, name)
    wattr = inputs[number].scope.attribute(name)
    field = inputs[number].scope.schema.field(wattr)
    amounts = Amounts(field, text)
    check_steps(field, name, text)
    return InputWindow(
        wattr=wattr,
        kind=field.type,
        length=amounts.ticks(clause.range, "RANGE"),
        slide=None if clause.slide is None else amounts.ticks(clause.slide, "SLIDE"),
        origin=0 if clause.origin is None else amounts.origin(clause.origin),
        tumbling=clause.tumbling,
        closed=clause.closed,
        span=clause.span,
    )


def _refuse(clause: s.WindowClause, text: str) -> None:
    """Refuse what the windows of aggregates have and those of a join's inputs have not."""
    sliding = clause.slide is not None or clause.tumbling
    said = (
        (clause.session, "SESSION"),
        (clause.rattr is not None, "RATTR and SATTR"),
        (isinstance(clause.wattr, s.Call), "WA rank(...)"),
        (bool(clause.partition), "PA"),
        (not clause.partial, "NO PARTIAL"),
        (clause.origin is not None and not sliding, "ORIGIN without TUMBLING"),
        (clause.closed and sliding, "CLOSED with TUMBLING or SLIDE"),
        (clause.fires, "EARLY"),
        (clause.lateness is not None, "LATENESS"),
        (clause.consistent, "CONSISTENT"),
        (clause.empty, "EMPTY"),
        (clause.strategy is not None, "STRATEGY"),
        (not clause.idle, "NO IDLE"),
        (isinstance(clause.range, s.Band), "BAND"),
        (isinstance(clause.range, s.Marked), "MARKED BY"),
        (isinstance(clause.range, s.Calendar), "CALENDAR"),
        (isinstance(clause.range, s.When), "WHEN"),
    )
    for given, written in said:
        if given:
            message = f"the window of a join's input says how long a tuple stays; it has no {written}."
            raise LanguageError.at(clause.span, message, text, hint=f"Write for example {_EXAMPLE}.")


def _check_alike(first: InputWindow, window: InputWindow, text: str) -> None:
    """Refuse windows on two inputs that do not go together."""
    if first.tumbling != window.tumbling:
        message, hint = "one input has TUMBLING windows and another has not.", "Write TUMBLING for all, or for none."
    elif first.tumbling and first.length != window.length:
        message, hint = (
            "tumbling windows that are joined have one RANGE.",
            "Write [RANGE TUMBLING ...] once, at the end.",
        )
    elif first.closed != window.closed:
        message, hint = "one input's window is CLOSED and another's is not.", "Write CLOSED in all, or in none."
    elif first.slide != window.slide:
        message, hint = "windows that are joined have one SLIDE, or none has.", f"Without it: {_EXAMPLE}."
    elif first.origin != window.origin:
        message, hint = "windows that are joined have one ORIGIN.", "Write the same for all."
    else:
        return
    raise LanguageError.at(window.span, message, text, hint=hint)
