"""How far behind its promise a tuple may be and still be of use: as far as a window that it belongs to may be open.

A tuple that is late for some of its windows keeps the open ones (semantics, "in force everywhere"). Only a Bucket can
tell which these are; where every reader of a source is one, Input lets such tuples through and the Bucket refuses and
counts what is released. Any other reader relies on what was promised, so there a late tuple stops at the Input,
or, where it has such readers beside it, at a guard of its own: what else reads a stream changes no answer.

A join is such a reader: of a late tuple's partners some may have been purged and others not, so its pairs would depend
on when promises came, and would break those that the join has made itself.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from oop_engine.demand import windows_of
from oop_engine.plan import Node, OperatorNode, Plan, SourceNode, operator_node
from oop_engine.sources.protocol import ARRIVAL
from operators.apply import Apply
from operators.bucket import Bucket
from operators.expression import Column
from operators.filter import Filter
from operators.guard import Guard
from operators.meld import Meld
from operators.project import Project
from operators.slicing.aggregate import SlicingAggregate
from operators.spread import Spread
from operators.stacks.aggregate import StackAggregate
from operators.window import LIMIT, SlidingWindow

OUTPUT: Final = -1
"""Stands for whoever takes an output, among the readers of a node."""
ANY_DISTANCE: Final = LIMIT
"""What is allowed where a window may be open however far behind the tuple is."""


def allowances(plan: Plan) -> dict[int, int]:
    """Give, for the place of each source, by how many ticks a tuple may be below its promise without being late.

    It is the largest RANGE of the windows that read the source: beyond it no window is open, unless windows have no
    beginning (RANGE ALL), or another input of a meld is behind and holds them open. It is 0 when the policy is not to
    drop what breaks a promise, when a window is `consistent`, and when anything but windows on the one promised
    attribute reads the source, and nothing guards it.
    """
    readers = _Readers(plan)
    return {
        place: readers.allow(place, attribute, melded=False) if (attribute := _generous(node)) else 0
        for place, node in enumerate(plan.nodes)
        if isinstance(node, SourceNode)
    }


def guarded(plan: Plan) -> Plan:
    """Give the plan in which late tuples reach the windows that may still be open, whatever reads the stream besides.

    Where some readers of a stream take late tuples and others rely on its promise, a guard goes before these.
    """
    readers = _Readers(plan)
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode) and (attribute := _generous(node)):
            readers.part(place, attribute, melded=False)
    if not readers.guards:
        return plan
    made: dict[int, Node] = {}
    guards: dict[int, Node] = {}

    def read(place: int, reader: int, upstream: Node) -> Node:
        if (place, reader) not in readers.guards:
            return made[id(upstream)]
        if place not in guards:
            guard = Guard(readers.guards[place, reader])
            guards[place] = operator_node(guard, made[id(upstream)], label="leave out late tuples")
        return guards[place]

    places = {id(node): place for place, node in enumerate(plan.nodes)}
    for place, node in enumerate(plan.nodes):
        inputs = tuple(read(places[id(upstream)], place, upstream) for upstream in node.inputs)
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        made[id(node)] = node if same or isinstance(node, SourceNode) else attrs.evolve(node, inputs=inputs)
    return Plan(tuple(read(places[id(output)], OUTPUT, output) for output in plan.outputs))


def relying(node: Node) -> OperatorNode | None:
    """Give what keeps late tuples from whoever reads a node: an operator that relies on promises, if there is one.

    Only where late tuples are left out, of a source that does not know its future; results of windows are never late.
    """
    if isinstance(node, SourceNode) or windows_of(node.operator):
        return None
    if not isinstance(node.operator, Filter | Meld | Project | Apply | Spread) and any(map(_may_be_late, node.inputs)):
        return node
    return next((found for upstream in node.inputs if (found := relying(upstream)) is not None), None)


def _may_be_late(node: Node) -> bool:
    """Tell whether a tuple may come late of a source below a node, and is then left out."""
    if isinstance(node, SourceNode):
        return node.late == "drop" and (bool(node.promises) or not node.source.rewindable)
    return any(map(_may_be_late, node.inputs))


def _breakable(node: Node) -> frozenset[frozenset[str]]:
    """Give what a tuple can come too late for: all promises but the one on its arrival."""
    return node.schema.progress - {frozenset((ARRIVAL,))}


def _generous(node: SourceNode) -> str | None:
    """Name the attribute whose windows may still take late tuples; None when the source's policy or promises forbid."""
    promised = {name for promise in _breakable(node) for name in promise}
    return next(iter(promised)) if node.late == "drop" and len(promised) == 1 else None


