"""What goes into a ring comes out of it, in order and whole, or is counted."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan, source_node
from oop_engine.processes import Receiver, Ring, RingSource, Sender
from oop_engine.processes.ring import LEAST
from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from operators.protocol import Element
from operators.testing import Script, streams
from punctuation import END, Below, Equals, OneOf, Punctuation, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts")])


@given(st.lists(st.one_of(st.binary(max_size=900), st.integers(1, 4)), max_size=60))
def test_frames_come_out_as_they_went_in_however_reads_and_writes_mix(steps: list[bytes | int]) -> None:
    ring = Ring.create(LEAST)
    written: list[bytes] = []
    read: list[bytes] = []
    for step in steps:
        if isinstance(step, bytes):
            if ring.write(7, step):
                written.append(step)
            else:
                assert ring.used > 0
        else:
            frames = [frame for _ in range(step) if (frame := ring.read()) is not None]
            read += [content.to_pybytes() for kind, content in frames if kind == 7]
        assert 0 <= ring.used <= ring.capacity
    while (frame := ring.read()) is not None:
        read.append(frame[1].to_pybytes())
    assert read == written
    assert ring.used == 0
    ring.close()


@given(streams(SCHEMA, group=("k",), tuples=8))
def test_elements_come_out_as_they_went_in(script: Script) -> None:
    ring = Ring.create(1 << 16)
    sender, receiver = Sender(ring), Receiver(ring)
    for _, element in script:
        sender.send(element)
    found = list(receiver.frames())
    ring.close()
    assert [_shown(e) for e in found] == [_shown(e) for _, e in script]
    if receiver.schema is not None:
        assert receiver.schema == SCHEMA


def _shown(element: Element | str) -> object:
    if isinstance(element, Page):
        return element.rows()
    return (element, element.assumed)


def test_promises_of_every_kind_cross() -> None:
    ring = Ring.create(1 << 12)
    promises = [
        before("ts", 2**62, assumed=True),
        Punctuation({"k": Equals(b"\x00\xff"), "ts": Below(-5)}),
        Punctuation({"k": OneOf(frozenset(("a", "b")))}),
        END,
    ]
    for promise in promises:
        Sender(ring).send(promise)
    found = list(Receiver(ring).frames())
    assert found == promises
    assert [p.assumed for p in found if isinstance(p, Punctuation)] == [True, False, False, False]


def test_a_page_too_large_for_a_frame_is_cut() -> None:
    schema = Schema(pa.schema([ip_field("a"), pa.field("n", pa.int64())]))
    page = Page.of(schema, {"a": [bytes([i % 7]) * 16 for i in range(500)], "n": np.arange(500)})
    ring = Ring.create(1 << 13)
    got: list[int] = []
    reader = Receiver(ring)

    def take() -> None:
        got.extend(int(n) for e in reader.frames() if isinstance(e, Page) for n in e["n"])

    Sender(ring, waiting=take).send(page)
    take()
    assert got == list(range(500))
    assert reader.schema is not None
    assert reader.schema.arrow.equals(schema.arrow, check_metadata=True)
    with pytest.raises(ValueError, match=r"one tuple is .* bytes, and a frame of a ring of 8,192 bytes"):
        wide = Schema.of(a=pa.string())
        Sender(ring).send(Page.of(wide, {"a": ["x" * 9000]}))


def test_pages_without_room_are_dropped_and_counted_but_promises_wait() -> None:
    ring = Ring.create(1 << 13)
    sender, receiver = Sender(ring, "drop"), Receiver(ring)
    page = Page.of(SCHEMA, {"ts": [1] * 50, "k": ["a"] * 50, "v": [2] * 50})
    for _ in range(10):
        sender.send(page)
    counters = ring.counters
    assert counters["dropped_pages"] == counters["dropped_tuples"] // 50 > 0
    assert counters["most_bytes_used"] <= ring.capacity
    waited: list[Element | str] = []
    full = Sender(ring, "drop", lambda: waited.extend(receiver.frames()))
    for bound in range(200):
        full.send(before("ts", bound))
    found = waited + list(receiver.frames())
    pages = [e for e in found if isinstance(e, Page)]
    assert len(pages) == 10 - counters["dropped_pages"]
    assert [e for e in found if isinstance(e, Punctuation)] == [before("ts", bound) for bound in range(200)]


def test_a_writer_does_not_wait_for_a_reader_that_left() -> None:
    ring = Ring.create(LEAST)
    page = Page.of(SCHEMA, {"ts": [1, 2], "k": ["a", "b"], "v": [1, 2]})

    def write() -> None:
        sender = Sender(ring)
        for element in [page] * 100 + [before("ts", 3)] * 100 + [END]:
            sender.send(element)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    # Of the first tuple nothing later is needed, so the query ends long before its source.
    source = oop.Stream(source_node(RingSource(ring, SCHEMA.arrow, ("ts",))))
    run = Run(Plan((source.top(1, "ts", ascending=True).node,)))
    found = [row for _, element in run if isinstance(element, Page) for row in element.rows()]
    writer.join(60)
    assert not writer.is_alive()
    assert [row["ts"] for row in found] == [1]
    assert ring.left and ring.counters["dropped_pages"] == 0
    ring.clear()
    assert not ring.left and ring.used == 0 and ring.read() is None


def test_a_ring_has_a_size() -> None:
    with pytest.raises(ValueError, match="at least 4,096 bytes, a multiple of 16; 100 is neither"):
        Ring.create(100)


def test_a_writer_and_a_reader_at_once() -> None:
    ring = Ring.create(1 << 13)
    pages = [Page.of(SCHEMA, {"ts": [i] * 9, "k": ["x" * (i % 50)] * 9, "v": [i] * 9}) for i in range(2000)]

    def write() -> None:
        sender = Sender(ring)
        for page in [*pages, END]:
            sender.send(page)

    writer = threading.Thread(target=write)
    writer.start()
    run = Run(Plan((source_node(RingSource(ring, SCHEMA.arrow)),)))
    found = [element for _, element in run if isinstance(element, Page)]
    writer.join()
    assert [row for page in found for row in page.rows()] == [row for page in pages for row in page.rows()]
    assert run.circuit.notes() == ()


def test_a_source_out_of_a_ring_says_what_was_dropped() -> None:
    ring = Ring.create(1 << 13)
    sender = Sender(ring, "drop")
    for bound in range(40):
        sender.send(Page.of(SCHEMA, {"ts": [bound] * 30, "k": ["a"] * 30, "v": [1] * 30}))
        if bound == 3:
            sender.send(before("ts", 3))
    dropped = ring.counters["dropped_tuples"]
    assert 0 < dropped < 40 * 30
    receiver = threading.Thread(target=sender.send, args=(END,))
    receiver.start()
    source = oop.Stream(source_node(RingSource(ring, SCHEMA.arrow, ("ts",))))
    run = Run(Plan((source.window(range=5).aggregate(oop.count()).node,)))
    total = sum(int(element["count"].sum()) for _, element in run if isinstance(element, Page))
    receiver.join()
    assert total + dropped == 40 * 30
    (note,) = run.circuit.notes()
    assert f"{dropped:,} of 1,200 tuples" in note


def test_a_ring_is_read_while_another_one_waits_for_that() -> None:
    """Who writes to both waits for room in the one before it writes to the other."""
    rings = [Ring.create(1 << 14) for _ in range(2)]
    looks = 0

    def watch() -> None:
        nonlocal looks
        looks += 1
        if looks > 5_000:
            raise RuntimeError("the first ring is waited for, and the second one is not read")
        if rings[1].used == 0 and looks < 10_000:
            looks = 10_000
            Sender(rings[0]).send(END)

    schema = Schema.of(ts=pa.int64(), progress=["ts"])
    for element in (Page.of(schema, {"ts": [1, 2]}), before("ts", 5), END):
        Sender(rings[1]).send(element)
    first, second = (
        oop.Stream(source_node(RingSource(ring, schema.arrow, ("ts",), f"ring {number}", see)))
        for number, (ring, see) in enumerate(zip(rings, (watch, lambda: None), strict=True))
    )
    found = [element for _, element in Run(Plan((oop.meld(first, second).node,))) if isinstance(element, Page)]
    assert sum(map(len, found)) == 2
    for ring in rings:
        ring.close()
