"""What takes a large part of the memory is told in time, and not again and again."""

from __future__ import annotations

from oop_engine.drive.growth import SHARE, Growth, large
from oop_engine.drive.memory import most
from oop_engine.drive.meter import OperatorStatistics

GB = 1_000_000_000


def operator(**details: int) -> OperatorStatistics:
    return OperatorStatistics("count(*) by srcIP", 0, 0, 0, 0, {}, {}, details)


def test_a_state_that_grows_is_told_with_what_it_is_made_of_and_how_long_it_can_go_on() -> None:
    growth = Growth(memory=24 * GB)
    assert list(growth.look([operator(state_bytes=2 * GB, groups=7_000_000)], 10.0)) == []
    (line,) = growth.look([operator(state_bytes=5 * GB, groups=10_000_000)], 20.0)
    assert line.startswith(
        "count(*) by srcIP holds 5.0 GB (10,000,000 groups of 500 bytes), and grows by 300.0 MB a second; "
        "at this rate 24.0 GB of memory last 63 s; a shorter window"
    )


def test_it_is_told_again_when_it_has_doubled_and_not_before() -> None:
    growth = Growth(memory=8 * GB)
    told = [len(list(growth.look([operator(state_bytes=n * GB // 10)], float(n)))) for n in range(1, 81)]
    assert [n for n, lines in enumerate(told, 1) if lines] == [10, 20, 40, 80]


def test_one_that_does_not_grow_is_told_with_the_memory_there_is() -> None:
    (line,) = Growth(memory=8 * GB).look([operator(state_bytes=GB, state_tuples=1000)], 0.0)
    assert "(1,000 entries of 1,000,000 bytes), of 8.0 GB of memory;" in line


def test_it_is_looked_at_once_a_second() -> None:
    growth = Growth(memory=8 * GB)
    assert growth.due(3.0)
    assert list(growth.look([], 3.0)) == []
    assert [growth.due(now) for now in (3.0, 3.9, 4.0)] == [False, False, True]


def test_a_run_tells_afterwards_of_a_state_that_was_large_at_its_peak() -> None:
    assert 0 < most() < 1 << 62
    (line,) = large([operator(peak_state_bytes=most() // SHARE, groups=10), operator(peak_state_bytes=1000)])
    assert "at its peak" in line
