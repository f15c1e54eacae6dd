"""The attributes of arrival, its number and its time, which tuples get where a stream enters.

Numbers are counted at the source, or where several streams become one; times are stamped at the sources themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode, SourceNode, operator_node, source_node
from oop_engine.sources.arrival import stamped_source
from oop_engine.sources.protocol import ARRIVAL
from operators.data.schema import ROW_NUM
from operators.plan_facts import Carries, passage
from operators.rows.number import Number


def numbered(node: Node) -> Node:
    """Return the same stream with an attribute row_num that counts arrivals at its entry; as it is when it has one.

    Filters, projections and derivations between the entry and here are put over the numbered stream anew, so a filter
    does not change the numbers (thesis 5.1.5); to have it otherwise, number the stream where you want: `Stream.number`.
    """
    if ROW_NUM in node.schema:
        return node
    at, passed = node, list[OperatorNode]()
    while isinstance(at, OperatorNode) and isinstance(at.operator, Carries) and len(at.inputs) == 1:
        if ROW_NUM in at.schema or passage(at.operator, None, at.schema, [at.inputs[0].schema]).numbers:
            break
        passed.append(at)
        (at,) = at.inputs
    # A sub-query may have numbered the stream, and left the number out of what it gives.
    made = at if ROW_NUM in at.schema else operator_node(Number(ROW_NUM), at, label=f"number as {ROW_NUM}")
    for above in reversed(passed):
        made = _carrying(above, ROW_NUM, (made,))
    return made


def stamped(node: Node) -> Node:
    """Return the same stream with an attribute arrival_ts, when each tuple arrived at its source; as it is with one.

    Every source below is read anew with the system's clock beside it, and what lies between is put over it anew; a
    source that is read beside this must be one that can be read twice, or be opened with `arrival_ts=True` once.
    PlanError when something between makes tuples of its own, which never arrived.
    """
    return _stamped(node, {})


def _stamped(node: Node, known: dict[int, Node]) -> Node:
    """Stamp a node; `known` has those that are stamped, since one that is read twice stays one."""
    if ARRIVAL in node.schema:
        return node
    if id(node) not in known:
        if isinstance(node, SourceNode):
            source = stamped_source(node.source)
            known[id(node)] = source_node(source, promises=node.promises, late=node.late, divert=node.divert)
        elif isinstance(node.operator, Carries):
            known[id(node)] = _carrying(node, ARRIVAL, [_stamped(stream, known) for stream in node.inputs])
        else:
            raise PlanError(
                f'the tuples of "{node.label}" have no time of arrival: they come about inside the plan.\n'
                "  Window what arrives, or open the source with arrival_ts=True and keep the attribute up to here."
            )
    return known[id(node)]


def _carrying(node: OperatorNode, added: str, inputs: Iterable[Node]) -> Node:
    """Put an operator over inputs that have an attribute more, and let it keep that."""
    assert isinstance(node.operator, Carries)
    return operator_node(node.operator.carrying(added), *inputs, label=node.label, remarks=node.remarks)
