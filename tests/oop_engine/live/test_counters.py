"""Interface counters that agents of sFlow send are a live stream of their own, with the answer of their datagrams."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows import counter_samples as c
from oop_engine.sources.live import LiveCounters
from oop_engine.sources.live.lost_samples import LostSamples
from oop_engine.sources.protocol import Chunk
from operators.data.saved import decode_state, encode_state
from punctuation import Punctuation
from tests.oop_engine.flows.exporter import v5, v5_record
from tests.oop_engine.flows.test_flow_counters import datagram, record, sample
from tests.oop_engine.live.collector import bound, senders
from tests.oop_engine.live.test_collect import COLLECT, Collector
from tests.oop_engine.live.test_collect import rows as csv_rows


def counters(number: int, second: int = 0) -> bytes:
    one = record({"if_index": number, "if_speed": 1_000_000, "in_bytes": 25_000 * second})
    return datagram(sample(one, sequence=second))


def rows(chunks: list[Chunk], *names: str) -> list[tuple[object, ...]]:
    batches = [chunk for chunk in chunks if isinstance(chunk, pa.RecordBatch) and len(chunk)]
    return [tuple(row[name] for name in names) for batch in batches for row in batch.to_pylist()]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(1, 3))
def test_what_agents_send_to_any_socket_is_read_and_no_promise_is_broken(numbers: list[int], sockets: int) -> None:
    places = [bound() for _ in range(sockets)]
    source = LiveCounters(tuple(places), most=len(numbers) + 1)
    reader = source.open(source.arrow.names, 100)
    with senders("127.0.0.1") as (agent,):
        for k, number in enumerate(numbers):
            agent.sendto(counters(number, k), places[k % sockets].getsockname())
        agent.sendto(v5([v5_record()]), places[0].getsockname())
    chunks = list(reader.chunks())
    assert sorted(rows(chunks, "sequence", "if_index")) == list(enumerate(numbers))
    bound_so_far = 0
    for chunk in chunks:
        if isinstance(chunk, Punctuation):
            told = chunk.bound("ts")
            assert isinstance(told, int) and told > bound_so_far
            bound_so_far = told
        elif isinstance(chunk, pa.RecordBatch) and len(chunk):
            assert min(chunk.column("ts").cast(pa.int64()).to_pylist()) >= bound_so_far
    assert any("1 datagrams of other protocols left out" in note for note in reader.notes())


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300)), max_size=40), st.data())
def test_samples_that_do_not_come_are_counted_by_their_numbers(
    samples: list[tuple[int, int]], data: st.DataObject
) -> None:
    counted = LostSamples()
    for which, number in samples:
        rows = np.zeros((1, c.WIDTH), np.int64)
        rows[0, [c.C_LOW, c.C_FIRST, c.C_SEQUENCE]] = which // 2, which, number
        counted.take(rows)
        match data.draw(st.sampled_from(["take", "count", "go on"])):
            case "count":
                counted.count()
            case "go on":
                state = decode_state(encode_state(counted.state()))
                counted = LostSamples()
                counted.restore(state)
    counted.count()
    assert counted.lost == naive_lost(samples)


def naive_lost(samples: list[tuple[int, int]]) -> int:
    """Count the numbers that are missing: a late one is no longer, and one that is far lower begins anew."""
    highest, missing = dict[int, int](), 0
    for which, number in samples:
        before = highest.get(which)
        if before is None or number < before - 100:
            highest[which] = number
        elif number > before:
            missing += number - before - 1
            highest[which] = number
        else:
            missing -= 1
    return max(0, missing)


def test_a_collection_of_counters_goes_on_after_a_kill(tmp_path: Path) -> None:
    options = (
        "--counters", "--to", str(tmp_path / "out.csv"), "--checkpoint", str(tmp_path / "job"), "--journal", "10ms",
        "--query", "SELECT if_index, count(*) AS n, max(in_bytes) AS high [RANGE 10 hours, WA ts] FROM C"
        " GROUP BY if_index",
    )  # fmt: skip
    started = Collector(*options, command=COLLECT)
    try:
        with senders("127.0.0.1") as (agent,):
            for second in range(3):
                agent.sendto(counters(7, second), ("127.0.0.1", started.port))
            journal = tmp_path / "job" / "journal"
            until = time.monotonic() + 30
            while sum(file.read_bytes().count(b"\xc0\x00\x02\x07") for file in journal.rglob("*.segment")) < 3:
                assert time.monotonic() < until
            started.process.kill()
            started.process.communicate()
            started = Collector(*options, "--most", "5", command=COLLECT)
            for second in (4, 5):
                agent.sendto(counters(7, second), ("127.0.0.1", started.port))
        _, err = started.end(interrupt=False)
    finally:
        started.process.kill()
        started.process.communicate()
    (row,) = csv_rows((tmp_path / "out.csv").read_text())
    assert (row["n"], row["high"], row["incomplete"]) == ("5", str(25_000 * 5), "true")
    assert "after 3 datagrams of its journal" in err
    assert "1 counter samples were sent and did not come, by their numbers" in err


def test_utilisation_is_asked_of_a_live_stream() -> None:
    listening = bound()
    with senders("127.0.0.1") as (agent,):
        for second in range(5):
            agent.sendto(counters(1, second), listening.getsockname())
    text = (
        "SELECT if_index, (max(in_bytes) - min(in_bytes)) * 8 AS bits, max(if_speed) AS speed"
        " [RANGE 10 minutes, WA ts] FROM C GROUP BY if_index"
    )
    found = oop.query(text, C=oop.sflow_counters(listen=listening, most=5)).to_arrow().to_pylist()
    assert [(row["bits"], row["speed"]) for row in found] == [(800_000, 1_000_000)]


def test_agents_that_are_not_allowed_are_counted() -> None:
    listening = bound()
    with senders("127.0.0.1", "127.0.0.9") as (good, bad):
        for agent in (good, bad, bad):
            agent.sendto(counters(1), listening.getsockname())
    stream = oop.sflow_counters(listen=listening, allow="127.0.0.1", most=3)
    statistics = stream.filter("if_index > 0").to(lambda page: None).run()
    assert statistics.tuples == 1
    assert any("2 datagrams refused, of senders that allow does not name" in note for note in statistics.notes)


def test_counters_are_collected_from_the_command_line() -> None:
    collector = Collector("--counters", "--most", "3", command=COLLECT)
    try:
        with senders("127.0.0.1") as (agent,):
            for second in range(3):
                agent.sendto(counters(7, second), ("127.0.0.1", collector.port))
        out, err = collector.end(interrupt=False)
    finally:
        collector.process.kill()
        collector.process.communicate()
    (row,) = csv_rows(out)
    assert (row["exporter"], row["if_index"], row["speed"], row["in_bits"]) == ("192.0.2.7", "7", "1000000", "400000")
    assert "3 datagrams received" in err


def test_what_had_arrived_when_the_end_came_is_read() -> None:
    listening = bound()
    reader = LiveCounters((listening,)).open(["if_index"], 100)
    chunks = reader.chunks()
    next(chunks)
    with senders("127.0.0.1") as (agent,):
        for number in range(1500):
            agent.sendto(counters(number), listening.getsockname())
    reader.stop()
    assert sorted(rows(list(chunks), "if_index")) == [(number,) for number in range(1500)]


def test_what_does_not_go_together_is_refused() -> None:
    for options, says in (
        ({}, "or where to listen"),
        ({"listen": "127.0.0.1:0", "slack": "1 s"}, "promises ts by the clock"),
        ({"listen": "tcp://127.0.0.1:0"}, "come in datagrams"),
        ({"listen": "0.0.0.0:0"}, "takes datagrams from whoever"),
    ):
        with pytest.raises((oop.PlanError, SourceError), match=says):
            oop.sflow_counters(**options)  # type: ignore[arg-type]
