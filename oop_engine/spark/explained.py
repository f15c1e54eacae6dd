"""Explain what a plan will do inside Spark: which part runs where and why, and what Spark's windows would cost."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from oop_engine.plan.aggregates import slow
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.report.facts import one_line
from oop_engine.rewrite.demand import pruned, windows_of
from oop_engine.rewrite.passes import prepared
from oop_engine.rewrite.strategy import levels
from oop_engine.spark.map_side import map_sides
from oop_engine.spark.partial_final import SIZE, in_levels
from oop_engine.spark.refused import node_of
from oop_engine.spark.stage_run import elsewhere
from oop_engine.spark.stages import FRONT, KEYED, NAMES, TAIL, Cut, cut
from operators.plan_facts import HasLevels
from operators.window import SlidingWindow

if TYPE_CHECKING:
    from oop_engine.api.stream import Stream

WIDTH: Final = 96


def explain_on_spark(stream: Stream, *, buckets: int | None = None, streaming: bool = False) -> str:
    """Explain how `on_spark` would run a stream: its stages, what goes between them, partial aggregation, and why.

    - `stream`: what to explain.
    - `buckets`: as for `on_spark`.
    - `streaming`: its inputs will be streaming DataFrames.

    >>> stream = oop.read("demos/captures/web.pcap.gz").window(range="10 s").aggregate(oop.count(), by="srcIP")
    >>> print(oop.spark.explain_on_spark(stream, buckets=2).splitlines()[0])
    on Spark, batch
    """
    plan = pruned(prepared(node_of("explain_on_spark", stream)))
    why = _order(plan, streaming)
    whole = cut(plan, ordered=bool(why))
    reasons = [*why, *(f"{_label(plan, p)}: {text}" for p, text in enumerate(whole.whys) if text and whole.ordered)]
    shown = cut(in_levels(whole), ordered=whole.ordered) if streaming or not whole.ordered else whole
    taken = _taken(shown) if streaming else {}
    lines = [f"on Spark, {'streaming' if streaming else 'batch'}"]
    for number in shown.used:
        lines += _stage(shown, number, buckets, reasons, streaming)
        if number == FRONT:
            lines += [f"       {label}: its partitions do all this ahead of the front" for label in taken.values()]
    lines += [*_levels(plan, whole, streaming, len(taken) == len(plan.sources)), *_exploded(plan)]
    lines += dict.fromkeys(_slow(plan))
    return "\n".join(part for line in lines for part in _wrapped(line))


def _order(plan: Plan, streaming: bool) -> list[str]:
    """Say why the sources are read in order of arrival, if they are."""
    if streaming:
        return ["promises are made as tuples arrive"]
    found: list[str] = []
    for node in plan.sources.values():
        if node.promises:
            found.append(f"{node.label} is promised by {', '.join(map(str, node.promises))}, as tuples arrive")
        elif node.source.promised:
            found.append(f"{node.label} brings promises of its own")
        elif not node.source.rewindable:
            found.append(f"{node.label} can be read only once")
    return found


def _stage(whole: Cut, number: int, buckets: int | None, reasons: list[str], streaming: bool) -> Iterator[str]:
    many = str(buckets) if buckets is not None else "as many buckets as cores"
    match number:
        case 0 if streaming:
            where = "in one bucket, with its state in Spark's state store: all sources in order of arrival"
        case 0 if whole.ordered:
            where = "in one task, in order of arrival, as embedded"
        case 0:
            where = "in as many partitions as sources and DataFrames have, in any order"
        case 1:
            keys = " and ".join(sorted({", ".join(edge.keys) for edge in whole.into(KEYED)}))
            where = f"in {f'{many} buckets' if buckets is not None else many}, by {keys}"
        case _:
            where = "in one bucket"
    yield f"{NAMES[number]:<6} {where}"
    if number == FRONT and whole.ordered:
        yield from (f"       - because {one_line(reason)}" for reason in dict.fromkeys(reasons))
    for place, stage in enumerate(whole.stages):
        if stage == number:
            why = f" ({whole.whys[place]})" if number == TAIL and whole.whys[place] else ""
            yield f"       {_label(whole.plan, place)}{why}"
    for edge in whole.edges:
        if whole.stages[edge.giver] == number:
            by = f" by {', '.join(edge.keys)}" if edge.keys else ""
            order = f", taken in the order of {edge.ranked}" if edge.ranked and not whole.ordered else ""
            yield f"    => pages of {_label(whole.plan, edge.giver)} to the {NAMES[edge.stage]} stage{by}{order}"


def _taken(shown: Cut) -> dict[int, str]:
    """Name the sources whose tuples partitions take ahead of the front, by place."""
    small = attrs.evolve(shown, plan=elsewhere(shown.plan))
    return {place: _label(shown.plan, place) for place in map_sides(small)}


def _levels(plan: Plan, whole: Cut, streaming: bool, ahead: bool) -> Iterator[str]:
    """Say of each window aggregate whether partitions reduce its tuples before they are shuffled."""
    for place, node in plan.operators.items():
        if not isinstance(node.operator, HasLevels):
            continue
        below = plan.position(node.inputs[0])
        if whole.stages[place] == FRONT:
            why = "no: nothing is shuffled before it"
        elif whole.stages[below] != FRONT:
            why = "no: its input has been shuffled before"
        elif whole.ordered and not streaming:
            why = "no: one task reads everything in order, and nothing would be reduced side by side"
        elif levels(node, SIZE) is None:
            why = "no: not every result can be made of partial ones"
        elif ahead:
            why = "yes: partitions send partial aggregates of slices, and the front takes out what is late"
        elif streaming:
            why = "yes: the front sends partial aggregates of slices, once a micro-batch"
        else:
            why = "yes: partitions send partial aggregates of slices"
        yield f"low-level aggregation for {_label(plan, place)}: {why}"


def _exploded(plan: Plan) -> Iterator[str]:
    """Say what Spark's own plan would do to sliding windows."""
    for node in plan.operators.values():
        for window in windows_of(node.operator):
            if isinstance(window, SlidingWindow) and window.slide < window.size and _timed(node, window.wattr):
                times = ceil(window.size / window.slide)
                yield (
                    f"Spark's own window(...) would make {times} rows of each tuple (RANGE/SLIDE) before it groups "
                    "them; here a tuple is counted once, in its slice"
                )
                if window.size % window.slide:
                    yield (
                        "Its windows are others, too: they begin at multiples of SLIDE, and windows here end there; "
                        "with RANGE no multiple of SLIDE, an origin of RANGE modulo SLIDE gives Spark's"
                    )


def _slow(plan: Plan) -> Iterator[str]:
    """Say which functions are interpreted, in whatever stage."""
    for node in plan.operators.values():
        yield from map(one_line, slow(node.operator))


def _timed(node: OperatorNode, wattr: str) -> bool:
    """Return whether a node aggregates windows of a time, the only ones that Spark has."""
    fields = [field for upstream in node.inputs for field in upstream.schema.arrow if field.name == wattr]
    return hasattr(node.operator, "functions") and any(pa.types.is_temporal(field.type) for field in fields)


def _label(plan: Plan, place: int) -> str:
    node = plan.nodes[place]
    return one_line(f"read {node.label}" if place in plan.sources else node.label)


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False) or [""]
