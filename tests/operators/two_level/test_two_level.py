"""Two levels answer what one does, for any table, flush, order, paging and promise; and say what they may not do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import functions as fn
from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema, ip_field
from operators.drive import drive, punctuations, rows
from operators.errors import AggregateOverflow, OperatorBug, SchemaError
from operators.functions.protocol import AggregateFunction
from operators.protocol import Element, Emit
from operators.streams.meld import Meld
from operators.testing import Script, check_operator, streams
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow, Window, tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.partial_final import (
    CompleteFlush,
    Flush,
    HighAggregate,
    InOrderFlush,
    LazyFlush,
    LowAggregate,
    SlowFlush,
    TwoLevel,
    two_level,
)
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Progress, Punctuation, before
from tests.examples import mostly_slow, share
from tests.naive_aggregate import naive_windows
from tests.operators.test_window_aggregate import partitioned

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts"), "k"])
FUNCTIONS: dict[str, AggregateFunction] = {
    "n": fn.count(), "here": fn.count("v"), "total": fn.sum("v"), "mean": fn.avg("v"), "least": fn.min("v"),
    "most": fn.max("v"),
}  # fmt: skip


def _values(members: list[Row]) -> list[int]:
    return [int(str(r["v"])) for r in members if r["v"] is not None]


ANSWERS = {
    "n": len,
    "here": lambda m: len(_values(m)),
    "total": lambda m: sum(_values(m)) if _values(m) else None,
    "mean": lambda m: sum(_values(m)) / len(_values(m)) if _values(m) else None,
    "least": lambda m: min(_values(m), default=None),
    "most": lambda m: max(_values(m), default=None),
}

flushes: st.SearchStrategy[Flush] = st.one_of(
    st.just(CompleteFlush()),
    st.builds(InOrderFlush, every=st.integers(1, 2)),
    st.builds(SlowFlush, every=st.integers(1, 2), delay=st.integers(0, 2)),
    st.builds(LazyFlush, delay=st.integers(0, 2)),
)
sliding = st.builds(
    SlidingWindow, st.just("ts"), size=st.integers(1, 6), slide=st.integers(1, 5), origin=st.integers(-2, 2)
)
windows = st.one_of(sliding, sliding, st.builds(LandmarkWindow, st.just("ts"), slide=st.integers(1, 5)))
sizes = st.sampled_from([1, 2, 3, 8])


def split(
    window: Window, by: Sequence[str] = ("k",), *, flush: Flush | None = None, size: int = 2, schema: Schema = SCHEMA
) -> TwoLevel:
    return two_level(window, FUNCTIONS, tuple(by), schema=schema, flush=flush, size=size)


@share(1)
@given(windows, st.sampled_from([(), ("k",), ("k", "v")]), sizes, flushes, streams(SCHEMA, group=("k",), tuples=12))
def test_any_table_and_flush_gives_the_naive_answer(
    window: Window, by: tuple[str, ...], size: int, flush: Flush, script: Script
) -> None:
    def settled(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Row]:
        results = naive_windows(window, ANSWERS, by, tables[0])
        if progress[0].ended:
            return results
        bound = progress[0].bound("ts")
        if bound is None or flush.delay or isinstance(window, LandmarkWindow):
            return []
        return [r for r in results if int(str(r["window_end"])) <= bound]  # type: ignore[operator]

    check_operator(
        lambda: split(window, by, flush=flush, size=size).whole,
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        settled=settled,
    )


@attrs.define
class LettingGo(Chain):
    """Two levels, the low one of which hands on what it holds after every page and promise."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        Chain.process(self, page, emit, port)
        self.let_go(emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        Chain.punctuate(self, punctuation, emit, port)
        if not punctuation.is_end:
            self.let_go(emit)


@share(1)
@given(windows, st.sampled_from([(), ("k",)]), sizes, flushes, streams(SCHEMA, group=("k",), tuples=12))
def test_a_low_level_that_lets_go_gives_the_naive_answer(
    window: Window, by: tuple[str, ...], size: int, flush: Flush, script: Script
) -> None:
    def make() -> LettingGo:
        return LettingGo(split(window, by, flush=flush, size=size).whole.operators)

    check_operator(make, script, naive=lambda table: naive_windows(window, ANSWERS, by, table))


def test_what_is_let_go_is_held_no_more_and_new_tuples_begin_anew() -> None:
    both = split(tumbling("ts", 10), size=8)
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    found = drive(both.lower, [page])
    both.low.let_go(found.append)
    assert [row["n:count"] if "n:count" in row else row["*:count"] for row in rows(found)] == [2, 1]
    assert both.low.statistics()["state_tuples"] == 0 and "input" not in both.low.state()
    again = drive(both.lower, [page, END])
    assert len(rows(again)) == 2 and both.low.statistics()["partials"] == 4


@share(1)
@given(
    sizes,
    st.sampled_from([CompleteFlush(), SlowFlush(every=1), LazyFlush(delay=1)]),
    partitioned,
    st.sampled_from([("k",), ("k", "v")]),
    streams(SCHEMA, group=("k",), tuples=14),
)
def test_partitioned_rows_are_counted_before_the_table(
    size: int, flush: Flush, window: PartitionedWindow, by: tuple[str, ...], script: Script
) -> None:
    check_operator(
        lambda: split(window, by, flush=flush, size=size).whole,
        script,
        naive=lambda table: naive_windows(window, ANSWERS, by, table),
        order_matters=True,
    )


@given(sliding, sizes, flushes, streams(SCHEMA, group=("k",), tuples=14))
def test_no_partial_aggregate_is_later_than_promised(
    window: SlidingWindow, size: int, flush: Flush, script: Script
) -> None:
    both = split(window, flush=flush, size=size)
    bucket, low = both.bucket, both.low
    promised = Progress()
    bound: int | None = None
    tagged: list[Element] = []
    for _, element in script:
        tagged.clear()
        drive_into(bucket, element, tagged)
        for one in tagged:
            if isinstance(one, Punctuation) and isinstance(found := one.bound("wid_from"), int):
                bound = found if bound is None else max(bound, found)
            for out in drive(low, [one]):
                if isinstance(out, Punctuation):
                    promised.advance(out)
                    continue
                for row in out.rows():
                    assert not any(promise.matches(row) for promise in promised.promises()), f"{row} after {promised}"
            if bound is not None and not promised.ended and flush.delay < 3 and one is tagged[-1]:
                reached = promised.bound("wid_from")
                limit = bound - flush.delay if not isinstance(flush, InOrderFlush) else None
                assert limit is None or (reached is not None and int(reached) >= limit)


def drive_into(operator: Bucket, element: Element, out: list[Element]) -> None:
    out += drive(operator, [element])


@given(st.integers(1, 4), sizes, st.integers(1, 3), streams(SCHEMA, tuples=20, disorder=0, promises=("linear",)))
def test_in_order_in_order_out(length: int, size: int, every: int, script: Script) -> None:
    table = sorted(script.tables()[0], key=lambda row: int(str(row["ts"])))
    elements: list[Element] = [Page.of_rows(SCHEMA, [tuple(row.values()) for row in table])]
    both = split(tumbling("ts", length), flush=InOrderFlush(every=every), size=size)
    found = drive(both.lower, [*elements, END])
    starts = [int(str(row["wid_from"])) for row in rows(found)]
    assert starts == sorted(starts)


@given(sliding, sizes, flushes, streams(SCHEMA, ports=2, group=("k",), tuples=8))
def test_the_tables_of_several_inputs_are_melded_before_one_roll_up(
    window: SlidingWindow, size: int, flush: Flush, script: Script
) -> None:
    both = split(window, flush=flush, size=size)
    lows = [both.lower, split(window, flush=flush, size=size + 1).lower]
    melded: list[tuple[int, Element]] = []
    for port, element in script:
        melded += [(port, out) for out in drive(lows[port], [element])]
    found = rows(drive(both.high, drive(Meld(2), melded)))
    expected = naive_windows(window, ANSWERS, ("k",), [row for table in script.tables() for row in table])
    assert sorted(map(str, found)) == sorted(map(str, expected))


TYPED = Schema(
    pa.schema([
        pa.field("ts", pa.timestamp("us", "UTC")), ip_field("a"), pa.field("d", pa.dictionary(pa.int32(), pa.string())),
        pa.field("i", pa.int64()), pa.field("u", pa.uint64()), pa.field("f", pa.float64()),
        pa.field("t", pa.duration("ms")), pa.field("b", pa.bool_()), pa.field("s", pa.string()),
    ]),
    progress=["ts"],
)  # fmt: skip


def typed_pages(n: int, pages: int) -> list[Element]:
    rng = np.random.default_rng(3)
    elements: list[Element] = []
    for turn in range(pages):
        ts = turn * 1000 + rng.integers(-700, 1000, n)

        def some(values: Sequence[object], kind: pa.DataType, n: int = n) -> pa.Array:
            picked = rng.integers(0, len(values), n)
            return pa.array([values[i] for i in picked], kind)

        columns = {
            "ts": pa.array(ts).view(pa.timestamp("us", "UTC")),
            "a": some([bytes([i]) * 16 for i in range(9)], pa.binary(16)),
            "d": some(["x", "y", None], pa.string()).dictionary_encode(),
            "i": some([2**62, 2**61, -(2**62), 3, None], pa.int64()),
            "u": some([2**40, 1, None], pa.uint64()),
            "f": some([0.5, -1.25, 1e3, None], pa.float64()),
            "t": some([5, 7, None], pa.duration("ms")),
            "b": some([True, False, None], pa.bool_()),
            "s": some(["p", "pq", None], pa.string()),
        }
        elements.append(Page.of(TYPED, columns))
        elements.append(before("ts", turn * 1000 - 700 + 1000))
    return [*elements, END]


@pytest.mark.parametrize("by", [("a",), ("d", "s"), ("b",)])
@pytest.mark.parametrize("flush", [CompleteFlush(), InOrderFlush(), SlowFlush(every=3), LazyFlush()], ids=repr)
def test_types_are_those_of_one_level(by: tuple[str, ...], flush: Flush) -> None:
    functions: dict[str, AggregateFunction] = {"n": fn.count()}
    for name in ("u", "f", "t", "b"):
        functions |= {f"sum_{name}": fn.sum(name), f"avg_{name}": fn.avg(name), f"count_{name}": fn.count(name)}
    for name in ("a", "d", "i", "u", "f", "t", "b", "s", "ts"):
        functions |= {f"min_{name}": fn.min(name), f"max_{name}": fn.max(name)}
    functions["avg_i"] = fn.avg("i")
    window = SlidingWindow("ts", size=900, slide=400)
    one = Chain([Bucket(window), WindowAggregate(window, functions, by)])
    both = two_level(window, functions, by, schema=TYPED, size=5, flush=flush)
    assert both.whole.output_schema(TYPED) == one.output_schema(TYPED)
    pages = typed_pages(300, 6)
    expected, found = drive(one, pages), drive(both.whole, pages)
    assert sorted(map(str, rows(found))) == sorted(map(str, rows(expected)))
    for element in found:
        assert not isinstance(element, Page) or element.schema.arrow.equals(one.output_schema(TYPED).arrow)


def test_moments_are_those_of_one_level_up_to_rounding() -> None:
    functions: dict[str, AggregateFunction] = {"v": fn.variance("f"), "s": fn.stddev("f", ddof=0), "w": fn.stddev("u")}
    window = tumbling("ts", 1500)
    one = Chain([Bucket(window), WindowAggregate(window, functions, ("b",))])
    both = two_level(window, functions, ("b",), schema=TYPED, size=1)
    pages = typed_pages(200, 4)

    def key(row: Row) -> str:
        return f"{row['b']} {row['wid']}"

    expected, found = sorted(rows(drive(one, pages)), key=key), sorted(rows(drive(both.whole, pages)), key=key)
    assert [key(row) for row in found] == [key(row) for row in expected] and found
    for name in functions:
        np.testing.assert_allclose([r[name] for r in found], [r[name] for r in expected])  # type: ignore[arg-type]


def test_a_sum_that_leaves_64_bits_in_the_table_and_comes_back_is_exact() -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), progress=["ts"])
    big = 2**63 - 1
    both = two_level(tumbling("ts", 10), {"total": fn.sum("v")}, schema=schema)
    page = Page.of(schema, {"ts": [1, 2, 3, 4], "v": [big, big, -big, -big + 5]})
    assert rows(drive(both.whole, [page, END]))[0]["total"] == 5
    over = Page.of(schema, {"ts": [1, 2], "v": [big, 1]})
    with pytest.raises(AggregateOverflow, match=r"aggregate total of window 0, all tuples: sum\(v\)"):
        drive(two_level(tumbling("ts", 10), {"total": fn.sum("v")}, schema=schema).whole, [over, END])


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (fn.median("v"), "median cannot be made of the parts that a low-level table holds: it needs more than counts"),
        (fn.count_distinct("v"), "it needs more than counts, sums, extremes and moments"),
        (fn.first("v"), "depends on the order in which tuples arrived"),
        (
            fn.user_aggregate("all", lambda x: x, lambda a, b: a + b, arguments="v", identity=0, output=pa.int64()),
            "the table does not know the state",
        ),
        (fn.stddev("t"), "partial moments are plain numbers, and t is a duration"),
    ],
)
def test_what_cannot_be_split_is_said_in_a_sentence(function: AggregateFunction, why: str) -> None:
    schema = Schema.of(ts=pa.int64(), v=pa.int64(), t=pa.duration("ms"), progress=["ts"])
    with pytest.raises(SchemaError, match=why):
        two_level(tumbling("ts", 10), {"x": function}, schema=schema)


