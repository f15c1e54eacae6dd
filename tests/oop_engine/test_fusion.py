"""Queries of one run share slices, and each gives what it gives alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.windowing import WindowOf
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.rewrite.fusion import fused
from oop_engine.rewrite.sharing import shared
from oop_engine.rewrite.strategy import FEWEST
from oop_engine.sinks import ListSink
from operators.data.page import Page
from operators.protocol import Element
from operators.window import SlidingWindow
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.slices import Portion, SlicingAggregate
from punctuation import Punctuation

TABLE = pa.table({"ts": [3, 1, 4, 12, 9], "k": [1, 2, 1, 1, 2], "v": [5, 6, None, 8, 9]})
FUNCTIONS = [
    oop.count(), oop.count("v"), oop.sum("v"), oop.avg("v"), oop.min("v"), oop.max("v"), oop.median("v"),
    oop.first("v"), oop.count_distinct("v"), oop.concat("s"),
]  # fmt: skip
lengths = st.integers(1, 6)
repeating = st.builds(oop.sliding, lengths, lengths, origin=st.integers(-2, 2))
windows: st.SearchStrategy[WindowOf] = st.one_of(
    repeating,
    repeating,
    st.builds(oop.sliding, lengths, lengths, partial=st.just(False)),
    st.builds(oop.session, lengths),
    st.builds(oop.band, st.integers(-2, 9), lengths),
    st.just(oop.marked("m")),
    st.builds(oop.counted, st.integers(1, 3)),
)
rows = st.tuples(
    st.sampled_from([0, 0, 1, 2, 3, 9]), st.integers(-4, 0), st.integers(0, 2), st.integers(0, 1),
    st.none() | st.integers(-3, 3), st.sampled_from([False, False, True]),
)  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw tuples whose times lag by up to 4 ticks."""
    drawn = draw(st.lists(rows, max_size=14))
    times = list(accumulate(row[0] for row in drawn))
    lag, k, j, v, m = zip(*(row[1:] for row in drawn), strict=True) if drawn else ((),) * 5
    ints = {"ts": [time + late for time, late in zip(times, lag, strict=True)], "k": k, "j": j, "v": v}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in ints.items()})
    texts = pa.array([chr(97 + i) for i in range(len(drawn))], pa.string())
    return table.append_column("m", pa.array(m, pa.bool_())).append_column("s", texts)


@st.composite
def query(draw: st.DrawFn, kinds: st.SearchStrategy[WindowOf] = windows) -> tuple[object, ...]:
    """Draw what is said of a query: filter, windows, functions, groups."""
    condition = draw(st.sampled_from([None, None, None, "v > 0", "v > 0 and j = 1"]))
    many = draw(st.sampled_from([1, 1, 1, 2]))
    windows = draw(st.lists(kinds, min_size=many, max_size=many))
    if many > 1:
        windows = [w for w in windows if "rank" not in str(w)] or [oop.tumbling(3)]
    functions = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=3, unique_by=id))
    named = dict(zip(draw(st.permutations(["a", "b", "c"])), functions, strict=False))
    return condition, windows, named, draw(st.sampled_from([(), (), "k", ("k", "j"), ("j", "k")]))


def made(source: oop.Stream, said: tuple[object, ...]) -> oop.Stream:
    condition, windows, functions, by = said
    stream = source if condition is None else source.filter(condition)  # type: ignore[arg-type]
    if len(windows) == 1:  # type: ignore[arg-type]
        return stream.window(windows[0]).aggregate(**functions, by=by)  # type: ignore[index, arg-type]
    return stream.windows(dict(zip("xyz", windows, strict=False))).aggregate(**functions, by=by)  # type: ignore[call-overload, arg-type]


def plan_of(streams: Sequence[oop.Stream]) -> Plan:
    return Plan(tuple(stream.node for stream in streams))


def found(plan: Plan, driver: str = "synchronous", page_rows: int = 3) -> list[list[Element]]:
    """Run a plan and give the elements of each output."""
    elements: list[list[Element]] = [[] for _ in plan.outputs]
    if driver == "trio":
        run_to_end(plan, [partial(list[Element].append, each) for each in elements], page_rows=page_rows)
    else:
        for number, element in Run(plan, page_rows):
            elements[number].append(element)
    return elements


def answers(elements: list[Element]) -> list[str]:
    return sorted(repr(row) for element in elements if isinstance(element, Page) for row in element.rows())


