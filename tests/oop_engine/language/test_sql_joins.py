"""JOIN ... ON says what the joins of Python say: kinds, keys, conditions, and how far apart two times are."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.language import LanguageError, parse, unparse

SCHEMA = oop.Schema.of(ts="timestamp[s]", v="int64", k="string")
LEFT = [(1, 5, "a"), (70, 6, "b"), (75, 16, "b"), (130, 7, None), (72, 8, "c")]
RIGHT = [(2, 1, "a"), (71, 2, "b"), (99, 3, "c"), (130, 7, None), (73, 9, "b"), (0, 4, "a")]
NEAR = "a.ts BETWEEN b.ts - INTERVAL '2' SECOND AND b.ts + INTERVAL '2' SECOND"
KINDS = {"JOIN": "inner", "INNER JOIN": "inner", "LEFT JOIN": "left", "right outer join": "right", "FULL JOIN": "full"}
HALVES = {"SEMI JOIN": "semi", "LEFT ANTI JOIN": "anti", "ANTI JOIN": "anti"}

Streams = tuple[oop.Stream, oop.Stream]


@pytest.fixture
def streams() -> Streams:
    """Return two streams, the times of which are promised."""
    a, b = (oop.rows(rows, SCHEMA, punctuate=oop.slack("300 s", on="ts")) for rows in (LEFT, RIGHT))
    return a, b


def rows(stream: oop.Stream) -> list[str]:
    """Return the tuples of a result in an order of their own."""
    return sorted(str(tuple(row.values())) for row in stream.to_arrow().to_pylist())


def answer(text: str, streams: Streams) -> list[str]:
    """Return the tuples of a query, whose tree goes through text and back."""
    tree = parse(text)
    assert parse(unparse(tree)) == tree
    return rows(oop.query(text, A=streams[0], B=streams[1]))


@pytest.mark.parametrize(("word", "kind"), KINDS.items())
def test_each_kind_of_join_is_that_of_python(word: str, kind: str, streams: Streams) -> None:
    a, b = streams
    same = a.join(b, "k", range="2 s", closed=True, kind=kind)  # pyright: ignore[reportArgumentType]
    found = answer(f"SELECT * FROM A AS a {word} B AS b ON a.k = b.k AND {NEAR}", streams)
    assert found == rows(same)
    assert len(found) >= 3


@pytest.mark.parametrize(("word", "kind"), HALVES.items())
def test_half_a_join_gives_tuples_of_the_left_alone(word: str, kind: str, streams: Streams) -> None:
    a, b = streams
    same = a.join(b, "k", range="2 s", closed=True, kind=kind)  # pyright: ignore[reportArgumentType]
    found = answer(f"SELECT * FROM A AS a {word} B AS b ON a.k = b.k AND {NEAR}", streams)
    assert found == rows(same) == answer(f"SELECT ts, v, k FROM A AS a {word} B AS b ON {NEAR} AND a.k = b.k", streams)
    assert found


def pairs(keep: Callable[[int, int], bool], *, outer: bool = False) -> list[str]:
    """Return the times of all pairs of equal keys for which `keep` holds, in seconds."""
    found: list[tuple[int, int | None]] = []
    for t, _, k in LEFT:
        partners = [u for u, _, key in RIGHT if k is not None and key == k and keep(t, u)]
        found += [(t, u) for u in partners] or ([(t, None)] if outer else [])
    return sorted(map(str, found))


TIMES: dict[str, Callable[[int, int], bool]] = {
    NEAR: lambda a, b: b - 2 <= a <= b + 2,
    "b.ts BETWEEN a.ts AND a.ts + '2 s'": lambda a, b: a <= b <= a + 2,
    "b.ts BETWEEN a.ts + INTERVAL '1' SECOND AND a.ts + INTERVAL '3' SECOND": lambda a, b: a + 1 <= b <= a + 3,
    "a.ts BETWEEN b.ts + INTERVAL '-3' SECOND AND b.ts - INTERVAL '1' SECOND": lambda a, b: b - 3 <= a <= b - 1,
    "a.ts <= b.ts AND b.ts < a.ts + INTERVAL '2' SECOND": lambda a, b: a <= b < a + 2,
    "a.ts - '2 s' < b.ts AND b.ts < a.ts + '2 s'": lambda a, b: a - 2 < b < a + 2,
    "b.ts > a.ts - INTERVAL '3' SECOND AND a.ts + '1 s' >= b.ts AND b.ts <> a.ts":
        lambda a, b: a - 3 < b <= a + 1 and a != b,
    f"{NEAR} AND b.ts >= a.ts": lambda a, b: a <= b <= a + 2,
}  # fmt: skip


@pytest.mark.parametrize("when", TIMES)
@pytest.mark.parametrize("word", ["JOIN", "LEFT JOIN"])
def test_on_says_how_far_apart_times_are(when: str, word: str, streams: Streams) -> None:
    seconds = "cast(a.ts, 'int64') AS t, cast(b.ts, 'int64') AS u"
    found = answer(f"SELECT {seconds} FROM A AS a {word} B AS b ON a.k = b.k AND {when}", streams)
    assert found == pairs(TIMES[when], outer=word == "LEFT JOIN")
    if word == "JOIN":
        assert found == answer(f"SELECT {seconds} FROM A AS a, B AS b WHERE a.k = b.k AND {when}", streams)


def test_numbers_have_distances_too() -> None:
    schema = oop.Schema.of(n="int64", k="int64")
    streams = [oop.rows(rows, schema, punctuate=oop.ordered("n")) for rows in ([(1, 0), (9, 0)], [(2, 0), (7, 0)])]
    text = "SELECT a.n, b.n AS m FROM A AS a JOIN B AS b ON a.k = b.k AND b.n BETWEEN a.n - 2 AND a.n + 1"
    found = oop.query(text, A=streams[0], B=streams[1])
    assert rows(found) == ["(1, 2)", "(9, 7)"]


def test_a_condition_of_on_makes_pairs_and_one_of_where_keeps_results(streams: Streams) -> None:
    times = "SELECT cast(a.ts, 'int64') AS t, cast(b.ts, 'int64') AS u"
    on = f"{times} FROM A AS a LEFT JOIN B AS b ON a.k = b.k AND {NEAR}"
    assert answer(f"{on} AND a.v > 5 AND b.v > 2", streams) == sorted(
        ["(1, None)", "(70, None)", "(72, None)", "(75, 73)", "(130, None)"]
    )
    assert answer(f"{on} WHERE b.ts IS NULL", streams) == sorted(["(72, None)", "(130, None)"])
    assert answer(f"{on} AND 1 = 2", streams) == sorted(f"({t}, None)" for t, _, _ in LEFT)
    full = on.replace("LEFT", "FULL")
    assert len(answer(f"{full} AND a.v > 99", streams)) == len(LEFT) + len(RIGHT)


def test_joins_in_a_row_meet_as_those_of_commas_do(streams: Streams) -> None:
    window = "[RANGE 3 s, WA ts]"
    inputs = [f"{stream} AS {name} {window}" for stream, name in (("A", "a"), ("B", "b"), ("A", "c"))]
    select = "SELECT a.ts, b.ts AS t, c.ts AS u FROM"
    found = answer(f"{select} {' JOIN '.join(inputs[:2])} ON a.k = b.k JOIN {inputs[2]} ON b.k = c.k", streams)
    assert found == answer(f"{select} {', '.join(inputs)} WHERE a.k = b.k AND b.k = c.k", streams)
    assert len(found) > 3


def test_a_window_is_over_the_lesser_or_greater_time(streams: Streams) -> None:
    a, b = streams
    for which in ("least", "greatest"):
        named = {which: "at"}
        joined = a.join(b, "k", range="2 s", closed=True, **named)  # pyright: ignore[reportArgumentType]
        same = joined.window("1 s", wattr="at").aggregate(oop.count(), m=oop.max("at"))
        text = (
            f"SELECT count(*), max({which}(a.ts, b.ts)) AS m [RANGE 1 s, WA {which}(b.ts, a.ts)] "
            f"FROM A AS a JOIN B AS b ON a.k = b.k AND {NEAR}"
        )
        assert answer(text, streams) == rows(same)
    assert pa.types.is_timestamp(oop.query(text, A=a, B=b).schema.field("m").type)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT b.ts FROM A AS a ANTI JOIN B AS b ON a.k = b.k AND {NEAR}", "ANTI JOIN gives the tuples of a alone"),
        (f"SELECT b.* FROM A AS a SEMI JOIN B AS b ON a.k = b.k AND {NEAR}", "SEMI JOIN gives the tuples of a alone"),
        ("SELECT a.ts FROM A AS a JOIN B AS b ON a.k = b.k", "a has no window"),
        ("SELECT a.ts FROM A AS a JOIN B AS b ON a.k = b.k AND a.ts < b.ts", "a has no window"),
        ("SELECT 1 AS x FROM A AS a, B AS b LEFT JOIN A AS c ON TRUE", "LEFT JOIN joins two inputs"),
        ("SELECT 1 AS x FROM A AS a LEFT JOIN B AS b ON TRUE JOIN A AS c ON TRUE", "LEFT JOIN joins two inputs"),
        ("SELECT 1 AS x FROM A AS a FULL JOIN B AS b ON TRUE, A AS c", "FULL JOIN joins two inputs"),
        ("SELECT 1 AS x FROM A AS a JOIN B AS b USING (k)", 'found "USING"'),
        (f"SELECT count(*) [RANGE 1 s, WA least(a.ts, a.ts)] FROM A AS a JOIN B AS b ON {NEAR}", "over least(...)"),
        ("SELECT count(*) [RANGE 1 s, WA least(ts, ts)] FROM A", "row-num or rank"),
    ],
)
def test_joins_that_make_no_sense_are_refused(text: str, message: str, streams: Streams) -> None:
    with pytest.raises(LanguageError) as caught:
        answer(text, streams)
    assert message in caught.value.message