class _Allow(Protocol):
    def __call__(self, place: int, attribute: str, *, melded: bool) -> int: ...


@attrs.define
class _Readers:
    plan: Plan
    readers: dict[int, list[tuple[int, int]]] = attrs.field(init=False)
    outputs: frozenset[int] = attrs.field(init=False)
    guards: dict[tuple[int, int], str] = attrs.field(init=False, factory=dict)
    """The attribute to guard, by the place of a node and of a reader of it that relies on its promise."""

    def __attrs_post_init__(self) -> None:
        self.readers = self.plan.consumers()
        self.outputs = frozenset(id(node) for node in self.plan.outputs)

    def allow(self, place: int, attribute: str, *, melded: bool) -> int:
        """Give what all who read the node at a place allow: the most that any needs, 0 when one allows nothing."""
        node = self.plan.nodes[place]
        if id(node) in self.outputs or _breakable(node) != frozenset((frozenset((attribute,)),)):
            return 0
        amounts = [
            self._through(reader, attribute, melded, self.allow)
            for reader, _ in self.readers[place]
            if not self._guards(reader)
        ]
        return max(amounts) if amounts and min(amounts) > 0 else 0

    def part(self, place: int, attribute: str, *, melded: bool) -> int:
        """Give what those who read the node at a place allow if all others are guarded, and note whom to guard."""
        node = self.plan.nodes[place]
        if _breakable(node) != frozenset((frozenset((attribute,)),)) or not self._drops(node):
            return 0
        amounts = {r: self._through(r, attribute, melded, self.part) for r, _ in self.readers[place]}
        if id(node) in self.outputs:
            amounts[OUTPUT] = 0
        most = max(amounts.values(), default=0)
        if most:
            self.guards |= {(place, reader): attribute for reader, amount in amounts.items() if not amount}
        return most

    def _drops(self, node: Node) -> bool:
        """Tell whether all that comes to a node is of sources whose late tuples are left out."""
        return node.late == "drop" if isinstance(node, SourceNode) else all(map(self._drops, node.inputs))

    def _guards(self, place: int) -> bool:
        node = self.plan.nodes[place]
        return isinstance(node, OperatorNode) and isinstance(node.operator, Guard)

    def _through(self, place: int, attribute: str, melded: bool, allow: _Allow) -> int:
        node = self.plan.nodes[place]
        operator = node.operator if isinstance(node, OperatorNode) else None
        match operator:
            case Filter():
                return allow(place, attribute, melded=melded)
            case Meld():
                return allow(place, attribute, melded=True)
            case Project():
                schema, columns = node.inputs[0].schema, operator.columns.items()
                plain = {name: e.name for name, e in columns if isinstance(e, Column)}
                kept = [name for name, old in plain.items() if schema.resolve(old, where="plan") == attribute]
                return allow(place, kept[0], melded=melded) if len(kept) == 1 else 0
            case Apply() if attribute not in operator.columns:
                return allow(place, attribute, melded=melded)
            case Spread() if operator.start == attribute:
                return allow(place, operator.into, melded=melded)
            case Bucket() if operator.window.wattr == attribute and not operator.partition and not operator.consistent:
                window = operator.window
                return window.size if isinstance(window, SlidingWindow) and not melded else ANY_DISTANCE
            case StackAggregate() if operator.window.wattr == attribute:
                # It refuses what is not in order, as a late tuple is not, rather than leave it out of open windows.
                return ANY_DISTANCE if melded else operator.window.size
            case SlicingAggregate() if all(w.wattr == attribute for w in operator.windows.values()):
                return ANY_DISTANCE if melded else operator.lateness + max(map(_length, operator.windows.values()))
            case _:
                return 0


def _length(window: object) -> int:
    """Give how long a window may be open for a tuple that is below the bound, in ticks."""
    return int(getattr(window, "size", 0) or getattr(window, "gap", 0) or ANY_DISTANCE)
