"""Apply adds attributes, keeps all others, and adds the promises that follow for the new ones."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest
from hypothesis import given

from operators.data.schema import Schema
from operators.drive import drive
from operators.errors import SchemaError
from operators.expression import Column, Expression
from operators.rows import apply as module
from operators.rows.apply import Apply
from operators.testing import Script, check_operator, streams
from punctuation import Below, Equals, Punctuation, before
from tests.examples import share
from tests.naive import naive_apply

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), x=pa.int32(), progress=["ts", ("k", "ts")])
COLUMNS: dict[str, Expression] = {"bits": Column("x") * 8, "bucket": Column("ts") // 3}


@share(1.5)
@given(streams(SCHEMA, group=("k",)))
def test_apply_keeps_the_laws(script: Script) -> None:
    check_operator(
        lambda: Apply(COLUMNS),
        script,
        naive=lambda table: naive_apply(COLUMNS, table, SCHEMA),
        settled=lambda tables, progress: naive_apply(COLUMNS, tables[0], SCHEMA),
        promised=lambda tables, progress: list(progress[0].promises()),
    )


def test_promises_pass_and_those_of_new_attributes_follow() -> None:
    apply = Apply(COLUMNS)
    output = apply.output_schema(SCHEMA)
    assert output.names == ["ts", "k", "x", "bits", "bucket"]
    assert output.progress == SCHEMA.progress | {frozenset({"bucket"})}
    group_wise = Punctuation({"k": Equals("a"), "ts": Below(7)})
    assert [str(p) for p in drive(apply, [before("ts", 6), group_wise])] == [
        "[ts < 6]",
        "[bucket < 2]",
        "[k = a, ts < 7]",
        "[bucket < 2, k = a]",
    ]


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(SchemaError, match="already has an attribute"):
        Apply({"x": Column("x") + 1}).output_schema(SCHEMA)


def test_the_example_in_the_docstring_runs() -> None:
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
