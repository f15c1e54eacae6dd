"""Alerts over the results of windows: find how far the windows are apart and which groups they have."""

from __future__ import annotations

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.api.followed import followed
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node
from operators.alerts.alerts import Alerts
from operators.alerts.sessions import SessionAlerts
from operators.window.session import SessionWindow


def alerts_of(node: Node, name: str, when: Computed, clear: Computed | None, windows: int) -> Alerts | SessionAlerts:
    """Make the operator of an alert over the results of windows, which `node` has.

    PlanError when it has no such results, when their windows are neither sessions nor a fixed time apart, or when a run
    of sessions is asked for.

    >>> results = oop.rows([(1,)], oop.Schema.of(ts="int64")).window(range=10, slide=5).aggregate(oop.count())
    >>> alerts_of(results.node, "busy", "count > 3", None, 2).slide
    5
    """
    source = followed(node, "alert", "alert(...)", at_once=True)
    condition = expression_of(when, node.schema, "alert(when=...)")
    if isinstance(source.window, SessionWindow):
        if windows != 1 or clear is not None:
            raise PlanError(
                "alert: no session follows another at once, so each is an alert by itself.\n"
                "  Leave FOR ... WINDOWS (windows=) and CLEAR (clear=) out."
            )
        return SessionAlerts(name, condition, source.by)
    over = None if clear is None else expression_of(clear, node.schema, "alert(clear=...)")
    return Alerts(name, condition, source.by, slide=source.window.slide, windows=windows, clear=over)
