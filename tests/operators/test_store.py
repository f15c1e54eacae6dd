"""Windows hold out: extreme bounds and values, many open slices, and promises of groups by every kind of constant."""

from __future__ import annotations

import builtins
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.keys import KeyIndex
from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import SchemaError
from operators.functions import count, first
from operators.functions import sum as total
from operators.protocol import Element
from operators.rows.distinct import Distinct
from operators.streams.named_groups import matched
from operators.window import FOREVER, LIMIT, LandmarkWindow, PartitionedWindow, SlidingWindow, Window
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window import rows as store_rows
from operators.window_aggregate.stores.per_window.store import SliceStore
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.strategy import Carrying
from punctuation import END, Below, Equals, OneOf, Punctuation, Range, Value, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), progress=["ts", ("k", "ts"), "k"])


def page(ts: Sequence[int], k: Sequence[str | None] | None = None) -> Page:
    return Page.of(SCHEMA, {"ts": ts, "k": k or ["a"] * len(ts)})


def chain(window: Window, *by: str) -> Chain:
    return Chain([Bucket(window), WindowAggregate(window, {"n": count()}, by)])


def counts(window: Window, script: Sequence[Element], *by: str) -> list[tuple[object, object]]:
    return sorted((row["wid"], row["n"]) for row in rows(drive(chain(window, *by), script)))


@pytest.mark.parametrize("bound", [2**63, 2**70, float("inf"), 10**30])
def test_a_bound_beyond_every_value_completes_every_window(bound: Value) -> None:
    operator = chain(SlidingWindow("ts", size=10, slide=5))
    found = drive(operator, [page([1]), before("ts", bound), page([LIMIT - 1])])
    assert [row["wid"] for row in rows(found)] == [0, 1]
    assert operator.statistics()["late"] == 1


@pytest.mark.parametrize("bound", [-(2**63), -(2**70), float("-inf"), float("nan"), "text"])
def test_a_bound_below_every_value_completes_nothing(bound: Value) -> None:
    assert rows(drive(chain(SlidingWindow("ts", size=10, slide=5)), [page([1]), before("ts", bound)])) == []


@pytest.mark.parametrize("bound", [2**70, float("inf")])
def test_distinct_takes_a_bound_beyond_every_value(bound: Value) -> None:
    distinct = Distinct(("ts",))
    drive(distinct, [page([1, 2**62]), before("ts", bound)])
    assert len(distinct) == 0


def test_a_jump_over_empty_windows_costs_and_gives_nothing() -> None:
    far = 10**15
    window = SlidingWindow("ts", size=10, slide=5)
    single = Punctuation({"k": Equals("a"), "ts": Below(far)})
    for promise in (before("ts", far), single):
        assert counts(window, [page([1]), promise, page([far]), END], "k") == [
            (0, 1), (1, 1), (far // 5, 1), (far // 5 + 1, 1),
        ]  # fmt: skip


@pytest.mark.parametrize("origin", [0, 7, -7, LIMIT - 1])
def test_values_out_of_range_disturb_no_neighbour(origin: int) -> None:
    window = SlidingWindow("ts", size=10, slide=5, origin=origin)
    sane = [5, 6, 7, 8]
    extreme = [2**63 - 1, -(2**63), LIMIT, -LIMIT]
    mixed = [value for pair in zip(sane, extreme, strict=True) for value in pair]
    assert counts(window, [page(mixed), END]) == counts(window, [page(sane), END])


def test_an_unsigned_value_above_the_largest_int64_is_counted_as_unusable() -> None:
    schema = Schema.of(ts=pa.uint64(), progress=["ts"])
    operator = chain(SlidingWindow("ts", size=10, slide=10))
    found = drive(operator, [Page.of(schema, {"ts": [1, 2**63 + 5, 2**64 - 1, None]}), END])
    assert [row["n"] for row in rows(found)] == [1]
    assert operator.statistics()["without_value"] == 3


@pytest.mark.parametrize(
    ("kind", "size"), [(pa.date32(), 2**40), (pa.time32("s"), 2**31), (pa.int64(), LIMIT), (pa.date32(), 2**31 - 1)]
)
def test_an_end_that_the_type_cannot_hold_is_null(kind: pa.DataType, size: int) -> None:
    schema = Schema.of(ts=kind, progress=["ts"])
    column = pa.array([1], pa.int64() if kind == pa.int64() else pa.int32()).view(kind)
    (row,) = rows(drive(chain(SlidingWindow("ts", size=size, slide=size)), [Page.of(schema, {"ts": column}), END]))
    assert row["window_start"] == 0
    assert row["window_end"] == (size if size < 2**31 or kind == pa.int64() else None)


@pytest.mark.parametrize("size", [0, -1, LIMIT + 1, 2**70, 2.5])
def test_a_length_that_ticks_cannot_hold_is_refused_with_its_value(size: int) -> None:
    with pytest.raises(SchemaError, match=f"RANGE must be .*{size}"):
        SlidingWindow("ts", size=size, slide=1)
    with pytest.raises(SchemaError, match="SLIDE must be"):
        LandmarkWindow("ts", slide=size)


def test_an_origin_out_of_range_is_refused() -> None:
    with pytest.raises(SchemaError, match="the origin 9223372036854775808"):
        SlidingWindow("ts", size=1, slide=1, origin=2**63)


def test_one_end_after_another_and_tuples_in_between() -> None:
    window = SlidingWindow("ts", size=10, slide=10)
    assert counts(window, [END, page([1]), END, END, page([21]), before("ts", 30), END]) == [(0, 1), (2, 1)]


TUPLES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8), st.integers(0, 2)), min_size=1, max_size=30)


