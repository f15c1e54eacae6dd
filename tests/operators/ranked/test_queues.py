"""Queues hold what sorted lists would, and ranges of slots add up to what one tuple after another gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Page
from operators.data.schema import Schema
from operators.functions import argmin, count, count_distinct, first, max, min, sum
from operators.functions.protocol import AggregateFunction
from operators.window_aggregate.stores.ranked.queues import Queues, lengths
from operators.window_aggregate.stores.ranked.slots import Pool

keys = st.integers(0, 12)
batches = st.lists(st.tuples(st.integers(0, 4), keys), max_size=12)


def grouped(batch: list[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for queue, key in batch:
        found.setdefault(queue, []).append(key)
    return {queue: sorted(values) for queue, values in found.items()}


@given(st.lists(st.tuples(batches, st.integers(0, 14)), max_size=8))
def test_queues_are_sorted_lists_with_ties_in_the_order_of_arrival(
    steps: list[tuple[list[tuple[int, int]], int]],
) -> None:
    queues = Queues(np.int32)
    queues.ensure(5)
    model: dict[int, list[tuple[int, int]]] = {q: [] for q in range(5)}
    number = 0
    for batch, bound in steps:
        parts = grouped(batch)
        flat = [key for values in parts.values() for key in values]
        items = np.arange(number, number + len(flat), dtype=np.int32)
        number += len(flat)
        ends = np.cumsum([len(values) for values in parts.values()], dtype=np.int64)
        queues.merge(np.array(list(parts), np.int32), ends, np.array(flat, np.int64), items)
        given = iter(items.tolist())
        for queue, values in parts.items():
            model[queue] = sorted(model[queue] + [(key, next(given)) for key in values], key=lambda entry: entry[0])
        which, counts = queues.below(queues.waiting(bound), bound)
        assert which.tolist() == [q for q in range(5) if model[q] and model[q][0][0] < bound]
        found_keys, found_items = queues.take(which, counts)
        wanted = [entry for q in which.tolist() for entry in model[q] if entry[0] < bound]
        assert list(zip(found_keys.tolist(), found_items.tolist(), strict=True)) == wanted
        model = {q: [entry for entry in entries if entry[0] >= bound] for q, entries in model.items()}
        assert len(queues) == __builtins__["sum"](map(len, model.values()))
        again = Queues(np.int32)
        again.most = 5
        again.restore(queues.state())
        assert [np.asarray(a).tolist() for a in again.state().values()] == [
            np.asarray(a).tolist() for a in queues.state().values()
        ]


@given(st.lists(st.tuples(batches, st.integers(0, 14)), max_size=8))
def test_weights_of_one_key_add_up(steps: list[tuple[list[tuple[int, int]], int]]) -> None:
    queues = Queues(np.int64)
    queues.ensure(5)
    model: dict[int, dict[int, int]] = {q: {} for q in range(5)}
    for batch, bound in steps:
        parts = {queue: sorted(set(values)) for queue, values in grouped(batch).items()}
        flat = [key for values in parts.values() for key in values]
        # A weight of zero is no entry.
        weights = [key % 3 for key in flat]
        ends = np.cumsum([len(values) for values in parts.values()], dtype=np.int64)
        queues.weigh(np.array(list(parts), np.int32), ends, np.array(flat, np.int64), np.array(weights, np.int64))
        for queue, values in parts.items():
            for key in values:
                if key % 3:
                    model[queue][key] = model[queue].get(key, 0) + key % 3
        which, counts = queues.below(queues.waiting(bound), bound)
        found = queues.take(which, counts)
        wanted = [(key, model[q].pop(key)) for q in which.tolist() for key in sorted(model[q]) if key < bound]
        assert list(zip(*(column.tolist() for column in found), strict=True)) == wanted


def test_rooms_are_used_again() -> None:
    queues = Queues(np.int32)
    queues.ensure(100)
    for start in range(0, 1000, 10):
        which = np.arange(start // 10 % 100, start // 10 % 100 + 1, dtype=np.int32)
        queues.merge(which, np.array([10]), np.arange(start, start + 10), np.zeros(10, np.int32))
        queues.take(*queues.below(which, start + 10))
    assert (len(queues), len(queues.keys)) == (0, 16)


FUNCTIONS = [count(), sum("v"), min("v"), max("s"), count_distinct("v"), first("s"), argmin("s", "v")]
ranges = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
@given(ranges)
def test_rising_ranges_of_slots_add_up(function: AggregateFunction, steps: list[tuple[int, int]]) -> None:
    lows = np.cumsum([a for a, _ in steps])
    highs = np.maximum.accumulate(np.maximum(lows, np.cumsum([b for _, b in steps])))
    n = int(highs[-1]) + 1
    columns = {"v": [i * 7 % 5 for i in range(n)], "s": [chr(97 + i * 5 % 7) for i in range(n)]}
    page = Page.of(Schema.of(v=pa.int64(), s=pa.string()), columns)
    pool = Pool([function.accumulator(page.schema)])
    tuples = pool.take(n)
    pool.update(tuples, page)
    wanted = pool.take(len(steps))
    for target, low, high in zip(wanted, lows, highs, strict=True):
        pool.combine(np.full(high - low, target), tuples[low:high])
    some = lows < highs
    sums, spent = pool.sums(tuples, lows[some], highs[some])
    assert pool.accumulators[0].finalize(sums).equals(pool.accumulators[0].finalize(wanted[some]))
    pool.give(spent)
    swept = pool.take(len(steps))
    pool.add_ranges(tuples, lows, highs, swept)
    assert pool.accumulators[0].finalize(swept).equals(pool.accumulators[0].finalize(wanted))
    pool.give(np.concatenate((tuples, wanted, swept)))
    assert len(pool) == 0


def test_lengths_are_the_differences_of_ends() -> None:
    assert lengths(np.array([2, 2, 5])).tolist() == [2, 0, 3]
    assert lengths(np.empty(0, np.int64)).tolist() == []
