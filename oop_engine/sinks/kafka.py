"""Results go to a topic of Kafka: with a checkpoint in one transaction each, so that each result is there once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.encoders import Arrow, Ndjson, bytes_of
from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.kafka_place import MISSING, KafkaPlace
from oop_engine.sinks.outbox import Delivery, Sender, Sent
from oop_engine.sinks.retry import RETRY, Refused, Retry
from operators.data.page import Page
from operators.data.readable import text_of
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.retractions import SIGN

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

__all__ = ["KafkaSink"]
_SECONDS: Final = 30.0
"""Seconds for which an answer of the brokers is waited for."""
_ROWS: Final = {"json": 1, "arrow": 1000}


@attrs.frozen
class KafkaSink(Sent):
    """Results as messages of a topic: `rows` of them in a message, by default one as JSON, and 1,000 as Arrow.

    With `key`, the message of a result has the values of these columns as its key, so that a compacted topic keeps the
    last one; a result with sign -1 is a message without a value, which takes it away there.

    With a checkpoint, what came between two of them is one transaction. A consumer that reads committed messages alone
    (isolation.level=read_committed, the default of librdkafka) sees each result once. Without a checkpoint, results are
    sent as they are released: each is there at least once, and those of a run that failed stay.
    """

    where: KafkaPlace
    rows: int = 1
    key: tuple[str, ...] = ()
    retry: Retry = attrs.field(default=RETRY, repr=False)

    @classmethod
    def named(cls, text: str) -> KafkaSink:
        """Read kafka://HOST:PORT/TOPIC?format=json&key=A,B&rows=N; SinkError for other parts."""
        where = KafkaPlace.of(text, ("rows", "key"))
        key, rows = where.address.names("key"), where.address.number("rows", _ROWS[where.form])
        if key and (where.form != "json" or rows > 1):
            raise SinkError(f'"{text}": a key is of one result, so a message has one, as JSON: leave out rows or key.')
        return cls(where, rows, key)

    @property
    def place(self) -> str:
        return str(self.where)

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        for name in self.key:
            if name not in schema:
                raise SinkError(f'the key "{name}" is no column of the results. {did_you_mean(name, schema.names)}')
        try:
            # Optional: confluent-kafka is an extra, and few runs write to Kafka.
            import confluent_kafka  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ModuleNotFoundError as error:
            if error.name != "confluent_kafka":
                raise
            raise SinkError(f'"{self.place}": {MISSING}') from error
        return _Topic(self, schema) if job is None else _Transactions(self, schema, job)


@attrs.define(eq=False)
class _Topic:
    """A producer that sends each message at least once, in order."""

    sink: KafkaSink
    schema: Schema
    _producer: Producer = attrs.field(init=False)
    _failed: str = attrs.field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        self._producer = self._connected()

    def _connected(self) -> Producer:
        return self._client(linger_ms=5, enable_idempotence=True)

    def _client(self, **config: object) -> Producer:
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import KafkaException, Producer

        limits = {
            "queue_buffering_max_messages": 1_000_000,
            "queue_buffering_max_kbytes": 1 << 18,
            "delivery_report_only_error": True,
        }
        try:
            producer = Producer(self.sink.where.client(**limits, **config))
            producer.list_topics(self.sink.where.topic, timeout=_SECONDS)
        except KafkaException as error:
            raise SinkError(f'"{self.sink.place}": {error.args[0].str()}.\n  Are the brokers there?') from error
        return producer

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        self._produce(pages)
        self._flush()

    def close(self) -> None:
        self._producer.flush(0)

    def _produce(self, pages: Iterable[Page]) -> None:
        produce, topic, told = self._producer.produce, self.sink.where.topic, self._told
        for page in pages:
            for key, value in _messages(self.sink, page):
                while True:
                    try:
                        produce(topic, value, key, on_delivery=told)
                        break
                    except BufferError:
                        self._producer.poll(0.1)
                    self._check()
            self._producer.poll(0)

    def _flush(self) -> None:
        left = self._producer.flush(_SECONDS * 10)
        if left:
            self._failed = self._failed or f"{left:,} messages are not acknowledged"
        self._check()

    def _check(self) -> None:
        if self._failed:
            raise WriteFailed(f'"{self.sink.place}" did not take results: {self._failed}.')

    def _told(self, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None and not self._failed:
            self._failed = error.str()


@attrs.define(eq=False)
class _Transactions(_Topic):
    """A producer that sends the results of each checkpoint in a transaction, with the number of the checkpoint."""

    job: str

    def __attrs_post_init__(self) -> None:
        # A producer of this job that is still there can send nothing more, and what it had begun is taken back.
        self._producer = self.sink.retry.call(self._connected, self.sink.place)

    def _connected(self) -> Producer:
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import KafkaException

        producer = self._client(linger_ms=5, transactional_id=self._group)
        try:
            producer.init_transactions(_SECONDS)
        except KafkaException as error:
            raise Refused(error.args[0].str(), again=error.args[0].retriable()) from error
        return producer

    @property
    def _group(self) -> str:
        return f"oop-engine-{self.job}"

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        assert delivery is not None
        kept = list(pages)
        self.sink.retry.call(lambda: self._transact(kept, delivery.epoch), self.sink.place)

    def _transact(self, pages: list[Page], epoch: int) -> None:
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        place = TopicPartition(self.sink.where.topic, 0, epoch)
        group = Consumer(self.sink.where.client(group_id=self._group, enable_auto_commit=False))
        try:
            # The offset of a group that nobody else has says which checkpoint was sent last.
            if group.committed([TopicPartition(place.topic, 0)], _SECONDS)[0].offset >= epoch:
                return
            self._producer.begin_transaction()
            self._produce(pages)
            self._producer.send_offsets_to_transaction([place], group.consumer_group_metadata(), _SECONDS)
            self._producer.commit_transaction(_SECONDS * 10)
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.txn_requires_abort():
                self._producer.abort_transaction(_SECONDS)
            elif not fault.fatal():
                # Whether it was committed is not known; a producer that begins anew finds out.
                self._producer = self._connected()
            raise Refused(fault.str(), again=not fault.fatal()) from error
        finally:
            group.close()


def _messages(sink: KafkaSink, page: Page) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the keys and values of the messages of a page."""
    if sink.where.form == "arrow":
        for start in range(0, len(page), sink.rows):
            part, encoder = page.slice(start, min(start + sink.rows, len(page))), Arrow(stream=True)
            yield None, encoder.open(page.schema) + encoder.write(part) + encoder.close()
        return
    encoder = Ndjson()
    encoder.open(page.schema)
    texts = encoder.lines(page)
    if sink.rows > 1:
        for start in range(0, len(page), sink.rows):
            yield None, bytes_of(texts, start, min(start + sink.rows, len(page)))
        return
    lines = bytes_of(texts).splitlines()
    if not sink.key:
        yield from ((None, line) for line in lines)
        return
    arrow = page.schema.arrow
    parts = [text_of(page.column(name), arrow.field(name)).fill_null("") for name in sink.key]
    keys = pc.binary_join_element_wise(*parts, ",").cast(pa.binary()).to_pylist()
    gone = page.column(SIGN).to_pylist() if SIGN in page.schema else [1] * len(keys)
    for key, line, sign in zip(keys, lines, gone, strict=True):
        yield key, None if sign == -1 else line
