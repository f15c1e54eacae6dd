"""Read a topic of Kafka: every partition in its own order, from offsets that a checkpoint keeps.

Partitions are told by an attribute of their own, so that each can make progress of its own (`oop.by_key("partition",
slack=...)`): within one, messages are in order, and between two nothing is known.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.errors import CheckpointError
from oop_engine.sinks.kafka_place import MISSING, KafkaPlace
from oop_engine.sources.columns import Types, check_columns, check_words, convert, stream_schema
from oop_engine.sources.errors import SourceEnded, SourceError, TableError
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.objects import Objects
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Chunk, Snapshot
from oop_engine.sources.reading import Passing, Reading
from oop_engine.sources.text import Piece
from operators.data.saved import UNFIT, read_integers

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

PARTITION: Final = "partition"
_OTHER: Final = "kafka_partition"
"""Its name where messages have a partition of their own."""
_SECONDS: Final = 10.0
"""Seconds for which an answer of the brokers, or the first message, is waited for."""
_MOST: Final = 10_000
"""Messages that are taken out at a time."""
_WAIT: Final = 0.1
"""Seconds for which messages are waited for, until it is looked whether the reading is to end."""
_BYTES: Final = 4 << 20
"""Bytes of messages that are decoded at a time, about."""


@attrs.frozen(eq=False)
class Kafka(Passing):
    """The messages of a topic: JSON objects, a line each, or Arrow streams; `partition` is a further attribute.

    The reading begins at the offsets of a checkpoint; without one at those that the `group` committed, if there is a
    group and it did; else at the `earliest` message, or behind the latest. Where it is `bounded`, it ends at the
    messages that are the last when it begins. `types` are as those of tables. A message that cannot be read is left
    out and counted; `strict` takes it as an error.
    """

    where: KafkaPlace
    group: str = ""
    earliest: bool = True
    bounded: bool = False
    types: Types = attrs.field(factory=dict)
    strict: bool = False
    label: str = ""
    waits: ClassVar[bool] = True
    _lines: Objects | None = attrs.field(init=False, default=None, repr=False)
    _given: pa.Schema = attrs.field(init=False, repr=False)
    """The columns of messages, as they are there."""

    @classmethod
    def named(cls, text: str, *, types: Types | None = None, strict: bool = False, name: str = "") -> Kafka:
        """Read kafka://HOST:PORT/TOPIC?format=json&group=NAME&from=earliest&until=end; SinkError for other parts."""
        where = KafkaPlace.of(text, ("group", "from", "until"))
        options = where.address.options
        start, until = options.get("from", "earliest"), options.get("until", "")
        if start not in ("earliest", "latest") or until not in ("", "end"):
            raise SourceError(f'"{text}": write from=earliest or from=latest, and until=end or nothing.')
        return cls(where, options.get("group", ""), start == "earliest", until == "end", types or {}, strict, name)

    def __attrs_post_init__(self) -> None:
        check_words(self.types, self.name)
        first = _first(self.where)
        if self.where.form == "json":
            lines = Objects.of(first + b"\n", self.types)
            object.__setattr__(self, "_lines", lines)
            object.__setattr__(self, "_given", lines.schema)
        else:
            object.__setattr__(self, "_given", _stream(first).schema)
        check_columns(self.types, self._given, self.name)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.label or str(self.where)

    @property
    def lasting_name(self) -> str:
        """Return the name that a run which goes on with other brokers has for it, too."""
        return self.label or f"kafka {self.where.topic}"

    @property
    def partition(self) -> str:
        """Return how the attribute is named that tells the partition."""
        return _OTHER if PARTITION in self._given.names else PARTITION

    @property
    def arrow(self) -> pa.Schema:
        own = stream_schema(self._given, self.types)
        return pa.schema([*own, pa.field(self.partition, pa.int32())])

    @property
    def promised(self) -> tuple[str | tuple[str, ...], ...]:
        return ()

    def open(self, columns: Sequence[str], batch_rows: int) -> KafkaReader:
        return KafkaReader(self, tuple(columns))

    def decode(self, values: list[bytes], columns: Sequence[str], left_out: LeftOut, row: int) -> pa.RecordBatch:
        """Return the columns of messages; TableError or ArrowInvalid where one cannot be read."""
        own = [name for name in columns if name != self.partition]
        if self._lines is not None:
            piece = Piece(row, b"\n".join(values) + b"\n")
            table = self._as_streamed(self._lines.parse(piece, own), own)
            left_out.look(piece, self.name)
        else:
            # Each message has its own types: those of an older version have addresses as bytes, later ones as text.
            table = pa.concat_tables([self._as_streamed(_stream(value).read_all(), own) for value in values])
        # A selection of no column has no rows to count, which the columns themselves have.
        arrays = {name: table.column(name).combine_chunks() for name in own}
        count = len(table) if own else sum(_rows(value, self.where.form) for value in values)
        schema = self.arrow
        return pa.RecordBatch.from_arrays(
            [arrays[name] if name in arrays else pa.repeat(pa.scalar(0, pa.int32()), count) for name in columns],
            schema=pa.schema([schema.field(name) for name in columns]),
        )

    def _as_streamed(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        """Return columns of a table in the types of the stream; SchemaError where one is missing."""
        check_columns(names, table.schema, self.name)
        fields = [self.arrow.field(name) for name in names]
        arrays = [
            convert(table.column(field.name).combine_chunks(), field, self.types.get(field.name)) for field in fields
        ]
        return pa.table(arrays, pa.schema(fields))


@attrs.define(eq=False)
class KafkaReader(Reading):
    """One reading of a topic. `stop` and `wake` are for other threads than that which reads."""

    source: Kafka
    columns: tuple[str, ...]
    _offsets: dict[int, int] = attrs.field(init=False, factory=dict)
    """The offset of the next message of each partition."""
    _ends: dict[int, int] = attrs.field(init=False, factory=dict)
    """Where a bounded reading ends."""
    _placing: Placing | None = attrs.field(init=False, default=None)
    _answered: int = attrs.field(init=False, default=0)
    _stopped: bool = attrs.field(init=False, default=False)
    _done: set[int] = attrs.field(init=False, factory=set)
    """Partitions that a bounded reading has read to their ends."""
    _rows: int = attrs.field(init=False, default=0)
    _damaged: int = attrs.field(init=False, default=0)
    _damage: str = attrs.field(init=False, default="")
    """Where the first damaged message was, and what is wrong with it."""
    _empty: int = attrs.field(init=False, default=0)
    _left_out: LeftOut = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._left_out = LeftOut(self.source.strict)
        self._left_out.known([name for name in self.source.arrow.names if name != self.source.partition])

    def stop(self) -> None:
        self._stopped = True

    def wake(self) -> None:
        """Do nothing: the reading looks ten times a second what is asked."""

    def go_on(self, placing: Placing) -> None:
        self._placing = placing
        if placing.state is not None:
            try:
                offsets = read_integers(placing.state, "offsets", width=2, least=0)
            except UNFIT as error:
                raise CheckpointError(
                    f"{self.source.name}: the offsets of the checkpoint cannot be taken up: {error}.\n"
                    "  The state is damaged, or another version wrote it: begin anew with another --checkpoint."
                ) from error
            self._offsets = {int(partition): int(offset) for partition, offset in offsets.tolist()}

    def chunks(self) -> Iterator[Chunk]:
        consumer = _consumer(self.source.where, self.source.group, ends=self.source.bounded)
        try:
            self._assign(consumer)
            while not self._stopped and not self._is_over():
                by_partition: dict[int, list[Message[bytes, bytes]]] = {}
                for message in _arrived(consumer):
                    if message.error() is None:
                        by_partition.setdefault(message.partition() or 0, []).append(message)
                    else:
                        self._hear(message)
                for partition, messages in by_partition.items():
                    yield from self._batches(partition, messages)
                yield from self._snapshot()
            yield from self._snapshot(last=True)
            self._commit(consumer)
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        """Begin each partition where this reading is to begin."""
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import TopicPartition

        topic = self.source.where.topic
        places = [TopicPartition(topic, partition) for partition in sorted(_partitions(consumer, self.source.where))]
        group = consumer.committed(places, _SECONDS) if self.source.group and not self._offsets else []
        committed = {place.partition: place.offset for place in group if place.offset >= 0}
        for place in places:
            low, high = consumer.get_watermark_offsets(place, _SECONDS)
            begin = low if self.source.earliest or self._offsets else high
            offset = self._offsets.get(place.partition, committed.get(place.partition, begin))
            if offset < low or offset > high:
                lost = f"{low - offset:,} messages before {low} were deleted" if offset < low else "it is shorter now"
                raise SourceError(
                    f"{self.source.name}: partition {place.partition} was read to offset {offset}, and {lost}.\n"
                    "  Keep messages longer (retention.ms), or begin anew with another --checkpoint or group."
                )
            place.offset = self._offsets[place.partition] = offset
            self._ends[place.partition] = high
        consumer.assign(places)

    def _is_over(self) -> bool:
        return self.source.bounded and all(
            partition in self._done or self._offsets[partition] >= end for partition, end in self._ends.items()
        )

    def _hear(self, message: Message[bytes, bytes]) -> None:
        """Take what the client has to say, which is no message; SourceEnded where it cannot read on."""
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import KafkaError

        fault = message.error()
        if fault is None:
            return
        if fault.code() == KafkaError._PARTITION_EOF:
            self._done.add(message.partition() or 0)
        elif not fault.retriable() and fault.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            raise SourceEnded(f"{self.source.name} cannot be read on: {fault.str()}.")

    def _batches(self, partition: int, messages: list[Message[bytes, bytes]]) -> Iterator[pa.RecordBatch]:
        """Yield what messages of one partition have, some megabytes at a time; the offsets are those behind them."""
        if self.source.bounded:
            end = self._ends[partition]
            if (messages[-1].offset() or 0) >= end:
                self._done.add(partition)
            messages = [message for message in messages if (message.offset() or 0) < end]
        given = [message.value() or b"" for message in messages]
        ends = np.cumsum([*map(len, given)], dtype=np.int64)
        begin = 0
        while begin < len(given):
            # Up to the message with which there are so many bytes, or all.
            before = int(ends[begin - 1]) if begin else 0
            end = min(int(np.searchsorted(ends, before + _BYTES)) + 1, len(given))
            values = [value for value in given[begin:end] if value]
            self._empty += end - begin - len(values)
            last = messages[end - 1].offset() or 0
            decoded = self._decoded(partition, values, last)
            self._offsets[partition] = last + 1
            if decoded is not None:
                self._rows += len(decoded)
                yield decoded
            begin = end

    def _decoded(self, partition: int, values: list[bytes], last: int) -> pa.RecordBatch | None:
        """Return the tuples of messages; where they cannot be read together, of those that can be read alone."""
        if not values:
            return None
        columns, left_out = self.columns, self._left_out
        try:
            found = [self.source.decode(values, columns, left_out, self._rows + 1)]
        except (pa.ArrowException, TableError, ValueError) as error:
            if self.source.strict:
                raise TableError(f"{self.source.name}: partition {partition}, up to offset {last}: {error}") from error
            found = []
            for value in values:
                try:
                    found.append(self.source.decode([value], columns, left_out, self._rows + 1))
                except (pa.ArrowException, TableError, ValueError) as fault:
                    self._damaged += 1
                    self._damage = self._damage or f"partition {partition}, up to offset {last}: {fault}"
        if not found:
            return None
        table = pa.Table.from_batches(found).combine_chunks()
        if self.source.partition in columns:
            place = columns.index(self.source.partition)
            numbers = pa.repeat(pa.scalar(partition, pa.int32()), len(table))
            table = table.set_column(place, table.schema.field(place), numbers)
        batches = table.to_batches()
        return batches[0] if batches else None

    def _snapshot(self, *, last: bool = False) -> Iterator[Snapshot]:
        """Answer who asked for the offsets."""
        placing = self._placing
        if placing is None or not (last or placing.asked > self._answered):
            return
        self._answered = placing.asked
        offsets = np.array(sorted(self._offsets.items()), np.int64).reshape(-1, 2)
        yield Snapshot(self._answered, {"offsets": offsets}, last=last)

    def _commit(self, consumer: Consumer) -> None:
        """Have the group know what was read, so that a run without a checkpoint goes on from there."""
        # Optional: confluent-kafka is an extra.
        from confluent_kafka import KafkaException, TopicPartition

        if self.source.group:
            topic = self.source.where.topic
            try:
                consumer.commit(
                    offsets=[TopicPartition(topic, p, offset) for p, offset in self._offsets.items()],
                    asynchronous=False,
                )
            except KafkaException as error:
                raise SourceEnded(
                    f"{self.source.name} was read, and its group does not know: {error.args[0].str()}."
                ) from error

    def progress(self) -> tuple[int, int | None]:
        return self._rows, None

    def notes(self) -> list[str]:
        name, told = self.source.name, self._left_out.notes()
        if self._damaged:
            told.append(f"{name}: {self._damaged:,} messages are left out as unreadable; the first: {self._damage}")
        if self._empty:
            told.append(f"{name}: {self._empty:,} messages have no value and are left out")
        return told


def _arrived(consumer: Consumer) -> list[Message[bytes, bytes]]:
    """Wait for a message, and return it with those that are there already."""
    first = consumer.consume(1, _WAIT)
    return [*first, *consumer.consume(_MOST, 0)] if first else first


def _consumer(where: KafkaPlace, group: str = "", *, ends: bool = False) -> Consumer:
    try:
        # Optional: confluent-kafka is an extra, and few streams are read from Kafka.
        from confluent_kafka import Consumer
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise SourceError(f'"{where}": {MISSING}') from error
    # Offsets are those of checkpoints; a group is never stored to behind their back, and no message is left out.
    return Consumer(
        where.client(
            group_id=group or "oop-engine", enable_auto_commit=False, auto_offset_reset="error",
            enable_partition_eof=ends, fetch_wait_max_ms=50, queued_max_messages_kbytes=1 << 16,
        )
    )  # fmt: skip


def _partitions(consumer: Consumer, where: KafkaPlace) -> list[int]:
    """Return the partitions of a topic; SourceError where there is no broker, or no such topic."""
    # Optional: confluent-kafka is an extra.
    from confluent_kafka import KafkaException

    try:
        found = consumer.list_topics(where.topic, timeout=_SECONDS).topics[where.topic]
    except KafkaException as error:
        raise SourceError(f'"{where}": {error.args[0].str()}.\n  Are the brokers there?') from error
    if found.error is not None or not found.partitions:
        raise SourceError(f'"{where}": {found.error.str() if found.error else "the topic has no partition"}.')
    return list(found.partitions)


def _first(where: KafkaPlace) -> bytes:
    """Return the first message of a topic, which says what its attributes are; SourceError where there is none."""
    consumer = _consumer(where)
    # Optional: confluent-kafka is an extra.
    from confluent_kafka import TopicPartition

    try:
        places = [TopicPartition(where.topic, partition) for partition in _partitions(consumer, where)]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, _SECONDS)[0]
        consumer.assign(places)
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            for message in consumer.consume(1, _WAIT):
                if message.error() is None and (value := message.value()):
                    return value
    finally:
        consumer.close()
    raise SourceError(
        f'"{where}" has no message, and the first says what attributes there are.\n  Start when there is one.'
    )


def _stream(value: bytes) -> pa.RecordBatchStreamReader:
    return pa.ipc.open_stream(pa.py_buffer(value))


def _rows(value: bytes, form: str) -> int:
    """Count the tuples of a message."""
    if form == "arrow":
        return sum(len(batch) for batch in _stream(value))
    return sum(1 for line in value.splitlines() if line.strip())
