"""The store finds what is in the band and loses what it is told to lose, whatever the order, the skew, the scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from operators.data.keys import Ids
from operators.data.page import Int64s
from operators.join import segments
from operators.join.segments import Found
from operators.join.store import Store
from operators.kernels.ticks import FOREVER


class Naive:
    """Keep (key, tick, number) in a list, and look at all of it each time."""

    def __init__(self) -> None:
        self.tuples: set[tuple[int, int, int]] = set()

    def probe(self, ids: Ids, low: Int64s, high: Int64s) -> set[tuple[int, int]]:
        return {
            (row, number)
            for row, (key, first, last) in enumerate(zip(ids.tolist(), low.tolist(), high.tolist(), strict=True))
            for other, tick, number in self.tuples
            if other == key and first <= tick <= last
        }

    def drop(self, gone: set[tuple[int, int, int]]) -> set[int]:
        self.tuples -= gone
        return {number for _, _, number in gone}


class Driven:
    """Do the same to a store and its naive twin, and compare after each step."""

    def __init__(self, store: Store, keys: int) -> None:
        self.store, self.naive, self.keys, self.numbers = store, Naive(), keys, 0
        store.reserve(keys)

    def insert(self, ids: npt.NDArray[np.integer], ticks: npt.NDArray[np.integer]) -> None:
        numbers = np.arange(self.numbers, self.numbers + len(ids))
        self.numbers += len(ids)
        batch = pa.record_batch([pa.array(numbers)], names=["number"])
        self.store.insert(ids.astype(np.int32), ticks.astype(np.int64), batch, None)
        self.naive.tuples |= set(zip(ids.tolist(), ticks.tolist(), numbers.tolist(), strict=True))
        self.compare()

    def probe(self, ids: Ids, low: Int64s, high: Int64s, *, size: int) -> None:
        found: list[tuple[int, int]] = []
        for pairs in self.store.probe(ids, low, high, size=size):
            assert len(pairs.rows) <= size
            there = self.store.segments.find(pairs.positions)
            numbers: Sequence[int] = there.column(0).to_pylist()
            found += zip(there.arranged(pairs.rows).tolist(), numbers, strict=True)
        assert len(found) == len(set(found))
        assert set(found) == self.naive.probe(ids, low, high)

    def purge(self, bound: int) -> None:
        held = {key for key, _, _ in self.naive.tuples}
        wanted = self.naive.drop({t for t in self.naive.tuples if t[1] < bound})
        found, emptied = self.store.purge(bound)
        self.gone(found, wanted)
        assert sorted(emptied.tolist()) == sorted(held - {key for key, _, _ in self.naive.tuples})
        self.compare()

    def purge_keys(self, ids: Ids, bounds: Int64s) -> None:
        limits = dict(zip(ids.tolist(), bounds.tolist(), strict=True))
        wanted = self.naive.drop({t for t in self.naive.tuples if t[1] < limits.get(t[0], -(2**63))})
        found, _ = self.store.purge_keys(ids, bounds)
        self.gone(found, wanted)
        self.compare()

    def strike(self, some: Sequence[tuple[int, int, int]]) -> None:
        ids, ticks, found = self.store.tuples()
        assert found is not None
        numbers: list[int] = found.column(0).to_pylist()
        positions = np.concatenate([segment.all_positions()[rows] for segment, rows in found.parts])
        places = [numbers.index(number) for _, _, number in some]
        ids, ticks = found.arranged(ids), found.arranged(ticks)
        self.store.strike(ids[places], ticks[places], positions[places])
        self.naive.drop(set(some))
        self.compare()

    def gone(self, found: Found | None, wanted: set[int]) -> None:
        numbers: list[int] = [] if found is None else found.column(0).to_pylist()
        assert sorted(numbers) == sorted(wanted)

    def compare(self) -> None:
        store, tuples = self.store, self.naive.tuples
        assert len(store) == len(tuples)
        least = min((tick for _, tick, _ in tuples), default=FOREVER)
        assert store.least() <= least
        ids = np.arange(self.keys, dtype=np.int32)
        by_key = {key: min(t for k, t, _ in tuples if k == key) for key in {k for k, _, _ in tuples}}
        assert store.least_of(ids).tolist() == [by_key.get(key, FOREVER) for key in ids.tolist()]


@pytest.mark.parametrize("span", [4, 1 << 20])
@pytest.mark.parametrize("keys", [1, 3, 60])
def test_a_store_does_what_its_naive_twin_does(keys: int, span: int) -> None:
    rng = np.random.default_rng(keys)
    driven, now = Driven(Store(span), keys), -500
    for step in range(12):
        count = int(rng.integers(1, 90))
        # Key 0 gets most, so that its entries fill blocks, are split, and go again.
        ids = np.where(rng.random(count) < 0.7, 0, rng.integers(0, keys, count))
        ticks = (
            now
            + np.sort(rng.integers(0, 40, count))
            - np.where(rng.random(count) < 0.3, rng.integers(0, 300, count), 0)
        )
        driven.insert(ids, np.maximum(ticks, now - 260))
        probes = rng.integers(0, keys, 8).astype(np.int32)
        low = now + rng.integers(-300, 40, 8)
        driven.probe(probes, low, low + rng.integers(-1, 200, 8), size=int(rng.integers(1, 50)))
        if step % 3 == 1:
            some = sorted(driven.naive.tuples)
            driven.strike([some[i] for i in rng.permutation(len(some))[: len(some) // 5].tolist()])
        if step % 4 == 2:
            named = rng.permutation(keys)[: max(1, keys // 2)].astype(np.int32)
            driven.purge_keys(named, now - rng.integers(0, 200, len(named)))
        driven.purge(now - int(rng.integers(150, 260)))
        now += int(rng.integers(5, 60))
    driven.purge(2**63 - 1)
    assert len(driven.store) == 0 and driven.store.least() == FOREVER


def test_a_key_of_many_keeps_the_order_of_time_whatever_order_they_come_in() -> None:
    rng = np.random.default_rng(3)
    driven = Driven(Store(100), 2)
    for order in (np.arange(700), np.arange(700)[::-1], rng.permutation(700)):
        driven.insert(np.zeros(700, np.int64), order)
    driven.probe(np.zeros(3, np.int32), np.array([5, 640, 300]), np.array([9, 3000, 290]), size=7)
    for bound in (1, 200, 650, 699):
        driven.purge(bound)
    driven.strike(sorted(driven.naive.tuples)[:2])
    driven.purge(700)


def test_many_equal_ticks_of_one_key_stay_apart() -> None:
    driven = Driven(Store(10), 1)
    driven.insert(np.zeros(900, np.int64), np.full(900, 7))
    driven.insert(np.zeros(3, np.int64), np.array([6, 7, 8]))
    driven.probe(np.zeros(2, np.int32), np.array([7, 8]), np.array([7, 8]), size=1000)
    some = sorted(driven.naive.tuples)
    driven.strike(some[1::7])
    driven.purge(7)
    driven.purge(8)


def test_tuples_far_ahead_are_found_when_their_time_comes() -> None:
    driven = Driven(Store(4), 5)
    driven.insert(np.arange(5), np.array([0, 10_000, 20_000, 2**40, 2**60]))
    for bound in (1, 9_999, 10_001, 30_000, 2**40, 2**40 + 1):
        driven.purge(bound)
    driven.insert(np.arange(2), np.array([2**41, 2**60]))
    driven.purge(2**60)
    driven.purge(2**60 + 1)


def test_a_calendar_adapts_to_states_far_longer_than_the_band() -> None:
    rng = np.random.default_rng(8)
    driven = Driven(Store(2), 40)
    ticks = np.concatenate((np.arange(1500), rng.integers(20_000, 2_000_000, 1500)))
    driven.insert(rng.integers(0, 40, len(ticks)), ticks)
    for bound in (700, 20_000, 60_000, 300_000, 1_000_000, 1_999_999):
        driven.purge(bound)


def test_memory_of_a_burst_is_given_back() -> None:
    rng = np.random.default_rng(5)
    store = Store(1000)
    store.reserve(50)
    batch = pa.record_batch([pa.array(np.zeros(3000, np.int64))], names=["x"])
    for step in range(4):
        store.insert(rng.integers(0, 50, 3000).astype(np.int32), np.arange(3000) + 3000 * step, batch, None)
    held = store.nbytes
    store.purge(11_980)
    assert store.nbytes > held / 2
    for bound in range(11_981, 12_000):
        store.purge(bound)
    assert len(store) == 1 and store.nbytes < held / 4


def test_dead_rows_among_live_ones_are_thrown_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_LARGE", 500)
    store = Store(10)
    store.reserve(1)
    for step in range(40):
        # One tuple in ten stays for long, so that no segment dies as a whole.
        ticks = np.where(np.arange(100) % 10 == 0, 10**6 + step, step)
        numbers = pa.record_batch([pa.array(np.arange(100) + 100 * step)], names=["number"])
        store.insert(np.zeros(100, np.int32), ticks, numbers, None)
        store.purge(step + 1)
    assert len(store) == 400
    assert sum(len(segment) for segment in store.segments) <= 2 * len(store) + 500
    _, _, found = store.tuples()
    assert found is not None
    assert sorted(found.column(0).to_pylist()) == [100 * s + i for s in range(40) for i in range(0, 100, 10)]
