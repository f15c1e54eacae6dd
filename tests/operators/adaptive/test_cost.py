"""Condition 6.9 decides as the comparison of what eager and lazy aggregation cost."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from operators.baselines.adaptive.cost import Cost, buffered, eager_cost, lazy_cost, threshold
from operators.errors import SchemaError
from operators.kernels.baselines.adaptive import threshold as compiled


def test_condition_6_9_is_eq_6_5_below_eq_6_8_on_two_thousand_points() -> None:
    draw = random.Random(0)
    decided = {True: 0, False: 0}
    for _ in range(2000):
        aggr, tup, slide = Fraction(draw.randint(1, 99)), Fraction(draw.randint(1, 9)), Fraction(draw.randint(1, 9))
        wed = Fraction(draw.randint(1, 40))
        sources = draw.randint(1, 4)
        vols = [Fraction(draw.randint(0, 6), draw.randint(1, 6)) for _ in range(sources)]
        offsets = [Fraction(0), *(Fraction(draw.randint(0, int(wed)), 2) for _ in range(sources - 1))]
        vol = sum(vols)
        eager = vol * wed > threshold(aggr, tup, wed, slide, vols, offsets)
        assert eager == (eager_cost(aggr, wed, slide) < lazy_cost(tup, vol, wed, vols, offsets))
        decided[eager] += 1
    assert min(decided.values()) > 400


def test_the_compiled_threshold_is_the_formula_times_tup_slide_and_range() -> None:
    draw = random.Random(1)
    for _ in range(300):
        aggr, tup = draw.choice([0.25, 0.5, 1.0, 3.0]), draw.choice([0.5, 1.0, 2.0])
        wed, slide, length = draw.randint(1, 30), draw.randint(1, 9), draw.randint(1, 30)
        counts = np.array([[draw.randint(0, 9) for _ in range(draw.randint(1, 4))]])
        high = np.array([draw.randint(0, 20) for _ in counts[0]])
        vols = [Fraction(int(n), length) for n in counts[0]]
        offsets = [int(high.max() - h) for h in high]
        exact = threshold(Fraction(aggr), Fraction(tup), wed, slide, vols, offsets)
        rate = tup * slide
        assert compiled(counts, 0, high, (0.0, aggr * wed * length, rate)) == exact * Fraction(rate) * length


def test_the_example_of_figure_6_16() -> None:
    """Sources A, B and C, of which B is 2 and C 3 ticks behind A, in a window that was open for 10 ticks."""
    assert buffered(6, 10, [3, 2, 1], [0, 2, 3]) == 3 * 10 + 2 * (10 - 2) + 1 * (10 - 3) == 53
    assert lazy_cost(4, 6, 10) == 240
    assert eager_cost(12, 10, 2) == 60


@pytest.mark.parametrize(
    ("wrong", "told"),
    [({"aggr": 0.0}, "aggr=0.0"), ({"tup": -1.0}, "tup=-1.0"), ({"band": 1.0}, "band=1.0.*less than 1")],
)
def test_a_cost_that_makes_no_sense_is_refused_with_its_value(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(SchemaError, match=f"(?s){told}"):
        Cost(**wrong)
