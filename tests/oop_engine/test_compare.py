"""Results are compared with true ones by window and group: wrong, missing, extra, and the mean error of each number."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.errors import PlanError

numbers = st.one_of(st.none(), st.integers(-3, 3), st.just(math.nan))
results = st.dictionaries(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None])), numbers, max_size=8)
SCHEMA = pa.schema([("wid", pa.int64()), ("k", pa.string()), ("v", pa.float64())])


def table(found: dict[tuple[int, str | None], float | None]) -> pa.Table:
    return pa.Table.from_pylist([{"wid": wid, "k": k, "v": v} for (wid, k), v in found.items()], SCHEMA)


def alike(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


def off(found: float | None, true: float | None) -> float:
    """Give the error of one result by definition."""
    if alike(found, true):
        return 0.0
    if found is None or true is None or not true or math.isnan(found) or math.isnan(true):
        return 1.0
    return abs(found - true) / abs(true)


@given(results, results, st.booleans())
def test_each_window_is_judged_by_itself(found, true, named):
    compared = oop.compare(table(found), table(true), on="k" if named else None)
    both = found.keys() & true.keys()
    assert compared.windows == len(true)
    assert compared.missing == len(true.keys() - found.keys())
    assert compared.extra == len(found.keys() - true.keys())
    assert compared.wrong == sum(not alike(found[key], true[key]) for key in both)
    if true:
        errors = [off(found[key], true[key]) if key in found else 1.0 for key in true]
        assert compared.errors["v"] == pytest.approx(100 * sum(errors) / len(errors))
    else:
        assert compared.errors == {}
    assert (compared.share_wrong == 0) == (both == found.keys() == true.keys() and not compared.wrong)


def test_streams_outcomes_and_tables_are_results() -> None:
    stream = oop.rows([(1, 80), (12, 80), (13, 443)], oop.Schema.of(ts="int64", port="int64"))
    counts = stream.window(range=10).aggregate(oop.count(), by="port")
    for other in (counts, counts.run(), counts.to_arrow()):
        assert str(oop.compare(counts, other, on="port")) == (
            "3 windows: 0 wrong, 0 missing, 0 extra (0 %); mean error of count 0 %"
        )


def test_slack_that_is_too_small_is_judged_by_its_answers() -> None:
    packets = oop.packets(5000, rate=1000, disorder=oop.Band("200 ms"), seed=3).to_arrow()
    exact = oop.arrow(packets).window(range="500 ms").aggregate(oop.count())
    errors = []
    for slack in ("0 ms", "50 ms", "250 ms"):
        hasty = oop.arrow(packets.to_reader(), slack=slack).window(range="500 ms").aggregate(oop.count())
        errors.append(oop.compare(hasty, exact).errors["count"])
    assert errors[0] > errors[1] > errors[2] == 0.0


ONE = table({(1, "a"): 2.0})


@pytest.mark.parametrize(
    ("found", "on", "told"),
    [
        (ONE.drop_columns("v"), None, "the results have wid, k, and the truth wid, k, v"),
        (table({(1, "a"): 1.0, (1, "b"): 2.0}), (), "the results have 2 rows for wid = 1.\n  Name the groups"),
        (ONE, "kk", 'the results have no "kk".\n'),
        (
            ONE.set_column(0, "wid", pa.array([1], pa.int32())),
            None,
            "wid is int32 in the results, and int64",
        ),
        ([1], None, "not list"),
    ],
)
def test_what_cannot_be_compared_is_refused(found: object, on: str | None, told: str) -> None:
    with pytest.raises(PlanError, match=told):
        oop.compare(found, ONE, on=on)  # pyright: ignore[reportArgumentType]


def test_early_results_are_not_taken_for_final_ones() -> None:
    stream = oop.rows([(1,), (6,)], oop.Schema.of(ts="int64")).window(range=10)
    early, final = stream.aggregate(oop.count(), early=oop.early(at=0.5)), stream.aggregate(oop.count())
    with pytest.raises(PlanError, match="the results have count, wid, fired, and the truth"):
        oop.compare(early.project("count", "wid", "fired"), final)
    with pytest.raises(PlanError, match='Keep the final ones: filter\\("final"\\)'):
        oop.compare(early, early, on=())
