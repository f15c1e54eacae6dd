"""Split a window aggregate that the plan computes in one into a low and a high level, for runs in two processes.

In one process a table in front mostly costs more than it saves, so no plan chooses it there; between processes it is
what keeps tuples from crossing, as partitions on Spark send partial aggregates.
"""

from __future__ import annotations

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.graph import Node, OperatorNode, operator_node
from oop_engine.plan.windows import window_text
from oop_engine.rewrite.strategy import RANKED, Wanted, steps
from operators.chain import Chain
from operators.window_aggregate.partial_final import HighAggregate


@attrs.frozen
class Levels:
    """A window aggregate in two levels: the stream of partial aggregates, and what rolls them up."""

    lower: Node
    high: HighAggregate

    @classmethod
    def of(cls, node: Node) -> Levels:
        """Part a plan that ends in a window aggregate; PlanError where it ends otherwise or has no partial results."""
        found = cls._asked(node) or cls._chosen(node)
        if found is None:
            raise PlanError(
                f'apart: the stream ends in "{node.label}", not in a window aggregate that may have two levels.\n'
                '  Write .window(...).aggregate(...) last, with strategy="two_level" or none, and go on from what apart'
                " gives."
            )
        return found

    @classmethod
    def _asked(cls, node: Node) -> Levels | None:
        if not isinstance(node, OperatorNode) or not isinstance(node.operator, Chain):
            return None
        high = node.operator.operators[-1]
        return cls(node.inputs[0], high) if isinstance(high, HighAggregate) else None

    @classmethod
    def _chosen(cls, node: Node) -> Levels | None:
        """Part an aggregate of which the user left open how it is computed."""
        found = _left_open(node)
        if found is None:
            return None
        wanted, node = found
        schema = node.schema
        try:
            for step in steps(wanted, schema):
                node = operator_node(step.operator, node, label=step.label, remarks=step.remarks)
        except SchemaError as error:
            told = str(error).partition("\n")[0].rstrip(".")
            raise PlanError(
                f"apart: {wanted.label()} over {window_text(wanted.window, schema)} has no two levels: {told}.\n"
                "  Run it in this process, without apart."
            ) from error
        return cls._asked(node)


def _left_open(node: Node) -> tuple[Wanted, Node] | None:
    """Return what a node aggregates, and the stream that the window is over, where two levels can give the same."""
    if not isinstance(node, OperatorNode) or node.logical is None:
        return None
    wanted = node.logical.wanted
    if wanted.empty or wanted.lateness or len(wanted.windows) > 1 or isinstance(wanted.window, RANKED):
        return None
    if getattr(node.operator, "named", False):
        # Its results have the name of the window.
        return None
    return attrs.evolve(wanted, strategy="two_level", options={}), node.logical.entry(node)
