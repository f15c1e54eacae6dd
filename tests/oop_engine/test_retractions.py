"""What takes results back is never summed as if it were new: it is refused where it would be, and passes elsewhere."""

from __future__ import annotations

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
WAY = r'\n  Write DISCARD \(refine="discard"\), .* WHERE final, in Python \.filter\("final"\)\.$'


def packets() -> oop.Stream:
    return oop.rows([(t, "ab"[t % 2], 1) for t in range(60)], SCHEMA, punctuate=oop.ordered("ts"))


def counts(refine: str) -> oop.Stream:
    early = oop.early(20, refine=refine)  # type: ignore[arg-type]
    return packets().window(60).aggregate(oop.count(), by="k", early=early)


def total(stream: oop.Stream) -> oop.Stream:
    return stream.window(range=60, wattr="window_end").aggregate(oop.sum("count"))


def summed(stream: oop.Stream) -> list[int]:
    return [row["sum_count"] for row in total(stream).to_arrow().to_pylist()]


COMBINED: dict[str, Callable[[oop.Stream], oop.Stream]] = {
    "window": total,
    "sessions": lambda s: s.window(oop.session(3, wattr="window_end")).aggregate(oop.sum("count")),
    "windows by tuples": lambda s: s.window(oop.counted(3, wattr="window_end")).aggregate(oop.sum("count")),
    "rows": lambda s: s.window(range="2 rows", wattr="row_num").aggregate(oop.sum("count")),
    "groups": lambda s: s.aggregate(oop.sum("count"), by="k"),
    "distinct": lambda s: s.distinct("k"),
    "join": lambda s: s.join(packets(), "k", range=3, wattr=("window_end", "ts")),
    "join on the other side": lambda s: packets().join(s, "k", range=3, wattr=("ts", "window_end")),
    "behind a filter": lambda s: total(s.filter("count > 3 and k = 'a'")),
    "behind the insertions": lambda s: total(s.filter("sign = 1")),
    "behind a projection": lambda s: s.project("count").aggregate(oop.sum("count")),
    "behind a meld": lambda s: oop.meld(counts("retract"), s).aggregate(oop.sum("count")),
    "behind a number": lambda s: s.number().aggregate(oop.sum("count")),
    "behind one or the other": lambda s: total(s.filter("final or count > 3")),
}


@pytest.mark.parametrize("name", COMBINED)
def test_results_that_are_taken_back_are_not_combined(name: str) -> None:
    with pytest.raises(oop.PlanError, match=r'takes early results back \(refine="retract", RETRACT\): [^$]*' + WAY):
        COMBINED[name](counts("retract"))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in ("stacks", "auto")])
def test_no_strategy_combines_what_is_taken_back(strategy: str) -> None:
    windowed = counts("retract").window(range=60, wattr="window_end")
    with pytest.raises(oop.PlanError, match="takes early results back"):
        windowed.aggregate(oop.sum("count"), by="k", strategy=strategy)


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


def test_windows_that_are_given_again_are_not_combined() -> None:
    tuples = [(1, "a", 1), (12, "a", 1), (3, "a", 1), (30, "a", 1), (40, "a", 1)]
    stream = oop.rows(tuples, SCHEMA, punctuate=oop.ordered("ts"))
    for window in (oop.tumbling(10), oop.session(3)):
        revised = stream.window(window).aggregate(oop.count(), lateness=20)
        with pytest.raises(oop.PlanError, match=r'lateness=\.\.\.\): [^$]*\.filter\("revision = 0"\); or leave'):
            total(revised)
    revised = stream.window(10).aggregate(oop.count(), lateness=20)
    assert revised.to_arrow().num_rows == 5 and summed(revised.filter("revision = 0")) == [4]


def test_insertions_and_deletions_are_combined_by_what_understands_them() -> None:
    window = tumbling("ts", 10)
    changes = packets().apply(Bucket(window)).apply(Expire())
    with pytest.raises(oop.PlanError, match=r"insertions and deletions: [^$]*\n  Put a SignedAggregate"):
        changes.aggregate(oop.sum("v"))
    understood = changes.apply(SignedAggregate(window, {"count": total_of("v")}))
    assert summed(understood) == [50, 10]


def test_retractions_are_refused_in_query_text_too() -> None:
    inner = "SELECT k, count(*) [RANGE 60, WA ts, EARLY 20 RETRACT] FROM M GROUP BY k"
    outer = f"SELECT sum(count) AS s [RANGE 60, WA window_end] FROM ({inner}) AS h"
    with pytest.raises(oop.PlanError, match=WAY):
        oop.query(outer, M=packets())
    with pytest.raises(oop.LanguageError, match=WAY):
        oop.query(f"SELECT DISTINCT{inner.removeprefix('SELECT')}", M=packets())
    assert [row["s"] for row in oop.query(f"{outer} WHERE final", M=packets()).to_arrow().to_pylist()] == [60]
