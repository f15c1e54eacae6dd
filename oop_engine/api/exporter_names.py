"""Look flows up in the tables of names that their own exporters send: interfaces, applications, VRFs, samplers."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import attrs

from oop_engine.api.stream import Stream, meld
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan, SourceNode, operator_node, source_node
from oop_engine.sources.protocol import Source
from operators.errors import did_you_mean
from operators.expression import Column
from operators.rows.valid_from import ValidFrom

KINDS: Final = {"interfaces": "index", "applications": "id", "vrfs": "id", "samplers": "id"}
"""The tables that exporters send, and the column by which a row is found beside the exporter."""


@runtime_checkable
class Announcing(Protocol):
    """A source whose senders name things, and which can have these names in its stream as rows of their own."""

    @property
    def announced(self) -> bool:
        """Return whether it has them."""
        ...

    def announcing(self) -> Source:
        """Return the source that has them."""
        ...


@attrs.frozen
class ExporterNames:
    """A table of names that exporters send with their flows; `Stream.lookup` takes it."""

    kind: str

    def __str__(self) -> str:
        return self.kind

    def rows(self, stream: Stream) -> Stream:
        """Return the table as the sources of a stream hear it, which is `announcing`; PlanError where none does."""
        key = KINDS[self.kind]
        kept = {
            "since": "announced_at", "exporter": "exporter", "domain": "domain",
            key: "announced_key" if self.kind == "applications" else "announced_id",
            "name": "announced_name", "description": "announced_description",
        }  # fmt: skip
        tables: list[Stream] = []
        for node in Plan((stream.node,)).sources.values():
            if isinstance(node.source, Announcing) and node.source.announced:
                own = Stream(node).filter(Column("announced") == self.kind)
                valid = ValidFrom("announced_at", "ts")
                rows = Stream(operator_node(valid, own.node, label=f"{self.kind} of exporters"))
                tables.append(rows.project(**{new: Column(old) for new, old in kept.items()}))
        if not tables:
            raise PlanError(
                f"lookup in {self.kind}: this stream is of no flow exports, in which exporters send names.\n"
                "  Read exports by oop.netflow(...), in text netflow:PATH or --netflow ADDRESS, or give a table:\n"
                f"  --table {self.kind}=FILE."
            )
        return tables[0] if len(tables) == 1 else meld(*tables)


def exporter_names(kind: str) -> ExporterNames:
    """Return the table of names that exporters send with their flows, for `Stream.lookup`: NetFlow v9 and IPFIX do.

    - `kind`: "interfaces" (`index`, as in_if and out_if have it), "applications" (`id`, the element applicationId),
      "vrfs" (`id`, as ingressVRFID and egressVRFID have it), or "samplers" (`id`, the element samplerId).

    The tables have `exporter`, `domain`, `name` and `description` besides. A name holds since the exporter sent it, by
    its own clock; the first name that it gives a thing held before, too. One that comes behind what was promised holds
    from there on. The lookup takes `wait` and `revise` as for any table that changes. In query text the tables have
    these names: `LOOKUP interfaces AS i ON exporter = i.exporter AND in_if = i.index WAIT`.

    PlanError for another kind, and by the lookup for a stream of anything else than flow exports.

    >>> flows = oop.netflow("demos/captures/exports.pcap.gz")
    >>> named = flows.lookup(oop.exporter_names("interfaces"), ["exporter", ("in_if", "index")], wait=True)
    >>> named.schema.names[-3:]
    ['interfaces_domain', 'name', 'description']
    """
    if kind not in KINDS:
        raise PlanError(
            f'exporter_names("{kind}"): exporters send {", ".join(KINDS)}.\n  {did_you_mean(kind, list(KINDS))}'
        )
    return ExporterNames(kind)


def announcing(stream: Stream) -> Stream:
    """Return a stream whose sources have names as rows of their own, which it leaves out; others are as they were."""
    made: dict[int, Node] = {}

    def again(node: Node) -> Node:
        if id(node) not in made:
            if isinstance(node, SourceNode):
                made[id(node)] = _announcing(node)
            else:
                inputs = tuple(again(one) for one in node.inputs)
                same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
                made[id(node)] = node if same else attrs.evolve(node, inputs=inputs)
        return made[id(node)]

    return Stream(again(stream.node))


def _announcing(node: SourceNode) -> Node:
    source = node.source
    if not isinstance(source, Announcing) or source.announced:
        return node
    told = source_node(source.announcing(), promises=node.promises, late=node.late, divert=node.divert)
    return Stream(told).filter(Column("announced").is_null()).project(*node.schema.names).node
