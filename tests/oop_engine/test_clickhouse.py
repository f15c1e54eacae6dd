"""ClickHouse itself, in this process through chdb, takes what its sink sends: tables, types, revisions, retractions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import httpx
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks.clickhouse import ClickhouseSink
from operators.data.page import Page
from operators.data.schema import Schema

chdb: Any = pytest.importorskip("chdb.session", reason="needs ClickHouse (pip install chdb)")
_INSERTED = re.compile(r"(INSERT INTO .*) FORMAT ArrowStream")


@attrs.define
class ClickHouse:
    """A server of one database in a folder, which answers what its HTTP interface would be asked."""

    folder: Path
    session: Any
    numbers: int = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        query, body = request.url.params["query"], request.read()
        if (inserted := _INSERTED.fullmatch(query)) is not None:
            # Here no body can follow a query, so a file has it.
            self.numbers += 1
            path = self.folder / f"{self.numbers}.arrow"
            path.write_bytes(body)
            query = f"{inserted[1]} SELECT * FROM file('{path}', 'ArrowStream')"
        self.session.query(query)
        return httpx.Response(200)

    def rows(self, query: str) -> list[dict[str, Any]]:
        text = str(self.session.query(f"{query} SETTINGS output_format_json_quote_64bit_integers = 0", "JSONEachRow"))
        return [json.loads(line) for line in text.splitlines()]

    def sink(self, options: str) -> ClickhouseSink:
        sink = ClickhouseSink.named(f"clickhouse://server:8123/default?{options}")
        return attrs.evolve(sink, server=attrs.evolve(sink.server, transport=httpx.MockTransport(self)))

    def take(self, options: str, schema: Schema, rows: Sequence[tuple[Any, ...]]) -> None:
        with self.sink(options).opened(schema) as deliver:
            deliver(Page.of_rows(schema, rows))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    folder = tmp_path_factory.mktemp("clickhouse")
    session = chdb.Session(str(folder / "data"))
    yield ClickHouse(folder, session)
    session.close()


def test_types_arrive_as_they_are(server: ClickHouse) -> None:
    packets = oop.pcap("demos/captures/web.pcap.gz").filter("proto = 17 and srcPort = 53")
    windows = packets.window(range="10 s").aggregate(oop.count(), oop.avg("length"), oop.top_k("destIP", 2), by="srcIP")
    expected = windows.to_arrow()
    schema = windows.schema
    with server.sink("table=dns").opened(schema) as deliver:
        for page in windows:
            deliver(page)
    order = ["window_start", "srcIP"]
    found = server.rows("SELECT *, toUnixTimestamp64Nano(window_start) AS at FROM dns ORDER BY window_start, srcIP")
    wanted = expected.sort_by([(name, "ascending") for name in order])
    assert [row["srcIP"] for row in found] == wanted["srcIP"].to_pylist()
    assert [row["count"] for row in found] == wanted["count"].to_pylist()
    assert [row["avg_length"] for row in found] == pytest.approx(wanted["avg_length"].to_pylist())
    assert [row["at"] for row in found] == wanted["window_start"].cast(pa.timestamp("ns", "UTC")).cast(
        "int64"
    ).to_pylist()
    tops = [[(one["value"], one["count"]) for one in row["top_2_destIP"]] for row in found]
    assert tops == [[(one["value"], one["count"]) for one in row] for row in wanted["top_2_destIP"].to_pylist()]


def test_the_last_result_of_a_key_stays(server: ClickHouse) -> None:
    schema = Schema.of(host="string", n="int64")
    server.take("table=last&key=host", schema, [("a", 1), ("b", 2)])
    server.take("table=last&key=host", schema, [("a", 3)])
    assert server.rows("SELECT * FROM last FINAL ORDER BY host") == [{"host": "a", "n": 3}, {"host": "b", "n": 2}]


def test_a_retraction_takes_its_result_away(server: ClickHouse) -> None:
    schema = Schema.of(host="string", n="int64", sign="int8")
    server.take("table=signed&key=host", schema, [("a", 1, 1), ("b", 2, 1)])
    server.take("table=signed&key=host", schema, [("a", 1, -1), ("a", 4, 1), ("b", 2, -1)])
    assert server.rows("SELECT host, n FROM signed FINAL") == [{"host": "a", "n": 4}]
    assert server.rows("SELECT sum(n * sign) AS n FROM signed") == [{"n": 4}]
