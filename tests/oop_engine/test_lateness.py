"""Late tuples end to end: who keeps them, who counts them, and that neither pages nor chunks nor drivers matter."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.meter import Statistics
from oop_engine.drive.runtime import run_plan
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.rewrite.lateness import allowances
from oop_engine.sinks import SinkError
from oop_engine.sinks.python import PageSink
from operators.data.page import Page
from operators.data.schema import Schema
from operators.plan_facts import ANY_DISTANCE
from operators.protocol import Element, Emit, State, StateValue
from operators.streams.reorder import Reorder
from operators.window import SlidingWindow
from punctuation import Punctuation, before

SCHEMA = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
Rows = Counter[tuple[tuple[str, object], ...]]


def batches(times: Sequence[int], cuts: Sequence[int] = ()) -> list[pa.RecordBatch]:
    whole = pa.RecordBatch.from_pydict({"ts": times, "n": list(range(len(times)))}, schema=SCHEMA)
    edges = [0, *sorted(c for c in cuts if 0 < c < len(times)), len(times)]
    return [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)] or [whole]


def source(times: Sequence[int], slack: int, cuts: Sequence[int] = (), **options: object) -> Stream:
    return oop.arrow(batches(times, cuts), schema=SCHEMA, slack=slack, **options)  # type: ignore[arg-type]


def counted(stream: Stream, size: int, slide: int, origin: int, consistent: bool = False) -> Stream:
    windowed = stream.window(range=size, slide=slide, wattr="ts", origin=origin, consistent=consistent)
    return windowed.aggregate(oop.count())


def bag(elements: Sequence[Element]) -> Rows:
    return Counter(tuple(row.items()) for e in elements if isinstance(e, Page) for row in e.rows())


def run(streams: Sequence[Stream], page_rows: int) -> tuple[list[Rows], Statistics]:
    driver = Run(Plan(tuple(s.node for s in streams)), page_rows)
    found: list[list[Element]] = [[] for _ in streams]
    for output, element in driver:
        found[output].append(element)
    return [bag(f) for f in found], Statistics(driver.circuit.statistics())


def naive(
    times: Sequence[int],
    slack: int,
    step: int,
    start: int,
    windows: Sequence[SlidingWindow],
    *,
    consistent: bool = False,
) -> tuple[list[Rows], int, int, int]:
    """Go through the tuples one by one: the answer of each window; how many are late, late in part, behind."""
    counts: list[Counter[int]] = [Counter() for _ in windows]
    bound, highest, late, partly, behind = -(10**9), -(10**9), 0, 0, 0
    reach = max(w.size for w in windows)
    for t in times:
        if t < bound - reach:
            late += 1
        else:
            behind += t < bound
            for window, count in zip(windows, counts, strict=True):
                mine = [w for w in range(-60, 60) if window.extent(w)[0] <= t < window.extent(w)[1]]
                still = [w for w in mine if window.extent(w)[1] > bound]
                if consistent and len(still) < len(mine):
                    mine = still = []
                late += not still
                partly += 0 < len(still) < len(mine)
                count.update(still)
        highest = max(highest, t)
        bound = max(bound, (highest - slack - start) // step * step + start)
    answers: list[Rows] = []
    for window, count in zip(windows, counts, strict=True):
        rows = (
            {"count": n, "wid": w, "window_start": window.extent(w)[0], "window_end": window.extent(w)[1]}
            for w, n in count.items()
        )
        answers.append(Counter(tuple(row.items()) for row in rows))
    return answers, late, partly, behind


times_of = st.lists(st.integers(-9, 25), max_size=25)
cuts_of = st.lists(st.integers(1, 24), max_size=4)


@given(times_of, cuts_of, st.integers(0, 6), st.integers(1, 5), st.integers(1, 9), st.integers(-4, 4), st.booleans())
def test_a_tuple_that_is_late_for_some_windows_keeps_the_others_at_any_page_size(
    times: list[int], cuts: list[int], slack: int, slide: int, more: int, origin: int, consistent: bool
) -> None:
    window = SlidingWindow("ts", size=slide + more - 1, slide=slide, origin=origin)
    answers, late, partly, behind = naive(times, slack, slide, origin, [window], consistent=consistent)
    for page_rows in (1, 7, 8192):
        for chunks in ((), cuts):
            out = counted(source(times, slack, chunks), window.size, slide, origin, consistent)
            found, statistics = run([out], page_rows)
            assert found == answers
            assert (statistics.late, statistics.late_for_some, statistics.total("behind")) == (late, partly, behind)


@given(times_of, cuts_of, st.integers(0, 6), st.integers(1, 3), st.integers(1, 3))
def test_two_windows_on_one_source_each_keep_what_is_open_for_them(
    times: list[int], cuts: list[int], slack: int, slide: int, factor: int
) -> None:
    windows = [
        SlidingWindow("ts", size=2 * slide, slide=slide),
        SlidingWindow("ts", size=slide * factor, slide=slide * factor),
    ]
    answers, late, partly, behind = naive(times, slack, slide, 0, windows)
    for page_rows in (1, 7, 8192):
        read = source(times, slack, cuts)
        found, statistics = run([counted(read, w.size, w.slide, 0) for w in windows], page_rows)
        assert found == answers
        assert (statistics.late, statistics.late_for_some, statistics.total("behind")) == (late, partly, behind)


@given(times_of, cuts_of, st.integers(0, 4))
def test_a_distinct_behind_the_source_gets_no_late_tuple(times: list[int], cuts: list[int], slack: int) -> None:
    bound, highest, kept, late = -(10**9), -(10**9), set[int](), 0
    for t in times:
        late += t < bound
        kept |= {t} if t >= bound else set()
        highest = max(highest, t)
        bound = highest - slack
    for page_rows in (1, 7, 8192):
        found, statistics = run([source(times, slack, cuts).project("ts").distinct("ts")], page_rows)
        assert found == [Counter((("ts", t),) for t in kept)]
        assert statistics.late == late


@given(times_of, times_of, st.integers(0, 4), st.integers(1, 5))
def test_under_a_meld_every_tuple_is_in_its_window_or_late(
    one: list[int], other: list[int], slack: int, size: int
) -> None:
    for page_rows in (1, 7, 8192):
        melded = source(one, slack).meld(source(other, slack))
        (found,), statistics = run([counted(melded, size, size, 0)], page_rows)
        in_windows = sum(int(str(dict(row)["count"])) for row in found.elements())
        assert in_windows + statistics.late == len(one) + len(other)
        assert len({dict(row)["wid"] for row in found}) == found.total()


def test_under_a_meld_the_input_that_is_behind_holds_windows_open_for_late_tuples_of_the_other() -> None:
    ahead, behind = source([0, 50, 3], 0), oop.pages([], oop.Schema.of(ts=pa.int64(), n=pa.int64(), progress=["ts"]))
    (found,), statistics = run([counted(ahead, 10, 10, 0)], 1)
    assert (sum(int(str(dict(r)["count"])) for r in found), statistics.late) == (2, 1)
    plan = Plan((counted(ahead.meld(behind), 10, 10, 0).node,))
    driver = Run(plan, 1)
    driver.circuit.prepare()
    first, second = (i for i, node in enumerate(plan.nodes) if not node.inputs)
    for chunk in driver.circuit.open(first):
        for page in driver.circuit.pages(first, chunk):
            driver.circuit.give(first, 0, page)
    driver.circuit.finish(first)
    driver.circuit.finish(second)
    assert Statistics(driver.circuit.statistics()).late == 0


def test_trio_counts_late_tuples_as_the_synchronous_driver_does() -> None:
    times = [1, 12, 23, 8, 19, 25, 2, 44, 14, 30]
    out = counted(source(times, 3), 10, 5, 0)
    (expected,), statistics = run([out], 8192)
    elements: list[Element] = []
    live = trio.run(run_plan, Plan((out.node,)), (elements.append,))
    assert bag(elements) == expected
    assert (live.late, live.late_for_some) == (statistics.late, statistics.late_for_some)
    assert live.late > 0 < live.late_for_some


@pytest.mark.parametrize(
    ("shape", "allowed"),
    [
        (lambda s: counted(s, 10, 5, 0), 10),
        (lambda s: counted(s.filter(lambda p: p["n"] > 0), 10, 5, 0), 10),
        (lambda s: counted(s.project("n", "ts"), 10, 5, 0), 10),
        (lambda s: counted(s.derive(twice=lambda p: p["n"] * 2), 10, 5, 0), 10),
        (lambda s: s.project(at="ts").window(range=10, wattr="at").aggregate(oop.count()), 10),
        (lambda s: s.window(range="ALL", slide=5, wattr="ts").aggregate(oop.count()), ANY_DISTANCE),
        (lambda s: counted(s.meld(s.filter(lambda p: p["n"] > 3)), 10, 5, 0), ANY_DISTANCE),
        (lambda s: counted(s, 10, 5, 0, True), 10),
        (lambda s: s, 0),
        (lambda s: s.distinct("ts"), 0),
        (lambda s: s.aggregate(oop.count(), by="ts"), 0),
        (lambda s: counted(s.number(), 10, 5, 0), 10),
        (lambda s: s.window(oop.session(8)).aggregate(oop.count()), ANY_DISTANCE),
        (lambda s: s.window(oop.slide_by_tuple(8)).aggregate(oop.count()), 8),
        (lambda s: s.window(oop.slide_by_tuple(8), consistent=True).aggregate(oop.count()), 0),
        (lambda s: s.window(range=10, wattr="row_num").aggregate(oop.count()), 0),
        (lambda s: counted(s.apply(Reorder("ts", slack_time=3)), 10, 5, 0), 0),
        (lambda s: counted(s.derive(minute=lambda p: p["ts"] // 6), 10, 5, 0), 0),
        (lambda s: s.derive(m=lambda p: p["ts"] // 6).window(range=10, wattr="ts").aggregate(oop.count(), by="m"), 0),
        (lambda s: s.project(m=lambda p: p["ts"] // 6).window(range=10, wattr="m").aggregate(oop.count()), 0),
        (lambda s: s.project(a="ts", b="ts").window(range=10, wattr="a").aggregate(oop.count()), 0),
        (lambda s: oop.merge(s, s, on="ts").window(range=10, wattr="ts").aggregate(oop.count()), 0),
    ],
)
def test_only_windows_on_the_promised_attribute_allow_tuples_behind_it(shape, allowed: int) -> None:  # type: ignore[no-untyped-def]
    plan = Plan((shape(source([1, 2], 1)).node,))
    assert allowances(plan) == {0: allowed}


def test_one_reader_that_relies_on_the_promise_stops_late_tuples_for_all() -> None:
    read = source([1, 2], 1)
    assert allowances(Plan((counted(read, 10, 5, 0).node, counted(read, 30, 5, 0).node))) == {0: 30}
    assert allowances(Plan((counted(read, 10, 5, 0).node, read.distinct("ts").node))) == {0: 0}
    assert allowances(Plan((counted(read, 10, 5, 0).node, read.node))) == {0: 0}


def test_a_group_promise_beside_the_linear_one_allows_nothing() -> None:
    schema = oop.Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts", ("k", "ts")])
    read = oop.pages([], schema)
    assert allowances(Plan((read.window(range=10, wattr="ts").aggregate(oop.count(), by="k").node,))) == {0: 0}


@pytest.mark.parametrize("late", ["refuse", "revise"])
def test_other_policies_allow_nothing(late: str) -> None:
    assert allowances(Plan((counted(source([1], 1, late=late), 10, 5, 0).node,))) == {0: 0}


@pytest.mark.parametrize("late", ["drop", "revise"])
def test_a_late_tuple_is_counted_once_whoever_refuses_it(late: str) -> None:
    read = source([1, 12, 3, 25, 4], 0, late=late)
    statistics = counted(read, 5, 5, 0).run().statistics
    assert (statistics.late, statistics.total("behind")) == (2, 0 if late == "drop" else 2)
    assert read.filter("ts > 0").run().statistics.late == (2 if late == "drop" else 0)


@pytest.mark.parametrize("page_rows", [1, 7, 8192])
def test_refuse_raises_at_the_first_late_tuple_and_says_where(page_rows: int) -> None:
    out = counted(source([1, 12, 23, 8, 40], 3, late="refuse", name="link2"), 10, 10, 0)
    with pytest.raises(
        oop.StreamViolation,
        match=r"link2 broke its promise: tuple 3 .* has ts = 8\n  after the punctuation \[ts < 20\]",
    ):
        run([out], page_rows)
    with pytest.raises(oop.StreamViolation, match="link2 broke its promise: tuple 3 "):
        out.run()


@pytest.mark.parametrize("page_rows", [1, 7, 8192])
@pytest.mark.parametrize("cuts", [(), (3, 4)])
def test_divert_hands_every_late_tuple_to_a_function(page_rows: int, cuts: Sequence[int]) -> None:
    pages: list[Page] = []
    out = counted(source([1, 12, 23, 8, 40, 2], 3, cuts, divert=pages.append), 10, 10, 0)
    _, statistics = run([out], page_rows)
    assert [row for page in pages for row in page.rows()] == [
        {"ts": 8, "n": 3, "broken": "[ts < 20]", "tuple": 3},
        {"ts": 2, "n": 5, "broken": "[ts < 30]", "tuple": 5},
    ]
    assert statistics.late == 2


@pytest.mark.parametrize("driver", ["synchronous", "trio"])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_divert_writes_late_tuples_to_a_file(tmp_path, driver: str, suffix: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"late.{suffix}"
    out = counted(source([1, 12, 23, 8, 40, 2], 3, divert=str(path)), 10, 10, 0)
    late = run([out], 1)[1].late if driver == "synchronous" else out.run().statistics.late
    assert late == 2
    if suffix == "parquet":
        assert pq.read_table(path).to_pylist() == [
            {"ts": 8, "n": 3, "broken": "[ts < 20]", "tuple": 3},
            {"ts": 2, "n": 5, "broken": "[ts < 30]", "tuple": 5},
        ]
    else:
        text = path.read_text()
        assert text.count("[ts < 20]") == 1 and text.count("[ts < 30]") == 1
        assert len(text.splitlines()) == 2 + (suffix == "csv")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_run_without_late_tuples_leaves_an_empty_file_of_them(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "late.parquet"
    counted(source([1, 2, 3], 0, divert=str(path)), 10, 10, 0).run()
    table = pq.read_table(path)
    assert (table.num_rows, table.schema.names) == (0, ["ts", "n", "broken", "tuple"])


def test_a_run_that_fails_leaves_no_file_of_late_tuples(tmp_path) -> None:  # type: ignore[no-untyped-def]
    stream = source([1, 12, 23, 8], 0, divert=str(tmp_path / "late.csv")).filter("ts * 4611686018427387904 > 1")
    with pytest.raises(OverflowError, match="does not fit int64"):
        stream.run()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"late": "dorp"},
            oop.PlanError,
            'arrow: late="dorp" is no policy for late tuples; write drop, refuse, divert, revise.\n'
            '  Did you mean "drop"?',
        ),
        (
            {"late": "divert"},
            oop.PlanError,
            'arrow: late="divert" needs divert=, a function of pages or a path such as "late.parquet".',
        ),
        (
            {"late": "refuse", "divert": print},
            oop.PlanError,
            'arrow: divert= says where late tuples go, and late="refuse" that they go elsewhere; choose one.',
        ),
        ({"divert": "late.xls"}, SinkError, '".xls" is no suffix of a sink'),
    ],
)
def test_a_policy_that_cannot_be_is_refused_when_the_plan_is_made(
    options: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        source([1], 1, **options)
    assert text in str(caught.value)


LATE = [(1, 1), (12, 2), (3, 4), (25, 8)]


def late_stream(**options: object) -> Stream:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    return oop.rows(LATE, schema, punctuate=oop.ordered("ts"), **options)  # type: ignore[arg-type]


def revised(stream: Stream) -> Stream:
    return stream.window(10).aggregate(oop.sum("v"), lateness=12)


REVISED = [(0, 0, 1), (0, 1, 5), (1, 0, 2), (2, 0, 8)]
BESIDE: dict[str, Callable[[Stream], Stream]] = {
    "the stream itself": lambda s: s,
    "a filter": lambda s: s.filter("v > 1"),
    "distinct": lambda s: s.distinct("v"),
    "a join": lambda s: s.join(s, "v", range=5),
    "count windows": lambda s: s.window(oop.counted(2)).aggregate(oop.count()),
    "a meld": lambda s: oop.meld(s, late_stream()),
    "a filter of two readers": lambda s: oop.meld(s.filter("v > 0").distinct(), s.filter("v > 0")),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("policy", ["drop", "revise"])
def test_what_else_reads_a_stream_changes_no_answer(beside: str, policy: str) -> None:
    def results(streams: Sequence[Stream]) -> list[list[dict[str, object]]]:
        pages: list[list[Page]] = [[] for _ in streams]
        oop.run_outputs([s.to(PageSink(p.append)) for s, p in zip(streams, pages, strict=True)])
        return [sorted((row for page in p for row in page.rows()), key=repr) for p in pages]

    read = late_stream(late=policy)
    other = BESIDE[beside](read)
    (alone,) = results([other])
    found = results([revised(read), other])
    assert sorted((r["wid"], r["revision"], r["sum_v"]) for r in found[0]) == REVISED
    assert found[1] == alone


def test_windows_beside_others_keep_late_tuples_of_open_windows() -> None:
    both = late_stream().windows(a=oop.tumbling(10), b=oop.counted(2)).aggregate(oop.sum("v")).run()
    alone = late_stream().window(10).aggregate(oop.sum("v")).to_arrow()
    assert [r["sum_v"] for r in both.table.to_pylist() if r["window"] == "a"] == alone["sum_v"].to_pylist()


def test_lateness_behind_what_relies_on_promises_is_refused() -> None:
    for relying in (late_stream().distinct(), late_stream().reorder(slack=1)):
        with pytest.raises(oop.PlanError, match=r'relies on what is promised[^$]*late="revise"'):
            revised(relying)
    assert revised(oop.rows(LATE, pa.schema([("ts", pa.int64()), ("v", pa.int64())])).distinct()).to_arrow().num_rows
    assert revised(late_stream().number()).to_arrow()["revision"].to_pylist() == [0, 1, 0, 0]
    results = late_stream().window(10).aggregate(v=oop.count()).derive(ts=oop.Column("window_end") - 1)
    assert revised(results).to_arrow()["revision"].to_pylist() == [0, 0, 0]
    assert revised(late_stream(late="revise").distinct()).to_arrow()["revision"].to_pylist() == [0, 1, 0, 0]


def test_a_window_may_change_as_long_as_was_asked_for_at_any_pace() -> None:
    """The windows of another query, whose promises are finer, change nothing."""
    schema = pa.schema([("ts", pa.int64())])
    for at, count in ((24, 2), (25, 1)):
        read = oop.rows([(1,), (at,), (2,)], schema, slack=0)
        query = read.window(10).aggregate(oop.count(), lateness=15)
        pages: list[list[Page]] = [[], []]
        for outputs in ([query], [query, read.window(1).aggregate(oop.count())]):
            pages[0].clear()
            oop.run_outputs([s.to(PageSink(p.append)) for s, p in zip(outputs, pages, strict=False)])
            assert len([row for page in pages[0] for row in page.rows() if row["wid"] == 0]) == count


OPEN = [*range(0, 101, 2), 21, 75, *range(102, 121, 2)]


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize(("window", "count"), [(oop.session(10), len(OPEN)), (oop.tumbling(1000), len(OPEN))])
def test_a_window_that_is_open_takes_late_tuples_however_long_it_is_and_whatever_numbers_them(
    window: oop.WindowOf, count: int, numbered: bool
) -> None:
    read = oop.rows(((ts,) for ts in OPEN), pa.schema([("ts", pa.int64())]), slack=3)
    outcome = (read.number() if numbered else read).window(window).aggregate(oop.count()).run()
    assert (outcome.table["count"].to_pylist(), outcome.statistics.late) == ([count], 0)


@pytest.mark.parametrize(("consistent", "at_nine"), [(False, 4), (True, 3)])
def test_windows_by_tuples_take_late_tuples_unless_consistent(consistent: bool, at_nine: int) -> None:
    """The tuples of (4, 9] are 5, which is late, 6, 8 and 9."""
    elements = [(0,), (2,), (4,), (6,), (8,), before("ts", 7), (5,), (9,), (10,)]
    stream = oop.rows(iter(elements), oop.Schema.of(ts=pa.int64(), progress=["ts"]))
    found = stream.window(oop.slide_by_tuple(5), consistent=consistent).aggregate(oop.count()).to_arrow().to_pylist()
    assert {row["window_end"]: row["count"] for row in found}[9] == at_nine


def test_stacks_refuse_a_late_tuple_that_others_would_count() -> None:
    read = oop.rows([(3,), (4,), (3,)], pa.schema([("ts", pa.int64())]), slack=0)
    assert read.window(5, slide=2).aggregate(oop.count()).to_arrow()["count"].to_pylist() == [1, 3, 3]
    with pytest.raises(oop.StreamViolation):
        read.window(5, slide=2).aggregate(oop.count(), strategy="stacks").run()


def test_what_also_tells_when_tuples_arrived_is_as_generous() -> None:
    plain, told = (
        oop.rows([(1,), (12,), (8,)], pa.schema([("ts", pa.int64())]), punctuate=oop.ordered("ts"), arrival_ts=at)
        .window(range=10, slide=5)
        .aggregate(oop.count())
        .run()
        for at in (False, lambda: 1)
    )
    assert plain.table["count"].to_pylist() == told.table["count"].to_pylist() == [1, 1, 2, 1]
    assert plain.statistics.late_for_some == told.statistics.late_for_some == 1


@attrs.define(eq=False)
class Marked:
    """Add a mark to each tuple, as an operator of somebody's own may."""

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return Schema(schema.arrow.append(pa.field("mark", pa.bool_())), progress=schema.progress)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema = self.output_schema(page.schema)
        columns = [*page.batch.columns, pa.array([True] * len(page))]
        emit(Page(schema, pa.RecordBatch.from_arrays(columns, schema=schema.arrow)))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Nothing was kept."""


@attrs.define(eq=False)
class MarkedOneByOne(Marked):
    """The same, and say so."""

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return None if name == "mark" else name


def test_windows_behind_an_operator_of_ones_own_take_late_tuples_if_it_takes_each_by_itself() -> None:
    times = [0, 9, 3, 12, 4, 25]
    plain, *_ = run([counted(source(times, 2), 10, 5, 0)], 1)[0]
    told, *_ = run([counted(source(times, 2).apply(MarkedOneByOne()), 10, 5, 0)], 1)[0]
    silent, *_ = run([counted(source(times, 2).apply(Marked()), 10, 5, 0)], 1)[0]
    assert told == plain
    assert silent != plain, "nothing is known of this one, so what is late is left out at the source"


@pytest.mark.parametrize("strategy", ["panes", "slicing"])
@pytest.mark.parametrize(
    ("size", "slide", "expected"),
    [(10, 10, (2, 0, 0)), (20, 10, (0, 2, 0)), (5, 10, (1, 0, 4))],
    ids=["tumbling", "sliding", "with gaps"],
)
@pytest.mark.parametrize("passing", ["revise", "generous"])
def test_every_late_tuple_counts_once_by_what_became_of_it(
    strategy: str, size: int, slide: int, expected: tuple[int, int, int], passing: str
) -> None:
    tuples = [(1,), (19 if slide < size else 25,), (7,), (3,), (22,), (27,), (60,)]
    schema = pa.schema([("ts", pa.int64())])
    if passing == "revise":
        stream = oop.rows(tuples, schema, punctuate=oop.ordered("ts"), late="revise")
    else:
        stream = oop.rows(tuples, schema).reorder(slack=0, mode="generous")
    counts = stream.window(range=size, slide=slide).aggregate(oop.count(), strategy=strategy).run().statistics
    assert (counts.late, counts.late_for_some, counts.total("in_no_window")) == expected
