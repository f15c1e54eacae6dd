"""Tuples that follow each other in one window are listed as those of a loop in Python."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.ranked.parts import rank_runs, runs


@given(st.lists(st.integers(0, 2), max_size=20))
def test_runs_begin_where_a_number_differs_from_the_one_before(numbers: list[int]) -> None:
    starts = np.empty(len(numbers), np.int64)
    found = runs(np.array(numbers, np.int64), starts)
    assert starts[:found].tolist() == [i for i in range(len(numbers)) if i == 0 or numbers[i] != numbers[i - 1]]


@given(st.lists(st.integers(0, 2), max_size=20), st.lists(st.integers(0, 9), min_size=3, max_size=3), st.integers(1, 4))
def test_ranks_are_listed_window_by_window_unless_partitions_do_not_ascend(
    parts: list[int], before: list[int], size: int
) -> None:
    ranked, counted, told = np.array(before, np.int64), [*before], list[tuple[int, int]]()
    for part in parts:
        told.append((part, counted[part] // size))
        counted[part] += 1
    found = np.empty((3, len(parts)), np.int64)
    n = rank_runs(np.array(parts, np.int32), ranked, size, found)
    if parts != sorted(parts):
        assert (n, ranked.tolist()) == (-1, before)
    else:
        listed = [(part, window, len([*some])) for (part, window), some in groupby(told)]
        assert (list(zip(*found[:, :n].tolist(), strict=True)), ranked.tolist()) == (listed, counted)
