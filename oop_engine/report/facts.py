"""Facts of each node of a plan before it runs; explanations, pictures and messages share them.

All text comes out on one line and without control characters, since a label may hold a file's name or a query's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from oop_engine.plan.aggregates import slow
from oop_engine.plan.durations import Duration, format_duration
from oop_engine.plan.graph import OperatorNode, Plan, SourceNode, own_promises
from oop_engine.plan.ticks import tick_ns
from oop_engine.report.bounds import Bound
from oop_engine.rewrite.deferral import deferrals
from oop_engine.rewrite.demand import columns, demands, pruned
from oop_engine.rewrite.lanes import divisions
from operators.data.printable import printable
from operators.data.schema import Schema, is_ip
from operators.data.steps import tick_number
from operators.fresh import fresh
from operators.pace import Pace

_LATE = {
    "drop": "dropped and counted",
    "refuse": "refused: the first one ends the run",
    "divert": "diverted and counted",
    "revise": "passed on, and counted as behind",
}


@attrs.frozen
class Facts:
    """The facts of one node; each text is one line."""

    label: str
    attributes: str
    promised: tuple[str, ...]
    """What the stream that leaves the node is punctuated on, one text a promise."""
    remarks: tuple[str, ...]
    inputs: tuple[int, ...]
    """Places of the nodes it reads, by port."""
    readers: int
    source: bool

    @property
    def promises(self) -> str:
        """Return all promises in one text, "nothing" when there is none."""
        return "; ".join(self.promised) or "nothing"


def facts(
    plan: Plan, threads: int = 1, *, bound: Bound | None = None, seen: Sequence[Sequence[str]] = ()
) -> tuple[Facts, ...]:
    """Return the facts of every node, in the order of `plan.nodes`; of several threads, what each operator does.

    With a `bound` of the memory, also what each does beyond it; `seen` is what each chose in a run, and why.
    """
    plan = pruned(plan)
    deferred = {place: [deferral.told()] for place, deferral in deferrals(plan).items()}
    divided = enumerate(divisions(plan)) if threads > 1 else ()
    shared = [list[str]() for _ in plan.nodes]
    for place, division in divided:
        shared[place].append(division.told(threads))
    for place, told in deferred.items():
        shared[place] = told
    if bound is not None:
        for lines, told in zip(shared, bound.told(plan), strict=True):
            lines.append(told)
    for lines, told in zip(shared, seen, strict=False):
        lines += told
    paces, read, consumers = demands(plan), columns(plan), plan.consumers()
    effective = _effective(plan, paces)
    found: list[Facts] = []
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            attributes = described_attributes(node.schema, read[place])
            promised = _source_promises(node, paces[place])
            remarks = (f"late tuples are {_LATE.get(node.late, node.late)}",)
        else:
            attributes = _operator_attributes(node)
            promised = tuple(_joined(p) for p in _in_order(effective[place]))
            remarks = tuple(one_line(remark) for remark in (*node.remarks, *slow(node.operator), *shared[place]))
        found.append(
            Facts(
                label=one_line(node.label),
                attributes=attributes,
                promised=promised,
                remarks=remarks,
                inputs=plan.inputs[place],
                readers=len(consumers[place]),
                source=place in plan.sources,
            )
        )
    return tuple(found)


def described_attributes(schema: Schema, names: Sequence[str] | None = None) -> str:
    """List attributes with short types; when only some are named, say how many others are not read."""
    chosen = list(schema.names) if names is None else [n for n in schema.names if n in names]
    text = ", ".join(f"{one_line(n)} {kind_text(schema.arrow.field(n))}" for n in chosen)
    others = len(schema.names) - len(chosen)
    if others == 0:
        return text
    return f"{text} (read {len(chosen)} of {len(schema.names)})"


def kind_text(field: pa.Field) -> str:
    """Return an attribute's type as people say it: "ip", "timestamp[ns]", "int64"."""
    if is_ip(field):
        return "ip"
    kind = field.type
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}]" if kind.tz in (None, "UTC") else f"timestamp[{kind.unit}, {one_line(kind.tz)}]"
    if pa.types.is_dictionary(kind):
        return str(kind.value_type)
    return str(kind)


