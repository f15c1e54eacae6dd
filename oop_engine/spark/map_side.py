"""Map-side pre-aggregation: partitions aggregate on their own and exchange only their highest bound.

Which tuples are late hangs on all that came before. Where the highest value promises, what is promised before a tuple
is the higher of two bounds: that of the tuples before it in its own partition, and that of the partitions before. A
partition knows the first. It leaves out what is late by it, reduces the rest to slices, and tells of each pane how many
tuples it had and how far behind they were. The front takes partitions in order and knows the second bound: it cuts the
slices at it and counts what became late. Windows are cut by a maximum, so cutting twice is cutting at the higher bound,
and the answer and the counts are those of one task that reads everything in order.

It goes where a source with `late="drop"` is promised by its order or a slack, in the steps of one window whose RANGE is
a multiple of its SLIDE, and is aggregated in two levels. Then no tuple crosses into the front, which is one task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa
from numpy import bool_, int64
from numpy.typing import NDArray

from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.rewrite.demand import columns
from oop_engine.rewrite.needs import alone, need
from oop_engine.spark.batch import partition
from oop_engine.spark.in_memory import Batches, from_spark, opened
from oop_engine.spark.narrow import page_bytes, read_page
from oop_engine.spark.stage_run import StageRun
from oop_engine.spark.stages import FRONT, Cut
from oop_engine.spark.wire import TOLD, WireRow, to_batches
from operators.data.page import Bools, Int64s, Page
from operators.data.schema import Schema
from operators.kernels.compile.kernel import kernel
from operators.kernels.ticks import BEFORE_ALL, FAR, LIMIT
from operators.plan_facts import Computes, reduces
from operators.protocol import Operator
from operators.streams.clamp import Clamp
from operators.window import SlidingWindow
from operators.window_aggregate.facts import TagsWindows
from punctuation import NO_TIME
from punctuation.punctuators import Ordered, Slack

_HELD: Final = 1 << 10
"""Panes that are counted at hand, a power of two."""
_FARTHEST: Final = FAR - 1
"""Values beyond it are taken for it, to tell how far they are from one another."""
_NOWHERE: Final = -FAR
_CLASSES: Final = 4
"""How far behind: not at all, for some windows, for all but not below the Input's allowance, beyond that."""


@attrs.frozen
class MapSide:
    """A source whose tuples are taken ahead of the front."""

    place: int
    bucket: int
    """Place of the Bucket that its tuples come to."""
    slack: int
    window: SlidingWindow
    edges: frozenset[tuple[int, int]]
    """The edges by which what comes of it leaves the front, as (stage, port)."""
    jump: int | None = None
    """How far one tuple may move what its partition promises."""

    @property
    def panes(self) -> int:
        """Return how many panes a window has."""
        return self.window.size // self.window.slide

    def pane(self, bound: object) -> int:
        """Return the pane that a promised bound begins."""
        if not isinstance(bound, int) or bound == NO_TIME:
            return _NOWHERE
        return int(pane_of(bound, self.window.slide, self.window.origin))

    def behind(self, far: Int64s) -> Int64s:
        """Return the class of tuples by how many panes they are below a bound."""
        return np.where(far <= 0, 0, np.where(far < self.panes, 1, np.where(far == self.panes, 2, 3)))


def map_sides(cut: Cut) -> dict[int, MapSide]:
    """Return, by place, the sources that can be taken ahead."""
    stage = StageRun(cut, FRONT, {})
    found = (_map_side(cut, stage, place) for place in cut.plan.sources)
    return {ahead.place: ahead for ahead in found if ahead is not None}


def _map_side(cut: Cut, stage: StageRun, place: int) -> MapSide | None:
    node, read = cut.plan.sources[place], stage.circuit.inputs.get(place)
    if read is None:
        return None
    if node.late != "drop" or node.source.promised or len(read.punctuators) != 1:
        return None
    punctuator = read.punctuators[0]
    bucket = _bucket(cut, place, punctuator.attribute)
    window = getattr(None if bucket is None else _alone(cut.plan, bucket), "window", None)
    if bucket is None or not isinstance(punctuator, Slack | Ordered) or not isinstance(window, SlidingWindow):
        return None
    aligned = punctuator.step == window.slide and (punctuator.origin - window.origin) % window.slide == 0
    usual = window.partial and window.size % window.slide == 0 and read.allow == window.size
    edges = _edges(cut, bucket)
    if not aligned or not usual or punctuator.every is not None or not edges:
        return None
    if isinstance(punctuator, Slack):
        return MapSide(place, bucket, punctuator.slack, window, edges, punctuator.jump)
    return None if punctuator.strictly else MapSide(place, bucket, 0, window, edges, punctuator.jump)


