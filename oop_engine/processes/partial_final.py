"""Split a window aggregate that the plan computes in one into a low and a high level, for runs in two processes.

In one process a table in front mostly costs more than it saves, so no plan chooses it there; between processes it is
what keeps tuples from crossing, as partitions on Spark send partial aggregates.
"""

from __future__ import annotations

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.graph import Node, operator_node
from oop_engine.plan.windows import window_text
from oop_engine.rewrite.steps import two_levels
from oop_engine.rewrite.strategy import apart
from operators.data.schema import Schema
from operators.window_aggregate.partial_final import HighAggregate, LowAggregate


@attrs.frozen
class PartialFinal:
    """A window aggregate in two levels.

    - `entry`: the stream that the low level reads, and `lower`, that of the partial aggregates which it gives.
    - `low`, `high`: the levels.
    - `schema`, `label`: of the results, and how a plan names the whole.
    """

    entry: Node
    lower: Node
    low: LowAggregate
    high: HighAggregate
    schema: Schema
    label: str

    @classmethod
    def of(cls, node: Node, *, counted: bool = False) -> PartialFinal:
        """Part a plan that ends in a window aggregate; PlanError where it ends otherwise or has no partial results.

        - `counted`: partial aggregates say how many tuples each stands for, so that lost ones are counted in tuples.
        """
        found = apart(node)
        if found is None:
            raise PlanError(
                f'apart: the stream ends in "{node.label}", not in a window aggregate that may have two levels.\n'
                '  Write .window(...).aggregate(...) last, with strategy="two_level" or none, and go on from what apart'
                " gives."
            )
        logical, node = found
        schema = node.schema
        try:
            several, both = two_levels(logical, schema, counted=counted)
            for step in several:
                node = operator_node(step.operator, node, label=step.label, remarks=step.remarks)
        except SchemaError as error:
            told = str(error).partition("\n")[0].rstrip(".")
            raise PlanError(
                f"apart: {logical.label()} over {window_text(logical.window, schema)} has no two levels: {told}.\n"
                "  Run it in this process, without apart."
            ) from error
        (lower,) = node.inputs
        (entry,) = lower.inputs
        return cls(entry, lower, both.low, both.high, node.schema, logical.label())
