"""Plans run as Spark would run them, by the tasks that it would run, pickled as it would; without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import attrs
import pyarrow as pa
from pyspark import cloudpickle

from oop_engine.api.stream import Stream
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.why import Wait
from oop_engine.plan.graph import SourceNode
from oop_engine.rewrite.demand import columns, pruned
from oop_engine.rewrite.passes import prepared
from oop_engine.spark.batch import Bucketed, Packed, Reading, Scan, rows_of
from oop_engine.spark.end_marker import EndMarker
from oop_engine.spark.end_of_stream import EndOfStream
from oop_engine.spark.map_side import Taken, map_sides
from oop_engine.spark.narrow import read_page
from oop_engine.spark.partial_final import cut_in_levels, in_levels
from oop_engine.spark.parts import parts
from oop_engine.spark.schema import Wanted
from oop_engine.spark.stage_run import elsewhere
from oop_engine.spark.stages import FRONT, KEYED, TAIL, Cut, cut
from oop_engine.spark.streaming import OUT, Folding
from oop_engine.spark.why import waits
from oop_engine.spark.wire import COUNTS, PAGE, WireRow, read_counts
from operators.data.page import Page
from operators.protocol import Element

Result = tuple[object, ...]
T = TypeVar("T")


def shown(batches: Iterable[pa.RecordBatch]) -> Counter[Result]:
    """Give all rows of record batches of results, how often each."""
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def embedded(stream: Stream, *, end: bool = True) -> Counter[Result]:
    """Give the results of the plan in one process, as Spark would have them; without END those released before it."""
    found: list[Element] = []
    plan = prepared(stream.node)
    circuit = Circuit(plan, page_rows=5, crossed=lambda _place, _port, element: found.append(element))
    circuit.prepare()
    live = {place: circuit.open(place) for place in plan.sources}
    while live:
        place = min(live, key=lambda p: (circuit.behind(p), p))
        chunk = next(live[place], None)
        if chunk is None:
            del live[place]
            if end:
                circuit.finish(place)
            continue
        for page in circuit.pages(place, chunk):
            circuit.give(place, 0, page)
    wanted = Wanted.of(stream.schema.arrow, None)
    return shown(wanted.batch(element.batch) for element in found if isinstance(element, Page))


def shipped(task: T) -> T:
    """Give a task as it arrives in a worker."""
    return cloudpickle.loads(cloudpickle.dumps(task))


def on_batch(
    stream: Stream, *, buckets: int, partitions: int, seed: int = 0, ordered: bool = False, low: bool = True
) -> Counter[Result]:
    """Give the results of a plan over bounded data, its sources read in partitions, rows shuffled at random."""
    plan = pruned(prepared(stream.node))
    whole = cut(plan, ordered=ordered)
    if low and not whole.ordered:
        whole = cut(in_levels(whole))
    small = attrs.evolve(whole, plan=elsewhere(whole.plan))
    many = {KEYED: buckets, TAIL: 1}
    batches: list[pa.RecordBatch] = []
    if whole.ordered:
        batches += shipped(Reading(whole, many))([])
    else:
        read = columns(whole.plan)
        for place in whole.plan.sources:
            node = whole.plan.nodes[place]
            assert isinstance(node, SourceNode)
            pieces = parts(node.source, partitions)
            for number in range(len(pieces)):
                scan = Scan(small, many, None, place, read[place], pieces)
                batches += shipped(scan)([pa.record_batch({"id": pa.array([number])})])
    for stage in (KEYED, TAIL):
        if stage in whole.used:
            batches = _shuffled(batches, small, many, stage, seed)
    return shown(batches)


def _shuffled(
    batches: Sequence[pa.RecordBatch], small: Cut, many: dict[int, int], stage: int, seed: int
) -> list[pa.RecordBatch]:
    from oop_engine.spark.wire import to_batches

    rows = list(rows_of(batches))
    random.Random(seed).shuffle(rows)
    results: list[pa.RecordBatch] = []
    for bucket in range(many[stage]):
        mine = [row for row in rows if row.bucket == bucket]
        mine.sort(key=lambda row: (row.rank, row.origin, row.seq))
        results += shipped(Bucketed(small, many, None, stage))(to_batches(mine))
    return results


@attrs.define(eq=False)
class Streamed:
    """A plan over micro-batches of (source, tuples), each stage saved in between; its clock is that of a test."""

    stream: Stream
    buckets: int
    seed: int = 0
    low: bool = True
    now: float = 0.0
    """Seconds since 1970."""
    results: list[pa.RecordBatch] = attrs.field(init=False, factory=list)
    cut: Cut = attrs.field(init=False)
    saved: dict[tuple[int, int], bytes] = attrs.field(init=False, factory=dict)
    """The state of each bucket, by stage."""
    _counts: dict[str, int] = attrs.field(init=False, factory=dict)
    _draw: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        plan = pruned(prepared(self.stream.node))
        self.cut = cut_in_levels(plan, ordered=True) if self.low else cut(plan, ordered=True)
        self._draw = random.Random(self.seed)

    def take(self, arrived: Sequence[tuple[str, pa.RecordBatch | None]]) -> None:
        """Take a micro-batch; no tuples, None, are the end of a source."""
        whole, seconds = self.cut, self.now
        small = attrs.evolve(whole, plan=elsewhere(whole.plan))
        many = {FRONT: 1, KEYED: self.buckets, TAIL: 1}
        places = {node.source.name: p for p, node in enumerate(whole.plan.nodes) if isinstance(node, SourceNode)}
        read = columns(whole.plan)
        ahead = map_sides(small) if self.low else {}
        rows: list[WireRow] = []
        for origin, (place, given) in enumerate(_partitions(arrived, places, self._draw)):
            taking = Taken(small, many, ahead[place]) if place in ahead else Packed(place)
            batches = taking([batch.select(list(read[place])) for batch in given])
            rows += [attrs.evolve(row, origin=origin) for row in rows_of(batches)]
        for name in (name for name, batch in arrived if batch is None):
            arrow = pa.schema([whole.plan.nodes[places[name]].schema.arrow.field(n) for n in read[places[name]]])
            rows += rows_of(
                shipped(EndMarker(places[name], Packed(places[name])))([EndOfStream("test", True).mark(arrow)])
            )
        for stage in whole.used:
            folding = shipped(Folding(small, stage, many, ahead, lambda: int(seconds * 10**9)))
            self._draw.shuffle(rows)
            out: list[WireRow] = []
            for bucket in [0] if stage == FRONT else sorted({row.bucket for row in rows}):
                mine = [row for row in rows if stage == FRONT or row.bucket == bucket]
                # Spark starts no work for a bucket without rows.
                if mine:
                    self.saved[stage, bucket], given = folding.fold(bucket, self.saved.get((stage, bucket)), mine)
                    out += given
            rows = out
        assert all(row.stage == OUT for row in rows)
        wanted = Wanted.of(whole.plan.outputs[0].schema.arrow, None)
        self.results += [wanted.batch(read_page(row.body)) for row in rows if row.kind == PAGE]
        for row in rows:
            if row.kind == COUNTS:
                self._counts |= read_counts(row.body)

    def counts(self) -> dict[str, int]:
        """Return what was counted, added up over stages and buckets."""
        totals: dict[str, int] = {}
        for name, count in self._counts.items():
            totals[name.rpartition("/")[2]] = totals.get(name.rpartition("/")[2], 0) + count
        return totals

    def why(self) -> Wait:
        """Ask what the output waits for now."""
        (wait,) = waits(self.cut, self.saved.values(), now=self.now)
        return wait


def on_stream(
    stream: Stream,
    arrivals: Sequence[Sequence[tuple[str, pa.RecordBatch | None]]],
    *,
    buckets: int,
    seed: int = 0,
    low: bool = True,
) -> tuple[Counter[Result], dict[str, int]]:
    """Give the results and the counts of a plan over micro-batches, see `Streamed`."""
    run = Streamed(stream, buckets, seed, low)
    for arrived in arrivals:
        run.take(arrived)
    return shown(run.results), run.counts()


def _partitions(
    arrived: Sequence[tuple[str, pa.RecordBatch | None]], places: Mapping[str, int], draw: random.Random
) -> list[tuple[int, list[pa.RecordBatch]]]:
    """Spread what arrived over partitions, each of one source, at random and in order."""
    found: list[tuple[int, list[pa.RecordBatch]]] = []
    for name, batch in arrived:
        if batch is None:
            continue
        if not found or found[-1][0] != places[name] or draw.random() < 0.5:
            found.append((places[name], []))
        found[-1][1].append(batch)
    return found
