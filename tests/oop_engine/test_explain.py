"""The words for a plan: golden texts, and what they promise about width, sharing and names that come from outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.api.outputs import explain_outputs
from oop_engine.api.stream import Stream, meld
from oop_engine.plan.graph import Plan, source_node
from oop_engine.plan.punctuate import Promise, embedded, ordered, slack
from oop_engine.report.explain import explain
from oop_engine.sources.packets import Packets
from operators.functions import count
from operators.functions import sum as sum_


def packets(name: str, *promises: Promise, late: str = "drop") -> Stream:
    """Make a stream of a capture that is never opened: a plan is explained before anything is read."""
    return Stream(source_node(Packets((Path(f"{name}.pcap"),), name), promises=promises, late=late))


def text(*streams: Stream, width: int = 96) -> str:
    return explain(Plan(tuple(stream.node for stream in streams)), width=width)


def test_a_union_of_files_and_a_live_link_is_explained_from_the_output_to_the_sources() -> None:
    links = meld(packets("Control"), packets("Main1", slack("2s", lull="5 s"), late="refuse"))
    found = links.filter(lambda p: p["length"] > 100).window(range="10 minutes", slide="1 minute")
    assert (
        text(found.aggregate(count(), sum_("length"), by="srcIP"))
        == """\
aggregate count(*), sum(length) by srcIP
│  attributes  srcIP ip, count int64, sum_length int64, wid int64, window_start timestamp[ns],
│              window_end timestamp[ns]
│  punctuated  on wid; window_start; window_end
│  - strategy panes: one partial aggregate for each slice and group; carried over where cheaper
│  - panes [RANGE 1 minute, SLIDE 1 minute, WA ts], windows over them [RANGE 10, SLIDE 1, WA
│    pane-id]
│  - state about 54 bytes for each slice and group, and 72 for each group; 11 slices open, more
│    with disorder
└─ bucket [RANGE 10 minutes, SLIDE 1 minute, WA ts]
   │  attributes  those of its input, and wid_from int64, wid_until int64
   │  punctuated  on wid_from
   │  - class CF (context free: a tuple alone tells its windows)
   └─ filter length > 100
      │  attributes  those of its input
      │  punctuated  on ts
      └─ meld of 2
         │  attributes  those of its inputs
         │  punctuated  on ts
         ├─ Control
         │     attributes  ts timestamp[ns], srcIP ip, length int32 (read 3 of 20)
         │     punctuated  on ts, exactly, every 1 minute (suffix minimum, Eq. 4.1)
         │     - late tuples are dropped and counted
         └─ Main1
               attributes  ts timestamp[ns], srcIP ip, length int32 (read 3 of 20)
               punctuated  on ts, slack 2s, every 1 minute, assumed after a lull of 5 s
               - late tuples are refused: the first one ends the run"""
    )


def test_partitioned_row_windows_are_forward_context_free() -> None:
    rows = packets("Main").window(range="100 rows", slide="10 rows", wattr="row_num", partition="srcIP")
    assert (
        text(rows.aggregate(count()))
        == """\
