"""Interface counters that agents of sFlow send are a live stream of their own, with the answer of their datagrams."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.errors import SourceError
from oop_engine.sources.live import LiveCounters
from oop_engine.sources.protocol import Chunk
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
