"""Results go to InfluxDB, or what takes its line protocol, such as VictoriaMetrics, QuestDB and Telegraf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sinks.addresses import Address
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.outbox import Sender, Sent
from oop_engine.sinks.posts import Posts, Server, given
from operators.data.page import Page
from operators.data.readable import is_number, is_text, text_of
from operators.data.schema import Schema, is_ip
from operators.errors import did_you_mean
from operators.retractions import SIGN

_EXAMPLE: Final = "influx://host:8086/bucket?org=ORG&tags=srcIP&time=window_start, with the token in INFLUX_TOKEN."
_TIMES: Final = ("window_start", "ts")
_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@attrs.frozen
class InfluxSink(Sent):
    """Results as points: `tags` are columns that name a series, all others are fields; `time` is that of the point.

    A point with the same tags and time replaces the one before, so a revision does, and what is sent again changes
    nothing. A retraction has no form there. With `org`, it is the interface of version 2, without that of version 1.
    """

    server: Server
    measurement: str = "results"
    tags: tuple[str, ...] = ()
    time: str = ""

    @classmethod
    def named(cls, text: str) -> InfluxSink:
        """Read influx://HOST:PORT/BUCKET?org=ORG&measurement=NAME&tags=A,B&time=NAME, or influxs: for TLS."""
        address = Address.of(text, ("org", "measurement", "tags", "time"), _EXAMPLE)
        bucket, org = address.parts.path.strip("/"), address.options.get("org")
        if not bucket:
            raise SinkError(f'"{text}": it names no bucket or database.\n  Write {_EXAMPLE}')
        scheme = "https" if address.parts.scheme == "influxs" else "http"
        path = "write" if org is None else "api/v2/write"
        where = {"db": bucket} if org is None else {"org": org, "bucket": bucket}
        url = f"{scheme}://{address.host}/{path}?{urlencode({**where, 'precision': 'ns'})}"
        return cls(
            Server(url, given("Authorization", "INFLUX_TOKEN", "Token ")),
            address.options.get("measurement", "results"), address.names("tags"), address.options.get("time", ""),
        )  # fmt: skip

    @property
    def place(self) -> str:
        return f"{self.server.place} ({self.measurement})"

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        return Posts.to(self.server, Points.of(self, schema))


@attrs.frozen
class Points:
    """The line protocol, column by column: a null is left out; a point of nulls alone has the one field null=1i."""

    measurement: str
    tags: tuple[str, ...]
    fields: tuple[str, ...]
    time: str
    headers: Mapping[str, str] = attrs.field(init=False, factory=lambda: {"Content-Type": "text/plain; charset=utf-8"})

    @classmethod
    def of(cls, sink: InfluxSink, schema: Schema) -> Points:
        """Choose tags, fields and the time; SinkError where the results have no such columns, or take results back."""
        if SIGN in schema:
            raise SinkError(
                f'the results have "{SIGN}", and a point of InfluxDB cannot be taken back.\n'
                "  Leave out RETRACT, so that a revision replaces the result before it, or send them to a database."
            )
        texts = tuple(f.name for f in schema.arrow if is_text(f) or is_ip(f))
        tags = sink.tags or texts
        time = sink.time or next((name for name in _TIMES if name in schema), "")
        for name in (*tags, time):
            if name not in schema:
                raise SinkError(f'the results have no column "{name}". {did_you_mean(name, schema.names)}')
        if not time or not pa.types.is_timestamp(schema.arrow.field(time).type):
            raise SinkError(f'"{time}" is no point in time; name one: &time=window_start.')
        fields = tuple(name for name in schema.names if name not in tags and name != time)
        return cls(_escaped(sink.measurement, ", "), tags, fields, time)

    def options(self, key: str) -> Mapping[str, str]:
        return {}

    def body(self, page: Page) -> bytes:
        """Encode results, a line each.

        >>> schema = Schema.of(ts=pa.timestamp("s"), host="string", n="int64")
        >>> points = Points.of(InfluxSink(Server("")), schema)
        >>> points.body(Page.of_rows(schema, [(1, "a b", 5)]))
        b'results,host=a\\\\ b n=5i 1000000000'
        """
        arrow, nothing = page.schema.arrow, pa.scalar("", pa.string())
        heads: list[pa.Array | str] = [self.measurement]
        for name in self.tags:
            text = text_of(page.column(name), arrow.field(name))
            for sign in "\\, =":
                text = pc.replace_substring(text, sign, f"\\{sign}")
            text = pc.replace_substring_regex(text, r"[\r\n]", " ")
            tag = pc.binary_join_element_wise(f",{_escaped(name, ', =')}=", text, "")
            heads.append(pc.if_else(pc.equal(pc.utf8_length(text), 0), nothing, tag).fill_null(""))
        found = [self._field(page.column(name), arrow.field(name)) for name in self.fields]
        nulls = pa.array(["null=1i"] * len(page))
        joined = (
            pc.utf8_slice_codeunits(pc.binary_join_element_wise(*found, ""), 1) if found else pa.array([""] * len(page))
        )
        joined = pc.if_else(pc.equal(pc.utf8_length(joined), 0), nulls, joined)
        times = page.column(self.time)
        moments = pc.multiply_checked(times.cast(pa.int64()), _NANOSECONDS[times.type.unit]).cast(pa.string())
        # A point without a time gets that of its arrival.
        lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*heads, ""), joined, moments.fill_null(""), " ")
        return "\n".join(line.rstrip(" ") for line in lines.to_pylist()).encode()

    def _field(self, column: pa.Array, field: pa.Field) -> pa.Array:
        texts, kind = text_of(column, field), field.type
        if pa.types.is_floating(kind):
            texts = pc.if_else(pc.is_finite(column), texts, pa.scalar(None, pa.string()))
        elif pa.types.is_integer(kind):
            texts = pc.binary_join_element_wise(texts, "i", "")
        elif not (is_number(field) or pa.types.is_boolean(kind)):
            texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
            texts = pc.binary_join_element_wise('"', pc.replace_substring_regex(texts, r"[\r\n]", " "), '"', "")
        return pc.binary_join_element_wise(f",{_escaped(field.name, ', =')}=", texts, "").fill_null("")


def _escaped(text: str, signs: str) -> str:
    """Put a backslash before signs that have a meaning in a line."""
    return "".join(f"\\{sign}" if sign in signs else sign for sign in text)
