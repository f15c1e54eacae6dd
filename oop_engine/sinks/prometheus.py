"""Results go to Prometheus, or what takes its remote write (version 1), as samples of series."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sinks.addresses import Address
from oop_engine.sinks.errors import SinkError, WriteFailed
from oop_engine.sinks.outbox import Sender, Sent
from oop_engine.sinks.posts import Posts, Server, given
from operators.data.page import Page
from operators.data.readable import is_number, text_of
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.retractions import SIGN

_EXAMPLE: Final = "prometheus://host:9090/api/v1/write?labels=srcIP&time=window_end&prefix=oop_"
_TIMES: Final = ("window_end", "window_start", "ts")
_MILLISECONDS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 10**6)}
_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


@attrs.frozen
class PrometheusSink(Sent):
    """Results as samples: each column of numbers is a metric, `labels` are the columns that name a series.

    `time` is that of a sample, to the millisecond. Prometheus keeps the first sample of a series and time, and takes
    none that is older than its newest (but within out_of_order_time_window), so results that are revised or taken back
    have no form there. What is sent again as it was changes nothing.
    """

    server: Server
    labels: tuple[str, ...] = ()
    time: str = ""
    prefix: str = "oop_"

    @classmethod
    def named(cls, text: str) -> PrometheusSink:
        """Read prometheus://HOST:PORT/PATH?labels=A,B&time=NAME&prefix=TEXT, or prometheuss: for TLS."""
        address = Address.of(text, ("labels", "time", "prefix"), _EXAMPLE)
        scheme = "https" if address.parts.scheme.lower() == "prometheuss" else "http"
        url = f"{scheme}://{address.host}{address.parts.path.rstrip('/') or '/api/v1/write'}"
        return cls(
            Server(url, given("Authorization", "OOP_HTTP_AUTHORIZATION")), address.names("labels"),
            address.options.get("time", ""), address.options.get("prefix", "oop_"),
        )  # fmt: skip

    @property
    def place(self) -> str:
        return self.server.place

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        try:
            # Optional: cramjam is an extra, and few results go to Prometheus.
            import cramjam  # noqa: F401  # pyright: ignore[reportUnusedImport]
        except ModuleNotFoundError as error:
            if error.name != "cramjam":
                raise
            raise SinkError(
                f'"{self.place}": the package cramjam, which packs requests, is not installed.\n'
                "  Run pip install 'oop-engine[prometheus]'."
            ) from error
        return Posts.to(self.server, Samples.of(self, schema))


@attrs.frozen
class Samples:
    """The samples of results as a WriteRequest, a message of protocol buffers, packed with Snappy."""

    labels: tuple[str, ...]
    metrics: tuple[tuple[str, str], ...]
    """The columns of numbers, and the names of their metrics."""
    time: str
    headers: Mapping[str, str] = attrs.field(
        init=False,
        factory=lambda: {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        },
    )

    @classmethod
    def of(cls, sink: PrometheusSink, schema: Schema) -> Samples:
        """Choose labels, metrics and the time; SinkError where there are none, or results are taken back."""
        if SIGN in schema:
            raise SinkError(
                f'the results have "{SIGN}", and a sample of Prometheus cannot be taken back.\n'
                "  Leave out RETRACT, or send them to a database."
            )
        time = sink.time or next((name for name in _TIMES if name in schema), "")
        numbers = [f.name for f in schema.arrow if is_number(f) or pa.types.is_boolean(f.type)]
        others = [n for n in schema.names if n not in numbers and n not in _TIMES and n != time]
        labels = sink.labels or tuple(others)
        for name in (*labels, time):
            if name not in schema:
                raise SinkError(f'the results have no column "{name}". {did_you_mean(name, schema.names)}')
        if not time or not pa.types.is_timestamp(schema.arrow.field(time).type):
            raise SinkError(f'"{time}" is no point in time; name one: &time=window_end.')
        metrics = [(n, _NAME.sub("_", sink.prefix + n)) for n in numbers if n not in labels and n != "wid"]
        if not metrics:
            raise SinkError("the results have no column of numbers, which samples are of.")
        return cls(labels, tuple(metrics), time)

    def options(self, key: str) -> Mapping[str, str]:
        return {}

    def body(self, page: Page) -> bytes:
        # Optional: cramjam is an extra.
        import cramjam

        return bytes(cramjam.snappy.compress_raw(self.request(page)))

    def request(self, page: Page) -> bytes:
        """Encode results: the samples of a series in the order of their times.

        >>> schema = Schema.of(ts=pa.timestamp("s"), host="string", n="int64")
        >>> samples = Samples.of(PrometheusSink(Server("")), schema)
        >>> samples.request(Page.of_rows(schema, [(1, "a", 5)])).hex()
        '0a2c0a110a085f5f6e616d655f5f12056f6f705f6e0a090a04686f7374120161120c09000000000000144010e807'
        """
        multiplied, divided = _MILLISECONDS[page.column(self.time).type.unit]
        moments = page.ticks(self.time) * multiplied // divided
        valid = page.valid(self.time)
        if valid is not None and not valid.all():
            raise WriteFailed(f'a result has no "{self.time}", which a sample needs; filter such results out.')
        names, texts = self._labels(page)
        found: dict[bytes, list[tuple[int, float]]] = {}
        for column, metric in self.metrics:
            values = page.column(column).cast(pa.float64()).to_pylist()
            head = _pair("__name__", metric)
            for row, value in enumerate(values):
                if value is None:
                    continue
                pairs = (_pair(name, text[row]) for name, text in zip(names, texts, strict=True) if text[row])
                found.setdefault(head + b"".join(pairs), []).append((int(moments[row]), value))
        return b"".join(
            _field(1, series + b"".join(map(_sample, sorted(samples, key=lambda one: one[0]))))
            for series, samples in found.items()
        )

    def _labels(self, page: Page) -> tuple[Sequence[str], Sequence[list[str | None]]]:
        """Return the names of labels, in their order, which they must have, and their values."""
        arrow = page.schema.arrow
        named = sorted((_NAME.sub("_", name), name) for name in self.labels)
        return [label for label, _ in named], [
            text_of(page.column(name), arrow.field(name)).to_pylist() for _, name in named
        ]


def _sample(sample: tuple[int, float]) -> bytes:
    moment, value = sample
    return _field(2, b"\x09" + np.float64(value).tobytes() + b"\x10" + _varint(moment))


def _pair(name: str, value: str | None) -> bytes:
    """Encode a label."""
    return _field(1, _field(1, name.encode()) + _field(2, (value or "").encode()))


def _field(number: int, data: bytes) -> bytes:
    """Encode a field of bytes."""
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Encode a number, seven bits a byte; one below 0 as its complement of 64 bits."""
    return bytes(_bytes(value & (1 << 64) - 1))


def _bytes(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value