def one_line(text: str) -> str:
    """Return a text on one line, what cannot be printed as an escape."""
    return printable(" ".join(text.split()))


def _effective(plan: Plan, paces: Mapping[int, Mapping[str, Pace]]) -> list[Schema]:
    """Return the schemas with the promises that will be made: a file is punctuated only on what is asked of it."""
    found: dict[int, Schema] = {}
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            asked = node.promises or not node.source.rewindable
            own = {frozenset(promise) for promise in own_promises(node.source)}
            kept = [p for p in node.schema.progress if asked or p in own or p <= set(paces[place])]
            found[id(node)] = node.schema.with_progress(kept)
            continue
        try:
            # An operator may keep the schema it was last asked for, so the plan's own prototype must not be asked.
            schema = fresh(node.operator).output_schema(*(found[id(upstream)] for upstream in node.inputs))
        except ValueError:
            schema = node.schema
        found[id(node)] = schema
    return list(found.values())


def _in_order(schema: Schema) -> list[list[str]]:
    """Return the promises with attributes in the order of the schema, single ones first."""
    promises = [sorted(promise, key=schema.names.index) for promise in schema.progress]
    return sorted(promises, key=lambda names: (len(names), [schema.names.index(n) for n in names]))


def _operator_attributes(node: OperatorNode) -> str:
    """List what leaves an operator, or what it adds when its input's attributes all pass through it."""
    own = node.schema.arrow
    given = node.inputs[0].schema.arrow
    if all(own.equals(upstream.schema.arrow) for upstream in node.inputs):
        return "those of its input" if len(node.inputs) == 1 else "those of its inputs"
    if len(node.inputs) == 1 and len(own) > len(given) and own.names[: len(given)] == given.names:
        added = own.names[len(given) :]
        if all(own.field(name).equals(given.field(name)) for name in given.names):
            return f"those of its input, and {described_attributes(node.schema, added).partition(' (read')[0]}"
    return described_attributes(node.schema)


def _source_promises(node: SourceNode, paces: Mapping[str, Pace]) -> tuple[str, ...]:
    field = node.schema.field
    found: list[str] = []
    for promise in node.promises:
        pace = paces.get(promise.on, Pace(None))
        punctuator = promise.punctuator(node.schema, pace.step, pace.origin)
        step, every = getattr(punctuator, "step", None), getattr(punctuator, "every", None)
        how = one_line(promise.how)
        steps = [f"every {every} tuples"] if every is not None else []
        steps += [f"every {_amount(step, field(promise.on))}"] if step is not None else []
        if (lull := getattr(punctuator, "lull", None)) is not None:
            steps.append(f"assumed after a lull of {_amount(lull, field(promise.on))}")
        found.append(", ".join([_joined(promise.attributes), how, *steps]))
    own = own_promises(node.source)
    found += [f"{_joined(promise)}, by the stream itself" for promise in own]
    if not node.promises and node.source.rewindable:
        for attribute, pace in paces.items():
            if node.schema.progressing(attribute) and (attribute,) not in own:
                often = "whenever it rises" if pace.step is None else f"every {_amount(pace.step, field(attribute))}"
                if pace.optional:
                    often += ", if it is seen to rise"
                found.append(f"{one_line(attribute)}, exactly, {often} (suffix minimum, Eq. 4.1)")
    return tuple(found)


def _amount(ticks: int, field: pa.Field) -> str:
    tick = tick_ns(field.type)
    if tick is not None:
        return format_duration(ticks * tick)
    return str(Duration(ticks, "rows", "")) if field.name == "row_num" else tick_number(ticks, field.type)


def _joined(names: Sequence[str]) -> str:
    return " with ".join(one_line(name) for name in names)
