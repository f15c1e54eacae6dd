"""What another setting would do is what it does: a run with it has as many late tuples, and the window is out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.why import Change, Wait
from oop_engine.sources.holder import Holder, Sooner
from operators.data.saved import decode_state, encode_state
from operators.streams.by_key import FOLLOWED, ByKey
from operators.streams.lateness import rounded
from punctuation import NO_TIME
from tests.examples import share
from tests.oop_engine.drive.simulated import Simulated, live

SLACK = 40


def disordered(seed: int, many: int = 400) -> list[int]:
    """Return times with some disorder, now and then much."""
    draw = Random(seed)
    return [1000 + at - draw.choice((0, 0, 0, 1, 2, 5, draw.randrange(39))) for at in range(many)]


def counted(slack: int, window: int = 10) -> Simulated:
    return Simulated(live("a", oop.slack(f"{slack} s")).window(range=f"{window} s").aggregate(oop.count()), 1000)


def late(run: Simulated) -> int:
    return sum(one.details.get("late", 0) for one in run.circuit.statistics())


def first(run: Simulated) -> str:
    """Return the end of the window that is open."""
    window = run.why().window
    return "" if window is None else str(window["window_end"])


@pytest.mark.parametrize(("seed", "window"), [(1, 30), (2, 25), (3, 60)])
def test_a_change_is_counted_exactly(seed: int, window: int) -> None:
    times, run = disordered(seed), counted(SLACK, window)
    tried = set[tuple[int, int]]()
    for number, at in enumerate(times, 1):
        run.give("a", [(at, 0)])
        if number % 31:
            continue
        wait = run.why()
        change = wait.change
        if change is None:
            continue
        assert change.exact and change.counted == number and change.ticks == rounded(change.ticks)
        assert wait.window is not None
        other = counted(change.ticks, window)
        other.give("a", [(time, 0) for time in times[:number]])
        assert late(other) == change.late, (wait, number)
        assert first(other) > str(wait.window["window_end"])
        tried.add((change.ticks, change.late))
    assert len(tried) > 2 and any(many for _, many in tried)


def test_the_sentence_has_the_count_and_a_slack_that_would_have_been_enough() -> None:
    run = counted(SLACK)
    run.give("a", [(at, 0) for at in (1000, 1012, 1009, 1030)])
    wait = run.why()
    assert wait.cause == "slack"
    assert "a slack of 3 s would have been enough for all 4 tuples that were looked at" in str(wait)
    assert str(wait.change) == 'slack="20 s" would complete it now, and have made none of 4 tuples late'
    assert Wait.from_json(wait.to_json()) == wait


def test_two_sources_are_not_helped_by_the_slack_of_one() -> None:
    run = Simulated(
        oop.meld(live("a", oop.slack("40 s")), live("b", oop.slack("40 s")))
        .window(range="10 s")
        .aggregate(oop.count()),
        1000,
    )
    run.give("a", [(1000, 0), (1030, 0)])
    run.give("b", [(1000, 0), (1031, 0)])
    assert run.why().cause == "slack" and run.why().change is None
    run.give("b", [(1060, 0)])
    assert run.why().change == Change("slack", "20 s", 20, 0, 2, True)


def test_the_slack_that_would_have_kept_a_late_tuple_keeps_it_and_none_below_does() -> None:
    tried = 0
    for seed in range(3):
        times, run = disordered(seed, 150), counted(2)
        for at in times:
            run.give("a", [(at, 0)])
        told = run.circuit.statistics()[0].late_tuples
        assert [one.behind for one in told] == sorted((one.behind for one in told), reverse=True)
        for one in told:
            assert one.slack is not None and one.after is not None and one.after < one.number
            for slack, kept in ((one.slack, True), (one.slack - 1, False)):
                other = counted(slack)
                other.give("a", [(at, 0) for at in times[: one.number]])
                before = late(other)
                other.give("a", [(times[one.number], 0)])
                assert (late(other) == before) is kept, (one, slack)
            tried += 1
    assert tried > 10


def test_a_promise_of_the_clock_is_told_from_one_of_a_tuple() -> None:
    promise = oop.slack("1 s", lull="20 s")
    run = Simulated(live("a", promise).window(range="10 s").aggregate(oop.count()), 1000)
    for _ in run.feed([(1000.0, "a", [(1000, 0)]), (1050.0, "a", [(1003, 0)])], tick=5.0):
        pass
    (told,) = run.circuit.statistics()[0].late_tuples
    assert (told.number, told.after, told.slack) == (1, None, None) and told.assumed is not None
    assert "was promised, by the clock at 1970-01-01" in str(told)


def test_an_outcome_says_why_its_tuples_were_late() -> None:
    rows = [(at, 0) for at in (1, 12, 25, 3, 31)]
    schema = oop.Schema.of(ts="int64", k="int64")
    outcome = (
        oop.rows(iter(rows), schema, name="a", punctuate=oop.ordered()).window(range=10).aggregate(oop.count()).run()
    )
    (ended,) = oop.why(outcome)
    assert "a: tuple 3 had ts = 3 when [ts < 20] was promised, behind tuple 2" in str(ended)
    assert outcome.statistics.operators[0].late_tuples[0].slack == 16


Step = tuple[float, list[tuple[int, int]] | None]
"""A moment, and the rows that come then; None where the timer is called."""


def with_lulls(seed: int) -> list[Step]:
    """Return what comes with some disorder and silences, behind the clock by a second or two, and the timer's calls."""
    draw, now, steps = Random(seed), 1000.0, list[Step]()
    for _ in range(60):
        now += draw.choice((1, 1, 2, 2, 3, 9, 25))
        due = steps[-1][0] + 2 if steps else now
        while due < now:
            steps.append((due, None))
            due += 2
        many = draw.choice((1, 1, 2, 5))
        delays = [draw.choice((0, 1, 2, 2, 4, 8, draw.randrange(22))) for _ in range(many)]
        steps.append((now, [(int(now) - delay, 0) for delay in delays]))
    return steps


