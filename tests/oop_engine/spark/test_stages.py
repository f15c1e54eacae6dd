"""A plan is cut where tuples must meet: as much as can be runs before the shuffle, and by key after it."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

from pyspark import cloudpickle

from oop_engine.api.stream import Stream
from oop_engine.plan.graph import Plan, operator_node
from oop_engine.plan.punctuate import slack
from oop_engine.rewrite.demand import pruned
from oop_engine.spark.explained import explain_on_spark
from oop_engine.spark.partial_final import in_levels
from oop_engine.spark.stages import FRONT, KEYED, TAIL, Cut, cut
from operators import functions as f
from operators.streams.reorder import Reorder
from tests.oop_engine.spark.plans import FREE, ORDERED, stream


def made(name: str) -> Stream:
    """Make one of the small plans over streams without tuples."""
    return {**FREE, **ORDERED}[name]({n: stream(n, []) for n in "ab"})


def stages(whole: Cut) -> dict[str, int]:
    """Give the stage of each node by its label's first word; the last of those with one word."""
    return {node.label.split()[0]: stage for node, stage in zip(whole.plan.nodes, whole.stages, strict=True)}


def of(name: str) -> Cut:
    """Cut one of the small plans."""
    return cut(pruned(Plan((made(name).node,))))


def keys(whole: Cut) -> list[tuple[str, ...]]:
    """Give the keys of the edges into the keyed stage."""
    return [edge.keys for edge in whole.into(KEYED)]


def test_a_window_aggregate_is_shuffled_by_its_groups_behind_its_bucket() -> None:
    whole = of("sliding")
    assert stages(whole) == {"a": FRONT, "bucket": FRONT, "aggregate": KEYED}
    assert keys(whole) == [("k",)] and not whole.ordered
    assert whole.edges[0].ranked == "wid_from"


def test_a_ranking_is_shuffled_by_its_groups_or_stands_behind_what_is_shuffled_by_others() -> None:
    whole = of("ranked by time")
    assert stages(whole)["order"] == KEYED and keys(whole) == [("ts",)]
    whole = of("ranked windows")
    assert (stages(whole)["aggregate"], stages(whole)["order"]) == (KEYED, TAIL)
    assert not whole.ordered and not of("ranked").ordered


def test_a_join_is_shuffled_by_its_equality_on_both_sides() -> None:
    assert keys(of("join")) == [("k",), ("k",)]
    assert keys(of("left join")) == [("k", "n"), ("k", "n")]
    assert stages(of("join without equality"))["join"] == TAIL


def test_what_follows_on_fewer_keys_decides_the_shuffle_before_it() -> None:
    whole = of("aggregate of an aggregate")
    assert keys(whole) == [("k",)] and TAIL not in whole.stages
    assert keys(of("join of aggregates")) == [("k",), ("k",)]
    assert TAIL not in of("join of aggregates").stages


def test_what_needs_all_tuples_is_in_the_tail() -> None:
    assert stages(of("no groups"))["aggregate"] == TAIL
    assert stages(of("landmark"))["aggregate"] == TAIL
    assert of("busiest").stages[-1] == TAIL and KEYED in of("busiest").stages


def test_what_depends_on_arrival_has_all_before_it_in_one_task() -> None:
    assert of("numbered").stages == (FRONT,) * len(of("numbered").stages)
    first = of("first")
    assert first.ordered and stages(first)["aggregate"] == KEYED
    unknown = operator_node(Reorder("ts", slack_time=3), made("sliding").node.inputs[0].inputs[0], label="reorder")
    above = Stream(unknown).window(range=4).aggregate(f.count(), by="k")
    assert stages(cut(Plan((above.node,)))) == {"a": FRONT, "reorder": FRONT, "bucket": FRONT, "aggregate": KEYED}


def test_a_name_that_is_computed_anew_is_no_key_any_more() -> None:
    given = stream("a", []).window(range=4).aggregate(c=f.count(), by="k")
    renamed = (
        given.project("window_end", "c", key="k").window(range=8, wattr="window_end").aggregate(f.sum("c"), by="key")
    )
    assert TAIL not in cut(pruned(Plan((renamed.node,)))).stages
    derived = given.project("window_end", "c", k="c % 2")
    again = derived.window(range=8, wattr="window_end").aggregate(f.sum("c"), by="k")
    assert cut(pruned(Plan((again.node,)))).stages[-1] == TAIL


