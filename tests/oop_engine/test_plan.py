"""A plan refuses what could not work when it is made, in words that say what to write; and it is what was said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.plan.graph import OperatorNode, Plan, SourceNode

SCHEMA = pa.schema(
    [("ts", pa.timestamp("ns", tz="UTC")), ("start", pa.int64()), ("length", pa.int64()), ("k", pa.string())]
)
FILE = oop.arrow([], schema=SCHEMA)


def live(**options: object) -> Stream:
    return oop.rows(iter([]), SCHEMA, **options)  # type: ignore[arg-type]


def windows(s: Stream) -> Stream:
    return s.window(range="10 s", wattr="ts").aggregate(oop.count())


TWICE = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["ts", "k", "k"])


@pytest.mark.parametrize("kind", ["table", "batches", "rows", "parquet", "arrow"])
@pytest.mark.parametrize("options", [{}, {"slack": 1}], ids=["as it is", "slack"])
def test_two_columns_of_one_name_are_refused(kind: str, options: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / f"twice.{kind}"

    def made() -> Stream:
        if kind == "table":
            return oop.arrow(TWICE, **options)  # type: ignore[arg-type]
        if kind == "batches":
            return oop.arrow(iter(TWICE.to_batches()), schema=TWICE.schema, **options)  # type: ignore[arg-type]
        if kind == "rows":
            return oop.rows([(1, 2, 3)], TWICE.schema, **options)  # type: ignore[arg-type]
        if kind == "parquet":
            pq.write_table(TWICE, path)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, TWICE.schema) as writer:
                writer.write_table(TWICE)
        return oop.table(path, **options)  # type: ignore[arg-type]

    with pytest.raises(oop.SchemaError, match=r'names the column "k" twice[^$]*Rename one'):
        made()


UNPROMISED = 'no window of this aggregate could ever be released: nothing promises "ts".\n'
GIVE_ROWS = (
    '  Give rows a punctuator, e.g. punctuate=oop.every("1s", on="ts"), or\n'
    '  oop.slack("2s", on="ts") if it is out of order.'
)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: FILE.window(range="10 s", wattr="start_"),
            oop.SchemaError,
            'window: the input has no attribute "start_".\n  input: ts, start, length, k\n  Did you mean "start"?',
        ),
        (
            lambda: FILE.window(range="10 s").aggregate(oop.count(), by="kk"),
            oop.SchemaError,
            'aggregate(by="kk"): the input has no attribute "kk".\n  input: ts, start, length, k\n  Did you mean "k"?',
        ),
        (
            lambda: FILE.filter(lambda p: p["lenght"] > 1),
            oop.SchemaError,
            'expression: the input has no attribute "lenght".\n  input: ts, start, length, k\n  Did you mean "length"?',
        ),
        (
            lambda: FILE.filter(lambda p: p["length"] > "a"),
            oop.SchemaError,
            'length > "a": "length" is an integer (int64) and does not go with "a", which is text.\n'
            "  Write a number without quotes.",
        ),
        (
            lambda: FILE.window(range=10, wattr="k"),
            oop.PlanError,
            'the windowing attribute "k" has type string; it must be an integer, a time or a decimal.\n'
            '  Times of a table are read as such with types={"k": "timestamp"} (ISO 8601 text) or "epoch" (seconds'
            " since 1970),\n  in the shell --types k=timestamp.",
        ),
        (
            lambda: FILE.window(range="10 rows"),
            oop.PlanError,
            'RANGE is 10 rows, but "ts" is a time (timestamp[ns, tz=UTC]).\n'
            "  Give a duration such as 10 seconds, or count rows with the windowing attribute row_num.",
        ),
        (
            lambda: FILE.window(range="10 s", wattr="row-num"),
            oop.PlanError,
            'RANGE is 10 s, but "row_num" is a number (int64), not a time.\n'
            "  Give a plain number in the unit of row_num, or project it to a timestamp first.",
        ),
        (
            lambda: FILE.window(range=10, slide="2 s", wattr="start"),
            oop.PlanError,
            'SLIDE is 2 s, but "start" is a number (int64), not a time.\n'
            "  Give a plain number in the unit of start, or project it to a timestamp first.\n"
            '  Seconds since 1970 in a table are read as times with types={"start": "epoch"}, in the shell'
            " --types start=epoch.",
        ),
        (lambda: FILE.window(range=0, wattr="start"), oop.PlanError, "RANGE must be more than nothing, not 0"),
        (lambda: FILE.window(range=5, slide=0, wattr="start"), oop.PlanError, "SLIDE must be more than nothing, not 0"),
        (
            lambda: FILE.window(range="ALL"),
            oop.PlanError,
            "RANGE ALL needs a SLIDE: how often the result is extended, e.g. SLIDE 1 minute",
        ),
        (lambda: windows(live()), oop.PlanError, UNPROMISED + "  rows promises nothing.\n" + GIVE_ROWS),
        (
            lambda: windows(FILE.meld(FILE, live().filter("length > 1")).filter("length > 2")),
            oop.PlanError,
            UNPROMISED
            + "  meld of 3 promises only what every input promises: arrow {length} {start} {ts}, "
            + "arrow {length} {start} {ts}, rows nothing.\n"
            + GIVE_ROWS,
        ),
        (
            lambda: (
                live(slack=5, on="start")
                .project(ts="start")
                .meld(FILE.project(ts="length"))
                .window(range=5, wattr="ts")
                .aggregate(oop.count())
                .project("wid", ts="count")
                .window(range=5, wattr="ts")
                .aggregate(oop.count())
            ),
            oop.PlanError,
            UNPROMISED
            + "  aggregate count(*) promises {wid} {window_end} {window_start}; its input promises {wid_from}.\n"
            + "  Use an attribute that is promised as the windowing attribute, or keep it on the way.",
        ),
        (
            lambda: FILE.project("length", ts="-start").window(range=5, wattr="ts").aggregate(oop.count()),
            oop.PlanError,
            UNPROMISED
            + "  project length, -start as ts promises {length}; its input promises {length} {start} {ts}.\n"
            + '  "ts" is -start, which follows no promise: + - * // with a constant would.\n'
            + "  Use an attribute that is promised as the windowing attribute, or keep it on the way.",
        ),
        (
            lambda: live(slack="1s").project(t="length").window(range=5, wattr="t").aggregate(oop.count()),
            oop.PlanError,
            'no window of this aggregate could ever be released: nothing promises "t".\n  rows promises {ts}.\n'
            '  Give rows a punctuator, e.g. punctuate=oop.every("1s", on="length"), or\n'
            '  oop.slack("2s", on="length") if it is out of order.',
        ),
        (
            lambda: FILE.window(range="10 s").aggregate(oop.count(), oop.count()),
            oop.SchemaError,
            'aggregate: two results are named "count"; name one with a keyword.',
        ),
        (
            lambda: FILE.window(range="10 s").aggregate(k=oop.count(), by="k"),
            oop.SchemaError,
            "aggregate: two results are named k; rename one.",
        ),
        (
            lambda: FILE.window(range="10 s").aggregate(wid=oop.count()),
            oop.SchemaError,
            "aggregate: two results are named wid; rename one.",
        ),
        (lambda: FILE.aggregate(), oop.PlanError, "aggregate needs at least one function, e.g. oop.count()"),
        (
            lambda: FILE.aggregate(oop.sum("k")),
            oop.SchemaError,
            'sum(k): "k" has type string; numbers, truth values or durations are needed.\n'
            "  Cast it to int64 or float64 before.",
        ),
        (
            lambda: FILE.meld(FILE.project("ts")),
            oop.SchemaError,
            "meld: input 1 has other attributes than input 0.\n  input 0: ts, start, length, k\n  input 1: ts\n"
            "  Project them to the same attributes in the same order first.",
        ),
        (
            lambda: FILE.project("start").meld(FILE.project(start="k")),
            oop.SchemaError,
            'meld: attribute "start" is int64 in input 0 and string in input 1.\n  Give both the same type first.',
        ),
        (lambda: oop.meld(), oop.PlanError, "meld needs at least one stream"),
        (
            lambda: live(slack="2s", on="tss"),
            oop.SchemaError,
            'rows: punctuate: the input has no attribute "tss".\n  input: ts, start, length, k\n  Did you mean "ts"?',
        ),
        (
            lambda: live(slack="2 rows"),
            oop.PlanError,
            'slack is 2 rows, but "ts" is a time (timestamp[ns, tz=UTC]).\n'
            "  Give a duration such as 10 seconds, or count rows with the windowing attribute row_num.",
        ),
        (
            lambda: live(punctuate=oop.ordered("k")),
            oop.SchemaError,
            'rows: "k" has type string; a stream progresses on an integer, a time or a decimal\n'
            '  Times of a table are read as such with types={"k": "timestamp"} (ISO 8601 text) or "epoch" (seconds'
            " since 1970),\n  in the shell --types k=timestamp.",
        ),
        (
            lambda: live(punctuate=oop.embedded("length", "ts")),
            oop.SchemaError,
            'rows: the marker "length" must be a boolean attribute',
        ),
        (
            lambda: FILE.apply(oop.count()),  # type: ignore[arg-type]
            oop.PlanError,
            "apply puts an operator over the stream, and Count is none: it needs inputs, output_schema, process, "
            "punctuate, state and restore (operators.protocol.Operator).",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_read(
    make: Callable[[], Stream], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text
    assert type(caught.value) is error


def test_an_operator_needs_as_many_streams_as_it_has_ports() -> None:
    from operators.streams.meld import Meld

    with pytest.raises(oop.PlanError, match="Meld has 3 input ports and 2 streams were given"):
        FILE.apply(Meld(3), FILE)
    assert FILE.apply(Meld(2), FILE).schema.names == FILE.schema.names


def test_a_stream_that_nothing_promises_may_be_filtered_and_grouped_to_its_end() -> None:
    rows = [(0, 0, 5, "a"), (1, 1, 7, "b"), (2, 2, 9, "a")]
    assert oop.rows(iter(rows), SCHEMA).filter("length > 5").to_arrow()["length"].to_pylist() == [7, 9]
    counts = oop.rows(iter(rows), SCHEMA).aggregate(oop.count(), by="k").to_arrow().to_pylist()
    assert sorted(row["count"] for row in counts) == [1, 2]


def test_nodes_are_compared_by_identity_and_listed_after_their_inputs() -> None:
    one, same = oop.arrow([], schema=SCHEMA), oop.arrow([], schema=SCHEMA)
    assert one.node != same.node
    filtered = one.filter("length > 1")
    plan = Plan((oop.meld(filtered, filtered, same).node, filtered.node))
    assert [type(node).__name__ for node in plan.nodes] == ["SourceNode", "OperatorNode", "SourceNode", "OperatorNode"]
    for place, node in enumerate(plan.nodes):
        assert plan.position(node) == place
        assert all(plan.position(upstream) < place for upstream in node.inputs)
    assert plan.consumers() == {0: [(1, 0)], 1: [(3, 0), (3, 1)], 2: [(3, 2)], 3: []}
    assert plan.output_numbers() == {3: [0], 1: [1]}
    assert list(plan.sources.values()) == [one.node, same.node]


def test_one_stream_may_be_several_outputs() -> None:
    assert Plan((FILE.node, FILE.node)).output_numbers() == {0: [0, 1]}


def test_a_long_chain_needs_no_deep_stack() -> None:
    s = FILE
    for _ in range(3000):
        s = s.filter("length > 1")
    assert len(Plan((s.node,)).nodes) == 3001


def test_a_file_may_be_promised_exactly_on_every_ordered_attribute_unless_its_user_says_how() -> None:
    progressing = [FILE.schema.progressing(name) for name in ("ts", "start", "length", "k")]
    assert progressing == [True, True, True, False]
    said = oop.arrow([], schema=SCHEMA, slack=5, on="start")
    assert [said.schema.progressing(name) for name in ("ts", "start", "length")] == [False, True, False]
    node = said.node
    assert isinstance(node, SourceNode)
    assert [str(promise) for promise in node.promises] == ["slack 5 on start"]


def test_markers_are_no_attributes_of_the_stream() -> None:
    schema = pa.schema([("ts", pa.int64()), ("done", pa.bool_()), ("k", pa.string())])
    stream = oop.rows([], schema, punctuate=oop.embedded("done", "ts", group=("k",)))
    assert stream.schema.names == ["ts", "k"]
    assert stream.schema.progress == {frozenset({"ts"}), frozenset({"ts", "k"})}


def test_rows_are_numbered_at_the_entry_whatever_lies_between() -> None:
    rows = [
        {"ts": t, "start": t, "length": n, "k": k} for t, n, k in [(1, 9, "a"), (2, 1, "b"), (3, 8, "a"), (4, 7, "b")]
    ]
    s = oop.rows(rows, SCHEMA)
    kept = s.filter("length > 5").project("k", size="length").derive(double="size * 2")
    counts = kept.window(range="2 rows", wattr="row-num").aggregate(oop.count(), total=oop.sum("double"))
    assert sorted(tuple(row.values())[:3] for page in counts for row in page.rows()) == [(1, 18, 0), (2, 30, 1)]
    renumbered = s.filter("length > 5").number().window(range="2 rows", wattr="row-num").aggregate(oop.count())
    assert sorted((row["count"], row["wid"]) for page in renumbered for row in page.rows()) == [(1, 1), (2, 0)]
    assert counts.schema.names == ["count", "total", "wid", "window_start", "window_end"]


def test_row_windows_are_numbered_where_streams_become_one() -> None:
    melded = FILE.meld(FILE).filter("length > 1").window(range=5, wattr="row_num").aggregate(oop.count())
    labels = [node.label for node in Plan((melded.node,)).nodes if isinstance(node, OperatorNode)]
    assert labels[:3] == ["meld of 2", "number as row_num", "filter length > 1"]


def test_an_origin_may_be_negative_and_a_range_may_not() -> None:
    s = oop.rows([{"ts": 0, "start": -4, "length": 1, "k": "a"}], SCHEMA)
    result = s.window(range=10, wattr="start", origin=-7).aggregate(oop.count()).to_arrow().to_pylist()
    assert result == [{"count": 1, "wid": 0, "window_start": -7, "window_end": 3}]
    with pytest.raises(oop.PlanError, match="RANGE must be more than nothing, not -1"):
        s.window(range=-1, wattr="start")


def test_every_run_prepares_its_plan_in_one_place() -> None:
    """Plans that were put together here and there had come to differ: one lacked guards, and counted otherwise."""
    package = Path(oop.__file__).parent
    users = {
        path.name
        for path in package.rglob("*.py")
        if re.search(r"import .*\b(guarded|fused|shared)\b", path.read_text())
    }
    assert users == {"passes.py"}
