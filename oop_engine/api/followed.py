"""The windows whose results an operator follows, and their groups, found behind it in the plan."""

from __future__ import annotations

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode
from operators.protocol import OneByOne
from operators.window import SlidingWindow
from operators.window.session import SessionWindow
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import START, WINDOW


@attrs.frozen
class Followed:
    """The windows whose results an operator follows, and the names that their groups have in these.

    >>> Followed(SlidingWindow("ts", size=10, slide=5), ("srcIP",)).by
    ('srcIP',)
    """

    window: SlidingWindow | SessionWindow
    by: tuple[str, ...]


def followed(node: Node, what: str, way: str, *, at_once: bool = False) -> Followed:
    """Find the windows behind which a node stands, with nothing between but what takes results one by one.

    - `what`: the method that follows them, as messages name it: "alert".
    - `way`: a call of it behind windows, for messages: 'alert("busy", "count > 10")'.
    - `at_once`: windows may fire as tuples arrive.

    PlanError when there are no such windows, when they are neither sessions nor a fixed time apart, or when their
    groups are lost.

    >>> results = oop.rows([(1,)], oop.Schema.of(ts="int64")).window(range=10, slide=5).aggregate(oop.count())
    >>> followed(results.node, "alert", "alert(...)").by
    ()
    """
    instead = f'Write it behind the windows: stream.window(range="1 minute").aggregate(oop.count(), by="srcIP").{way}.'
    names = {name: name for name in node.schema.names}
    at = node
    while not isinstance(at, OperatorNode) or at.logical is None:
        if not isinstance(at, OperatorNode):
            raise PlanError(
                f"{what}: the stream has no results of windows: {', '.join(node.schema.names)}.\n  {instead}"
            )
        if not isinstance(at.operator, OneByOne):
            raise PlanError(f'{what}: "{at.label}" stands between the windows and the {what}.\n  {instead}')
        inputs = [each.schema for each in at.inputs]
        found = {name: at.operator.comes_from(old, *inputs) for name, old in names.items()}
        names = {name: old for name, old in found.items() if old is not None}
        (at,) = at.inputs
    logical = at.logical.aggregate
    if logical.condition is not None and not at_once:
        raise PlanError(
            f"{what}: these windows fire {logical.condition}, at no time of the stream that could be followed.\n"
            '  Let them fire on event time: early="10 s", EARLY 10 s. Or leave early results out.'
        )
    if (FIRED in node.schema and START not in names) or (logical.condition is not None and logical.discards):
        # A part that says what is new begins where the one before it ended, not with its window.
        raise PlanError(
            f"{what}: early results say what is new alone (DISCARD), and this is over all of a window.\n"
            '  Leave DISCARD out; in Python write refine="accumulate".'
        )
    if WINDOW in node.schema and logical.named and WINDOW in names:
        raise PlanError(f"{what}: the results are of several windows.\n  Follow one of them: stream.window(...).")
    if not isinstance(logical.window, SlidingWindow | SessionWindow):
        raise PlanError(
            f"{what}: these windows are not a fixed time apart, so none of them follows another.\n"
            '  Write sliding or tumbling windows: [RANGE 1 minute, WA ts], in Python window(range="1 minute").'
        )
    by = tuple(name for name, old in names.items() if old in logical.by)
    if lost := [group for group in logical.by if group not in (names[name] for name in by)]:
        raise PlanError(f"{what}: the results no longer say of which {lost[0]} they are.\n  Select {lost[0]}, too.")
    return Followed(logical.window, by)
