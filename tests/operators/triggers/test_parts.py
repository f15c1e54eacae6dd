"""Windows of rows and predicates fire where their definition says, over the tuples that it says, in their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels.ranked.parts import fire_on_ticks, pair_parts

drawn_windows = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 3), st.lists(st.integers(0, 12), max_size=6), st.integers(0, 5)),
    max_size=4,
)


@given(drawn_windows, st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=3))
def test_windows_fire_at_the_first_of_their_ticks_behind_something_new(
    drawn: list[tuple[int, int, list[int], int]], moments: list[tuple[int, bool]]
) -> None:
    """A window has fired up to some tick, has so many tuples since, and gets others that come behind that tick."""
    reached = [begin + begin % 3 for begin, *_ in drawn]
    ticks = [sorted(since + tick for tick in its) for since, (_, _, its, _) in zip(reached, drawn, strict=True)]
    until = [(max(its) if its else since) + more for since, its, (*_, more) in zip(reached, ticks, drawn, strict=True)]
    right = list[tuple[int, int, int]]()
    for number, (begin, pending, _, _) in enumerate(drawn):
        taken, new = 0, pending > 0
        for tick in range(reached[number] + 1, until[number] + 1):
            due = any((tick - begin) % step == 0 if again else tick - begin == step for step, again in moments)
            came = sum(one < tick for one in ticks[number])
            if due and (new or came > taken):
                right.append((number, came, tick))
                taken, new = came, False
    columns = [[begin for begin, *_ in drawn], reached, [one[1] for one in drawn], list(map(len, ticks)), until]
    windows = tuple(np.array(column, np.int64) for column in columns)
    flat = np.array([tick for its in ticks for tick in its], np.int64)
    fired, listed = np.empty(len(drawn), np.int64), np.empty((2, len(flat) + len(drawn)), np.int64)
    steps, repeats = np.array([step for step, _ in moments]), np.array([again for _, again in moments])
    n = fire_on_ticks(windows, flat, steps, repeats, fired, listed)
    owners = np.repeat(np.arange(len(drawn)), fired).tolist()
    assert list(zip(owners, *listed[:, :n].tolist(), strict=True)) == right


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.booleans(), max_size=5), st.booleans()), max_size=4), st.booleans()
)
def test_a_firing_has_what_its_window_had_and_the_tuples_before_it(
    drawn: list[tuple[bool, list[bool], bool]], discards: bool
) -> None:
    """A window has something before or not, may fire before its first tuple, and behind each of the others."""
    of = [number for number, (_, its, _) in enumerate(drawn) for _ in its]
    ends = [
        [*([0] if first and had else []), *(i + 1 for i, fires in enumerate(its) if fires)] for had, its, first in drawn
    ]
    tuples, windows, firings = range(len(of)), range(100, 100 + len(drawn)), sum(map(len, ends))
    made, fresh = list(range(200, 200 + firings)), list(range(300, 300 + len(drawn)))
    rest = [
        one if its or not had else old for one, old, its, (had, *_) in zip(fresh, windows, ends, drawn, strict=True)
    ]
    held: dict[int, list[int]] = {slot: [slot] for slot in (*tuples, *windows)}
    into, source = np.empty((2, len(of) + 2 * firings), np.int32)
    facts = (
        np.array(list(map(len, ends)), np.int64), np.array([end for its in ends for end in its], np.int64),
        np.array([had for had, *_ in drawn], np.bool_), np.array(windows, np.int64),
    )  # fmt: skip
    its, results, left = (np.array(column, np.int32) for column in (tuples, made, rest))
    n = pair_parts(np.array(of, np.int64), its, facts, results, left, int(discards), into, source)
    for one, other in zip(into[:n].tolist(), source[:n].tolist(), strict=True):
        held[one] = [*held.get(one, []), *held[other]]
    at = firing = 0
    for number, (had, its_own, _) in enumerate(drawn):
        whole, since = [*([windows[number]] if had else []), *range(at, at + len(its_own))], 0
        for end in ends[number]:
            reached = had + end
            assert held.get(made[firing], []) == whole[since * discards : reached]
            since, firing = reached, firing + 1
        expected = whole[since * discards :] if ends[number] else whole
        assert held.get(rest[number], []) == expected
        at += len(its_own)
