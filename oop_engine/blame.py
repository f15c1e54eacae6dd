"""When no window could ever be released, say which input lacks the promise and how to give it one."""

from __future__ import annotations

from oop_engine.demand import promised_by
from oop_engine.plan import Node, OperatorNode, SourceNode


def unpromised(node: Node, attribute: str) -> str:
    """Give the text of the error, naming the inputs that do not promise the windowing attribute."""
    at = node
    while isinstance(at, OperatorNode) and len(at.inputs) == 1:
        at = at.inputs[0]
    lines = [f'no window of this aggregate could ever be released: nothing promises "{attribute}".']
    if isinstance(at, OperatorNode):
        shares = ", ".join(f"{n.label} {promised_by(n)}" for n in at.inputs)
        lines.append(f"  {at.label} promises only what every input promises: {shares}.")
        lacking = [n for n in at.inputs if not n.schema.progressing(attribute)]
        names = ", ".join(_source(n).label for n in lacking if _source(n) is not None) or "the input"
    else:
        lines.append(f"  {at.label} promises {promised_by(at)}.")
        names = at.label
    lines.append(f'  Give {names} a punctuator, e.g. punctuate=oop.every("1s", on="{attribute}"), or')
    lines.append(f'  oop.slack("2s", on="{attribute}") if it is out of order.')
    return "\n".join(lines)


def _source(node: Node) -> SourceNode:
    while isinstance(node, OperatorNode):
        node = node.inputs[0]
    return node
