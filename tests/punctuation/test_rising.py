"""An attribute that does not rise is seen for what it is after few tuples; one that does is not taken for such."""

from __future__ import annotations

import numpy as np
import pytest

from punctuation import NO_TIME
from punctuation.rising import Rising

N = 1 << 17
RANDOM = np.random.default_rng(7)
PLACES = np.arange(N)
RISING = {
    "in order": PLACES,
    "within a band": PLACES * 10 + RANDOM.integers(0, 40_000, N),
    "slowly": PLACES // 100_000,
    "with nulls": np.where(PLACES % 3 == 0, NO_TIME, PLACES),
    "in sorted blocks": PLACES // 1000 * 1000 + 999 - PLACES % 1000,
    "below zero": PLACES - N,
}
NOT_RISING = {
    "few values": PLACES % 3,
    "ports": RANDOM.integers(0, 65_536, N),
    "hashes": RANDOM.integers(-(2**62), 2**62, N),
    "falling": -PLACES,
    "lengths": RANDOM.choice([40, 52, 1500], N),
}


def fed(values: np.ndarray, size: int) -> Rising:
    rising = Rising()
    for at in range(0, len(values), size):
        rising.feed(values[at : at + size])
    return rising


@pytest.mark.parametrize("size", [700, 8192, N])
@pytest.mark.parametrize("kind", RISING)
def test_what_rises_is_read_on(kind: str, size: int) -> None:
    assert not fed(RISING[kind], size).hopeless


@pytest.mark.parametrize("size", [700, 8192, N])
@pytest.mark.parametrize("kind", NOT_RISING)
def test_what_does_not_rise_is_given_up_early(kind: str, size: int) -> None:
    assert fed(NOT_RISING[kind][: 1 << 15], size).hopeless


def test_a_constant_is_given_up_in_the_end() -> None:
    assert not fed(np.zeros(N, np.int64), 8192).hopeless
    assert fed(np.zeros(1 << 20, np.int64), 8192).hopeless


def test_without_a_value_nothing_is_lost() -> None:
    assert not fed(np.full(1 << 15, NO_TIME), 8192).hopeless
