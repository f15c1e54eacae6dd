"""For each source: its stateful readers, and the lateness each of them tolerates.

Operators that take each tuple by itself pass the tolerance on: filters, projections, spreads, melds, and numbers;
whatever else reads, and every output, is a reader. Windows on the one promised attribute take late tuples, and refuse
and count what they have released; all others rely on what was promised.

A join relies on it: of a late tuple's partners some may have been purged and others not, so its pairs would depend on
when promises came, and would break those that the join has made itself.
"""

from __future__ import annotations

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan
from oop_engine.sources.protocol import ARRIVAL
from operators.plan_facts import ANY_DISTANCE, Tolerance, late_tolerance, passage, passes_on


def passes(node: Node) -> bool:
    """Return whether a node passes tuples and promises on and relies on neither."""
    return isinstance(node, OperatorNode) and passes_on(node.operator)


def output(place: int) -> int:
    """Return what stands for the output of the node at a place, among readers."""
    return -1 - place


def takings(plan: Plan, source: int) -> dict[int, Tolerance]:
    """Return the readers of the source at a place, and how each takes tuples that are below the promise.

    Outputs rely on it, and what reads by several ways takes what it takes by each.
    """
    consumers, outputs = plan.consumers(), plan.output_numbers()
    found: dict[int, Tolerance] = {}
    seen: set[_Way] = set()
    waiting = [_Way(source, _one(plan.nodes[source]))]
    while waiting:
        way = waiting.pop()
        if way in seen:
            continue
        seen.add(way)
        place, attribute = way.place, way.attribute
        if attribute != _one(plan.nodes[place], way.numbers | way.ends):
            attribute = None
        if place in outputs:
            found[output(place)] = Tolerance()
        for reader, _ in consumers[place]:
            node = plan.nodes[reader]
            assert isinstance(node, OperatorNode)
            if passes(node):
                waiting.append(way.through(reader, node, attribute))
                continue
            taking = late_tolerance(node.operator, attribute, way.melded)
            if way.numbers:
                # The numbers of tuples are told by which were let through.
                taking = attrs.evolve(taking, fixed=False)
            if way.back and taking.ticks:
                taking = Tolerance(min(ANY_DISTANCE, taking.ticks + way.back))
            found[reader] = min(taking, found.get(reader, taking), key=lambda one: one.ticks)
    return found


@attrs.frozen
class _Way:
    """A way from a source to a node: what its promised attribute is called there, and what lies between."""

    place: int
    attribute: str | None
    melded: bool = False
    numbers: frozenset[str] = frozenset()
    """What tuples were numbered as: no tuple comes too late for its own number."""
    back: int = 0
    """How far before the attribute of the source that of the node may be, and so may its promise."""
    ends: frozenset[str] = frozenset()
    """What else is promised, of flows whose parts promise what goes on: nobody that reads it takes late tuples."""

    def through(self, place: int, node: OperatorNode, attribute: str | None) -> _Way:
        """Go on through a node that passes tuples on."""
        passed = passage(node.operator, attribute, node.schema, [upstream.schema for upstream in node.inputs])
        return _Way(
            place,
            passed.name,
            self.melded or len(node.inputs) > 1,
            self.numbers | passed.numbers,
            self.back + passed.back,
            self.ends | passed.ends,
        )


def breakable(node: Node) -> frozenset[frozenset[str]]:
    """Return what a tuple can come too late for: all promises but the one on its arrival."""
    return node.schema.progress - {frozenset((ARRIVAL,))}


def _one(node: Node, apart: frozenset[str] = frozenset()) -> str | None:
    """Name the attribute that a node promises, what is set apart aside; None where it promises several."""
    promised = {name for promise in breakable(node) for name in promise} - apart
    return next(iter(promised)) if len(promised) == 1 else None
