"""What servers get is in the form that each knows, comes again until it is taken, and never before it is committed."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime

import attrs
import cramjam
import httpx
import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks import SinkError, sink_for
from oop_engine.sinks.clickhouse import ClickhouseSink, Rows
from oop_engine.sinks.committed import committed
from oop_engine.sinks.disk import RealDisk
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sinks.influx import InfluxSink, Points
from oop_engine.sinks.posts import HttpSink
from oop_engine.sinks.prometheus import PrometheusSink
from oop_engine.sinks.retry import Retry
from oop_engine.sinks.syslog_messages import SyslogSink
from operators.data.address import parse_ip
from operators.data.page import Page, concatenate
from operators.data.schema import Schema, ip_field
from punctuation import before

SCHEMA = Schema(pa.schema([pa.field("ts", pa.timestamp("s", "UTC")), ip_field("srcIP"), ("n", pa.int64())]))
PAGE = Page.of_rows(SCHEMA, [(5, parse_ip("10.0.0.1"), 7), (6, None, None)])
SIGNED = Schema(pa.schema([*SCHEMA.arrow, pa.field("sign", pa.int8())]))


@attrs.define
class Answers:
    """A server that gives these answers, then 204, and keeps what it was sent."""

    answers: list[httpx.Response | Exception] = attrs.field(factory=list)
    requests: list[httpx.Request] = attrs.field(factory=list)
    waited: list[float] = attrs.field(factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else httpx.Response(204)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def behind(self, sink: HttpSink | InfluxSink | ClickhouseSink) -> HttpSink | InfluxSink | ClickhouseSink:
        """Return a sink that sends here, and waits in no time."""
        retry = Retry(attempts=3, first=1.0, sleep=self.waited.append)
        return attrs.evolve(
            sink, server=attrs.evolve(sink.server, transport=httpx.MockTransport(self), retry=retry)
        )  # fmt: skip


def test_results_are_posted_as_they_are_released(monkeypatch):
    monkeypatch.setenv("OOP_HTTP_AUTHORIZATION", "Bearer abc")
    answers = Answers()
    with answers.behind(HttpSink.named("https://server/in?x=1")).opened(SCHEMA) as deliver:
        deliver(PAGE)
        assert deliver.held and not answers.requests  # type: ignore[attr-defined]
        deliver(before("ts", 6))
        assert not deliver.held and len(answers.requests) == 1  # type: ignore[attr-defined]
        deliver(PAGE)
    request, _ = answers.requests
    assert str(request.url) == "https://server/in?x=1" and request.headers["Authorization"] == "Bearer abc"
    assert [json.loads(line)["srcIP"] for line in request.content.splitlines()] == ["10.0.0.1", None]


def test_a_request_comes_again_until_it_is_taken_but_not_where_it_is_refused():
    again = Answers([httpx.ConnectError("no route"), httpx.Response(429, headers={"Retry-After": "3"})])
    with again.behind(HttpSink.named("http://server/in")).opened(SCHEMA) as deliver:
        deliver(PAGE)
    assert again.waited == [1.0, 3.0] and len({r.content for r in again.requests}) == 1
    for answers, words in (
        (Answers([httpx.Response(503, text="busy")] * 3), "did not take results after 3 tries: 503 busy"),
        (Answers([httpx.Response(400, text="no such table")]), "did not take results: 400 no such table"),
    ):
        with (
            pytest.raises(WriteFailed, match=words),
            answers.behind(HttpSink.named("http://server/in")).opened(SCHEMA) as deliver,
        ):
            deliver(PAGE)
        assert not answers.answers


def test_a_job_sends_what_it_committed_and_again_with_the_same_key_what_was_not_taken(tmp_path):
    answers = Answers([httpx.Response(400)])
    sink, folder = answers.behind(HttpSink.named("http://server/in")), tmp_path / "outbox" / "0"
    first = committed(sink, SCHEMA, RealDisk(), folder)
    kept = first.fresh()
    first.begin(kept)
    first(PAGE)
    cut = first.cut(1, ended=False)
    first(PAGE)
    first.sync(cut)
    assert not answers.requests
    with pytest.raises(WriteFailed):
        first.publish(cut)
    # The same command goes on: what was committed is sent, what no checkpoint knows of is not.
    second = committed(sink, SCHEMA, RealDisk(), folder)
    second.begin(json.loads(json.dumps(cut)))
    second.publish(cut)
    assert len(answers.requests) == 2 and second.overtaken(kept) and not second.overtaken(cut)
    assert len({(r.headers["Idempotency-Key"], r.content) for r in answers.requests}) == 1
    empty = second.cut(2, ended=True)
    second.sync(empty)
    second.publish(empty)
    assert empty["rows"] == 2 and len(answers.requests) == 2
    second.close()
    assert [path.name for path in folder.iterdir()] == ["sent"]


def test_a_file_of_the_outbox_that_is_missing_is_an_error(tmp_path):
    box = committed(Answers().behind(HttpSink.named("http://server/in")), SCHEMA, RealDisk(), tmp_path / "outbox" / "0")
    box.begin(box.fresh())
    box(PAGE)
    cut = box.cut(1, ended=False)
    (tmp_path / "outbox" / "0" / "00000001.arrows").unlink()
    with pytest.raises(SinkError, match="was committed, and is missing"):
        box.publish(cut)


def test_a_job_keeps_its_outbox_in_its_folder(tmp_path):
    answers = Answers()
    stream = oop.rows([(n,) for n in range(10)], Schema.of(ts="int64")).window(range=5).aggregate(oop.count())
    output = stream.to(answers.behind(HttpSink.named("http://server/in")))
    for _ in range(2):
        output.run(checkpoint=tmp_path / "job")
        assert [json.loads(line)["count"] for r in answers.requests for line in r.content.splitlines()] == [5, 5]


def test_a_point_of_influx_has_tags_fields_and_its_time():
    schema = Schema(pa.schema([*SCHEMA.arrow, ("host", pa.string()), ("x", pa.float64()), ("up", pa.bool_())]))
    page = Page.of_rows(
        schema,
        [
            (5, parse_ip("10.0.0.1"), 7, "a=b, c", 1.5, True),
            (6, None, None, "", float("nan"), None),
        ],
    )
    points = Points.of(InfluxSink.named("influx://server:8086/flows?measurement=top%20hosts&tags=host"), schema)
    assert points.body(page).decode().splitlines() == [
        'top\\ hosts,host=a\\=b\\,\\ c srcIP="10.0.0.1",n=7i,x=1.5,up=true 5000000000',
        "top\\ hosts null=1i 6000000000",
    ]
    assert Points.of(InfluxSink.named("influx://server/flows"), schema).tags == ("srcIP", "host")


def test_influx_has_an_interface_for_each_version_and_a_token_of_the_environment(monkeypatch):
    monkeypatch.setenv("INFLUX_TOKEN", "abc")
    answers = Answers()
    for place in ("influx://server:8086/flows", "influxs://server/flows?org=mine"):
        with answers.behind(InfluxSink.named(place)).opened(SCHEMA) as deliver:
            deliver(PAGE)
    assert [str(request.url) for request in answers.requests] == [
        "http://server:8086/write?db=flows&precision=ns",
        "https://server/api/v2/write?org=mine&bucket=flows&precision=ns",
    ]
    assert answers.requests[0].headers["Authorization"] == "Token abc"


def test_clickhouse_gets_its_table_then_arrow(monkeypatch):
    monkeypatch.setenv("CLICKHOUSE_USER", "me")
    answers = Answers()
    with answers.behind(ClickhouseSink.named("clickhouse://server:8123/net?table=top&key=srcIP,ts")).opened(
        SCHEMA
    ) as deliver:
        deliver(PAGE)
    made, inserted = answers.requests
    assert made.url.params["query"] == (
        "CREATE TABLE IF NOT EXISTS `top` (`ts` DateTime64(0, 'UTC'), `srcIP` String, `n` Nullable(Int64))"
        " ENGINE = ReplacingMergeTree ORDER BY (`srcIP`, `ts`)"
    )
    assert inserted.url.params["query"] == "INSERT INTO `top` (`ts`, `srcIP`, `n`) FORMAT ArrowStream"
    assert inserted.url.params["database"] == "net" and inserted.headers["X-ClickHouse-User"] == "me"
    rows = pa.ipc.open_stream(io.BytesIO(inserted.content)).read_all()
    assert rows["srcIP"].to_pylist() == ["10.0.0.1", None] and rows["n"].to_pylist() == [7, None]


def test_clickhouse_takes_results_back_by_their_key_alone():
    assert "CollapsingMergeTree(`sign`) ORDER BY (`srcIP`)" in Rows("t", SIGNED).made(["srcIP"])
    with pytest.raises(SinkError, match="only by a key"):
        ClickhouseSink.named("clickhouse://server/net").sender(SIGNED)


def test_syslog_gets_a_message_a_result():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        sink = SyslogSink.named(f"syslog://127.0.0.1:{server.getsockname()[1]}?severity=warning&app=a b")
        with attrs.evolve(sink, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC)).opened(SCHEMA) as deliver:
            deliver(PAGE)
        head, _, text = server.recv(9000).partition(b" - result - ")
        assert head.startswith(b"<132>1 2026-11-21T00:00:00Z ") and head.endswith(b" ab")
        assert json.loads(text)["n"] == 7 and b'"n":null' in server.recv(9000)


def test_syslog_by_tcp_counts_the_bytes_of_each_message():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sink = SyslogSink.named(f"syslog+tcp://127.0.0.1:{server.getsockname()[1]}")
        with sink.opened(SCHEMA) as deliver:
            deliver(PAGE)
        taken, _ = server.accept()
        with taken, taken.makefile("rb") as stream:
            for n in (7, None):
                length = int(b"".join(iter(lambda: stream.read(1), b" ")))
                assert json.loads(stream.read(length).partition(b" - result - ")[2])["n"] == n


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("http://me:secret@server/in", "OOP_HTTP_AUTHORIZATION"),
        ("influx://server/", "names no bucket"),
        ("influx://me:secret@server/flows", "has a password or token"),
        ("influx://server/flows?tag=a", '"tag" is no option of it. Did you mean "tags"'),
        ("clickhouse:///net", "names no server"),
        ("syslog://server?severity=errr", '"errr" is none of emerg'),
    ],
)
def test_another_uri_is_refused(place, words):
    with pytest.raises(SinkError, match=words) as caught:
        sink_for(place)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "place", "words"),
    [
        (SIGNED, "influx://server/flows", "cannot be taken back"),
        (SCHEMA, "influx://server/flows?tags=host", 'no column "host"'),
        (SCHEMA, "influx://server/flows?time=n", '"n" is no point in time'),
        (SCHEMA, "clickhouse://server/net?key=host", 'the key "host" is no column'),
    ],
)
def test_results_without_the_columns_are_refused(schema, place, words):
    opened: Callable[[], object] = lambda: sink_for(place).opened(schema).__enter__()  # noqa: E731
    with pytest.raises(SinkError, match=words):
        opened()


def test_prometheus_gets_samples_in_the_order_of_their_times():
    answers, later = Answers(), PAGE.take(np.array([0]))
    page = concatenate(SCHEMA, [Page.of_rows(SCHEMA, [(9, parse_ip("10.0.0.1"), 8)]), later, PAGE.slice(1, 2)])
    with answers.behind(PrometheusSink.named("prometheus://server:9090?prefix=net:")).opened(SCHEMA) as deliver:
        deliver(page)
    (request,) = answers.requests
    assert str(request.url) == "http://server:9090/api/v1/write" and request.headers["Content-Encoding"] == "snappy"
    body = bytes(cramjam.snappy.decompress_raw(request.content))
    # One series: its name and label, then 7 at 5,000 ms before 8 at 9,000 ms; the null has no sample.
    label = b"\x0a\x11\x0a\x08__name__\x12\x05net_n" + b"\x0a\x11\x0a\x05srcIP\x12\x0810.0.0.1"
    samples = [
        b"\x12\x0c\x09" + np.float64(n).tobytes() + b"\x10" + time for n, time in ((7, b"\x88\x27"), (8, b"\xa8\x46"))
    ]
    assert body == b"\x0a" + bytes([len(label) + 28]) + label + b"".join(samples)


@pytest.mark.parametrize(
    ("schema", "words"),
    [(SIGNED, "cannot be taken back"), (Schema.of(ts=pa.timestamp("s"), host="string"), "no column of numbers")],
)
def test_prometheus_takes_nothing_back_and_needs_numbers(schema, words):
    with pytest.raises(SinkError, match=words):
        PrometheusSink.named("prometheus://server:9090").sender(schema)
