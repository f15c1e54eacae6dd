"""Conditions of a join stand where they are cheapest, names mean what they say, and what is wrong is shown in place."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.cli import commands
from oop_engine.language import LanguageError
from oop_engine.language.translate import query
from oop_engine.plan.graph import Node, OperatorNode, Plan
from oop_engine.plan.window_join import WindowJoin
from oop_engine.rewrite.demand import pruned
from operators.join import Band, SameWindow, WidJoin
from operators.rows.filter import Filter
from operators.window import SlidingWindow
from tests.examples import share
from tests.naive_join import band
from tests.queries.joins import streams
from tests.queries.streams import SECOND
from tests.queries.test_golden import results

FROM = "FROM M1 [RANGE 9 s, WA ts], M2 [RANGE 5 s, WA ts]"
ALL = ["ts", "srcIP", "destIP", "srcPort", "destPort", "flags", "length"]


def joins(result: Stream) -> list[WindowJoin]:
    """Give the joins of a stream, upstream first."""
    nodes = (node for node in Plan((result.node,)).nodes if isinstance(node, OperatorNode))
    return [node.operator for node in nodes if isinstance(node.operator, WindowJoin)]


def the_join(text: str) -> WindowJoin:
    (join,) = joins(query(text, streams()))
    return join


def below(result: Stream, port: int) -> Node:
    """Give what a port of the only join reads."""
    (node,) = (
        n for n in Plan((result.node,)).nodes if isinstance(n, OperatorNode) and isinstance(n.operator, WindowJoin)
    )
    return node.inputs[port]


@pytest.mark.parametrize(
    ("inputs", "window"),
    {
        "M1 [RANGE 9 s, WA ts], M2 [RANGE 5 s, WA M2.ts]": Band("ts", "ts", left=9 * SECOND, right=5 * SECOND),
        "M1 [RANGE 9 s], M2 [RANGE 5 s]": Band("ts", "ts", left=9 * SECOND, right=5 * SECOND),
        "M1 [RANGE 9 s, CLOSED], M2 [CLOSED, RANGE 0 s]": Band("ts", "ts", left=9 * SECOND, right=0, closed=True),
        "M1 [RANGE 64, WA len], M2 [RANGE 8, WA length]": Band("length", "length", left=64, right=8),
        "M1 [RANGE 3 rows, WA row-num], M2 [RANGE 2 rows, WA row-num]": Band("row_num", "row_num", left=3, right=2),
        "M1, M2 [RANGE TUMBLING 5 s, WA ts]": SameWindow("ts", "ts", size=5 * SECOND),
        "M1, M2 [RANGE TUMBLING 5 s, ORIGIN 2 s]": SameWindow("ts", "ts", size=5 * SECOND, origin=2 * SECOND),
        "M1, M2 [RANGE TUMBLING 5 s, ORIGIN '1970-01-01T00:00:01Z']": SameWindow(
            "ts", "ts", size=5 * SECOND, origin=SECOND
        ),
        "M1 [RANGE TUMBLING 5 s], M2 [RANGE TUMBLING 5 s]": SameWindow("ts", "ts", size=5 * SECOND),
        "M1 [RANGE 9 s, SLIDE 3 s], M2 [RANGE 6 s, SLIDE 3 s]": WidJoin(
            SlidingWindow("ts", size=9 * SECOND, slide=3 * SECOND),
            SlidingWindow("ts", size=6 * SECOND, slide=3 * SECOND),
        ),
        "M1 UNION S0 AS x [RANGE 9 s], (SELECT ts AS t FROM M2) [RANGE 5 s, WA t]": Band(
            "ts", "t", left=9 * SECOND, right=5 * SECOND
        ),
    }.items(),
)
def test_the_windows_of_the_inputs_say_which_tuples_meet(inputs: str, window: object) -> None:
    assert the_join(f"SELECT 1 AS one FROM {inputs}").join.window == window


def test_an_equality_is_hashed_and_a_condition_on_one_input_filters_it() -> None:
    text = f"""SELECT M1.ts {FROM} WHERE M2.destIP = M1.srcIP AND M1.len > 100 AND M1.srcPort = M2.destPort
    AND (M2.flags = 2 OR M2.flags = 18) AND M1.len < M2.len AND M1.flags = 2"""
    result = query(text, streams())
    (join,) = joins(result)
    assert join.on == (("srcIP", "destIP"), ("srcPort", "destPort"))
    assert str(join.join.residual) == "len < M2_length"
    left, right = below(result, 0), below(result, 1)
    assert isinstance(left, OperatorNode) and isinstance(left.operator, Filter)
    assert str(left.operator.predicate) == "length > 100 and flags = 2"
    assert isinstance(right, OperatorNode) and isinstance(right.operator, Filter)
    assert str(right.operator.predicate) == "flags = 2 or flags = 18"


def test_an_equality_of_expressions_is_hashed_too() -> None:
    text = f"SELECT * {FROM} WHERE M1.srcPort + 1 = M2.destPort - M2.srcPort"
    result = query(text, streams())
    assert joins(result)[0].on == (("srcPort + 1", "destPort - srcPort"),)
    assert result.schema.names == [*ALL, *(f"M2_{name}" for name in ALL)]


def test_a_disjunction_over_both_inputs_is_asked_of_the_pairs() -> None:
    join = the_join(f"SELECT M1.ts {FROM} WHERE M1.srcIP = M2.srcIP OR M1.destIP = M2.destIP")
    assert join.on == ()
    assert str(join.join.residual) == "srcIP = M2_srcIP or destIP = M2_destIP"


def test_what_is_not_hashed_alike_is_compared() -> None:
    join = the_join(f"SELECT M1.ts {FROM} WHERE M1.length = M2.length / 2 AND M1.srcPort / 2 = M2.srcPort / 2")
    # NaN is hashed as itself, and is not equal to itself where it is compared; integers and floats are only compared.
    assert list(join.on) == [("srcPort / 2", "srcPort / 2")]
    assert str(join.join.residual) == "length = M2_length / 2 and srcPort / 2 = M2_srcPort / 2"


def test_only_what_is_selected_or_compared_is_read_and_put_out() -> None:
    result = query(f"SELECT M2.flags {FROM} WHERE M1.srcIP = M2.destIP AND M1.len < M2.len", streams())
    (join,) = joins(Stream(pruned(Plan((result.node,))).outputs[0]))
    assert join.join.attributes == ("M2_flags",)
    assert [sorted(names) for names in join.reads] == [["length", "srcIP", "ts"], ["destIP", "flags", "length", "ts"]]


@pytest.mark.parametrize(
    ("select", "columns"),
    {
        "M1.ts, M2.ts": ["ts", "M2_ts"],
        "M2.ts AS t, M1.len, m2.len": ["t", "len", "M2_length"],
        "M1.len + M2.len": ["len + M2_length"],
        "M2.row-num, M1.len": ["row_num", "len"],
        "M1.row-num, M2.row-num": ["row_num", "M2_row_num"],
    }.items(),
)
def test_columns_are_named_as_in_the_joined_stream(select: str, columns: list[str]) -> None:
    assert query(f"SELECT {select} {FROM}", streams()).schema.names == columns


def test_a_star_stands_for_the_inputs_attributes_in_order() -> None:
    text = "SELECT * FROM (SELECT ts, len FROM M1) AS a [RANGE 9 s], (SELECT len FROM M2) AS b [RANGE 9, WA len]"
    with pytest.raises(LanguageError, match="Windows need one unit"):
        query(text, streams())
    text = "SELECT * FROM (SELECT ts, len FROM M1) AS a [RANGE 9 s], (SELECT len, ts, flags FROM M2) AS b [RANGE 9 s]"
    assert query(text, streams()).schema.names == ["ts", "len", "b_len", "b_ts", "flags"]


def test_names_that_one_input_has_need_no_stream_before_them() -> None:
    text = """SELECT n, one.source, more FROM
    (SELECT srcIP AS source, count(*) AS n [RANGE TUMBLING 10 s, WA ts] FROM M1 GROUP BY srcIP) AS one,
    (SELECT srcIP AS source, count(*) AS more [RANGE TUMBLING 10 s, WA ts] FROM M2 GROUP BY srcIP) AS other
    [RANGE TUMBLING 10 s, WA window_start] WHERE one.source = other.source AND n < more"""
    result = query(text, streams())
    assert result.schema.names == ["n", "source", "more"]
    assert results(result).total() > 0


def test_a_constant_condition_is_asked_too() -> None:
    assert results(query(f"SELECT M1.ts {FROM} WHERE M1.srcIP = M2.destIP AND 1 = 2", streams())) == Counter()


def test_an_alias_may_be_what_several_inputs_have() -> None:
    text = f"""SELECT M2.srcIP AS length, max(M1.length) AS ts {FROM} WHERE M1.srcIP = M2.destIP
    GROUP BY M2.srcIP HAVING ts > 100"""
    assert query(text, streams()).schema.names == ["length", "ts"]


def test_a_join_may_stand_in_a_query_in_parentheses() -> None:
    flat = results(query(f"SELECT M1.ts, M2.len {FROM} WHERE M1.srcIP = M2.destIP", streams()))
    nested = f"(SELECT M1.ts, M2.len AS size {FROM} WHERE M1.srcIP = M2.destIP) AS met"
    assert results(query(f"SELECT met.ts, size FROM {nested}", streams())) == flat
    longest = max(size for _, size in flat if isinstance(size, int))
    assert results(query(f"SELECT max(size) FROM {nested}", streams())) == Counter({(longest,): 1})
    chained = f"SELECT size, A.ts FROM {nested} [RANGE 5 s, WA ts], A [RANGE 5 s] WHERE size = A.length"
    assert joins(query(chained, streams()))[1].on == (("size", "length"),)


TICKS = st.lists(st.integers(0, 9), max_size=4)


@share(4)
@given(st.tuples(TICKS, TICKS, TICKS), st.tuples(*[st.integers(1, 4)] * 3), st.booleans())
def test_three_inputs_meet_when_each_two_of_them_do(
    ticks: tuple[list[int], ...], ranges: tuple[int, ...], closed: bool
) -> None:
    schema = pa.schema([("ts", pa.int64())])
    given = {name: oop.rows([(t,) for t in some], schema, name=name) for name, some in zip("XYZ", ticks, strict=True)}
    written = ", ".join(
        f"{name} [RANGE {size}, WA ts{', CLOSED' if closed else ''}]" for name, size in zip("XYZ", ranges, strict=True)
    )

    def meet(times: tuple[int, ...]) -> bool:
        """Ask each two of them."""
        return all(
            band(ranges[i], ranges[j], closed=closed)(times[i], times[j])
            for i, j in itertools.combinations(range(3), 2)
        )

    found = results(query(f"SELECT X.ts, Y.ts, Z.ts FROM {written}", given), 2)
    assert found == Counter(times for times in itertools.product(*ticks) if meet(times))


def test_results_are_numbered_as_they_come_out_of_the_join() -> None:
    text = f"SELECT row-num AS n, M1.ts {FROM} WHERE M1.srcIP = M2.destIP AND row-num < 7"
    assert sorted(row[0] for row in results(query(text, streams())).elements()) == [0, 1, 2, 3, 4, 5, 6]  # type: ignore[type-var]


def test_distinct_and_groups_without_a_window() -> None:
    pairs = results(query(f"SELECT M1.srcIP, M2.srcIP {FROM} WHERE M1.srcIP = M2.destIP", streams()))
    text = f"SELECT DISTINCT M1.srcIP, M2.srcIP {FROM} WHERE M1.srcIP = M2.destIP"
    assert results(query(text, streams())) == Counter(dict.fromkeys(pairs, 1))
    text = f"SELECT M1.srcIP, M2.srcIP, count(*) {FROM} WHERE M1.srcIP = M2.destIP GROUP BY M1.srcIP, M2.srcIP"
    assert results(query(text, streams())) == Counter((*key, n) for key, n in pairs.items())


CAPTURE = str(Path(__file__).resolve().parents[2] / "demos/captures/web.pcap.gz")
HANDSHAKES = """SELECT count(*) AS handshakes [RANGE 5 s, WA syn.ts]
FROM One AS syn [RANGE 3 s, WA ts], Two AS answer [RANGE 3 s, WA ts]
WHERE syn.srcIP = answer.destIP AND syn.destIP = answer.srcIP AND syn.srcPort = answer.destPort
AND syn.destPort = answer.srcPort AND syn.flags = 2 AND answer.flags = 18 AND answer.ts >= syn.ts"""


def test_the_command_line_joins_two_captures() -> None:
    given = ["-s", f"One={CAPTURE}", "-s", f"Two={CAPTURE}"]
    done = CliRunner().invoke(commands, ["query", HANDSHAKES, *given, "-q"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "handshakes,wid,window_start,window_end"
    assert [line.partition(",")[0] for line in lines[1:]] == ["23", "35", "7"]
    told = CliRunner().invoke(commands, ["explain", HANDSHAKES, *given])
    assert told.exit_code == 0, told.output
    assert "join [RANGE 3 s, WA ts] with [RANGE 3 s, WA ts]" in told.stdout
    lost = CliRunner().invoke(commands, ["query", HANDSHAKES.replace("Two AS", "Too AS"), *given])
    assert lost.exit_code != 0


REFUSED = {
    "SELECT * FROM M1 [RANGE 3 s], M2 WHERE M1.len = M2.len": (
        "M2 WHERE",
        "M2 has no window",
        "Write M2 [RANGE 1 minute, WA ts]",
    ),
    "SELECT * FROM M1, M2 [RANGE 3 s] WHERE M1.len = M2.len": ("M1, M2", "M1 has no window", "[RANGE TUMBLING"),
    "SELECT * FROM M1 [RANGE ALL], M2 [RANGE 3 s]": ("ALL", "keep the tuples of a join's input for ever", "RANGE 1"),
    "SELECT * FROM M1 [SESSION 3 s], M2 [RANGE 3 s]": ("[SESSION", "it has no SESSION", "[RANGE 1 minute"),
    "SELECT * FROM M1 [RANGE 3 rows, PA srcIP], M2 [RANGE 3 s]": ("[RANGE 3 rows", "it has no PA", "RANGE"),
    "SELECT * FROM M1 [RANGE 3 s, WA rank(ts)], M2 [RANGE 3 s]": ("[RANGE 3 s, WA", "it has no WA rank(...)", "RANGE"),
    "SELECT * FROM M1 [RANGE 3 s, ORIGIN 1 s], M2 [RANGE 3 s]": (
        "[RANGE 3 s, ORIGIN",
        "no ORIGIN without TUMBLING",
        "RANGE",
    ),
    "SELECT * FROM M1, M2 [RANGE TUMBLING 3 s, CLOSED]": ("[RANGE", "no CLOSED with TUMBLING or SLIDE", "RANGE"),
    "SELECT * FROM M1 [RANGE 3 s, CLOSED], M2 [RANGE 3 s]": ("[RANGE 3 s]", "another's is not", "in all, or in none"),
    "SELECT * FROM M1 [RANGE TUMBLING 3 s], M2 [RANGE 3 s]": ("[RANGE 3 s]", "TUMBLING windows and another", "for all"),
    "SELECT * FROM M1 [RANGE TUMBLING 3 s], M2 [RANGE TUMBLING 4 s]": (
        "[RANGE TUMBLING 4 s]",
        "have one RANGE",
        "once, at the end",
    ),
    "SELECT * FROM M1 [RANGE 3 s, SLIDE 1 s], M2 [RANGE 3 s]": ("[RANGE 3 s]", "have one SLIDE", "Without it"),
    "SELECT * FROM M1 [RANGE 3 s, SLIDE 1 s], M2 [RANGE 3 s, SLIDE 1 s], A [RANGE 3 s, SLIDE 1 s]": (
        "[RANGE 3 s, SLIDE 1 s], M2",
        "join two inputs",
        "FROM (",
    ),
    "SELECT * FROM M1 [RANGE 3], M2 [RANGE 3 s]": ("3], M2", "3 of what?", "3 s"),
    "SELECT * FROM M1 [RANGE 3 s, WA srcIP], M2 [RANGE 3 s]": ("srcIP]", "needs an attribute with an order", "integer"),
    "SELECT * FROM M1 [RANGE 3 s, WA t], M2 [RANGE 3 s]": ("t], M2", 'no attribute "t"', '"ts"'),
    f"SELECT srcIP {FROM}": ("srcIP FROM", '"srcIP" could be M1.srcIP or M2.srcIP', "name of its stream"),
    f"SELECT M3.srcIP {FROM}": ("M3.srcIP", 'there is no stream "M3" here', 'Known are "M1", "M2"'),
    f"SELECT M1.sorceIP {FROM}": ("M1.sorceIP", 'no attribute "sorceIP"', '"srcIP"'),
    f"SELECT sorceIP {FROM}": ("sorceIP", 'no attribute "sorceIP"', '"srcIP"'),
    f"SELECT a.M1.ts {FROM}": ("a.M1.ts", "has 3 parts", ""),
    "SELECT M1.ts FROM M1 [RANGE 3 s], M1 [RANGE 3 s]": ("M1.ts", 'several inputs are called "M1"', "M1 AS a"),
    f"SELECT M3.* {FROM}": ("M3.*", 'there is no stream "M3" here', 'Known are "M1", "M2"'),
    f"SELECT M1.srcIP, count(*) {FROM} GROUP BY M2.srcIP": (
        "M1.srcIP",
        '"M1.srcIP" is neither grouped',
        "Add M1.srcIP to GROUP BY, or aggregate it, e.g. max(M1.srcIP)",
    ),
    f"SELECT M1.len * 2 AS b {FROM} WHERE b > M2.len": ("b > ", '"b" names a column of the result', "Write M1.len * 2"),
    "SELECT * FROM M1 [RANGE 36500 days], M2 [RANGE 3 s]": ("36500 days", 'the most is 73 years on "ts"', "cast(ts"),
    f"SELECT M1.ts {FROM} WHERE M1.len + M2.len": ("M1.len + M2", "WHERE takes a condition", "Compare"),
    f"SELECT M1.ts {FROM} WHERE M1.len AND M1.len > M2.len": ("M1.len AND", "WHERE takes a condition", "Compare"),
    f"SELECT M1.ts {FROM} WHERE M1.srcIP = M2.len": ("M1.srcIP = M2.len", "do not compare", ""),
    f"SELECT M1.ts {FROM} WHERE count(*) > M2.len": ("count(*)", "over many tuples", "HAVING"),
    f"SELECT arrival-ts {FROM}": ("arrival-ts", "no time of arrival", "open the source"),
    f"SELECT count(*) [RANGE 1 minute] {FROM}": ("[RANGE 1 minute]", "M1.ts or M2.ts", "Add WA M1.ts"),
    f"SELECT count(*) [RANGE 1000, WA M1.flags, PA srcIP] {FROM}": ("srcIP]", '"srcIP" could be', "name of its stream"),
    "SELECT * FROM (SELECT ts FROM M1) [RANGE 3 s], (SELECT ts FROM M2) [RANGE 3 s] WHERE ts = 1": (
        "ts = 1",
        '"ts" could be that of input 1 or that of input 2.',
        "Give each input a name",
    ),
}


def test_joined_names_that_clash_are_numbered() -> None:
    table = pa.table({"ts": [1, 2], "a": [1, 2]})
    window = "[RANGE 5, WA ts]"
    once = oop.query(f"SELECT * FROM A {window}, B {window} WHERE A.a = B.a", A=oop.arrow(table), B=oop.arrow(table))
    assert once.schema.names == ["ts", "a", "B_ts", "B_a"]
    again = {"R": oop.arrow(once.to_arrow()), "B": oop.arrow(table)}
    counted = oop.query(f"SELECT count(*) AS n FROM R {window}, B {window} WHERE R.a = B.a", again)
    assert counted.to_arrow().to_pylist() == [{"n": 2}]
    text = f"SELECT *, B.ts AS other FROM R {window}, B {window} WHERE R.a = B.a AND B_a > 1"
    found = oop.query(text, again).to_arrow().to_pylist()
    assert found == [{"ts": 2, "a": 2, "B_ts": 2, "B_a": 2, "B_2_ts": 2, "B_2_a": 2, "other": 2}]
    turned = oop.query(f"SELECT * FROM B {window}, R {window} WHERE R.a = B.a", again)
    assert turned.schema.names == ["ts", "a", "R_ts", "R_a", "B_ts", "B_a"]


def test_a_name_that_the_join_makes_may_be_one_of_the_same_input() -> None:
    given = {"A": oop.arrow(pa.table({"ts": [1], "a": [1]})), "B": oop.arrow(pa.table({"ts": [1], "B_ts": [7]}))}
    found = oop.query("SELECT * FROM A [RANGE 5, WA ts], B [RANGE 5, WA ts]", given).to_arrow().to_pylist()
    assert found == [{"ts": 1, "a": 1, "B_2_ts": 1, "B_ts": 7}]


@pytest.mark.parametrize(
    ("select", "columns"),
    {
        "M1.*": ["ts", "k"],
        "M2.*": ["M2_ts", "M2_k", "v"],
        "m2.*, M1.k": ["M2_ts", "M2_k", "v", "k"],
        "M2.v, M1.*": ["v", "ts", "k"],
    }.items(),
)
def test_the_attributes_of_one_input_are_asked_for_by_its_name(select: str, columns: list[str]) -> None:
    given = {
        "M1": oop.arrow(pa.table({"ts": [1], "k": [1]})),
        "M2": oop.arrow(pa.table({"ts": [1], "k": [1], "v": [2]})),
    }
    result = oop.query(f"SELECT {select} FROM M1 [RANGE 5, WA ts], M2 [RANGE 5, WA ts] WHERE M1.k = M2.k", given)
    assert result.schema.names == columns
    assert result.to_arrow().num_rows == 1


@pytest.mark.parametrize(("text", "refusal"), REFUSED.items())
def test_what_is_wrong_is_shown_where_it_stands(text: str, refusal: tuple[str, str, str]) -> None:
    piece, message, hint = refusal
    with pytest.raises(LanguageError) as caught:
        query(text, streams())
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert (caught.value.line, caught.value.column) == (1, text.index(piece) + 1)


def test_a_join_that_could_never_purge_names_the_input() -> None:
    given = streams()
    given["M2"] = given["M2"].project("srcIP", ts="length").project("srcIP", ts=lambda p: p["ts"] % 7)
    text = "SELECT M1.ts FROM M1 [RANGE 3, WA length], M2 [RANGE 3, WA ts] WHERE M1.srcIP = M2.srcIP"
    with pytest.raises(LanguageError, match="keep the tuples of its left input, M1, for ever") as caught:
        query(text, given)
    assert "follows no promise" in caught.value.hint
