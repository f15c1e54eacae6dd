"""Plots of what the thesis says in words: answers are those of a loop, verdicts follow made-up numbers both ways."""

from __future__ import annotations

import numpy as np
import pytest

from oop_engine.figures.extra import granularity, join_choice, joint, slide_by_tuple, unions
from oop_engine.figures.extra.arrivals import SECOND, Steps
from oop_engine.figures.figure import Figure, Measured
from oop_engine.figures.thesis.joins import INDIVIDUAL, JOINT
from operators.data.page import Page
from punctuation import below


def outcome(figure: Figure, x: str, by: dict[str, dict[str, list[float]]]) -> str:
    """Judge series that have as many values in each of their columns, x among them."""
    rows: list[dict[str, object]] = [
        {"series": name, **{column: values[at] for column, values in columns.items()}}
        for name, columns in by.items()
        for at in range(len(columns[x]))
    ]
    return figure.judge(Measured.of(rows)).outcome


def counted(steps: Steps, size: int, slide: int) -> dict[tuple[int, int], int]:
    """Count tuples by the end of each window and by group, whenever they come."""
    counts: dict[tuple[int, int], int] = {}
    for _, elements in steps:
        for _, element in elements:
            if isinstance(element, Page):
                for ts, k in zip(element["ts"].tolist(), element["k"].tolist(), strict=True):
                    for end in range((ts // slide + 1) * slide, ts + size + 1, slide):
                        counts[end, k] = counts.get((end, k), 0) + 1
    return counts


def check_promises(steps: Steps) -> int:
    """See that no tuple is before what its input promised; return how many promises there were."""
    bounds, made = {0: -1, 1: -1}, 0
    for _, elements in steps:
        for port, element in elements:
            if isinstance(element, Page):
                assert not len(element) or int(element["ts"].min()) >= bounds[port]
            elif not element.is_end:
                bounds[port], made = int(str(below(dict(element.patterns)["ts"]))), made + 1
    return made


@pytest.mark.parametrize("a_second", [30, 4, 0.5])
def test_promises_are_true_however_many_there_are(a_second: float) -> None:
    assert check_promises(granularity.steps(6, a_second)) == 6 * a_second
    for size in (SECOND, 10 * SECOND):
        found = granularity.counted(size, 6, a_second)
        assert found.counts == counted(granularity.steps(6, a_second), size, SECOND)
        # A window waits a second for late tuples, and for the next promise behind it.
        assert 1 <= found.latency <= 1 + max(0, 1 / a_second - 1)


def test_promises_as_fine_as_slides_are_enough_or_are_not() -> None:
    def judged(latency: list[float] | None = None, held: list[float] | None = None) -> str:
        own = {
            "percent": [10.0, 1.0, 0.1], "slides": [0.1, 1.0, 10.0],
            "latency": latency or [1.0, 1.0, 5.0], "held": held or [20.0, 20.0, 90.0],
        }  # fmt: skip
        return outcome(granularity.GRANULARITY, "percent", dict.fromkeys(granularity.WINDOWS, own))

    assert judged() == "holds"
    for worse in ([1.0, 1.2, 5.0], [1.0, 1.0, 1.0], [2.0, 2.0, 1.0]):
        assert judged(latency=worse) == judged(held=worse) == "does not hold"


@pytest.mark.parametrize("way", [unions.MELD, unions.MERGE, unions.MUCH])
def test_two_links_are_counted_as_a_loop_does(way: str) -> None:
    true = counted(unions.steps(way, 12, 30, 3 * SECOND), 5 * SECOND, SECOND)
    assert unions.counted(way, 12, 30, 3 * SECOND).counts == true
    if way != unions.MUCH:
        assert check_promises(unions.steps(way, 12, 30, 3 * SECOND)) > 100
    # Slack that is less than the skew loses tuples.
    little = unions.counted(unions.LITTLE, 12, 30, 3 * SECOND).counts
    assert little != true and sum(little.values()) < sum(true.values())


def test_meld_holds_less_than_merge_or_does_not() -> None:
    def judged(**changed: dict[str, list[float]]) -> str:
        by = {
            name: {"skew": [0.0, 5.0], "held": held, "latency": latency, "wrong": wrong}
            for name, held, latency, wrong in (
                ("MELD", [5.0, 9.0], [0.0, 5.0], [0.0, 0.0]),
                ("MERGE", [50.0, 90.0], [0.0, 5.0], [0.0, 0.0]),
                ("LITTLE", [5.0, 5.0], [2.0, 2.0], [0.0, 40.0]),
                ("MUCH", [9.0, 9.0], [10.0, 10.0], [0.0, 0.0]),
            )
        }
        named = {getattr(unions, name): {**own, **changed.get(name, {})} for name, own in by.items()}
        return outcome(unions.UNIONS, "skew", named)

    assert judged() == "holds"
    assert judged(MERGE={"held": [50.0, 8.0]}) == judged(MELD={"latency": [0.0, 6.0]}) == "does not hold"
    assert judged(MELD={"wrong": [0.0, 1.0]}) == judged(LITTLE={"wrong": [0.0, 0.0]}) == "does not hold"
    assert judged(MUCH={"latency": [10.0, 4.0]}) == "does not hold"


@pytest.mark.parametrize("reach", [3, 700])
def test_both_ways_slide_by_tuple_as_a_loop_does(reach: int) -> None:
    load = slide_by_tuple.Slid.of(2_500)
    values = load.values[np.argsort(load.ts)]
    true = {ts: int(values[max(0, ts - reach + 1) : ts + 1].min()) for ts in range(len(values))}
    found = slide_by_tuple.answers(load, reach)
    assert found[slide_by_tuple.BINS] == found[slide_by_tuple.BUFFER] == true
    for start, bound in zip(load.stops.tolist(), load.bounds.tolist(), strict=True):
        assert load.ts[start:].min(initial=len(values)) == bound


def test_bins_are_flat_or_are_not() -> None:
    def judged(bins: list[float] | None = None, tuples: list[float] | None = None, held: float = 9.0) -> str:
        by = {
            slide_by_tuple.BINS: {"us": bins or [1.0, 1.5], "held": [9.0, held]},
            slide_by_tuple.BUFFER: {"us": tuples or [0.5, 9.0], "held": [9.0, 9.0]},
        }
        return outcome(
            slide_by_tuple.SLIDE, "reach", {name: {"reach": [10.0, 1_000.0], **own} for name, own in by.items()}
        )

    assert judged() == "holds"
    assert judged(bins=[1.0, 2.5]) == judged(tuples=[0.9, 1.2]) == judged(tuples=[0.1, 1.4]) == "does not hold"
    assert judged(held=10.0) == "does not hold"


@pytest.mark.parametrize("band", [1, 3])
def test_groups_are_over_when_promises_can_know(band: int) -> None:
    length = 12
    both, one = (joint.over(way, length, band) for way in ("joint", "individual"))
    for left in range(length - 2 * band):
        for right in range(max(0, left - band + 1), min(length - 2 * band, left + band)):
            # Both inputs have promised these times; an individual promise waits for partners up to the band later.
            assert both[left, right] == max(left, right) + 1
            assert one[left, right] == max(max(left, right) + 1, min(left, right) + band)


def test_joint_promises_come_at_once_or_do_not() -> None:
    def judged(both: list[float], one: list[float]) -> str:
        by = {JOINT: both, INDIVIDUAL: one}
        series = {name: {"band": [1.0, 2.0, 9.0], "latency": latency} for name, latency in by.items()}
        return outcome(joint.JOINT_LATENCY, "band", series)

    assert judged([0.0, 0.0, 0.5], [0.0, 1.0, 4.0]) == "holds"
    assert judged([0.0, 0.0, 1.0], [0.0, 1.0, 4.0]) == judged([0.0, 0.0, 0.0], [0.0, 1.0, 1.0]) == "does not hold"


def test_a_join_that_chooses_is_near_the_best_fixed_one_or_is_not() -> None:
    cases = [case.name for case in (*join_choice.BY_SKEW, *join_choice.BY_DELAY)]

    def judged(**last: float) -> str:
        rows: list[dict[str, object]] = [
            {"series": name, "case": case, "ms": last[name] if case == cases[-1] else 100.0}
            for name in ("chosen", "indexed", "plain")
            for case in cases
        ]
        return join_choice.JOIN_CHOICE.judge(Measured.of(rows)).outcome

    assert (
        judged(chosen=100.0, indexed=100.0, plain=300.0) == judged(chosen=110.0, indexed=300.0, plain=100.0) == "holds"
    )
    assert judged(chosen=111.0, indexed=100.0, plain=300.0) == "does not hold"


@pytest.mark.parametrize("delay", ["0", "10", "alternating", "flood", "backlog"])
def test_promises_of_late_inputs_are_true(delay: str) -> None:
    script = join_choice.Case("", delay=delay, pages=(100, 70), every=(3, 10)).script(60_000)
    assert check_promises([(0, [(port, element)]) for port, element in script]) > 200
