"""Each golden query over small streams has one answer: from text, in Python, and from DuckDB where that can say it."""

from __future__ import annotations

import zlib

import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.outcome import table_of
from oop_engine.drive.synchronous import Run
from oop_engine.language import parse, unparse
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from tests.queries.small import duckdb_tables, small_streams, written
from tests.queries.small_answers import CASES, answers
from tests.queries.small_cases import Case
from tests.queries.test_golden import GOLDEN
from tests.queries.test_joins import GOLDEN as JOINS

STREAMS = small_streams()
PAGES = (1, 5, 8192)
every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)


def rows(stream: Stream, page_rows: int) -> list[str]:
    """Return the rows of a run in the calling thread."""
    pages = [e for _, e in Run(Plan((stream.node,)), page_rows=page_rows) if isinstance(e, Page)]
    return written(table_of(stream.schema.arrow, pages))


def test_there_are_three_hundred_golden_queries() -> None:
    texts = {case.text for case in CASES} | {golden.text for golden in (*GOLDEN, *JOINS)}
    assert len(texts) >= 300
    assert list(answers()) == [case.text for case in CASES]


@every
def test_text_and_python_give_the_answer(case: Case) -> None:
    stream, python = oop.query(case.text, STREAMS), case.python(STREAMS)
    assert stream.schema.names == python.schema.names
    size = zlib.crc32(case.text.encode()) % len(PAGES)
    assert rows(stream, PAGES[size]) == answers()[case.text]
    assert rows(python, PAGES[size - 1]) == answers()[case.text]


@pytest.mark.parametrize("text", [case.text for case in CASES] + [golden.text for golden in (*GOLDEN, *JOINS)])
def test_text_of_the_tree_means_the_same(text: str) -> None:
    tree = parse(text)
    assert parse(unparse(tree)) == tree
    assert unparse(parse(unparse(tree))) == unparse(tree)


def test_duckdb_gives_the_same_answers() -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is an optional program that answers are compared with")
    database = duckdb.connect()
    for name, table in duckdb_tables().items():
        database.register(name, table)
    said = [case for case in CASES if case.sql is not None]
    assert len(said) > 200
    for case in said:
        assert written(database.sql(case.sql).to_arrow_table()) == answers()[case.text], case.text
