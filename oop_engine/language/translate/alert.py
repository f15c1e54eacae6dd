"""ALERT follows the results of the windows of a query, with conditions over the columns that it selects."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import expression_of
from oop_engine.language.translate.scope import check_condition
from oop_engine.language.translate.tree import aggregates, column_name
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import rewritten
from oop_engine.query_errors import LanguageError
from operators.expression import Expression


def alerted(tree: s.Query, alert: s.Alert, result: Stream) -> Stream:
    """Return the events of an alert over the results of a query; raises LanguageError."""
    if tree.window is None:
        hint = "Add a window after the SELECT list: SELECT srcIP, count(*) [RANGE 1 minute, WA ts] FROM ..."
        raise LanguageError.at(alert.span, "ALERT follows the results of windows.", tree.text, hint=hint)
    if tree.order or tree.limit is not None or tree.distinct:
        hint = "Leave them out; ORDER BY and LIMIT rank the results of a query without an alert."
        raise LanguageError.at(alert.span, "ALERT does not go with ORDER BY, LIMIT or DISTINCT.", tree.text, hint=hint)
    when = _condition(alert.when, "WHEN", tree, result)
    clear = None if alert.clear is None else _condition(alert.clear, "CLEAR", tree, result)
    with placed(alert.span, tree.text):
        return result.alert(alert.name, when, clear=clear, windows=alert.windows)


def _condition(expr: s.Expr, clause: str, tree: s.Query, result: Stream) -> Expression:
    """Return a condition in which what is selected stands for its column."""

    def column(piece: s.Expr) -> s.Expr | None:
        for item in tree.select:
            if item.expr == piece and column_name(item) in result.schema:
                return s.Name((column_name(item),), span=piece.span)
        return None

    found = rewritten(expr, column)
    for call in aggregates(found):
        written = unparse_expression(call)
        hint = (
            f"Select it, too: SELECT ..., {written} AS x ... ALERT {tree.alert.name if tree.alert else 'a'} WHEN x ..."
        )
        raise LanguageError.at(call.span, f"{written} is no column of the result.", tree.text, hint=hint)
    condition = expression_of(found, result.schema, tree.text)
    check_condition(condition, result.schema, clause, expr, tree.text)
    return condition