def with_lull(slack: int, lull: int | None, window: int = 10) -> Simulated:
    promise = oop.slack(f"{slack} s", lull=None if lull is None else f"{lull} s")
    return Simulated(live("a", promise).window(range=f"{window} s").aggregate(oop.count()), 1000)


def replayed(run: Simulated, steps: list[Step], *, one_by_one: bool = False) -> Simulated:
    for now, rows in steps:
        run.now = now
        if rows is None:
            run.elapse()
        else:
            for piece in [[row] for row in rows] if one_by_one else [rows]:
                run.give("a", piece)
    return run


@pytest.mark.parametrize(("seed", "slack", "window"), [(1, 5, 10), (2, 12, 7), (3, 0, 30)])
def test_another_lull_does_what_is_said_of_it(seed: int, slack: int, window: int) -> None:
    steps, run = with_lulls(seed), with_lull(slack, 3000, window)
    found = dict[tuple[int, int], tuple[int, Wait, str]]()
    for many, step in enumerate(steps, 1):
        replayed(run, [step], one_by_one=seed % 2 == 0)
        wait = run.why()
        if step[1] is None and wait.cause == "silent" and (change := wait.change) is not None:
            assert change.setting == "lull" and change.exact and wait.window is not None
            found[change.ticks, change.late] = many, wait, str(wait.window["window_end"])
    assert len(found) > 3 and any(many for _, many in found)
    for (lull, many), (number, wait, end) in list(found.items())[-3:]:
        other = replayed(with_lull(slack, lull, window), steps[:number], one_by_one=seed % 2 == 1)
        assert late(other) == many, wait
        assert first(other) == "" or first(other) > end
        longer = replayed(with_lull(slack, lull + 1, window), steps[:number])
        assert first(longer) == end


def test_of_a_source_without_a_lull_it_is_counted_when_tuples_came() -> None:
    schedule = [(1000.0 + at, 1000 + at) for at in (0, 2, 4, 30, 32, 34)] + [(1035.0, 1006), (1041.0, 1041)]
    run = Simulated(live("a", oop.slack("40 s")).window(range="10 s").aggregate(oop.count()), 1000)
    for now, at in schedule:
        run.now = now
        run.give("a", [(at, 0)])
    run.now = 1052.0
    assert run.why().change == Change("lull", "20 s", 20, 1, 8, False)  # it was silent for longer before
    run.now = 1100.0
    assert str(run.why().change) == 'lull="58 s" would complete it now, and have made none of 8 tuples late'
    other = replayed(with_lull(40, 20), [(now, [(at, 0)]) for now, at in schedule])
    assert late(other) == 0  # nobody called its timer
    steps: list[Step] = [step for now, at in schedule for step in ((now, None), (now, [(at, 0)]))]
    assert late(replayed(with_lull(40, 20), steps)) == 1


