"""What else reads a stream changes no answer, and not which tuples are late for a query: it is judged as if alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.plan.punctuate import Promise
from oop_engine.rewrite.lateness import allowances, guarded
from oop_engine.rewrite.sharing import shared
from oop_engine.sinks.python import PageSink
from operators.data.page import Page
from operators.plan_facts import ANY_DISTANCE
from operators.rows.filter import Filter
from operators.streams.guard import Guard
from punctuation import before
from tests.examples import share

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
Rows: TypeAlias = Counter[str]
Make: TypeAlias = Callable[[Stream, int, int], Stream]

PROMISES: dict[str, Callable[[int], Promise | list[Promise]]] = {
    "slack": lambda n: oop.slack(n),
    "slack, own step": lambda n: oop.slack(n, step=3),
    "slack, every third": lambda n: oop.slack(n, every=3),
    "ordered": lambda n: oop.ordered(),
    "tuples": lambda n: oop.tuple_slack(n),
    "blocks": lambda n: oop.blocks(length=n + 1),
}
QUERIES: dict[str, Make] = {
    "itself": lambda s, m, n: s,
    "a filter": lambda s, m, n: s.filter("k = 'a'"),
    "sliding": lambda s, m, n: s.window(range=m * n, slide=m).aggregate(oop.count()),
    "sliding behind a filter": lambda s, m, n: s.filter("k = 'a'").window(range=m * n, slide=m).aggregate(oop.count()),
    "tumbling by group": lambda s, m, n: s.window(range=m).aggregate(oop.count(), by="k"),
    "landmark": lambda s, m, n: s.window(range="ALL", slide=m).aggregate(oop.count()),
    "revised": lambda s, m, n: s.window(range=m).aggregate(oop.count(), lateness=n),
    "consistent": lambda s, m, n: s.window(range=m * n, slide=m, consistent=True).aggregate(oop.count()),
    "consistent, shifted": lambda s, m, n: s.window(range=m, origin=n, consistent=True).aggregate(oop.count()),
    "consistent behind a filter": lambda s, m, n: (
        s.filter("k = 'a'").window(range=m, consistent=True).aggregate(oop.count())
    ),
    "consistent behind a meld": lambda s, m, n: (
        oop.meld(s.filter("k = 'a'"), s.filter("k = 'b'")).window(range=m, consistent=True).aggregate(oop.count())
    ),
    "distinct": lambda s, m, n: s.distinct("ts", "k"),
    "distinct groups": lambda s, m, n: s.distinct("k"),
    "distinct before": lambda s, m, n: s.distinct("ts", "k").window(range=m).aggregate(oop.count()),
    "number before": lambda s, m, n: s.number().window(range=m).aggregate(oop.max("row_num")),
    "renamed": lambda s, m, n: s.project("k", at="ts").distinct().window(range=m, wattr="at").aggregate(oop.count()),
    "latest": lambda s, m, n: s.window(oop.latest(n, every=m)).aggregate(oop.sum("ts")),
    "counted": lambda s, m, n: s.window(oop.counted(m)).aggregate(oop.sum("ts")),
    "by tuple": lambda s, m, n: s.window(oop.slide_by_tuple(4 * m)).aggregate(oop.count()),
    "sessions": lambda s, m, n: s.window(oop.session(m)).aggregate(oop.count(), by="k"),
    "sessions behind a filter": lambda s, m, n: s.filter("k = 'a'").window(oop.session(m)).aggregate(oop.count()),
    "a join": lambda s, m, n: s.join(s, "k", range=m).window(range=n).aggregate(oop.count()),
    "sorted": lambda s, m, n: oop.merge(s, s, on="ts").number(),
    "two levels of windows": lambda s, m, n: (
        s.window(range=m, consistent=True)
        .aggregate(c=oop.count())
        .window(range=m * n, wattr="window_start")
        .aggregate(oop.sum("c"))
    ),
}
FILTERED = frozenset(name for name in QUERIES if name == "a filter" or name.endswith("behind a filter"))
"""What these lack alone is counted without what the filter leaves out; at a source that others read, that is theirs."""
MIXED = frozenset({"sessions", "sessions behind a filter"})
"""When these are computed together with other windows, how finely the stream is promised is common to them."""


def bag(pages: Sequence[Page]) -> Rows:
    return Counter(repr(sorted(row.items())) for page in pages for row in page.rows())


def results(plan: Plan, page_rows: int) -> list[tuple[Rows, int]]:
    """Run a plan; for each output its rows, and how many tuples were late on the way to it."""
    run = Run(plan, page_rows)
    pages: list[list[Page]] = [[] for _ in plan.outputs]
    for output, element in run:
        if isinstance(element, Page):
            pages[output].append(element)
    late = [operator.details.get("late", 0) for operator in run.circuit.statistics()]
    plan = run.circuit.plan
    own = [sum(late[plan.position(node)] for node in Plan((output,)).nodes) for output in plan.outputs]
    return list(zip(map(bag, pages), own, strict=True))


@st.composite
def disordered(draw: st.DrawFn) -> list[tuple[int, str]]:
    steps = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 14), st.sampled_from("ab")), max_size=40))
    found: list[tuple[int, str]] = []
    now = 0
    for step, behind, k in steps:
        now += step
        found.append((now - behind, k))
    return found


FEW = [(1, "a"), (8, "a"), (5, "a"), (12, "a"), (25, "a"), (2, "a")]
MORE = [(v, "a") for v in (1, 12, 3, 13, 4, 14, 5, 25)]
sizes = st.integers(1, 12)
queries = st.tuples(st.sampled_from(sorted(QUERIES)), sizes, sizes)


@share(2)
@given(
    disordered(),
    st.sampled_from(sorted(PROMISES)),
    st.integers(0, 5),
    queries,
    st.lists(queries, min_size=1, max_size=3),
    st.sampled_from((1, 7, 8192)),
    st.sampled_from(("drop", "revise")),
)
@example(FEW, "slack", 0, ("consistent", 10, 1), [("sliding", 2, 1)], 1, "drop")
@example(FEW, "slack", 0, ("latest", 10, 3), [("counted", 2, 1)], 7, "drop")
@example(FEW, "slack", 0, ("itself", 1, 1), [("tumbling by group", 10, 1)], 7, "drop")
@example(FEW, "slack", 0, ("sessions", 8, 1), [("landmark", 2, 1)], 7, "drop")
@example(MORE, "slack", 0, ("revised", 10, 20), [("sliding", 1, 1)], 1, "drop")
@example([(0, "a"), (-1, "b")], "blocks", 0, ("a filter", 1, 1), [("a join", 1, 1)], 1, "drop")
@example([(0, "a"), (-1, "a")], "blocks", 0, ("consistent behind a meld", 1, 1), [("a filter", 1, 1)], 1, "drop")
@example(FEW, "blocks", 1, ("consistent, shifted", 1, 1), [("itself", 1, 1)], 7, "drop")
def test_a_query_beside_others_is_as_it_is_alone(
    rows: list[tuple[int, str]],
    promise: str,
    amount: int,
    query: tuple[str, int, int],
    others: list[tuple[str, int, int]],
    page_rows: int,
    late: str,
) -> None:
    read = oop.rows(rows, SCHEMA, punctuate=PROMISES[promise](amount), late=late)
    name, m, n = query
    own = QUERIES[name](read, m, n)
    beside = [QUERIES[other](read, i, j) for other, i, j in others]
    (alone,) = results(guarded(Plan((own.node,))), page_rows)
    first, *_ = results(guarded(shared(Plan((own.node, *(stream.node for stream in beside))))), page_rows)
    *_, last = results(guarded(shared(Plan((*(stream.node for stream in beside), own.node)))), page_rows)
    assert first[0] == last[0] == alone[0]
    if name in FILTERED:
        assert first[1] == last[1] >= alone[1]
    else:
        assert first[1] == last[1] == alone[1]
    # Where late tuples are passed on, it matters in which order a runtime brings the inputs of melds and joins.
    if late == "drop" and not MIXED & {name, *(other for other, _, _ in others)}:
        written: list[list[Page]] = [[] for _ in (own, *beside)]
        oop.run_outputs([s.to(PageSink(p.append)) for s, p in zip((own, *beside), written, strict=True)])
        assert bag(written[0]) == alone[0]


def guards(*streams: Stream) -> list[Guard]:
    """Give the guards of a run, in order of their steps."""
    nodes = guarded(shared(Plan(tuple(stream.node for stream in streams)))).nodes
    found = [n.operator for n in nodes if isinstance(n, OperatorNode) and isinstance(n.operator, Guard)]
    return sorted(found, key=lambda guard: guard.step or 0)


def stream(**options: object) -> Stream:
    return oop.rows([(1, "a"), (8, "b"), (5, "a")], SCHEMA, **({"slack": 0} | options))  # type: ignore[arg-type]


def relying(read: Stream, size: int) -> Stream:
    return read.window(oop.latest(3, every=size)).aggregate(oop.count())


def consistent(read: Stream, size: int, slide: int | None = None) -> Stream:
    return read.window(range=size, slide=slide, consistent=True).aggregate(oop.count())


def test_only_readers_that_promises_matter_to_are_guarded_and_those_judged_alike_together() -> None:
    read = stream()
    assert not guards(relying(read, 10))
    assert not guards(consistent(read, 10), consistent(read, 4), read.window(range=10).aggregate(oop.count()))
    assert not guards(relying(read, 10), relying(read, 10))
    assert not guards(*(read.window(range=n).aggregate(oop.count()) for n in (10, 2)))
    apart = guards(relying(read, 10), relying(read, 4), read.window(range=10).aggregate(oop.sum("ts")).distinct())
    assert [(g.step, g.origin, g.allow) for g in apart] == [(4, 0, 0), (10, 0, 0)]
    alike = guards(relying(read, 10), read.window(oop.latest(2, every=10)).aggregate(oop.sum("ts")), read)
    assert [g.step for g in alike] == [1, 10]
    (sessions, whole) = guards(read.window(oop.session(8)).aggregate(oop.count()), relying(read, 10))
    assert (sessions.step, sessions.allow, whole.step) == (2, ANY_DISTANCE, 10)


def test_a_source_lets_through_what_the_coarsest_reader_may_take() -> None:
    read = stream()
    for outputs, allowed in (
        ([relying(read, 10)], 0),
        ([consistent(read, 10, 2)], 10),
        ([relying(read, 10), relying(read, 4)], 9),
        ([relying(read, 10), read.window(range=30).aggregate(oop.count())], 30),
        ([relying(read, 10), read.window(oop.session(8)).aggregate(oop.count())], ANY_DISTANCE + 1),
    ):
        assert allowances(guarded(Plan(tuple(s.node for s in outputs)))) == {0: allowed}


def test_readers_of_one_query_are_judged_together() -> None:
    read = stream()
    assert not guards(oop.meld(relying(read, 10), relying(read, 4)))
    both = read.windows(a=oop.tumbling(10), b=oop.counted(2)).aggregate(oop.count())
    assert [(g.step, g.allow) for g in guards(both)] == [(None, 0)]


def test_what_several_queries_share_is_judged_by_what_they_need_together() -> None:
    distinct = stream().distinct()
    shared_by_two = [distinct.window(range=n).aggregate(oop.count()) for n in (10, 4)]
    assert not guards(*shared_by_two)
    other = relying(Stream(distinct.node.inputs[0]), 6)
    assert [g.step for g in guards(*shared_by_two, other)] == [2, 6]


def test_a_filter_in_front_is_made_for_each_guard_so_that_tuples_are_counted_before_it() -> None:
    filtered = stream().filter("k = 'a'")
    plan = guarded(Plan((relying(filtered, 10).node, relying(filtered, 4).node)))
    filters = [n for n in plan.nodes if isinstance(n, OperatorNode) and isinstance(n.operator, Filter)]
    assert len(filters) == 2
    assert all(isinstance(n.inputs[0], OperatorNode) and isinstance(n.inputs[0].operator, Guard) for n in filters)


def test_a_stream_that_no_query_asks_of_is_promised_once_a_second_beside_others_too() -> None:
    schema = pa.schema([("ts", pa.timestamp("ms"))])
    read = oop.rows([(v,) for v in (100, 1900, 1200, 2500, 1600)], schema, slack=0)
    minutes = read.window(range="1 minute").aggregate(oop.count())
    ((alone, late),) = results(guarded(Plan((read.node,))), 7)
    assert (alone.total(), late) == (4, 1)
    assert results(guarded(Plan((minutes.node, read.node))), 7)[1] == (alone, late)


def test_what_a_stream_promises_itself_is_the_same_for_all() -> None:
    schema = oop.Schema.of(ts=pa.int64(), progress=["ts"])
    page = Page.of(schema, {"ts": [3]})
    read = oop.pages([before("ts", 7), page, page], schema)
    assert not guards(relying(read, 10), relying(read, 4))
    (guard,) = guards(relying(read, 10), read.window(range=4).aggregate(oop.count()))
    assert guard.step is None
    for other in (relying(read, 4), read.window(range=4).aggregate(oop.count())):
        assert results(guarded(Plan((relying(read, 10).node, other.node))), 1)[0] == (Counter(), 2)


@pytest.mark.parametrize("late", ["refuse", "divert"])
def test_what_is_refused_or_diverted_is_judged_at_the_source_by_the_finest_promise(late: str) -> None:
    diverted: list[Page] = []
    options = {"divert": diverted.append} if late == "divert" else {"late": late}
    read = stream(**options)
    outputs = [relying(read, 10), read.window(range=2).aggregate(oop.count())]
    assert not guards(*outputs)
    assert relying(read, 10).run().statistics.late == len(diverted) == 0
    plan = guarded(Plan(tuple(s.node for s in outputs)))
    if late == "refuse":
        with pytest.raises(oop.StreamViolation, match=r"ts = 5\n  after the punctuation \[ts < 8\]"):
            results(plan, 7)
    else:
        results(plan, 7)
        assert [page["ts"].tolist() for page in diverted] == [[5]]


STREAM = oop.Schema.of(ts=pa.int64(), progress=["ts"])


def test_a_consistent_window_drops_a_tuple_only_when_the_first_window_it_is_in_is_released() -> None:
    def page(*ticks: int) -> Page:
        return Page.of(STREAM, {"ts": list(ticks)})

    tumbling = consistent(oop.pages([page(1, 5), before("ts", 3), page(2, 4)], STREAM), 6).run()
    assert (tumbling.table["count"].to_pylist(), tumbling.statistics.late) == ([4], 0)
    # Tick 2 is in [-3, 3) and [0, 6), the first of which is released; 3 is in [0, 6) and [3, 9).
    sliding = consistent(oop.pages([page(1, 5), before("ts", 4), page(2, 3)], STREAM), 6, 3).run()
    assert (sliding.table["count"].to_pylist(), sliding.statistics.late) == ([1, 3, 2], 1)


@given(disordered(), st.integers(0, 5), sizes, sizes, st.integers(-3, 3))
@example([(1, "a"), (5, "a"), (2, "a"), (4, "a")], 0, 6, 1, 0)
def test_a_consistent_answer_depends_on_no_finer_promise_no_page_and_no_driver(
    rows: list[tuple[int, str]], slack: int, slide: int, times: int, origin: int
) -> None:
    size, released, most = slide * times, -(2**62), -(2**62)
    wanted: Counter[int] = Counter()
    late = 0
    for tick, _ in rows:
        most = max(most, tick)
        released = max(released, (most - slack - origin) // slide)
        wids = range((tick - origin) // slide, (tick - origin + size) // slide)
        if wids[0] < released:
            late += 1
        else:
            wanted.update(wids)
    for promise in (oop.slack(slack), oop.slack(slack, step=1)):
        read = oop.rows(rows, SCHEMA, punctuate=promise)
        query = read.window(range=size, slide=slide, origin=origin, consistent=True).aggregate(oop.count())
        for page_rows in (1, 7, 8192):
            ((found, dropped),) = results(guarded(Plan((query.node,))), page_rows)
            assert dropped == late, (promise, page_rows)
            assert found.total() == len(wanted)
        run = query.run()
        assert dict(zip(run.table["wid"].to_pylist(), run.table["count"].to_pylist(), strict=True)) == wanted
        assert run.statistics.late == late
        assert sorted(query.to_arrow()["count"].to_pylist()) == sorted(wanted.values())
