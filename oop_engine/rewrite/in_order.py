"""Put the streams of a plan in order between its operators, as in-order engines do."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from oop_engine.plan.graph import Node, OperatorNode, SourceNode, operator_node
from oop_engine.rewrite.demand import schema_over
from operators.plan_facts import InOrder, Remarking, RunsInOrder, order_from, order_wanted, passage
from operators.streams.merge import Merge

Buffer: TypeAlias = Literal["output", "input"]


def ordered(node: Node, buffer: Buffer = "output") -> Node:
    """Return the same plan with sorts before what reads in order, merges for melds, and joins that keep order."""
    return _Ordering(buffer).made(node, None).node


@attrs.frozen(eq=False)
class _Ordered:
    """A node, and the attributes by which its tuples come in order."""

    node: Node
    by: frozenset[str] = frozenset()


@attrs.define(eq=False)
class _Ordering:
    buffer: Buffer
    _made: dict[tuple[int, str | None], _Ordered] = attrs.field(init=False, factory=dict)
    _sorted: dict[tuple[int, str], Node] = attrs.field(init=False, factory=dict)

    def sorted(self, node: Node, by: str | None) -> _Ordered:
        """Return a node in the order of an attribute, sorted if need be; as it comes when nothing is promised."""
        made = self.made(node, by)
        if by is None or by in made.by or not made.node.schema.progressing(by):
            return made
        key = id(made.node), by
        if key not in self._sorted:
            self._sorted[key] = operator_node(Merge(1, by), made.node, label=f"sort by {by}")
        return _Ordered(self._sorted[key], frozenset((by,)))

    def made(self, node: Node, wanted: str | None) -> _Ordered:
        """Return a node over inputs in order; where it can, it comes in the order of the wanted attribute."""
        key = id(node), wanted
        if key not in self._made:
            self._made[key] = self._source(node) if isinstance(node, SourceNode) else self._over(node, wanted)
        return self._made[key]

    def _source(self, node: SourceNode) -> _Ordered:
        return _Ordered(node, frozenset(p.on for p in node.promises if p.how == "ordered"))

    def _over(self, node: OperatorNode, wanted: str | None) -> _Ordered:
        operator, schemas = node.operator, [upstream.schema for upstream in node.inputs]
        form = operator.in_order(wanted, self.buffer, *schemas) if isinstance(operator, RunsInOrder) else None
        if form is not None:
            return self._other(node, form)
        numbers = passage(operator, None, node.schema, schemas).numbers
        by = None if numbers else order_wanted(operator, schemas) or order_from(operator, wanted, schemas)
        ordered = [self.sorted(upstream, by) for upstream in node.inputs]
        known = frozenset.intersection(*(upstream.by for upstream in ordered))
        kept = {name for name in node.schema.names if order_from(operator, name, schemas) in known}
        return _Ordered(self._again(node, *(upstream.node for upstream in ordered)), numbers | kept)

    def _other(self, node: OperatorNode, form: InOrder) -> _Ordered:
        """Put the form of an operator for in-order processing over sorted inputs."""
        inputs = [self.sorted(upstream, by).node for upstream, by in zip(node.inputs, form.sorts, strict=True)]
        said = form.operator.remarks() if isinstance(form.operator, Remarking) else ()
        made = operator_node(form.operator, *inputs, label=form.label or node.label, remarks=said)
        return _Ordered(made, frozenset(() if form.by is None else (form.by,)))

    def _again(self, node: OperatorNode, *inputs: Node) -> Node:
        """Put an operator over other inputs; itself when they are the same."""
        if inputs == node.inputs:
            return node
        return attrs.evolve(node, inputs=inputs, schema=schema_over(node.operator, inputs, node.schema))