aggregate count(*) by srcIP
│  attributes  srcIP ip, count int64, wid int64, window_start int64, window_end int64
│  punctuated  on srcIP with wid
│  - strategy panes: one partial aggregate for each slice and group; carried over where cheaper
│  - state about 63 bytes for each slice and group, and 72 for each group
└─ bucket [RANGE 100 rows, SLIDE 10 rows, WA row_num, PA srcIP]
   │  attributes  those of its input, and wid_from int64, wid_until int64
   │  punctuated  on srcIP with wid_from
   │  - class FCF (forward-context free: the tuples before it tell a tuple's windows)
   │  - state grows with every new value of srcIP: its tuples are counted on for ever, as
   │    nothing promises that no more of it comes
   └─ Main
         attributes  srcIP ip (read 1 of 20)
         punctuated  on nothing before its end: nothing downstream asks for it
         - late tuples are dropped and counted"""
    )


def test_a_node_with_two_readers_is_written_once_and_then_referred_to() -> None:
    shared = packets("Main").filter(lambda p: p["length"] > 100)
    shown = text(meld(shared.project("ts", "srcIP"), shared.project("ts", "srcIP")))
    assert shown.count("Main") == 1
    assert "[1] filter length > 100" in shown
    assert shown.splitlines()[-1].endswith("└─ filter length > 100 [see 1 above]")


def test_several_outputs_are_numbered_and_share_what_they_share() -> None:
    main = packets("Main")
    shown = text(main.project("ts"), main.project("srcIP"))
    assert [line for line in shown.splitlines() if line.startswith("output")] == ["output 0", "output 1"]
    assert "Main [see 1 above]" in shown


def test_promises_that_nothing_asks_for_are_not_claimed_by_operators_above() -> None:
    """A file is punctuated on what is asked of it; a projection of its ts must not say otherwise."""
    shown = text(packets("Main").project("ts", "srcIP"))
    assert "punctuated  on ts" not in shown
    asked = text(packets("Main").project("ts", "srcIP").window(range="1 minute").aggregate(count()))
    assert asked.count("punctuated  on ts") == 2


@pytest.mark.parametrize(
    ("promise", "expected"),
    [
        (ordered(every=100), "on ts, ordered, every 100 tuples"),
        (ordered(step="1s"), "on ts, ordered, every 1 s"),
    ],
)
def test_every_punctuator_says_how_it_promises(promise: Promise, expected: str) -> None:
    shown = text(packets("Main", promise).window(range="1 minute").aggregate(count()))
    assert expected in shown


def test_promises_that_stand_in_the_data_are_said_to() -> None:
    marked = pa.schema([("ts", pa.timestamp("ns", "UTC")), ("done", pa.bool_())])
    stream = oop.rows([], marked, name="Main", punctuate=embedded("done"))
    assert "on ts, embedded, marked by done" in text(stream.window(range="1 minute").aggregate(count()))


def test_lines_are_at_most_as_wide_as_asked_and_deep_trees_keep_room_for_words() -> None:
    stream = packets("Main")
    for bound in range(40):
        stream = stream.filter(lambda p, bound=bound: p["length"] > bound)
    shown = text(stream, width=80)
    assert all(len(line) <= max(80, 3 * 42 + 3 + 12 + 40) for line in shown.splitlines())
    assert "filter length > 0" in shown


def test_control_characters_of_a_name_are_escaped_and_make_no_line() -> None:
    shown = text(packets("a\x1b[31m\nb\u202e"))
    assert "a\\x1b[31m b\\u202e" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_a_handle_prints_its_plan() -> None:
    stream = packets("Main").window(range="1 minute").aggregate(oop.count())
    assert repr(stream) == stream.explain() == text(stream)


@cache
def own(*, interpreted: bool) -> oop.AggregateFunction:
    return oop.user_aggregate(
        "u", lambda x: x, lambda a, b: a + b, arguments="x", identity=0, output=pa.int64(), interpreted=interpreted
    )


SHAPES: dict[str, Callable[[Stream, oop.AggregateFunction], Stream]] = {
    "window": lambda s, f: s.window(5, slide=2).aggregate(f, count()),
    "groups": lambda s, f: s.window(5).aggregate(f, by="k", strategy="adaptive"),
    "windows": lambda s, f: s.windows(a=oop.sliding(5, 2), b=oop.session(2)).aggregate(f),
    "windows side by side": lambda s, f: s.windows(a=oop.sliding(5, 2), b=oop.counted(3)).aggregate(f),
    "ranked": lambda s, f: s.window(oop.counted(3)).aggregate(f),
    "early": lambda s, f: s.window(5).aggregate(f, early=1),
    "no window": lambda s, f: s.aggregate(f, by="k"),
    "rows": lambda s, f: s.window("3 rows", wattr="row_num").aggregate(f),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_function_that_is_interpreted_is_said_to_be_slow_and_so_is_the_run(shape: str) -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.int64())])
    given = oop.rows([(i, i % 2, i) for i in range(8)], schema)
    slow = 'user function "u" is interpreted, some thousand times slower than compiled'
    for interpreted in (True, False):
        stream = SHAPES[shape](given, own(interpreted=interpreted))
        lines = [line for line in stream.explain().splitlines() if line.endswith("- " + slow)]
        assert len(lines) == (2 if "side by side" in shape else 1) * interpreted
        assert stream.run().statistics.notes == ((slow,) if interpreted else ())


def test_queries_that_are_computed_together_say_once_what_is_interpreted() -> None:
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    windowed = oop.rows([(i, i) for i in range(8)], schema).window(5)
    function = own(interpreted=True)
    both = [windowed.aggregate(n=function).to("a.csv"), windowed.aggregate(function, count()).to("b.csv")]
    assert explain_outputs(both).count("is interpreted") == 1
