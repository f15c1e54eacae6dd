"""A query text becomes the plan that Python would have made, or an error that points at what is wrong."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.errors import PlanError
from oop_engine.language import LanguageError
from oop_engine.language.translate import query
from oop_engine.plan.graph import OperatorNode, Plan, source_node
from oop_engine.rewrite.demand import windows_of
from oop_engine.sources.memory import Once, Rows
from operators.functions import count
from operators.streams.meld import Meld
from operators.window import LandmarkWindow, PartitionedWindow, SlidingWindow
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows, SlideByTuple
from operators.window.session import SessionWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from tests.queries.streams import MINUTE, PACKETS, SECOND, TABLES, plain, stream, streams

T = TypeVar("T")
WINDOW = ["wid", "window_start", "window_end"]
COUNTS = "SELECT count(*) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM Main"


def operators(result: Stream) -> list[str]:
    """Name the operators of a stream, upstream first."""
    return [type(node.operator).__name__ for node in Plan((result.node,)).nodes if isinstance(node, OperatorNode)]


def found(result: Stream, kind: type[T]) -> T:
    """Give the one operator of a kind."""
    nodes = (node for node in Plan((result.node,)).nodes if isinstance(node, OperatorNode))
    (operator,) = (node.operator for node in nodes if isinstance(node.operator, kind))
    return operator


def rows(result: Stream) -> list[tuple[object, ...]]:
    """Run a stream and give its rows."""
    return [plain(row) for page in result for row in page.plain_rows()]


def test_a_window_over_groups_needs_two_operators() -> None:
    text = "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] FROM Main GROUP BY srcIP"
    result = query(text, streams())
    assert operators(result) == ["Bucket", "WindowAggregate"]
    assert found(result, Bucket).window == SlidingWindow("ts", size=10 * MINUTE, slide=MINUTE)
    assert found(result, WindowAggregate).by == ("srcIP",)


def specified(result: Stream) -> object:
    """Give the window of the operator that has one, below the others."""
    operators = [node.operator for node in Plan((result.node,)).nodes if isinstance(node, OperatorNode)]
    return next(windows[0] for operator in operators if (windows := windows_of(operator)))


@pytest.mark.parametrize(
    ("brackets", "window"),
    {
        "RANGE TUMBLING 10 s, WA ts": SlidingWindow("ts", size=10 * SECOND, slide=10 * SECOND),
        "RANGE 10 s": SlidingWindow("ts", size=10 * SECOND, slide=10 * SECOND),
        "RANGE 5 s, RATTR ts, SLIDE 2 s, SATTR ts": SlidingWindow("ts", size=5 * SECOND, slide=2 * SECOND),
        "RANGE 64, SLIDE 8, WA len": SlidingWindow("length", size=64, slide=8),
        "RANGE 100 rows, SLIDE 10 rows": SlidingWindow("row_num", size=100, slide=10),
        "RANGE 3 rows, SLIDE 3 rows, WA row-num, PA (srcIP, destIP)": PartitionedWindow(
            SlidingWindow("row_num", size=3, slide=3), ("srcIP", "destIP")
        ),
        "RANGE 3 rows, PA srcIP": PartitionedWindow(SlidingWindow("row_num", size=3, slide=3), ("srcIP",)),
        "RANGE ALL, SLIDE 1 minute, WA Main.ts": LandmarkWindow("ts", slide=MINUTE),
        "RANGE 10 s, SLIDE 5 s, ORIGIN -3 s, NO PARTIAL": SlidingWindow(
            "ts", size=10 * SECOND, slide=5 * SECOND, origin=-3 * SECOND, partial=False
        ),
        "RANGE 10 s, ORIGIN '1970-01-01T00:00:01.5Z'": SlidingWindow(
            "ts", size=10 * SECOND, slide=10 * SECOND, origin=1_500_000_000
        ),
        "SESSION 500 ms": SessionWindow("ts", gap=SECOND // 2),
        "SESSION 2 s, WA ts": SessionWindow("ts", gap=2 * SECOND),
        "SESSION 2 s, WA ts, PA srcIP": SessionWindow("ts", gap=2 * SECOND),
        "RANGE 10 rows, SLIDE 100, WA len": LastTuples("length", size=10, slide=100),
        "RANGE 10 rows, SLIDE 100, WA length, ORIGIN -3, PA srcIP": LastTuples("length", size=10, slide=100, origin=-3),
        "RANGE 10 rows, RATTR length, SLIDE 100, SATTR length": LastTuples("length", size=10, slide=100),
        "RANGE 100 rows, SLIDE 10": SlidingWindow("row_num", size=100, slide=10),
        "RANGE 100 rows, SLIDE 10, WA row-num": SlidingWindow("row_num", size=100, slide=10),
        "RANGE 10 rows, WA rank(ts)": CountWindow("ts", size=10, slide=10),
        "RANGE 10 rows, SLIDE 3 rows, WA rank(ts), NO PARTIAL": CountWindow("ts", size=10, slide=3, partial=False),
        "RANGE 10 rows, SLIDE 5 s, WA ts": LastTuples("ts", size=10, slide=5 * SECOND),
        "RANGE 10 rows, SLIDE 5 s, ORIGIN 1 s": LastTuples("ts", size=10, slide=5 * SECOND, origin=SECOND),
        "RANGE 5 s, RATTR ts, SLIDE 1 row, SATTR row-num": SlideByTuple("ts", size=5 * SECOND),
        "RANGE 5 s, RATTR ts, SLIDE 4 rows, SATTR row-num": SlideByRows(
            "ts", size=5 * SECOND, rows=4, number="row_num"
        ),
        "RANGE 5 s, RATTR ts, SLIDE 4 rows, SATTR rank(ts)": SlideByRank("ts", size=5 * SECOND, rows=4),
    }.items(),
)
def test_brackets_specify_the_window(brackets: str, window: object) -> None:
    result = query(f"SELECT count(*) [{brackets}] FROM Main", streams())
    assert specified(result) == window


@pytest.mark.parametrize(
    ("select", "columns"),
    {
        "count(*)": ["count"],
        "count(*), sum(len), max(length), mean(Main.len)": ["count", "sum_len", "max_length", "mean_len"],
        "count(srcPort), count(DISTINCT srcIP, destIP)": ["count_srcPort", "count_distinct_srcIP_destIP"],
        "argmax(srcIP, len) AS loudest": ["loudest"],
        "sum(len) / count(*), max(len) - 1 AS below": ["sum(len) / count(*)", "below"],
        "sum(len * 8)": ["sum(len * 8)"],
        "1 AS one, count(*)": ["one", "count"],
    }.items(),
)
def test_columns_are_named_by_what_was_written(select: str, columns: list[str]) -> None:
    assert query(f"SELECT {select} FROM Main", streams()).schema.names == columns
    windowed = query(f"SELECT {select} [RANGE TUMBLING 1 minute] FROM Main", streams())
    assert windowed.schema.names == [*columns, *WINDOW]


def test_one_aggregate_written_twice_is_computed_once() -> None:
    select = "SELECT sum(len), sum(Main.length) / count(*) AS mean, count(*)"
    result = query(f"{select} FROM Main HAVING count(*) > sum(length) / 1500", streams())
    assert list(found(result, GroupAggregate).functions) == ["sum_len", "count"]
    assert result.schema.names == ["sum_len", "mean", "count"]
    assert len(rows(result)) == 1


@pytest.mark.parametrize("written", ["count(*) > 20", "count > 20", "n > 20", "20 < n + 0 AND srcIP IS NOT NULL"])
def test_having_knows_groups_aggregates_and_columns_of_the_result(written: str) -> None:
    counted = "count(*) AS n" if "n " in written else "count(*)"
    result = query(f"SELECT srcIP, {counted} FROM Main GROUP BY srcIP HAVING {written}", streams())
    sources = Counter(row["srcIP"] for row in TABLES["Main"])
    assert sorted(rows(result)) == sorted((source, n) for source, n in sources.items() if n > 20)


def test_groups_that_are_not_selected_are_left_out() -> None:
    result = query("SELECT count(*) [RANGE TUMBLING 1 hour] FROM Main GROUP BY srcIP, destIP", streams())
    assert result.schema.names == ["count", *WINDOW]
    assert found(result, WindowAggregate).by == ("srcIP", "destIP")


def test_the_partition_of_a_window_is_in_the_result_selected_or_not() -> None:
    def of(select: str, grouped: str = " GROUP BY destIP") -> Stream:
        return query(f"SELECT {select} [RANGE 2 rows, WA row-num, PA srcIP] FROM Main{grouped}", streams())

    unselected = of("destIP, count(*)")
    assert unselected.schema.names == ["destIP", "count", "srcIP", *WINDOW]
    named = [(row[0], row[2], row[3]) for row in rows(unselected)]
    assert len(set(named)) == len(named), "rows of one group and wid are told apart"
    assert of("count(*)", "").schema.names == ["count", "srcIP", *WINDOW]
    assert of("srcIP AS source, destIP, count(*)").schema.names == ["source", "destIP", "count", *WINDOW]
    python = streams()["Main"].window("2 rows", wattr="row_num", partition="srcIP").aggregate(count(), by="destIP")
    assert sorted(rows(of("srcIP, destIP, count(*)"))) == sorted(rows(python))


def test_the_last_tuples_every_so_many_ticks_are_read_as_they_are_written() -> None:
    given = oop.arrow(pa.table({"ts": pa.array([1, 2, 12, 25], pa.int64())}))
    latest = given.window(oop.latest(3, every=10)).aggregate(count())
    text = "SELECT count(*) [RANGE 3 rows, SLIDE 10, WA ts] FROM M"
    assert text[16:-7] in latest.explain()
    assert rows(query(text, M=given)) == rows(latest) == [(2, 0, 1, 10), (3, 1, 1, 20), (3, 2, 2, 30)]
    later = given.window(oop.latest(3, every=10, origin=-3)).aggregate(count())
    assert "[RANGE 3 rows, SLIDE 10, WA ts, ORIGIN -3]" in later.explain()
    with pytest.raises(PlanError, match=r"counts no rows(.|\n)*WA rank\(ts\)(.|\n)*oop.counted(.|\n)*row_num"):
        given.window("3 rows")


def test_a_session_is_partitioned_as_it_is_in_python() -> None:
    python = streams()["Main"].window(oop.session("2 s"), partition="srcIP").aggregate(count())
    text = "SELECT srcIP, count(*) [SESSION 2 s, WA ts, PA srcIP] FROM Main"
    assert sorted(rows(query(text, streams()))) == sorted(rows(python))


def test_windows_that_begin_with_the_stream_leave_none_out() -> None:
    with pytest.raises(PlanError, match='RANGE "ALL" begin with the stream'):
        streams()["Main"].window("ALL", slide="1 minute", partial=False)


def test_the_attributes_of_the_window_stand_where_they_are_selected() -> None:
    result = query("SELECT window_end, count(*) [RANGE TUMBLING 1 minute] FROM Main", streams())
    assert result.schema.names == ["window_end", "count", "wid", "window_start"]
    assert frozenset({"window_end"}) in result.schema.progress


def test_groups_may_have_names_that_mean_something_else_in_the_result() -> None:
    text = f"SELECT wid AS minute, sum(count) [RANGE TUMBLING 1 hour, WA window_end] FROM ({COUNTS}) GROUP BY wid"
    result = rows(query(text, streams()))
    minutes = rows(query(COUNTS, streams()))
    assert sorted((minute, count) for minute, count, *_ in result) == sorted((wid, count) for count, wid, *_ in minutes)


@pytest.mark.parametrize(
    "grouping",
    ["len - len % 500 AS k", "Main.length - length % 500", "k"],
)
def test_an_expression_is_a_group_under_either_name(grouping: str) -> None:
    result = query(f"SELECT len - len % 500 AS k, count(*) FROM Main GROUP BY {grouping}", streams())
    lengths = [row["length"] for row in TABLES["Main"]]
    counts = Counter(length // 500 * 500 for length in lengths if isinstance(length, int))
    assert sorted(rows(result)) == sorted(counts.items())


def test_unions_inside_unions_are_one_meld() -> None:
    result = query("SELECT count(*) [RANGE TUMBLING 1 minute] FROM (Control UNION Main1) UNION Main2", streams())
    assert found(result, Meld).inputs == 3


def test_a_filter_does_not_change_the_numbers_of_arrival() -> None:
    given = streams()
    given["Main"] = given["Main"].filter("length > 700")
    numbers = [n for (n,) in rows(query("SELECT row-num FROM Main", given))]
    lengths = [row["length"] for row in TABLES["Main"]]
    assert numbers == [n for n, length in enumerate(lengths) if isinstance(length, int) and length > 700]


def test_arrivals_that_a_sub_query_numbered_keep_their_numbers() -> None:
    text = "SELECT row_num, length FROM (SELECT length FROM Main WHERE row_num > 1) AS rest WHERE row_num < 4"
    (page,) = query(text, streams())
    assert page["row_num"].tolist() == [2, 3]


def test_everything_is_what_was_there_before_the_numbers() -> None:
    result = query("SELECT * FROM Main WHERE row_num < 3", streams())
    assert result.schema.names == PACKETS.names
    assert rows(result) == [tuple(row.values()) for row in TABLES["Main"][:3]]


def test_a_query_that_changes_nothing_is_the_stream_itself() -> None:
    given = streams()
    assert query("SELECT * FROM Main", given).node is given["Main"].node


def test_streams_are_found_exactly_before_they_are_found_in_any_case() -> None:
    given = {"main": stream("small", TABLES["Control"]), "MAIN": stream("large", TABLES["Main"])}
    assert rows(query("SELECT count(*) FROM main", given)) == [(len(TABLES["Control"]),)]
    assert rows(query("SELECT count(*) FROM MAIN", given)) == [(len(TABLES["Main"]),)]
    assert rows(query("SELECT count(*) FROM Small", small=given["main"])) == [(len(TABLES["Control"]),)]
    with pytest.raises(LanguageError, match='"Main" could be main or MAIN'):
        query("SELECT count(*) FROM Main", given)


def test_no_stream_is_taken_twice_or_in_place_of_a_path() -> None:
    given = streams()
    with pytest.raises(PlanError, match='"Main" is given twice'):
        query(COUNTS, given, Main=given["Main"])
    with pytest.raises(
        PlanError, match=r"str 'main\.pcap', not a stream\.\n  Write {\"Main\": oop.read\(\"main.pcap\"\)}"
    ):
        query(COUNTS, Main="main.pcap")  # type: ignore[arg-type]


def test_a_window_that_nothing_could_release_is_the_plans_fault() -> None:
    with pytest.raises(PlanError, match='nothing promises "left"'):
        query("SELECT count(*) [RANGE 10, WA left] FROM (SELECT length % 7 AS left FROM Main)", streams())
    unpromised = Stream(source_node(Once("pipe", PACKETS, lambda: iter(()))))
    with pytest.raises(PlanError, match="Give pipe a punctuator"):
        query(COUNTS, Main=unpromised)


GROUPED = "SELECT {} [RANGE TUMBLING 1 minute, WA ts] FROM Main GROUP BY srcIP"

REFUSED = {
    "SELECT count(*) FROM Mian": ("Mian", 'there is no stream "Mian".', 'Did you mean "Main"?'),
    "SELECT lenght FROM Main": ("lenght", 'there is no attribute "lenght"', 'Did you mean "length"?'),
    "SELECT max(lenght) FROM Main": ("lenght", 'there is no attribute "lenght"', 'Did you mean "length"?'),
    "SELECT m.len, x.len FROM Main AS m": ("x.len", 'there is no stream "x" here.', '"m"'),
    "SELECT count(*) FROM Main WHERE len": ("len", "WHERE takes a condition", "Compare it with something"),
    "SELECT len FROM Main WHERE NULL": ("NULL", "WHERE takes a condition", "Compare it with something"),
    "SELECT count(*) FROM Main HAVING count(*)": ("count(*)", "HAVING takes a condition", "Compare it with something"),
    "SELECT DISTINCT NULL FROM Main": ("SELECT DISTINCT NULL", 'cannot group by "NULL" of type null', ""),
    "SELECT len FROM Main WHERE sum(len) > 1": ("sum(len)", "sum is computed over many tuples", "or in HAVING"),
    "SELECT len FROM Main HAVING len > 1": ("len > 1", "HAVING is about groups", "after WHERE"),
    "SELECT cuont(*) FROM Main": ("cuont(*)", 'there is no aggregate function "cuont".', 'Did you mean "count"?'),
    "SELECT flor(len) FROM Main": ("flor(len)", 'there is no function "flor".', 'Did you mean "floor"?'),
    "SELECT max(count(*)) FROM Main": ("count(*)", "an aggregate of aggregates", ""),
    "SELECT sum(srcIP) FROM Main": ("sum(srcIP)", '"srcIP" has type ip', "Count its values instead."),
    "SELECT sum(DISTINCT len) FROM Main": ("sum(DISTINCT len)", "only count, min and max take distinct", ""),
    "SELECT count(*), count(*) FROM Main": ("count(*) FROM", 'two columns of the result are named "count".', "with AS"),
    "SELECT len, len FROM Main": ("len FROM", 'two columns of the result are named "len".', "with AS"),
    "SELECT count(*) AS wid [RANGE 5 s] FROM Main": ("count(*) AS wid", "is the name of the window", "with AS"),
    "SELECT count(*) FROM Main GROUP BY 1": ("1", "makes no groups", "by what AS names"),
    "SELECT 1 FROM Main GROUP BY count(*)": ("count(*)", "a group is found before anything is aggregated", ""),
    GROUPED.format("destIP"): ("destIP", '"destIP" is neither grouped nor aggregated', "Add destIP to GROUP BY"),
    GROUPED.format("max(len) + len"): ("len [", '"len" is neither grouped nor aggregated', "max(len)"),
    GROUPED.format("*"): ("*", "* stands for the attributes of single tuples", ""),
    "SELECT 1 AS one [RANGE 5 s] FROM Main": ("[RANGE 5 s]", "nothing to compute", "e.g. count(*)"),
    "SELECT count(*) [RANGE 5 rows, WA ts] FROM Main": ("5 rows", "RANGE is 5 rows", "row_num"),
    "SELECT count(*) [RANGE 5 rows, WA len] FROM Main": ("5 rows", "that counts no rows", "oop.counted(5"),
    "SELECT count(*) [RANGE 5, SLIDE 2 rows, WA len] FROM Main": ("2 rows", "SLIDE is 2 rows", "WA rank(length)"),
    "SELECT count(*) [RANGE 5 rows, RATTR len, SLIDE 1, SATTR row-num] FROM Main": ("5 rows", "counts no rows", "rank"),
    "SELECT count(*) [RANGE 5 rows, SLIDE 10, WA ts] FROM Main": ("10", "SLIDE is 10", "10 s"),
    "SELECT count(*) [RANGE 5 rows, SLIDE 5 s, NO PARTIAL] FROM Main": (
        "[RANGE 5 rows, SLIDE 5 s, NO PARTIAL]",
        "windows that tuples define cannot",
        "Leave NO PARTIAL out",
    ),
    "SELECT count(*) [RANGE 5 s, RATTR ts, SLIDE 1 row, SATTR rank(ts), NO PARTIAL] FROM Main": (
        "[RANGE 5 s, RATTR",
        "windows that tuples define cannot",
        "Leave NO PARTIAL out",
    ),
    "SELECT count(*) [SESSION 5 s, NO PARTIAL] FROM Main": ("[SESSION", "a SESSION cannot", "Leave NO PARTIAL out"),
    "SELECT count(*) [RANGE ALL, SLIDE 5 s, NO PARTIAL] FROM Main": ("[RANGE", "RANGE ALL cannot", "Leave NO PARTIAL"),
    "SELECT count(*) AS srcIP [RANGE 2 rows, PA srcIP] FROM Main": ("srcIP]", "windows of the result", "AS"),
    "SELECT zzqq(len) FROM Main": ("zzqq(len)", 'there is no function "zzqq".', "oop.user_aggregate"),
    "SELECT count(*) [RANGE 5, SLIDE 2 s, WA len] FROM Main": ("2 s", 'SLIDE is 2 s, but "length" is a number', ""),
    "SELECT count(*) [RANGE 5, WA srcIP] FROM Main": ("srcIP", "needs an attribute with an order in steps", ""),
    "SELECT count(*) [RANGE 5 s, WA tss] FROM Main": ("tss", 'there is no attribute "tss"', 'Did you mean "ts"?'),
    "SELECT count(*) [RANGE ALL, WA ts] FROM Main": ("[RANGE ALL, WA ts]", "RANGE ALL needs a SLIDE", ""),
    "SELECT count(*) [RANGE 5 s, ORIGIN 'noon'] FROM Main": ("'noon'", '"noon" is not a time.', "ISO 8601"),
    "SELECT max(count) [RANGE 5 s] FROM (SELECT count(*) FROM Main)": (
        "[RANGE 5 s]",
        "does not say on which attribute",
        "Add WA",
    ),
    "SELECT count(*) [RANGE 5 s, RATTR ts, SLIDE 1 row, SATTR length] FROM Main": (
        "length",
        "slide by row-num or by rank(ts), not by length",
        "Or write WA ts",
    ),
    "SELECT count(*) [RANGE 5 s, RATTR ts, SLIDE 2 rows, SATTR rank(length)] FROM Main": (
        "rank(length)",
        "ranked by the attribute that the RANGE is on, which is ts",
        "Write SATTR rank(ts)",
    ),
    "SELECT count(*) [RANGE 5 s, RATTR ts, SLIDE 2 s, SATTR rank(ts)] FROM Main": (
        "2 s",
        "SLIDE counts tuples here",
        "100 rows",
    ),
    "SELECT count(*) [RANGE 5 rows, WA max(ts)] FROM Main": (
        "max(ts)",
        "not over max(...)",
        "rank(ts)",
    ),
    "SELECT count(*) [SESSION 5 rows, WA ts] FROM Main": ("5 rows", "SESSION is 5 rows", "Give a duration"),
    "SELECT count(*) [RANGE 5 rows, WA rank(ts), ORIGIN 3 s] FROM Main": ("3 s", "have no ORIGIN", ""),
    "SELECT count(*) FROM Main1 UNION (Main2 [RANGE 5 s, WA ts])": (
        "[RANGE 5 s, WA ts]",
        "this window is of one member of a union",
        "after the SELECT list",
    ),
    "SELECT count(*) FROM Main1 UNION (SELECT ts FROM Main2)": ("Main1 UNION", "other attributes", "Project them"),
}


@pytest.mark.parametrize(("text", "refusal"), REFUSED.items())
def test_what_is_wrong_is_shown_where_it_stands(text: str, refusal: tuple[str, str, str]) -> None:
    piece, message, hint = refusal
    with pytest.raises(LanguageError) as caught:
        query(text, streams())
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert (caught.value.line, caught.value.column) == (1, text.rindex(piece) + 1)


def test_without_streams_the_error_says_how_to_give_one() -> None:
    with pytest.raises(LanguageError, match=r'query\(\.\.\., Main=oop\.pcap\("Main\.pcap"\)\)'):
        query(COUNTS)


def test_numbers_that_windows_begin_with_are_those_of_the_attributes_unit() -> None:
    seconds = pa.schema([pa.field("ts", pa.timestamp("s")), pa.field("n", pa.int64())])
    times = pa.array([0, 61], pa.int64()).cast(seconds.field("ts").type)
    batch = pa.RecordBatch.from_arrays([times, pa.array([1, 2])], schema=seconds)
    given = {"S": Stream(source_node(Rows("S", (batch,))))}
    minutes = rows(query("SELECT sum(n) [RANGE 1 minute, SLIDE 1 minute, WA ts] FROM S", given))
    assert minutes == [(1, 0, 0, 60), (2, 1, 60, 120)]
    with pytest.raises(LanguageError, match="is finer than"):
        query("SELECT sum(n) [RANGE 500 ms, SLIDE 500 ms, WA ts] FROM S", given)
    with pytest.raises(LanguageError, match="this ORIGIN is finer than"):
        query("SELECT sum(n) [RANGE 5 s, WA ts, ORIGIN '1970-01-01T00:00:00.5Z'] FROM S", given)
