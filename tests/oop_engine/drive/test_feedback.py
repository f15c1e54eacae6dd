"""What is disclaimed comes no more, all else comes as it would have come, and what serves nothing else is not read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.disclaiming import punctuation_of
from oop_engine.drive.circuit import Circuit
from oop_engine.errors import PlanError
from oop_engine.language.translate import query
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.positions import Placing
from operators.data.address import parse_ip
from operators.data.page import Page
from operators.errors import SchemaError
from operators.join.shape import Kind
from punctuation import Below, Punctuation, Range
from tests.examples import mostly_slow, share

SCHEMA = oop.Schema.of(ts="int64", k="int64", v="int64")
Rows = list[tuple[int, int, int]]


def source(rows: Rows, name: str = "r") -> oop.Stream:
    return oop.rows(iter(rows), SCHEMA, name=name, punctuate=oop.slack(8))


def grouped(strategy: str) -> Callable[[Rows, Rows], oop.Stream]:
    def made(one: Rows, other: Rows) -> oop.Stream:
        results = source(one).window(range=10, slide=4).aggregate(oop.count(), oop.sum("v"), by="k", strategy=strategy)
        return results.filter("count > 0")

    return made


def joined(kind: str) -> Callable[[Rows, Rows], oop.Stream]:
    def made(one: Rows, other: Rows) -> oop.Stream:
        return source(one).join(source(other, "s"), on="k", range=3, kind=kind)

    return made


TIMES = ["window_start < {t}", "window_start >= {t}", "window_end < {t}", "window_end >= {t}", "wid < {w}"]
GROUPS = ["k = 1", "k in (0, 2) and window_start < {t}", "k < 2 and window_end >= {t}", "count > 2"]
KEEPS_RIGHT = ("inner", "left", "right", "full")
PAIRS = [
    "ts < {t}", "ts >= {t}", "k = 1", "v < 4",
    "right_ts < {t}", "right_v < 4", "right_k = 1", "k = 1 and right_v > 2",
]  # fmt: skip
PLANS: dict[str, tuple[Callable[[Rows, Rows], oop.Stream], list[str]]] = {
    **{s: (grouped(s), TIMES + GROUPS) for s in ("wid", "panes", "slicing", "two_stacks", "buffer", "two_level")},
    "without groups": (
        lambda one, other: source(one).window(range=12, slide=5).aggregate(oop.sum("v")), TIMES,
    ),
    "with empty windows": (
        lambda one, other: source(one).window(range=5).aggregate(oop.count(), empty=True), TIMES,
    ),
    "several windows": (
        lambda one, other: source(one).windows(a=oop.tumbling(7), b=oop.tumbling(3)).aggregate(oop.count(), by="k"),
        [*GROUPS[:3], "window_start < {t}", "window_end >= {t}", "window = 'a'", "wid < 3"],
    ),
    "sessions": (
        lambda one, other: source(one).window(oop.session(3)).aggregate(oop.count(), by="k"), TIMES[:4] + GROUPS,
    ),
    "triggers": (
        lambda one, other: (
            source(one).window(range=9, slide=4).aggregate(oop.count(), by="k", early=oop.Trigger.rows(2))
        ),
        TIMES[:4] + GROUPS,
    ),
    "early": (
        lambda one, other: (
            source(one).window(range=8).aggregate(oop.sum("v"), by="k", early=oop.early(3, refine="retract"))
        ),
        TIMES[:4] + GROUPS[:3],
    ),
    "landmark": (lambda one, other: source(one).window(range="ALL", slide=6).aggregate(oop.count()), TIMES),
    "by tuple": (
        lambda one, other: source(one).window(oop.slide_by_tuple(range=6)).aggregate(oop.count(), by="k"),
        ["k = 1", "wid < {t}"],
    ),
    "tuples": (
        lambda one, other: source(one).derive(w="v * 2").filter("w > 4"), ["ts < {t}", "ts >= {t}", "w = 8", "k = 2"],
    ),
    "a meld": (
        lambda one, other: oop.meld(source(one), source(other, "s")).window(range=6).aggregate(oop.count(), by="k"),
        TIMES[:4] + GROUPS,
    ),
    **{kind: (joined(kind), PAIRS if kind in KEEPS_RIGHT else PAIRS[:4]) for kind in (*KEEPS_RIGHT, "semi", "anti")},
    "of pairs": (
        lambda one, other: joined("inner")(one, other).window(range=6).aggregate(oop.count(), by="k"),
        TIMES[:4] + GROUPS,
    ),
    "distinct": (lambda one, other: source(one).distinct("k", "v"), ["k = 1", "v < 3"]),
}  # fmt: skip

tuples = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.integers(0, 5)), min_size=20, max_size=40)


def taken(stream: oop.Stream, page_rows: int, after: int, unwanted: Punctuation | None) -> tuple[Counter, Counter]:
    """Return the results that came before something was disclaimed, which is after so many pages, and behind it."""
    before, behind = Counter[tuple[object, ...]](), Counter[tuple[object, ...]]()
    with stream.start(page_rows=page_rows) as running:
        found, pages = before, 0
        while True:
            if pages == after and unwanted is not None:
                running.disclaim(unwanted)
                found = behind
            page = next(running, None)
            if page is None:
                return before, behind
            pages += 1
            found.update(tuple(row.values()) for row in page.plain_rows())


@pytest.mark.parametrize("name", mostly_slow(PLANS, every=3))
@share(0.3)
@given(
    one=tuples,
    other=tuples,
    page_rows=st.sampled_from([1, 3, 50]),
    after=st.sampled_from([0, 1, 3]),
    at=st.integers(10, 50),
)
def test_all_else_comes_as_it_would_have_come(
    name: str, one: Rows, other: Rows, page_rows: int, after: int, at: int
) -> None:
    made, conditions = PLANS[name]
    stream = made(one, other)
    names = stream.schema.names
    whole, _ = taken(stream, page_rows, -1, None)
    for condition in conditions:
        unwanted = punctuation_of(condition.format(t=at, w=at // 4), stream.schema, "")
        before, behind = taken(made(one, other), page_rows, after, unwanted)
        matching = {row for row in whole if unwanted.matches(dict(zip(names, row, strict=True)))}
        assert not matching & set(behind), condition
        assert {row: many for row, many in (before + behind).items() if row not in matching} == {
            row: many for row, many in whole.items() if row not in matching
        }, condition


def endless(read: list[int]) -> oop.Stream:
    """Return a stream of which each tuple is noted when it is read, and which fails at its thousandth."""

    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(1000):
            read.append(at)
            yield Page.of_rows(SCHEMA, [(at, at % 3, at)]).batch
        raise AssertionError("it was read to its end")

    return oop.arrow(batches(), schema=SCHEMA.arrow, name="long", punctuate=oop.slack(8))


@pytest.mark.parametrize("drive", ["iterated", "run"])
def test_a_join_with_a_side_that_ended_reads_no_more_than_may_meet_it(drive: str) -> None:
    read: list[int] = []
    few = oop.rows([(at, at % 3, at) for at in range(20)], SCHEMA, name="few")
    pairs = endless(read).join(few, on="k", range=5)
    if drive == "run":
        outcome = pairs.run()
        found, statistics = outcome.table.num_rows, outcome.statistics
    else:
        with pairs.start(page_rows=1) as running:
            found, statistics = sum(map(len, running)), running.statistics
    assert found == sum(abs(a - b) < 5 and a % 3 == b % 3 for a in range(1000) for b in range(20))
    assert len(read) < 1000
    if drive == "run":
        assert "long was not read to its end: what is behind shows in no result" in statistics.notes


def test_a_source_that_was_read_to_its_end_is_not_said_to_have_been_left() -> None:
    few = oop.rows([(at, 0, at) for at in range(20)], SCHEMA, name="few")
    for more in (0, 10):
        times = [range(40), range(40, 40 + more)]
        batches = [Page.of_rows(SCHEMA, [(at, 0, at) for at in some]).batch for some in times if some]
        many = oop.arrow(batches, name="many")
        with many.join(few, on="k", range=5).start(page_rows=1) as running:
            assert sum(map(len, running)) == sum(abs(a - b) < 5 for a in range(40) for b in range(20))
        assert any("not read to its end" in note for note in running.statistics.notes) == bool(more)


@pytest.mark.parametrize("kind", ["left", "full", "anti"])
def test_a_tuple_that_no_partner_is_needed_for_is_read_all_the_same(kind: Kind) -> None:
    batches = (Page.of_rows(SCHEMA, [(at, at % 3, at)]).batch for at in range(200))
    many = oop.arrow(batches, schema=SCHEMA.arrow, name="many", punctuate=oop.slack(8))
    few = oop.rows([(at, at % 3, at) for at in range(20)], SCHEMA, name="few")
    with many.join(few, on="k", range=5, kind=kind).start(page_rows=1) as running:
        found = {row["ts"] for page in running for row in page.rows()}
    met = {at for at in range(200) for other in range(20) if abs(at - other) < 5 and at % 3 == other % 3}
    assert found == set(range(200)) - (met if kind == "anti" else set[int]())


@pytest.mark.parametrize(
    ("condition", "left_out"),
    [
        ("k = 1", 26),
        ("window_start < 500", 480),
        ("window_end <= 500", 471),
        ("wid < 40", 380),
        ("k = 1 and window_start < 500", 160),
    ],
)
def test_sources_leave_out_what_is_needed_for_nothing_else(condition: str, left_out: int) -> None:
    rows = [(at, at % 3, at) for at in range(100 if condition == "k = 1" else 1000)]
    stream = source(rows).filter("v >= 0").window(range=10).aggregate(oop.count(), by="k")
    with stream.start(page_rows=5) as running:
        next(running)
        running.disclaim(condition)
        for _ in running:
            pass
    assert running.statistics.operators[0].details["disclaimed"] == pytest.approx(left_out, abs=4)


@pytest.mark.parametrize(
    ("text", "column", "first"),
    [
        ("SELECT ts, v FROM Main ORDER BY ts LIMIT 5", "ts", [0, 1, 2, 3, 4]),
        ("SELECT v + 1 AS w, ts FROM Main WHERE k = 1 ORDER BY ts, w LIMIT 3", "ts", [1, 4, 7]),
        (
            "SELECT * FROM (SELECT wid, count(*) [RANGE 10, WA ts] FROM Main) AS w ORDER BY wid LIMIT 3",
            "wid", [0, 1, 2],
        ),
    ],
)  # fmt: skip
def test_the_first_n_in_the_order_of_time_are_all_that_is_read(text: str, column: str, first: list[int]) -> None:
    read: list[int] = []
    outcome = query(text, {"Main": endless(read)}).run()
    assert outcome.table[column].to_pylist() == first
    assert len(read) < 100
    assert "long was not read to its end: what is behind shows in no result" in outcome.statistics.notes


@share(0.3)
@given(
    rows=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.integers(0, 5)), min_size=8, max_size=40),
    page_rows=st.sampled_from([1, 3, 50]),
    n=st.integers(1, 6),
    order=st.sampled_from([("ts",), ("k", "ts"), ("v",), ("v", "k")]),
    ascending=st.booleans(),
)
def test_the_first_n_of_all_are_those_of_all_tuples(
    rows: Rows, page_rows: int, n: int, order: tuple[str, ...], ascending: bool
) -> None:
    names = SCHEMA.names
    # Each source lets tuples be 8 late, and none is later.
    rows = sorted(rows, key=lambda row: row[0] // 8)
    stream = source(rows).top(n, order, within=(), ascending=ascending)
    sign = 1 if ascending else -1
    places = [names.index(name) for name in order]
    others = [at for at in range(3) if at not in places]
    want = sorted(rows, key=lambda row: [sign * row[at] for at in places] + [row[at] for at in others])[:n]
    with stream.start(page_rows=page_rows) as running:
        found = [tuple(row.values()) for page in running for row in page.rows()]
    assert found == want


def test_what_cannot_be_among_the_largest_is_left_out_at_its_source() -> None:
    rows = [(at, at % 3, at * 7919 % 30_011) for at in range(30_000)]
    with source(rows).derive(w="v * 2").top(3, "v", within=()).start(page_rows=1_000) as running:
        (page,) = running
    assert page["v"].tolist() == sorted((v for _, _, v in rows), reverse=True)[:3]
    left_out = running.statistics.operators[0].details["disclaimed"]
    assert isinstance(left_out, int) and left_out > 20_000


def test_a_source_is_read_no_further_than_anybody_wants() -> None:
    read: list[int] = []
    with endless(read).window(range=10).aggregate(oop.count()).start(page_rows=1) as running:
        running.disclaim("window_start >= 50")
        assert [row["window_start"] for page in running for row in page.rows()] == [0, 10, 20, 30, 40]
    assert len(read) < 1000


def test_a_run_in_a_thread_is_told(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with source([(at, at % 3, at) for at in range(100)]).to(path).start() as started:
        started.disclaim("k = 1")
        statistics = started.wait()
    rows = path.read_text().splitlines()[1:]
    assert len(rows) + statistics.total("disclaimed") == 100
    started.disclaim("k = 2")


def test_a_run_with_checkpoints_is_not_told(tmp_path: Path) -> None:
    plan = prepared(source([(1, 2, 3)]).node)
    circuit = Circuit(plan)
    circuit.placings[0] = Placing("r")
    with pytest.raises(PlanError, match="this run writes checkpoints"):
        circuit.disclaim(0, punctuation_of("k = 1", SCHEMA, ""))


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("k = 1 or v = 2", "no comparison of an attribute with a constant"),
        ("k + 1 = 2", "no comparison of an attribute with a constant"),
        ("k != 1", "no comparison of an attribute with a constant"),
        ("k = 1.5", "true of no tuple"),
        ("k = 1 and k = 2", "nothing is both on k"),
        (Punctuation({"gone": Below(3)}), 'about "gone", which the stream does not have'),
    ],
)
def test_what_cannot_be_disclaimed_is_refused(condition: object, told: str) -> None:
    with source([(1, 2, 3)]).start() as running, pytest.raises((PlanError, SchemaError), match=told):
        running.disclaim(condition)  # pyright: ignore[reportArgumentType]


def test_conditions_are_punctuations() -> None:
    schema = oop.Schema.of(ts="timestamp[s]", a="ip", f="float64", s="string", b="bool")
    texts = {
        "ts >= '1970-01-01T00:00:00.5' and ts <= '1970-01-01T00:01'": "[ts in [1, 61)]",
        "0.5 < f and f <= 2": "[f in (0.5, 2.0]]",
        "s in ('x', 'y')": "[s in {x, y}]",
        "s >= 'x'": "[s >= x]",
        "b = true": "[b = True]",
    }
    assert {text: str(punctuation_of(text, schema, "here")) for text in texts} == texts
    (pattern,) = dict(punctuation_of("a in '10.0.0.0/8'", schema, "here").patterns).values()
    assert isinstance(pattern, Range)
    ends = [parse_ip("10.0.0.0"), parse_ip("10.255.255.255")]
    assert [pattern.low, pattern.high] == ends and punctuation_of("a = '10.0.0.0'", schema, "here").matches(
        {"a": ends[0]}
    )
