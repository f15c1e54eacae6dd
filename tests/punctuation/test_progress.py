"""Progress adds promises up and never invents one; what all ports promise is emitted once and is true of each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctuation import (
    END,
    Below,
    Between,
    Equals,
    Meet,
    OneOf,
    Progress,
    Punctuation,
    Value,
    before,
    group_punctuation,
)
from punctuation.plain import load_progress, save_progress

ATTRIBUTES = ("ts", "k", "x")
ROWS: list[dict[str, Value | None]] = [
    dict(zip(ATTRIBUTES, values, strict=True)) for values in product(range(6), ("a", "b"), (0, 1))
]
BOUNDS = st.integers(0, 6)
KEYS = st.sampled_from([Equals("a"), Equals("b"), OneOf(frozenset(("a", "b")))])
LINEAR = st.builds(before, st.just("ts"), BOUNDS) | st.builds(before, st.just("x"), st.integers(0, 2))
GROUPED = st.builds(lambda k, v: Punctuation({"k": k, "ts": Below(v)}), KEYS, BOUNDS)
FINISHED = st.builds(lambda k: Punctuation({"k": k}), KEYS)
GENERAL = st.builds(
    lambda low, x: Punctuation({"ts": Between(low, low + 2), "x": Equals(x)}), BOUNDS, st.integers(0, 1)
)
PROMISES = LINEAR | GROUPED | FINISHED | GENERAL
STEPS = st.lists(st.tuples(st.integers(0, 1), PROMISES | st.just(END)), max_size=10)


def ruled_out(promises: Iterable[Punctuation]) -> set[int]:
    """Give the numbers of the tuples that cannot come any more."""
    held = list(promises)
    return {i for i, row in enumerate(ROWS) if any(p.matches(row) for p in held)}


@given(st.lists(PROMISES, max_size=8), PROMISES)
def test_progress_rules_out_what_its_promises_rule_out_no_more_and_no_less(
    made: list[Punctuation], asked: Punctuation
) -> None:
    progress = Progress()
    for promise in made:
        progress.advance(promise)
    assert ruled_out(progress.promises()) == ruled_out(made)
    columns = {name: np.array([row[name] for row in ROWS]) for name in ATTRIBUTES}
    assert set(np.flatnonzero(progress.mask(columns, len(ROWS))).tolist()) == ruled_out(made)
    if progress.implies(asked):
        assert ruled_out([asked]) <= ruled_out(made)
    assert all(progress.implies(promise) for promise in made)


@given(st.lists(PROMISES, max_size=6))
def test_a_promise_made_again_is_stale_and_changes_nothing(made: list[Punctuation]) -> None:
    progress = Progress()
    news = [progress.advance(promise) for promise in made]
    assert progress.stale == news.count(False)
    before_again = sorted(map(str, progress.promises()))
    assert not any(progress.advance(promise) for promise in made)
    assert sorted(map(str, progress.promises())) == before_again
    assert progress.stale == news.count(False) + len(made)


@given(st.lists(st.integers(0, 9), max_size=8))
def test_a_bound_never_moves_back(bounds: list[int]) -> None:
    progress = Progress()
    for i, bound in enumerate(bounds):
        progress.advance(before("ts", bound))
        assert progress.bound("ts") == max(bounds[: i + 1])


@given(st.lists(PROMISES, max_size=5), st.lists(st.integers(0, 9), max_size=4), st.booleans(), st.booleans())
def test_a_bound_rises_as_its_promise_advances(
    made: list[Punctuation], bounds: list[int], ended: bool, assumed: bool
) -> None:
    one, other = Progress(), Progress()
    for promise in [*made, *[END] * ended]:
        one.advance(promise)
        other.advance(promise)
    for bound in bounds:
        promise = before("ts", bound, assumed=assumed)
        given = one.rise("ts", bound, assumed=assumed)
        assert given == (promise if other.advance(promise) else None)
        assert given is None or given.assumed == assumed
        assert one == other


def test_a_group_is_as_far_as_itself_or_the_whole_whichever_is_further() -> None:
    progress, shape = Progress(), (("k",), "ts")
    assert progress.effective(shape, ("a",)) is None
    progress.advance(Punctuation({"k": Equals("a"), "ts": Below(5)}))
    progress.advance(before("ts", 3))
    assert (progress.effective(shape, ("a",)), progress.effective(shape, ("b",))) == (5, 3)
    progress.advance(before("ts", 7))
    assert progress.effective(shape, ("a",)) == 7 and not progress.grouped


def test_end_makes_every_other_promise_superfluous() -> None:
    progress = Progress()
    progress.advance(before("ts", 3))
    assert progress.advance(END) and progress.ended
    assert not progress.advance(before("ts", 99)) and list(progress.promises()) == [END]


@given(st.lists(PROMISES, max_size=8), st.booleans())
def test_progress_survives_saving(made: list[Punctuation], ended: bool) -> None:
    progress = Progress()
    for promise in [*made, END] if ended else made:
        progress.advance(promise)
    again = load_progress(save_progress(progress))
    assert sorted(map(str, again.promises())) == sorted(map(str, progress.promises()))
    assert (again.stale, again.ended, again.linear) == (progress.stale, progress.ended, progress.linear)


def test_damaged_progress_is_refused() -> None:
    with pytest.raises(ValueError, match="saved progress"):
        load_progress([1])


@given(STEPS)
def test_what_is_emitted_is_true_of_every_port_and_new(steps: list[tuple[int, Punctuation]]) -> None:
    meet = Meet(2)
    made: list[list[Punctuation]] = [[], []]
    emitted: list[Punctuation] = []
    for port, promise in steps:
        made[port].append(promise)
        for new in meet.advance(port, promise):
            assert not any(old.implies(new) for old in emitted)
            emitted.append(new)
        for own in made:
            assert ruled_out(emitted) <= ruled_out(own)


@given(STEPS)
def test_nothing_that_all_ports_promised_is_kept_back(steps: list[tuple[int, Punctuation]]) -> None:
    meet = Meet(2)
    made: list[list[Punctuation]] = [[], []]
    emitted: list[Punctuation] = []
    for port, promise in steps:
        made[port].append(promise)
        emitted += meet.advance(port, promise)
    assert ruled_out(emitted) == ruled_out(made[0]) & ruled_out(made[1])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12))
def test_the_linear_bound_of_three_ports_is_the_least(steps: list[tuple[int, int]]) -> None:
    meet = Meet(3)
    bounds: dict[int, int] = {}
    for port, bound in steps:
        meet.advance(port, before("ts", bound))
        bounds[port] = max(bound, bounds.get(port, 0))
        assert meet.emitted.bound("ts") == (min(bounds.values()) if len(bounds) == 3 else None)


def test_a_port_that_ended_promises_everything() -> None:
    meet = Meet(2)
    assert meet.advance(0, before("ts", 4)) == []
    assert meet.advance(1, END) == [before("ts", 4)]
    assert meet.advance(0, Punctuation({"k": Equals("a"), "ts": Below(9)})) == [
        Punctuation({"k": Equals("a"), "ts": Below(9)})
    ]
    assert meet.advance(0, END) == [END] and meet.advance(0, END) == []


def test_groups_that_share_a_bound_travel_together() -> None:
    together = list(group_punctuation((("k",), "ts"), [("a",), ("b",)], 4))
    assert together == [Punctuation({"k": OneOf(frozenset(("a", "b"))), "ts": Below(4)})]
    apart = list(group_punctuation((("k", "x"), None), [("a", 1), ("b", 0)], None))
    assert apart == [Punctuation({"k": Equals(k), "x": Equals(x)}) for k, x in (("a", 1), ("b", 0))]
    assert list(group_punctuation((("k",), "ts"), [], 4)) == []


def test_a_group_that_is_over_on_one_port_gets_as_far_as_the_others_are() -> None:
    meet = Meet(2)
    assert meet.advance(0, before("ts", 1)) == []
    over = Punctuation({"k": Equals("a")})
    assert [str(p) for p in meet.advance(1, over)] == ["[k = a, ts < 1]"]
    assert [str(p) for p in meet.advance(0, before("ts", 5))] == ["[k = a, ts < 5]"]
    assert meet.advance(1, before("ts", 3)) == [before("ts", 3)]
    assert meet.advance(0, over) == [over]
