"""Bills over the results of windows: find the slots, and the periods of which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oop_engine.api.followed import followed
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node
from oop_engine.plan.periods import period_of
from oop_engine.plan.ticks import Amount
from operators.functions.protocol import AggregateFunction
from operators.rates.billing import Billing
from operators.window import SlidingWindow
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import START


def billing_of(
    node: Node,
    value: str,
    functions: Mapping[str, AggregateFunction],
    *,
    per: Amount,
    zone: str,
    origin: Amount,
    share: float,
    sources: Sequence[str],
    on_time: Mapping[str, AggregateFunction] | None = None,
) -> Billing:
    """Make the operator that bills the results of windows, which `node` has; parameters as in `Stream.billing`.

    PlanError when it has no such results, or when there is no such period.

    >>> results = oop.rows([(1, 5)], oop.Schema.of(ts="int64", v="int64")).window(range=5).aggregate(oop.sum("v"))
    >>> options = {"zone": "UTC", "origin": 0, "share": 0.95, "sources": ()}
    >>> billing_of(results.node, "sum_v", {}, per=100, **options).slot.size
    5
    """
    source = followed(node, "billing", 'billing("count", per="month")')
    if FIRED in node.schema:
        raise PlanError("billing: early results of a slot come before its last one.\n  Leave EARLY out (early=).")
    if not isinstance(source.window, SlidingWindow):
        raise PlanError(
            "billing: sessions are not a fixed time apart, so a period has no number of them.\n  Use window(range=...)."
        )
    schema = node.schema
    return Billing(
        schema.resolve(value, where="billing"),
        source.by,
        slot=source.window,
        period=period_of(per, zone, origin, schema.field(START, where="billing"), source.window.slide),
        share=share,
        functions=functions,
        on_time=on_time or {},
        sources=tuple(schema.resolve(name, where="billing(sources=...)") for name in sources),
    )
