"""Topics of Kafka are read from the offsets that a checkpoint keeps, and results are there once, or at least once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import oop_engine as oop
from oop_engine.sinks import SinkError, sink_for
from oop_engine.sinks.encoders import Arrow
from oop_engine.sinks.kafka import KafkaSink
from oop_engine.sinks.outbox import Delivery
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.kafka import Kafka
from oop_engine.sources.positions import Placing
from operators.data.address import parse_ip
from operators.data.page import Page
from operators.data.schema import Schema

SCHEMA = Schema.of(ts="int64", host="string", v="int64")


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """Run the brokers that librdkafka has for tests, in this process."""
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    found = next(iter(cluster.list_topics(timeout=10).brokers.values()))
    yield f"{found.host}:{found.port}"


def put(broker: str, topic: str, *messages: bytes | None, partition: int = 0) -> str:
    producer = Producer({"bootstrap.servers": broker, "log_level": 0})
    for message in messages:
        producer.produce(topic, message, partition=partition)
    assert producer.flush(10) == 0
    return f"kafka://{broker}/{topic}?until=end"


def told(broker: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return the keys and values of a topic."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test", "log_level": 0, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    found, ends = [], 0
    while ends < 4:
        for message in consumer.consume(100, 0.05):
            if message.error() is None:
                found.append((message.key(), message.value()))
            else:
                ends += 1
    consumer.close()
    return found


def lines(*rows: tuple[int, str, int]) -> bytes:
    return "\n".join(json.dumps(dict(zip(SCHEMA.names, row, strict=True))) for row in rows).encode()


def test_partitions_make_progress_of_their_own(broker):
    place = put(broker, "skewed", lines((100, "fast", 1), (109, "fast", 1)), lines((130, "fast", 1)))
    put(broker, "skewed", lines((3, "slow", 1), (4, "slow", 1)), lines((31, "slow", 1)), partition=2)
    stream = oop.read(place, punctuate=oop.by_key("partition", slack=5, idle=500))
    assert stream.schema.names == ["ts", "host", "v", "partition"]
    outcome = stream.window(range=10).aggregate(oop.count(), by="partition").run()
    assert outcome.statistics.late == 0
    counts = {(row["window_start"], row["partition"]): row["count"] for row in outcome.table.to_pylist()}
    assert counts == {(0, 2): 2, (30, 2): 1, (100, 0): 2, (130, 0): 1}


def test_arrow_messages_of_earlier_versions_are_read_beside_those_of_this_one(broker):
    schema = Schema(pa.schema([pa.field("ts", pa.int64()), oop.ip_field("host")]))
    messages = []
    for ts, as_held in ((1, True), (2, False), (3, True)):
        encoder = Arrow(stream=True, as_held=as_held)
        page = Page.of(schema, {"ts": [ts], "host": [parse_ip(f"10.0.0.{ts}")]})
        messages.append(encoder.open(schema) + encoder.write(page) + encoder.close())
    table = oop.read(put(broker, "versions", *messages) + "&format=arrow", slack=9).to_arrow()
    assert table["host"].to_pylist() == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


def test_json_and_arrow_are_what_was_sent(broker):
    page = Page.of_rows(SCHEMA, [(n, f"h{n}", n) for n in range(5)])
    for form, rows in (("json", 1), ("json", 2), ("arrow", 2)):
        topic = f"sent-{form}-{rows}"
        with sink_for(f"kafka://{broker}/{topic}?format={form}&rows={rows}").opened(SCHEMA) as deliver:
            deliver(page)
        assert len(told(broker, topic)) == -(-5 // rows)
        table = oop.read(f"kafka://{broker}/{topic}?format={form}&until=end", slack=9).to_arrow()
        assert sorted(table.drop_columns("partition").to_pylist(), key=lambda row: row["ts"]) == page.rows()


def test_a_key_keeps_the_last_result_and_a_retraction_has_no_value(broker):
    schema = Schema.of(host="string", v="int64", sign="int8")
    with sink_for(f"kafka://{broker}/keyed?key=host").opened(schema) as deliver:
        deliver(Page.of_rows(schema, [("a", 1, 1), ("b", 2, 1), ("a", 1, -1)]))
    assert sorted(told(broker, "keyed"), key=str) == [
        (b"a", None), (b"a", b'{"host":"a","v":1,"sign":1}'), (b"b", b'{"host":"b","v":2,"sign":1}'),
    ]  # fmt: skip


def test_what_cannot_be_read_is_left_out_and_counted_or_an_error(broker):
    place = put(broker, "damaged", lines((1, "a", 1)), b'{"ts": "no', None, lines((2, "a", 1)), b'{"ts": 3, "more": 1}')
    outcome = oop.read(place, slack=9).run()
    assert outcome.table["ts"].to_pylist() == [1, 2, 3]
    notes = " ".join(outcome.statistics.notes)
    assert "1 messages are left out as unreadable" in notes and "1 messages have no value" in notes
    assert 'the key "more" is left out' in notes
    with pytest.raises(TableError, match="partition 0, up to offset 4"):
        oop.read(place, slack=9, strict=True).run()


def test_a_run_goes_on_at_the_offsets_of_its_checkpoint(broker, tmp_path):
    place = put(broker, "kept", *(lines((n, "a", n)) for n in range(10)))

    output = oop.read(place, slack=9).project("ts", "v").to(tmp_path / "out.ndjson")
    for _ in range(2):
        output.run(checkpoint=tmp_path / "job")
        found = [json.loads(line)["ts"] for line in (tmp_path / "out.ndjson").read_text().splitlines()]
        assert found == list(range(10))


@pytest.mark.parametrize("former", [False, True], ids=["", "named by its brokers"])
def test_a_job_goes_on_though_its_brokers_have_another_address(broker, tmp_path, monkeypatch, former):
    topic = f"moved-{former}"
    places = (
        put(broker, topic, lines((1, "a", 1)), b"damaged"),
        f"kafka://localhost:{broker.rpartition(':')[2]}/{topic}",
    )
    if former:
        monkeypatch.setattr(Kafka, "lasting_name", property(lambda self: self.name))

    def run(place: str, strict: bool = False) -> None:
        output = oop.read(place, slack=9, strict=strict).project("ts").to(tmp_path / "out.ndjson")
        output.run(checkpoint=tmp_path / "job")

    with pytest.raises(TableError):
        run(places[0], strict=True)
    monkeypatch.undo()
    with pytest.raises(oop.CheckpointError, match="is not there any more"):
        run(put(broker, "elsewhere", lines((1, "a", 1))))
    run(f"{places[1]}?until=end")
    assert json.loads((tmp_path / "out.ndjson").read_text()) == {"ts": 1}


def test_a_reading_begins_where_the_snapshot_of_another_ended(broker):
    place = put(broker, "snapshots", *(lines((n, "a", n)) for n in range(4)))
    source = Kafka.named(place)
    first = source.open(["ts"], 100)
    placing = Placing("snapshots")
    first.go_on(placing)
    found = list(first.chunks())
    assert sum(len(chunk) for chunk in found) == 4 and found[-1].last
    put(broker, "snapshots", lines((4, "a", 4)))
    placing.state = found[-1].state
    second = source.open(["ts", "partition"], 100)
    second.go_on(placing)
    assert [chunk.to_pylist() for chunk in second.chunks() if len(chunk)] == [[{"ts": 4, "partition": 0}]]
    placing.state = {"offsets": pa.array([0, 99]).to_numpy().reshape(1, 2)}
    third = source.open(["ts"], 100)
    third.go_on(placing)
    with pytest.raises(SourceError, match="was read to offset 99, and it is shorter now"):
        list(third.chunks())


def test_a_group_goes_on_where_it_ended(broker):
    place = put(broker, "grouped", lines((1, "a", 1)), lines((2, "a", 1)))
    assert oop.read(f"{place}&group=g", slack=9).to_arrow()["ts"].to_pylist() == [1, 2]
    put(broker, "grouped", lines((3, "a", 1)))
    assert oop.read(f"{place}&group=g", slack=9).to_arrow()["ts"].to_pylist() == [3]


def test_a_checkpoint_is_sent_in_one_transaction_and_not_again_where_the_group_says_that_it_was(broker):
    page = Page.of_rows(SCHEMA, [(1, "a", 1)])
    sink = KafkaSink.named(f"kafka://{broker}/once")
    sender = sink.sender(SCHEMA, "job1")
    sender.send([page], Delivery("job1", 1))
    assert len(told(broker, "once")) == 1
    # The brokers for tests forget the offsets of transactions, so that the group is told here.
    group = Consumer({"bootstrap.servers": broker, "group.id": "oop-engine-job1", "log_level": 0})
    group.commit(offsets=[TopicPartition("once", 0, 1)], asynchronous=False)
    group.close()
    sender.send([page], Delivery("job1", 1))
    assert len(told(broker, "once")) == 1
    sender.send([page], Delivery("job1", 2))
    assert len(told(broker, "once")) == 2
    sender.close()


@pytest.mark.slow
def test_a_job_sends_its_results(broker, tmp_path):
    stream = oop.rows([(n, "a", n) for n in range(10)], SCHEMA)
    output = stream.window(range=5).aggregate(oop.sum("v")).to(f"kafka://{broker}/of-a-job")
    for _ in range(2):
        output.run(checkpoint=tmp_path / "job")
        assert sorted(json.loads(value or b"")["sum_v"] for _, value in told(broker, "of-a-job")) == [10, 35]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("kafka://b:9092/", "it names no topic"),
        ("kafka:///flows", "it names no server"),
        ("kafka://b:9092/flows?format=avro", "none of json, arrow"),
        ("kafka://b:9092/flows?fomat=json", '"fomat" is no option here'),
        ("kafka://b:9092/flows?sasl.password=x", "has a password or token"),
        ("kafka://b:9092/flows?rows=0", "a whole number from 1 on"),
        ("kafka://b:9092/flows?format=arrow&key=a", "a key is of one result"),
        ("kafka://b:9092/flows?config=/nowhere/a.conf", "cannot be read"),
    ],
)
def test_another_uri_is_refused(place, words):
    with pytest.raises(SinkError, match=words):
        sink_for(place)


def test_settings_of_a_file_and_of_the_uri_reach_the_client(tmp_path):
    (tmp_path / "client.conf").write_text("# secret\nsasl.password = hush=1\nsecurity.protocol=PLAINTEXT\n")
    sink = KafkaSink.named(f"kafka://b:9092/flows?config={tmp_path}/client.conf&security.protocol=SSL")
    config = sink.where.client(linger_ms=5)
    assert config["sasl.password"] == "hush=1" and config["security.protocol"] == "SSL" and config["linger.ms"] == 5
    assert "hush" not in repr(sink) and sink.place == "kafka://b:9092/flows"