@pytest.mark.parametrize("name", [*FREE, *ORDERED])
def test_a_cut_plan_travels(name: str) -> None:
    whole = of(name)
    there: Cut = cloudpickle.loads(cloudpickle.dumps(whole))
    assert there.stages == whole.stages and there.edges == whole.edges
    assert [node.label for node in there.plan.nodes] == [node.label for node in whole.plan.nodes]
    assert [node.schema for node in there.plan.nodes] == [node.schema for node in whole.plan.nodes]


def test_what_takes_tuples_one_by_one_is_before_the_shuffle() -> None:
    assert stages(of("spread")) == {"a": FRONT, "derive": FRONT, "spread": FRONT, "bucket": FRONT, "aggregate": KEYED}


def test_what_is_spread_is_no_key_any_more() -> None:
    given = stream("a", []).window(range=4).aggregate(c=f.count(), by=("k", "n"))
    spread = given.spread("c", step=2, start="window_start", end="window_end", into="window_start")
    again = spread.window(range=8, wattr="window_start")
    assert TAIL not in cut(pruned(Plan((again.aggregate(f.sum("c"), by="k").node,)))).stages
    by_amount = cut(pruned(Plan((again.aggregate(f.count(), by="c").node,))))
    assert by_amount.stages[-1] == TAIL


def test_what_has_parts_is_aggregated_before_the_shuffle() -> None:
    assert "low-level aggregate" in str([node.label for node in in_levels(of("sliding")).nodes])
    assert len(in_levels(of("median")).nodes) == len(of("median").plan.nodes)


def test_explain_says_which_part_runs_where_and_why() -> None:
    text = " ".join(explain_on_spark(made("sliding"), buckets=4).split())
    assert "keyed in 4 buckets, by k" in text and "yes: partitions send partial aggregates" in text
    assert "number as row_num: Number may depend on the order of arrival" in " ".join(
        explain_on_spark(made("rows")).split()
    )
    assert "(there are no groups)" in explain_on_spark(made("no groups"))
    promised = FREE["sliding"]({"a": stream("a", [], slack(3))})
    assert "because a is promised by slack 3 on ts" in " ".join(explain_on_spark(promised).split())
    streamed = " ".join(explain_on_spark(promised, streaming=True).split())
    assert "its state in Spark's state store" in streamed
    assert "yes: partitions send partial aggregates of slices, and the front takes out what is late" in streamed
    assert "read a: its partitions do all this ahead of the front" in streamed
    assert "pages of low-level aggregate" in streamed
    filtered = stream("a", [], slack(3)).filter("x > 0").window(range=6, slide=2).aggregate(f.count(), by="k")
    streamed = " ".join(explain_on_spark(filtered, streaming=True).split())
    assert "yes: the front sends partial aggregates of slices, once a micro-batch" in streamed
    assert "ahead of the front" not in streamed


def test_explain_says_what_sparks_windows_would_make_of_a_tuple() -> None:
    from tests.queries.streams import streams

    result = streams()["Main"].window(range="60 s", slide="1 s").aggregate(f.count(), by="srcIP")
    assert "would make 60 rows of each tuple" in explain_on_spark(result)
    assert "Its windows are others" not in explain_on_spark(result)
    uneven = streams()["Main"].window(range="25 s", slide="10 s").aggregate(f.count(), by="srcIP")
    text = " ".join(explain_on_spark(uneven).split())
    assert "they begin at multiples of SLIDE, and windows here end there; with RANGE no multiple of SLIDE" in text


def test_explain_says_that_an_interpreted_function_is_slow() -> None:
    own = f.user_aggregate(
        "own", lambda x: x, lambda a, b: a + b, arguments="x", identity=0, output=pa.int64(), interpreted=True
    )
    for changed, times in ((own, 1), (attrs.evolve(own, interpreted=False, verbs={}), 0)):
        text = explain_on_spark(stream("a", []).window(range=6, slide=2).aggregate(changed, z=changed, by="k"))
        assert text.count('user function "own" is interpreted, some thousand times slower than compiled') == times
