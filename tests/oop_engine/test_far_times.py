"""Times beyond what windows are computed on are told of, and amounts beyond it refused at their place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from operators.errors import SchemaError
from operators.window import LIMIT, SlidingWindow

FAR = pa.table({"ts": pa.array(["2044-01-01T00:00:00", "2026-01-01T00:00:00"]).cast(pa.timestamp("ns")), "a": [1, 2]})
NOTE = "note: 1 tuple without a usable value of the progressing attribute (null, or beyond 1896-12 to 2043-01"


def test_a_join_tells_of_tuples_that_are_in_no_window(tmp_path: Path) -> None:
    pq.write_table(FAR, tmp_path / "far.parquet")
    text = "SELECT x.a FROM M AS x [RANGE 5 s, WA ts], M AS y [RANGE 5 s, WA ts] WHERE x.a = y.a"
    done = CliRunner().invoke(commands, ["query", text, "-s", f"M={tmp_path / 'far.parquet'}"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == ["a", "2"]
    assert NOTE in done.stderr
    near = FAR.slice(1)
    pq.write_table(near, tmp_path / "near.parquet")
    done = CliRunner().invoke(commands, ["query", text, "-s", f"M={tmp_path / 'near.parquet'}"])
    assert "note:" not in done.stderr


def test_an_anti_join_does_not_call_alone_what_has_a_partner_out_of_range() -> None:
    table = pa.table({"ts": pa.array([2**62, 5, 9]), "a": [1, 2, 3]})
    one, other = oop.arrow(table), oop.arrow(table.slice(0, 2))
    assert one.join(other, {"a": "a"}, range=3, kind="anti").to_arrow()["a"].to_pylist() == [3]
    assert sorted(one.join(other, {"a": "a"}, range=3, kind="left").to_arrow()["a"].to_pylist()) == [2, 3]


TABLE = pa.table({"ts": pa.array([1, 2], pa.timestamp("ns")), "us": pa.array([1, 2], pa.timestamp("us")), "n": [1, 2]})
MOST = 'the most is 73 years on "ts", which counts nanoseconds.'
REFUSED = {
    "[RANGE 36500 days, WA ts]": ("36500 days", f"RANGE is 36500 days, and {MOST}", "RANGE ALL reaches back"),
    "[RANGE ALL, SLIDE 36500 days, WA ts]": (
        "36500 days",
        f"SLIDE is 36500 days, and {MOST}",
        "cast(ts, 'timestamp[s]')",
    ),
    "[SESSION 36500 days, WA ts]": ("36500 days", f"SESSION is 36500 days, and {MOST}", "Coarser times"),
    "[RANGE 1 s, WA ts, ORIGIN 36500 days]": ("36500 days", f"ORIGIN is 36500 days, and {MOST}", "Coarser times"),
    "[RANGE 1 s, WA ts, ORIGIN '2100-01-01']": ("'2100-01-01'", f"ORIGIN is 2100, and {MOST}", "Coarser times"),
    f"[RANGE {LIMIT + 1}, WA n]": (f"{LIMIT + 1}", f'the most on "n" is {LIMIT}.', "RANGE ALL"),
    f"[RANGE {LIMIT + 1} rows, WA rank(n)]": (f"{LIMIT + 1}", f"the most is {LIMIT:,} rows.", "RANGE ALL"),
    "[RANGE 5 s, RATTR ts, SLIDE 1 row, SATTR ts]": ("1 row", "SLIDE is 1 row", "duration"),
}


@pytest.mark.parametrize(("window", "refusal"), REFUSED.items())
def test_an_amount_that_is_too_much_is_shown_where_it_stands(window: str, refusal: tuple[str, str, str]) -> None:
    text = f"SELECT count(*) {window} FROM M"
    piece, message, hint = refusal
    with pytest.raises(oop.LanguageError) as caught:
        oop.query(text, M=oop.arrow(TABLE))
    assert message in caught.value.message and hint in caught.value.hint
    assert caught.value.column == text.index(piece) + 1


def test_the_way_out_of_too_long_a_window_works() -> None:
    text = "SELECT count(*) AS n [RANGE 36500 days, WA ts] FROM (SELECT cast(ts, 'timestamp[s]') AS ts FROM M)"
    assert oop.query(text, M=oop.arrow(TABLE)).to_arrow()["n"].to_pylist() == [2]
    assert oop.query("SELECT count(*) AS n [RANGE 36500 days, WA us] FROM M", M=oop.arrow(TABLE)).schema
    text = "SELECT count(*) AS n [RANGE 26000 days, WA ts] FROM M"
    assert oop.query(text, M=oop.arrow(TABLE)).to_arrow()["n"].to_pylist() == [2]


def test_a_window_made_in_python_says_the_same() -> None:
    with pytest.raises(SchemaError, match="73 years of nanoseconds, not 2305843009213693953") as caught:
        SlidingWindow("ts", size=LIMIT + 1, slide=1)
    assert 'range="ALL"' in str(caught.value)


@pytest.mark.parametrize(
    "window", [oop.tumbling(10), oop.session(5), oop.band(0, 9), oop.edges(lambda t: t // 10 * 10 + 10)]
)
def test_a_lateness_or_the_time_of_an_early_result_that_is_too_much_is_refused(window: oop.WindowOf) -> None:
    read = oop.rows([(1,), (30,), (2,)], pa.schema([("ts", pa.int64())]), slack=0)
    rows, much = oop.Trigger.rows(5), 2**63 - 1
    with pytest.raises(oop.PlanError, match=f"lateness is {much}, and is at most 2.*61 units"):
        read.window(window).aggregate(oop.count(), lateness=much)
    with pytest.raises(oop.PlanError, match=f"lateness is {LIMIT + 1}, and is at most 2.*61 units"):
        read.window(window).aggregate(oop.count(), lateness=LIMIT + 1, early=rows)
    found = read.window(window).aggregate(oop.count(), lateness=LIMIT).to_arrow()
    assert max(row["count"] for row in found.to_pylist() if row["window_start"] < 10) == 2
    for trigger in (oop.Trigger.every(much), oop.Trigger.every(much) | rows, oop.Trigger.at(much) | rows):
        with pytest.raises(oop.PlanError, match=f"early results? is {much}, and is at most 2.*61 units"):
            read.window(window).aggregate(oop.count(), early=trigger)


def test_windows_between_edges_take_any_number_behind_the_last_edge() -> None:
    read = oop.rows([(1,), (30,)], pa.schema([("ts", pa.int64())]))
    for early in (None, oop.Trigger.rows(5)):
        edges = read.window(oop.edges(lambda t: 10 if t < 10 else 2**70))
        found = edges.aggregate(oop.count(), early=early).to_arrow().to_pylist()
        assert [(row["window_start"], row["count"]) for row in found] == [(10, 1)]
        edges = read.window(oop.edges(lambda t: 2**70))
        assert edges.aggregate(oop.count(), early=early).to_arrow().num_rows == 0
    with pytest.raises(oop.PlanError, match=r"edges\(10\): write a function of a tick"):
        oop.edges(10)  # pyright: ignore[reportArgumentType]


def test_a_broken_promise_on_the_command_line_names_its_options(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("ts,a\n2026-01-01T00:00:05Z,1\n2026-01-01T00:00:06Z,3\n2026-01-01T00:00:01Z,2\n")
    given = ["-s", f"M={tmp_path / 'm.csv'}", "--every", "1s", "--late", "refuse"]
    done = CliRunner().invoke(commands, ["query", "SELECT count(*) [RANGE 1 s, WA ts] FROM M", *given])
    assert done.exit_code == 3
    assert "--late drop counts and drops such tuples, --late-to FILE hands them over" in done.stderr
    assert "late=" not in done.stderr
