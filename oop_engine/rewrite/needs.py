"""The needs of a node: how its input must be spread, which keys it keeps, and which promises let it release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode
from operators.plan_facts import AsksForPromises, Keys, Together, links, promises_asked, together
from operators.protocol import OneByOne, Operator
from operators.window_aggregate.bucket import FROM


def need(node: Node) -> Together:
    """Say what a node needs of how its input is spread."""
    if isinstance(node, SourceNode):
        return Together(stateless=True)
    return together(node.operator, [upstream.schema for upstream in node.inputs])


def below(plan: Plan, places: Iterable[int]) -> set[int]:
    """Return the places of all that some nodes read, directly or not."""
    found: set[int] = set()
    waiting = [upstream for place in places for upstream in plan.inputs[place]]
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += plan.inputs[place]
    return found


def alone(operator: Operator) -> Operator:
    """Return what stands alone in a chain."""
    found = links(operator)
    return found[0] if len(found) == 1 else operator


def passed(node: Node, needs: Together, keys: Sequence[Keys | None]) -> Keys | None:
    """Return the names of the keys after an operator that needs nothing together."""
    first = keys[0] if keys else None
    if first is None or not isinstance(node, OperatorNode) or any(k != first for k in keys):
        return None
    operator = alone(node.operator)
    if not isinstance(operator, OneByOne):
        return after(node, needs, [first])
    inputs = [upstream.schema for upstream in node.inputs]
    called = {old: name for name in node.schema.names if (old := operator.comes_from(name, *inputs)) is not None}
    return tuple(called[k] for k in first) if all(k in called for k in first) else None


def after(node: OperatorNode, needs: Together, sides: Sequence[Keys]) -> Keys | None:
    """Return the names of the keys after an operator, which came to each port by these; None where they are lost."""
    for called, keys in zip(needs.kept, sides, strict=False):
        names = tuple(called.get(key, "") for key in keys)
        if all(name in node.schema for name in names):
            return names
    return None


def ranked_by(plan: Plan, giver: int, readers: Sequence[tuple[int, int]]) -> str | None:
    """Return the attribute on whose promises its readers let go of what they hold, None when there is none.

    It is one on which they ask for promises themselves. For one that holds nothing, or does not say what it asks for,
    it is a time.
    """
    schema = plan.nodes[giver].schema
    if FROM in schema and schema.progressing(FROM):
        return FROM
    times = [field.name for field in schema.arrow if pa.types.is_temporal(field.type)]
    for place, port in readers:
        node = plan.operators[place]
        asked = promises_asked(node.operator, {}, [upstream.schema for upstream in node.inputs])[port]
        names = [name for name, pace in asked.items() if not pace.optional]
        if not asked and (need(node).stateless or not isinstance(node.operator, AsksForPromises)):
            names = times
        for name in names:
            if name in schema and schema.progressing(name):
                return name
    return None
