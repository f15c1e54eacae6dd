"""Release latency runs from the promise of the last source to the result, and counts nothing that was not complete."""

from __future__ import annotations

import pytest

import oop_engine as oop
from oop_engine.drive import meter
from oop_engine.drive.latency import BOUNDS, Latencies, Releases
from oop_engine.drive.synchronous import Run
from operators.protocol import Element
from punctuation import Punctuation, Range

SCHEMA = oop.Schema.of(ts="timestamp[s]")


def measured(stream: oop.Stream, monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[Element, float]], Releases]:
    """Run a stream by a clock that goes on by a second with each promise of a source, and by 0.2 s to each result."""
    now = 0.0

    def tick() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr(meter, "monotonic", tick)
    run = Run(stream.start(page_rows=1).plan, 1)
    releases = Releases(lambda: run.circuit, clock=lambda: now + 0.2)
    given = list[tuple[Element, float]]()
    for _, element in run:
        releases.take(0, element)
        given.append((element, now))
    return given, releases


def test_each_end_of_windows_counts_from_the_promise_that_completed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = oop.rows(iter([(1,), (12,), (25,), (38,)]), SCHEMA, punctuate=oop.ordered())
    _, releases = measured(rows.window(range="10 s").aggregate(oop.count()), monkeypatch)
    (found,) = releases.read().values()
    assert sum(found.counts) == 4 and found.total == pytest.approx(4 * 0.2)
    assert found.counts[BOUNDS.index(0.25)] == 4


def test_the_last_of_several_sources_completes_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast link promises everything first; each window waits for the slow one, and is measured from there."""
    fast = oop.rows(iter([(1,), (70,)]), SCHEMA, name="fast", punctuate=oop.ordered())
    slow = oop.rows(iter([(2,), (15,), (71,)]), SCHEMA, name="slow", punctuate=oop.ordered())
    given, releases = measured(oop.meld(fast, slow).window(range="10 s").aggregate(oop.count()), monkeypatch)
    (found,) = releases.read().values()
    assert sum(found.counts) == 3 and found.total == pytest.approx(3 * 0.2) and given


def test_what_is_no_complete_window_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = oop.rows(iter([(1,), (2,), (3,)]), SCHEMA, punctuate=oop.ordered())
    given, releases = measured(rows, monkeypatch)
    assert given and not releases.read()
    unbegun = Releases(lambda: None)
    unbegun.take(0, given[0][0])
    assert not unbegun.read()


def test_a_source_that_promises_for_ever_keeps_the_times_of_its_last_promises() -> None:
    counting = meter.Meter("link", promised=[])
    for bound in range(10_000):
        counting.emitted(Punctuation({"ts": Range(high=bound, high_open=True)}))
    assert counting.promised is not None
    assert 256 <= len(counting.promised) < 512 and counting.promised[-1][0] == 9_999


def test_a_latency_is_in_the_bucket_that_ends_at_it() -> None:
    found = Latencies()
    for seconds in (0.001, 0.0011, 59.0, 61.0):
        found.add(seconds)
    told = dict(found.buckets())
    assert (told["0.001"], told["0.0025"], told["30.0"], told["60.0"], told["+Inf"]) == (1, 2, 2, 3, 4)