@pytest.mark.parametrize("technique", ["combine", "differential", "two_stacks"])
@given(tuples=TUPLES, data=st.data())
def test_the_store_gives_what_each_window_would_collect(
    technique: Carrying, tuples: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Slices may have any ranges, arrive in any order and be closed at any bound, and the store be saved in between."""
    _collects(technique, tuples, data)


@pytest.mark.parametrize("bytes_a_slot", [0, 16])
def test_slices_that_hand_their_row_over_are_found_without_it(
    bytes_a_slot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_rows, "_BYTES", 0)
    monkeypatch.setattr(store_rows, "_BYTES_A_SLOT", bytes_a_slot)
    schema, rng = Schema.of(x=pa.int64()), np.random.default_rng(7)
    store = SliceStore([count().accumulator(schema)])
    expected: dict[tuple[int, int], int] = {}
    handed = 0
    for newest in range(2, 60):
        begins = newest - np.minimum(rng.geometric(0.5, 4) - 1, 3)
        groups = rng.integers(0, 3, 4).astype(np.int32)
        for begin, group in zip(begins.tolist(), groups.tolist(), strict=True):
            expected[begin, group] = expected.get((begin, group), 0) + 1
        before = set(store._rows.owners.tolist())
        store.update(Page.of(schema, {"x": [0] * 4}), begins, begins + 1, groups, 3)
        handed += len(before - set(store._rows.owners.tolist()))
        bound = newest - 3
        (part,) = store.release(bound, bound + 1) if any(wid == bound for wid, _ in expected) else (None,)
        if part is not None:
            counts = store.accumulators[0].finalize(part.slots).to_pylist()
            found = dict(zip(part.groups.tolist(), counts, strict=True))
            assert found == {group: n for (wid, group), n in expected.items() if wid == bound}
        store.close(bound + 1)
        expected = {key: n for key, n in expected.items() if key[0] > bound}
        assert len(store) == len(expected), "each slice and group has one slot"
    assert handed > 10


def test_the_newest_slices_have_the_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_rows, "_BYTES", 0)
    monkeypatch.setattr(store_rows, "_BYTES_A_SLOT", 0)
    store = SliceStore([count().accumulator(Schema.of(x=pa.int64()))])
    for begin in (5, 6, 3):
        one = np.array([begin], np.int64), np.array([begin + 2], np.int64), np.zeros(1, np.int32)
        store.update(Page.of(Schema.of(x=pa.int64()), {"x": [1]}), *one, 1)
    (owner,) = store._rows.owners
    assert int(store.ranges.starts[owner]) == 6


def _collects(technique: Carrying, tuples: list[tuple[int, int, int]], data: st.DataObject) -> None:
    schema = Schema.of(x=pa.int64())
    other = total("x") if technique == "differential" else first("x")

    def made() -> SliceStore:
        return SliceStore([count().accumulator(schema), other.accumulator(schema)], technique)

    store = made()
    collected: dict[tuple[int, int], list[int]] = {}
    released = 0
    given_out: dict[tuple[int, int], tuple[int, int]] = {}
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    while tuples:
        n = data.draw(st.integers(1, len(tuples)))
        some, tuples = tuples[:n], tuples[n:]
        some = [(max(a, released), max(a, released) + b, g) for a, b, g in some]
        arrays = [np.array(column, np.int64) for column in zip(*some, strict=True)]
        arrivals = list(range(len(tuples) * 100, len(tuples) * 100 + n))
        store.update(Page.of(schema, {"x": arrivals}), arrays[0], arrays[1], arrays[2].astype(np.int32), 3)
        for (a, b, g), arrival in zip(some, arrivals, strict=True):
            for wid in range(a, b):
                collected.setdefault((wid, g), []).append(arrival)
        bound = data.draw(st.integers(released, released + 20)) if tuples else store.ranges.horizon(0)
        for part in store.release(released, bound):
            results = zip(part.wids.tolist(), part.groups.tolist(), strict=True)
            values = (accumulator.finalize(part.slots).to_pylist() for accumulator in store.accumulators)
            given_out.update(zip(results, zip(*values, strict=True), strict=True))
        store.close(bound)
        if data.draw(st.booleans()):
            state = store.state()
            store = made()
            store.restore(state)
        expected |= {
            key: (len(x), sum(x) if technique == "differential" else x[0])
            for key, x in collected.items()
            if released <= key[0] < bound
        }
        released = max(released, bound)
        assert given_out == expected
    assert (len(store), len(store.ranges)) == (0, 0)


def test_a_store_without_tuples_has_no_horizon() -> None:
    store = SliceStore([count().accumulator(Schema.of(x=pa.int64()))])
    assert store.ranges.horizon(5) == -(2**63)
    nothing = np.array([3], np.int64), np.array([FOREVER]), np.zeros(1, np.int32)
    store.update(Page.of(Schema.of(x=pa.int64()), {"x": [1]}), *nothing, 1)
    assert store.ranges.horizon(5) == 6


def test_a_partition_promises_only_what_it_has_newly_completed() -> None:
    window = PartitionedWindow(SlidingWindow("row_num", size=4, slide=2), ("k",))
    found = drive(Bucket(window), [page([0, 0, 0], ["a", "b", "a"]), page([0], ["a"]), page([0, 0], ["a", None])])
    assert [str(p) for p in punctuations(found)] == ["[k = a, wid_from < 1]", "[k = a, wid_from < 2]"]
    several = drive(Bucket(window), [page([0] * 8, ["a", "a", "b", "b", "c", "b", "b", "d"])])
    assert [str(p) for p in punctuations(several)] == ["[k = a, wid_from < 1]", "[k = b, wid_from < 2]"]


CONSTANTS: list[tuple[pa.DataType, list[object], Value, list[int]]] = [
    (pa.string(), ["1", "a", None], 1, []),
    (pa.string(), ["1", "a", None], "1", [0]),
    (pa.int64(), [1, 2, None], "1", []),
    (pa.int64(), [1, 2, None], 1.0, [0]),
    (pa.int64(), [1, 2, None], 1.5, []),
    (pa.int8(), [1, 2, None], 2**70, []),
    (pa.uint64(), [2**64 - 1, 2], 2**64 - 1, [0]),
    (pa.float64(), [1.0, float("nan"), None], 1, [0]),
    (pa.float64(), [1.0, float("nan"), None], float("nan"), []),
    (pa.binary(16), [b"x" * 16, None], b"x" * 16, [0]),
    (pa.binary(16), [b"x" * 16, None], b"x", []),
    (pa.timestamp("s"), [7, 8, None], 7, [0]),
    (pa.date32(), [7, 8, None], 8, [1]),
    (pa.bool_(), [True, False, None], True, [0]),
]


@pytest.mark.parametrize(("kind", "values", "constant", "wanted"), CONSTANTS, ids=str)
def test_a_promise_finds_the_groups_that_equal_its_constant(
    kind: pa.DataType, values: list[object], constant: Value, wanted: list[int]
) -> None:
    index = KeyIndex([pa.field("k", kind)])
    index.assign([pa.array(values, kind)])
    assert sorted(matched(index, Punctuation({"k": Equals(constant)})).tolist()) == wanted
    listed = Punctuation({"k": OneOf([constant, constant])})
    assert sorted(matched(index, listed).tolist()) == wanted


def test_a_promise_on_one_of_two_attributes_finds_all_groups_it_matches() -> None:
    index = KeyIndex([pa.field("k", pa.string()), pa.field("n", pa.int64())])
    index.assign([pa.array(["a", "a", "b"]), pa.array([1, 2, 1])])
    assert sorted(matched(index, Punctuation({"k": Equals("a")})).tolist()) == [0, 1]
    assert matched(index, Punctuation({"n": Equals(2), "k": Equals("a")})).tolist() == [1]
    assert sorted(matched(index, Punctuation({"n": Range(None, 1)})).tolist()) == [0, 2]


def test_a_group_named_twice_leaves_once() -> None:
    aggregate = GroupAggregate({"n": count()}, ("ts", "k"))
    promise = Punctuation({"ts": OneOf([1, 2]), "k": OneOf(["a", "zz"])})
    found = rows(drive(aggregate, [page([1, 1, 2, 3]), promise]))
    assert sorted((row["ts"], row["n"]) for row in found) == [(1, 2), (2, 1)]
    assert aggregate.statistics()["state_tuples"] == 1


@pytest.mark.parametrize("others", [10, 5_000])
def test_a_release_touches_the_groups_of_its_own_windows_alone(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aggregates that are combined, finalised and freed: as many with ten other groups open as with 5,000."""
    touched: list[int] = []
    verbs: Any = type(count().accumulator(Schema.of(x=pa.int64())))
    for verb in ("combine", "finalize", "free"):
        plain = getattr(verbs, verb)

        def counting(own: Any, *slots: Any, plain: Any = plain) -> Any:
            touched.append(len(slots[-1]))
            return plain(own, *slots)

        monkeypatch.setattr(verbs, verb, counting)
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
    window = SlidingWindow("ts", size=10, slide=10)
    chained = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ("k",))])
    keys = np.concatenate((np.arange(7), np.arange(7), np.arange(others)))
    # The first release chooses how the groups of a slice are kept.
    drive(chained, [Page.of(schema, {"ts": np.repeat([5, 15, 25], [7, 7, others]), "k": keys}), before("ts", 10)])
    touched.clear()
    assert len(rows(drive(chained, [before("ts", 20)]))) == 7
    assert 0 < builtins.sum(touched) <= 3 * 7


def test_a_release_takes_as_much_memory_with_ten_groups_open_as_with_many() -> None:
    """Nothing that a release makes has an entry for each open group: what it makes, it would have to fill."""
    schema = Schema.of(ts=pa.int64(), k=pa.int64(), progress=["ts"])
    window = SlidingWindow("ts", size=10, slide=10)

    def most(others: int) -> int:
        chained = Chain([Bucket(window), WindowAggregate(window, {"n": count()}, ("k",))])
        keys = np.concatenate((np.tile(np.arange(7), 12), np.arange(others)))
        times = np.repeat(10 * np.arange(13) + 5, [7] * 12 + [others])
        drive(chained, [Page.of(schema, {"ts": times, "k": keys}), before("ts", 10)])
        peaks: list[int] = []
        for bound in range(20, 70, 10):
            tracemalloc.start()
            assert len(rows(drive(chained, [before("ts", bound)]))) == 7
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return max(peaks)

    most(10)  # What is compiled or imported at a first release is not counted.
    assert most(20_000) < 1.5 * most(10)
