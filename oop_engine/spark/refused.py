"""Refuse plans that cannot run inside Spark before anything starts, and say what to write instead."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import attrs

from oop_engine.errors import PlanError
from oop_engine.plan.graph import Node, OperatorNode, Plan, SourceNode
from oop_engine.processes.source import RingSource
from oop_engine.sources.generated import GeneratedPackets
from oop_engine.sources.live import Live
from oop_engine.sources.memory import Once
from oop_engine.sources.protocol import Source
from operators.protocol_checks import fits
from operators.signals import HearsSignals


@runtime_checkable
class NotOnSpark(Protocol):
    """A thing that people give in place of a stream, or the source of one: it says what it is, and what to give."""

    not_on_spark: ClassVar[str]


def node_of(where: str, given: object) -> Node:
    """Return the node of a stream; PlanError, naming the call, for an output, several, or a run in levels."""
    node = getattr(given, "node", None)
    if isinstance(node, SourceNode | OperatorNode):
        return node
    if isinstance(given, NotOnSpark):
        raise PlanError(f"{where} takes a stream, and {given.not_on_spark}")
    if isinstance(given, Sequence) and not isinstance(given, str):
        raise PlanError(
            f"{where} runs one stream, and is given {len(given)}.\n"
            f"  Call it for each, and cache DataFrames that several of them read: [{where.partition('(')[0]}(s, spark)"
            " for s in streams]."
        )
    raise PlanError(f"{where} takes a stream, and {type(given).__name__} is none.")


def check_sources(plan: Plan, given: Container[int]) -> None:
    """Raise PlanError for a source that workers cannot read, if no DataFrame is given for it, by its place."""
    for place, node in plan.sources.items():
        if place in given or node.source.rewindable:
            continue
        if isinstance(node.source, NotOnSpark):
            raise PlanError(f"on_spark: {node.source.not_on_spark}")
        if is_live(node.source):
            raise PlanError(
                f"on_spark: {node.label} is live; a worker would listen, and the query not end.\n"
                "  Run it embedded: stream.run(). Or keep what comes in files, read their folder as a streaming\n"
                f'  DataFrame (oop.netflow, oop.pcap), and give that: inputs={{"{node.source.name}": frame}}.'
            )
        if not _is_shippable(node.source):
            raise PlanError(
                f"on_spark: {node.label} can be read once, in this process; workers have no part in it.\n"
                "  Name a file in its place, or give a DataFrame for it: "
                f'on_spark(spark, inputs={{"{node.source.name}": frame}}).'
            )


def check_signals(plan: Plan) -> None:
    """Raise PlanError for windows that wait for an event or a clock: on Spark nobody fires one."""
    for node in plan.operators.values():
        heard = node.operator.signals() if fits(node.operator, HearsSignals) else ()
        if heard:
            raise PlanError(
                f"on_spark: {node.label} fires {', '.join(sorted(map(str, heard)))}, and no worker hears of that.\n"
                "  Let windows fire by rows or by time in the data, or run it embedded: stream.run()."
            )


def check_ending(where: str, plan: Plan) -> None:
    """Raise PlanError for a live source without an end of its own, whose results would be waited for without end."""
    for node in plan.sources.values():
        source = _innermost(node.source)
        if isinstance(source, Live) and not source.ends:
            raise PlanError(
                f"{where}: {node.label} is live and never ends, and the DataFrame is there when it has ended.\n"
                '  Say when it ends: lasting="1 minute" or most=100_000.'
            )


def is_live(source: Source) -> bool:
    """Return whether a source gives what happens from now on, on the machine that reads it."""
    return isinstance(_innermost(source), Live | RingSource)


def _innermost(source: object) -> object:
    """Return what a source reads, where it only adds to another."""
    while attrs.has(type(source)) and (inner := getattr(source, "source", None)) is not None:
        source = inner
    return source


def _is_shippable(source: Source) -> bool:
    """Return whether a source that is read once can go to a worker: ours can that make or hold their tuples."""
    inner = _innermost(source)
    if isinstance(inner, Once):
        return inner.again
    return isinstance(inner, GeneratedPackets) or not type(inner).__module__.startswith("oop_engine.sources.")
