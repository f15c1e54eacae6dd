"""A punctuator that is asked tells what it knows, and no more; one that is told promises more finely from then on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from punctuation import (
    NO_TIME,
    BlockEnd,
    Embedded,
    Heartbeat,
    Ordered,
    Punctuator,
    Schedule,
    Scheduled,
    Slack,
    TupleSlack,
)
from punctuation.demanded_progress import known, regrain

ticks = st.lists(st.integers(-3, 12) | st.just(NO_TIME), max_size=12)
makers = st.sampled_from(
    [
        lambda step: Ordered("ts", step=step),
        lambda step: Ordered("ts", step=step, strictly=True),
        lambda step: Slack("ts", 2, step=step),
        lambda step: TupleSlack("ts", 2, step=step),
        lambda step: TupleSlack("ts", 2, displacement="larger", step=step),
        lambda step: BlockEnd("ts", length=3, step=step),
    ]
)


def observed(punctuator: Punctuator, values: list[int]) -> int | None:
    _, bounds = punctuator.observe(np.array(values, np.int64))
    return int(bounds[-1]) if len(bounds) else None


@given(makers, ticks, st.integers(1, 5))
def test_what_is_known_is_what_would_be_promised_without_a_step(make: object, values: list[int], step: int) -> None:
    coarse, fine = make(step), make(None)  # type: ignore[operator]
    observed(coarse, values)
    assert known(coarse) == observed(fine, values)


@given(makers, ticks, ticks, st.integers(1, 5))
def test_who_is_told_promises_as_if_it_had_always_been_so_fine(
    make: object, before: list[int], after: list[int], step: int
) -> None:
    told, fine = make(7), make(step)  # type: ignore[operator]
    observed(told, before)
    observed(fine, before)
    assert regrain(told, step)
    fine_bounds = fine.observe(np.array(after, np.int64))[1].tolist()
    bounds = told.observe(np.array(after, np.int64))[1].tolist()
    assert [b for b in bounds if b in fine_bounds] == fine_bounds
    assert all(b % step == 0 for b in bounds)


def test_who_cannot_say_or_be_told_says_so() -> None:
    schedule = Scheduled("ts", Schedule(np.array([0]), np.array([5])))
    for punctuator in (schedule, Heartbeat("ts", {"a": (1, 1)}), Embedded("ts", marker="m"), BlockEnd("ts", block="b")):
        assert known(punctuator) is None
    assert not regrain(schedule, 1)
    with pytest.raises(ValueError, match="at least 1"):
        regrain(Ordered("ts"), 0)
