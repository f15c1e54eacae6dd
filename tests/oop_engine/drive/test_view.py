"""A view says of a run what it has counted, with what its open windows wait for, as data that JSON can hold."""

from __future__ import annotations

import json
import threading

import attrs

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.drive.view import EXPORTERS, VERSION, WINDOWS, View, Viewer, view
from oop_engine.plan.graph import Plan
from oop_engine.sources.flows.counters import ExporterCounters
from oop_engine.sources.live.report import ExporterReport
from operators.data.page import Page

SECOND = 10**9
SCHEMA = oop.Schema.of(ts="timestamp[ns]", k="string")


def two_links(*, hostile: str = "slow") -> oop.Stream:
    """Make two links, one of which allows 20 s of slack and so holds back what the other has promised."""
    fast = oop.rows(iter([(t * SECOND, "a") for t in (30, 75, 91)]), SCHEMA, name="fast", punctuate=oop.ordered())
    slow = oop.rows(
        iter([(t * SECOND, "b") for t in (31, 41, 59, 72)]), SCHEMA, name=hostile, punctuate=oop.slack("20 s")
    )
    return oop.meld(fast, slow).window(range="10 s").aggregate(oop.count(), by="k")


def seen(stream: oop.Stream) -> View:
    """Look at a run after the first page of its output."""
    run = Run(Plan((stream.node,)), 1)
    next(element for _, element in run if isinstance(element, Page))
    return view(run.circuit, now=100 * SECOND)


def test_a_view_says_how_far_each_node_is_and_how_far_behind() -> None:
    found = seen(two_links())
    fast, slow = found.sources
    assert (fast.label, slow.label, found.state) == ("fast", "slow", "running")
    assert fast.promised is not None and slow.promised is not None and slow.highest is not None
    assert (slow.promised.number, slow.highest.number) == (50, 72)
    assert slow.promised.text == "1970-01-01T00:00:50Z" and slow.promised.time
    assert slow.policy == "drop" and slow.live and not slow.ended and slow.silent is not None
    meld = next(node for node in found.nodes if node.label == "meld of 2")
    assert meld.low_watermark is not None and meld.low_watermark.number == slow.promised.number
    assert meld.lag == max(s.highest.number for s in found.sources if s.highest) - slow.promised.number
    assert meld.kind == "operator" and meld.tuples_in == sum(e.tuples for e in found.edges if e.reader == meld.place)


def test_a_view_lists_open_windows_with_what_they_need_and_who_has_not_promised_it() -> None:
    found = seen(two_links())
    (windowed,) = [node for node in found.nodes if node.open_windows is not None]
    assert windowed.open_windows == len(windowed.windows) > 1
    first = windowed.windows[0]
    assert first.needs == f"[ts < {first.end.text}]" and first.group in ({"k": "a"}, {"k": "b"})
    assert first.waits_for == ("slow",)
    wait = found.outputs[0].wait
    assert wait is not None and wait.holder == "slow" and wait.needs == first.needs


def test_a_view_lists_the_windows_that_end_first_and_counts_all() -> None:
    rows = [(t, str(t)) for t in range(0, 400, 10)]
    stream = oop.rows(iter([*rows, (410, "x")]), oop.Schema.of(ts="int64", k="string"), punctuate=oop.slack(395))
    found = seen(stream.window(range=10).aggregate(oop.count(), by="k"))
    (windowed,) = [node for node in found.nodes if node.open_windows is not None]
    assert windowed.open_windows is not None and windowed.open_windows > WINDOWS == len(windowed.windows)
    ends = [window.end.tick for window in windowed.windows]
    assert ends == sorted(ends) and not windowed.windows[0].end.time


