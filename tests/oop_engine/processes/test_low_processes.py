"""A low level in several processes gives what one level gives, and operators behind it see a stream like any other."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.plan.graph import Plan, SourceNode, source_node
from oop_engine.processes import ProcessError, Ring, RingSource, apart
from oop_engine.processes.apart import Layout, aparts_of, with_levels_apart
from oop_engine.processes.spec import dump_high, dump_low, load, load_low
from oop_engine.processes.workers import InProcess
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.demanded_progress import Endless
from oop_engine.sources.live.source import LiveFlows
from oop_engine.sources.protocol import Reader
from oop_engine.spark.refused import check_sources
from operators.data.page import Page
from operators.drive import drive, rows
from operators.protocol import Element
from operators.testing import Script, streams
from operators.window import Window
from operators.window_aggregate.partial_final import Flush, LowAggregate, two_level
from tests.examples import mostly_slow
from tests.naive_aggregate import naive_windows
from tests.oop_engine.processes.test_apart import LAYOUTS, N, counted, one_level, packets, shown
from tests.operators.two_level.test_two_level import ANSWERS, FUNCTIONS, SCHEMA, flushes, sizes, windows


@given(
    windows, st.sampled_from([(), ("k",), ("k", "v")]), sizes, flushes, streams(SCHEMA, group=("k",), tuples=10),
    st.lists(st.integers(0, 2), min_size=1), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_pages_may_go_to_any_of_several_low_levels_that_were_written_down(
    window: Window, by: tuple[str, ...], size: int, flush: Flush, script: Script, turns: list[int], ports: int,
    counted: bool,
) -> None:  # fmt: skip
    both = two_level(window, FUNCTIONS, by, schema=SCHEMA, size=size, flush=flush, counted=counted)
    lows = [load(json.loads(json.dumps(dump_low(both.low)))) for _ in range(ports)]
    high = load(json.loads(json.dumps({**dump_high(both.high), "ports": ports})))
    partials: list[tuple[int, Element]] = []
    for number, (_, element) in enumerate(script):
        for tagged in drive(both.bucket, [element]):
            page = isinstance(tagged, Page)
            for port in (turns[number % len(turns)] % ports,) if page else range(ports):
                partials += [(port, partial) for partial in drive(lows[port], [tagged])]
    found = drive(high, partials)
    assert sorted(map(str, rows(found))) == sorted(map(str, naive_windows(window, ANSWERS, by, script.tables()[0])))
    assert [element for element in found if not isinstance(element, Page)][-1].is_end


@given(st.sampled_from([(), ("k",)]), st.integers(1, 1 << 20), st.integers(1, 9), flushes)
def test_a_low_level_is_written_down_and_made_again(by: tuple[str, ...], size: int, probes: int, flush: Flush) -> None:
    low = LowAggregate(FUNCTIONS, by, size=size, probes=probes, flush=flush, page_rows=99)
    assert load_low(json.loads(json.dumps(dump_low(low)))) == low


@pytest.mark.parametrize("layout", mostly_slow(LAYOUTS, every=3))
def test_several_low_levels_give_what_one_level_gives(layout: Layout) -> None:
    both = apart(counted(packets(), "two_level"), layout=layout, low=2, ring_bytes=1 << 16)
    elements = list(both)
    assert shown(elements) == one_level()
    assert not isinstance(elements[-1], Page) and elements[-1].is_end
    names = ["low level 1", "low level 2", *(["high level"] if layout == "process" else [])]
    assert list(both.cpu()) == names
    assert all(seconds > 0 for seconds in both.cpu().values())
    assert both.counters()["dropped_tuples"] == 0


Behind = Callable[[oop.Stream], oop.Stream]


def filtered(results: oop.Stream) -> oop.Stream:
    return results.filter("count > 2").project("name", "wid", twice=lambda p: 2 * p["count"])


def joined(results: oop.Stream) -> oop.Stream:
    hosts = packets().window(range="1 s").aggregate(oop.max("length"), by="name")
    return results.join(hosts, on="name", tumbling="1 s", wattr="window_end")


def in_sessions(results: oop.Stream) -> oop.Stream:
    busy = results.filter("count > 6")
    return busy.window(oop.session("2 s", wattr="window_end")).aggregate(oop.sum("count"), by="name")


def by_name(strategy: str) -> oop.Stream:
    return packets().window(range="1 s").aggregate(oop.count(), by="name", strategy=strategy)


@pytest.mark.parametrize("behind", [filtered, joined, in_sessions])
@pytest.mark.parametrize(
    ("layout", "low"),
    [("here", 0), ("thread", 0), *mostly_slow([("thread", 2), ("process", 2), ("process", 0)], every=3)],
)
def test_filters_joins_and_sessions_stand_behind_results(behind: Behind, layout: Layout, low: int) -> None:
    expected = shown(behind(by_name("wid")))
    assert expected
    results = apart(by_name("two_level"), layout=layout, low=low)
    assert results.stream().schema == by_name("wid").schema
    assert shown(behind(results.stream())) == expected
    if layout == "here":
        # Each run computes it anew, under the runtime too.
        assert len(behind(results.stream()).to_arrow()) == len(expected)


def test_what_several_low_levels_lack_room_for_is_counted_in_tuples() -> None:
    stream = packets().window(range="4 s").aggregate(oop.count(), by="srcIP", strategy="two_level")
    results = apart(stream, layout="here", low=2, ring_bytes=1 << 12, full="drop")
    run = Run(prepared(results.stream().node))
    total = sum(int(element["count"].sum()) for _, element in run if isinstance(element, Page))
    lost = results.counters()["dropped_tuples"]
    assert 0 < lost == N - total
    (note,) = run.circuit.notes()
    assert f"rings between levels were full: {lost:,} tuples, in " in note


@pytest.mark.parametrize("layout", ["here", pytest.param("process", marks=pytest.mark.slow)])
def test_a_low_level_that_was_killed_is_named(layout: Layout) -> None:
    def kill(page: Page) -> npt.NDArray[np.bool_]:
        if len(page):
            assert isinstance(both.worker, InProcess)
            os.kill(both.worker.levels.processes[1].pid, signal.SIGKILL)
        return np.ones(len(page), np.bool_)

    # It is killed while tuples are read, before it can have been told that there are no more.
    both = apart(counted(packets().filter(kill), "two_level"), layout=layout, low=2, ring_bytes=1 << 14)
    told = r"the process of low level 2 \(pid \d+\) was ended by signal 9 before[^$]*or write low=0."
    with pytest.raises(ProcessError, match=told):
        list(both)
    assert isinstance(both.worker, InProcess)
    for process in both.worker.levels.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


@pytest.mark.parametrize("layout", ["here", pytest.param("process", marks=pytest.mark.slow)])
def test_an_error_of_a_low_level_reaches_its_reader_through_the_high_one(layout: Layout) -> None:
    # The name fits into a frame of tuples, and with a partial sum no more.
    ring = 1 << 13
    stream = oop.arrow(pa.table({"ts": [1, 2], "name": ["x" * (ring // 2 - 600), "y"], "v": [1.5, 2.5]}))
    both = apart(
        stream.window(range=10).aggregate(oop.sum("v"), oop.min("v"), oop.max("v"), oop.variance("v"), by="name"),
        layout=layout, low=1, ring_bytes=ring,
    )  # fmt: skip
    with pytest.raises(
        ProcessError, match=r"the process of low level 1 \(pid \d+\) failed.\s+ValueError: one tuple is"
    ):
        list(both)


def test_a_run_of_several_processes_that_is_given_up_leaves_nothing_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    both = apart(counted(packets(), "two_level"), layout="here", low=2, ring_bytes=1 << 14)
    elements = iter(both.stream())
    next(elements)
    elements.close()  # type: ignore[attr-defined]
    assert isinstance(both.worker, InProcess)
    for process in both.worker.levels.processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_last_window_aggregates_of_a_query_run_apart_whatever_reads_their_results() -> None:
    def asked(name: str) -> oop.Stream:
        first = packets().window(range="1 s").aggregate(oop.count(), oop.max("length"), by=("name", "srcIP"))
        second = first.window(range="3 s", wattr="window_end").aggregate(oop.sum("count"), by=name)
        hosts = packets().window(range="3 s").aggregate(oop.avg("length"), by=name)
        return second.filter("sum_count > 3").join(hosts, on=name, tumbling="3 s", wattr="window_end")

    for name in ("name", "srcIP"):
        node = with_levels_apart(asked(name).node, layout="here", low=0)
        aparts = aparts_of(prepared(node))
        assert [one.label.partition(" by ")[0] for one in aparts] == ["aggregate sum(count)", "aggregate avg(length)"]
        found = shown(element for _, element in Run(prepared(node)))
        assert found == shown(asked(name))


def test_a_query_without_two_levels_or_that_reads_a_passing_stream_twice_is_refused() -> None:
    with pytest.raises(PlanError, match='the stream ends in "filter length > 9", not in a window aggregate'):
        with_levels_apart(packets().filter("length > 9").node, layout="here", low=0)
    once = oop.Stream(source_node(RingSource(Ring.create(1 << 12), packets().schema.arrow, ("ts",))))
    counts = once.window(range="1 s").aggregate(oop.count(), by="name")
    longest = once.window(range="1 s").aggregate(oop.max("length"), by="name")
    assert aparts_of(Plan((with_levels_apart(counts.node, layout="here", low=0),)))
    with pytest.raises(PlanError, match="reads a stream that comes only once in two places"):
        both = counts.join(longest, on="name", tumbling="1 s", wattr="window_end")
        with_levels_apart(both.node, layout="here", low=0)


def test_a_run_over_what_is_live_ends_when_it_is_told_to_and_no_other_can_be_told() -> None:
    def reader_of(stream: oop.Stream) -> Reader:
        results = apart(stream.window(range="1 s").aggregate(oop.count(), by="srcIP"), layout="here").stream()
        assert isinstance(results.node, SourceNode)
        return results.node.source.open(results.schema.names, 1_024)

    assert not isinstance(reader_of(packets()), Endless)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        readers: list[Endless] = []
        reader = reader_of(oop.Stream(source_node(LiveFlows(listening, opened=lambda _: readers[0].stop()))))
        assert isinstance(reader, Endless)
        readers.append(reader)
        assert not any(isinstance(chunk, pa.RecordBatch) for chunk in reader.chunks())


def test_results_of_processes_are_refused_on_spark() -> None:
    results = apart(by_name("two_level"), layout="here").stream().filter("count > 2")
    with pytest.raises(PlanError, match=r"on_spark: apart\(...\) is a run in processes of this machine"):
        check_sources(Plan((results.node,)), ())


@pytest.mark.parametrize("low", [-1, 65, True, "2"])
def test_a_number_of_processes_that_there_cannot_be_is_refused(low: int) -> None:
    with pytest.raises(PlanError, match="write how many processes have the low level, up to 64; 0 for none"):
        apart(by_name("two_level"), low=low)


@pytest.mark.parametrize("size", [0, -1, 4095, 2**40, 5000.0, True, "64 kB"])
def test_a_ring_of_no_usable_size_is_refused_before_the_run(size: Any) -> None:
    with pytest.raises(oop.PlanError, match=r"apart\(ring_bytes=.*\): write the size of a ring, from 4,096 to"):
        apart(counted(packets(), "two_level"), ring_bytes=size)


def test_a_ring_may_have_any_size_from_the_least_on() -> None:
    assert shown(apart(counted(packets(), "two_level"), low=1, layout="here", ring_bytes=65_537)) == one_level()
