"""Bags of keys are held against counters, through logs, merges, sharing and compaction; and sorting against sorted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.functions.order import FIRST
from operators.functions.runs import Runs
from operators.kernels.functions import runs as kernels
from tests.examples import share

SLOTS = 6
EVERY = np.arange(SLOTS, dtype=np.int32)


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def bags(runs: Runs) -> list[Counter[int]]:
    found: list[Counter[int]] = []
    for merged in runs.merged(EVERY):
        for j in range(merged.stop - merged.first):
            part = slice(merged.offsets[j], merged.offsets[j + 1])
            keys = merged.keys[part].tolist()
            assert keys == sorted(set(keys))
            found.append(Counter(dict(zip(keys, merged.counts[part].tolist(), strict=True))))
    return found


def references(runs: Runs, slot: int) -> int:
    number, link = 0, int(runs._heads[slot])
    while link > 0:
        number, link = number + 1, int(runs._links[link - 1, kernels.AFTER])
    return number


def check(runs: Runs, held: list[Counter[int]]) -> None:
    assert bags(runs) == held
    assert runs._sizes[:SLOTS].tolist() == [references(runs, slot) for slot in range(SLOTS)]
    totals, of_least = runs.totals(EVERY, FIRST)
    assert totals.tolist() == [sum(bag.values()) for bag in held]
    assert of_least.tolist() == [bag[int(FIRST)] for bag in held]
    for part in (0.0, 0.3, 0.5, 1.0):
        ranks = np.where(totals > 0, np.maximum(np.ceil(part * totals), 1), 0).astype(np.int64)
        wanted = [sorted(bag.elements())[rank - 1] if rank else 0 for bag, rank in zip(held, ranks, strict=True)]
        assert runs.select(EVERY, ranks).tolist() == wanted


@share(4)
@given(data=st.data())
def test_any_sequence_of_calls_holds_what_counters_hold(data: st.DataObject) -> None:
    key = st.integers(-3, 3) | st.sampled_from([int(FIRST), 2**63 - 1, 0, 1 << 40])
    slot = st.integers(0, SLOTS - 1)
    pair = st.tuples(slot, slot)
    step = (
        st.lists(st.tuples(st.integers(-1, SLOTS - 1), key), max_size=12).map(lambda rows: ("add", rows))
        | st.lists(pair, min_size=1, max_size=5).map(lambda pairs: ("combine", pairs))
        | pair.map(lambda one: ("subtract", one))
        | st.permutations(range(SLOTS)).map(lambda order: ("slide", order[:3]))
        | st.lists(slot, min_size=1, max_size=3).map(lambda which: ("free", which))
        | st.sampled_from([("save",), ("reserve",), ("look",)])
    )
    runs, held = Runs(), [Counter[int]() for _ in EVERY]
    runs.reserve(SLOTS)
    for taken in data.draw(st.lists(step, min_size=1, max_size=14)):
        match taken:
            case ("add", rows):
                runs.add(slots(*(s for s, _ in rows)), np.array([k for _, k in rows], np.int64))
                for s, k in rows:
                    if s >= 0:
                        held[s][k] += 1
            case ("combine", pairs):
                runs.combine(*(slots(*side) for side in zip(*pairs, strict=True)))
                for to, of in pairs:
                    held[to] = held[to] + held[of]
            case ("subtract", (to, of)) if held[of] <= held[to]:
                runs.subtract(slots(to), slots(of))
                held[to] = held[to] - held[of]
            case ("slide", (to, leaving, entering)):
                runs.combine(slots(to, to), slots(leaving, entering))
                runs.subtract(slots(to), slots(leaving))
                held[to] = held[to] + held[entering]
                check(runs, held)
            case ("free", which):
                runs.free(slots(*which))
                for s in which:
                    held[s] = Counter()
            case ("save",):
                saved = runs.state()
                runs = Runs()
                runs.restore(saved)
            case ("reserve",):
                runs.reserve(SLOTS + 9)
            case _:
                check(runs, held)
    check(runs, held)
    runs.free(EVERY)
    assert runs.entries == 0


@pytest.mark.parametrize("spread", [3, 500, 1 << 20, 1 << 62])
@pytest.mark.parametrize("size", [1, kernels.FEW, kernels.FEW + 1, 700])
def test_keys_are_sorted_by_whichever_bytes_differ(size: int, spread: int) -> None:
    random = np.random.default_rng(size)
    keys = random.integers(-spread, spread, size + 2)
    wanted = [keys[0], *sorted(keys[1:-1].tolist()), keys[-1]]
    kernels.sort_keys(keys, 1, size + 1, np.empty(size + 2, np.int64))
    assert keys.tolist() == wanted


def test_a_window_of_many_slices_keeps_few_references() -> None:
    random, number = np.random.default_rng(3), kernels.MANY + 500
    runs = Runs()
    runs.reserve(number + 1)
    window, held = slots(number), Counter[int]()
    slices = [random.integers(-40, 40, 9) for _ in range(number)]
    for i, keys in enumerate(slices):
        runs.add(np.full(9, i, np.int32), keys)
        runs.combine(window, slots(i))
        held.update(keys.tolist())
    merged = next(iter(runs.merged(window)))
    assert dict(zip(merged.keys[: merged.offsets[1]].tolist(), merged.counts.tolist(), strict=False)) == held
    assert int(runs._sizes[number]) <= kernels.MANY
    for i in range(number - 1):
        runs.subtract(window, slots(i))
        assert int(runs._sizes[number]) <= kernels.MANY + 1
    assert int(runs._sizes[number]) == references(runs, number)
    merged = next(iter(runs.merged(window)))
    left = Counter(slices[-1].tolist())
    assert dict(zip(merged.keys[: merged.offsets[1]].tolist(), merged.counts.tolist(), strict=False)) == left


def test_combining_copies_no_entry() -> None:
    runs = Runs()
    runs.reserve(30)
    runs.add(np.arange(20, dtype=np.int32).repeat(50), np.arange(1000) % 77)
    before = runs.totals(slots(0), FIRST) and runs.entries
    runs.combine(np.full(20, 20, np.int32), np.arange(20, dtype=np.int32))
    assert runs.entries == before
    assert runs.totals(slots(20), FIRST)[0].tolist() == [1000]
    assert int(runs.select(slots(20), np.array([500]))[0]) == sorted(k % 77 for k in range(1000))[499]


def test_a_slice_that_leaves_takes_its_references_with_it() -> None:
    runs = Runs()
    runs.reserve(SLOTS)
    runs.add(slots(1, 1, 2, 3), np.array([1, 2, 3, 4]))
    runs.combine(slots(0, 0, 0), slots(1, 2, 3))
    for leaving, left in ((2, [1, 2, 4]), (3, [1, 2]), (1, [])):
        runs.subtract(slots(0), slots(leaving))
        check(runs, [Counter(left), Counter([1, 2]), Counter([3]), Counter([4]), Counter(), Counter()])
    assert references(runs, 0) == 0


def test_state_follows_what_is_held_and_not_what_was() -> None:
    runs = Runs()
    runs.reserve(2)
    random = np.random.default_rng(5)
    for _ in range(40):
        runs.add(np.zeros(5000, np.int32), random.integers(0, 1 << 40, 5000))
        runs.add(np.ones(10, np.int32), np.arange(10))
        runs.free(slots(0))
    assert runs.entries < 2000
    assert runs.nbytes < 4_000_000
    runs.free(slots(0, 1))
    assert (runs.entries, runs.nbytes < 20_000) == (0, True)


def test_larger_logs_and_many_slots_hold_what_counters_hold() -> None:
    random = np.random.default_rng(11)
    runs, number = Runs(), 3000
    runs.reserve(number)
    every = np.arange(number, dtype=np.int32)
    held = [Counter[int]() for _ in every]
    for _ in range(4):
        where, keys = random.integers(-1, number, 20_000).astype(np.int32), random.integers(-9, 9, 20_000)
        runs.add(where, keys)
        for s, k in zip(where.tolist(), keys.tolist(), strict=True):
            if s >= 0:
                held[s][k] += 1
    found: list[dict[int, int]] = []
    for merged in runs.merged(every):
        for a, b in zip(merged.offsets[:-1].tolist(), merged.offsets[1:].tolist(), strict=True):
            found.append(dict(zip(merged.keys[a:b].tolist(), merged.counts[a:b].tolist(), strict=True)))
    assert found == held


def test_keys_are_renamed_where_they_wait_and_where_they_are_sorted() -> None:
    runs = Runs()
    runs.reserve(2)
    runs.add(slots(0, 0, 1), np.array([5, 2, 2]))
    runs.combine(slots(0), slots(1))
    runs.add(slots(1), np.array([9]))
    marks = runs.marked(10)
    assert np.flatnonzero(marks).tolist() == [2, 5, 9]
    runs.rename(np.cumsum(marks) - 1)
    merged = next(iter(runs.merged(slots(0, 1))))
    assert merged.keys[: merged.offsets[-1]].tolist() == [0, 1, 0, 2]
    assert merged.counts[: merged.offsets[-1]].tolist() == [2, 1, 1, 1]


@share(4)
@given(
    taken=st.lists(st.integers(-4, 4), min_size=1, max_size=8),
    left=st.lists(st.integers(-4, 4), max_size=8),
    later=st.lists(st.lists(st.integers(-4, 4), min_size=1, max_size=6), max_size=3),
)
def test_what_came_in_other_runs_is_taken_away_and_merged_all_the_same(
    taken: list[int], left: list[int], later: list[list[int]]
) -> None:
    runs = Runs()
    runs.reserve(SLOTS)
    both = np.array([*taken, *left])
    runs.add(np.zeros(len(both), np.int32), both)
    runs.add(np.ones(len(taken), np.int32), np.array(taken))
    runs.subtract(slots(0), slots(1))
    held = [Counter(left), Counter(taken), *(Counter[int]() for _ in range(SLOTS - 2))]
    check(runs, held)
    for keys in later:
        runs.add(np.zeros(len(keys), np.int32), np.array(keys))
        held[0].update(keys)
        check(runs, held)
    runs.subtract(slots(1), slots(1))
    held[1] = Counter()
    check(runs, held)
