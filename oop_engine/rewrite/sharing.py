"""Compute once what several queries of a run have in common: equal steps, and conditions that all of them make.

A source that all queries filter gets a filter of the conditions they share in front, as Gigascope's prefilter; what is
left of each condition stays where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, operator_node
from operators.expression import Expression
from operators.expression.tree import Logical
from operators.plan_facts import Comparable, passes_where, same
from operators.rows.filter import Filter


def shared(plan: Plan) -> Plan:
    """Return the plan whose equal operators over the same streams are one, conditions that filters share first."""
    return _prefiltered(_merged(plan))


def _merged(plan: Plan) -> Plan:
    made: dict[int, Node] = {}
    seen: dict[tuple[int, ...], list[OperatorNode]] = {}
    for node in plan.nodes:
        fresh = over(node, made)
        if isinstance(fresh, OperatorNode) and isinstance(fresh.operator, Comparable):
            alike = seen.setdefault(tuple(map(id, fresh.inputs)), [])
            known = next((other for other in alike if same(other.operator, fresh.operator)), None)
            if known is None:
                alike.append(fresh)
            else:
                fresh = known
        made[id(node)] = fresh
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def _prefiltered(plan: Plan) -> Plan:
    made: dict[int, Node] = {}
    consumers, outputs = plan.consumers(), plan.output_numbers()
    first: dict[int, tuple[list[Expression], Node]] = {}
    for place, node in enumerate(plan.nodes):
        fresh = over(node, made)
        predicate = _predicate(node)
        if predicate is not None and id(node.inputs[0]) in first:
            common, entry = first[id(node.inputs[0])]
            rest = [c for c in conditions(predicate) if not any(c.equals(other) for other in common)]
            fresh = _filtered(entry, rest) if rest else entry
        made[id(node)] = fresh
        readers = [plan.nodes[reader] for reader, _ in consumers[place]]
        common = _common(readers) if len(readers) > 1 and place not in outputs else []
        if common:
            first[id(node)] = (common, _filtered(fresh, common))
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def _predicate(node: Node) -> Expression | None:
    """Return the predicate of a filter, None for other nodes."""
    return passes_where(node.operator) if isinstance(node, OperatorNode) else None


def conditions(predicate: Expression) -> list[Expression]:
    """Return the conditions that a predicate joins by "and"."""
    if isinstance(predicate, Logical) and predicate.op == "and":
        return [*conditions(predicate.left), *conditions(predicate.right)]
    return [predicate]


def _common(readers: Sequence[Node]) -> list[Expression]:
    """Return the conditions that all readers of a stream make, none unless all are filters."""
    made: list[list[Expression]] = []
    for reader in readers:
        if (predicate := _predicate(reader)) is None:
            return []
        made.append(conditions(predicate))
    return [c for c in made[0] if all(any(c.equals(other) for other in others) for others in made[1:])]


def _filtered(entry: Node, conditions: Sequence[Expression]) -> OperatorNode:
    predicate = reduce(lambda one, other: one & other, conditions)
    return operator_node(Filter(predicate), entry, label=f"filter {predicate}")


def over(node: Node, made: Mapping[int, Node]) -> Node:
    """Return a node over the nodes that stand for its inputs now."""
    inputs = tuple(made[id(upstream)] for upstream in node.inputs)
    if not isinstance(node, OperatorNode) or inputs == node.inputs:
        return node
    return attrs.evolve(node, inputs=inputs)