def by_key(slack: int) -> Simulated:
    promise = oop.by_key("k", slack=f"{slack} s", idle="40 s")
    return Simulated(live("a", promise).window(range="10 s").aggregate(oop.count(), by="k"), 1000)


@pytest.mark.parametrize("seed", range(3))
def test_another_slack_of_promises_by_key_does_what_is_said_of_it(seed: int) -> None:
    draw, run, rows = Random(seed), by_key(SLACK), list[tuple[int, int]]()
    found = dict[tuple[int, int], tuple[int, str]]()
    for number in range(1, 300):
        key = draw.choice((0, 0, 0, 1, 1, 2)) if number % 100 < 80 else 0
        rows.append((1000 + number - 7 * key - draw.choice((0, 0, 1, 3, draw.randrange(60))), key))
        run.give("a", rows[-1:])
        if number % 5 == 0 and (wait := run.why()).cause == "slack" and (change := wait.change) is not None:
            assert change.setting == "slack" and change.exact and change.counted == number and wait.window is not None
            assert "holds it back" in str(wait)
            found[change.ticks, change.late] = number, str(wait.window["window_end"])
    assert len(found) > 3 and any(many for _, many in found)
    for (slack, many), (number, end) in list(found.items())[-3:]:
        other = by_key(slack)
        other.give("a", rows[:number])
        assert late(other) == many
        assert first(other) > end


def resting(idle: int, lull: str | None = None) -> Simulated:
    promise = oop.by_key("k", slack="2 s", idle=f"{idle} s", lull=lull)
    return Simulated(live("a", promise).window(range="10 s").aggregate(oop.count(), by="k"), 1000)


def silences(draw: Random, many: int) -> list[tuple[int, int]]:
    """Return rows of four keys, each of which falls silent now and then and comes back where it was, or ahead."""
    at, behind, until, rows = 1000, dict.fromkeys(range(4), 0), dict.fromkeys(range(4), 0), list[tuple[int, int]]()
    for number in range(many):
        at += draw.choice((0, 1, 1, 2, 6))
        key = draw.choice([k for k in until if until[k] <= number] or [0])
        if draw.random() < 0.08:
            until[key] = number + draw.randrange(30)
            behind[key] = draw.choice((0, 0, 5, 20, 45))
        rows.append((at - behind[key] - draw.choice((0, 0, 1, 2, 4)), key))
    return rows


@pytest.mark.slow
@share(2)
@given(
    seed=st.integers(0, 2**32), page=st.sampled_from((1, 3, 64)), other=st.sampled_from((1, 5, 64)),
    cut=st.integers(0, 120), lull=st.sampled_from((None, "50 s")), idle=st.sampled_from((48, 100, 7)),
)  # fmt: skip
def test_another_idle_of_promises_by_key_does_what_is_said_of_it(
    seed: int, page: int, other: int, cut: int, lull: str | None, idle: int
) -> None:
    rows, found = silences(Random(seed), 120), list[Wait]()

    def given_to(run: Simulated, rows: list[tuple[int, int]], size: int) -> None:
        # The clock goes on with the highest time, and timers are called between the pages of 60 rows.
        for at in range(0, len(rows), size):
            run.give("a", rows[at : at + size])

    def replay(idle: int, size: int, *, saved: bool) -> Simulated:
        run = resting(idle, lull)
        for start, stop in ((0, cut), (cut, len(rows))):
            given_to(run, rows[start:stop], size)
            run.now = max([run.now, *(at + 3 for at, _ in rows[:stop])])
            run.elapse()
            if saved and start == 0:
                again = resting(idle, lull)
                again.now = run.now
                for place, operator in enumerate(run.circuit.operators):
                    again.circuit.operators[place].restore(decode_state(encode_state(operator.state())))
                run = again
        return run

    run = replay(idle, page, saved=lull is None)
    (source,) = run.circuit.inputs.values()
    (keyed,) = source.punctuators
    assert isinstance(keyed, ByKey)
    wait = run.why()
    if (change := wait.change) is not None and change.setting == "idle":
        found.append(wait)
    for shorter in keyed.shorter():  # every one that is followed, not only the one that is told
        changed = replay(shorter.idle, other, saved=False)
        assert shorter.promised == changed.circuit.meters[changed.places["a"]].lwm.get("ts", NO_TIME)
        assert (shorter.late, shorter.counted) == (late(changed), len(rows)), (shorter.idle, rows)
        for wait in found:
            assert wait.change is not None and wait.window is not None
            if wait.change.ticks == shorter.idle:
                assert (wait.change.late, wait.change.counted, wait.change.exact) == (late(changed), len(rows), True)
                assert first(changed) == "" or first(changed) > str(wait.window["window_end"])


