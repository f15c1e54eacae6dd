"""Slices are found by their ticks through a grid that goes round, and from where windows were before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.slicing import release as releasing
from operators.kernels.slicing.layout import NEXT_WID
from operators.kernels.slicing.release import FROM, GONE, LAST_PART, MOST_GONE, SHIFT, complete, enter_keys
from operators.kernels.ticks import FAR

Steps = list[tuple[list[int], int]]
NONE = np.zeros(0, np.int64)

#: What comes to the queue, as distances between keys, and how many go at its front, again and again.
STEPS: st.SearchStrategy[Steps] = st.lists(
    st.tuples(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 12)), min_size=1, max_size=12
)


@given(STEPS, st.integers(0, 4), st.integers(0, 3), st.sampled_from([0, MOST_GONE - 20]))
def test_a_grid_tells_where_keys_are_as_long_as_it_has_room(steps: Steps, bits: int, shift: int, before: int) -> None:
    grid = np.full(1 << bits, -1, np.int32)
    scale = np.zeros(4, np.int64)
    keys, held = np.array([100], np.int64), 0
    scale[FROM], scale[SHIFT], scale[GONE], scale[LAST_PART] = 100, shift, before, -1
    for more, gone in steps:
        keys = np.append(keys, keys[-1] + np.cumsum(np.array(more, np.int64)))
        room = enter_keys(keys, held, (grid, scale))
        parts = (keys - 100) >> shift
        few = len(keys) <= len(grid) and parts[-1] - parts[0] < len(grid) and scale[GONE] + len(keys) <= MOST_GONE
        assert room == (few or held == len(keys))
        if not room:
            return
        held = len(keys)
        for tick in range(int(keys[0]) - 2, int(keys[-1]) + 3):
            found = releasing._seek(tick, keys, len(keys), (grid, scale))
            assert found == np.searchsorted(keys, tick)
            assert releasing._seek(tick, keys, len(keys), (NONE.astype(np.int32), scale)) == found
        gone = min(gone, len(keys) - 1)
        keys, held = keys[gone:], held - gone
        scale[GONE] += gone


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(-5, 5)), min_size=1, max_size=5),
    STEPS,
    st.integers(1, 5),
    st.sampled_from([0, 0, 0, 3, -3]),
)
def test_windows_told_from_where_others_were_are_those_looked_for_anew(
    windows: list[tuple[int, int, int]], steps: Steps, room: int, astray: int
) -> None:
    spans = [(size, slide, origin, -(2**61), FAR, i + 7) for i, (size, slide, origin) in enumerate(windows)]
    bands = np.array(spans, np.int64)
    ahead = np.full((3, len(bands)), -FAR, np.int64)
    ahead[NEXT_WID] = -(2**63)
    near, gone, told = np.zeros(len(bands), np.int64), 0, -FAR
    no_grid = np.zeros(0, np.int32), np.zeros(4, np.int64)
    keys = np.array([100], np.int64)
    for more, dropped in steps:
        keys = np.append(keys, keys[-1] + np.cumsum(np.array(more, np.int64)))
        bound = int(keys[-1]) + 1
        expected = [
            (i + 7, w, begin, begin + size)
            for i, (size, slide, origin) in enumerate(windows)
            for w in range((int(keys[0]) - origin) // slide - 1, (bound - origin) // slide)
            for begin in [origin + (w + 1) * slide - size]
            if told < begin + size <= bound and ((keys >= begin) & (keys < begin + size)).any()
        ]
        # Where to look may be wrong, but not what is found.
        near += astray
        found: list[tuple[int, ...]] = []
        count, begin, end = room, FAR, FAR
        while count == room:
            columns = np.zeros((6, room), np.int64)
            count, begin, end = complete(bands, ahead, bound, keys, no_grid, gone, near, columns, 0, room)
            found += [tuple(row) for row in columns[:4, :count].T.tolist()]
            for _, _, opens, closes, first, last in columns[:, :count].T.tolist():
                assert first == np.searchsorted(keys, opens) and last == np.searchsorted(keys, closes)
        assert sorted(found) == sorted(expected)
        ends = [origin + ((bound - origin) // slide + 1) * slide for _, slide, origin in windows]
        assert end == min(ends)
        assert begin == min(end - size for end, (size, _, _) in zip(ends, windows, strict=True))
        told = bound
        # Slices go that are in no window to come.
        dropped = min(dropped, int(np.searchsorted(keys, begin)), len(keys) - 1)
        keys, gone = keys[dropped:], gone + dropped