def _bucket(cut: Cut, place: int, attribute: str) -> int | None:
    """Find the one Bucket that reads a source, with nothing before it that drops tuples or makes another time."""
    readers = cut.plan.consumers()[place]
    if len(readers) != 1 or cut.stages[readers[0][0]] != FRONT:
        return None
    reader = readers[0][0]
    node, operator = cut.plan.nodes[reader], _alone(cut.plan, reader)
    if isinstance(operator, TagsWindows):
        usual = operator.window.wattr == attribute and not operator.partition and not operator.consistent
        return reader if usual else None
    if not isinstance(operator, Computes) or attribute not in node.schema:
        return None
    same = operator.comes_from(attribute, *(upstream.schema for upstream in node.inputs)) == attribute
    return _bucket(cut, reader, attribute) if same else None


def _edges(cut: Cut, bucket: int) -> frozenset[tuple[int, int]]:
    """Return the edges that lead out of the front behind a Bucket; none where one has no low level in front of it."""
    reached, low, readers = [bucket], set[int](), cut.plan.consumers()
    for place in reached:
        for reader, _ in readers[place]:
            if cut.stages[reader] != FRONT:
                continue
            operator = _alone(cut.plan, reader)
            low |= {reader} if place in low or reduces(operator) else set()
            if not need(cut.plan.nodes[reader]).stateless or len(cut.plan.nodes[reader].inputs) > 1:
                return frozenset()
            reached.append(reader)
    found = {(edge.stage, port): edge.giver for stage in cut.used for port, edge in enumerate(cut.into(stage))}
    mine = {key: giver for key, giver in found.items() if giver in reached}
    return frozenset(mine) if set(mine.values()) <= low else frozenset()


def _alone(plan: Plan, place: int) -> Operator | None:
    node = plan.nodes[place]
    return alone(node.operator) if isinstance(node, OperatorNode) else None


@attrs.frozen(eq=False)
class Taken:
    """Run the front over one partition of a source, ahead, and tell of its tuples."""

    cut: Cut
    buckets: Mapping[int, int]
    ahead: MapSide
    paged: bool = False
    """Whether it is given pages of tuples."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.rows(batches, partition())

    def rows(self, batches: Batches, origin: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows that come of a partition of this number."""
        place, tally, plan = self.ahead.place, Tally(self.ahead), self.cut.plan
        stage = StageRun(self.cut, FRONT, self.buckets, origin=origin, promising=False)
        known = plan.sources[place].source.arrow
        schema = Schema(pa.schema([known.field(name) for name in columns(plan)[place]]))
        wattr = self.ahead.window.wattr
        for batch in opened(batches) if self.paged else batches:
            if batch.num_rows:
                page = Page(schema, from_spark(batch, schema.arrow))
                tally.add(page.ticks(wattr), page.valid(wattr))
                stage.read(place, page.batch)
                yield from to_batches(stage.rows())
        stage.let_go()
        last = stage.rows()
        if tally.tuples:
            last.append(WireRow(FRONT, 0, place, origin, 1 << 62, NO_TIME, TOLD, tally.told()))
        yield from to_batches(last)


@attrs.define(eq=False)
class Tally:
    """Count the tuples of a partition by pane and by how far they are behind.

    Cost: O(1) a tuple, in one compiled pass.
    """

    ahead: MapSide
    tuples: int = attrs.field(init=False, default=0)
    _clamp: Clamp | None = attrs.field(init=False)
    _untimed: int = attrs.field(init=False, default=0)
    _highest: int = attrs.field(init=False, default=NO_TIME)
    _panes: Int64s = attrs.field(init=False, factory=lambda: np.full(_HELD, NO_TIME, np.int64))
    _counts: NDArray[int64] = attrs.field(init=False, factory=lambda: np.zeros((_HELD, 2 * _CLASSES), np.int64))
    _left: list[tuple[Int64s, NDArray[int64]]] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        # As that of the partition's Input, it begins anew: what the partitions before believed is not known here.
        self._clamp = None if self.ahead.jump is None else Clamp(self.ahead.jump)

    def add(self, values: Int64s, valid: Bools | None) -> None:
        """Count the tuples that have these values of the attribute that is promised."""
        window, n = self.ahead.window, len(values)
        panes, counts = np.empty(n, np.int64), np.empty((n, 2 * _CLASSES), np.int64)
        present = np.empty(0, np.bool_) if valid is None else valid
        timed = values if valid is None else np.where(valid, values, NO_TIME)
        believed = (timed if self._clamp is None else self._clamp.believed(timed)).view()
        believed.flags.writeable = False
        left, untimed, highest = count_panes(
            values, present, believed, (self.ahead.slack, window.slide, window.origin, self.ahead.panes, LIMIT),
            np.int64(self._highest), self._panes, self._counts, panes, counts,
        )  # fmt: skip
        if left:
            self._left.append((panes[:left].copy(), counts[:left].copy()))
        self._highest = int(highest)
        self.tuples += n
        self._untimed += int(untimed)

    def told(self) -> bytes:
        """Return what is to be told of all tuples."""
        held = self._panes != NO_TIME
        panes = np.concatenate([self._panes[held], *(p for p, _ in self._left)])
        counts = np.concatenate([self._counts[held], *(c for _, c in self._left)])
        about = {"tuples": self.tuples, "untimed": self._untimed, "highest": self._highest}
        about["ahead"] = 0 if self._clamp is None else self._clamp.ahead
        fields = [pa.field(name, pa.int64()) for name in ("pane", *map(str, range(2 * _CLASSES)))]
        schema = pa.schema(fields, metadata={name: str(value) for name, value in about.items()})
        arrays = [pa.array(panes), *(pa.array(column) for column in counts.T)]
        return page_bytes(pa.RecordBatch.from_arrays(arrays, schema=schema))