def test_a_key_that_is_silent_is_let_go_by_a_shorter_idle() -> None:
    run = resting(48)
    rows = [(1000, 0), (1001, 1), *((at, 0) for at in range(1002, 1030)), (1001, 1), (1034, 0)]
    run.give("a", rows)
    wait = run.why()
    assert wait.cause == "behind" and "k = 1 holds it back" in str(wait)
    assert str(wait.change) == 'idle="16 s" would complete it now, and have made 1 of 32 tuples late (3.1 %)'
    assert late(run) == 0 and late(given_rows(resting(16), [("a", *row) for row in rows], 64)) == 1


def test_shorter_times_of_idle_are_not_followed_for_ever() -> None:
    keyed = ByKey("ts", ("k",), slack=0, idle=100)
    fields, many = [pa.field("k", pa.int64())], FOLLOWED // 2
    for part in range(3):
        values = np.arange(part * many, (part + 1) * many)
        keyed.observe_keys(values, fields, [pa.array(values % 2)])
        assert (keyed.sooner(10) is None) is (part == 2)
    again = ByKey("ts", ("k",), slack=0, idle=100)
    again.restore(keyed.state())
    assert again.sooner(10) is None and again.known() == keyed.known()


class Exporters:
    """A reading that waits for an exporter."""

    def holder(self, attribute: str) -> Holder:
        return Holder("exporter 192.0.2.3", 1000, ("it is silent for 50 s",))

    def sooner(self, attribute: str, need: int) -> Sooner:
        return Sooner("idle", 30 * 10**9, 41, 31_000, False)


def test_of_an_exporter_the_shorter_idle_is_told() -> None:
    run = counted(SLACK)
    run.give("a", [(at, 0) for at in (1000, 1012)])
    run.circuit.readers[0] = Exporters()  # pyright: ignore[reportArgumentType]
    wait = run.why()
    assert (wait.cause, wait.holder) == ("exporter", "exporter 192.0.2.3")
    assert str(wait).endswith(
        'idle="30 s" would complete it now, and have made about 41 of 31,000 tuples late (0.13 %).'
    )


@pytest.mark.parametrize("how", ["slack", "lull", "key"])
def test_what_was_learnt_survives_a_checkpoint(how: str) -> None:
    makes: dict[str, Callable[[], Simulated]] = {
        "slack": lambda: counted(3), "lull": lambda: with_lull(3, 300), "key": lambda: by_key(3),
    }  # fmt: skip
    make, steps = makes[how], with_lulls(1)
    whole, before, after = replayed(make(), steps), replayed(make(), steps[:70]), make()
    (state,) = (decode_state(encode_state(one.state())) for one in before.circuit.inputs.values())
    after.now = before.now
    (restored,) = after.circuit.inputs.values()
    restored.restore(state)
    replayed(after, steps[70:])
    (other,) = whole.circuit.inputs.values()
    assert [*map(str, restored.late_tuples)] == [*map(str, other.late_tuples)] and len(other.late_tuples) > 3
    one, two = restored.counts_of("ts"), other.counts_of("ts")
    assert one is not None and two is not None and one.counted == two.counted > 100
    assert [one.late(slack) for slack in range(30)] == [two.late(slack) for slack in range(30)]
    assert [one.late_after(lull) for lull in range(30)] == [two.late_after(lull) for lull in range(30)]
    assert how != "lull" or (one.late_after(1) > one.late_after(20) and one.silences is not None)


@pytest.mark.parametrize(("seed", "size", "slide", "given"), [(1, 10, 10, 0), (2, 20, 5, 0), (3, 6, 6, 12)])
def test_the_lateness_that_is_said_takes_in_all_that_came_too_late_and_less_does_not(
    seed: int, size: int, slide: int, given: int
) -> None:
    def windowed(lateness: int, page: int) -> Simulated:
        stream = live("a", oop.slack("3 s")).window(range=f"{size} s", slide=f"{slide} s")
        run = Simulated(stream.aggregate(oop.count(), lateness=f"{lateness} s"), 1000)
        for at in range(0, len(times), page):
            run.give("a", [(time, 0) for time in times[at : at + page]])
        return run

    times = disordered(seed)
    run = windowed(given, 1)
    taking = run.why().taking
    assert taking is not None and taking.exact and taking.counted == len(times)
    assert taking.taken == late(run) > 1 and taking.ticks > given
    assert str(taking) in str(run.why())
    assert late(windowed(taking.ticks, 1)) == late(windowed(taking.ticks, 64)) == 0
    assert late(windowed(taking.ticks - 1, 7)) > 0


