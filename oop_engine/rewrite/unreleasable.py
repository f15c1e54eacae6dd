"""Explain windows that could never be released: where the promise is lost, which input lacks it, and what to write."""

from __future__ import annotations

from oop_engine.plan.graph import Node, OperatorNode, SourceNode
from oop_engine.rewrite.demand import promised_by
from operators.plan_facts import Computes
from operators.protocol import OneByOne


def unpromised(node: Node, attribute: str) -> str:
    """Return the text of the error, naming the inputs that do not promise the windowing attribute."""
    first = f'no window of this aggregate could ever be released: nothing promises "{attribute}".'
    at, name = node, attribute
    while isinstance(at, OperatorNode) and len(at.inputs) == 1:
        (below,) = at.inputs
        old = _before(at, name)
        if old is None or below.schema.progressing(old):
            return "\n".join((first, *_lost(at, below, name)))
        at, name = below, old
    if isinstance(at, OperatorNode) and any(n.schema.names != at.schema.names for n in at.inputs):
        lines = [f"  {at.label} promises {promised_by(at)}."]
        return "\n".join((first, *lines, "  Use an attribute that it promises as the windowing attribute."))
    if isinstance(at, OperatorNode):
        shares = ", ".join(f"{_source(n).label} {promised_by(n)}" for n in at.inputs)
        lines = [f"  {at.label} promises only what every input promises: {shares}."]
        names = ", ".join(dict.fromkeys(_source(n).label for n in at.inputs if not n.schema.progressing(name)))
    else:
        lines, names = [f"  {at.label} promises {promised_by(at)}."], at.label
    if isinstance(at, SourceNode) and _exporters(at) and name in ("ts", "end_ts"):
        lines.append('  Exporters promise both, where both are asked for: oop.netflow(..., on=("ts", "end_ts")).')
        return "\n".join((first, *lines))
    lines.append(f'  Give {names or "the input"} a punctuator, e.g. punctuate=oop.every("1s", on="{name}"), or')
    lines.append(f'  oop.slack("2s", on="{name}") if it is out of order.')
    return "\n".join((first, *lines))


def _before(node: OperatorNode, name: str) -> str | None:
    """Return the name of an attribute before an operator, None when the operator makes it."""
    below, operator = node.inputs[0].schema, node.operator
    if isinstance(operator, OneByOne):
        return operator.comes_from(name, below)
    return name if name in below else None


def _lost(node: OperatorNode, below: Node, name: str) -> list[str]:
    lines = [f"  {node.label} promises {promised_by(node)}; its input promises {promised_by(below)}."]
    operator = node.operator
    if isinstance(operator, Computes) and (made := operator.computed(name)) is not None:
        lines.append(f'  "{name}" is {made}, which follows no promise: + - * // with a constant would.')
    lines.append("  Use an attribute that is promised as the windowing attribute, or keep it on the way.")
    return lines


def _exporters(node: SourceNode) -> bool:
    """Return whether a stream makes its own promises by the clocks of exporters."""
    # Start-up: only a refusal needs its reasons.
    from oop_engine.sources.flows import FlowExports
    from oop_engine.sources.live import LiveFlows

    return isinstance(node.source, FlowExports | LiveFlows) and bool(node.source.promised)


def _source(node: Node) -> SourceNode:
    while isinstance(node, OperatorNode):
        node = node.inputs[0]
    return node
