"""A circuit is used once: fresh operators, exact schedules, errors that say where, counts that add up."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.sources.memory import Rows
from oop_engine.sources.protocol import Chunk
from operators.baselines.negative.expire import Expire
from operators.baselines.negative.join import SignedJoin
from operators.chain import Chain
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.join import Band, OAJoin
from operators.protocol import Element, Emit, State, StateValue
from operators.rows.number import Number
from operators.window import SlidingWindow
from operators.window_aggregate.bucket import Bucket
from punctuation import END, Punctuation, before

SCHEMA = pa.schema([("ts", pa.int64()), ("at", pa.int64()), ("x", pa.int64())])
Tuples = list[tuple[int, int, int]]


def source(rows: Tuples, cuts: Sequence[int] = (), **options: object) -> Stream:
    edges = [0, *sorted({c for c in cuts if 0 < c < len(rows)}), len(rows)]
    parts = [rows[a:b] for a, b in itertools.pairwise(edges)]
    batches = [pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in p], SCHEMA) for p in parts]
    return oop.arrow(batches, schema=SCHEMA, **options)  # type: ignore[arg-type]


def run(stream: Stream, page_rows: int = 8192) -> tuple[list[Element], Statistics]:
    driver = Run(Plan((stream.node,)), page_rows)
    elements = [element for _, element in driver]
    return elements, Statistics(driver.circuit.statistics())


def rows(elements: Sequence[Element]) -> list[dict[str, object]]:
    return [dict(row) for e in elements if isinstance(e, Page) for row in e.rows()]


def counts(elements: Sequence[Element]) -> Counter[tuple[object, object]]:
    return Counter({(row["window_start"], row["window_end"]): int(str(row["count"])) for row in rows(elements)})


def naive(values: Sequence[int], size: int, slide: int) -> Counter[tuple[object, object]]:
    found: Counter[tuple[object, object]] = Counter()
    for v in values:
        for w in range(v // slide - 1, (v + size) // slide + 1):
            start, end = (w + 1) * slide - size, (w + 1) * slide
            found[start, end] += start <= v < end
    return +found


tuples = st.lists(st.tuples(st.integers(-5, 20), st.integers(-5, 20), st.integers(0, 3)), max_size=20)
small = st.integers(1, 6)


@given(tuples, small, small, small, small, st.sampled_from([1, 3, 8192]))
def test_one_source_may_be_read_by_windows_on_two_attributes(
    given_rows: Tuples, size: int, slide: int, other_size: int, other_slide: int, page_rows: int
) -> None:
    """Each attribute has its own exact schedule; neither order of arrival is sorted."""
    read = source(given_rows, (3, 7))
    one = read.window(range=size, slide=slide, wattr="ts").aggregate(oop.count())
    other = read.window(range=other_size, slide=other_slide, wattr="at").aggregate(oop.count())
    found: list[list[Element]] = [[], []]
    driver = Run(Plan((one.node, other.node)), page_rows)
    for number, element in driver:
        found[number].append(element)
    assert counts(found[0]) == naive([r[0] for r in given_rows], size, slide)
    assert counts(found[1]) == naive([r[1] for r in given_rows], other_size, other_slide)
    assert Statistics(driver.circuit.statistics()).late == 0


@given(tuples, small, small)
def test_exact_punctuation_releases_every_window_at_its_last_tuple(given_rows: Tuples, size: int, slide: int) -> None:
    """No window waits for more of the stream than its own tuples and the first that shows it is over."""
    read = source(given_rows)
    stream = read.window(range=size, slide=slide, wattr="ts").aggregate(oop.count())
    driver = Run(Plan((stream.node,)), 1)
    released = 0
    for _, element in driver:
        if isinstance(element, Page):
            taken = driver.circuit.meters[0].tuples_in
            for row in element.rows():
                rest = [ts for ts, _, _ in given_rows[taken:]]
                assert all(ts >= int(str(row["window_end"])) for ts in rest)
                released += 1
                tail = [ts for ts, _, _ in given_rows[taken - 1 :]]
                # One tuple earlier the window was not over, or no step of the slide had been passed.
                assert not tail or taken == len(given_rows) or min(tail) < int(str(row["window_end"])) + slide
    assert released == len(naive([r[0] for r in given_rows], size, slide))


def test_promises_said_for_two_attributes_serve_two_windows() -> None:
    promises = [oop.slack(2, on="ts"), oop.slack(5, on="at")]
    read = source([(1, 9, 0), (5, 4, 0), (3, 12, 0), (9, 30, 0)], punctuate=promises)
    for wattr, place in (("ts", 0), ("at", 1)):
        elements, statistics = run(read.window(range=4, wattr=wattr).aggregate(oop.count()), 1)
        assert counts(elements) == naive([r[place] for r in [(1, 9), (5, 4), (3, 12), (9, 30)]], 4, 4)
        assert statistics.late == 0


def test_inputs_of_a_meld_may_be_punctuated_in_different_ways_and_read_different_columns() -> None:
    """The input with a slack on another attribute reads that attribute too; the meld of both must not mind."""
    one = source([(1, 50, 0), (7, 60, 1)], punctuate=[oop.ordered("ts"), oop.slack(100, on="at")])
    other = source([(3, 0, 0), (2, 0, 1)])
    elements, _ = run(one.meld(other).window(range=4, wattr="ts").aggregate(oop.count(), by="x"), 1)
    assert sorted((r["x"], r["count"], r["wid"]) for r in rows(elements)) == [(0, 2, 0), (1, 1, 0), (1, 1, 1)]
    distinct, _ = run(one.meld(other).distinct("x"), 1)
    assert sorted(r["x"] for r in rows(distinct)) == [0, 1]  # type: ignore[type-var]
    renamed, _ = run(one.meld(other).project(y=lambda p: p["x"] + 1), 1)
    assert sorted(r["y"] for r in rows(renamed)) == [1, 1, 2, 2]  # type: ignore[type-var]


def test_markers_are_promises_and_do_not_reach_the_output() -> None:
    schema = pa.schema([("ts", pa.int64()), ("done", pa.bool_()), ("k", pa.string())])
    data = [(1, False, "a"), (2, False, "b"), (10, True, None), (12, False, "a"), (4, False, "a"), (20, True, None)]
    read = oop.rows(data, schema, punctuate=oop.embedded("done", "ts"))
    assert read.to_arrow().to_pylist() == [{"ts": 1, "k": "a"}, {"ts": 2, "k": "b"}, {"ts": 12, "k": "a"}]
    elements, statistics = run(read.window(range=10, wattr="ts").aggregate(oop.count()), 2)
    assert counts(elements) == Counter({(0, 10): 2, (10, 20): 1})
    assert statistics.late == 1


def test_a_stream_may_be_sorted_within_a_slack() -> None:
    elements, statistics = run(source([(t, 0, t) for t in (3, 1, 2, 9, 7, 8, 4)]).reorder(on="ts", slack=2), 2)
    assert [row["ts"] for row in rows(elements)] == [1, 2, 3, 7, 8, 9]
    assert statistics.late == 1


@attrs.define
class Counts:
    """Count tuples; remembers, so that two runs that shared it would see each other."""

    step: int = 1
    _seen: int = attrs.field(init=False, default=0)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return Schema.of(n=pa.int64())

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._seen += self.step * len(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            emit(Page.of(Schema.of(n=pa.int64()), {"n": [self._seen]}))
            emit(END)

    def state(self) -> State:
        return {}

    def restore(self, state: object) -> None:
        """Do nothing."""


class Plain(Counts):
    """The same as no attrs class of its own."""


class ByHand:
    """The same without attrs."""

    inputs = 1

    def __init__(self) -> None:
        self.seen = 0

    def output_schema(self, *inputs: Schema) -> Schema:
        return Schema.of(n=pa.int64())

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.seen += 2 * len(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            emit(Page.of(Schema.of(n=pa.int64()), {"n": [self.seen]}))
            emit(END)

    def state(self) -> State:
        return {}

    def restore(self, state: object) -> None:
        """Do nothing."""


@pytest.mark.parametrize("operator", [Counts(2), Plain(2), ByHand()])
def test_every_run_has_its_own_operators(operator: Counts) -> None:
    stream = source([(1, 1, 1), (2, 2, 2)]).apply(operator)
    assert [rows(run(stream)[0]) for _ in range(2)] == [[{"n": 4}]] * 2
    assert stream.to_arrow()["n"].to_pylist() == [4]


def test_a_driver_reads_the_source_that_is_furthest_behind() -> None:
    order: list[str] = []

    @attrs.frozen(eq=False)
    class Told(Rows):
        def open(self, columns: Sequence[str], batch_rows: int):  # type: ignore[no-untyped-def]
            inner = super().open(columns, batch_rows)
            name = self.name

            @attrs.define
            class Telling:
                def chunks(self) -> Iterator[Chunk]:
                    for chunk in inner.chunks():
                        order.append(f"{name}{chunk.column(0)[0].as_py()}")  # type: ignore[union-attr]
                        yield chunk

                def progress(self) -> tuple[int, int | None]:
                    return inner.progress()

                def arrived(self) -> int | None:
                    return None

                def notes(self) -> list[str]:
                    return [f"{name} was read"]

            return Telling()

    def told(name: str, times: Sequence[int]) -> Stream:
        batches = tuple(pa.RecordBatch.from_pydict({"ts": [t], "at": [t], "x": [0]}, schema=SCHEMA) for t in times)
        return oop.from_source(Told(name, batches), punctuate=oop.ordered("ts"))

    driver = Run(Plan((oop.meld(told("a", (1, 2, 9, 10)), told("b", (4, 5, 6))).node,)))
    list(driver)
    assert order == ["a1", "b4", "a2", "a9", "b5", "b6", "a10"]
    assert driver.circuit.notes() == ("a was read", "b was read")
    assert [driver.circuit.progress(place) for place in range(2)] == [(4, 4), (3, 3)]


def test_meters_count_every_element_once() -> None:
    stream = (
        source([(t, 0, t % 2) for t in range(10)], (4,))
        .filter("x = 0")
        .window(range=5, wattr="ts")
        .aggregate(oop.count())
    )
    _, statistics = run(stream, 3)
    source_, filter_, bucket, aggregate = statistics.operators
    assert (source_.tuples_in, source_.tuples_out) == (10, 10)
    assert (filter_.tuples_in, filter_.tuples_out) == (10, 5)
    assert (bucket.tuples_in, aggregate.tuples_in, aggregate.tuples_out) == (5, 5, 2)
    assert (statistics.tuples, statistics.windows) == (10, 2)
    assert source_.lwm == {"ts": 5}
    assert source_.hwm == {"ts": 9}
    assert source_.lag("ts") == 4
    # Promises stand behind the last tuple of a page, and one page has tuples of two windows.
    assert statistics.peak_state == 2


def test_a_source_that_cannot_be_read_ahead_is_named() -> None:
    @attrs.frozen(eq=False)
    class Broken(Rows):
        def values(self, column: str) -> Iterator[Int64s]:
            raise OSError(5, "Input/output error")

    read = oop.from_source(Broken("main1", (pa.RecordBatch.from_pylist([], SCHEMA),)))
    with pytest.raises(OSError, match="Input/output error") as info:
        run(read.window(range=5, wattr="ts").aggregate(oop.count()))
    assert info.value.__notes__ == ["while ts of main1 was read ahead for its punctuation"]


def test_a_stopped_reading_ahead_ends() -> None:
    circuit_of: list[Circuit] = []
    given = 0

    @attrs.frozen(eq=False)
    class Long(Rows):
        def values(self, column: str) -> Iterator[Int64s]:
            nonlocal given
            while True:
                given += 1
                if given == 3:
                    circuit_of[0].stop()
                yield np.arange(3)

    read = oop.from_source(Long("long", (pa.RecordBatch.from_pylist([], SCHEMA),)))
    circuit_of.append(Circuit(Plan((read.window(range=5, wattr="ts").aggregate(oop.count()).node,))))
    circuit_of[0].prepare()
    assert given == 3


def test_promises_that_come_with_a_stream_go_through_and_stale_ones_are_counted() -> None:
    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [1, 7]})
    stream = oop.pages([page, before("ts", 5), before("ts", 3), Page.of(schema, {"ts": [2, 8]})], schema)
    elements, statistics = run(stream)
    assert rows(elements) == [{"ts": 1}, {"ts": 7}, {"ts": 8}]
    assert [str(e) for e in elements if isinstance(e, Punctuation)] == ["[ts < 5]", "[END]"]
    assert (statistics.late, statistics.total("stale")) == (1, 1)


def test_every_run_has_its_own_operators_also_within_a_chain() -> None:
    numbered = oop.arrow(pa.table({"x": [1, 2]})).apply(Chain([Number("a"), Number("b")]))
    for _ in range(2):
        assert numbered.to_arrow()["a"].to_pylist() == [0, 1]


@attrs.define(eq=False)
class Remembering:
    """An operator of one's own that keeps what it worked out of its input's schema, as the protocol allows."""

    names: tuple[str, ...] = attrs.field(init=False)

    inputs = 1

    def output_schema(self, *inputs: Schema) -> Schema:
        self.names = tuple(inputs[0].names)
        return inputs[0]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        assert self.names == tuple(page.schema.names)
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Nothing is remembered of the tuples."""


def test_the_operator_that_runs_is_told_its_inputs() -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.string())])
    one, other = (oop.rows([(1, "a"), (2, "b")], schema) for _ in range(2))
    assert one.apply(Remembering()).to_arrow().num_rows == 2
    joined = one.apply(OAJoin(Band("ts", "ts", left=3, right=3), [("k", "k")]), other)
    assert sorted(row["k"] for row in joined.to_arrow().to_pylist()) == ["a", "b"]
    changes = [s.apply(Bucket(SlidingWindow("ts", size=2, slide=1))).apply(Expire()) for s in (one, other)]
    both = changes[0].apply(SignedJoin([("k", "k")]), changes[1])
    net = Counter[tuple[str, int]]()
    for row in both.to_arrow().to_pylist():
        net[row["k"], row["wid"]] += row["sign"]
    assert {change: n for change, n in net.items() if n} == {("a", 1): 1, ("a", 3): -1, ("b", 2): 1, ("b", 4): -1}