def promises(elements: list[Element]) -> list[str]:
    return [str(element) for element in elements if isinstance(element, Punctuation)]


def operators(plan: Plan, kind: type) -> int:
    return sum(isinstance(node, OperatorNode) and isinstance(node.operator, kind) for node in plan.nodes)


@given(
    tables(),
    st.lists(query(), min_size=2, max_size=5),
    st.sampled_from([None, 0, 2]),
    st.sampled_from(["synchronous", "trio"]),
    st.sampled_from([2, 100]),
)
def test_each_of_several_queries_gives_what_it_gives_alone(
    table: pa.Table, said: list[tuple[object, ...]], slack: int | None, driver: str, fewest: int
) -> None:
    # Which tuples a source lets pass as late depends on all that reads it, so that none is late here.
    source = oop.arrow(table) if slack is None else oop.arrow(table, slack=4 + slack)
    streams = [made(source, each) for each in said]
    together = fused(shared(plan_of(streams)), fewest=fewest)
    assert [node.schema.arrow for node in together.outputs] == [stream.schema.arrow for stream in streams]
    alone = [found(plan_of([stream]))[0] for stream in streams]
    assert [answers(each) for each in found(together, driver)] == [answers(each) for each in alone]


@given(
    tables(),
    st.lists(query(repeating), min_size=2, max_size=5),
    st.integers(0, 3),
    st.sampled_from(["drop", "revise"]),
)
def test_windows_that_repeat_agree_about_late_tuples_and_promises(
    table: pa.Table, said: list[tuple[object, ...]], slack: int, late: str
) -> None:
    source = oop.arrow(table, slack=slack, late=late)
    streams = [made(source, each) for each in said]
    apart = shared(plan_of(streams))
    for one, other in zip(found(fused(apart, fewest=2)), found(apart), strict=True):
        assert answers(one) == answers(other)
        assert promises(one) == promises(other)


@given(tables(), st.lists(query(), min_size=2, max_size=4), st.integers(0, 3))
def test_a_late_tuple_is_in_the_windows_that_it_is_in_apart(
    table: pa.Table, said: list[tuple[object, ...]], slack: int
) -> None:
    source = oop.arrow(table, slack=slack)
    apart = shared(plan_of([made(source, each) for each in said]))
    together = fused(apart, fewest=2)
    assert [answers(each) for each in found(together)] == [answers(each) for each in found(apart)]


def test_equal_functions_under_other_names_are_computed_once() -> None:
    source = oop.arrow(TABLE)
    plan = fused(
        plan_of([
            source.window(4).aggregate(total=oop.sum("v"), n=oop.count()),
            source.window(3).aggregate(n=oop.sum("v"), count=oop.max("v")),
        ])
    )  # fmt: skip
    (operator,) = [
        n.operator for n in plan.nodes if isinstance(n, OperatorNode) and isinstance(n.operator, SlicingAggregate)
    ]
    assert list(operator.functions) == ["total", "n", "count"]
    assert operators(plan, Portion) == 2


@pytest.mark.parametrize(
    ("others", "by", "fusions"),
    [
        ([{}], (), 1),
        ([{"strategy": "panes"}], (), 0),
        ([{"strategy": "slicing"}], (), 0),
        ([{"lateness": 2}], (), 0),
        ([{"empty": True}], (), 0),
        ([{"by": "k"}], (), 0),
        ([{}], "k", 0),
        ([{}, {}], "k", 1),
    ],
)
def test_what_the_user_asked_for_stays_as_it_is(
    others: list[dict[str, object]], by: str | tuple[str, ...], fusions: int
) -> None:
    assert FEWEST == 3
    source = oop.arrow(TABLE)
    streams = [source.window(2).aggregate(oop.count(), by=by)]
    for place, other in enumerate(others):
        streams.append(source.window(5 + place).aggregate(oop.count(), **{"by": by, **other}))  # type: ignore[arg-type]
    assert (
        operators(fused(plan_of(streams)), SlicingAggregate) - operators(plan_of(streams), SlicingAggregate) == fusions
    )
    consistent = source.window(4, consistent=True).aggregate(oop.count())
    assert operators(fused(plan_of([source.window(2).aggregate(oop.count()), consistent])), SlicingAggregate) == 0


