"""Windows give results before they are complete, from text and from Python, and these are what was promised of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.errors import PlanError
from oop_engine.language import LanguageError
from operators.window import SlidingWindow
from tests.naive_early import naive_early, naive_refined
from tests.naive_early_sessions import naive_early_sessions

ROWS = [{"ts": t, "k": "ab"[t % 3 == 0], "x": t * 7 % 11} for t in (*range(0, 40, 2), 3, 3, 17, 90)]
ANSWERS = {"n": len, "most": lambda rows: max(row["x"] for row in rows)}
AGGREGATES = {"n": oop.count(), "most": oop.max("x")}


def stream(seed: int = 0, rows: Sequence[Mapping[str, object]] = ROWS) -> oop.Stream:
    return oop.arrow(pa.Table.from_pylist(random.Random(seed).sample(list(rows), len(rows))))


def found(stream: oop.Stream) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in stream.to_arrow().to_pylist())


def expected(rows: Sequence[Mapping[str, object]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
def test_text_and_python_give_the_naive_answer_in_any_order_of_arrival(refine: str) -> None:
    window = SlidingWindow("ts", size=10, slide=5)
    naive = naive_early({"w": window}, {"w": [4, 8, 10]}, ANSWERS, ["k"], ROWS, discard=refine == "discard")
    right = expected(naive_refined(naive, list(ANSWERS)) if refine == "retract" else naive)
    assert right.total() > 20
    text = f"SELECT k, count(*) AS n, max(x) AS most [RANGE 10, SLIDE 5, WA ts, EARLY 4 {refine}] FROM S GROUP BY k"
    for seed in range(3):
        early = oop.early(4, refine=refine)  # type: ignore[arg-type]
        python = stream(seed).window(range=10, slide=5).aggregate(by="k", early=early, **AGGREGATES)
        assert found(python) == right == found(oop.query(text, S=stream(seed)))


@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
def test_sessions_fire_from_their_begin_on_in_any_order_of_arrival(refine: str) -> None:
    naive = naive_early_sessions(6, 4, [5], ANSWERS, ["k"], ROWS, discard=refine == "discard")
    right = expected(naive_refined(naive, [*ANSWERS, "window_end"]) if refine == "retract" else naive)
    assert right.total() > 15
    text = f"SELECT k, count(*) AS n, max(x) AS most [SESSION 6, WA ts, EARLY 4 AT 5 {refine}] FROM S GROUP BY k"
    for seed in range(2):
        early = oop.early(4, at=5, refine=refine)  # type: ignore[arg-type]
        python = stream(seed).window(oop.session(6)).aggregate(by="k", early=early, **AGGREGATES)
        assert found(python) == right == found(oop.query(text, S=stream(seed)))


def test_sessions_and_other_windows_fire_on_one_stream() -> None:
    windows = {"talk": oop.session(6), "long": oop.tumbling(20)}
    naive = [{**row, "window": "talk"} for row in naive_early_sessions(6, 8, [], ANSWERS, ["k"], ROWS)]
    named = {"long": SlidingWindow("ts", size=20, slide=20), "other": SlidingWindow("ts", size=2, slide=9)}
    naive += [row for row in naive_early(named, {"long": [8, 16, 20], "other": []}, ANSWERS, ["k"], ROWS)]
    assert found(stream().windows(**windows).aggregate(by="k", early=8, **AGGREGATES)) == expected(naive)


@pytest.mark.parametrize("refine", ["accumulate", "discard", "retract"])
def test_windows_without_a_tuple_fire_too(refine: str) -> None:
    text = f"SELECT count(*) AS n, max(x) AS most [RANGE 10, WA ts, EARLY 4 {refine}, EMPTY] FROM S"
    early = oop.early(4, refine=refine)  # type: ignore[arg-type]
    results = stream(1).window(range=10).aggregate(early=early, empty=True, **AGGREGATES)
    assert found(results) == found(oop.query(text, S=stream(2)))
    rows = results.to_arrow().to_pylist()
    if refine != "retract":
        assert {(row["wid"], row["fired"] % 10) for row in rows} == {(w, at) for w in range(10) for at in (4, 8, 0)}
    totals: Counter[int] = Counter()
    for row in rows:
        counts = refine == "discard" or row["final"]
        totals[row["wid"]] += row["n"] * row.get("sign", 1) * counts
    whole = stream().window(range=10).aggregate(empty=True, **AGGREGATES).to_arrow().to_pylist()
    assert totals == Counter({row["wid"]: row["n"] for row in whole})


def test_a_window_with_a_name_fires_empty_under_it() -> None:
    named = stream().windows(w=oop.tumbling(10)).aggregate(early=5, empty=True, **AGGREGATES).to_arrow().to_pylist()
    assert len(named) == 20 and {row["window"] for row in named} == {"w"}


def test_who_reads_sessions_that_fire_counts_each_once() -> None:
    inner = "SELECT k, count(*) AS n [SESSION 6, WA ts, EARLY 4 RETRACT] FROM S GROUP BY k"
    outer = f"SELECT sum(n) AS n, count(*) AS sessions [RANGE 50, WA window_end] FROM ({inner})"
    plain = outer.replace(", EARLY 4 RETRACT", "")
    rows = oop.query(outer, S=stream()).to_arrow().to_pylist()
    assert rows == oop.query(plain, S=stream()).to_arrow().to_pylist() and len(rows) > 1


def test_one_trigger_is_used_for_several_windows_and_triggers_compose() -> None:
    windows = {"short": oop.tumbling(6), "long": oop.sliding(20, 10)}
    early = oop.early(8, at=[0.5, 3])
    ticks = {"short": [3, 6], "long": [3, 8, 10, 16, 20]}
    named = {"short": SlidingWindow("ts", size=6, slide=6), "long": SlidingWindow("ts", size=20, slide=10)}
    right = expected(naive_early(named, ticks, ANSWERS, ["k"], ROWS))
    assert found(stream().windows(**windows).aggregate(by="k", early=early, **AGGREGATES)) == right


def test_an_early_result_is_given_as_soon_as_it_is_certain() -> None:
    rows = [{"ts": t, "x": 1} for t in (1, 5, 2, 12, 19, 21, 40)]
    streamed = oop.rows(rows, pa.schema([("ts", pa.int64()), ("x", pa.int64())]), slack=3)
    running = streamed.window(range=20).aggregate(oop.count(), early=10).start(page_rows=1)
    given = [
        (running.statistics.tuples, row["count"], row["fired"], row["final"]) for page in running for row in page.rows()
    ]
    # The tick 10 is past when 19 has come, with a slack of 3; 20 and 30 are when 40 has.
    assert sorted(given) == [
        (5, 3, 10, False), (7, 1, 30, False), (7, 1, 40, True), (7, 1, 50, False), (7, 1, 60, True), (7, 5, 20, True)
    ]  # fmt: skip


def test_windows_that_begin_before_the_origin_are_left_out_as_without_early_results() -> None:
    window = stream().window(oop.sliding(10, 4, partial=False))
    starts = {row["window_start"] for row in window.aggregate(oop.count(), early=3).to_arrow().to_pylist()}
    assert starts == {row["window_start"] for row in window.aggregate(oop.count()).to_arrow().to_pylist()}
    assert min(starts) >= 0


def test_what_stands_after_all_is_the_answer_without_early_results() -> None:
    window = stream().window(range=10, slide=5)
    signed = window.aggregate(by="k", early=oop.early(2, refine="retract"), **AGGREGATES).to_arrow()
    standing: Counter[str] = Counter()
    for row in signed.to_pylist():
        sign = row.pop("sign")
        del row["fired"]
        final = row.pop("final")
        standing[f"{row} {final}"] += sign
    last = {text.removesuffix(" True"): n for text, n in standing.items() if n}
    assert last == Counter(map(str, window.aggregate(by="k", **AGGREGATES).to_arrow().to_pylist()))


def test_early_results_share_slices_with_another_query_that_is_run_with_them(tmp_path: Path) -> None:
    packets = stream()
    early = packets.window(range=10).aggregate(by="k", early=oop.early(4, refine="retract"), **AGGREGATES)
    other = packets.window(range=20, slide=10).aggregate(oop.sum("x"), by="k")
    paths = tmp_path / "early.arrow", tmp_path / "other.arrow"
    oop.run_outputs([early.to(paths[0]), other.to(paths[1])])
    for path, alone in zip(paths, (early, other), strict=True):
        found = pa.ipc.open_file(path).read_all().to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, alone.to_arrow().to_pylist()))


def test_on_times_it_fires_at_times() -> None:
    ts = pa.array([0, 3_000, 7_000, 12_000], pa.timestamp("ms"))
    stream = oop.arrow(pa.table({"ts": ts}))
    table = stream.window(range="10 s").aggregate(oop.count(), early="5 s").to_arrow()
    assert table.schema.field("fired").type == pa.timestamp("ms")
    assert [(r["count"], r["fired"].second) for r in table.to_pylist()] == [(2, 5), (3, 10), (1, 15), (1, 20)]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda s: oop.early(), "fires never"),
        (lambda s: oop.early(at=1.0), "between 0 and 1"),
        (lambda s: oop.early(0), "more than nothing"),
        (lambda s: oop.early(1, refine="undo"), "'accumulate', 'discard', 'retract'"),  # type: ignore[arg-type]
        (lambda s: s.window(oop.slide_by_tuple(3)).aggregate(oop.count(), early=2), r"running.partial\(\)"),
        (lambda s: s.window(oop.session(5)).aggregate(oop.count(), early=oop.early(at=0.5)), "how long .* lasts"),
        (
            lambda s: s.windows(a=oop.session(5), b=oop.tumbling(5)).aggregate(oop.count(), early=2, lateness=9),
            "Aggregate the sessions by themselves",
        ),
        (lambda s: s.window(oop.session(5)).aggregate(oop.count(), early=2, strategy="slicing"), "Leave strategy out"),
        (lambda s: s.window(oop.session(9000)).aggregate(oop.count(), early=2), "while nothing comes"),
        (lambda s: s.window(range=9).aggregate(oop.count(), early=2, empty=True, by="k"), "groups of a window without"),
        (lambda s: s.window(range=9).aggregate(oop.count(), early=2, empty=True, lateness=3), "late tuples change"),
        (lambda s: s.window(oop.session(5)).aggregate(oop.count(), early=2, empty=True), "this is .SESSION 5"),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=30), "is not between the begin and the end"),
        (lambda s: s.window(range=9999).aggregate(oop.count(), early=1), "more than 1,000 times"),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=2, strategy="wid"), "share slices"),
        (lambda s: s.window(range=20).aggregate(fired=oop.count(), early=2), '"fired" is the name'),
        (lambda s: s.window(range=20).aggregate(window=oop.count(), early=2), "Rename the result that is called so"),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=oop.early(5, at=[0.01])), "at 0.01 is not between"),
        (lambda s: s.window(range=20).aggregate(oop.count(), early=oop.early(5, at=500)), "at 500 is not between"),
        (lambda s: oop.early(at=b"ab"), "no amount"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused(made: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(stream())  # type: ignore[operator]


def test_in_text_what_cannot_be_is_shown_where_it_stands() -> None:
    text = "SELECT count(*) [RANGE 20, WA ts, EARLY 40] FROM S"
    with pytest.raises(LanguageError, match="every 40 is not between") as caught:
        oop.query(text, S=stream())
    assert caught.value.column == text.index("40") + 1


def test_windows_are_not_added_to_a_run_whose_windows_give_early_results() -> None:
    running = stream().window(range=10).aggregate(oop.count(), early=4).start()
    next(running)
    with pytest.raises(PlanError, match="early"):
        running.add("more", oop.tumbling(5))


@pytest.mark.parametrize("seed", range(4))
def test_final_results_are_those_without_early_ones_where_tuples_come_late_too(seed: int) -> None:
    shuffled = random.Random(seed).sample(ROWS, len(ROWS))
    arrow = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.int64())])

    def window() -> oop.Windowed:
        return oop.rows(shuffled, arrow, slack=6).window(range=20, slide=10)

    plain = window().aggregate(by="k", **AGGREGATES).run()
    early = window().aggregate(by="k", early=3, **AGGREGATES).run()
    final = [row for row in early.table.to_pylist() if row.pop("final") and row.pop("fired") == row["window_end"]]
    assert plain.statistics.late > 0 and early.statistics.late == plain.statistics.late
    assert sorted(map(str, final)) == sorted(map(str, plain.table.to_pylist()))


def test_shares_are_rounded_to_the_nearest_tick_and_numbers_of_other_types_are_numbers() -> None:
    for at in (2 / 3, Decimal("0.66"), np.float32(0.66), np.int64(6), 6, Fraction(2, 3)):
        table = stream().window(range=9).aggregate(oop.count(), early=oop.early(at=at)).to_arrow()  # type: ignore[arg-type]
        assert {row["fired"] - row["window_start"] for row in table.to_pylist()} == {6, 9}


def test_groups_are_told_apart_whatever_their_names() -> None:
    table = pa.table({"ts": [1, 2], "wid_from": ["a", "b"], "window": ["c", "c"], "x": [1, 2]})
    windows = oop.arrow(table).window(range=10)
    found = windows.aggregate(oop.sum("x"), by="wid_from", early=oop.early(5, refine="retract")).to_arrow().to_pylist()
    assert sorted((row["wid_from"], row["fired"], row["sign"]) for row in found) == [
        ("a", 5, -1), ("a", 5, 1), ("a", 10, 1), ("b", 5, -1), ("b", 5, 1), ("b", 10, 1)
    ]  # fmt: skip
    parted = (
        oop.arrow(table)
        .window(range=10, partition="wid_from")
        .aggregate(oop.sum("x"), early=oop.early(5, refine="retract"))
    )
    assert sorted(map(str, parted.to_arrow().to_pylist())) == sorted(map(str, found))
    text = "SELECT window, count(*) AS `window2` [RANGE 10, WA ts, EARLY 5] FROM S GROUP BY window"
    assert [row["window"] for row in oop.query(text, S=oop.arrow(table)).to_arrow().to_pylist()] == ["c", "c"]
    text = "SELECT count(*) AS window [RANGE 10, WA ts, EARLY 5] FROM S"
    assert [row["window"] for row in oop.query(text, S=oop.arrow(table)).to_arrow().to_pylist()] == [2, 2]


@pytest.mark.parametrize("kind", [pa.decimal256(50, 2), pa.decimal128(30, 2), pa.null(), pa.float64(), pa.string()])
def test_results_of_any_type_are_taken_back(kind: pa.DataType) -> None:
    values = pa.nulls(4) if pa.types.is_null(kind) else pa.array([1, 1, 3, 3]).cast(kind)
    windows = oop.arrow(pa.table({"ts": [0, 1, 6, 12], "v": values})).window(range=10)
    found = windows.aggregate(v=oop.last("v"), early=oop.early(5, refine="retract")).to_arrow().to_pylist()
    assert [(row["fired"], row["sign"]) for row in found if row["wid"] == 0] == [(5, 1), (5, -1), (10, 1)]


def test_who_discards_loses_tuples_that_come_behind_a_firing_and_says_so() -> None:
    arrow = pa.schema([("ts", pa.int64())])

    def counts(refine: str) -> tuple[int, list[tuple[int, int]]]:
        late = oop.rows([{"ts": t} for t in (1, 15, 2, 3, 30)], arrow, slack=5).window(range=20)
        found = late.aggregate(oop.count(), early=oop.early(7, refine=refine)).run()  # type: ignore[arg-type]
        rows = [row for row in found.table.to_pylist() if row["window_start"] == 0]
        return found.statistics.late, [(row["count"], row["fired"]) for row in rows]

    assert counts("accumulate") == (0, [(1, 7), (3, 14), (4, 20)])
    assert counts("discard") == (2, [(1, 7), (1, 20)])
