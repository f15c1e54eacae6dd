"""What several queries have in common is computed once, and none of them notices."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import OperatorNode, Plan
from oop_engine.rewrite.sharing import conditions, shared
from operators.data.page import Page, Row
from operators.rows.filter import Filter

TABLE = pa.table({"ts": [1, 2, 3, 4], "x": [1, None, 3, 4], "y": [5, 6, None, 8]})
PREDICATES = st.lists(st.sampled_from(["x > 1", "y < 8", "x + y > 9", "x = 3 or y = 5"]), min_size=1, max_size=3).map(
    " and ".join
)


def filters(plan: Plan) -> list[str]:
    nodes = [node for node in plan.nodes if isinstance(node, OperatorNode)]
    return [str(node.operator.predicate) for node in nodes if isinstance(node.operator, Filter)]


def answers(plan: Plan) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in plan.outputs]
    for number, element in Run(plan):
        if isinstance(element, Page):
            found[number] += element.rows()
    return found


def plan_of(*streams: oop.Stream) -> Plan:
    return Plan(tuple(stream.node for stream in streams))


def test_conditions_that_all_queries_make_are_tried_once() -> None:
    source = oop.arrow(TABLE)
    plan = plan_of(source.filter("x > 1 and y < 8"), source.filter("y < 8 and x = 1"), source.filter("y < 8"))
    assert filters(shared(plan)) == ["y < 8", "x > 1", "x = 1"]
    assert answers(shared(plan)) == answers(plan)


def test_a_stream_that_something_reads_whole_is_not_filtered_before() -> None:
    source = oop.arrow(TABLE)
    for other in (source, source.project("x")):
        plan = plan_of(source.filter("x > 1"), source.filter("x > 1 and y < 8"), other)
        assert filters(shared(plan)) == ["x > 1", "x > 1 and y < 8"]


def test_equal_steps_over_one_stream_are_one() -> None:
    source = oop.arrow(TABLE)
    plan = plan_of(*(source.filter("x > 1").derive(z="x + 1").project("z") for _ in range(3)))
    assert len(plan.nodes) == 10
    assert len(shared(plan).nodes) == 4
    apart = plan_of(source.derive(z="x + 1"), source.derive(z="x + 2"))
    assert len(shared(apart).nodes) == 3


@given(st.lists(PREDICATES, min_size=1, max_size=4))
def test_sharing_changes_no_answer(predicates: list[str]) -> None:
    source = oop.arrow(TABLE)
    plan = plan_of(*(source.filter(predicate) for predicate in predicates))
    assert answers(shared(plan)) == answers(plan)


@pytest.mark.parametrize(("text", "count"), [("x > 1", 1), ("x > 1 and y < 8 and x < 4", 3), ("x > 1 or y < 8", 1)])
def test_conditions_are_what_and_joins(text: str, count: int) -> None:
    (node,) = [n for n in plan_of(oop.arrow(TABLE).filter(text)).nodes if isinstance(n, OperatorNode)]
    assert isinstance(node.operator, Filter)
    assert len(conditions(node.operator.predicate)) == count


def test_outputs_of_one_run_share(tmp_path: object) -> None:
    source = oop.arrow(TABLE, name="Main")
    outputs = [source.filter("x > 1").to(f"{tmp_path}/{i}.csv") for i in range(2)]
    statistics = oop.run_outputs(outputs)
    assert [o.label for o in statistics.operators] == ["Main", "filter x > 1"]
