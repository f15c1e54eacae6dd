"""BILL ranks the results of the windows of a query over a period, with those that have no result as zero."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.language import syntax as s
from oop_engine.language.error_position import placed
from oop_engine.language.translate.amounts import Amounts
from oop_engine.query_errors import LanguageError
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
    with placed(bill.span, tree.text):
        return result.billing(value, per=per, zone=bill.zone, share=bill.share)
