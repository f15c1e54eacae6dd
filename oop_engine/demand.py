"""What each source must deliver: which attributes, and promises on which of them at which granularity.

Both travel from the outputs up to the sources (Tucker's *describe*): a window asks for promises on its windowing
attribute once a slide, a projection translates names, and nobody reads a column that nothing downstream looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import TypeAlias

import attrs
import pyarrow as pa

from oop_engine.plan import Node, OperatorNode, Plan, SourceNode, own_promises
from oop_engine.ticks import tick_ns
from operators.aggregate.groupby import GroupAggregate
from operators.aggregate.wid import START, STOP, WID, WindowAggregate
from operators.apply import Apply
from operators.bucket import FROM, UNTIL, Bucket
from operators.distinct import Distinct
from operators.expression import Column
from operators.filter import Filter
from operators.meld import Meld
from operators.merge import Merge
from operators.number import Number
from operators.project import Project
from operators.schema import Schema
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow

Attributes: TypeAlias = frozenset[str]


@attrs.frozen
class Pace:
    """How finely an attribute must be promised: at origin + k * step, or, without a step, as finely as is cheap."""

    step: int | None
    origin: int = 0

    def and_also(self, other: Pace) -> Pace:
        """Give the coarsest pace that serves both."""
        if self.step is None or other.step is None:
            return Pace(None)
        step = gcd(self.step, other.step)
        if (difference := self.origin - other.origin) % step:
            step = gcd(step, difference)
        return Pace(step, self.origin % step)


Paces: TypeAlias = dict[str, Pace]


def demands(plan: Plan) -> dict[int, Paces]:
    """Give, for the place of each source, the attributes that must be promised and their pace.

    What a user promises and nobody asks for is promised once a second, as far as that can be said: it still tells which
    tuples are late, and to promise it at every tuple would cut the stream to pieces.
    """
    wanted: dict[int, Paces] = {i: {} for i in range(len(plan.nodes))}
    places = {id(node): i for i, node in enumerate(plan.nodes)}
    for i, node in reversed(list(enumerate(plan.nodes))):
        if isinstance(node, OperatorNode):
            for upstream, paces in zip(node.inputs, _paces(node, wanted[i]), strict=True):
                here = wanted[places[id(upstream)]]
                for name, pace in paces.items():
                    _want(here, name, pace)
        else:
            for promise in node.promises:
                wanted[i].setdefault(promise.on, _finely(node.schema, promise.on, 1))
    return {i: wanted[i] for i, node in enumerate(plan.nodes) if isinstance(node, SourceNode)}


def columns(plan: Plan) -> dict[int, tuple[str, ...]]:
    """Give, for the place of each source, the attributes that anything downstream looks at, in the source's order."""
    needed: dict[int, set[str]] = {i: set() for i in range(len(plan.nodes))}
    places = {id(node): i for i, node in enumerate(plan.nodes)}
    for output in plan.outputs:
        needed[places[id(output)]] |= set(output.schema.names)
    for i, node in reversed(list(enumerate(plan.nodes))):
        if isinstance(node, OperatorNode):
            for upstream, names in zip(node.inputs, _needs(node, frozenset(needed[i])), strict=True):
                needed[places[id(upstream)]] |= names & set(upstream.schema.names)
    found: dict[int, tuple[str, ...]] = {}
    for i, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            given = node.source.arrow.names
            names = set(given) if node.late == "divert" else needed[i]
            for promise in node.promises:
                names |= set(promise.attributes) | _promise_columns(node)
            names |= {attribute for promise in own_promises(node.source) for attribute in promise}
            found[i] = tuple(n for n in given if n in names) or tuple(given[:1])
    return found


def _promise_columns(node: SourceNode) -> set[str]:
    """Name the marker and block attributes that punctuators read besides the one they promise."""
    found: set[str] = set()
    for promise in node.promises:
        punctuator = promise.punctuator(Schema(node.source.arrow), None, 0)
        for name in ("marker", "block"):
            if (attribute := getattr(punctuator, name, None)) is not None:
                found.add(str(attribute))
    return found


