"""Cut a plan into stages where tuples must meet others: before, any partition does; behind, keys decide.

There are three stages. The *front* reads the sources: in as many partitions as there are if no operator depends on the
order of arrival, else in one task and exactly as embedded. The *keyed* stage has many buckets: tuples that must meet
are in one of them, since each of its operators groups, or joins, by attributes that include those of the buckets. The
*tail* is one bucket for operators that need all tuples. A stream that goes from one stage to another is an edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode
from oop_engine.rewrite.needs import after, below, need, passed, ranked_by
from oop_engine.spark.prototypes import packed, unpacked
from operators.join.shape import common_field
from operators.plan_facts import Keys, Together

FRONT, KEYED, TAIL = 0, 1, 2
NAMES: Final = ("front", "keyed", "tail")
_TRIED: Final = 2_000
"""Ways to key a plan that are looked at, at most."""


@attrs.frozen
class Edge:
    """A stream that goes from one stage to another, and those in that stage who read it."""

    giver: int
    """Place of the node whose output it is."""
    stage: int
    readers: tuple[tuple[int, int], ...]
    """(place, port) of each."""
    keys: Keys
    """Attributes that tell the bucket, none where there is one bucket only."""
    kinds: tuple[pa.DataType, ...]
    """Types in which the keys are compared."""
    ranked: str | None
    """The attribute in whose order pages are best taken, if there is one."""


@attrs.frozen
class Cut:
    """A plan, the stage of each of its nodes, and the edges between stages."""

    plan: Plan
    stages: tuple[int, ...]
    edges: tuple[Edge, ...]
    ordered: bool
    """Whether the front runs in one task, in order of arrival."""
    whys: tuple[str, ...]
    """For each node, why it runs where it does; empty where that goes without saying."""

    def into(self, stage: int) -> tuple[Edge, ...]:
        """Return the edges that end in a stage; their places there are their ports."""
        return tuple(edge for edge in self.edges if edge.stage == stage)

    def __reduce__(self) -> tuple[object, ...]:
        """Travel without what operators remember."""
        nodes = [
            attrs.evolve(node, operator=packed(node.operator), inputs=()) if isinstance(node, OperatorNode) else node
            for node in self.plan.nodes
        ]
        reads = [tuple(self.plan.position(upstream) for upstream in node.inputs) for node in self.plan.nodes]
        outputs = tuple(self.plan.position(node) for node in self.plan.outputs)
        return _arrived, (nodes, reads, outputs, self.stages, self.edges, self.ordered, self.whys)

    @property
    def used(self) -> tuple[int, ...]:
        """Return the stages in which anything runs, in order."""
        return tuple(sorted(set(self.stages)))

    @property
    def last(self) -> int:
        """Return the stage that the output leaves."""
        return self.stages[self.plan.position(self.plan.outputs[0])]


def _arrived(
    nodes: Sequence[Node],
    reads: Sequence[tuple[int, ...]],
    outputs: tuple[int, ...],
    stages: tuple[int, ...],
    edges: tuple[Edge, ...],
    ordered: bool,
    whys: tuple[str, ...],
) -> Cut:
    """Make a cut plan anew where it has arrived."""
    made: list[Node] = []
    for node, inputs in zip(nodes, reads, strict=True):
        if isinstance(node, OperatorNode):
            upstream = tuple(made[place] for place in inputs)
            node = attrs.evolve(node, operator=unpacked(node.operator), inputs=upstream)
        made.append(node)
    return Cut(Plan(tuple(made[place] for place in outputs)), stages, edges, ordered, whys)


def cut(plan: Plan, *, ordered: bool = False) -> Cut:
    """Cut a plan of one output into stages; `ordered` says that its sources must be read in order of arrival anyway."""
    needs = [need(node) for node in plan.nodes]
    arrival = [place for place, n in enumerate(needs) if n.arrival]
    ordered = ordered or bool(arrival)
    forced = below(plan, arrival) | {place for place in arrival if not needs[place].parted}
    best = max(
        (_Spread(plan, needs, forced, choice) for choice in _choices(plan, needs, forced)),
        key=lambda spread: spread.worth,
    )
    stages = best.stages
    if ordered and KEYED not in stages:
        # One task reads everything and one would take everything: they may be the same.
        stages = [FRONT] * len(stages)
    return Cut(plan, tuple(stages), tuple(_edges(plan, stages, best.wanted)), ordered, tuple(_whys(needs, stages)))


def _choices(plan: Plan, needs: Sequence[Together], forced: set[int]) -> Iterator[dict[int, tuple[int, ...]]]:
    """Yield the ways to key the operators that read the front: for each, which of its keys, and in which order."""
    trial = _Spread(plan, needs, forced, {})
    options: dict[int, list[tuple[int, ...]]] = {}
    for place in trial.first:
        count = len(needs[place].keys[0])
        sizes = range(count, 0, -1) if count <= 4 else (count, 1)
        many = permutations if len(trial.first) > 1 and count <= 4 else combinations
        options[place] = [chosen for size in sizes for chosen in many(range(count), size)]
    for number, chosen in enumerate(product(*options.values())):
        if number == _TRIED:
            return
        yield dict(zip(options, chosen, strict=True))


@attrs.define
class _Spread:
    """The stages that follow from one way to key the operators that read the front."""

    plan: Plan
    needs: Sequence[Together]
    forced: set[int]
    choice: Mapping[int, tuple[int, ...]]
    stages: list[int] = attrs.field(init=False, factory=list)
    wanted: dict[tuple[int, int], tuple[Keys, tuple[pa.DataType, ...]]] = attrs.field(init=False, factory=dict)
    """Keys by (place, port) of who reads the front by key."""
    first: list[int] = attrs.field(init=False, factory=list)
    """Places of the operators by key all of whose inputs are of the front."""
    _keys: list[Keys | None] = attrs.field(init=False, factory=list)
    """Under which names a keyed node's tuples have the keys that told their bucket; None where they have not."""
    _keyed: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        for place, node in enumerate(self.plan.nodes):
            stage, keys = self._placed(place, node, self.plan.inputs[place])
            self.stages.append(stage)
            self._keys.append(keys)

    @property
    def worth(self) -> tuple[int, int, int]:
        """Prefer more work in the keyed stage, and then more attributes to spread by."""
        used = sum(len(chosen) for chosen in self.choice.values())
        return self._keyed, -sum(stage == TAIL for stage in self.stages), used

    def _placed(self, place: int, node: Node, inputs: Sequence[int]) -> tuple[int, Keys | None]:
        stages = {self.stages[i] for i in inputs}
        if place in self.forced or isinstance(node, SourceNode):
            return FRONT, None
        if TAIL in stages:
            return TAIL, None
        if self.needs[place].stateless:
            if len(stages) > 1:
                return TAIL, None
            return stages.pop(), passed(node, self.needs[place], [self._keys[i] for i in inputs])
        if not self.needs[place].parted:
            return TAIL, None
        sides = self._sides(place, node, inputs, stages)
        if sides is None:
            return TAIL, None
        self._keyed += 1
        return KEYED, after(node, self.needs[place], sides)

    def _sides(self, place: int, node: OperatorNode, inputs: Sequence[int], stages: set[int]) -> list[Keys] | None:
        """Return the keys by port, None when the operator cannot be in the keyed stage; note those of the front."""
        keys = self.needs[place].keys
        if stages == {FRONT}:
            self.first.append(place)
            chosen = self.choice.get(place, tuple(range(len(keys[0]))))
        else:
            known = {
                tuple(own.index(k) for k in found)
                for i, own in zip(inputs, keys, strict=True)
                if (found := self._keys[i]) is not None and set(found) <= set(own)
            }
            count = sum(self.stages[i] == KEYED for i in inputs)
            if len(known) != 1 or count != sum(self._keys[i] is not None for i in inputs):
                return None
            if any(
                self.stages[i] == KEYED and not set(self._keys[i] or ()) <= set(own)
                for i, own in zip(inputs, keys, strict=True)
            ):
                return None
            (chosen,) = known
        sides = [tuple(own[k] for k in chosen) for own in keys]
        kinds = _kinds(node, sides, exact=stages != {FRONT})
        if kinds is None:
            return None
        for port, i in enumerate(inputs):
            if self.stages[i] == FRONT:
                self.wanted[place, port] = (sides[port], kinds)
        return sides


