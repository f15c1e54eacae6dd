"""Window-ids of many values at a time are those that Python's integers give, however far apart the values are."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.data.page import Int64s
from operators.kernels.ticks import BEFORE_ALL, LIMIT
from operators.kernels.windows.slots import enter_slices, slice_ids
from operators.kernels.windows.window import clip, sliding_wids

lengths = st.sampled_from([1, 255, 256, 700])
spreads = st.integers(1, 62)
NO_NULLS = np.empty(0, np.bool_)


def drawn(seed: int, length: int, spread: int, start: int) -> Int64s:
    """Return values of which most are within a range from a start on, and the others anywhere."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 1 << spread, length) + start
    anywhere = rng.random(length) < (seed % 3) / 400
    return np.where(anywhere, rng.integers(-(2**63), 2**63 - 1, length), values)


@given(
    st.integers(0, 99), lengths, spreads, st.integers(-LIMIT, LIMIT), st.integers(1, LIMIT), st.integers(1, LIMIT),
    st.integers(0, 60), st.integers(0, 60), st.integers(-LIMIT + 1, LIMIT - 1), st.booleans(),
)  # fmt: skip
def test_ids_are_quotients_rounded_down(
    seed: int, length: int, spread: int, start: int, size: int, slide: int, small: int, less: int, origin: int,
    whole: bool,
) -> None:  # fmt: skip
    slide, values = (slide >> small) + 1, drawn(seed, length, spread, start)
    size = slide * max(1, size // slide >> less) if whole else (size >> less) + 1
    first, last = np.empty((2, length), np.int64)
    sliding_wids(values, size, slide, origin, BEFORE_ALL, first, last)
    usable = np.abs(values.astype(np.float64)) < LIMIT
    for value, begin, end in zip(values[usable].tolist(), first[usable].tolist(), last[usable].tolist(), strict=True):
        assert (begin, end) == ((value - origin) // slide, (value - origin + size) // slide)
    floored = np.empty((2, length), np.int64)
    sliding_wids(values, size, slide, origin, 3, *floored)
    np.testing.assert_array_equal(floored[0], np.maximum(first, 3))
    np.testing.assert_array_equal(floored[1], last)


@given(st.integers(0, 99), lengths, st.integers(1, 8), st.integers(-20, 280), st.booleans(), st.booleans())
def test_what_is_released_is_taken_away_and_counted(
    seed: int, length: int, spread: int, bound: int, nulls: bool, gaps: bool
) -> None:
    rng, values = np.random.default_rng(seed), drawn(seed, length, spread, 0)
    first = np.where(np.abs(values.astype(np.float64)) < LIMIT, values, 0)
    last = first + rng.integers(0 if gaps else 1, 4, length)
    valid = rng.random(length) < 0.9 if nulls else NO_NULLS
    counted, ranges = [0, 0, 0, 0], list[tuple[int, int]]()
    for i, (value, begin, end) in enumerate(zip(values.tolist(), first.tolist(), last.tolist(), strict=True)):
        if (nulls and not valid[i]) or abs(value) >= LIMIT:
            counted[3] += 1
            begin = end = 0
        elif begin >= end:
            counted[2] += 1
        elif end <= bound:
            counted[0] += 1
            end = begin
        elif begin < bound:
            counted[1] += 1
            begin = bound
        ranges.append((begin, end))
    assert list(clip(values, valid, LIMIT, bound, first, last)) == counted
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == ranges


@given(
    st.sets(st.tuples(st.integers(-70, 70), st.integers(1, 6)), min_size=1, max_size=16),
    st.sampled_from([1, 3, 1 << 20, 1 << 40]),
    st.integers(0, 99),
)
def test_a_range_is_found_wherever_the_ranges_are(ranges: set[tuple[int, int]], step: int, seed: int) -> None:
    starts, ends = np.array([(begin * step, (begin + length) * step) for begin, length in sorted(ranges)]).T.copy()
    table = np.full(64, -1, np.int32)
    enter_slices(np.arange(len(starts), dtype=np.int32), starts, ends, table)
    which = np.random.default_rng(seed).integers(0, len(starts), 50)
    first, last, ids = starts[which], ends[which], np.empty(50, np.int32)
    # No range ends there.
    last[37] = 100 * step
    assert slice_ids(first, last, starts, ends, table, ids, 0) == 37
    np.testing.assert_array_equal(ids[:37], which[:37])
    last[37] = ends[which[37]]
    assert slice_ids(first, last, starts, ends, table, ids, 37) == 50
    np.testing.assert_array_equal(ids, which)
