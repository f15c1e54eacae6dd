"""Alerts over the results of windows: find how far the windows are apart and which groups they have."""

from __future__ import annotations

from typing import Final

import attrs

from oop_engine.api.column_expressions import Computed, expression_of
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode
from operators.alerts.alerts import Alerts
from operators.protocol import OneByOne
from operators.window import SlidingWindow
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import START, WINDOW

_WAY: Final = (
    'Write it behind the windows: stream.window(range="1 minute").aggregate(oop.count(), by="srcIP").alert(...).'
)


@attrs.frozen
class _Followed:
    """The windows whose results an alert follows, and the names that their groups have in these."""

    slide: int
    by: tuple[str, ...]


def alerts_of(node: Node, name: str, when: Computed, clear: Computed | None, windows: int) -> Alerts:
    """Make the operator of an alert over the results of windows, which `node` has.

    PlanError when it has no such results, or when their windows are not a fixed time apart.

    >>> results = oop.rows([(1,)], oop.Schema.of(ts="int64")).window(range=10, slide=5).aggregate(oop.count())
    >>> alerts_of(results.node, "busy", "count > 3", None, 2).slide
    5
    """
    followed = _followed(node)
    condition = expression_of(when, node.schema, "alert(when=...)")
    over = None if clear is None else expression_of(clear, node.schema, "alert(clear=...)")
    return Alerts(name, condition, followed.by, slide=followed.slide, windows=windows, clear=over)


def _followed(node: Node) -> _Followed:
    """Find the windows behind which a node stands, with nothing between but what takes results one by one."""
    names = {name: name for name in node.schema.names}
    at = node
    while not isinstance(at, OperatorNode) or at.logical is None:
        if not isinstance(at, OperatorNode):
            raise PlanError(f"alert: the stream has no results of windows: {', '.join(node.schema.names)}.\n  {_WAY}")
        if not isinstance(at.operator, OneByOne):
            raise PlanError(f'alert: "{at.label}" stands between the windows and the alert.\n  {_WAY}')
        inputs = [each.schema for each in at.inputs]
        found = {name: at.operator.comes_from(old, *inputs) for name, old in names.items()}
        names = {name: old for name, old in found.items() if old is not None}
        (at,) = at.inputs
    logical = at.logical.aggregate
    if FIRED in node.schema and START not in names:
        # A part that says what is new begins where the one before it ended, not with its window.
        raise PlanError(
            "alert: early results say what is new alone (DISCARD), and an alert is over all of a window.\n"
            '  Leave DISCARD out; in Python write refine="accumulate".'
        )
    if WINDOW in node.schema and logical.named and WINDOW in names:
        raise PlanError("alert: the results are of several windows.\n  Follow one of them: stream.window(...).")
    if not isinstance(logical.window, SlidingWindow):
        raise PlanError(
            "alert: these windows are not a fixed time apart, so none of them follows another.\n"
            '  Write sliding or tumbling windows: [RANGE 1 minute, WA ts], in Python window(range="1 minute").'
        )
    by = tuple(name for name, old in names.items() if old in logical.by)
    if lost := [group for group in logical.by if group not in (names[name] for name in by)]:
        raise PlanError(f"alert: the results no longer say of which {lost[0]} they are.\n  Select {lost[0]}, too.")
    return _Followed(logical.window.slide, by)
