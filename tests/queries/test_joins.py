"""A join has one answer: from text or Python, under both drivers, at any page size, in any order of arrival."""

from __future__ import annotations

import functools
import random
from collections import Counter

import pytest

from oop_engine.drive.outcome import table_of
from oop_engine.drive.synchronous import Run
from oop_engine.language import LanguageError
from oop_engine.language.translate import query
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import slack
from operators.data.page import Page
from tests.examples import mostly_slow
from tests.queries.golden import Golden, Result
from tests.queries.joins import BOTH, GOLDEN, JOINED, OUTER, stream, streams
from tests.queries.test_golden import results

all_golden = pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
written_twice = pytest.mark.parametrize(
    "golden", [g for g in GOLDEN if g.python is not None], ids=lambda golden: golden.name
)


@functools.cache
def answer(golden: Golden) -> Counter[Result]:
    """Give the answer by definition, and make sure that there is something to compare."""
    expected = Counter(golden.expected(JOINED))
    assert expected.total() > 3
    return expected


@all_golden
@pytest.mark.parametrize("page_rows", [7, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 8192))])
def test_text_gives_the_answer_at_any_page_size(golden: Golden, page_rows: int) -> None:
    result = query(golden.text, streams())
    assert tuple(result.schema.names) == golden.columns
    assert results(result, page_rows) == answer(golden)


@all_golden
def test_text_gives_the_answer_under_trio(golden: Golden) -> None:
    result = query(golden.text, streams())
    outcome = result.run()
    table = outcome.table
    assert tuple(table.schema.names) == golden.columns
    assert table.num_rows == answer(golden).total()
    in_turn = [e for _, e in Run(Plan((result.node,))) if isinstance(e, Page)]
    assert Counter(map(str, table.to_pylist())) == Counter(map(str, table_of(result.schema.arrow, in_turn).to_pylist()))
    assert outcome.statistics.total("state_tuples") == 0


@written_twice
@pytest.mark.parametrize("page_rows", [7, 8192])
def test_python_gives_the_answer(golden: Golden, page_rows: int) -> None:
    assert golden.python is not None
    result = golden.python(streams())
    assert tuple(result.schema.names) == golden.columns
    assert results(result, page_rows) == answer(golden)


@all_golden
@pytest.mark.parametrize("seed", mostly_slow([1, 2], every=3))
def test_the_order_of_arrival_makes_no_difference(golden: Golden, seed: int) -> None:
    shuffled = {name: random.Random(seed).sample(list(table), len(table)) for name, table in JOINED.items()}
    assert results(query(golden.text, streams(shuffled)), 5) == answer(golden)


@all_golden
def test_slack_that_suffices_gives_the_answer_too(golden: Golden) -> None:
    promised = {name: stream(name, table, promises=[slack("150 s")]) for name, table in JOINED.items()}
    assert results(query(golden.text, promised), 3) == answer(golden)


@pytest.mark.parametrize("kind", mostly_slow(OUTER, every=2))
@pytest.mark.parametrize("page_rows", [1, 8192])
def test_outer_semi_and_anti_forms_give_the_answer(kind: str, page_rows: int) -> None:
    python, expected = OUTER[kind]
    result = python(streams())
    assert tuple(result.schema.names) == (BOTH[:7] if kind in ("semi", "anti") else BOTH)
    right = Counter(expected(JOINED))
    assert right.total() > 3
    assert results(result, page_rows) == right
    assert result.run().table.num_rows == right.total()


def test_what_of_a_join_is_read_again_is_the_same_stream() -> None:
    s = streams()
    met = s["M1"].join(s["M2"], ("srcIP", "destIP"), range="5 s", prefix="M2_")
    twice = met.project("ts", "M2_ts").meld(met.project(ts="ts", M2_ts="M2_ts"))
    once = results(met.project("ts", "M2_ts"))
    assert results(twice) == once + once


def test_the_misprint_of_q7_2_is_pointed_at() -> None:
    text = (
        "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA M1.ts] FROM M1 [RANGE 9 s, WA ts], M2 [RANGE 9 s, WA ts] "
        "WHERE M1.srcIP = M2.destIP and M1.destIP and M2.srcIP and M1.srcPort = M2.destPort"
    )
    with pytest.raises(LanguageError) as caught:
        query(text, streams())
    assert caught.value.column == text.index("M1.destIP and") + 1
    assert "M1.destIP is neither true nor false" in caught.value.message
    assert caught.value.hint == "Did you mean M1.destIP = M2.srcIP?"
