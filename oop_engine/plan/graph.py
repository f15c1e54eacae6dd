"""A plan is a frozen graph of what to compute: sources, operators, and who reads whom. Nothing in it runs.

Nodes are compared by identity: a handle used twice is one node with two readers. Schemas are known when a node is made,
so an unknown attribute or a window that nothing could release is refused before the first byte is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from oop_engine.errors import PlanError, SchemaError
from oop_engine.plan.punctuate import Promise
from oop_engine.plan.retractions import after, settling
from oop_engine.sources.protocol import Source
from operators.data.page import Page
from operators.data.schema import Schema
from operators.data.steps import in_steps
from operators.errors import did_you_mean
from operators.protocol import Operator
from operators.retractions import Retracted, retracted
from operators.streams.input import Input

if TYPE_CHECKING:
    from oop_engine.rewrite.strategy import LogicalAggregate

Late: TypeAlias = Literal["drop", "refuse", "divert", "revise"]
Divert: TypeAlias = "Callable[[Page], None] | str | None"
POLICIES: Final[tuple[Late, ...]] = ("drop", "refuse", "divert", "revise")


@attrs.frozen(eq=False)
class SourceNode:
    """A stream as it enters the plan, with the promises its user asked for and the policy for late tuples."""

    source: Source
    schema: Schema
    promises: tuple[Promise, ...] = ()
    late: Late = "drop"
    divert: Divert = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def label(self) -> str:
        return self.source.name


@attrs.frozen(eq=False)
class Logical:
    """A window aggregate as a user wants it; some operators in a row compute it."""

    aggregate: LogicalAggregate
    steps: int
    """How many operators, the last of which has this."""
    strategy: str
    """The strategy that was chosen or asked for."""

    def entry(self, last: OperatorNode) -> Node:
        """Return the node that the first of the operators reads, from the last of them."""
        node: Node = last
        for _ in range(self.steps):
            (node,) = node.inputs
        return node


@attrs.frozen(eq=False)
class OperatorNode:
    """An operator over the streams of other nodes; `operator` is a prototype, every run makes its own of it."""

    operator: Operator
    inputs: tuple[Node, ...]
    schema: Schema
    label: str
    remarks: tuple[str, ...] = ()
    """What `explain` says of it: the window, the strategy and why."""
    logical: Logical | None = attrs.field(default=None, kw_only=True)
    """What it computes, so that it may be computed otherwise, or together with others, where the user left open how."""
    retracted: Retracted | None = attrs.field(default=None, kw_only=True)
    """What is said of a stream some of whose tuples take back or replace others."""


Node: TypeAlias = "SourceNode | OperatorNode"


def source_node(
    source: Source,
    *,
    promises: Iterable[Promise] = (),
    late: Late = "drop",
    divert: Divert = None,
) -> SourceNode:
    """Make the node of a source. A stream that can be read twice may be punctuated exactly on any ordered attribute.

    SchemaError for two columns of one name; PlanError for a policy that there is not, or one that does not say where
    late tuples go; SinkError for a path to which they cannot be written.
    """
    promises = tuple(promises)
    _check_names(source)
    late = _policy(late, divert, source.name)
    progress = own_promises(source)
    if source.rewindable and not promises:
        own = {name for promise in progress for name in promise}
        progress += [(field.name,) for field in source.arrow if in_steps(field.type) and field.name not in own]
    schema = Schema(source.arrow, progress=progress)
    for promise in promises:
        for attribute in promise.reads:
            schema.field(attribute, where=f"{source.name}: punctuate")
    # Made once here only to be checked: the granularity is known when there is a plan.
    schema = Input([p.punctuator(schema, None, 0) for p in promises], name=source.name).output_schema(schema)
    return SourceNode(source, schema, promises, late, divert)


def own_promises(source: Source) -> list[tuple[str, ...]]:
    """Return the sets of attributes that a stream promises itself; on others it may be promised from outside."""
    return [(p,) if isinstance(p, str) else tuple(p) for p in source.promised]


def operator_node(
    operator: Operator, *inputs: Node, label: str, remarks: Iterable[str] = (), logical: Logical | None = None
) -> OperatorNode:
    """Make the node of an operator; SchemaError when it does not fit its inputs.

    Where it would take what its inputs retract for new tuples, it gets the tuples that stand (`settled`); PlanError
    when nothing tells which these are.
    """
    schema = operator.output_schema(*(node.schema for node in inputs))
    behind = after(operator, [(node.schema, retracted_of(node)) for node in inputs], label)
    if behind.unsettled:
        inputs = tuple(settled(node) if port in behind.unsettled else node for port, node in enumerate(inputs))
        schema = operator.output_schema(*(node.schema for node in inputs))
    return OperatorNode(operator, inputs, schema, label, tuple(remarks), logical=logical, retracted=behind.retracted)


def retracted_of(node: Node) -> Retracted | None:
    """Return what is known of a stream some of whose tuples take back or replace others; None for any other."""
    return node.retracted if isinstance(node, OperatorNode) else None


def settled(node: Node, *, keys: Collection[str] = ()) -> Node:
    """Return the node of the tuples of a stream that stand, itself where none is taken back or nothing tells which.

    - `keys`: what reads it keeps tuples apart that differ in one of these; so results of different firings or revisions
      are not settled for one that groups by `fired` or `revision`.
    """
    found = retracted_of(node)
    if found is None or found.settles is None or found.settles.apart in keys:
        return node
    for operator, label, remark in settling(found.settles):
        schema = operator.output_schema(node.schema)
        told = retracted(operator, found, [node.schema])
        assert not isinstance(told, str)
        node = OperatorNode(operator, (node,), schema, label, (remark,) if remark else (), retracted=told)
        found = told
    return node


@attrs.frozen
class Plan:
    """All nodes that some outputs need, every node after its inputs."""

    outputs: tuple[Node, ...]
    nodes: tuple[Node, ...] = attrs.field(init=False)
    sources: dict[int, SourceNode] = attrs.field(init=False, eq=False, repr=False)
    """The sources by their places among `nodes`, in order."""
    operators: dict[int, OperatorNode] = attrs.field(init=False, eq=False, repr=False)
    """The other nodes by their places, in order."""
    inputs: tuple[tuple[int, ...], ...] = attrs.field(init=False, eq=False, repr=False)
    """For each node, the places of those that it reads."""
    _places: dict[int, int] = attrs.field(init=False, eq=False, repr=False)
    """The place of each node, by its id."""

    def __attrs_post_init__(self) -> None:
        found: dict[int, Node] = {}
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(self.outputs)]
        while stack:
            node, ready = stack.pop()
            if id(node) in found:
                continue
            if ready:
                found[id(node)] = node
                continue
            stack.append((node, True))
            stack.extend((upstream, False) for upstream in reversed(node.inputs))
        nodes, places = tuple(found.values()), {key: place for place, key in enumerate(found)}
        sources = {place: node for place, node in enumerate(nodes) if isinstance(node, SourceNode)}
        operators = {place: node for place, node in enumerate(nodes) if isinstance(node, OperatorNode)}
        inputs = tuple(tuple(places[id(upstream)] for upstream in node.inputs) for node in nodes)
        for name, value in (
            ("nodes", nodes), ("_places", places), ("sources", sources), ("operators", operators), ("inputs", inputs),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def position(self, node: Node) -> int:
        """Return the place of a node among `nodes`."""
        return self._places[id(node)]

    def output_numbers(self) -> dict[int, list[int]]:
        """Return, for the place of each node that is an output, the numbers under which it is one."""
        numbers: dict[int, list[int]] = {}
        for number, node in enumerate(self.outputs):
            numbers.setdefault(self.position(node), []).append(number)
        return numbers

    def consumers(self) -> dict[int, list[tuple[int, int]]]:
        """Return, for each node's place, the (place, port) of those that read it."""
        readers: dict[int, list[tuple[int, int]]] = {i: [] for i in range(len(self.nodes))}
        for i, inputs in enumerate(self.inputs):
            for port, upstream in enumerate(inputs):
                readers[upstream].append((i, port))
        return readers


def _check_names(source: Source) -> None:
    """Refuse columns of one name: nothing could say which of them is meant."""
    names = source.arrow.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SchemaError(
            f'{source.name}: the schema names the column "{twice}" twice.\n  columns: {", ".join(names)}\n'
            "  Rename one before it comes here, e.g. by table.rename_columns([...])."
        )


def _policy(late: Late, divert: Divert, name: str) -> Late:
    """Check the policy for late tuples."""
    if late not in POLICIES:
        hint = did_you_mean(late, POLICIES)
        raise PlanError(f'{name}: late="{late}" is no policy for late tuples; write {", ".join(POLICIES)}.\n  {hint}')
    if divert is None:
        if late == "divert":
            raise PlanError(
                f'{name}: late="divert" needs divert=, a function of pages or a path such as "late.parquet".'
            )
        return late
    if late not in ("drop", "divert"):
        raise PlanError(
            f'{name}: divert= says where late tuples go, and late="{late}" that they go elsewhere; choose one.'
        )
    if isinstance(divert, str):
        # Start-up: few sources divert late tuples.
        from oop_engine.sinks.choice import sink_for

        sink_for(divert)
    return "divert"
