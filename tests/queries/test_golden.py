"""A golden query has one answer: from text or Python, under both drivers, at any page size, in any order of arrival."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable

import pytest

from oop_engine.api.stream import Stream
from oop_engine.drive.outcome import table_of
from oop_engine.drive.synchronous import Run
from oop_engine.language.translate import query
from oop_engine.plan.graph import Plan
from oop_engine.plan.punctuate import slack
from operators.data.page import Page
from tests.queries import daily, windows
from tests.queries.golden import GOLDEN as OF_THE_THESIS
from tests.queries.golden import Golden, Result
from tests.queries.streams import TABLES, plain, stream, streams

GOLDEN = (*OF_THE_THESIS, *daily.GOLDEN, *windows.GOLDEN)
all_golden = pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)


@functools.cache
def answer(golden: Golden) -> Counter[Result]:
    """Give the answer by definition, and make sure that there is something to compare."""
    expected = Counter(golden.expected(TABLES))
    assert bool(expected) != golden.empty
    return expected


def rows(pages: Iterable[Page]) -> Counter[Result]:
    """Give all rows of results, how often each."""
    return Counter(plain(row) for page in pages for row in page.plain_rows())


def results(result: Stream, page_rows: int = 8192) -> Counter[Result]:
    """Run a stream in the calling thread."""
    return rows(e for _, e in Run(Plan((result.node,)), page_rows=page_rows) if isinstance(e, Page))


@all_golden
@pytest.mark.parametrize("page_rows", [1, 7, 8192])
def test_text_gives_the_answer_at_any_page_size(golden: Golden, page_rows: int) -> None:
    result = query(golden.text, streams())
    assert tuple(result.schema.names) == golden.columns
    assert results(result, page_rows) == answer(golden)


@all_golden
def test_text_gives_the_answer_under_trio(golden: Golden) -> None:
    result = query(golden.text, streams())
    table = result.run().table
    expected = answer(golden)
    assert tuple(table.schema.names) == golden.columns
    assert table.num_rows == expected.total()
    in_turn = [e for _, e in Run(Plan((result.node,))) if isinstance(e, Page)]
    assert Counter(map(str, table.to_pylist())) == Counter(map(str, table_of(result.schema.arrow, in_turn).to_pylist()))


@pytest.mark.parametrize("golden", [g for g in GOLDEN if g.python is not None], ids=lambda golden: golden.name)
def test_python_gives_the_answer(golden: Golden) -> None:
    assert golden.python is not None
    result = golden.python(streams())
    assert tuple(result.schema.names) == golden.columns
    assert results(result, 7) == answer(golden)


@pytest.mark.parametrize("golden", [g for g in GOLDEN if g.in_any_order], ids=lambda golden: golden.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_arrival_makes_no_difference(golden: Golden, seed: int) -> None:
    shuffled = {name: random.Random(seed).sample(list(table), len(table)) for name, table in TABLES.items()}
    assert results(query(golden.text, streams(shuffled)), 5) == answer(golden)


@pytest.mark.parametrize("golden", [g for g in GOLDEN if "RANGE" in g.text], ids=lambda golden: golden.name)
def test_slack_that_suffices_gives_the_answer_too(golden: Golden) -> None:
    promised = {name: stream(name, table, promises=[slack("100 s")]) for name, table in TABLES.items()}
    assert results(query(golden.text, promised), 3) == answer(golden)
