"""Arrival numbers are given where a stream enters: at its source, or where several streams become one."""

from __future__ import annotations

from oop_engine.plan import Node, OperatorNode, operator_node
from oop_engine.windows import ROW_NUM
from operators.apply import Apply
from operators.expression import Column
from operators.filter import Filter
from operators.number import Number
from operators.project import Project


def numbered(node: Node) -> Node:
    """Give the same stream with an attribute row_num that counts arrivals at its entry; as it is when it has one.

    Filters, projections and derivations between the entry and here are put over the numbered stream anew, so a filter
    does not change the numbers (thesis 5.1.5); to have it otherwise, number the stream where you want: `Stream.number`.
    """
    if ROW_NUM in node.schema:
        return node
    passed: list[OperatorNode] = []
    at = node
    while isinstance(at, OperatorNode) and isinstance(at.operator, Filter | Apply | Project):
        passed.append(at)
        at = at.inputs[0]
    result: Node = operator_node(Number(ROW_NUM), at, label=f"number as {ROW_NUM}")
    for above in reversed(passed):
        operator = above.operator
        if isinstance(operator, Project):
            operator = Project({**operator.columns, ROW_NUM: Column(ROW_NUM)})
        result = operator_node(operator, result, label=above.label, remarks=above.remarks)
    return result
