"""Alerts over the results of windows: find how far the windows are apart and which groups they have."""

from __future__ import annotations

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.api.followed import followed
from oop_engine.plan.graph import Node
from operators.alerts.alerts import Alerts


def alerts_of(node: Node, name: str, when: Computed, clear: Computed | None, windows: int) -> Alerts:
    """Make the operator of an alert over the results of windows, which `node` has.

    PlanError when it has no such results, or when their windows are not a fixed time apart.

    >>> results = oop.rows([(1,)], oop.Schema.of(ts="int64")).window(range=10, slide=5).aggregate(oop.count())
    >>> alerts_of(results.node, "busy", "count > 3", None, 2).slide
    5
    """
    source = followed(node, "alert", "alert(...)")
    condition = expression_of(when, node.schema, "alert(when=...)")
    over = None if clear is None else expression_of(clear, node.schema, "alert(clear=...)")
    return Alerts(name, condition, source.by, slide=source.window.slide, windows=windows, clear=over)