def test_an_edge_that_is_that_of_the_stream_is_drawn_as_far_as_the_sources_are() -> None:
    def next_edge(tick: int) -> int:
        return next((edge for edge in (0, 40 * SECOND) if tick < edge), 2**61)

    def rows() -> oop.Stream:
        times = iter([(t * SECOND, "a") for t in (30, 75, 91)])
        return oop.rows(times, SCHEMA, name="link", punctuate=oop.ordered())

    last = seen(rows().window(oop.edges(next_edge)).aggregate(oop.count(), by="k"))
    (window,) = [window for node in last.nodes for window in node.windows]
    assert (window.start.number, window.end.text, window.needs) == (40, "end of stream", None)
    assert 40 <= window.end.number <= 91 and window.waits_for == ("link",)
    wait = last.outputs[0].wait
    assert wait is not None and "end of stream" in str(wait) and "2262" not in last.to_json()
    whole = seen(rows().window(range="ALL", slide="50 s").aggregate(oop.count(), by="k"))
    (window, *_) = [window for node in whole.nodes for window in node.windows]
    assert window.start.text == "begin of stream" and 0 < window.start.number <= window.end.number


def test_text_of_others_is_printable_and_json_reads_it_back() -> None:
    found = seen(two_links(hostile="<b>\x1b[31m\u202e"))
    read = json.loads(found.to_json())
    assert read == found.plain() and read["version"] == VERSION
    assert read["sources"][1]["label"] == "<b>\\x1b[31m\\u202e"
    assert read["outputs"][0]["wait"]["text"] == str(found.outputs[0].wait)
    assert set(read) == {"version", *(field.name for field in attrs.fields(View))}


def test_rates_are_since_the_last_look_and_costly_answers_are_asked_for_seldom() -> None:
    now = 0.0
    run = Run(Plan((two_links().node,)), 1)
    viewer = Viewer(run.circuit, clock=lambda: now)
    assert viewer.look().state == "beginning" and viewer.look().nodes == ()
    given = iter(run)
    next(given)
    one = viewer.look()
    assert all(node.rate is None or node.rate >= 0 for node in one.nodes)
    for _ in given:
        pass
    now += 1e-6
    two = viewer.look()
    taken = [b.tuples_in - a.tuples_in for a, b in zip(one.nodes, two.nodes, strict=True)]
    assert [round((node.rate or 0.0) * 1e-6) for node in two.nodes] == taken and any(taken)
    # The run has ended, so what it waits for is asked for at once.
    assert two.state == "ended" and [o.wait.cause for o in two.outputs if o.wait] == ["ended"]
    assert all(node.open_windows in (None, 0) and node.ended for node in two.nodes)


def test_what_waits_for_a_consumer_is_counted() -> None:
    released, waiting = threading.Event(), list[int]()
    stream = oop.rows([(t, "a") for t in range(40)], oop.Schema.of(ts="int64", k="string"))

    def watch(circuit: Circuit) -> None:
        waiting.extend(output.waiting_pages or 0 for output in view(circuit).outputs)
        if waiting and waiting[-1]:
            released.set()

    run_to_end(
        Plan((stream.filter("ts >= 0").node,)), (lambda element: bool(released.wait(20)),), page_rows=1, watch=watch
    )
    assert released.is_set() and max(waiting) > 1


class Heard:
    """A reader that hears exporters, the second of which is behind."""

    def exporters(self) -> list[ExporterReport]:
        names = [f.name for f in attrs.fields(ExporterCounters)]
        zero = dict.fromkeys(names, 0) | {"malformed": {}, "version": 10, "channel": 2055}
        return [
            ExporterReport(
                ExporterCounters(**zero | {"address": bytes(12) + bytes([192, 0, 2, n % 250]), "datagrams": n}),
                "live", skew=n * SECOND, trails=n * SECOND, last=40 * SECOND, active=60 * SECOND,
            )
            for n in range(EXPORTERS + 5)
        ]  # fmt: skip

    def progress(self) -> tuple[int, int | None]:
        return 0, None


def test_exporters_come_furthest_behind_first_in_seconds_and_all_are_counted() -> None:
    run = Run(Plan((two_links().node,)), 1)
    next(iter(run))
    run.circuit.readers[0] = Heard()  # pyright: ignore[reportArgumentType]
    found = view(run.circuit, now=100 * SECOND)
    assert found.heard == EXPORTERS + 5 and len(found.exporters) == EXPORTERS
    first = found.exporters[0]
    assert (first.behind, first.skew, first.silent, first.active, first.inactive) == (204.0, 204.0, 60.0, 60.0, None)
    assert first.protocol == "IPFIX" and first.source == 0