def test_with_equal_windows_only_the_functions_are_united() -> None:
    source = oop.arrow(TABLE)
    plan = plan_of([source.window(4).aggregate(f, by="k") for f in (oop.count(), oop.sum("v"), oop.count())])
    together = fused(plan)
    assert len(plan.nodes) == 7
    assert [node.label for node in together.nodes][:3] == [
        "arrow", "bucket [RANGE 4, SLIDE 4, WA ts]", "aggregate count(*), sum(v) by k",
    ]  # fmt: skip
    assert len(together.nodes) == 6
    assert [answers(each) for each in found(together)] == [answers(each) for each in found(plan)]


def test_with_groups_a_few_windows_that_overlap_are_carried_over_alone() -> None:
    source = oop.arrow(TABLE)
    sliding = [source.window(4 + i, slide=2).aggregate(oop.count(), by="k") for i in range(3)]
    tumbling = [source.window(4 + i).aggregate(oop.count(), by="k") for i in range(3)]
    assert operators(fused(plan_of(sliding[:2])), SlicingAggregate) == 0
    assert operators(fused(plan_of(sliding)), Portion) == 3
    assert operators(fused(plan_of([sliding[0], tumbling[0]])), SlicingAggregate) == 0
    assert operators(fused(plan_of([*sliding[:2], tumbling[0]])), Portion) == 3
    assert operators(fused(plan_of([*sliding, *tumbling])), Portion) == 6


def test_a_query_that_names_one_window_twice_stays_as_it_is() -> None:
    source = oop.arrow(TABLE)
    twice = source.windows(a=oop.tumbling(4), b=oop.tumbling(4)).aggregate(oop.count())
    plan = plan_of([twice, source.window(3).aggregate(oop.count())])
    assert [node.label for node in fused(plan).nodes] == [node.label for node in plan.nodes]


def test_estimates_and_what_is_not_commutative_are_not_cut_by_other_windows() -> None:
    source = oop.arrow(TABLE)
    for function in (oop.approx_quantile("v", 0.5), oop.user_aggregate(
        "latest", lambda v: v, lambda a, b: b if b != 0 else a, arguments="v", identity=0, output=pa.int64(),
        commutative=False, interpreted=True,
    )):  # fmt: skip
        plan = plan_of([source.window(size).aggregate(function) for size in (4, 2, 4)])
        # The same windows are computed once; no window of one size cuts those of the other.
        together = [node.operator for node in fused(plan).nodes if isinstance(node, OperatorNode)]
        sliced = [list(o.windows.values()) for o in together if isinstance(o, SlicingAggregate)]
        panes = [[o.window] for o in together if isinstance(o, WindowAggregate)]
        assert [[w.size for w in windows if isinstance(w, SlidingWindow)] for windows in sliced + panes] == [[4], [2]]
        assert bool(panes) == function.commutative


def test_what_reads_the_ids_of_windows_is_released_as_soon_as_alone() -> None:
    table = pa.table({"ts": list(range(40)), "v": [1] * 40})
    source = oop.arrow(table, punctuate=oop.every(1))
    first = source.window(4).aggregate(oop.count(), oop.sum("v"))
    over = first.aggregate(oop.max("sum_v"), by="wid")
    apart = plan_of(
        [over, source.window(oop.session(3)).aggregate(oop.count()), source.window(40).aggregate(oop.count())]
    )
    together = fused(apart)
    assert operators(together, SlicingAggregate) == 1
    one, other = found(together, page_rows=1)[0], found(apart, page_rows=1)[0]
    assert answers(one) == answers(other)
    assert promises(one) == promises(other)
    assert len(promises(one)) > 8


def test_outputs_of_one_run_are_fused_and_the_explanation_says_so() -> None:
    source = oop.arrow(TABLE, name="Main")
    kept: list[list[Element]] = [[], []]
    queries = [source.window(4).aggregate(oop.count()), source.window(oop.session(2)).aggregate(oop.sum("v"))]
    outputs = [query.to(ListSink(pages)) for query, pages in zip(queries, kept, strict=True)]
    statistics = oop.run_outputs(outputs)
    assert [operator.label for operator in statistics.operators] == [
        "Main", "slice and aggregate count(*), sum(v)", "results of aggregate count(*)",
        "results of slice and aggregate sum(v)",
    ]  # fmt: skip
    text = oop.explain_outputs(outputs)
    assert "2 queries fused, equal functions computed once (Algorithm 2)" in " ".join(text.replace("│", " ").split())
    assert "tuples are not kept besides slices" in text
    assert outputs[0].explain() == queries[0].explain()