def test_promises_cross_and_are_held_back_by_the_oldest_window_in_the_table() -> None:
    both = split(tumbling("ts", 10), flush=LazyFlush(delay=2), size=100)
    page = Page.of(SCHEMA, {"ts": [1, 12], "k": ["a", "b"], "v": [1, 2]})
    found = drive(both.lower, [page, before("ts", 20)])
    assert [str(p) for p in punctuations(found)] == ["[wid_from < 0]"]  # the guarantee: not below 2 - 2
    assert [str(p) for p in punctuations(drive(both.lower, [before("ts", 30)]))] == ["[wid_from < 1]"]
    assert [str(p) for p in punctuations(drive(both.lower, [END]))] == ["[END]"]


def test_assumed_promises_stay_assumed() -> None:
    both = split(tumbling("ts", 10), flush=LazyFlush(delay=1), size=100)
    page = Page.of(SCHEMA, {"ts": [1], "k": ["a"], "v": [1]})
    found = drive(both.lower, [page, before("ts", 10), before("ts", 30, assumed=True), before("ts", 31)])
    first, second = punctuations(found)[:2]
    assert (str(first), first.assumed, second.assumed) == ("[wid_from < 0]", False, True)


def caught(make: object, window: Window, scripts: st.SearchStrategy[Script]) -> int:
    """Count the scripts that show a planted bug."""
    shown = 0

    @given(scripts)
    def attempt(script: Script) -> None:
        nonlocal shown
        try:
            check_operator(make, script, naive=lambda t: naive_windows(window, ANSWERS, ("k",), t))  # type: ignore[arg-type]
        except (OperatorBug, AssertionError):
            shown += 1

    attempt()
    return shown