def _kinds(node: OperatorNode, sides: Sequence[Keys], *, exact: bool) -> tuple[pa.DataType, ...] | None:
    """Return the types in which keys are compared; None when they are not what buckets were told by."""
    schemas = [upstream.schema.arrow for upstream in node.inputs]
    fields = [[schema.field(name) for name in side] for schema, side in zip(schemas, sides, strict=True)]
    if len(fields) == 1:
        return tuple(field.type for field in fields[0])
    kinds: list[pa.DataType] = []
    for left, right in zip(*fields, strict=True):
        if left.type == right.type or (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
            kinds.append(left.type if left.type == right.type else pa.int64())
        elif exact:
            return None
        else:
            kinds.append(common_field(left, right).type)
    return tuple(kinds)


def _edges(
    plan: Plan, stages: Sequence[int], wanted: Mapping[tuple[int, int], tuple[Keys, tuple[pa.DataType, ...]]]
) -> Iterator[Edge]:
    found: dict[tuple[int, int, Keys, tuple[str, ...]], list[tuple[int, int]]] = {}
    kinds: dict[tuple[str, ...], tuple[pa.DataType, ...]] = {}
    for giver, readers in plan.consumers().items():
        for place, port in readers:
            if stages[place] != stages[giver]:
                keys, types = wanted.get((place, port), ((), ())) if stages[place] == KEYED else ((), ())
                texts = tuple(str(kind) for kind in types)
                kinds[texts] = types
                found.setdefault((giver, stages[place], keys, texts), []).append((place, port))
    for (giver, stage, keys, texts), readers in found.items():
        ranked = ranked_by(plan, giver, readers)
        yield Edge(giver, stage, tuple(readers), keys, kinds[texts], ranked)


def _whys(needs: Sequence[Together], stages: Sequence[int]) -> Iterator[str]:
    for n, stage in zip(needs, stages, strict=True):
        yield n.why if stage == TAIL or n.arrival else ""
