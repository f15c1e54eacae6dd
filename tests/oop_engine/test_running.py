"""Windows come and go while a stream runs, and everything else of it goes on as if they did not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.running import Running
from oop_engine.api.windowed import Windowed
from oop_engine.sinks import ListSink
from operators.protocol import Element
from tests.examples import share

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64()), ("mark", pa.bool_())])
Row = tuple[int, str, int, bool]


def stream(rows: list[Row], size: int = 4, **options: object) -> oop.Stream:
    parts = [rows[at : at + size] for at in range(0, len(rows), size)] or [[]]
    batches = [pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in p], SCHEMA) for p in parts]
    return oop.arrow(iter(batches), schema=SCHEMA, **options)  # type: ignore[arg-type]


def started(rows: list[Row], by: tuple[str, ...] = (), **options: object) -> Running:
    windows = {"ten": oop.tumbling(10), "talk": oop.session(3)}
    return stream(rows, **options).windows(windows).aggregate(oop.count(), total=oop.sum("v"), by=by).start()


def results(pages: Iterator[oop.Page]) -> list[dict[str, object]]:
    return [row for page in pages for row in page.rows()]


def _arriving(drawn: list[tuple[Row, int]]) -> list[Row]:
    """Let each tuple come after others that are at most three ticks later."""
    return [row for row, _ in sorted(drawn, key=lambda one: one[0][0] + one[1])]


tuple_rows = st.tuples(st.integers(0, 60), st.sampled_from("ab"), st.integers(-5, 5), st.booleans())
rows = st.lists(st.tuples(tuple_rows, st.integers(0, 3)), min_size=8, max_size=40).map(_arriving)


@share(4)
@given(rows, st.sampled_from([(), ("k",)]), st.integers(1, 6), st.sampled_from(["5", "9/4", "session"]))
def test_a_window_that_is_added_gives_what_it_gives_alone_from_there_on(
    tuples: list[Row], by: tuple[str, ...], after: int, kind: str
) -> None:
    window = {"5": oop.tumbling(5), "9/4": oop.sliding(9, 4), "session": oop.session(2)}[kind]
    running = started(tuples, by, slack=4)
    found: list[dict[str, object]] = []
    since = None
    for number, page in enumerate(running, 1):
        found += page.rows()
        if number == after:
            with suppress(oop.PlanError):
                since = running.add("more", window)
        if number == after and since is not None:
            assert list(running.windows) == ["ten", "talk", "more"]
    untouched = results(iter(started(tuples, by, slack=4)))
    assert sorted(map(repr, (r for r in found if r["window"] != "more"))) == sorted(map(repr, untouched))
    if since is not None:
        alone = stream(tuples, slack=4).window(window).aggregate(oop.count(), total=oop.sum("v"), by=by).to_arrow()
        expected = [repr(r) for r in alone.to_pylist() if r["window_start"] >= since]
        more = [{n: v for n, v in r.items() if n != "window"} for r in found if r["window"] == "more"]
        assert sorted(map(repr, more)) == sorted(expected) and running.statistics.late == 0


def test_a_window_that_is_removed_gives_nothing_more() -> None:
    tuples: list[Row] = [(t, "a", 1, False) for t in range(60)]
    running = started(tuples, slack=0)
    first = next(running)
    running.remove("ten")
    rest = results(iter(running))
    assert {row["window"] for row in first.rows()} <= {"ten", "talk"}
    assert {row["window"] for row in rest} == {"talk"} and list(running.windows) == ["talk"]
    assert running.statistics.tuples == 60


def six_apart() -> oop.Stream:
    """Counts whose pages, of a window each, wait one for the other."""
    windows = {"ten": oop.tumbling(10), "edges": oop.edges(lambda t: t // 5 * 5 + 5), "talk": oop.session(1)}
    tuples: list[Row] = [(t, "a", 1, False) for t in range(0, 60, 6)]
    return stream(tuples, size=20, slack=0).windows(windows).aggregate(oop.count())


@pytest.mark.parametrize("name", ["window", "kind"])
def test_results_of_a_removed_window_that_wait_to_be_given_are_left_out(name: str) -> None:
    counts = six_apart()
    if name == "kind":
        counts = counts.filter("count > 0").derive(more="count + 1").project("more", kind="window")
    running = counts.start()
    assert {row[name] for row in next(running).rows()} == {"ten"}
    running.remove("talk")
    assert {row[name] for row in results(iter(running))} == {"ten", "edges"}


def test_what_other_operators_made_of_a_removed_window_stays() -> None:
    running = six_apart().distinct("window").start()
    assert [row["window"] for row in next(running).rows()] == ["ten"]
    running.remove("talk")
    assert [row["window"] for row in results(iter(running))] == ["edges", "talk"]


def test_a_finer_window_is_released_as_fine_as_the_source_can_promise() -> None:
    tuples: list[Row] = [(t, "a", 1, False) for t in range(40)]
    running = started(tuples, slack=0, size=1)
    next(running)
    since = running.add("fine", oop.tumbling(1))
    seen: list[int] = []
    for page in running:
        seen += [int(str(row["wid"])) for row in page.rows() if row["window"] == "fine"]
        if len(seen) == 3:
            break
    assert seen == [since, since + 1, since + 2]
    running.poll()


@pytest.mark.parametrize("by", [(), ("k",)])
@pytest.mark.parametrize("beside", [None, oop.counted(7), oop.sliding("ALL", 30)])
def test_windows_may_be_added_to_a_single_one_that_has_a_name(beside: oop.WindowOf | None, by: tuple[str, ...]) -> None:
    tuples: list[Row] = [(t, "ab"[t % 2], 1, False) for t in range(60)]
    windows = {"ten": oop.tumbling(10)} | ({} if beside is None else {"other": beside})
    running = stream(tuples, slack=0).windows(windows).aggregate(oop.count(), by=by).start()
    found = next(running).rows()
    since = running.add("five", oop.tumbling(5))
    found += results(iter(running))
    counts = {(str(row["window"]), row["window_start"]) for row in found if row["window"] != "other"}
    later = range(-(-since // 5) * 5, 60, 5)
    assert counts == {("ten", t) for t in range(0, 60, 10)} | {("five", t) for t in later}
    untouched = stream(tuples, slack=0).windows(windows).aggregate(oop.count(), by=by).to_arrow().to_pylist()
    assert sorted(map(repr, (row for row in found if row["window"] != "five"))) == sorted(map(repr, untouched))


@pytest.mark.parametrize("by", [(), ("k",), ("k", "v")])
def test_a_single_named_window_that_overlaps_itself_shares_its_slices_once_it_is_started(by: tuple[str, ...]) -> None:
    tuples: list[Row] = [(t, "ab"[t % 2], 1, False) for t in range(60)]

    def made() -> oop.Stream:
        return stream(tuples, slack=0).windows(wide=oop.sliding(10, 2)).aggregate(oop.count(), oop.sum("v"), by=by)

    # Groups are carried over from window to window where nothing can come and go, for that is faster.
    assert ("strategy panes" in made().explain()) is bool(by)
    running = made().start()
    found = next(running).rows()
    running.add("five", oop.tumbling(5))
    found += results(iter(running))
    assert {row["window"] for row in found} == {"wide", "five"}
    expected = sorted(map(repr, made().to_arrow().to_pylist()))
    assert sorted(repr(row) for row in found if row["window"] == "wide") == expected


@pytest.mark.parametrize("window", [oop.tumbling(10), oop.session(3), oop.counted(5), oop.sliding("ALL", 30)])
@pytest.mark.parametrize("options", [{}, {"by": "k"}, {"strategy": "panes"}, {"empty": True}, {"early": 4}])
def test_a_single_window_with_a_name_bears_it(window: oop.WindowOf, options: dict[str, object]) -> None:
    tuples: list[Row] = [(t, "ab"[t % 2], 1, False) for t in range(60)]

    def counts(windowed: Windowed) -> oop.Stream:
        return windowed.aggregate(oop.count(), **options)  # type: ignore[arg-type]

    try:
        alone = counts(stream(tuples, slack=0).window(window))
    except oop.PlanError:
        # Not every window has every strategy, empty windows, and early results.
        with pytest.raises(oop.PlanError):
            counts(stream(tuples, slack=0).windows(a=window))
        return
    named = counts(stream(tuples, slack=0).windows(a=window))
    expected = [{**row, "window": "a"} for row in alone.to_arrow().to_pylist()]
    assert sorted(repr(sorted(row.items())) for row in named.to_arrow().to_pylist()) == sorted(
        repr(sorted(row.items())) for row in expected
    )


def test_single_windows_with_names_that_are_computed_together_bear_their_own() -> None:
    table = pa.table({"ts": list(range(40)), "v": [1] * 40})
    source, found = oop.arrow(table), {name: list[Element]() for name in ("a", "b", "c")}
    windows = {"a": oop.tumbling(10), "b": oop.tumbling(10), "c": oop.tumbling(8)}
    for names in (("a", "b"), ("a", "b", "c")):
        counts = {name: source.windows({name: windows[name]}).aggregate(oop.count()) for name in names}
        oop.run_outputs([stream.to(ListSink(found[name])) for name, stream in counts.items()])
        for name in names:
            rows = results(page for page in found[name] if isinstance(page, oop.Page))
            assert [row["window"] for row in rows] == [name] * (5 if name == "c" else 4)
            found[name].clear()


def test_what_cannot_change_is_told() -> None:
    with pytest.raises(oop.PlanError, match="has not begun"):
        started([], slack=0).add("more", oop.tumbling(5))
    alone = stream([], slack=0).window(3).aggregate(oop.count()).start()
    with pytest.raises(oop.PlanError, match=r"have names and share slices, [^$]*\[RANGE 3, .*\n  Write windows\(a=oop"):
        alone.add("more", oop.tumbling(5))
    panes = stream([], slack=0).windows(a=oop.tumbling(3)).aggregate(oop.count(), strategy="panes").start()
    with pytest.raises(oop.PlanError, match="not with empty=True, consistent=True or another strategy"):
        panes.add("more", oop.tumbling(5))
    twice = stream([], slack=0).windows(a=oop.tumbling(3)).aggregate(oop.count())
    both = oop.meld(twice, stream([], slack=0).windows(b=oop.tumbling(3)).aggregate(oop.count())).start()
    with pytest.raises(oop.PlanError, match="and here are 2: slice and aggregate count"):
        both.add("more", oop.tumbling(5))
    ended = started([(1, "a", 1, False)], slack=0)
    assert results(iter(ended))
    with pytest.raises(oop.PlanError, match="has ended"):
        ended.add("more", oop.tumbling(5))


def test_a_window_that_does_not_fit_is_refused_and_the_run_goes_on() -> None:
    tuples: list[Row] = [(t, "a", 1, t % 7 == 0) for t in range(60)]
    running = started(tuples, slack=0)
    found = next(running).rows()
    with pytest.raises(oop.PlanError, match="shares no slices"):
        running.add("n", oop.counted(3))
    with pytest.raises(oop.PlanError, match="reads mark, and this run does not"):
        running.add("m", oop.marked("mark"))
    with pytest.raises(oop.SchemaError, match="there is a window"):
        running.add("ten", oop.tumbling(4))
    with pytest.raises(oop.SchemaError, match="slices are shared over one"):
        running.add("v", oop.tumbling(4, wattr="v"))
    with pytest.raises(oop.SchemaError, match="no window"):
        running.remove("nine")
    found += results(iter(running))
    assert sorted(map(repr, found)) == sorted(map(repr, results(iter(started(tuples, slack=0)))))


def test_an_added_window_takes_the_late_tuples_that_it_is_open_for() -> None:
    came = [*range(500), 300, 310, *range(500, 1200)]
    stream = oop.rows(((ts,) for ts in came), pa.schema([("ts", pa.int64())]), slack=0)
    running = stream.windows(a=oop.tumbling(10), b=oop.tumbling(20)).aggregate(oop.count()).start(page_rows=50)
    counts: dict[object, object] = {}
    for page in running:
        counts |= {row["window_start"]: row["count"] for row in page.rows() if row["window"] == "big"}
        if "big" not in running.windows:
            running.add("big", oop.tumbling(1000, origin=-800))
    assert counts == {200: 1002}
    assert running.statistics.late == 0


def test_a_run_that_is_closed_lets_go_of_its_files_and_says_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("ts\n" + "".join(f"{ts}\n" for ts in range(300_000)))

    def is_open() -> bool:
        return any(os.path.realpath(f"/proc/self/fd/{number}") == str(path) for number in os.listdir("/proc/self/fd"))

    stream = oop.table(path, slack=0).windows(a=oop.tumbling(10), b=oop.tumbling(20)).aggregate(oop.count())
    with stream.start(page_rows=50) as running:
        assert len(next(running))
        assert is_open()
        assert repr(running).startswith("Running(slice and aggregate count(*); Statistics(")
        assert len(repr(running)) < 200
    assert not is_open()
    assert list(running) == []


def test_a_run_explains_how_it_makes_windows_from_the_numbers_it_has_seen() -> None:
    """And they are those of the stream: 6 groups, and 1,000 of them in a burst."""
    rows = [(t, k) for t in range(240) for k in range(1000 if 40 <= t < 120 else 6)]
    stream = oop.rows(rows, oop.Schema.of(ts="int64", k="int64")).window(range=40, slide=1)
    told = re.compile(r"- ([^-]*), chosen anew (\d+) times?: for ([\d,]+) tuples a window and ([\d,]+) groups")
    found: list[tuple[str, ...]] = []
    with stream.aggregate(oop.count(), by="k").start(page_rows=400) as running:
        assert "chosen anew" not in running.explain()
        for _ in running:
            found += told.findall(" ".join(running.explain().replace("│", " ").split()))
    found += told.findall(" ".join(running.explain().replace("│", " ").split()))
    combined = "each window is combined anew of its slices"
    carried = "windows are carried over, and what leaves is subtracted"
    ways = [way for (way, *_), before in zip(found, [("",), *found], strict=False) if way != before[0]]
    assert ways == [combined, carried, combined]
    technique, changes, tuples, groups = found[-1]
    assert (technique, changes) == (combined, "2")
    # Windows that begin before the first tuple and end behind the last one are windows, too.
    assert int(tuples.replace(",", "")) == round(len(rows) * 40 / (240 + 39))
    assert int(groups.replace(",", "")) == round(len(rows) / 240)


def test_a_run_explains_when_slices_are_combined_from_the_numbers_it_has_seen() -> None:
    stream = oop.rows([(t,) for t in range(0, 60_000, 10)], oop.Schema.of(ts="int64"))
    windows = stream.windows(long=oop.sliding(1_500, slide=10), short=oop.tumbling(30))
    with windows.aggregate(oop.count()).start(page_rows=2_000) as running:
        explained = " ".join(running.explain().replace("│", " ").split())
        assert "it pays beyond 256; chosen anew from what is seen" in explained
        for _ in running:
            pass
    told = " ".join(running.explain().replace("│", " ").split())
    assert re.search(
        r"slices are combined \S.*, chosen anew \d+ times?: [\d,]+ windows a promise were seen, [\d.]+ sl", told
    )