def _paces(node: OperatorNode, wanted: Mapping[str, Pace]) -> list[Paces]:
    operator, inputs = node.operator, [n.schema for n in node.inputs]
    paces: Paces
    match operator:
        case Bucket():
            paces = {n: p for n, p in wanted.items() if n in inputs[0]}
            for name, pace in _window_pace(operator).items():
                _want(paces, name, pace)
            return [paces]
        case WindowAggregate():
            paces = {n: p for n, p in wanted.items() if n in operator.by}
            if any(n in wanted for n in (WID, START, STOP)):
                paces[FROM] = Pace(1)
            return [paces]
        case GroupAggregate() | Distinct():
            names = (
                operator.by if isinstance(operator, GroupAggregate) else operator.attributes or tuple(inputs[0].names)
            )
            return [{n: p for n, p in wanted.items() if n in names} | _times(inputs[0], names)]
        case Project() | Apply():
            paces = {}
            for name, pace in wanted.items():
                expression = operator.columns.get(name)
                if expression is None:
                    _want(paces, name, pace)
                elif isinstance(expression, Column):
                    _want(paces, inputs[0].resolve(expression.name, where="plan"), pace)
                else:
                    for read in _read(expression.columns(), inputs[0]):
                        _want(paces, read, Pace(None))
            return [paces]
        case Merge():
            return [dict(wanted) | {operator.attribute: _finely(s, operator.attribute, 10)} for s in inputs]
        case Number():
            return [{n: p for n, p in wanted.items() if n != operator.name}]
        case _:
            return [{n: p for n, p in wanted.items() if n in schema} for schema in inputs]


def _window_pace(bucket: Bucket) -> Paces:
    window = bucket.window
    if isinstance(window, SlidingWindow | LandmarkWindow):
        return {window.wattr: Pace(window.slide, window.origin)}
    return {} if isinstance(window, PartitionedWindow) else {window.wattr: Pace(None)}


def _want(paces: Paces, name: str, pace: Pace) -> None:
    paces[name] = paces[name].and_also(pace) if name in paces else pace


def _times(schema: Schema, names: tuple[str, ...]) -> Paces:
    """Give the time attributes among these, on which a source can usefully make progress, once a second."""
    return {n: _finely(schema, n, 1) for n in names if pa.types.is_temporal(schema.field(n).type)}


def _finely(schema: Schema, name: str, times_a_second: int) -> Pace:
    tick = tick_ns(schema.field(name).type)
    return Pace(None) if tick is None else Pace(max(1, 1_000_000_000 // tick // times_a_second))


def _needs(node: OperatorNode, needed: Attributes) -> list[Attributes]:
    operator, inputs = node.operator, [frozenset(n.schema.names) for n in node.inputs]
    schemas = [n.schema for n in node.inputs]
    match operator:
        case Filter():
            return [needed | _read(operator.predicate.columns(), schemas[0])]
        case Project():
            return [frozenset(n for e in operator.columns.values() for n in _read(e.columns(), schemas[0]))]
        case Apply():
            computed = frozenset(n for e in operator.columns.values() for n in _read(e.columns(), schemas[0]))
            return [needed - frozenset(operator.columns) | computed]
        case Distinct() if operator.attributes:
            return [frozenset(operator.attributes)]
        case Meld():
            return [needed for _ in inputs]
        case Number():
            return [needed - {operator.name}]
        case Bucket():
            return [needed - {FROM, UNTIL} | frozenset(operator.partition or (operator.window.wattr,))]
        case WindowAggregate():
            return [_aggregated(operator, schemas[0]) | {FROM, UNTIL, operator.window.wattr}]
        case GroupAggregate():
            return [_aggregated(operator, schemas[0])]
        case _:
            return inputs


def _aggregated(operator: WindowAggregate | GroupAggregate, schema: Schema) -> Attributes:
    arguments = frozenset(a for f in operator.functions.values() for a in f.arguments)
    return frozenset(operator.by) | _read(arguments, schema)


def _read(names: frozenset[str], schema: Schema) -> frozenset[str]:
    return frozenset(schema.resolve(n, where="plan") for n in names)


def promised_by(node: Node) -> str:
    """Say what a stream promises, for explanations: `{ts} {srcIP, wid}`."""
    shown = sorted("{" + ", ".join(sorted(p)) + "}" for p in node.schema.progress)
    return " ".join(shown) or "nothing"
