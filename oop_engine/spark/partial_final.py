"""Reduce tuples before a shuffle: partitions send partial aggregates of slices, buckets add them up.

It pays where a slice has many tuples of a group in one partition, and costs little where it has not. A function whose
result cannot be made of small parts goes without, and so does what depends on when promises come.
"""

from __future__ import annotations

from typing import Final

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, operator_node
from oop_engine.rewrite.strategy import levels
from oop_engine.spark.stages import FRONT, Cut, cut
from operators.chain import Chain
from operators.expression import Column
from operators.plan_facts import TwoLevels
from operators.rows.project import Project

SIZE: Final = 1 << 18
"""Partial aggregates that a partition holds."""


def cut_in_levels(plan: Plan, *, ordered: bool = False) -> Cut:
    """Cut a plan into stages, with low levels in front of the shuffles where it can have them."""
    return cut(in_levels(cut(plan, ordered=ordered)), ordered=ordered)


def in_levels(whole: Cut) -> Plan:
    """Return the plan with a low level in front of every shuffle of tuples to a window aggregate that can have one."""
    made: dict[int, Node] = {}
    stages = dict(zip(map(id, whole.plan.nodes), whole.stages, strict=True))
    for node in whole.plan.nodes:
        inputs = tuple(made[id(upstream)] for upstream in node.inputs)
        fresh: Node = node
        if isinstance(node, OperatorNode):
            fresh = attrs.evolve(node, inputs=inputs)
            crosses = stages[id(node)] != FRONT == stages[id(node.inputs[0])]
            if crosses and (two := levels(node, SIZE)) is not None:
                fresh = _split(node, two, inputs[0])
        made[id(node)] = fresh
    return Plan(tuple(made[id(node)] for node in whole.plan.outputs))


def _split(node: OperatorNode, two: TwoLevels, below: Node) -> Node:
    columns = {name: Column(name) for name in two.reads}
    chosen = operator_node(Project(columns), below, label="project what is aggregated")
    parts = operator_node(Chain([two.low]), chosen, label=f"low-level {node.label}")
    return attrs.evolve(node, operator=Chain([two.high]), inputs=(parts,), label=f"high-level {node.label}")
