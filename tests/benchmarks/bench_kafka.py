"""Rows a second out of a topic of Kafka and into one, on librdkafka's own broker for tests in this process.

Run as `python -m tests.benchmarks.bench_kafka [rows] [runs]`. Messages have 1,000 rows each: three numbers and an
address. Each figure is of the best of the runs, by the clock and by the CPU time of the process. The broker is in that,
too, so the client alone is measured beside it. The broker keeps 5 MB of each of the 4 partitions of a topic, so there
are few rows; where not said otherwise, the start is left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, Producer, TopicPartition

import oop_engine as oop
from oop_engine.sinks import sink_for
from oop_engine.sources.kafka import Kafka
from oop_engine.sources.protocol import Snapshot
from operators.data.page import Page
from operators.data.schema import Schema
from punctuation import Punctuation

ROWS = 1000
PARTITIONS = 4
SCHEMA = Schema.of(ts="int64", srcPort="int32", srcIP="string", bytes="int64")


def pages(rows: int) -> list[Page]:
    """Return pages of flow records in order."""
    rng = np.random.default_rng(7)
    found: list[Page] = []
    for start in range(0, rows, 20 * ROWS):
        many = min(20 * ROWS, rows - start)
        hosts = pa.array([f"10.0.{n >> 8}.{n & 255}" for n in range(4096)])
        columns = {
            "ts": pa.array(np.arange(start, start + many) // ROWS),
            "srcPort": pa.array(rng.integers(1, 65_536, many), pa.int32()),
            "srcIP": hosts.take(pa.array(rng.integers(0, 4096, many))),
            "bytes": pa.array(rng.integers(40, 1_000_000, many)),
        }
        found.append(Page(SCHEMA, pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA.arrow)))
    return found


def measured(runs: int, work: Callable[[], Iterator[int]]) -> tuple[float, float]:
    """Return the most rows by the second and by the CPU second, behind the first thing that each run yields."""
    walls: list[float] = []
    times: list[float] = []
    for _ in range(runs):
        steps = work()
        begun = next(steps)
        wall, cpu, last = perf_counter(), process_time(), begun
        for done in steps:
            last = done
        walls.append((last - begun) / (perf_counter() - wall))
        times.append((last - begun) / (process_time() - cpu))
    return max(walls), max(times)


def report(what: str, found: tuple[float, float]) -> None:
    print(f"{what:32} {found[0] / 1e6:6.2f} M rows/s by the clock, {found[1] / 1e6:6.2f} M rows a CPU second")


def consumed(broker: str, topic: str, messages: int) -> Iterator[int]:
    """Read a topic with the client alone."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "bench", "queued.max.messages.kbytes": 1 << 16})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found = 0
    yield 0
    while found < messages:
        for _message in consumer.consume(10_000, 0.1):
            found += 1
        yield found * ROWS
    consumer.close()


def produced(broker: str, topic: str, values: list[bytes]) -> None:
    """Write a topic with the client alone."""
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 5, "enable.idempotence": True})
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def decoded(place: str, expected: int) -> Iterator[int]:
    """Read a topic as a stream does."""
    total = rows = 0
    for chunk in Kafka.named(place).open(SCHEMA.names, ROWS).chunks():
        if not isinstance(chunk, Punctuation | Snapshot | Page) and len(chunk):
            total, rows = total + pc.sum(chunk.column("bytes")).as_py(), rows + len(chunk)
            yield rows
    assert total == expected, "all rows are read, once"


def summed(place: str, expected: int) -> Iterator[int]:
    """Read a topic and sum it by windows and addresses."""
    yield 0
    stream = oop.read(place, punctuate=oop.by_key("partition", slack=0, idle=10**9))
    found = stream.window(range=10).aggregate(oop.sum("bytes"), oop.count(), by="srcIP").to_arrow()
    assert pc.sum(found["sum_bytes"]).as_py() == expected, "all rows are read, once"
    yield pc.sum(found["count"]).as_py()


def written(place: str, given: Sequence[Page]) -> Iterator[int]:
    """Write pages to a topic as a sink does."""
    with sink_for(place).opened(SCHEMA) as deliver:
        deliver(given[0])  # with which the producer gets its number
        yield len(given[0])
        for page in given[1:]:
            deliver(page)
    yield sum(map(len, given))


def by_client(broker: str, topic: str, values: list[bytes]) -> Iterator[int]:
    yield 0
    produced(broker, topic, values)
    yield ROWS * len(values)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    found = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    broker = f"{found.host}:{found.port}"
    given = pages(rows)
    total = sum(int(np.sum(page["bytes"])) for page in given)
    for form in ("arrow", "json"):
        starts = [(page, start) for page in given for start in range(0, len(page), ROWS)]
        values = [encoded(page.slice(start, min(start + ROWS, len(page))), form) for page, start in starts]
        print(f"{form}: {rows:,} rows, {len(values):,} messages of {sum(map(len, values)) // len(values):,} bytes")
        produced(broker, form, values)
        place, out = f"kafka://{broker}/{form}?format={form}&until=end", f"kafka://{broker}/out-{form}?format={form}"
        report("  the client alone reads", measured(runs, partial(consumed, broker, form, len(values))))
        report("  read and decoded", measured(runs, partial(decoded, place, total)))
        report("  read, summed, with the start", measured(runs, partial(summed, place, total)))
        report("  the client alone writes", measured(runs, partial(by_client, broker, f"raw-{form}", values)))
        report("  encoded and written", measured(runs, partial(written, f"{out}&rows={ROWS}", given)))


def encoded(page: Page, form: str) -> bytes:
    """Return a message, as another program writes it."""
    if form == "json":
        return "\n".join(json.dumps(row) for row in page.batch.to_pylist()).encode()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, page.batch.schema) as writer:
        writer.write_batch(page.batch)
    return sink.getvalue().to_pybytes()


if __name__ == "__main__":
    main()