def learn(stage: StageRun, ahead: MapSide, body: bytes) -> None:
    """Let the front know of a partition that was taken ahead: what it counted, and what it promises from here on."""
    told = read_page(body)
    about = {name.decode(): int(value) for name, value in told.schema.metadata.items()}
    bucket, read = stage.circuit.operators[ahead.bucket], stage.circuit.inputs[ahead.place]
    assert isinstance(bucket, TagsWindows)
    now = ahead.behind(ahead.pane(read.progress.bound(ahead.window.wattr)) - told.column("pane").to_numpy())
    odd, usual = np.zeros(_CLASSES, np.int64), np.zeros(_CLASSES, np.int64)
    for place in range(_CLASSES):
        after = np.maximum(now, place)
        np.add.at(usual, after, told.column(str(place)).to_numpy())
        np.add.at(odd, after, told.column(str(place + _CLASSES)).to_numpy())
    both = usual + odd
    without = int(odd[:3].sum()) + about["untimed"]
    bucket.learn(late=int(usual[2]), late_for_some=int(usual[1]), without_value=without)
    counts = {name: about[name] for name in ("tuples", "untimed", "ahead")}
    counts |= {"late": int(both[3]), "behind": int(both[1] + both[2])}
    stage.circuit.learn(ahead.place, counts, about["highest"])


def least_open(stage: StageRun, map_sides: Iterable[MapSide], row: WireRow) -> int:
    """Return the first window that is open for a row that was made ahead."""
    (ahead,) = (ahead for ahead in map_sides if (row.stage, row.port) in ahead.edges)
    bucket = stage.circuit.operators[ahead.bucket]
    assert isinstance(bucket, TagsWindows)
    return bucket.bound


@kernel
def pane_of(value: int | int64, slide: int, origin: int) -> int64:
    """Return the pane that a value is in, of values that are far out that of the farthest."""
    at = min(max(int64(value), -_FARTHEST), _FARTHEST) - origin
    return int64(min(max(at, -_FARTHEST), _FARTHEST) // slide)


@kernel
def count_panes(
    values: NDArray[int64], valid: NDArray[bool_], believed: NDArray[int64],
    rule: tuple[int, int, int, int, int], highest: int64, panes: NDArray[int64], counts: NDArray[int64],
    left_panes: NDArray[int64], left_counts: NDArray[int64],
) -> tuple[int, int, int64]:  # fmt: skip
    """Count values by pane and class; `believed` are those that move the bound, the least int64 for others.

    `panes` and `counts` hold some panes, what makes stage goes to `left_...`.

    Gives how many rows are left, how many values there are none of, and the highest. The second half of the classes is
    of values that are too far out to be in a window. `rule` is the slack, how panes lie, how many of these a window
    has, and the limit of values.
    """
    slack, slide, origin, wide, limit = rule
    none = int64(BEFORE_ALL)
    left = 0
    untimed = 0
    checked = len(valid) > 0
    low = int64(1)
    high = int64(0)
    pane = int64(0)
    slot = int64(0)
    until = highest
    bound = int64(_NOWHERE)
    if highest > none + slack:
        bound = pane_of(highest - slack, slide, origin)
    for i in range(len(values)):
        if checked and not valid[i]:
            untimed += 1
            continue
        value = values[i]
        odd = value >= limit or value <= -limit
        if value < low or value >= high:
            pane = pane_of(value, slide, origin)
            low = pane * slide + origin
            high = low + slide
            if odd:
                high = low
            slot = pane & (len(panes) - 1)
            if panes[slot] != pane:
                if panes[slot] != none:
                    left_panes[left] = panes[slot]
                    for c in range(counts.shape[1]):
                        left_counts[left, c] = counts[slot, c]
                        counts[slot, c] = 0
                    left += 1
                panes[slot] = pane
        far = bound - pane
        behind = 0
        if far > 0:
            behind = 1 if far < wide else 2 if far == wide else 3
        counts[slot, behind + (4 if odd else 0)] += 1
        if believed[i] > until:
            until = believed[i]
            if until > none + slack:
                bound = pane_of(until - slack, slide, origin)
    return left, untimed, until
