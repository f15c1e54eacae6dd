"""The demand on each source: which attributes it delivers, and which it promises, at which granularity.

Both travel from the outputs up to the sources (Tucker's *describe*): a window asks for promises on its windowing
attribute once a slide, a projection translates names, and nobody reads a column that nothing downstream looks at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import cast

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode, own_promises
from oop_engine.plan.windows import Windowing
from operators.data.schema import Schema
from operators.fresh import fresh
from operators.pace import Paces, finely, want
from operators.plan_facts import Attributes, Narrowing, Remarking, attributes_read, promises_asked
from operators.protocol import Operator
from operators.protocol_checks import fits
from operators.window_aggregate import facts


def demands(plan: Plan) -> dict[int, Paces]:
    """Return, for the place of each source, the attributes that must be promised and their pace.

    A user's promise that no operator asks for is made once a second, where the attribute has seconds: it still decides
    which tuples are late, and making it at every tuple would cut the stream to pieces.
    """
    wanted: dict[int, Paces] = {i: {} for i in range(len(plan.nodes))}
    for i, node in reversed(plan.operators.items()):
        asked = promises_asked(node.operator, wanted[i], [n.schema for n in node.inputs])
        for upstream, paces in zip(plan.inputs[i], asked, strict=True):
            for name, pace in paces.items():
                want(wanted[upstream], name, pace)
    for i, source in plan.sources.items():
        for promise in source.promises:
            if promise.on not in wanted[i] or wanted[i][promise.on].optional:
                wanted[i][promise.on] = finely(source.schema, promise.on, 1)
    return {i: wanted[i] for i in plan.sources}


def columns(plan: Plan) -> dict[int, tuple[str, ...]]:
    """Return, for the place of each source, the attributes that anything downstream looks at, in the source's order."""
    needed: dict[int, set[str]] = {i: set() for i in range(len(plan.nodes))}
    for output in plan.outputs:
        needed[plan.position(output)] |= set(output.schema.names)
    for i, node in reversed(plan.operators.items()):
        for upstream, names in _reads(node, node.operator, needed[i]):
            needed[plan.position(upstream)] |= names
    found: dict[int, tuple[str, ...]] = {}
    for i, source in plan.sources.items():
        given = source.source.arrow.names
        names = set(given) if source.late == "divert" else needed[i]
        for promise in source.promises:
            names |= set(promise.reads) | _promise_columns(source)
        names |= {attribute for promise in own_promises(source.source) for attribute in promise}
        found[i] = tuple(n for n in given if n in names) or tuple(given[:1])
    return found


def pruned(plan: Plan) -> Plan:
    """Return the plan whose operators put out, and store, what is read of their results and no more, where they can.

    Nodes keep their places, outputs their schemas.
    """
    if not any(isinstance(n, OperatorNode) and fits(n.operator, Narrowing) for n in plan.nodes):
        return plan
    needed: dict[int, set[str]] = {id(node): set() for node in plan.nodes}
    for output in plan.outputs:
        needed[id(output)] |= set(output.schema.names)
    narrowed: dict[int, Operator] = {}
    for node in reversed(plan.nodes):
        if isinstance(node, OperatorNode):
            operator = node.operator
            if isinstance(operator, Narrowing):
                operator = narrowed[id(node)] = operator.keeping(needed[id(node)])
            for upstream, names in _reads(node, operator, needed[id(node)]):
                needed[id(upstream)] |= names
    made: dict[int, Node] = {}
    for node in plan.nodes:
        renewed: Node = node
        inputs = tuple(made[id(upstream)] for upstream in node.inputs)
        if isinstance(node, OperatorNode) and (operator := narrowed.get(id(node))) is not None:
            said = operator.remarks() if isinstance(operator, Remarking) else node.remarks
            renewed = OperatorNode(operator, inputs, schema_over(operator, inputs, node.schema), node.label, said)
        elif isinstance(node, OperatorNode) and inputs != node.inputs:
            renewed = attrs.evolve(node, inputs=inputs, schema=schema_over(node.operator, inputs, node.schema))
        made[id(node)] = renewed
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def _reads(node: OperatorNode, operator: Operator, needed: Collection[str]) -> Iterator[tuple[Node, Attributes]]:
    """Return each input of a node with the attributes that an operator in its place reads of it."""
    inputs = [upstream.schema for upstream in node.inputs]
    return zip(node.inputs, attributes_read(operator, frozenset(needed), inputs), strict=True)


def schema_over(operator: Operator, inputs: Sequence[Node], otherwise: Schema) -> Schema:
    """Return the schema of an operator over inputs that bring less than before.

    Inputs that no longer fit, such as those of a meld with different attributes, keep their schemas.
    """
    try:
        return fresh(operator).output_schema(*(node.schema for node in inputs))
    except ValueError:
        return otherwise


def _promise_columns(node: SourceNode) -> set[str]:
    """Name the marker and block attributes that punctuators read besides the one they promise."""
    found: set[str] = set()
    for promise in node.promises:
        punctuator = promise.punctuator(Schema(node.source.arrow), None, 0)
        for name in ("marker", "block"):
            if (attribute := getattr(punctuator, name, None)) is not None:
                found.add(str(attribute))
    return found


def windows_of(operator: object) -> tuple[Windowing, ...]:
    """Return the windows that an operator computes, none for most operators."""
    return cast("tuple[Windowing, ...]", facts.windows_of(operator))


def promised_by(node: Node) -> str:
    """Say what a stream promises, for explanations: `{ts} {srcIP, wid}`."""
    shown = sorted("{" + ", ".join(sorted(p)) + "}" for p in node.schema.progress)
    return " ".join(shown) or "nothing"
