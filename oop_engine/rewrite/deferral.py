"""Choose which operators of a plan have calls made in the background, and say why the others do not.

Tuples overtake each other there, so no operator behind may depend on their order, and none may take others back.
"""

from __future__ import annotations

import attrs

from oop_engine.plan.graph import OperatorNode, Plan, retracted_of
from oop_engine.rewrite.needs import below, need
from operators.background import Defers
from operators.protocol_checks import fits


@attrs.frozen
class Deferral:
    """The way to run an operator with an expensive part: by so many `workers`, or in its place for the reason `why`."""

    workers: int
    why: str = ""

    def told(self) -> str:
        """Say it for `explain`."""
        if self.why:
            return f"the expensive condition is computed in its place, with the order kept: {self.why}"
        who = "1 thread computes" if self.workers == 1 else f"{self.workers} threads compute"
        return (
            f"{who} the expensive condition in the background; tuples that the others decide overtake, and a promise"
            " waits for the tuples that it covers"
        )


def deferrals(plan: Plan) -> dict[int, Deferral]:
    """Return how each operator with an expensive part runs, by its place."""
    places = [place for place, node in plan.operators.items() if fits(node.operator, Defers)]
    if not places:
        return {}
    ordered = [place for place, node in enumerate(plan.nodes) if need(node).arrival]
    found: dict[int, Deferral] = {}
    for place in places:
        node = plan.operators[place]
        assert fits(node.operator, Defers)
        after = next((plan.nodes[at].label for at in ordered if place in below(plan, [at])), None)
        why = "" if after is None else f"{after} depends on the order of arrival"
        found[place] = Deferral(node.operator.workers, why or _changes(node))
    return found


def _changes(node: OperatorNode) -> str:
    return "" if retracted_of(node.inputs[0]) is None else "its input has tuples that take back or replace others"
