"""Reduce tuples before a shuffle: partitions send partial aggregates of slices, buckets add them up.

It pays where a slice has many tuples of a group in one partition, and costs little where it has not. A function whose
result cannot be made of small parts goes without, and so does what depends on when promises come.
"""

from __future__ import annotations

from typing import Final

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, operator_node
from oop_engine.spark.stages import FRONT, Cut, cut
from operators.chain import Chain
from operators.errors import SchemaError
from operators.expression import Column
from operators.rows.project import Project
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import FROM, UNTIL
from operators.window_aggregate.partial_final import HighAggregate, LowAggregate
from operators.window_aggregate.partial_final.partials import split_function
from operators.window_aggregate.stores.per_window.wid import WindowAggregate

SIZE: Final = 1 << 18
"""Partial aggregates that a partition holds."""


def cut_in_levels(plan: Plan, *, ordered: bool = False) -> Cut:
    """Cut a plan into stages, with low levels in front of the shuffles where it can have them."""
    return cut(in_levels(cut(plan, ordered=ordered)), ordered=ordered)


def in_levels(whole: Cut) -> Plan:
    """Return the plan with a low level in front of every shuffle of tuples to a window aggregate that can have one."""
    made: dict[int, Node] = {}
    rooms = dict(zip(map(id, whole.plan.nodes), whole.rooms, strict=True))
    for node in whole.plan.nodes:
        inputs = tuple(made[id(upstream)] for upstream in node.inputs)
        fresh: Node = node
        if isinstance(node, OperatorNode):
            fresh = attrs.evolve(node, inputs=inputs)
            crosses = rooms[id(node)] != FRONT == rooms[id(node.inputs[0])]
            if isinstance(node.operator, WindowAggregate) and crosses and splits(node.operator):
                fresh = _split(node, node.operator, inputs[0])
        made[id(node)] = fresh
    return Plan(tuple(made[id(node)] for node in whole.plan.outputs))


def splits(aggregate: WindowAggregate) -> bool:
    """Return whether all results of an aggregate can be made of partial ones."""
    if aggregate.endless or not isinstance(aggregate.window, SlidingWindow):
        return False
    try:
        for function in aggregate.functions.values():
            split_function(function)
    except SchemaError:
        return False
    return True


def _split(node: OperatorNode, aggregate: WindowAggregate, below: Node) -> Node:
    schema = below.schema
    read = [*aggregate.by, *(a for f in aggregate.functions.values() for a in f.arguments), FROM, UNTIL]
    names = dict.fromkeys(schema.resolve(name, where="aggregate") for name in read)
    chosen = operator_node(Project({name: Column(name) for name in names}), below, label="project what is aggregated")
    low = LowAggregate(aggregate.functions, aggregate.by, size=SIZE)
    parts = operator_node(Chain([low]), chosen, label=f"low-level {node.label}")
    times = schema.field(aggregate.window.wattr).type
    high = HighAggregate(
        aggregate.window,
        aggregate.functions,
        aggregate.by,
        empty=aggregate.empty,
        strategy=aggregate.strategy,
        times=times,
    )
    return attrs.evolve(node, operator=Chain([high]), inputs=(parts,), label=f"high-level {node.label}")
