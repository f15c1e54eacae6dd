"""What each source must deliver: which attributes, and promises on which of them at which granularity.

Both travel from the outputs up to the sources (Tucker's *describe*): a window asks for promises on its windowing
attribute once a slide, a projection translates names, and nobody reads a column that nothing downstream looks at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Final, Protocol, TypeAlias, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.plan import Node, OperatorNode, Plan, SourceNode, own_promises
from oop_engine.ticks import tick_ns
from oop_engine.window_join import WindowJoin
from oop_engine.windows import Windowing
from operators.adaptive.adaptive import AdaptiveAggregate
from operators.aggregate.groupby import GroupAggregate
from operators.aggregate.wid import START, STOP, WID
from operators.apply import Apply
from operators.bucket import FROM, UNTIL, Bucket
from operators.distinct import Distinct
from operators.expression import Column, Opaque
from operators.filter import Filter
from operators.fresh import fresh
from operators.functions.protocol import AggregateFunction
from operators.guard import Guard
from operators.join import Band, SameWindow, WidJoin
from operators.meld import Meld
from operators.merge import Merge
from operators.number import Number
from operators.project import Project
from operators.protocol import Operator
from operators.schema import Schema
from operators.spread import Spread
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.counted import LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow

Attributes: TypeAlias = frozenset[str]
_TIMES_A_LENGTH: Final = 4
"""Promises that a window asks for within its RANGE or gap, when tuples set its edges."""
_PARTS: Final = 1000
"""Into so many parts a step may be cut to serve another as well."""


@attrs.frozen
class Pace:
    """How finely an attribute must be promised: at origin + k * step, or, without a step, as finely as is cheap.

    An `optional` promise only lets state go sooner: it is made where the attribute is seen to rise, and no other pace
    becomes finer for it.
    """

    step: int | None
    origin: int = 0
    optional: bool = attrs.field(default=False, kw_only=True)

    def and_also(self, other: Pace) -> Pace:
        """Give the coarsest pace that serves both."""
        if self.optional != other.optional:
            return other if self.optional else self
        if self.step is None or other.step is None:
            return Pace(None, optional=self.optional)
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
                if promise.on not in wanted[i] or wanted[i][promise.on].optional:
                    wanted[i][promise.on] = _finely(node.schema, promise.on, 1)
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


def pruned(plan: Plan) -> Plan:
    """Give the plan whose joins put out, and store, what is read of their results and no more; else it is the same.

    Nodes keep their places, outputs their schemas.
    """
    if not any(isinstance(n, OperatorNode) and isinstance(n.operator, WindowJoin) for n in plan.nodes):
        return plan
    needed: dict[int, set[str]] = {id(node): set() for node in plan.nodes}
    for output in plan.outputs:
        needed[id(output)] |= set(output.schema.names)
    joins: dict[int, WindowJoin] = {}
    for node in reversed(plan.nodes):
        if not isinstance(node, OperatorNode):
            continue
        own = node
        if isinstance(node.operator, WindowJoin):
            joins[id(node)] = node.operator.keeping(needed[id(node)])
            own = attrs.evolve(node, operator=joins[id(node)])
        for upstream, names in zip(node.inputs, _needs(own, frozenset(needed[id(node)])), strict=True):
            needed[id(upstream)] |= names & set(upstream.schema.names)
    made: dict[int, Node] = {}
    for node in plan.nodes:
        renewed: Node = node
        inputs = tuple(made[id(upstream)] for upstream in node.inputs)
        if isinstance(node, OperatorNode) and (join := joins.get(id(node))) is not None:
            renewed = OperatorNode(join, inputs, schema_over(join, inputs, node.schema), node.label, join.remarks())
        elif isinstance(node, OperatorNode) and inputs != node.inputs:
            renewed = attrs.evolve(node, inputs=inputs, schema=schema_over(node.operator, inputs, node.schema))
        made[id(node)] = renewed
    return Plan(tuple(made[id(output)] for output in plan.outputs))


def schema_over(operator: Operator, inputs: Sequence[Node], otherwise: Schema) -> Schema:
    """Give the schema of an operator over inputs that bring less than before.

    What does not fit any more, as the inputs of a meld that bring different attributes, is said as it was.
    """
    try:
        return fresh(operator).output_schema(*(node.schema for node in inputs))
    except ValueError:
        return otherwise


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
    if isinstance(operator, WindowedAggregate) and (windows := windows_of(operator)):
        paces = {n: p for n, p in wanted.items() if n in operator.by}
        if FROM in inputs[0]:
            return [paces | ({FROM: Pace(1)} if any(n in wanted for n in (WID, START, STOP)) else {})]
        for window in windows:
            pace = window_pace(window, inputs[0])
            _want(paces, window.wattr, pace)
            if pace.step is not None and (lateness := int(getattr(operator, "lateness", 0))):
                # A window may change until its end is so far behind the promise, which has to be seen, too.
                _want(paces, window.wattr, Pace(pace.step, (pace.origin + lateness) % pace.step))
        return [paces]
    match operator:
        case Bucket():
            paces = {n: p for n, p in wanted.items() if n in inputs[0]}
            if not operator.partition:
                _want(paces, operator.window.wattr, window_pace(operator.window, inputs[0]))
            return [paces]
        case GroupAggregate() | Distinct():
            names = (
                operator.by if isinstance(operator, GroupAggregate) else operator.attributes or tuple(inputs[0].names)
            )
            paces = {n: p for n, p in wanted.items() if n in names}
            for name, pace in _times(inputs[0], names).items():
                _want(paces, name, pace)
            if not any(inputs[0].progressing(name) for name, pace in paces.items() if not pace.optional):
                # No time lets groups go, so whatever of them is promised does, where it rises.
                for name in filter(inputs[0].progressing, names):
                    _want(paces, name, Pace(None, optional=True))
            return [paces]
        case Project() | Apply():
            paces = {}
            for name, pace in wanted.items():
                expression = operator.columns.get(name)
                if expression is None:
                    _want(paces, name, pace)
                elif isinstance(expression, Column):
                    _want(paces, inputs[0].resolve(expression.name, where="plan"), pace)
                elif not isinstance(expression, Opaque):
                    for read in expression.reads(inputs[0], where="plan"):
                        _want(paces, read, Pace(None, optional=pace.optional))
            return [paces]
        case Spread():
            paces = {n: p for n, p in wanted.items() if n in inputs[0] and n != operator.into}
            if (asked := wanted.get(operator.into)) is not None:
                _want(paces, operator.start if inputs[0].progressing(operator.start) else operator.end, asked)
            return [paces]
        case WindowJoin():
            return _join_paces(operator, wanted)
        case Merge():
            name = inputs[0].resolve(operator.attribute, where="plan")
            return [dict(wanted) | {name: _finely(s, name, 10)} for s in inputs]
        case Number():
            return [{n: p for n, p in wanted.items() if n != operator.name}]
        case Guard() if operator.step is not None:
            return [{**wanted, operator.attribute: Pace(operator.step, operator.origin)}]
        case _:
            return [{n: p for n, p in wanted.items() if n in schema} for schema in inputs]


def _join_paces(join: WindowJoin, wanted: Mapping[str, Pace]) -> list[Paces]:
    """Give what a join asks of its inputs: as finely as its results are asked, and often enough to purge in time.

    The time of one input is promised as the other allows, its range later; so that one is asked for the same steps, put
    off by the range.
    """
    window, wattrs = join.join.window, join.wattrs
    # What it asks for itself, to purge in time, lets groups over it go, too.
    wanted = {name: pace for name, pace in wanted.items() if not pace.optional}
    paces: list[Paces] = []
    for names, wattr in zip(join.names, wattrs, strict=True):
        called = {new: old for old, new in names.items()}
        paces.append({called[n]: p for n, p in wanted.items() if n in called})
        if join.join.least in wanted:
            _want(paces[-1], wattr, wanted[join.join.least])
    asked = [paces[port].get(wattr) for port, wattr in enumerate(wattrs)]
    for port, wattr in enumerate(wattrs):
        if join.join.greatest in wanted:
            _want(paces[port], wattr, wanted[join.join.greatest])
        partner = asked[1 - port]
        # To promise more often than that would cost more than the tuples that go sooner.
        least = _finely(join.schemas[port], wattr, 1000).step or 1
        match window:
            case Band():
                if partner is not None:
                    _want(paces[port], wattr, _put_off(partner, window.right if port == 0 else window.left))
                often = (window.left + window.right) // (2 * _TIMES_A_LENGTH)
                paces[port][wattr] = _as_fine_as(paces[port].get(wattr), max(often, least))
            case SameWindow():
                _want(paces[port], wattr, Pace(window.size, window.origin % window.size))
            case WidJoin():
                own = window.left if port == 0 else window.right
                _want(paces[port], wattr, Pace(own.slide, own.origin % own.slide))
            case _:
                _want(paces[port], wattr, Pace(max(window.span // _TIMES_A_LENGTH, least)))
    return paces


def _put_off(pace: Pace, by: int) -> Pace:
    """Give the same steps later, a little more so where else they would be of no common measure with their length."""
    if pace.step is None:
        return pace
    if gcd(pace.step, by) * _PARTS < pace.step:
        parts = next((n for n in range(_PARTS, 2 * _PARTS) if pace.step % n == 0), pace.step)
        coarse = pace.step // parts
        by = -(-by // coarse) * coarse
    return Pace(pace.step, (pace.origin + by) % pace.step)


def _as_fine_as(pace: Pace | None, step: int) -> Pace:
    """Give steps of at most a length that include those of a pace, if they can without being far finer."""
    if pace is None:
        return Pace(step)
    if pace.step is None or pace.step <= step:
        return pace
    least = -(-pace.step // step)
    parts = next((n for n in range(least, 2 * least + 8) if pace.step % n == 0), least)
    return Pace(pace.step // parts, pace.origin % (pace.step // parts)) if pace.step % parts == 0 else pace


@runtime_checkable
class WindowedAggregate(Protocol):
    """What every physical window aggregate shows of itself, besides `window`, or `windows` by name."""

    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...]


def windows_of(operator: object) -> tuple[Windowing, ...]:
    """Give the windows that an operator computes, none for most operators."""
    if isinstance(windows := getattr(operator, "windows", None), Mapping):
        return tuple(windows.values())
    window = getattr(operator, "window", None)
    return () if window is None else (window,)


def window_pace(window: Windowing, schema: Schema) -> Pace:
    """Give how finely a window's attribute must be promised: at its edges, or often enough where tuples set these."""
    match window:
        case SlidingWindow() | LandmarkWindow() | LastTuples():
            return Pace(window.slide, window.origin)
        case FixedBandWindow():
            return Pace(window.size, window.start % window.size)
        case SessionWindow():
            return Pace(max(1, window.gap // _TIMES_A_LENGTH))
        case SlideByTuple() | SlideByRows() | SlideByRank():
            return Pace(max(1, window.size // _TIMES_A_LENGTH))
        case _:
            return _finely(schema, window.wattr, 10)


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
    if isinstance(operator, WindowedAggregate) and (windows := windows_of(operator)):
        read = _aggregated(operator, schemas[0]) | {FROM, UNTIL, *(w.wattr for w in windows)}
        numbers = (number for w in windows if (number := getattr(w, "number", None)) is not None)
        return [read.union(numbers, *(getattr(w, "reads", ()) for w in windows))]
    match operator:
        case Filter():
            return [needed | operator.predicate.reads(schemas[0], where="plan")]
        case Project():
            return [frozenset(n for e in operator.columns.values() for n in e.reads(schemas[0], where="plan"))]
        case Apply():
            computed = frozenset(n for e in operator.columns.values() for n in e.reads(schemas[0], where="plan"))
            return [needed - frozenset(operator.columns) | computed]
        case Guard():
            return [needed | {operator.attribute}]
        case Distinct() if operator.attributes:
            return [frozenset(operator.attributes)]
        case Meld():
            return [needed for _ in inputs]
        case WindowJoin():
            return list(operator.reads)
        case Spread():
            return [needed - {operator.into} | {operator.start, operator.end, *operator.columns}]
        case Number():
            return [needed - {operator.name}]
        case Bucket():
            return [needed - {FROM, UNTIL} | frozenset(operator.partition or (operator.window.wattr,))]
        case GroupAggregate():
            return [_aggregated(operator, schemas[0])]
        case _:
            return inputs


def _aggregated(operator: WindowedAggregate | GroupAggregate, schema: Schema) -> Attributes:
    named = {a for f in operator.functions.values() for a in f.arguments}
    if isinstance(operator, AdaptiveAggregate) and operator.source is not None:
        named.add(operator.source)
    return frozenset(operator.by) | _read(frozenset(named), schema)


def _read(names: frozenset[str], schema: Schema) -> frozenset[str]:
    return frozenset(schema.resolve(n, where="plan") for n in names)


def promised_by(node: Node) -> str:
    """Say what a stream promises, for explanations: `{ts} {srcIP, wid}`."""
    shown = sorted("{" + ", ".join(sorted(p)) + "}" for p in node.schema.progress)
    return " ".join(shown) or "nothing"
