"""The attributes of arrival, its number and its time, which tuples get where a stream enters.

Numbers are counted at the source, or where several streams become one; times are stamped at the sources themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode, SourceNode, operator_node, source_node
from oop_engine.sources.arrival import stamped_source
from oop_engine.sources.protocol import ARRIVAL
from operators.data.schema import ROW_NUM
from operators.expression import Column
from operators.rows.apply import Apply
from operators.rows.filter import Filter
from operators.rows.number import Number
from operators.rows.project import Project
from operators.streams.meld import Meld

_Above: TypeAlias = Sequence[OperatorNode]
"""Operators over an entry, the nearest to the output first."""


def numbered(node: Node) -> Node:
    """Return the same stream with an attribute row_num that counts arrivals at its entry; as it is when it has one.

    Filters, projections and derivations between the entry and here are put over the numbered stream anew, so a filter
    does not change the numbers (thesis 5.1.5); to have it otherwise, number the stream where you want: `Stream.number`.
    """
    if ROW_NUM in node.schema:
        return node
    at, passed = _entry(node, (Filter, Apply, Project))
    return _anew(operator_node(Number(ROW_NUM), at, label=f"number as {ROW_NUM}"), passed, ROW_NUM)


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
        at, passed = _entry(node, (Filter, Apply, Project, Number))
        if isinstance(at, SourceNode):
            entry: Node = source_node(stamped_source(at.source), promises=at.promises, late=at.late, divert=at.divert)
        elif isinstance(at.operator, Meld):
            streams = [_stamped(stream, known) for stream in at.inputs]
            entry = operator_node(attrs.evolve(at.operator), *streams, label=at.label, remarks=at.remarks)
        else:
            raise PlanError(
                f'the tuples of "{at.label}" have no time of arrival: they come about inside the plan.\n'
                "  Window what arrives, or open the source with arrival_ts=True and keep the attribute up to here."
            )
        known[id(node)] = _anew(entry, passed, ARRIVAL)
    return known[id(node)]


def _entry(node: Node, passable: tuple[type, ...]) -> tuple[Node, list[OperatorNode]]:
    """Return the node below what changes tuples one by one, and that."""
    passed: list[OperatorNode] = []
    while isinstance(node, OperatorNode) and isinstance(node.operator, passable):
        passed.append(node)
        node = node.inputs[0]
    return node, passed


def _anew(entry: Node, passed: _Above, added: str) -> Node:
    """Put operators over an entry that has an attribute more, and let all of them keep it."""
    for above in reversed(passed):
        operator = above.operator
        if isinstance(operator, Project):
            operator = Project({**operator.columns, added: Column(added)})
        elif isinstance(operator, Number):
            operator = attrs.evolve(operator)
        entry = operator_node(operator, entry, label=above.label, remarks=above.remarks)
    return entry