@attrs.define
class Hasty(LowAggregate):
    """Promises what it was promised, whatever the table still holds."""

    def _promise_rest(self, emit: Emit) -> None:
        if self._bound > self._promised_bound:
            self._promised_bound = self._bound
            emit(before("wid_from", self._bound))


@attrs.define
class Forgetful(LowAggregate):
    """Forgets what left the table in the same call as another group's tuple came."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        LowAggregate.process(self, page, lambda element: None if isinstance(element, Page) else emit(element), port)


@pytest.mark.parametrize("broken", mostly_slow([Hasty, Forgetful], every=2))
def test_planted_bugs_are_caught(broken: type[LowAggregate]) -> None:
    window = tumbling("ts", 3)

    def make() -> Chain:
        high = HighAggregate(window, FUNCTIONS, ("k",))
        return Chain([Bucket(window), broken(FUNCTIONS, ("k",), size=2, flush=LazyFlush(delay=2)), high])

    assert caught(make, window, streams(SCHEMA, tuples=14, promises=("linear",))) > 0


def test_a_table_in_which_nothing_gets_old_leaves_out_of_order() -> None:
    """Show that the figure as printed (semantics row 38), with no step that makes new entries old, breaks the order."""
    rng = np.random.default_rng(1)
    n = 400
    keys = [str(k) for k in rng.integers(0, 30, n)]
    page = Page.of(SCHEMA, {"ts": np.sort(rng.integers(0, 60, n)), "k": keys, "v": np.ones(n, np.int64)})

    def starts(flush: Flush) -> list[int]:
        found = drive(split(tumbling("ts", 10), flush=flush, size=16).lower, [page, END])
        return [int(str(row["wid_from"])) for row in rows(found)]

    printed, corrected = starts(LazyFlush(delay=2)), starts(InOrderFlush())
    assert corrected == sorted(corrected)
    assert printed != sorted(printed)


def test_statistics_say_how_partial_aggregates_left() -> None:
    both = split(tumbling("ts", 10), size=1)
    page = Page.of(SCHEMA, {"ts": [1, 2, 3], "k": ["a", "b", "a"], "v": [1, 2, 3]})
    drive(both.lower, [page, before("ts", 10)])
    counted: Mapping[str, int] = both.low.statistics()
    assert (counted["partials"], counted["collided"], counted["flushed_at_once"]) == (3, 2, 1)
