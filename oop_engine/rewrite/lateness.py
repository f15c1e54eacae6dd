"""Compute how late a tuple may be and still count: as late as a window that it belongs to may be open.

A tuple that is late for some of its windows keeps the open ones, or none where the window is `consistent` (semantics,
"in force everywhere"). Only a window can tell which these are; where every reader of a source is one, Input lets such
tuples through and the window refuses and counts what is released. Any other reader relies on what was promised, so
there a late tuple stops at the Input.

A reader whose answer depends on how finely a stream is promised, beside others that need other promises or take later
tuples, has a guard. Behind it are the tuples and the promises of a run of its queries alone: what else reads a stream
changes no answer.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode, operator_node, own_promises
from oop_engine.rewrite.demand import demands, windows_of
from oop_engine.rewrite.late_tolerance import breakable, output, passes, takings
from operators.pace import Pace, Paces
from operators.plan_facts import ANY_DISTANCE, LeavesOutLate, Tolerance
from operators.streams.guard import Guard


@attrs.frozen
class _Judgement:
    """By which promises tuples are late for a reader."""

    allow: int
    """So far below they are not."""
    paces: tuple[tuple[str, Pace | None], ...]
    """The attributes on which tuples can be late, and how finely they are promised; None: as it comes."""


_View: TypeAlias = frozenset[tuple[int, _Judgement]]
"""How the tuples of sources are judged for a reader, by the place of the source; those of others as they come."""


def allowances(plan: Plan) -> dict[int, int]:
    """Return, for the place of each source, by how many ticks a tuple may be below its promise without being late.

    It is the largest RANGE of the windows that read the source: beyond it no window is open, unless windows have no
    beginning (RANGE ALL), or another input of a meld is behind and holds them open; where guards read it, at least as
    far as their promises are behind. It is 0 when the policy is not to drop what breaks a promise, and when anything
    but windows on the one promised attribute reads the source, and nothing guards it. Windows by tuple that are
    `consistent` rely on the promise: the first window that a tuple is in is its own, and ends with it.
    """
    return {place: _allowance(plan, place) for place in plan.sources}


def guarded(plan: Plan) -> Plan:
    """Return the plan in which every reader has of a source what it would have if its queries were run alone.

    Where readers differ in the late tuples they take, or in the promises that their queries need, a guard goes behind
    the source for all but windows with fixed edges; readers that are judged alike share it. Operators between it and
    them that pass tuples on run once for each guard, because tuples are judged, and counted, before them.
    """
    views = _Judging(plan).views()
    if not views:
        return plan
    passed: list[frozenset[int]] = []
    for place, node in enumerate(plan.nodes):
        own = [place] if place in plan.sources else [s for i in plan.inputs[place] for s in passed[i] if passes(node)]
        passed.append(frozenset(own))

    def narrowed(place: int, view: _View) -> tuple[int, _View]:
        return place, frozenset((source, how) for source, how in view if source in passed[place])

    def read(place: int, view: _View) -> list[tuple[int, _View]]:
        own = view if passes(plan.nodes[place]) else views.get(place, _View())
        return [narrowed(upstream, own) for upstream in plan.inputs[place]]

    outputs = [narrowed(at, views.get(output(at), _View())) for at in map(plan.position, plan.outputs)]
    wanted: dict[int, set[_View]] = {place: set() for place in range(len(plan.nodes))}
    for place, view in outputs:
        wanted[place].add(view)
    for place in reversed(range(len(plan.nodes))):
        for view in wanted[place]:
            for upstream, its in read(place, view):
                wanted[upstream].add(its)
    made: dict[tuple[int, _View], Node] = {}
    for place, node in enumerate(plan.nodes):
        for view in wanted[place]:
            if isinstance(node, SourceNode):
                made[place, view] = _behind_guards(node, view)
            else:
                over = tuple(made[at] for at in read(place, view))
                same = all(new is old for new, old in zip(over, node.inputs, strict=True))
                made[place, view] = node if same else attrs.evolve(node, inputs=over)
    return Plan(tuple(made[at] for at in outputs))


def relying(node: Node) -> OperatorNode | None:
    """Return what keeps late tuples from whoever reads a node: an operator that relies on promises, if there is one.

    Only where late tuples are left out, of a source that does not know its future; results of windows are never late.
    """
    if isinstance(node, SourceNode) or windows_of(node.operator):
        return None
    if not passes(node) and any(map(_may_be_late, node.inputs)):
        return node
    return next((found for upstream in node.inputs if (found := relying(upstream)) is not None), None)


def _may_be_late(node: Node) -> bool:
    """Return whether a tuple may come late of a source below a node, and is then left out."""
    if isinstance(node, SourceNode):
        return node.late == "drop" and (bool(node.promises) or not node.source.rewindable)
    return any(map(_may_be_late, node.inputs))


def _allowance(plan: Plan, place: int) -> int:
    source, most = plan.sources[place], 0
    if source.late != "drop":
        return 0
    for reader, taking in takings(plan, place).items():
        behind = _behind(plan, reader)
        if behind is None and not taking.ticks:
            return 0
        most = max(most, taking.ticks, behind or 0)
    return most


def _behind(plan: Plan, reader: int) -> int | None:
    """Return how late tuples may be that pass a guard, or one behind it; None for other readers."""
    node = plan.operators.get(reader)
    if node is None or not isinstance(node.operator, LeavesOutLate):
        return None
    further = (_behind(plan, other) for other, _ in plan.consumers()[reader])
    return max([node.operator.behind, *(behind for behind in further if behind is not None)])


def _behind_guards(source: SourceNode, view: _View) -> Node:
    """Return a source as a view has it, with a guard for each attribute."""
    node: Node = source
    for _, judgement in view:
        for attribute, pace in judgement.paces:
            step, origin = (None, 0) if pace is None else (pace.step, pace.origin)
            guard = Guard(attribute, step, origin, allow=judgement.allow)
            node = operator_node(guard, node, label="leave out late tuples")
    return node


@attrs.define
class _Judging:
    """Find by which promises tuples are late for each reader: by those of a run of the outputs that it leads to."""

    plan: Plan
    _outputs: dict[int, frozenset[int]] = attrs.field(init=False)
    """The numbers of the outputs that a reader leads to."""
    _alone: dict[frozenset[int], _Alone] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        numbers, consumers = self.plan.output_numbers(), self.plan.consumers()
        self._outputs = {output(place): frozenset(some) for place, some in numbers.items()}
        for place in reversed(range(len(self.plan.nodes))):
            reached = (self._outputs[reader] for reader, _ in consumers[place])
            self._outputs[place] = frozenset(numbers.get(place, ())).union(*reached)

    def views(self) -> dict[int, _View]:
        """Return the views of the readers that are to be guarded."""
        found: dict[int, _View] = {}
        for place, node in self.plan.sources.items():
            if node.late not in ("drop", "revise") or not _may_break(node):
                continue
            taking = takings(self.plan, place)
            how = {reader: self._judged(node, reader, its) for reader, its in taking.items() if len(taking) > 1}
            if len(set(how.values())) > 1:
                for reader, judgement in how.items():
                    if judgement is not None:
                        found[reader] = found.get(reader, _View()) | {(place, judgement)}
        return found

    def _judged(self, node: SourceNode, reader: int, taking: Tolerance) -> _Judgement | None:
        """Say by which promises tuples of a source are late for a reader; None where it tells itself, by any."""
        if taking.fixed or (len(self.plan.outputs) == 1 and (taking.ticks or node.late == "revise")):
            return None
        names = sorted(next(iter(promise)) for promise in breakable(node) if len(promise) == 1)
        numbers = self._outputs[reader]
        if numbers not in self._alone:
            self._alone[numbers] = _Alone(Plan(tuple(self.plan.outputs[number] for number in sorted(numbers))))
        alone = self._alone[numbers]
        allow = ANY_DISTANCE if node.late == "revise" else alone.most(node) if taking.ticks else 0
        if len(numbers) == len(self.plan.outputs):
            # Nothing else asks for promises, so they are those of these queries, also where that changes in a run.
            return _Judgement(allow, tuple((name, None) for name in names))
        paces = alone.paces[id(node)]
        followed = tuple((name, _followed(node, name, paces.get(name, Pace(None)))) for name in names)
        return _Judgement(allow, followed)


@attrs.define
class _Alone:
    """A run of some outputs alone."""

    plan: Plan
    paces: dict[int, Paces] = attrs.field(init=False)
    """What it asks for, by the id of the source."""

    def __attrs_post_init__(self) -> None:
        self.paces = {id(self.plan.nodes[place]): paces for place, paces in demands(self.plan).items()}

    def most(self, node: SourceNode) -> int:
        """Return how late a tuple may be for the reader that takes the latest."""
        return max(taking.ticks for taking in takings(self.plan, self.plan.position(node)).values())


def _may_break(node: SourceNode) -> bool:
    """Return whether tuples can come too late: not where all promises were read ahead."""
    return bool(node.promises or not node.source.rewindable or own_promises(node.source))


def _followed(node: SourceNode, attribute: str, pace: Pace) -> Pace | None:
    """Return the steps at which a source promises an attribute when asked for a pace; None if it never follows."""
    asked = Pace(1) if pace.step is None else pace
    if any(attribute in promise for promise in own_promises(node.source)):
        return None
    made = [p.punctuator(node.schema, asked.step, asked.origin) for p in node.promises if p.on == attribute]
    follow = all(getattr(p, "step", None) == asked.step and getattr(p, "origin", 0) == asked.origin for p in made)
    return asked if made and follow else None
