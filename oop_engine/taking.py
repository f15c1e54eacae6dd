"""Who reads a source behind all that passes its tuples on one by one, and how late a tuple may be for each of them.

What takes each tuple by itself passes on, as filters, projections, spreads and melds do, and so do numbers; whatever
else reads, and every output, is a reader. Windows on the one promised attribute take late tuples, and refuse and count
what they have released; all others rely on what was promised.

A join relies on it: of a late tuple's partners some may have been purged and others not, so its pairs would depend on
when promises came, and would break those that the join has made itself.
"""

from __future__ import annotations

from typing import Final

import attrs

from oop_engine.plan import Node, OperatorNode, Plan
from oop_engine.sources.protocol import ARRIVAL
from operators.bucket import Bucket
from operators.meld import Meld
from operators.number import Number
from operators.protocol import OneByOne
from operators.ranked.slide import SlideAggregate
from operators.slicing.aggregate import SlicingAggregate
from operators.spread import Spread
from operators.stacks.aggregate import StackAggregate
from operators.window import LIMIT, LandmarkWindow, SlidingWindow
from operators.window.delimited import FixedBandWindow

ANY_DISTANCE: Final = LIMIT
"""What is allowed where a window may be open however far behind the tuple is."""


@attrs.frozen
class Taking:
    """How a reader takes tuples that are below the promise."""

    ticks: int = 0
    """So far below they may be; 0 for a reader that relies on the promise."""
    fixed: bool = False
    """Whether its answer is the same however finely the stream is promised beyond the edges of its windows."""


def passes(node: Node) -> bool:
    """Tell whether a node passes tuples and promises on and relies on neither."""
    return isinstance(node, OperatorNode) and isinstance(node.operator, OneByOne | Number)


def output(place: int) -> int:
    """Give what stands for the output of the node at a place, among readers."""
    return -1 - place


def takings(plan: Plan, source: int) -> dict[int, Taking]:
    """Give the readers of the source at a place, and how each takes tuples that are below the promise.

    Outputs rely on it, and what reads by several ways takes what it takes by each.
    """
    consumers, outputs = plan.consumers(), plan.output_numbers()
    found: dict[int, Taking] = {}
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
            found[output(place)] = Taking()
        for reader, _ in consumers[place]:
            node = plan.nodes[reader]
            assert isinstance(node, OperatorNode)
            if passes(node):
                waiting.append(way.through(reader, node, attribute))
                continue
            taking = Taking() if attribute is None else _taken(node, attribute, way.melded)
            if way.numbers:
                # The numbers of tuples are told by which were let through.
                taking = attrs.evolve(taking, fixed=False)
            if way.back and taking.ticks:
                taking = Taking(min(ANY_DISTANCE, taking.ticks + way.back))
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
        operator, numbers, back, ends = node.operator, self.numbers, self.back, self.ends
        if isinstance(operator, Number):
            numbers |= {operator.name}
        if isinstance(operator, Spread) and operator.end == attribute and operator.reach is not None:
            back, ends = back + operator.reach * operator.step, ends | {operator.end}
        return _Way(place, _renamed(node, attribute), self.melded or isinstance(operator, Meld), numbers, back, ends)


def breakable(node: Node) -> frozenset[frozenset[str]]:
    """Give what a tuple can come too late for: all promises but the one on its arrival."""
    return node.schema.progress - {frozenset((ARRIVAL,))}


def _one(node: Node, apart: frozenset[str] = frozenset()) -> str | None:
    """Name the attribute that a node promises, what is set apart aside; None where it promises several."""
    promised = {name for promise in breakable(node) for name in promise} - apart
    return next(iter(promised)) if len(promised) == 1 else None


def _renamed(node: OperatorNode, attribute: str | None) -> str | None:
    """Name an attribute as a node passes it on; None where it does not, or under several names."""
    match operator := node.operator:
        case Spread():
            tells = operator.start if operator.reach is None else operator.end
            return operator.into if attribute in (operator.start, tells) else None
        case OneByOne():
            inputs = [upstream.schema for upstream in node.inputs]
            kept = [name for name in node.schema.names if operator.comes_from(name, *inputs) == attribute]
            return kept[0] if len(kept) == 1 else None
        case _:
            return attribute


def _taken(node: OperatorNode, attribute: str, melded: bool) -> Taking:
    match operator := node.operator:
        case Bucket() if operator.consistent and melded:
            # Which input of a meld is ahead depends on the runtime; a consistent answer must not.
            return Taking()
        case Bucket() if operator.window.wattr == attribute and not operator.partition:
            window = operator.window
            return Taking(window.size if isinstance(window, SlidingWindow) and not melded else ANY_DISTANCE, fixed=True)
        case StackAggregate() if operator.window.wattr == attribute:
            # It refuses what is not in order, as a late tuple is not, rather than leave it out of open windows.
            return Taking(ANY_DISTANCE if melded else operator.window.size, fixed=True)
        case SlicingAggregate() if all(w.wattr == attribute for w in operator.windows.values()):
            windows = operator.windows.values()
            # What is given again, and where tuples set the edges, is told by each promise that comes.
            edged = all(isinstance(w, SlidingWindow | LandmarkWindow | FixedBandWindow) for w in windows)
            ticks = ANY_DISTANCE if melded else operator.lateness + max(map(open_for, windows))
            return Taking(ticks, fixed=edged and not operator.lateness)
        case SlideAggregate() if operator.window.wattr == attribute and not operator.consistent:
            return Taking(ANY_DISTANCE if melded else operator.window.size)
        case _:
            return Taking()


def open_for(window: object) -> int:
    """Give how far below the bound tuples may be that a sliced window is open for, in ticks: of a session, any."""
    return int(getattr(window, "size", ANY_DISTANCE))
