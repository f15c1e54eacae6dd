"""Change the tuples of an input in FROM before the query reads them: SPREAD, NUMBER and DEDUP."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.amounts import Amounts
from oop_engine.language.translate.scope import Scope


def stepped(scope: Scope, step: s.Step) -> Stream:
    """Return the stream of a scope after one step; raises LanguageError."""
    if isinstance(step, s.Numbered):
        with placed(step.span, scope.text):
            return scope.stream.number(step.name)
    if isinstance(step, s.Deduped):
        by = [scope.attribute(name) for name in step.by]
        with placed(step.span, scope.text):
            return scope.stream.dedup(by=by, mark=step.mark)
    over = step.over or (s.Name(("ts",), span=step.span), s.Name(("end_ts",), span=step.span))
    start, end = (scope.attribute(name) for name in over)
    columns = [scope.attribute(name) for name in step.columns]
    amount = Amounts(scope.schema.field(start), scope.text).amount(step.step, "BY")
    with placed(step.span, scope.text):
        return scope.stream.spread(*columns, step=amount, start=start, end=end)
