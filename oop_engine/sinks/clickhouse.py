"""Results go to a table of ClickHouse, by its HTTP interface, as Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode

import attrs
import pyarrow as pa

from oop_engine.sinks.addresses import Address
from oop_engine.sinks.encoders import Arrow
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.fields import looked_up, plain
from oop_engine.sinks.outbox import Sender, Sent
from oop_engine.sinks.posts import Posts, Server, given
from operators.data.page import Page
from operators.data.readable import address_text_field
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.retractions import SIGN

_EXAMPLE: Final = (
    "clickhouse://host:8123/database?table=hosts&key=srcIP,window_start. The user and password are those of"
    " CLICKHOUSE_USER and CLICKHOUSE_PASSWORD."
)
_TYPES: Final[Sequence[tuple[pa.DataType, str]]] = (
    (pa.int8(), "Int8"), (pa.int16(), "Int16"), (pa.int32(), "Int32"), (pa.int64(), "Int64"),
    (pa.uint8(), "UInt8"), (pa.uint16(), "UInt16"), (pa.uint32(), "UInt32"), (pa.uint64(), "UInt64"),
    (pa.float32(), "Float32"), (pa.float64(), "Float64"), (pa.bool_(), "Bool"), (pa.date32(), "Date32"),
)  # fmt: skip
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


@attrs.frozen
class ClickhouseSink(Sent):
    """Results as rows of a table, which is made if need be.

    With `key`, the table is a ReplacingMergeTree: of results with the same key the last one stays, at a merge, and at
    once in SELECT ... FINAL. Results with retractions need a key, and their table is a CollapsingMergeTree(sign). With
    a checkpoint, a block that is sent again has the same insert_deduplication_token, which replicated tables, and
    others with non_replicated_deduplication_window, know. Else each result is there at least once.
    """

    server: Server
    table: str = "results"
    key: tuple[str, ...] = ()

    @classmethod
    def named(cls, text: str) -> ClickhouseSink:
        """Read clickhouse://HOST:PORT/DATABASE?table=NAME&key=A,B, or clickhouses:; SinkError for other parts."""
        address = Address.of(text, ("table", "key"), _EXAMPLE)
        scheme = "https" if address.parts.scheme.lower() == "clickhouses" else "http"
        database = address.parts.path.strip("/") or "default"
        url = f"{scheme}://{address.host}/?{urlencode({'database': database})}"
        headers = {
            **given("X-ClickHouse-User", "CLICKHOUSE_USER"), **given("X-ClickHouse-Key", "CLICKHOUSE_PASSWORD")
        }  # fmt: skip
        return cls(Server(url, headers), address.options.get("table", "results"), address.names("key"))

    @property
    def place(self) -> str:
        return f"{self.server.place} ({self.table})"

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        for name in self.key:
            if name not in schema:
                raise SinkError(f'the key "{name}" is no column of the results. {did_you_mean(name, schema.names)}')
        if SIGN in schema and not self.key:
            raise SinkError(
                "the results take others back, and only by a key does ClickHouse know which.\n  Write &key=A,B."
            )
        form = Rows(self.table, schema)
        posts = Posts.to(self.server, form)
        self.server.post(posts.client, b"", options={"query": form.made(self.key)})
        return posts


@attrs.frozen
class Rows:
    """Results as an Arrow stream for a table; addresses are text."""

    table: str
    schema: Schema
    headers: Mapping[str, str] = attrs.field(init=False, factory=dict)

    @property
    def _arrow(self) -> pa.Schema:
        return pa.schema([address_text_field(field) for field in plain(self.schema.arrow)])

    def made(self, key: Sequence[str]) -> str:
        """Return what makes the table.

        >>> Rows("hosts", Schema.of(host="string", n="int64")).made(["host"])
        'CREATE TABLE IF NOT EXISTS `hosts` (`host` String, `n` Nullable(Int64)) ENGINE = ReplacingMergeTree ORDER BY
        (`host`)'
        """
        columns = [f"{_quoted(f.name)} {_type(f, known=f.name in key or f.name == SIGN)}" for f in self._arrow]
        engine = "ReplacingMergeTree" if key else "MergeTree"
        engine = f"CollapsingMergeTree({_quoted(SIGN)})" if SIGN in self.schema else engine
        order = f"({', '.join(map(_quoted, key))})" if key else "tuple()"
        made = f"CREATE TABLE IF NOT EXISTS {_quoted(self.table)} ({', '.join(columns)})"
        return f"{made} ENGINE = {engine} ORDER BY {order}"

    def options(self, key: str) -> Mapping[str, str]:
        names = ", ".join(map(_quoted, self.schema.names))
        query = f"INSERT INTO {_quoted(self.table)} ({names}) FORMAT ArrowStream"
        return {"query": query, **({"insert_deduplication_token": key} if key else {})}

    def body(self, page: Page) -> bytes:
        schema, encoder = Schema(plain(self.schema.arrow)), Arrow(stream=True)
        written = Page(schema, looked_up(page.batch, schema.arrow))
        return encoder.open(schema) + encoder.write(written) + encoder.close()


def _type(field: pa.Field, *, known: bool) -> str:
    """Return the type of a column, which may be null unless it is `known`."""
    kind = field.type
    if pa.types.is_timestamp(kind):
        name = f"DateTime64({_DIGITS[kind.unit]}, 'UTC')"
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"Array({_type(kind.value_field, known=False)})"
    elif pa.types.is_struct(kind):
        return f"Tuple({', '.join(f'{_quoted(f.name)} {_type(f, known=False)}' for f in kind)})"
    else:
        name = next((name for one, name in _TYPES if one == kind), "String")
    return name if known else f"Nullable({name})"


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
