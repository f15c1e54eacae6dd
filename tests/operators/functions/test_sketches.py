"""Sketches answer within their stated error, exactly while they are small, and say what to do without their package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.data.page import Page
from operators.data.schema import IP_METADATA, IP_TYPE, Schema
from operators.errors import SchemaError
from operators.functions import Accumulator, AggregateFunction, Subtractable
from tests import naive_functions as naive
from tests.examples import share
from tests.operators.functions.cases import DOMAIN, Case, plain, same

SLOTS = 4
EVERY = np.arange(SLOTS, dtype=np.int32)
SMALL = [
    *(
        Case(fn.approx_count_distinct("x"), (d,), naive.naive_count_distinct)
        for d in DOMAIN
        if d not in ("list", "decimal")
    ),
    *(
        Case(fn.approx_heavy_hitters("x", 0.3), (d,), naive.naive_heavy("0.3"))
        for d in DOMAIN
        if d not in ("list", "decimal")
    ),
    *(
        Case(fn.approx_quantile("x", q), (d,), naive.naive_quantile(str(q)))
        for q in (0, 0.4, 1)
        for d in ("int8", "duration")
    ),
]


def made(function: AggregateFunction, schema: Schema) -> Accumulator:
    accumulator = function.accumulator(schema)
    accumulator.reserve(SLOTS)
    accumulator.init(EVERY)
    return accumulator


@pytest.mark.parametrize("name", sorted({case.function.name for case in SMALL}))
@share(3)
@given(data=st.data())
def test_few_values_are_answered_exactly(name: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in SMALL if case.function.name == name]))
    field, domain = DOMAIN[case.domains[0]]
    schema = Schema(pa.schema([field]))
    row = st.tuples(st.integers(-1, SLOTS - 1), st.sampled_from([None, *domain]))
    step = (
        st.lists(row, max_size=8).map(lambda rows: ("add", rows))
        | st.tuples(st.integers(0, SLOTS - 1), st.integers(0, SLOTS - 1)).map(lambda pair: ("combine", pair))
        | st.integers(0, SLOTS - 1).map(lambda slot: ("free", slot))
        | st.just(("save", None))
    )
    accumulator, nulls = made(case.function, schema), 0
    held: list[list[tuple[object, ...]]] = [[] for _ in EVERY]
    for kind, given_ in data.draw(st.lists(step, min_size=1, max_size=6)):
        if kind == "add":
            page = Page.of(schema, {"x": pa.array([None, *(v for _, v in given_)], field.type)}).slice(
                1, len(given_) + 1
            )
            for (slot, _), value in zip(given_, plain(page.column("x")), strict=True):
                if slot >= 0:
                    held[slot].append((value,))
                    nulls += value is None
            accumulator.update(np.array([slot for slot, _ in given_], np.int32), page)
        elif kind == "combine":
            into, source = given_
            held[into] = held[into] + held[source]
            accumulator.combine(np.array([into], np.int32), np.array([source], np.int32))
        elif kind == "free":
            held[given_] = []
            accumulator.free(np.array([given_], np.int32))
            accumulator.init(np.array([given_], np.int32))
        else:
            saved = accumulator.state()
            accumulator = case.function.accumulator(schema)
            accumulator.restore(saved)
    result = accumulator.finalize(EVERY)
    assert result.type == case.function.output_field(schema, "n").type
    wanted = [case.naive(rows) for rows in held]
    assert all(same(case, f, w) for f, w in zip(plain(result), wanted, strict=True)), (plain(result), wanted)
    assert accumulator.nulls == nulls
    assert not isinstance(accumulator, Subtractable)
    assert accumulator.nbytes > 0


def a_large(function: AggregateFunction, values: pa.Array) -> Accumulator:
    """Add values in pages to two slots and combine them, as two slices of a window."""
    schema = Schema.of(x=values.type)
    accumulator = made(function, schema)
    for start in range(0, len(values), 4096):
        page = Page.of(schema, {"x": values.slice(start, 4096)})
        accumulator.update((np.arange(len(page)) % 2).astype(np.int32), page)
    accumulator.combine(EVERY[:1], EVERY[1:2])
    return accumulator


def test_many_different_values_are_counted_within_a_few_standard_errors() -> None:
    values = pa.array(np.random.default_rng(1).integers(0, 1 << 60, 60_000))
    accumulator = a_large(fn.approx_count_distinct("x"), values)
    (found,) = accumulator.finalize(EVERY[:1]).to_pylist()
    assert abs(found / 60_000 - 1) < 5 * 1.04 / 64
    assert accumulator.nbytes < 20_000
    coarse = a_large(fn.approx_count_distinct("x", lg_k=7), values)
    assert coarse.nbytes < accumulator.nbytes / 8


def test_the_rank_of_an_approximate_quantile_is_within_its_error() -> None:
    values = np.random.default_rng(2).permutation(100_000).astype(np.float64)
    for q in (0.05, 0.5, 0.95):
        accumulator = a_large(fn.approx_quantile("x", q), pa.array(values))
        (found,) = accumulator.finalize(EVERY[:1]).to_pylist()
        assert abs(found / 100_000 - q) < 3 * 0.0133
        assert accumulator.nbytes < 20_000


def test_no_heavy_hitter_is_left_out_and_counts_are_not_below_the_truth() -> None:
    random = np.random.default_rng(3)
    values = np.where(random.random(50_000) < 0.3, random.integers(0, 4, 50_000), random.integers(0, 1 << 50, 50_000))
    accumulator = a_large(fn.approx_heavy_hitters("x", 0.05, lg_k=8), pa.array(values))
    (found,) = accumulator.finalize(EVERY[:1]).to_pylist()
    listed = {entry["value"]: entry["count"] for entry in found}
    for value in range(4):
        truth = int(np.count_nonzero(values == value))
        assert truth <= listed[value] <= truth + 50_000 * 3.5 / 256
    assert all(count >= 0.05 * 50_000 for count in listed.values())


def _uniform(hitters: int, n: int) -> list[int]:
    """Give every value the same number of times, round and round, so that each has just the share."""
    return [i % hitters for i in range(n)]


def _crowded_out(hitters: int, n: int) -> list[int]:
    """Give what a sketch keeps worst: all that has the share first, then values that come once and push it out."""
    each = n // hitters
    frequent = [value for value in range(hitters - 1) for _ in range(each)]
    return frequent + list(range(hitters, hitters + n - len(frequent)))


def _skewed(hitters: int, n: int) -> list[int]:
    """Give counts around the share, in random order."""
    random = np.random.default_rng(5)
    return (random.exponential(hitters, n).astype(np.int64) // 2).tolist()


@pytest.mark.parametrize("stream", [_uniform, _crowded_out, _skewed])
@pytest.mark.parametrize(("hitters", "lg_k"), [(1000, None), (200, None), (40, 8), (100, 9), (5, 5)])
def test_none_that_has_the_share_is_left_out_by_whatever_size_is_accepted(
    stream: Callable[[int, int], list[int]], hitters: int, lg_k: int | None
) -> None:
    n = 20 * hitters
    values = np.array(stream(hitters, n))
    portion = 1 / hitters
    accumulator = a_large(fn.approx_heavy_hitters("x", portion, lg_k=lg_k), pa.array(values))
    (found,) = accumulator.finalize(EVERY[:1]).to_pylist()
    listed = {entry["value"]: entry["count"] for entry in found}
    counts = dict(zip(*(column.tolist() for column in np.unique(values, return_counts=True)), strict=True))
    off = portion / 2 * n if lg_k is None else 3.5 / 2**lg_k * n
    assert {value for value, count in counts.items() if count >= 20} <= listed.keys()
    assert all(counts[value] <= count <= counts[value] + off for value, count in listed.items())
    assert all(counts[value] > 20 - off for value in listed)


@pytest.mark.parametrize(("portion", "lg_k"), [(0.05, 10), (0.007, 10), (0.001, 13), (1e-4, 17), (3e-6, 21)])
def test_a_sketch_is_as_large_as_its_share_needs(portion: float, lg_k: int) -> None:
    schema = Schema.of(x=pa.int64())
    accumulator = fn.approx_heavy_hitters("x", portion).accumulator(schema)
    assert accumulator.kind.lg_k == lg_k  # type: ignore[attr-defined]


def test_the_standard_error_of_a_count_holds_when_sketches_were_combined() -> None:
    random, found = np.random.default_rng(4), list[float]()
    for _ in range(40):
        accumulator = a_large(fn.approx_count_distinct("x", lg_k=7), pa.array(random.integers(0, 1 << 60, 3_000)))
        found.append(accumulator.finalize(EVERY[:1]).to_pylist()[0] / 3_000 - 1)
    # Of 40 tries, the root of the mean square is within a third of the standard error.
    assert np.sqrt(np.mean(np.square(found))) < 4 / 3 * 1.04 / np.sqrt(128)


def test_addresses_come_back_as_addresses() -> None:
    field = pa.field("x", IP_TYPE, metadata=IP_METADATA)
    schema, one = Schema(pa.schema([field])), bytes(10) + b"\xff\xff\x80\x00\x00\x01"
    for function in (fn.approx_heavy_hitters("x", 0.5), fn.heavy_hitters("x", 0.5)):
        accumulator = made(function, schema)
        accumulator.update(np.zeros(3, np.int32), Page.of(schema, {"x": pa.array([one, one, bytes(16)], IP_TYPE)}))
        assert accumulator.finalize(EVERY[:1]).to_pylist() == [[{"value": one, "count": 2}]]
        value = function.output_field(schema, "n").type.value_type.field("value")
        assert value.metadata == field.metadata


def test_the_package_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ImportError):
        importlib.import_module("datasketches")
    schema = Schema.of(x=pa.int64())
    for function in (fn.approx_count_distinct("x"), fn.approx_quantile("x", 0.5), fn.approx_heavy_hitters("x", 0.1)):
        told = r"package datasketches is not installed.\n  Run pip install 'oop-engine\[sketches\]', or write "
        exact = function.name.removeprefix("approx_")
        for use in (function.accumulator, lambda schema, f=function: f.output_field(schema, "n")):
            with pytest.raises(SchemaError, match=told + exact + " for the exact answer"):
                use(schema)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: fn.approx_count_distinct("x", lg_k=30), r"approx_count_distinct\(x\): lg_k=30 is not within 7 and 21"),
        (lambda: fn.approx_quantile("x", 0.5, k=1), r"approx_quantile\(x, 0.5\): k=1 is not within 8 and 65535"),
        (lambda: fn.approx_heavy_hitters("x", 0.5, lg_k=True), r"lg_k=True is not within 3 and 21"),
        (
            lambda: fn.approx_heavy_hitters("x", 0.001, lg_k=10),
            r"2\^10 entries knows counts to within 0.0034 of all values, [^$]* a share of 0.001.\n"
            r"  Write lg_k=12, or leave it out; or write heavy_hitters\(x, 0.001\) for the exact answer.",
        ),
        (lambda: fn.approx_heavy_hitters("x", 1e-6), r"a share of 1e-06.\n  Choose a larger share; or write heavy"),
        (
            lambda: fn.approx_heavy_hitters("x", 2),
            r"approx_heavy_hitters\(x, 2\): the second argument must be a fraction above 0 and at most 1, and is 2",
        ),
        (
            lambda: fn.approx_quantile("x", -1),
            r"approx_quantile\(x, -1\): the second argument must be a fraction between 0 and 1, and is -1",
        ),
    ],
)
def test_a_size_that_no_sketch_has_is_refused(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(SchemaError, match=told):
        make()


@pytest.mark.parametrize("function", [fn.approx_count_distinct("x"), fn.approx_quantile("x", 0.5)])
def test_bytes_that_are_no_sketch_are_refused(function: AggregateFunction) -> None:
    pytest.importorskip("datasketches")
    schema = Schema.of(x=pa.int64())
    held = function.accumulator(schema)
    held.reserve(1)
    held.update(np.zeros(3, np.int32), Page.of(schema, {"x": [1, 2, 3]}))
    for forged in (b"", b"none"):
        sketches = pa.RecordBatch.from_arrays([pa.array([forged], pa.binary())], ["sketch"])
        with pytest.raises(ValueError, match='saved state has in "sketches" bytes that are no sketch'):
            function.accumulator(schema).restore({**held.state(), "sketches": sketches})
    with pytest.raises(ValueError, match='0 values of binary in "sketches"'):
        function.accumulator(schema).restore({**held.state(), "sketches": sketches[:0]})
