"""What takes results back is never summed as if it were new: who reads it gets what stands, or an error."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.plan.strategies import STRATEGIES
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.functions import sum as total_of
from operators.window import tumbling
from operators.window_aggregate.bucket import Bucket

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
WAY = r'\n  (?:Or: )?Write DISCARD \(refine="discard"\), .* WHERE final, in Python \.filter\("final"\)\.$'


def packets() -> oop.Stream:
    return oop.rows([(t, "ab"[t % 2], 1) for t in range(60)], SCHEMA, punctuate=oop.ordered("ts"))


def counts(refine: str) -> oop.Stream:
    early = oop.early(20, refine=refine)  # type: ignore[arg-type]
    return packets().window(60).aggregate(oop.count(), by="k", early=early)


def total(stream: oop.Stream) -> oop.Stream:
    return stream.window(range=60, wattr="window_end").aggregate(oop.sum("count"))


def summed(stream: oop.Stream) -> list[int]:
    return [row["sum_count"] for row in total(stream).to_arrow().to_pylist()]


def rows_of(stream: oop.Stream) -> list[str]:
    """Give the tuples in no order, without what tells how they were given."""
    told = ("sign", "row_num")
    return sorted(str({k: v for k, v in row.items() if k not in told}) for row in stream.to_arrow().to_pylist())


COMBINED: dict[str, Callable[[oop.Stream], oop.Stream]] = {
    "window": total,
    "sessions": lambda s: s.window(oop.session(3, wattr="window_end")).aggregate(oop.sum("count")),
    "windows by tuples": lambda s: s.window(oop.counted(3, wattr="window_end")).aggregate(oop.sum("count")),
    "rows": lambda s: s.window(range="2 rows", wattr="row_num").aggregate(oop.sum("count")),
    "early results again": lambda s: s.window(range=60, wattr="window_end").aggregate(oop.sum("count"), early=20),
    "groups": lambda s: s.aggregate(oop.sum("count"), by="k"),
    "distinct": lambda s: s.distinct("k", "count"),
    "top": lambda s: s.top(1, "count"),
    "join": lambda s: s.join(packets(), "k", range=3, wattr=("window_end", "ts")).aggregate(oop.count(), by="k"),
    "join on the other side": lambda s: (
        packets().join(s, "k", range=3, wattr=("ts", "window_end")).aggregate(n=oop.count(), by="count")
    ),
    "outer join": lambda s: s.join(packets(), "k", range=30, wattr=("window_end", "ts"), kind="left"),
    "behind a filter": lambda s: total(s.filter("count > 3 and k = 'a'")),
    "behind what is computed": lambda s: s.derive(more="count * 2").aggregate(oop.sum("more")),
    "behind a lookup": lambda s: s.lookup({"k": ["a"], "name": ["x"]}, on="k").aggregate(oop.sum("count"), by="name"),
    "behind a meld": lambda s: oop.meld(s, s.filter("count > 3")).aggregate(oop.sum("count")),
    "behind a number": lambda s: s.number().aggregate(oop.sum("count")),
    "behind one or the other": lambda s: total(s.filter("final or count > 3")),
}


@pytest.mark.parametrize("refine", ["retract", "accumulate"])
@pytest.mark.parametrize("name", COMBINED)
def test_what_reads_results_that_change_counts_those_that_stand(name: str, refine: str) -> None:
    found = rows_of(COMBINED[name](counts(refine)))
    assert found == rows_of(COMBINED[name](counts("accumulate").filter("final"))) and found


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in ("stacks", "auto")])
def test_every_strategy_combines_what_stands(strategy: str) -> None:
    windowed = counts("retract").window(range=60, wattr="window_end")
    found = windowed.aggregate(oop.sum("count"), by="k", strategy=strategy).to_arrow().to_pylist()
    assert sorted((row["k"], row["sum_count"]) for row in found) == [("a", 30), ("b", 30)]


LOST: dict[str, tuple[Callable[[oop.Stream], oop.Stream], str]] = {
    "behind the insertions": (lambda s: total(s.filter("sign = 1")), "What is computed with sign"),
    "behind a sum of changes": (lambda s: s.derive(n="count * sign").aggregate(oop.sum("n")), "What is computed with"),
    "behind another sign": (lambda s: s.project("count", sign="-sign").aggregate(oop.sum("count")), "Keep sign as it"),
    "behind a projection": (lambda s: s.project("count").aggregate(oop.sum("count")), "Keep sign as it is up to here"),
}


@pytest.mark.parametrize("name", LOST)
def test_where_nothing_tells_what_was_taken_back_an_error_says_so(name: str) -> None:
    combine, told = LOST[name]
    with pytest.raises(oop.PlanError, match=r'takes early results back \(refine="retract", RETRACT\): [^$]*') as error:
        combine(counts("retract"))
    assert told in str(error.value) and re.search(WAY, str(error.value))


def test_firings_are_computed_apart_where_they_make_groups() -> None:
    found = counts("accumulate").aggregate(oop.sum("count"), by="fired").to_arrow().to_pylist()
    assert sorted((row["fired"], row["sum_count"]) for row in found) == [(20, 20), (40, 40), (60, 60)]


def test_pairs_of_two_streams_that_change_are_taken_back_by_the_product_of_signs() -> None:
    pairs = counts("retract").join(counts("retract"), "k", range=30, wattr=("window_end", "window_end"))
    assert pairs.schema.names.count("sign") == 1 and "right_sign" not in pairs.schema
    net: dict[tuple[str, int, int], int] = {}
    for row in pairs.to_arrow().to_pylist():
        key = row["k"], row["count"], row["right_count"]
        net[key] = net.get(key, 0) + row["sign"]
    assert {key: count for key, count in net.items() if count} == {("a", 30, 30): 1, ("b", 30, 30): 1}
    assert len(net) == 18


def test_a_lookup_that_takes_back_what_it_gave_may_be_followed() -> None:
    names = oop.rows(
        [(0, "a", "old"), (25, "a", "new"), (40, "b", "late")],
        pa.schema([("ts", pa.int64()), ("k", pa.string()), ("name", pa.string())]), punctuate=oop.ordered("ts"),
    )  # fmt: skip
    found, waited = (
        packets().lookup(names, on="k", wait=wait).window(60).aggregate(oop.count(), by="name").to_arrow().to_pylist()
        for wait in (False, True)
    )
    assert sorted(map(str, found)) == sorted(map(str, waited)) and sum(row["count"] for row in found) == 60


def test_explain_tells_that_results_settle_before_they_are_read() -> None:
    text = " ".join(total(counts("retract")).explain().replace("│", " ").split())
    assert "settle: leave out what was taken back" in text
    assert "results leave when a promise says that nothing changes them any more" in text
    assert "keep what is final" in total(counts("accumulate")).explain()


def test_what_passes_each_result_on_may_follow() -> None:
    stream = counts("retract").filter("count > 3").derive(twice="count * 2").project("k", "twice", "sign", "final")
    rows = oop.meld(stream, stream).to_arrow().to_pylist()
    assert len(rows) == 2 * 10 and sum(row["twice"] * row["sign"] for row in rows) == 2 * 120


def test_final_results_are_combined_however_they_are_kept() -> None:
    stream = counts("retract")
    kept = [
        stream.filter("final"),
        stream.filter("count > 3 and final = true"),
        stream.filter(lambda page: page["final"] & (page["count"] > 3)),
        stream.derive(over="final").filter("over"),
    ]
    assert [summed(one) for one in kept] == [[60]] * 4
    assert summed(counts("discard")) == [60]


def test_windows_that_are_given_again_count_once() -> None:
    tuples = [(1, "a", 1), (12, "a", 1), (3, "a", 1), (30, "a", 1), (40, "a", 1)]
    stream = oop.rows(tuples, SCHEMA, punctuate=oop.ordered("ts"))
    for window in (oop.tumbling(10), oop.session(3)):
        revised = stream.window(window).aggregate(oop.count(), lateness=20)
        assert sum(summed(revised)) == 5 and sum(summed(revised.project("count", "revision", *TOLD))) == 5
        assert sum(summed(revised.filter("window_start < 10"))) == 2
        for lost in (revised.filter("count > 0"), revised.project("count", "window_end")):
            with pytest.raises(oop.PlanError, match=r'lateness=\.\.\.\): [^$]*refine="retract"[^$]*revision = 0'):
                total(lost)
        apart = revised.aggregate(oop.sum("count"), by="revision").to_arrow().to_pylist()
        assert {row["revision"] for row in apart} == {0, 1}
    revised = stream.window(10).aggregate(oop.count(), lateness=20)
    assert revised.to_arrow().num_rows == 5 and summed(revised.filter("revision = 0")) == [4]


TOLD = ("wid", "window_start", "window_end")


def test_insertions_and_deletions_are_combined_by_what_understands_them() -> None:
    window = tumbling("ts", 10)
    changes = packets().apply(Bucket(window)).apply(Expire())
    with pytest.raises(oop.PlanError, match=r"insertions and deletions: [^$]*\n  Put a SignedAggregate"):
        changes.aggregate(oop.sum("v"))
    understood = changes.apply(SignedAggregate(window, {"count": total_of("v")}))
    assert summed(understood) == [50, 10]


def test_query_text_counts_what_stands() -> None:
    inner = "SELECT k, count(*) [RANGE 60, WA ts, EARLY 20 RETRACT] FROM M GROUP BY k"
    outer = f"SELECT sum(count) AS s [RANGE 60, WA window_end] FROM ({inner}) AS h"
    for query in (outer, f"{outer} WHERE final", outer.replace(" RETRACT", "")):
        assert [row["s"] for row in oop.query(query, M=packets()).to_arrow().to_pylist()] == [60]
    distinct = oop.query(f"SELECT DISTINCT{inner.removeprefix('SELECT')}", M=packets()).to_arrow().to_pylist()
    assert sorted((row["k"], row["count"]) for row in distinct) == [("a", 30), ("b", 30)]
