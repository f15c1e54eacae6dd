"""How functions are named in queries and how their results are called."""

from __future__ import annotations

import doctest

import pyarrow as pa
import pytest

import operators.functions
from operators import functions as fn
from operators.errors import SchemaError
from operators.functions import Accumulator, AggregateFunction
from operators.schema import Schema

EVERY = [
    (fn.count(), "count"),
    (fn.count("x"), "count_x"),
    (fn.sum("x"), "sum_x"),
    (fn.min("x"), "min_x"),
    (fn.max("x"), "max_x"),
    (fn.avg("x"), "avg_x"),
    (fn.variance("x"), "variance_x"),
    (fn.stddev("x"), "stddev_x"),
    (fn.first("x"), "first_x"),
    (fn.last("x"), "last_x"),
    (fn.argmin("x", "y"), "argmin_x_y"),
    (fn.argmax("x", "y"), "argmax_x_y"),
    (fn.count_distinct("x"), "count_distinct_x"),
    (fn.count_distinct("x", "y"), "count_distinct_x_y"),
]


@pytest.mark.parametrize(("function", "name"), EVERY, ids=[name for _, name in EVERY])
def test_a_function_is_found_by_its_name_and_names_its_result(function: AggregateFunction, name: str) -> None:
    assert function.output_name() == name
    assert fn.by_name(function.name.upper(), function.arguments) == function
    assert isinstance(function, AggregateFunction)
    assert hash(function) == hash(fn.by_name(function.name, list(function.arguments)))
    accumulator = function.accumulator(Schema.of(x=pa.int64(), y=pa.int64()))
    assert isinstance(accumulator, Accumulator)
    assert (function.name in ("first", "last")) == function.arrival_order


@pytest.mark.parametrize(
    ("alias", "function"), [("mean", fn.avg("x")), ("var", fn.variance("x")), ("std", fn.stddev("x"))]
)
def test_aliases_mean_the_same(alias: str, function: AggregateFunction) -> None:
    assert fn.by_name(alias, ["x"]) == function


def test_count_takes_a_star_an_attribute_or_distinct_ones() -> None:
    assert fn.by_name("count", ["*"]) == fn.by_name("count", []) == fn.count()
    assert fn.by_name("count", ["x"], distinct=True) == fn.count_distinct("x")
    assert fn.by_name("count", ["x", "y"], distinct=True) == fn.count_distinct("x", "y")


def test_distinct_changes_nothing_for_extremes_and_is_refused_for_sums() -> None:
    assert fn.by_name("min", ["x"], distinct=True) == fn.min("x")
    with pytest.raises(
        SchemaError, match=r"only count, min and max take distinct.\n  Write count\(distinct x\), or sum"
    ):
        fn.by_name("sum", ["x"], distinct=True)


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("summ", ["x"], 'Did you mean "sum"'),
        ("stdev", ["x"], 'Did you mean "stddev"'),
        ("median", ["x"], 'there is no aggregate function "median"'),
        ("sum", [], r"0 arguments given.\n  Write sum\(x\)"),
        ("argmin", ["x"], r"1 argument given.\n  Write argmin\(x, y\)"),
        ("sum", ["*"], r"Write sum\(x\)"),
        ("count", ["x", "y"], r"Write count\(\*\) or count\(x\)"),
    ],
)
def test_a_wrong_call_is_told_what_to_write(name: str, arguments: list[str], told: str) -> None:
    with pytest.raises(SchemaError, match=told):
        fn.by_name(name, arguments)


def test_an_unknown_attribute_is_told_with_the_function() -> None:
    for function, _ in EVERY[1:]:
        with pytest.raises(SchemaError, match=r'\(.*x.*\): the input has no attribute "[xy]"') as caught:
            function.output_field(Schema.of(z=pa.int64()), "n")
        assert str(caught.value).startswith(function.name.removesuffix("_distinct"))


def test_the_thesis_names_of_attributes_are_followed() -> None:
    schema = Schema.of(length=pa.int64())
    assert fn.sum("len").output_name() == "sum_len"
    assert fn.sum("len").output_field(schema, "n").type == pa.int64()


def test_a_state_of_another_function_is_refused() -> None:
    schema = Schema.of(x=pa.int64())
    saved = fn.sum("x").accumulator(schema).state()
    with pytest.raises(ValueError, match='saved state: "counts" is missing; an array of int64'):
        fn.count("x").accumulator(schema).restore(saved)


def test_the_examples_of_the_module_are_true() -> None:
    assert doctest.testmod(operators.functions).failed == 0
