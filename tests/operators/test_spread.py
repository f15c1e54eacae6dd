"""A flow's amounts, spread over panes, add up to what they were, lie where the flow was, and promise no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.chain import Chain
from operators.data.page import Page, Row
from operators.data.schema import Schema
from operators.drive import drive, punctuations, rows
from operators.errors import OperatorBug, SchemaError
from operators.functions import sum as total
from operators.protocol import Emit
from operators.rows.spread import Spread, needs_reach
from operators.testing import Script, check_operator, streams
from operators.window import LIMIT, tumbling
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from punctuation import END, Below, Equals, Progress, Punctuation, before
from tests.examples import mostly_slow
from tests.naive_spread import naive_spread

SCHEMA = Schema.of(
    ts=pa.int64(), end_ts=pa.int64(), k=pa.string(), bytes=pa.int64(), packets=pa.uint32(),
    progress=["ts", "end_ts", ("k", "ts"), "k", "bytes"],
)  # fmt: skip
AMOUNTS = ("bytes", "packets")
spreads = st.builds(
    Spread,
    st.just(AMOUNTS),
    step=st.integers(1, 4),
    origin=st.integers(-2, 2),
    into=st.sampled_from(["ts", "at"]),
    max_panes=st.sampled_from([1, 2, 3, 100]),
    reach=st.sampled_from([None, 1, 2, 3, 100]),
)
scripts = streams(SCHEMA, wattr=("ts", "end_ts"), group=("k",), tuples=9, nulls=("k", "bytes", "end_ts"))


def naive(spread: Spread, table: Sequence[Row]) -> list[Row]:
    return naive_spread(
        table, spread.columns, step=spread.step, origin=spread.origin, into=spread.into, max_panes=spread.max_panes,
        reach=spread.reach,
    )  # fmt: skip


@given(spreads, scripts)
def test_every_pane_gets_its_share_and_every_promise_is_kept(spread: Spread, script: Script) -> None:
    def promised(tables: Sequence[list[Row]], progress: Sequence[Progress]) -> list[Punctuation]:
        bound = progress[0].bound("ts")
        return [] if bound is None or progress[0].ended else [before(spread.into, int(bound))]

    check_operator(
        lambda: attrs.evolve(spread),
        script,
        naive=lambda table: naive(spread, table),
        settled=lambda tables, progress: naive(spread, tables[0]),
        promised=promised,
        kept=lambda tables, progress: 0,
    )


FLOWS = Schema.of(ts=pa.int64(), end_ts=pa.int64(), i=pa.int64(), u=pa.uint64(), s=pa.int16(), d=pa.duration("ms"))
big = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**62, -(2**63), 2**63 - 1]))
times = st.one_of(st.integers(-50, 50), st.integers(-LIMIT + 1, LIMIT - 1))
flows = st.tuples(
    times, times, big, big.map(lambda n: n % 2**64), st.integers(-(2**15), 2**15 - 1), st.integers(-(2**62), 2**62)
)


@given(st.lists(flows, min_size=1, max_size=6), st.one_of(st.integers(1, 30), st.integers(2**55, LIMIT)))
def test_whole_amounts_add_up_exactly_however_large(table: list[tuple[int, ...]], step: int) -> None:
    columns = ("i", "u", "s", "d")
    operator = Spread(columns, step=step, into="at", max_panes=50)
    found = rows(drive(operator, [Page.of_rows(FLOWS, table)]))
    for place, name in enumerate(columns, 2):
        assert sum(int(str(row[name])) for row in found) == sum(row[place] for row in table)
    expected = naive_spread(
        [dict(zip(FLOWS.names, row, strict=True)) for row in table if _panes(row, step) < 10**4],  # type: ignore[arg-type]
        columns, step=step, into="at", max_panes=50,
    )  # fmt: skip
    assert {str(row) for row in expected} <= {str(row) for row in found}


def _panes(row: tuple[int, ...], step: int) -> int:
    return (max(row[0], row[1]) - row[0]) // step


@given(spreads, scripts)
def test_no_share_lies_outside_its_flow(spread: Spread, script: Script) -> None:
    spread = attrs.evolve(spread, into="at")
    for row in rows(drive(spread, script)):
        start, end, at = (int(str(row[name])) for name in ("ts", "end_ts", "at"))
        assert start <= at
        assert at < end or at == start


def test_what_is_odd_is_counted() -> None:
    schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), bytes=pa.int64())
    page = Page.of(
        schema, {"ts": [5, 9, 0, 3, LIMIT], "end_ts": [5, 2, 95, None, LIMIT + 1], "bytes": [1, 2, 70, 4, 5]}
    )
    counts = {"flows": 5, "parts": 4, "backwards": 1, "without_time": 2, "state_tuples": 0}
    for operator, last, wide, far in (
        (Spread(("bytes",), step=10, max_panes=2), [(0, 66), (90, 4)], 1, 0),
        (Spread(("bytes",), step=10, reach=2), [(80, 46), (90, 24)], 0, 1),
    ):
        found = [(row["ts"], row["bytes"]) for row in rows(drive(operator, [page]))]
        assert found == [(5, 1), (9, 2), *last]
        assert operator.statistics() == {**counts, "in_wide_parts": wide, "too_long": far}


@given(st.integers(-40, 40), st.integers(1, 400), st.integers(1, 3), st.integers(-3, 3), st.integers(1, 9))
def test_a_flow_over_many_panes_stays_spread_over_all_of_its_time(
    start: int, length: int, step: int, origin: int, most: int
) -> None:
    schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), bytes=pa.int64())
    page = Page.of(schema, {"ts": [start], "end_ts": [start + length], "bytes": [1000 * length]})
    found = rows(drive(Spread(("bytes",), step=step, origin=origin, into="at", max_panes=most), [page]))
    assert len(found) <= most
    begins = [int(str(row["at"])) for row in found]
    assert begins[0] == start
    # A part is whole panes, and as many bytes as there are ticks in it.
    widths = {b - a for a, b in pairwise(begins[1:])}
    assert len(widths) <= 1 and all(width % step == 0 for width in widths)
    assert all((at - origin) % step == 0 for at in begins[1:])
    for row, at, to in zip(found, begins, [*begins[1:], start + length], strict=True):
        assert row["bytes"] == 1000 * (to - at)


def test_a_promise_on_the_start_lets_flows_reach_back_and_one_on_the_end_alone_does_not() -> None:
    kinds = {name: pa.int64() for name in ("ts", "end_ts", "k", "bytes")}
    for promised, needed in (
        (["ts"], False), (["end_ts"], True), (["ts", "end_ts"], False), ([("k", "ts"), "end_ts"], True),
        ([("k", "ts"), ("k", "end_ts")], False), (["ts", ("k", "end_ts")], False), ([("ts", "end_ts")], True),
        ([("ts", "end_ts"), "ts"], False), (["k"], False), ([], False),
    ):  # fmt: skip
        schema = Schema.of(**kinds, progress=promised)
        assert needs_reach(schema, "ts", "end_ts") == needed, promised
        if not needed:
            # Nothing is promised of parts that was not of the start, and the end still of itself.
            progress = Spread(("bytes",), step=5, into="at").output_schema(schema).progress
            assert {p for p in progress if "at" in p} == {
                p - {"ts"} | {"at"} for p in schema.progress if "ts" in p and "end_ts" not in p
            }


def test_floating_amounts_add_up_up_to_rounding_and_times_keep_their_type() -> None:
    kind = pa.timestamp("ns", "UTC")
    schema = Schema.of(ts=kind, end_ts=kind, load=pa.float32(), progress=["ts"])
    page = Page.of(schema, {"ts": [3], "end_ts": [10**10], "load": [1.5]})
    operator = Spread(("load",), step=10**9, into="at")
    (out, *_) = drive(operator, [page, END])
    assert isinstance(out, Page)
    assert out.schema.arrow == operator.output_schema(schema).arrow
    np.testing.assert_allclose(sum(float(str(row["load"])) for row in out.rows()), 1.5, rtol=1e-6)


def test_a_page_of_long_flows_is_cut_into_pages() -> None:
    schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), bytes=pa.int64())
    page = Page.of(schema, {"ts": [0] * 100, "end_ts": [3000] * 99 + [0], "bytes": [10**9] * 100})
    found = drive(Spread(("bytes",), step=1), [page])
    lengths = [len(e) for e in found if isinstance(e, Page)]
    assert sum(lengths) == 99 * 3000 + 1
    assert max(lengths) <= 1 << 16
    assert sum(int(str(row["bytes"])) for row in rows(found)) == 100 * 10**9


def test_promises_on_both_ends_promise_the_time_of_parts() -> None:
    operator = Spread(("bytes",), step=10, into="at", reach=4)
    script = [
        before("ts", 5), before("end_ts", 41), Punctuation({"k": Equals("a"), "ts": Below(19)}),
        Punctuation({"ts": Below(50), "end_ts": Below(90)}), before("bytes", 7), END,
    ]  # fmt: skip
    assert [str(p) for p in punctuations(drive(operator, script))] == [
        "[ts < 5]", "[at < 5]", "[end_ts < 41]", "[at < 10]", "[k = a, ts < 19]", "[at < 19, k = a]",
        "[end_ts < 90, ts < 50]", "[at < 50]", "[END]",
    ]  # fmt: skip
    progress = operator.output_schema(SCHEMA).progress
    assert progress == {frozenset(p) for p in (("ts",), ("end_ts",), ("k", "ts"), ("k",), ("at",), ("k", "at"))}
    # Where a flow may reach back as far as it likes, its end tells nothing of its parts.
    anywhere = attrs.evolve(operator, reach=None)
    assert [str(p) for p in punctuations(drive(anywhere, script))] == [
        "[ts < 5]", "[at < 5]", "[end_ts < 41]", "[k = a, ts < 19]", "[at < 19, k = a]", "[end_ts < 90, ts < 50]",
        "[END]",
    ]  # fmt: skip
    assert anywhere.output_schema(SCHEMA).progress == progress


def test_windows_over_parts_have_what_panes_have() -> None:
    rng = np.random.default_rng(4)
    n = 2000
    start = rng.integers(0, 5000, n)
    columns = {"ts": start, "end_ts": start + rng.integers(0, 900, n), "bytes": rng.integers(0, 10**6, n)}
    schema = Schema.of(ts=pa.int64(), end_ts=pa.int64(), bytes=pa.int64(), progress=["ts"])
    window = tumbling("ts", 100)

    def throughput(step: int) -> list[Row]:
        chain = Chain([Spread(("bytes",), step=step), Bucket(window), WindowAggregate(window, {"b": total("bytes")})])
        return rows(drive(chain, [Page.of(schema, columns), END]))

    # Finer panes do not move a window's share: the edges of windows are edges of panes in both.
    assert throughput(100) == throughput(20) == throughput(50)


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        (Spread(("bytes",), step=5, start="k"), '"k" has type string; a flow starts and ends at a time'),
        (Spread(("bytes",), step=5, end="packets"), '"ts" has type int64 and "packets" uint32'),
        (Spread(("k",), step=5), '"k" has type string; amounts that add up are numbers'),
        (Spread((), step=5), "name the attributes that are shared out"),
        (Spread(("ts",), step=5), '"ts" is a time of the flow'),
        (Spread(("bytes",), step=5, into="k"), 'the input already has an attribute "k"'),
        (Spread(("byte",), step=5), 'the input has no attribute "byte"'),
    ],
)
def test_what_does_not_fit_is_refused(operator: Spread, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        operator.output_schema(SCHEMA)


@attrs.define
class Trusting(Spread):
    """Promises the time of parts as if no flow reached back from its end."""

    def _reaching_back(self, end: int, reach: int) -> int:
        return end


@attrs.define
class Wishful(Spread):
    """Promises the time of parts by the end though flows reach back as far as they like."""

    def _images(self, promise: Punctuation) -> Iterator[Punctuation]:
        yield from Spread(self.columns, step=self.step, reach=1)._images(promise)


@attrs.define
class Closed(Spread):
    """Spreads one tick too far, as if a flow had its last tick's amount after its end."""

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        ends = pa.array([None if end is None else end + 1 for end in page.column("end_ts").to_pylist()], pa.int64())
        columns = {name: ends if name == "end_ts" else page.column(name) for name in page.schema.names}
        Spread.process(self, Page.of(page.schema, columns), emit)


@pytest.mark.parametrize("broken", mostly_slow([Trusting, Closed, Wishful], every=3))
def test_planted_bugs_are_caught(broken: type[Spread]) -> None:
    caught = 0

    @given(scripts)
    def attempt(script: Script) -> None:
        nonlocal caught
        reach = None if broken is Wishful else 4096
        good = Spread(AMOUNTS, step=2, reach=reach)
        try:
            check_operator(lambda: broken(AMOUNTS, step=2, reach=reach), script, naive=lambda table: naive(good, table))
        except OperatorBug:
            caught += 1

    attempt()
    assert caught > 0
