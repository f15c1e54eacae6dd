"""BILL ranks the results of the windows of a query over a period, with those that have no result as zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.expressions import is_aggregate
from oop_engine.language.translate.amounts import Amounts
from oop_engine.language.translate.tree import column_name
from oop_engine.language.unparse import unparse_expression
from oop_engine.language.walk import number_of
from oop_engine.query_errors import LanguageError
from operators.functions import by_name, constants
from operators.window_aggregate.results import START


def billed(tree: s.Query, bill: s.Bill, result: Stream) -> Stream:
    """Return the bills over the results of a query; raises LanguageError."""
    if tree.window is None:
        hint = (
            "Add a window after the SELECT list: SELECT srcIP, rate(bytes * 8) AS bps [RANGE 5 minutes, WA ts] FROM ..."
        )
        raise LanguageError.at(bill.span, "BILL ranks the results of windows.", tree.text, hint=hint)
    if tree.order or tree.limit is not None or tree.distinct or tree.alert is not None:
        hint = "Leave them out, or write the query with BILL in FROM ( ... )."
        raise LanguageError.at(bill.span, "BILL goes with no ORDER BY, LIMIT, DISTINCT or ALERT.", tree.text, hint=hint)
    with placed(bill.value.span, tree.text):
        value = result.schema.resolve(bill.value.parts[-1], where="query")
    per = bill.per
    if not isinstance(per, str):
        per = Amounts(result.schema.field(START), tree.text).amount(per, "PER")
    more = {column_name(item): _function(item.expr, tree, result) for item in bill.more}
    with placed(bill.span, tree.text):
        return result.billing(value, per=per, zone=bill.zone, share=bill.share, **more)


def _function(expr: s.Expr | s.Star, tree: s.Query, result: Stream) -> Any:
    """Return the aggregate function over columns of the results that a call says; raises LanguageError."""
    if not isinstance(expr, s.Call) or not is_aggregate(expr.function):
        problem = f"{unparse_expression(expr)} is no aggregate over columns of the results."
        hint = "Write one as sum(bytes), and what it is over in the SELECT list."
        raise LanguageError.at(expr.span, problem, tree.text, hint=hint)
    names = ["*"] if expr.star else [_argument(expr, place, tree, result) for place in range(len(expr.args))]
    with placed(expr.span, tree.text):
        return by_name(expr.function, names, distinct=expr.distinct)


def _argument(call: s.Call, place: int, tree: s.Query, result: Stream) -> str | float:
    given = call.args[place]
    if place in constants(call.function) and (value := number_of(given)) is not None:
        return float(value) if isinstance(value, Decimal) else value
    if not isinstance(given, s.Name):
        hint = f"Select it, too: SELECT ..., {unparse_expression(given)} AS x ... BILL ..., {call.function}(x) PER ..."
        raise LanguageError.at(given.span, "this is no column of the results.", tree.text, hint=hint)
    with placed(given.span, tree.text):
        return result.schema.resolve(given.parts[-1], where="query")
