"""On Spark, too, the culprit is named first: what a streaming query waits for is read from the state of its stages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as given_by
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.drive.why import Wait
from oop_engine.errors import PlanError
from oop_engine.plan.punctuate import Promise
from oop_engine.spark.errors import SparkError
from oop_engine.spark.why import waits
from operators.data.saved import decode_state, encode_state
from tests.examples import mostly_slow
from tests.oop_engine.drive.simulated import Simulated, live
from tests.oop_engine.spark.simulated import Streamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ("a", "b", "c")
BEGIN, STEP, MANY, BATCHES = 1000, 5, 160, 8
"""When times begin, their distance, how many there are of a source, and in how many micro-batches they come."""
TRIGGER = 10.0
"""Seconds between two micro-batches."""
FAR, NEAR = 120, 60
Rows = list[tuple[int, int]]
Made = Callable[[list[oop.Stream]], oop.Stream]


def batch(rows: Rows) -> pa.RecordBatch:
    found = pa.RecordBatch.from_arrays([*map(pa.array, zip(*rows, strict=True))], names=["ts", "k"])
    return found.cast(pa.schema([("ts", pa.timestamp("s")), ("k", pa.int64())]))


@attrs.frozen
class Planted:
    """How a source promises that is so far behind, the rows of each micro-batch, and what its stall is called."""

    cause: str
    promise: Callable[[int], Promise]
    rows: Callable[[int, int], Rows]
    """Takes the number of a micro-batch, and how far the source is behind."""


def in_order(number: int, behind: int = 0) -> Rows:
    each = MANY // BATCHES
    return [(BEGIN + STEP * at - behind, at % 7) for at in range(number * each, (number + 1) * each)]


def silent(number: int, behind: int) -> Rows:
    """Give nothing in the last micro-batches: so many as `behind` is worth, one at least."""
    each = STEP * MANY // BATCHES
    return [] if number >= BATCHES - max(1, round(behind / each)) else in_order(number)


def one_key_behind(number: int, behind: int) -> Rows:
    return [row for at, _ in in_order(number) for row in ((at, 0), (at - behind, 1))]


def filtered(number: int, behind: int) -> Rows:
    """Give rows of which the filter of the plan lets none through."""
    return [(at, -1) for at, _ in in_order(number, behind)]


CAUSES = {
    "a lull": Planted("silent", lambda behind: oop.ordered(), silent),
    "skew": Planted("behind", lambda behind: oop.ordered(), in_order),
    "a slack": Planted("slack", lambda behind: oop.slack(f"{behind} s"), lambda number, behind: in_order(number)),
    "places": Planted("slack", lambda behind: oop.tuple_slack(behind // STEP), lambda number, behind: in_order(number)),
    "a promise that is seldom made": Planted(
        "seldom", lambda behind: oop.slack("0 s", step=f"{behind} s"), lambda number, behind: in_order(number)
    ),
    "a key": Planted("behind", lambda behind: oop.by_key("k", slack="0 s", idle="300 s"), one_key_behind),
    "a filter that passes nothing": Planted("behind", lambda behind: oop.ordered(), filtered),
}


def counted(stream: oop.Stream, strategy: str = "auto") -> oop.Stream:
    return stream.window(range="10 s").aggregate(oop.count(), by="k", strategy=strategy)


PLANS: dict[str, Made] = {
    "a meld": lambda streams: counted(oop.meld(*(s.filter("k >= 0") for s in streams))),
    "a join": lambda streams: (
        streams[0]
        .filter("k >= 0")
        .join(oop.meld(*streams[1:]).filter("k >= 0"), on="k", range="5 s")
        .window(range="10 s")
        .aggregate(oop.count(), by="k")
    ),
    "windows of windows": lambda streams: (
        counted(oop.meld(*(s.filter("k >= 0") for s in streams)))
        .window(range="20 s", wattr="window_start")
        .aggregate(oop.sum("count"))
    ),
    "slices": lambda streams: counted(oop.meld(*(s.filter("k >= 0") for s in streams)), "slicing"),
}


@attrs.frozen
class Stall:
    plan: str
    first: str
    second: str | None
    place: int

    def __str__(self) -> str:
        other = "" if self.second is None else f" and {self.second}"
        return f"{self.plan}: {self.first} in {NAMES[self.place]}{other}"


def stalls() -> Iterator[Stall]:
    for number, plan in enumerate(PLANS):
        for turn, first in enumerate(CAUSES):
            yield from (Stall(plan, first, None, place) for place in range(3))
            second = [*CAUSES][(turn + 1 + number) % len(CAUSES)]
            # Where one side of a join passes nothing, it has no window that would need anything.
            if second != first and (plan, second) != ("a join", "a filter that passes nothing"):
                yield Stall(plan, first, second, (turn + number) % 3)


ALL = list(stalls())


def filled(made: Made, planted: dict[str, tuple[Planted, int]], *, buckets: int = 2, seed: int = 0) -> Streamed:
    streams = [
        live(name, planted[name][0].promise(planted[name][1]) if name in planted else oop.ordered()) for name in NAMES
    ]
    run = Streamed(made(streams), buckets, seed, now=10_000.0)
    for number in range(BATCHES):
        run.now += TRIGGER
        given = {
            name: planted[name][0].rows(number, planted[name][1]) if name in planted else in_order(number)
            for name in NAMES
        }
        run.take([(name, batch(rows)) for name, rows in given.items() if rows])
    return run


@pytest.mark.slow
@pytest.mark.parametrize("plan", mostly_slow(PLANS, but=("slices",)))
def test_the_culprit_is_named_first(plan: str) -> None:
    mine = [stall for stall in ALL if stall.plan == plan]
    assert len(mine) >= 27 and len(ALL) == 111
    for turn, stall in enumerate(mine):
        planted = {NAMES[stall.place]: (CAUSES[stall.first], FAR)}
        if stall.second is not None:
            planted[NAMES[(stall.place + 1) % 3]] = CAUSES[stall.second], NEAR
        run = filled(PLANS[plan], planted, buckets=1 + turn % 3, seed=turn)
        run.now += turn % 2 * TRIGGER / 2  # between two micro-batches no source is silent
        wait = run.why()
        said = (str(stall), str(wait))
        assert (wait.holder, wait.cause) == (NAMES[stall.place], CAUSES[stall.first].cause), said
        assert wait.chain[-1].label == NAMES[stall.place] and (wait.window is not None or plan == "a join"), said


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("plan", ["a meld", "a join"])
def test_an_end_that_has_not_come_is_named(plan: str, place: int) -> None:
    whole: dict[str, Made] = {
        "a meld": lambda streams: oop.meld(*streams).aggregate(oop.count(), by="k"),
        "a join": lambda streams: streams[0].join(oop.meld(*streams[1:]), on="k", range="5 s").aggregate(oop.count()),
    }
    run = filled(whole[plan], {})
    run.now += TRIGGER
    run.take([(name, None) for number, name in enumerate(NAMES) if number != place])
    wait = run.why()
    assert (wait.cause, wait.holder) == ("end of stream", NAMES[place]), str(wait)
    run.take([(NAMES[place], None)])
    assert run.why().cause == "ended"


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_a_session_that_goes_on_is_named(buckets: int, place: int) -> None:
    def made(streams: list[oop.Stream]) -> oop.Stream:
        return oop.meld(*streams).window(oop.session("3 s")).aggregate(oop.count(), by="k")

    def goes_on(number: int, behind: int) -> Rows:
        times = [at for at, _ in in_order(number)]
        # It ends before the sessions do that the last tuples begin.
        on = range(times[0] + 1, min(times[-1] + STEP, BEGIN + STEP * (MANY - 1) - 1), 2)
        return sorted([(at, 8) for at in times] + [(at, 9) for at in on])

    run = filled(made, {NAMES[place]: (Planted("session", lambda behind: oop.ordered(), goes_on), 0)}, buckets=buckets)
    wait = run.why()
    assert (wait.cause, wait.holder) == ("session", "the session of k 9"), str(wait)
    assert wait.window is not None and wait.window["k"] == 9


@pytest.mark.parametrize("name", ["numbers by arrival", "windows of tuples"])
@pytest.mark.parametrize("place", range(3))
def test_what_waits_for_tuples_is_named(name: str, place: int) -> None:
    whole: dict[str, Made] = {
        "numbers by arrival": lambda streams: (
            oop.meld(*streams).number("n").window(range=10_000, wattr="n").aggregate(oop.count())
        ),
        "windows of tuples": lambda streams: oop.meld(*streams).window(oop.counted(23)).aggregate(oop.count()),
    }
    wait = filled(whole[name], {}, seed=place).why()
    assert wait.cause == "tuples" and "must come, from any of its sources" in str(wait)


@pytest.mark.parametrize("waited", [5.0, 25.0, 45.0])
def test_all_sources_are_silent_once_a_micro_batch_is_long_overdue(waited: float) -> None:
    run = filled(PLANS["slices"], {"b": (CAUSES["skew"], FAR)})
    run.now += waited
    wait = run.why()
    assert wait.holder == "b" and wait.cause == ("silent" if waited > 3 * TRIGGER else "behind")
    assert wait.cause == "behind" or "nothing has come from it for 45 s" in str(wait)


def test_a_query_that_has_not_begun_says_so() -> None:
    run = Streamed(PLANS["slices"]([live(name, oop.ordered()) for name in NAMES]), 2)
    assert "the run has not begun" in str(run.why())


def ends(wait: Wait) -> object:
    """Return the end of the window that is waited for, None for none."""
    return None if wait.window is None else wait.window["window_end"]


def test_the_window_that_ends_first_is_found_in_whichever_bucket_it_is() -> None:
    waits = [filled(PLANS["slices"], {"a": (CAUSES["skew"], FAR)}, buckets=many).why() for many in (1, 2, 3, 7)]
    assert {ends(wait) for wait in waits} == {"1970-01-01T00:28:00Z"}


@pytest.mark.parametrize("low", [True, False])
def test_what_partitions_took_ahead_is_not_said_to_be_counted(low: bool) -> None:
    run = Streamed(counted(live("a", oop.slack("120 s"))), 2, low=low, now=10_000.0)
    for number in range(BATCHES):
        run.now += TRIGGER
        run.take([("a", batch(in_order(number)))])
    wait = run.why()
    assert (wait.cause, wait.holder, ends(wait)) == ("slack", "a", "1970-01-01T00:28:00Z"), str(wait)
    assert (wait.change is None) is low and ("would have been enough" in str(wait)) is not low


def test_states_of_another_plan_and_of_before_are_refused() -> None:
    run = filled(PLANS["slices"], {})
    other = Streamed(PLANS["a join"]([live(name, oop.ordered()) for name in NAMES]), 2)
    with pytest.raises(PlanError, match="state of another plan"):
        waits(other.cut, run.saved.values(), now=run.now)
    before = [
        encode_state({name: value for name, value in decode_state(saved).items() if name not in ("stage", "progress")})
        for saved in run.saved.values()
    ]
    with pytest.raises(SparkError, match="earlier version"):
        waits(run.cut, before, now=run.now)


def test_a_query_goes_on_from_a_state_of_before_and_can_be_asked_then() -> None:
    streams = [live(name, oop.ordered()) for name in NAMES]
    run, whole = (Streamed(PLANS["slices"](streams), 2, now=10_000.0) for _ in range(2))
    for number in range(BATCHES):
        for one in (run, whole):
            one.now += TRIGGER
            one.take([(name, batch(in_order(number, FAR if name == "b" else 0))) for name in NAMES])
        if number == 3:
            added = ("stage", "bucket", "buckets", "progress")
            for place, saved in run.saved.items():
                state = decode_state(saved)
                run.saved[place] = encode_state({name: v for name, v in state.items() if name not in added})
    assert run.why() == whole.why() and run.why().holder == "b"


def files(folder: Path, given: Sequence[Rows]) -> str:
    """Write the rows of each micro-batch as a file."""
    folder.mkdir()
    for number, rows in enumerate(given):
        pq.write_table(pa.Table.from_batches([batch(rows)]), folder / f"{number:03}.parquet")
        os.utime(folder / f"{number:03}.parquet", (1e9 + number, 1e9 + number))
    return str(folder)


@pytest.mark.parametrize("plan", ["a meld", "slices"])
def test_a_streaming_query_of_spark_is_asked_by_its_checkpoint(plan: str, spark: SparkSession, tmp_path: Path) -> None:
    frames: dict[str, DataFrame] = {}
    for name in NAMES:
        folder = files(tmp_path / name, [in_order(number, FAR if name == "c" else 0) for number in range(2)])
        reader = spark.readStream.schema("ts timestamp, k bigint").option("maxFilesPerTrigger", 1)
        frames[name] = reader.parquet(folder)
    stream, checkpoint = PLANS[plan]([live(name, oop.ordered()) for name in NAMES]), str(tmp_path / "checkpoint")
    with pytest.raises(SparkError):
        oop.spark.why(stream, spark, checkpoint)
    writer = oop.spark.on_spark(stream, spark, frames, buckets=3).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(str(tmp_path / "out")).awaitTermination()
    (wait,) = oop.spark.why(stream, spark, checkpoint)
    assert (wait.cause, wait.holder) in (("behind", "c"), ("silent", "c")), str(wait)
    assert ends(wait) == "1970-01-01T00:18:00Z" and wait.chain[-1].promised == "1970-01-01T00:17:50Z"


JUST_ALIKE: dict[str, Made] = {
    "slices": PLANS["slices"],
    "sessions": lambda streams: oop.meld(*streams).window(oop.session("4 s")).aggregate(oop.count(), by="k"),
    "a join": PLANS["a join"],
}


@pytest.mark.slow
@pytest.mark.parametrize("plan", mostly_slow(JUST_ALIKE, but=("sessions",)))
@given_by(
    rows=st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 3)), min_size=3, max_size=60
    ),
    size=st.integers(1, 20), buckets=st.integers(1, 3), seed=st.integers(0, 9),
)  # fmt: skip
def test_on_spark_the_answer_is_that_of_one_process(
    plan: str, rows: list[tuple[str, int, int]], size: int, buckets: int, seed: int
) -> None:
    promises = (oop.slack("9 s"), oop.ordered(), oop.by_key("k", slack="5 s", idle="40 s"))
    stream = JUST_ALIKE[plan]([live(name, promise) for name, promise in zip(NAMES, promises, strict=True)])
    there, here = Streamed(stream, buckets, seed, low=False, now=10_000.0), Simulated(stream, 10_000.0)
    for start in range(0, len(rows), size):
        there.now = here.now = here.now + TRIGGER
        given = {name: [(BEGIN + at, k) for of, at, k in rows[start : start + size] if of == name] for name in NAMES}
        there.take([(name, batch(some)) for name, some in given.items() if some])
        for name, some in given.items():
            if some:
                here.give(name, some)
    one, other = there.why(), here.why()
    for field in ("needs", "cause", "holder", "facts", "change", "taking"):
        assert getattr(one, field) == getattr(other, field), (str(one), str(other))
    # Of several groups whose windows end together, any is named.
    assert ends(one) == ends(other)
