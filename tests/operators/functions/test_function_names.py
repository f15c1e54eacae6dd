"""How functions are named in queries and how their results are called."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import attrs
import pyarrow as pa
import pytest

import oop_engine as oop
import operators.functions
from operators import functions as fn
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions import Accumulator, AggregateFunction, Subtractable

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
    (fn.median("x"), "median_x"),
    (fn.quantile("x", 0.95), "p95_x"),
    (fn.quantile("x", 0.999), "p99_9_x"),
    (fn.quantile("x", 0), "p0_x"),
    (fn.mode("x"), "mode_x"),
    (fn.top_k("x", 5), "top_5_x"),
    (fn.heavy_hitters("x", 0.05), "heavy_hitters_x"),
    (fn.minmax("x"), "minmax_x"),
    (fn.m4("x"), "m4_x"),
    (fn.m4("x", "y"), "m4_x"),
    (fn.centre_of_mass("x", "y"), "centre_of_mass_x_y"),
    (fn.mean_gap("x"), "mean_gap_x"),
    (fn.gap_variation("x"), "gap_variation_x"),
    (fn.geometric_mean("x"), "geometric_mean_x"),
    (fn.collect("x"), "collect_x"),
    (fn.collect("x", "y", most=7), "collect_x_y"),
    (fn.concat("x"), "concat_x"),
    (fn.concat("x", "y"), "concat_x"),
    (fn.approx_count_distinct("x"), "approx_count_distinct_x"),
    (fn.approx_quantile("x", 0.95), "approx_p95_x"),
    (fn.approx_heavy_hitters("x", 0.05), "approx_heavy_hitters_x"),
]
ARRIVAL = ("first_x", "last_x", "m4_x", "concat_x")
CONSTANTS = ("q", "k", "share", "most")


def written(function: AggregateFunction) -> list[str | float]:
    """Give the arguments as a query writes them, constants last."""
    own = attrs.asdict(function, recurse=False)  # type: ignore[arg-type]
    places = fn.constants(function.name)
    return [*function.arguments, *[own[name] for name in CONSTANTS if name in own][: len(places)]]


@pytest.mark.parametrize(("function", "name"), EVERY, ids=[name for _, name in EVERY])
def test_a_function_is_found_by_its_name_and_names_its_result(function: AggregateFunction, name: str) -> None:
    assert function.output_name() == name
    assert fn.is_function(function.name.upper())
    assert fn.by_name(function.name.upper(), written(function)) == function
    assert isinstance(function, AggregateFunction)
    assert hash(function) == hash(fn.by_name(function.name, written(function)))
    x = pa.string() if function.name == "concat" else pa.int64()
    accumulator = function.accumulator(Schema.of(x=x, y=pa.int64()))
    assert isinstance(accumulator, Accumulator)
    assert (name in ARRIVAL and function.arguments == ("x",)) == function.arrival_order
    if isinstance(accumulator, Subtractable):
        assert function.invertible


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
        ("mediam", ["x"], 'Did you mean "median"'),
        ("quantile", ["x"], r"1 argument given.\n  Write quantile\(x, 0.95\)"),
        ("quantile", ["x", "q"], r"argument 2 is q, and a number is needed there.\n  Write quantile\(x, 0.95\)"),
        ("median", [0.5], r"argument 1 is 0.5, and an attribute is needed there.\n  Write median\(x\)"),
        ("quantile", ["x", 95], r"the second argument must be a fraction between 0 and 1, and is 95.\n  For the 95th"),
        ("quantile", ["x", 2], r"For the 2nd percentile write 0.02."),
        ("approx_quantile", ["x", 99.9], r"For the 99.9th percentile write 0.999."),
        ("quantile", ["x", 950], r"and is 950.\n  Write 0.05 for five in a hundred"),
        ("heavy_hitters", ["x", 5], r"and is 5.\n  For 5 in a hundred write 0.05"),
        ("heavy_hitters", ["x", 0], r"the second argument must be a fraction above 0 and at most 1, and is 0"),
        ("top_k", ["x", 0], r"top_k\(x, 0\): k is 0; it says how many values are listed"),
        ("top_k", ["x", 2.5], r"k is 2.5"),
        ("m4", ["x", "y", "z"], r"3 arguments given.\n  Write m4\(x\) or m4\(x, ts\)"),
        ("centre_of_mass", ["x"], r"Write centre_of_mass\(x, w\)"),
        ("sum", [], r"0 arguments given.\n  Write sum\(x\)"),
        ("argmin", ["x"], r"1 argument given.\n  Write argmin\(x, y\)"),
        ("sum", ["*"], r"Write sum\(x\)"),
        ("count", ["x", "y"], r"Write count\(\*\) or count\(x\)"),
    ],
)
def test_a_wrong_call_is_told_what_to_write(name: str, arguments: list[str | float], told: str) -> None:
    with pytest.raises(SchemaError, match=f"(?s){told}"):
        fn.by_name(name, arguments)


def test_an_unknown_attribute_is_told_with_the_function() -> None:
    for function, _ in EVERY[1:]:
        with pytest.raises(SchemaError, match=r'\(.*x.*\): the input has no attribute "[xy]"') as caught:
            function.output_field(Schema.of(z=pa.int64()), "n")
        named = "count" if function.name == "count_distinct" else function.name
        assert str(caught.value).startswith(named)


def test_the_thesis_names_of_attributes_are_followed() -> None:
    schema = Schema.of(length=pa.int64())
    assert fn.sum("len").output_name() == "sum_len"
    assert fn.sum("len").output_field(schema, "n").type == pa.int64()


def test_a_state_of_another_function_is_refused() -> None:
    schema = Schema.of(x=pa.int64())
    saved = fn.sum("x").accumulator(schema).state()
    with pytest.raises(ValueError, match='saved state: "counts" is missing; an array of int64'):
        fn.count("x").accumulator(schema).restore(saved)


def test_the_examples_of_the_modules_are_true() -> None:
    tried = 0
    for module in pkgutil.iter_modules(operators.functions.__path__, "operators.functions."):
        results = doctest.testmod(importlib.import_module(module.name), extraglobs={"oop": oop})
        assert results.failed == 0
        tried += results.attempted
    assert doctest.testmod(operators.functions, extraglobs={"oop": oop}).failed == 0
    assert tried > 0


@pytest.mark.parametrize(
    ("function", "kind", "told"),
    [
        (fn.median("x"), pa.string(), r'median\(x\): "x" has type string; numbers or times are needed.\n  Write mode'),
        (fn.mean_gap("x"), pa.float64(), r"mean_gap\(x\): .*Cast it to a timestamp or an integer"),
        (fn.gap_variation("x"), pa.date32(), r"gap_variation\(x\): .*integers or times are needed"),
        (fn.quantile("x", 0.9), pa.binary(16), r"quantile\(x, 0.9\): .*Write mode\(x\)"),
        (fn.mode("x"), pa.list_(pa.int8()), r"mode\(x\): .*no order"),
        (fn.top_k("x", 2), pa.struct([]), r"top_k\(x, 2\): .*no order"),
        (fn.heavy_hitters("x", 0.5), pa.list_(pa.int8()), r"heavy_hitters\(x, 0.5\): .*no order"),
        (fn.minmax("x"), pa.string(), r"minmax\(x\): .*Write min\(x\)"),
        (fn.m4("x"), pa.string(), r"m4\(x\): .*numbers or times are needed"),
        (fn.m4("y", "x"), pa.string(), r'm4\(y, x\): "x" has type string'),
        (fn.centre_of_mass("x", "y"), pa.timestamp("s"), r"centre_of_mass\(x, y\): .*points in time do not add up"),
        (fn.centre_of_mass("y", "x"), pa.string(), r"centre_of_mass\(y, x\): .*Cast it to int64 or float64"),
        (fn.geometric_mean("x"), pa.string(), r"geometric_mean\(x\): .*numbers are needed"),
        (fn.geometric_mean("x"), pa.duration("s"), r"no duration.\n  Divide it"),
        (fn.collect("y", "x"), pa.list_(pa.int8()), r'collect\(y, x\): "x" .*no order'),
        (fn.concat("x"), pa.int64(), r"concat\(x\): .*text or binary is needed.\n  Cast it"),
        (fn.concat("y", "x"), pa.string(), r'concat\(y, x\): "y" has type int64'),
        (fn.approx_quantile("x", 0.5), pa.timestamp("s"), r"Write quantile\(x, 0.5\)"),
        (fn.approx_count_distinct("x"), pa.list_(pa.int8()), r"approx_count_distinct\(x\): .*Project it"),
    ],
    ids=str,
)
def test_an_attribute_of_a_type_that_does_not_fit_is_refused(
    function: AggregateFunction, kind: pa.DataType, told: str
) -> None:
    schema = Schema.of(x=kind, y=pa.int64())
    for use in (lambda: function.output_field(schema, "n"), lambda: function.accumulator(schema)):
        with pytest.raises(SchemaError, match=f"(?s){told}"):
            use()