Row = tuple[str, int, int]
"""Of which source, the time, and the key."""
WINDOWS = {
    "sessions": oop.session("4 s"), "tumbling": oop.tumbling("10 s"), "sliding": oop.sliding("20 s", "5 s"),
}  # fmt: skip


def two_streams(draw: Random, many: int) -> list[Row]:
    def behind() -> int:
        return draw.choice((0, 0, 0, 1, 2, 5, draw.randrange(60)))

    return [(draw.choice("ab"), 1000 + 3 * at - behind(), draw.randrange(3)) for at in range(many)]


def refusing(
    window: str, lateness: int, *, melded: bool = True, by: str | None = "k", strategy: str = "auto"
) -> Simulated:
    """Return a run of which windows, and no source, refuse late tuples."""
    one, two = live("a", oop.slack("3 s")), live("b", oop.ordered())
    stream = oop.meld(one.filter("k >= 0"), two) if melded else one
    windowed = stream.window(WINDOWS[window])
    return Simulated(windowed.aggregate(oop.count(), by=by or (), lateness=f"{lateness} s", strategy=strategy), 1000)


def given_rows(run: Simulated, rows: list[Row], page: int) -> Simulated:
    """Give rows in pages of so many, each of one source, in the order of their arrival."""
    at = 0
    while at < len(rows):
        stop = at + 1
        while stop < len(rows) and stop - at < page and rows[stop][0] == rows[at][0]:
            stop += 1
        name = rows[at][0] if rows[at][0] in run.places else "a"
        run.give(name, [row[1:] for row in rows[at:stop]])
        at = stop
    return run


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32), window=st.sampled_from([*WINDOWS]), melded=st.booleans(),
    lateness=st.sampled_from((0, 7)), by=st.sampled_from(("k", None)), page=st.sampled_from((1, 3, 64)),
    cut=st.integers(0, 60), strategy=st.sampled_from(("auto", "slicing")),
)  # fmt: skip
def test_a_lateness_of_sessions_and_melded_streams_takes_in_all_that_windows_refused(
    seed: int, window: str, melded: bool, lateness: int, by: str | None, page: int, cut: int, strategy: str
) -> None:
    rows = two_streams(Random(seed), 60)
    rows = rows if melded else [("a", *row[1:]) for row in rows]

    def make(allowed: int) -> Simulated:
        return refusing(window, allowed, melded=melded, by=by, strategy=strategy)

    run = given_rows(make(lateness), rows[:cut], page)
    again = make(lateness)
    for place, operator in enumerate(run.circuit.operators):
        saved = decode_state(encode_state(operator.state()))
        again.circuit.operators[place].restore(saved)
        if place in run.circuit.inputs:
            again.circuit.inputs[place].restore(decode_state(encode_state(run.circuit.inputs[place].state())))
    given_rows(again, rows[cut:], page)
    refused, taking = late(again), again.why().taking
    if window == "sessions" or melded:
        assert (taking is None) is (refused == 0 or again.why().window is None)
    if taking is None:
        return
    assert (taking.taken, taking.counted) == (refused, len(rows)) and taking.exact
    for other in (1, 64):
        assert late(given_rows(make(taking.ticks), rows, other)) == 0, (taking, window)


@pytest.mark.parametrize("window", WINDOWS)
def test_a_lateness_that_is_said_is_at_most_a_slide_more_than_the_least(window: str) -> None:
    rows = two_streams(Random(5), 200)
    taking = given_rows(refusing(window, 0), rows, 1).why().taking
    assert taking is not None and str(taking) in str(given_rows(refusing(window, 0), rows, 64).why())
    slide = {"sessions": 1, "tumbling": 10, "sliding": 5}[window]
    assert late(given_rows(refusing(window, taking.ticks - slide), rows, 1)) > 0


def test_no_lateness_is_told_where_a_source_itself_left_tuples_out() -> None:
    one, two = live("a", oop.slack("3 s")), live("b", oop.ordered())
    joined = one.join(two, on="k", range="5 s").window(range="10 s").aggregate(oop.count())
    run = given_rows(Simulated(joined, 1000), two_streams(Random(1), 60), 1)
    assert late(run) > 0 and run.why().taking is None
