"""Look flows up in the tables of names that their own exporters send: interfaces, applications, VRFs, samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, Plan, SourceNode, operator_node, source_node
from oop_engine.sources.protocol import Source
from operators.errors import did_you_mean
from operators.expression import Column, Expression
from operators.rows.filter import Filter
from operators.rows.project import Project
from operators.rows.valid_from import ValidFrom
from operators.streams.meld import Meld

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

    def rows(self, stream: Node) -> Node:
        """Return the table as the sources of a stream hear it, which is `announcing`; PlanError where none does."""
        key = KINDS[self.kind]
        kept = {
            "since": "announced_at", "exporter": "exporter", "domain": "domain",
            key: "announced_key" if self.kind == "applications" else "announced_id",
            "name": "announced_name", "description": "announced_description",
        }  # fmt: skip
        tables: list[Node] = []
        for node in Plan((stream,)).sources.values():
            if isinstance(node.source, Announcing) and node.source.announced:
                own = _filtered(node, Column("announced") == self.kind)
                valid = operator_node(ValidFrom("announced_at", "ts"), own, label=f"{self.kind} of exporters")
                tables.append(_projected(valid, {new: Column(old) for new, old in kept.items()}))
        if not tables:
            raise PlanError(
                f"lookup in {self.kind}: this stream is of no flow exports, in which exporters send names.\n"
                "  Read exports by oop.netflow(...), in text netflow:PATH or --netflow ADDRESS, or give a table:\n"
                f"  --table {self.kind}=FILE."
            )
        many = len(tables)
        return tables[0] if many == 1 else operator_node(Meld(many), *tables, label=f"meld of {many}")


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


def announcing(stream: Node) -> Node:
    """Return a stream whose sources have names as rows of their own, which it leaves out; others are as they were."""
    made: dict[int, Node] = {}
    for node in Plan((stream,)).nodes:
        if isinstance(node, SourceNode):
            made[id(node)] = _announcing(node)
        else:
            inputs = tuple(made[id(one)] for one in node.inputs)
            same = all(one is other for one, other in zip(inputs, node.inputs, strict=True))
            made[id(node)] = node if same else attrs.evolve(node, inputs=inputs)
    return made[id(stream)]


def _announcing(node: SourceNode) -> Node:
    source = node.source
    if not isinstance(source, Announcing) or source.announced:
        return node
    told = source_node(source.announcing(), promises=node.promises, late=node.late, divert=node.divert)
    flows = _filtered(told, Column("announced").is_null())
    return _projected(flows, {name: Column(name) for name in node.schema.names})


def _filtered(node: Node, condition: Expression) -> Node:
    return operator_node(Filter(condition), node, label=f"filter {condition}")


def _projected(node: Node, columns: Mapping[str, Column]) -> Node:
    said = ", ".join(new if new == old.name else f"{old.name} as {new}" for new, old in columns.items())
    return operator_node(Project(columns), node, label=f"project {said}")
