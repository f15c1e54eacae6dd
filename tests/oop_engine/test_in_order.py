"""A plan computed in order gives the answer of the plan as it was, over streams that are sorted between operators."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.in_order import Buffer, in_order
from oop_engine.api.stream import Stream
from oop_engine.drive.synchronous import Run
from oop_engine.language.translate import query
from oop_engine.plan.graph import Node, OperatorNode, Plan
from oop_engine.plan.punctuate import slack
from oop_engine.plan.window_join import WindowJoin
from oop_engine.rewrite.demand import windows_of
from operators.data.page import Page
from operators.functions import count
from operators.streams.meld import Meld
from operators.streams.merge import Merge
from operators.streams.reorder import Reorder
from operators.window_aggregate.bucket import FROM, Bucket
from operators.window_aggregate.facts import Grouping
from tests.examples import mostly_slow
from tests.queries import golden, joins, streams
from tests.queries.test_golden import results

WINDOWS = [g for g in golden.GOLDEN if g.in_any_order]
BUFFERS: tuple[Buffer, ...] = ("output", "input")


def operators(stream: Stream) -> list[object]:
    return [node.operator for node in Plan((stream.node,)).nodes if isinstance(node, OperatorNode)]


@pytest.mark.parametrize("golden", WINDOWS, ids=lambda golden: golden.name)
def test_window_queries_have_the_same_answers_in_order(golden: golden.Golden) -> None:
    tables = streams.TABLES
    found = in_order(query(golden.text, streams.streams()))
    assert tuple(found.schema.names) == golden.columns
    assert results(found, 7) == Counter(golden.expected(tables))


@pytest.mark.parametrize("golden", mostly_slow(joins.GOLDEN, every=3), ids=lambda golden: golden.name)
@pytest.mark.parametrize("buffer", BUFFERS)
def test_join_queries_have_the_same_answers_in_order(golden: golden.Golden, buffer: Buffer) -> None:
    found = in_order(query(golden.text, joins.streams()), buffer=buffer)
    assert tuple(found.schema.names) == golden.columns
    assert results(found, 7) == Counter(golden.expected(joins.JOINED))


@pytest.mark.parametrize("kind", joins.OUTER)
def test_outer_forms_have_the_same_answers_in_order(kind: str) -> None:
    python, expected = joins.OUTER[kind]
    found = in_order(python(joins.streams()), buffer="input")
    assert results(found, 7) == Counter(expected(joins.JOINED))
    assert found.run().table.num_rows == Counter(expected(joins.JOINED)).total()


def progressing(node: OperatorNode) -> list[str | None]:
    """Give the attribute by which each input of an operator should come in order."""
    operator = node.operator
    if isinstance(operator, WindowJoin):
        return list(operator.wattrs)
    if isinstance(operator, Bucket):
        return [None if operator.partition else operator.window.wattr]
    if isinstance(operator, Grouping) and windows_of(operator):
        return [FROM if FROM in node.inputs[0].schema else windows_of(operator)[0].wattr]
    return [None] * len(node.inputs)


@pytest.mark.parametrize("golden", [*WINDOWS, *joins.GOLDEN], ids=lambda golden: golden.name)
def test_what_windows_and_joins_read_is_sorted(golden: golden.Golden) -> None:
    given = joins.streams() if golden in joins.GOLDEN else streams.streams()
    found = in_order(query(golden.text, given))
    read: list[tuple[Node, str]] = []
    for node in Plan((found.node,)).nodes:
        if isinstance(node, OperatorNode):
            read += [(n, by) for n, by in zip(node.inputs, progressing(node), strict=True) if by is not None]
    for node, by in read:
        values = [v for _, e in Run(Plan((node,)), 7) if isinstance(e, Page) for v in timed(e, by)]
        assert values == sorted(values)


def timed(page: Page, by: str) -> list[int]:
    """Give the values of an attribute; a tuple without one has no place in the order."""
    valid = page.valid(by)
    ticks = page.ticks(by)
    return (ticks if valid is None else ticks[valid]).tolist()


def test_melds_become_merges_and_sources_are_sorted() -> None:
    s = streams.streams()
    counted = s["Main1"].meld(s["Main2"]).filter("length > 1").window(range="1 minute").aggregate(count())
    found = in_order(counted)
    kinds = [type(operator).__name__ for operator in operators(found)]
    assert kinds[:4] == ["Merge", "Merge", "Merge", "Filter"]
    assert not any(isinstance(operator, Meld) for operator in operators(found))
    labels = [node.label for node in Plan((found.node,)).nodes if isinstance(node, OperatorNode)]
    assert labels[:3] == ["sort by ts", "sort by ts", "merge of 2 by ts"]


def test_what_is_promised_in_order_is_not_sorted_again() -> None:
    schema = pa.schema([("ts", pa.int64())])
    ordered = oop.rows([(1,), (2,)], schema, punctuate=oop.ordered("ts"))
    assert not any(isinstance(o, Merge) for o in operators(in_order(ordered.window(range=2).aggregate(count()))))


@pytest.mark.parametrize("operator", [Merge(1, "len"), Reorder("len")])
def test_what_sorts_by_another_name_of_an_attribute_is_put_over_the_same_order(operator: Merge | Reorder) -> None:
    stream = oop.rows([(3,), (1,), (2,)], pa.schema([("length", pa.int64())]), punctuate=oop.slack(5, "length"))
    found = in_order(stream.apply(operator))
    assert [node.label for node in Plan((found.node,)).nodes][1:] == ["sort by length", type(operator).__name__]
    assert found.to_arrow()["length"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("given", "buffer", "text"),
    [
        ("x", "output", "^in_order takes a stream, and str is none.$"),
        (oop.packets(1), "x", r'in_order\(buffer="x"\): joins hold back their pairs, "output", or their left tuples'),
    ],
)
def test_what_cannot_be_put_in_order_is_said(given: Stream, buffer: Buffer, text: str) -> None:
    with pytest.raises(oop.PlanError, match=text):
        in_order(given, buffer=buffer)


def test_where_no_order_is_needed_nothing_changes() -> None:
    s = streams.streams()
    plain = s["Main1"].meld(s["Main2"]).filter("length > 1").project("length")
    assert in_order(plain).node is plain.node
    numbered = s["Main1"].meld(s["Main2"]).window(range="9 rows", wattr="row_num").aggregate(count())
    assert results(in_order(numbered)) == results(numbered)


def test_joins_hold_back_pairs_or_left_tuples_and_say_so() -> None:
    s = joins.streams()
    joined = (
        s["M1"].join(s["M2"], ("srcIP", "destIP"), range="5 s", prefix="M2_").window(range="5 s").aggregate(count())
    )
    held: dict[str, int] = {}
    remarks = {"output": "pairs are held back", "input": "left tuples are held back"}
    for buffer in BUFFERS:
        found = in_order(joined, buffer=buffer)
        assert remarks[buffer] in found.explain()
        (details,) = [o.details for o in found.run().statistics.operators if "buffered" in o.details]
        held[buffer] = details["peak_state_tuples"]
        assert details["state_tuples"] == 0
    assert held["output"] > held["input"]


def test_a_merge_holds_the_skew_that_a_meld_lets_through() -> None:
    promised = {n: streams.stream(n, t, promises=[slack("100 s")]) for n, t in streams.TABLES.items()}
    counted = promised["Main1"].meld(promised["Main2"]).window(range="1 minute").aggregate(count())
    out_of_order, ordered = counted.run().statistics.peak_state, in_order(counted).run().statistics.peak_state
    assert out_of_order < ordered / 3


def test_a_plan_runs_in_order_by_its_mode() -> None:
    links = oop.meld(oop.packets(200, rate=20, link="A", seed=1), oop.packets(200, rate=20, link="B", seed=2))
    counts = links.window(range="2 s").aggregate(oop.count())
    assert counts.run(mode="iop").table.sort_by("wid").equals(counts.run().table.sort_by("wid"))
    with pytest.raises(oop.PlanError, match='out of order, "oop", or in order, "iop"'):
        counts.run(mode="sorted")  # type: ignore[arg-type]
