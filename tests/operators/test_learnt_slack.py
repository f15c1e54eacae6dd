"""A slack that is learnt: the kernel against its definition, at any page size, saved in between, and in a run."""

from __future__ import annotations

import doctest
import json
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.errors import PlanError
from operators.data.saved import encode_state
from operators.kernels.streams.by_key import OFTEN
from operators.kernels.ticks import FAR
from operators.streams import learnt_slack as module
from operators.streams.learnt_slack import LearntSlack
from punctuation import NEVER, NO_TIME
from punctuation.demanded_progress import known, regrain
from punctuation.plain import Plain
from tests.examples import share


def naive(values: list[int], per_million: int, step: int, first: int, window: int) -> tuple[list[tuple[int, int]], int]:
    """Return the place and the bound of each promise, and the slack in the end, from the definition alone."""
    highest, promised, slack, tuples = NO_TIME, NO_TIME, 0, 0
    counts: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for place, value in enumerate(values):
        if value == NO_TIME:
            continue
        tuples += 1
        late = None if highest > FAR // 2 or value < -FAR // 2 else max(highest - value, 0) if tuples > 1 else 0
        if value >= highest:
            late = 0
        highest = max(highest, value)
        if late is not None:
            # Lateness is told to three binary digits behind the first one, rounded up.
            shift = max(late.bit_length() - 4, 0)
            edge = (((late >> shift) + 1) << shift) - 1
            counts[edge] = counts.get(edge, 0) + 1
            seen = sum(counts.values())
            if late > slack or seen % OFTEN == 0:
                allowed = seen * per_million // 2_000_000
                edges = sorted({0, *counts})
                least = next(e for e in edges if sum(n for other, n in counts.items() if other > e) <= allowed)
                slack = min(least if allowed else 2 * least, FAR)
            if seen >= window:
                counts = {edge: n // 2 for edge, n in counts.items() if n > 1}
        bound = highest - slack
        bound -= bound % step
        if tuples >= first and bound > promised:
            promised = bound
            found.append((place, bound))
    return found, slack


times = st.one_of(st.integers(0, 90), st.integers(0, 90), st.sampled_from([NO_TIME, 400, NO_TIME + 1, NEVER]))


@share(4)
@given(
    st.lists(times, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.sampled_from([1, 1000, 90_000, 400_000]),
    st.sampled_from([1, 7]), st.integers(0, 9), st.sampled_from([8, 20, 1000]),
)  # fmt: skip
def test_it_is_its_naive_twin_at_any_page_size_and_saved_in_between(
    values: list[int], cuts: list[int], per_million: int, step: int, first: int, window: int
) -> None:
    def made() -> LearntSlack:
        return LearntSlack("ts", late_per_million=per_million, step=step, first=first, window=window)

    read, found = made(), list[tuple[int, int]]()
    for start, stop in pairwise(sorted({0, len(values), *(cut for cut in cuts if cut <= len(values))})):
        positions, bounds = read.observe(np.array(values[start:stop], np.int64))
        found += zip((positions + start).tolist(), bounds.tolist(), strict=True)
        saved, read = json.loads(json.dumps(read.state())), made()
        read.restore(saved)
    assert (found, read.slack) == naive(values, per_million, step, first, window)


def test_it_follows_a_stream_that_becomes_wilder_and_quieter() -> None:
    luck = np.random.default_rng(3)
    read, late = LearntSlack("ts", late_per_million=10_000, window=4_000), list[float]()
    slacks: list[int] = []
    start = 0
    for width in (10, 1_000, 10):
        values = start + 10 * np.arange(40_000) - luck.integers(0, width, 40_000)
        start += 400_000
        positions, bounds = read.observe(values)
        promised = np.maximum.accumulate(np.where(np.isin(np.arange(len(values)), positions), 1, NO_TIME))
        promised[positions] = bounds
        promised = np.maximum.accumulate(promised)
        late.append(float(np.mean((values[1:] < promised[:-1])[20_000:])))
        slacks.append(read.slack)
    assert slacks[0] == slacks[2] < 10 and 900 <= slacks[1] <= 1_100
    assert max(late) <= 0.01 and read.changes > 3


def test_it_answers_what_is_known_and_promises_more_finely_when_asked() -> None:
    read = LearntSlack("ts", late_per_million=1000, step=50, first=2)
    assert known(read) is None
    assert read.observe(np.array([60, 58, 70]))[1].tolist() == [50]
    assert (known(read), read.slack) == (66, 4)
    assert regrain(read, 10) and read.observe(np.array([75]))[1].tolist() == [70]
    assert LearntSlack("ts", late_per_million=1000).elapse(10**9) is None
    live = LearntSlack("ts", late_per_million=1000, step=10, lull=100)
    live.observe(np.array([500]))
    assert [live.elapse(now) for now in (600, 715, 716)] == [None, 610, None]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "the saved memory of LearntSlack is a text"),
        (encode_state({"version": 1, "stream": np.zeros(3, np.int64)}).hex(), '"stream"'),
    ],
)
def test_a_memory_that_is_none_is_refused(state: Plain, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LearntSlack("ts", late_per_million=1000).restore(state)


def test_a_stream_learns_its_slack_and_says_so() -> None:
    luck = np.random.default_rng(1)
    ts = np.arange(20_000) - luck.integers(0, 30, 20_000)
    schema = oop.Schema.of(ts="int64")
    stream = oop.rows(((int(t),) for t in ts), schema, slack="auto").window(range=100).aggregate(oop.count())
    assert "ts, slack for 0.1 % late, every 100" in stream.explain()
    ran = stream.run()
    assert ran.statistics.late + ran.statistics.late_for_some <= 20
    assert ran.table["count"].to_numpy().sum() >= 19_980
    source = ran.statistics.operators[0]
    assert 28 <= source.details["learnt_slack"] <= 60
    assert source.choices[0].startswith(f"slack {source.details['learnt_slack']} ticks of ts, learnt from ")
    given = oop.slack("auto", late_share="1 %", on="ts")
    assert str(given) == "slack for 1 % late on ts"
    with pytest.raises(PlanError, match="late_share is for a slack that is learnt"):
        oop.slack(5, late_share="1 %")
    with pytest.raises(PlanError, match=r"every=.* and a slack that is learnt"):
        oop.slack("auto", every=5)


def test_the_command_line_learns_the_slack_of_a_whole_stream() -> None:
    lines = "ts\n" + "".join(f"{i - i % 3 * 5}\n" for i in range(2_000))
    text = "SELECT count(*) [RANGE 100, WA ts] FROM Main"
    command = ["query", text, "-s", "Main=-", "--format", "csv", "--types", "ts=int", "--slack", "auto", "--stats"]
    ran = CliRunner().invoke(commands, [*command, "--late-share", "1%"], input=lines)
    assert ran.exit_code == 0, ran.output
    assert "ticks of ts, learnt from 2,000 tuples so that at most 1 % are late" in ran.stderr


def test_its_examples_work() -> None:
    assert doctest.testmod(module).failed == 0
