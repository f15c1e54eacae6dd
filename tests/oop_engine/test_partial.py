"""What is still open can be looked at while a stream runs: it is what the run would release if its streams ended there.

A source that one can stop shows it: of the same tuples a run that ends there gives as much, and the run that was asked
gives, once stopped, the pages that wait and then the very results that it had told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.promising import from_source
from oop_engine.sources.memory import MemoryReader
from operators.protocol import Element, Emit, State, StateValue
from operators.window.user import ContextWindow
from punctuation import END, Punctuation, before
from tests.examples import mostly_slow, share

SCHEMA = oop.Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), mark=pa.bool_(), progress=["ts"])
Query = Callable[..., oop.Stream]
Row = tuple[int, str, int, bool]


@attrs.define
class Script:
    """Elements that are read one by one, up to where somebody says stop."""

    elements: Sequence[Element]
    taken: list[Element] = attrs.field(factory=list)
    stopped: bool = False
    asked: bool = False
    """Whether more was wanted after the stop."""

    def __iter__(self) -> Iterator[Element]:
        for element in self.elements:
            if self.stopped:
                break
            self.taken.append(element)
            yield element
        self.asked = self.stopped

    def stream(self) -> oop.Stream:
        return oop.pages(iter(self), SCHEMA)


def started(query: Query, scripts: Sequence[Script]) -> oop.Running:
    return query(*(script.stream() for script in scripts)).start()


def bag(*tables: pa.Table) -> Counter[str]:
    return Counter(repr(row) for table in tables for row in table.to_pylist())


def table(pages: Sequence[oop.Page], like: pa.Table) -> pa.Table:
    return pa.Table.from_batches([page.batch for page in pages], like.schema.remove_metadata())


def elements(rows: Sequence[Row], every: int) -> list[Element]:
    """Give tuples in pages of two or three, and every so many pages a promise a little behind the latest time.

    Some tuples break it: they are late.
    """
    made: list[Element] = []
    at = high = 0
    while at < len(rows):
        part = rows[at : at + 2 + len(made) % 2]
        columns = zip(*part, strict=True)
        made.append(oop.Page.of(SCHEMA, dict(zip(SCHEMA.names, map(list, columns), strict=True))))
        at, high = at + len(part), max(high, *(row[0] for row in part))
        if len(made) % every == 0:
            made.append(before("ts", high - 3))
    return made


def _arriving(drawn: list[tuple[Row, int]]) -> list[Row]:
    """Let each tuple come after others that are at most four ticks later."""
    return [row for row, _ in sorted(drawn, key=lambda one: one[0][0] + one[1])]


tuple_rows = st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.integers(-5, 5), st.booleans())
arrivals = st.lists(st.tuples(tuple_rows, st.integers(0, 4)), min_size=15, max_size=40).map(_arriving)
scripts = st.builds(elements, arrivals, st.integers(1, 4))

FUNCTIONS = {"n": oop.count(), "total": oop.sum("v"), "most": oop.max("v")}
COUNTS = {"n": oop.count(), "most": oop.max("count")}
HASH = oop.user_aggregate(
    "hash", lambda v: (v % 97, 10), lambda a, b: ((a[0] * b[1] + b[0]) % 97, a[1] * b[1] % 97), lambda s: s[0],
    arguments="v", identity=(0, 1), output=pa.int64(), commutative=False, interpreted=True,
)  # fmt: skip


class Thirds:
    """Windows of three ticks of the tuples each."""

    def __init__(self) -> None:
        self.seen: int = 0
        self.begin: int | None = None
        self.found: list[tuple[int, int]] = []

    def notify(self, tick: int, row: object) -> Iterator[int]:
        self.seen += 1
        if self.seen % 3 == 1:
            if self.begin is not None:
                self.found.append((self.begin, tick))
            self.begin = tick
            yield tick

    def complete(self, bound: int) -> list[tuple[int, int]]:
        found, self.found = self.found, []
        return found

    def unfinished(self) -> int:
        return 2**62 if self.begin is None else min([begin for begin, _ in self.found] + [self.begin])

    def state(self) -> str:
        return json.dumps([self.seen, self.begin, self.found])

    def restore(self, state: str) -> None:
        self.seen, self.begin, self.found = json.loads(state)


class Sorted:
    """An operator of the user's own, no attrs class: holds tuples back until END or a promise."""

    inputs = 1

    def __init__(self) -> None:
        self.held: list[oop.Page] = []

    def output_schema(self, *inputs: oop.Schema) -> oop.Schema:
        return inputs[0]

    def process(self, page: oop.Page, emit: Emit, port: int = 0) -> None:
        self.held.append(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        held, self.held = self.held, []
        for page in held:
            emit(page)
        emit(punctuation)

    def state(self) -> State:
        return {f"{number}": page.batch for number, page in enumerate(self.held)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        assert not self.held, "an operator that is restored is fresh"
        batches = [value for value in state.values() if isinstance(value, pa.RecordBatch)]
        self.held = [oop.Page(oop.Schema(batch.schema), batch) for batch in batches]


def sliding(strategy: str, *by: str, **functions: Any) -> Query:
    return lambda s: s.window(9, slide=4).aggregate(**(functions or FUNCTIONS), by=by, strategy=strategy)


def meets_itself(s: oop.Stream) -> oop.Stream:
    """Let one aggregate be read by two, whose results meet again."""
    counts = s.filter("v > -4").window(6, slide=3).aggregate(oop.count(), by="k")
    return counts.filter("count = 1").meld(counts.filter("count > 1"), counts).distinct("k", "wid")


@cache
def sevens() -> oop.WindowOf:
    """Compile windows between edges, for the first test that asks."""
    return oop.edges(lambda t: t // 7 * 7 + 7)


MANY = {"ten": oop.tumbling(10), "nine": oop.sliding(9, 4), "talk": oop.session(2)}
ONE: dict[str, Query] = {
    **{f"{strategy} by k": sliding(strategy, "k") for strategy in (
        "auto", "wid", "panes", "two_stacks", "slicing", "adaptive", "adaptive_panes", "buffer", "buffer_panes",
        "negative",
    )},
    **{strategy: sliding(strategy) for strategy in ("auto", "wid", "panes", "two_stacks", "slicing", "buffer")},
    "differential": sliding("differential", "k", n=oop.count(), total=oop.sum("v")),
    "two_level": sliding("two_level", "k", n=oop.count(), total=oop.sum("v")),
    "stacks": lambda s: s.reorder(slack=6).window(9, slide=4).aggregate(**FUNCTIONS, strategy="stacks"),
    "eager": lambda s: s.window(9, slide=4).aggregate(**FUNCTIONS, strategy=oop.strategy("slicing", store="eager")),
    "first, last": sliding("auto", "k", first=oop.first("v"), last=oop.last("v")),
    "median, distinct": sliding("auto", "k", middle=oop.median("v"), kinds=oop.count_distinct("v")),
    "in order": sliding("slicing", "k", hash=HASH, text=oop.concat("k")),
    "sessions": lambda s: s.window(oop.session(2)).aggregate(**FUNCTIONS, by="k"),
    "many": lambda s: s.windows(MANY).aggregate(**FUNCTIONS),
    "many by k": lambda s: s.windows(MANY).aggregate(**FUNCTIONS, by="k"),
    "many beside": lambda s: s.windows(MANY, three=oop.counted(3), mark=oop.marked("mark")).aggregate(**FUNCTIONS),
    "revisions": lambda s: s.windows(MANY).aggregate(**FUNCTIONS, by="k", lateness=6),
    "early": lambda s: s.window(9, slide=4).aggregate(**FUNCTIONS, by="k", early=oop.early(2, refine="retract")),
    "triggers": lambda s: s.window(9, slide=4).aggregate(**FUNCTIONS, by="k", early=oop.Trigger.rows(2)),
    "edges": lambda s: s.window(sevens()).aggregate(**FUNCTIONS),
    "own": lambda s: s.window(oop.own(ContextWindow("ts", Thirds))).aggregate(**FUNCTIONS),
    "own operator": lambda s: s.apply(Sorted()).window(5).aggregate(oop.count(), last=oop.last("v")),
    "by tuple": lambda s: s.window(oop.slide_by_tuple(5)).aggregate(**FUNCTIONS),
    "latest": lambda s: s.window(oop.latest(3, every=4)).aggregate(**FUNCTIONS),
    "plain": lambda s: s.aggregate(**FUNCTIONS, by="k"),
    "by time": lambda s: s.aggregate(**FUNCTIONS, by=("ts", "k")),
    "distinct": lambda s: s.distinct("ts", "k").window(5).aggregate(oop.count()),
    "numbered": lambda s: s.number().filter("row_num % 3 <> 1").window(5).aggregate(oop.count(), oop.max("row_num")),
    "sorted": lambda s: s.reorder(slack=6).derive(w="v * 2").project("ts", "w"),
    "filtered": lambda s: (
        s.filter("v <> 0").window(8, slide=4).aggregate(**FUNCTIONS, by="k")
        .filter("total > 0").derive(mean="total / n").project("mean", "k", at="window_start")
    ),
    "twice": lambda s: s.window(4).aggregate(oop.count(), by="k").window(8, wattr="window_start").aggregate(**COUNTS),
    "meets itself": meets_itself,
    "self-join": lambda s: s.join(s, "k", range=3).window(6).aggregate(oop.count()),
    "as it is": lambda s: s,
}  # fmt: skip
OFTEN = (
    "auto by k",
    "wid by k",
    "panes by k",
    "slicing by k",
    "sessions",
    "many beside",
    "revisions",
    "early",
    "meets itself",
)
TWO: dict[str, Query] = {
    "meld": lambda s, t: s.meld(t).window(9, slide=4).aggregate(**FUNCTIONS, by="k"),
    "merge": lambda s, t: oop.merge(s, t).window(9, slide=4).aggregate(**FUNCTIONS),
    "join": lambda s, t: s.join(t, "k", range=(3, 2)),
    "full join": lambda s, t: s.join(t, "k", range=2, kind="full", where=lambda p: p["v"] > p["right_v"]),
    "anti join": lambda s, t: s.join(t, "k", tumbling=5, kind="anti"),
    "join of windows": lambda s, t: (
        s.join(t, "k", tumbling=5, least="first").window(5, wattr="first").aggregate(oop.count(), by="k")
    ),
}  # fmt: skip


def check(query: Query, scripts: Sequence[Script], after: int) -> None:
    """Ask after some of the pages, stop the sources there, and compare with what comes, and with a run of as much."""
    pages = sum(1 for _ in started(query, [Script(script.elements) for script in scripts]))
    running = started(query, scripts)
    given = [page for _, page in zip(range(after % max(pages, 1)), running, strict=False)]
    partial = running.partial()
    for script in scripts:
        script.stopped = True
    waiting, released = list[oop.Page](), list[oop.Page]()
    for page in running:
        (released if any(script.asked for script in scripts) else waiting).append(page)
    ended = query(*(Script(script.taken).stream() for script in scripts)).to_arrow()
    assert partial.schema == ended.schema
    assert bag(partial) == bag(table(released, partial))
    assert bag(table(given, partial), table(waiting, partial), partial) == bag(ended)
    assert running.partial().num_rows == 0


def check_unaffected(query: Query, scripts: Sequence[Script]) -> None:
    """Ask before the run, after each of its pages and behind it, and compare with a run that is not asked."""
    plain = list(started(query, [Script(script.elements) for script in scripts]))
    running = started(query, scripts)
    running.partial()
    found: list[oop.Page] = []
    for page in running:
        found.append(page)
        running.partial()
    assert [page.batch.to_pylist() for page in found] == [page.batch.to_pylist() for page in plain]


@pytest.mark.parametrize("query", mostly_slow(ONE, but=OFTEN))
@share(0.5)
@given(scripts, st.integers(1, 20))
def test_it_is_what_the_stream_would_give_if_it_ended_here(query: str, script: list[Element], after: int) -> None:
    check(ONE[query], [Script(script)], after)


@pytest.mark.parametrize("query", mostly_slow(TWO, every=3))
@share(0.5)
@given(scripts, scripts, st.integers(1, 20))
def test_it_is_of_all_streams_as_far_as_they_are_read(
    query: str, one: list[Element], other: list[Element], after: int
) -> None:
    check(TWO[query], [Script(one), Script(other)], after)


@pytest.mark.parametrize("query", mostly_slow(ONE, but=OFTEN))
@share(0.1)
@given(scripts)
def test_the_run_goes_on_as_if_nothing_had_been_asked(query: str, script: list[Element]) -> None:
    check_unaffected(ONE[query], [Script(script)])


@pytest.mark.parametrize("query", mostly_slow(TWO, every=3))
@share(0.1)
@given(scripts, scripts)
def test_a_run_of_two_streams_goes_on_as_if_nothing_had_been_asked(
    query: str, one: list[Element], other: list[Element]
) -> None:
    check_unaffected(TWO[query], [Script(one), Script(other)])


def ticks(*times: int) -> oop.Page:
    return oop.Page.of(
        SCHEMA, {"ts": times, "k": ["a"] * len(times), "v": [1] * len(times), "mark": [True] * len(times)}
    )


def counts(table: pa.Table) -> dict[object, dict[object, object]]:
    """Give the counts of windows, by name and begin."""
    found: dict[object, dict[object, object]] = {}
    for row in table.to_pylist():
        found.setdefault(row["window"], {})[row["window_start"]] = row["count"]
    return found


def named(elements: Sequence[Element]) -> oop.Running:
    windows = {"ten": oop.tumbling(10), "four": oop.tumbling(4)}
    return started(lambda s: s.windows(windows).aggregate(oop.count()), [Script(elements)])


def test_windows_that_came_are_in_it_and_those_that_went_are_not() -> None:
    running = named([ticks(0, 1, 2, 3, 4, 5), before("ts", 5), ticks(6, 7, 8, 12), before("ts", 8), ticks(13)])
    next(running)
    assert counts(running.partial()) == {"ten": {0: 6}, "four": {4: 2}}
    assert running.add("two", oop.tumbling(2)) == running.add("seven", sevens()) == 6
    running.remove("ten")
    assert counts(running.partial()) == {"four": {4: 2}}
    next(running)
    assert counts(running.partial()) == {"four": {8: 1, 12: 1}, "two": {8: 1, 12: 1}, "seven": {7: 3}}
    running.remove("four")
    running.add("four", oop.tumbling(5))
    running.remove("two")
    running.remove("seven")
    assert counts(running.partial()) == {}
    running.remove("four")
    assert running.partial().num_rows == 0
    assert list(running) == []


POOL = [*MANY, "five", "seven", "own"]


@given(scripts, st.sampled_from([(), ("k",)]), st.lists(st.lists(st.sampled_from(POOL), max_size=3), max_size=8))
def test_it_has_what_the_windows_give_that_are_there_whichever_came_and_went(
    script: list[Element], by: tuple[str, ...], changes: list[list[str]]
) -> None:
    pool = {**MANY, "five": oop.tumbling(5), "seven": sevens(), "own": oop.own(ContextWindow("ts", Thirds))}
    source = Script(script)
    running = started(lambda s: s.windows(MANY).aggregate(**FUNCTIONS, by=by), [source])
    for _, names in zip(running, changes, strict=False):
        for name in names:
            if name in running.windows:
                running.remove(name)
            else:
                with suppress(oop.PlanError):
                    running.add(name, pool[name])
            assert set(running.partial()["window"].to_pylist()) <= set(running.windows)
    partial = running.partial()
    source.stopped = True
    released = [page for page in running if source.asked]
    assert bag(partial) == bag(table(released, partial))


def test_pages_that_wait_to_be_given_are_not_in_it() -> None:
    windows = {"ten": oop.tumbling(10), "edges": sevens(), "talk": oop.session(1)}
    elements = [ticks(*range(0, 60, 6)), before("ts", 48)]
    running = started(lambda s: s.windows(windows).aggregate(oop.count()), [Script(elements)])
    first = table([next(running)], running.partial())
    assert set(counts(first)) == {"ten"}
    partial = running.partial()
    assert counts(partial) == {"ten": {40: 2, 50: 1}, "edges": {42: 2, 49: 1}, "talk": {48: 1, 54: 1}}
    assert bag(table(list(running), first)) > bag(partial)


def test_it_is_empty_before_the_first_page_and_behind_the_last_and_stays_where_the_run_was_closed() -> None:
    elements = [ticks(1, 2), before("ts", 2), ticks(3, 5), before("ts", 4), ticks(6)]
    running = started(lambda s: s.window(2).aggregate(oop.count()), [Script(elements)])
    schema = running.partial().schema
    assert running.partial().num_rows == 0
    next(running)
    with running:
        open_ = running.partial().to_pylist()
    assert open_ == running.partial().to_pylist() == [{"count": 1, "wid": 1, "window_start": 2, "window_end": 4}]
    ended = started(lambda s: s.window(2).aggregate(oop.count()), [Script(elements)])
    assert sum(map(len, ended)) == 4
    assert ended.partial().num_rows == 0 and ended.partial().schema == schema


class Last(Sorted):
    """Says at the end that it was there."""

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self.held.append(ticks(99))
        super().punctuate(punctuation, emit, port)


def test_a_stream_that_said_itself_that_it_ended_does_not_end_again() -> None:
    one, other = [ticks(1, 2), END], [ticks(1), before("ts", 2), ticks(9), before("ts", 8), ticks(11)]
    for after in range(3):
        check(TWO["meld"], [Script(one), Script(other)], after)
        check(TWO["join"], [Script(other), Script(one)], after)
        check(lambda s, t: s.apply(Last()).meld(t), [Script(one), Script(other)], after)


def test_no_result_of_the_run_says_that_it_is_partial() -> None:
    query = lambda s: s.window(2).aggregate(oop.count())  # noqa: E731
    running = started(query, [Script([ticks(1, 2), before("ts", 2), ticks(3)])])
    page = next(running)
    partial = running.partial()
    assert partial.schema.metadata == {b"oop.partial": b"true"}
    assert not page.batch.schema.metadata
    assert pa.concat_tables([table([page], partial), partial]).num_rows == 2


def test_addresses_are_text_as_in_other_tables() -> None:
    schema = pa.schema([("ts", pa.int64()), oop.ip_field("source")])
    packets = oop.rows(iter([(1, "10.0.0.1"), (9, "10.0.0.2"), (9, "::1")]), schema, slack=0)
    stream = packets.window(5).aggregate(oop.count(), by="source")
    running = stream.start(page_rows=2)
    next(running)
    assert running.partial()["source"].to_pylist() == ["10.0.0.2"]


def test_the_table_stays_what_it_was_while_the_run_goes_on() -> None:
    rows: list[Row] = [(t, "abc"[t % 3], t, False) for t in range(120)]
    for query in (ONE["auto by k"], ONE["sessions"], ONE["buffer by k"], ONE["sorted"], ONE["two_level"]):
        running = started(query, [Script(elements(rows, 1))])
        tables: list[pa.Table] = []
        texts: list[str] = []
        for _ in running:
            tables.append(running.partial())
            texts.append(repr(tables[-1].to_pylist()))
        assert [repr(one.to_pylist()) for one in tables] == texts
        assert any(one.num_rows for one in tables)


def test_statistics_and_files_know_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    script = Script([ticks(1, 9), before("ts", 8), ticks(3, 4, 11), before("ts", 10), ticks(2, 12)])
    stream = oop.pages(iter(script), SCHEMA, divert=str(path))
    running = stream.window(4).aggregate(oop.count()).start()
    for _ in running:
        told = repr(running.statistics.operators)
        assert running.partial() is not None
        assert repr(running.statistics.operators) == told
    assert [line.split(",")[0] for line in path.read_text().splitlines()] == ["ts", "3", "4", "2"]


def test_within_a_page_it_is_refused_and_the_run_goes_on() -> None:
    asked: list[oop.Page] = []

    def look(page: oop.Page) -> None:
        asked.append(page)
        with pytest.raises(oop.PlanError, match="in the middle of a page"):
            running.partial()

    script = Script([ticks(1, 5), before("ts", 4), ticks(2)])
    running = oop.pages(iter(script), SCHEMA, divert=look).window(2).aggregate(oop.count()).start()
    assert sum(map(len, running)) == 2
    assert len(asked) == 1


def test_a_run_that_failed_has_no_consistent_cut() -> None:
    def broken() -> Iterator[Element]:
        yield from (ticks(1, 5), before("ts", 4))
        raise OSError("gone")

    running = oop.pages(broken(), SCHEMA).window(2).aggregate(oop.count()).start()
    next(running)
    assert running.partial().num_rows == 1
    with pytest.raises(OSError, match="gone"):
        next(running)
    with pytest.raises(oop.PlanError, match="or failed there"):
        running.partial()


def sums(live: bool) -> oop.Running:
    """Sums of which one that is still open does not fit its type."""
    big = oop.Page.of(SCHEMA, {"ts": [1, 5, 6, 7], "k": [*"aaab"], "v": [1, 2**63 - 1, 1, 1], "mark": [True] * 4})
    elements: list[Element] = [big, before("ts", 5), ticks(8)]
    stream = from_source(Live(lambda: iter(elements))) if live else oop.pages(iter(elements), SCHEMA)
    return stream.window(4).aggregate(total=oop.sum("v"), by="k").start()


class Endless(MemoryReader):
    def stop(self) -> None: ...


@attrs.frozen(eq=False)
class Live:
    """A stream that has no end of its own."""

    begin: Callable[[], Iterator[Element]]
    name: str = "live"
    rewindable: bool = False
    promised: tuple[str, ...] = ("ts",)

    @property
    def arrow(self) -> pa.Schema:
        return SCHEMA.arrow

    def open(self, columns: Sequence[str], batch_rows: int) -> Endless:
        chunks = (e.batch.select(list(columns)) if isinstance(e, oop.Page) else e for e in self.begin())
        return Endless(chunks, None)

    def values(self, column: str) -> Iterator[Any]:
        raise NotImplementedError


def test_what_does_not_fit_its_type_is_null_of_a_live_stream_and_else_an_error_that_leaves_the_run_alone() -> None:
    running = sums(live=True)
    next(running)
    found = {(row["k"], row["window_start"]): row["total"] for row in running.partial().to_pylist()}
    assert found == {("a", 4): None, ("b", 4): 1}
    running = sums(live=False)
    next(running)
    with pytest.raises(oop.AggregateOverflow) as error:
        running.partial()
    assert "as if its streams ended here" in error.value.__notes__[0]
    with pytest.raises(oop.AggregateOverflow):
        list(running)
