"""What an operator needs of how its input is spread, what it keeps of the keys it came by, and what lets it let go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
import pyarrow as pa

from oop_engine.demand import windows_of
from oop_engine.plan import Node, OperatorNode, Plan, SourceNode
from oop_engine.window_join import WindowJoin
from operators.adaptive.adaptive import AdaptiveAggregate
from operators.aggregate.groupby import GroupAggregate
from operators.aggregate.wid import WindowAggregate
from operators.bucket import FROM, Bucket
from operators.buffering.aggregate import BufferAggregate
from operators.chain import Chain
from operators.distinct import Distinct
from operators.early.refine import Refine
from operators.guard import Guard
from operators.protocol import OneByOne, Operator
from operators.ranked.counted import CountAggregate
from operators.ranked.slide import SlideAggregate
from operators.schema import Schema
from operators.slicing.aggregate import SlicingAggregate
from operators.stacks.aggregate import StackAggregate
from operators.two_level import HighAggregate, LowAggregate
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow
from operators.window.delimited import FixedBandWindow
from operators.window.session import SessionWindow

Keys: TypeAlias = tuple[str, ...]


@attrs.frozen
class Need:
    """What an operator needs of how its input is spread: nothing, what is equal together, or everything."""

    stateless: bool = False
    keys: tuple[Keys, ...] = ()
    """By port, in the same order on each: tuples that differ in one of these never meet; none when all may."""
    arrival: bool = False
    """Whether the answer depends on the order in which tuples and promises arrive."""
    why: str = ""

    @property
    def parted(self) -> bool:
        """Whether there are keys by which its input can be spread."""
        return bool(self.keys) and all(self.keys)


def need(node: Node) -> Need:
    """Say what a node needs of how its input is spread."""
    if isinstance(node, SourceNode):
        return Need(stateless=True)
    operator = _alone(node.operator)
    match operator:
        case OneByOne() | Guard() | LowAggregate():
            return Need(stateless=True)
        case Bucket():
            if not operator.partition:
                return Need(stateless=True)
            return Need(keys=(operator.partition,), arrival=True, why="tuples are counted as they arrive")
        case WindowAggregate() | HighAggregate() | AdaptiveAggregate() | BufferAggregate():
            return _grouped(operator, operator.window, operator.by, operator.functions)
        case SlicingAggregate():
            return _sliced(operator)
        case CountAggregate() | SlideAggregate():
            keys = operator.by if operator.partition is None else operator.partition
            return Need(keys=(keys,) if keys else (), arrival=True, why="ties are told apart by arrival")
        case GroupAggregate():
            return _grouped(operator, None, operator.by, operator.functions)
        case Refine():
            return Need(keys=(operator.by,) if operator.by else (), why="" if operator.by else "there are no groups")
        case Distinct():
            return Need(keys=(operator.attributes or tuple(node.inputs[0].schema.names),))
        case WindowJoin() if not operator.buffered:
            on = operator.on
            if not on:
                return Need(why="a join without an equality: any two tuples may be partners")
            return Need(keys=(tuple(a for a, _ in on), tuple(b for _, b in on)))
        case StackAggregate():
            return Need(why="a window without groups")
        case _:
            return Need(arrival=True, why=f"{type(operator).__name__} may depend on the order of arrival")


def _alone(operator: Operator) -> Operator:
    """Give what stands alone in a chain."""
    if isinstance(operator, Chain) and len(operator.operators) == 1:
        return operator.operators[0]
    return operator


def _grouped(operator: Operator, window: object, by: Keys, functions: Mapping[str, object]) -> Need:
    rows = window
    if isinstance(window, PartitionedWindow):
        rows = window.rows
        if isinstance(rows, LandmarkWindow) and set(window.partition) <= set(by):
            why = "the windows of a partition go on as long as any of its groups has tuples"
            return Need(keys=(window.partition,), arrival=_arriving(functions), why=why)
    if isinstance(rows, LandmarkWindow):
        return Need(
            arrival=_arriving(functions), why="windows without a beginning go on as long as any group has tuples"
        )
    arrival = _arriving(functions)
    why = "a function takes tuples as they arrive" if arrival else "" if by else "there are no groups"
    return Need(keys=(by,) if by else (), arrival=arrival, why=why)


def _sliced(operator: SlicingAggregate) -> Need:
    own = [w for w in operator.windows.values() if not isinstance(w, SlidingWindow | SessionWindow | FixedBandWindow)]
    if own:
        return Need(arrival=True, why=f"the edges of {type(own[0]).__name__} may depend on all tuples")
    if operator.lateness:
        return Need(
            keys=(operator.by,) if operator.by else (),
            arrival=True,
            why="which windows are given again depends on when promises came",
        )
    return _grouped(operator, None, operator.by, operator.functions)


def _arriving(functions: Mapping[str, object]) -> bool:
    # One that is not commutative goes by time, and by arrival among tuples of one time.
    return any(
        bool(getattr(function, "arrival_order", True)) or not getattr(function, "commutative", False)
        for function in functions.values()
    )


def passed(node: Node, keys: Sequence[Keys | None]) -> Keys | None:
    """Give the names of the keys after an operator that takes each tuple by itself."""
    first = keys[0] if keys else None
    if first is None or not isinstance(node, OperatorNode) or any(k != first for k in keys):
        return None
    operator = _alone(node.operator)
    if not isinstance(operator, OneByOne):
        return first
    inputs = [upstream.schema for upstream in node.inputs]
    called = {old: name for name in node.schema.names if (old := operator.comes_from(name, *inputs)) is not None}
    return tuple(called[k] for k in first) if all(k in called for k in first) else None


def after(node: OperatorNode, sides: Sequence[Keys]) -> Keys | None:
    """Give the names of the keys after an operator that brought tuples together by them."""
    operator = node.operator
    names = sides[0]
    if isinstance(operator, WindowJoin):
        kind = operator.join.kind
        if kind == "full":
            return None
        port = 1 if kind == "right" else 0
        names = tuple(operator.names[port].get(name, "") for name in sides[port])
    return names if all(name in node.schema for name in names) else None


def ranked_by(plan: Plan, giver: int, readers: Sequence[tuple[int, int]]) -> str | None:
    """Give the attribute on whose promises its readers let go of what they hold, None when there is none."""
    schema = plan.nodes[giver].schema
    if FROM in schema and schema.progressing(FROM):
        return FROM
    for place, port in readers:
        node = plan.nodes[place]
        assert isinstance(node, OperatorNode)
        for name in _released_on(node.operator, port, schema):
            if name in schema and schema.progressing(name):
                return name
    return None


def _released_on(operator: Operator, port: int, schema: Schema) -> list[str]:
    if isinstance(operator, WindowJoin):
        return [operator.wattrs[port]]
    if isinstance(operator, GroupAggregate | Distinct):
        names = operator.by if isinstance(operator, GroupAggregate) else operator.attributes or tuple(schema.names)
        return [name for name in names if name in schema and pa.types.is_temporal(schema.field(name).type)]
    if isinstance(operator, Bucket):
        return [operator.window.wattr]
    windows = [window.wattr for window in windows_of(operator)]
    times = [field.name for field in schema.arrow if pa.types.is_temporal(field.type)]
    return [*windows, *times]
