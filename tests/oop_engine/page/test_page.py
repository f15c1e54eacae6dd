"""The page of a run answers only who may see it, says what may be loaded, and sends what a run is at as it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any
from urllib.request import urlopen

import attrs
import pytest
import trio

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.errors import PlanError
from oop_engine.page.address import Address
from oop_engine.page.asgi import STREAMS, App
from oop_engine.page.feed import EVERY, ROWS, Feed, Results
from oop_engine.page.outline import outline
from oop_engine.page.serving import Served, TrioWaits
from oop_engine.plan.graph import Plan
from oop_engine.sources.errors import SourceError
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

HERE = Address.of("127.0.0.1:8080")
SCHEMA = oop.Schema.of(ts="int64", k="string")
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202e"


def running(name: str = "link") -> tuple[Run, Iterator[Element]]:
    """Begin a run whose second window waits for a source of this name."""
    rows = [(1, "a"), (12, "b"), (38, "a"), (50, "b")]
    stream = oop.rows(iter(rows), SCHEMA, name=name, punctuate=oop.slack(20))
    run = Run(Plan((stream.window(range=10).aggregate(oop.count(), by="k").node,)), 1)
    given = iter(run)
    next(element for _, element in given if isinstance(element, Page))
    return run, (element for _, element in given)


@attrs.define
class Simulated:
    """Waits without a clock; a reader goes after so many steps."""

    steps: int
    passing: Callable[[], None] = lambda: None

    async def sleep(self, seconds: float) -> None:
        assert seconds == EVERY
        self.steps -= 1
        self.passing()
        if self.steps <= 0:
            raise trio.EndOfChannel

    async def until_gone(self, receive: object, stream: Callable[[], Awaitable[None]]) -> None:
        with suppress(trio.EndOfChannel):
            await stream()


def app(address: Address = HERE, run: Run | None = None, steps: int = 3) -> App:
    run = running()[0] if run is None else run
    feed = Feed(Results(run.plan.outputs[0].schema))
    waits = Simulated(steps, lambda: feed.watch(run.circuit))
    return App(address, HOSTILE, outline(run.plan), feed, waits)


Answer = tuple[int, Mapping[str, str], str]


def asked(of: App, target: str, *, host: str = "127.0.0.1:8080", method: str = "GET") -> Answer:
    """Ask for something, and give the status, the headers and the body."""
    path, _, query = target.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    scope = {
        "type": "http", "method": method, "path": path, "query_string": query.encode(),
        "headers": [(b"host", host.encode())],
    }  # fmt: skip
    trio.run(of, scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(event.get("body", b"") for event in sent[1:]).decode()


def events(body: str) -> Iterator[tuple[str, Any]]:
    for name, data in re.findall(r"event: (\w+)\ndata: (.*)\n\n", body):
        yield name, json.loads(data)


def test_a_page_may_load_from_itself_alone_and_nothing_in_it_is_from_elsewhere() -> None:
    names = [entry.name for entry in files("oop_engine.page").joinpath("static").iterdir()]
    served = app()
    for name in ["", *names]:
        status, headers, body = asked(served, f"/{name}")
        assert status == 200, name
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
        assert "set-cookie" not in headers
        assert re.findall(r"https?://[^\"' ]+", body) in ([], ["http://www.w3.org/2000/svg"]), name
        for markup in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style="):
            assert markup not in body, (name, markup)
    assert "script" in asked(served, "/")[2] and "<script>" not in asked(served, "/")[2]


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "[::1]:8080", "LOCALHOST:9000"])
def test_a_request_for_this_machine_is_answered(host: str) -> None:
    assert asked(app(), "/plan", host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example:8080", "127.0.0.1.evil.example:8080", "evil.example", "", ":8080"])
@pytest.mark.parametrize("target", ["/", "/plan", "/events", "/page.js"])
def test_a_request_for_another_host_is_refused(host: str, target: str) -> None:
    status, headers, body = asked(app(), target, host=host)
    assert status == 421 and "127.0.0.1" in body and "link" not in body and headers["content-security-policy"]


def test_what_is_read_is_read_only_and_what_is_not_there_is_said() -> None:
    assert asked(app(), "/", method="POST")[0] == 405
    for target in ("/nothing", "/../pyproject.toml", "/static/page.js", "/moment?number=0"):
        assert asked(app(), target)[0] == 404


def test_a_token_is_asked_for_where_there_is_one() -> None:
    address = Address.of("0.0.0.0:8080", "abcdefgh")
    for target in ("/plan", "/plan?token=abcdefgi", "/events", "/events?token="):
        status, _, body = asked(app(address), target, host="collector.example:8080")
        assert status == 401 and "link" not in body
    assert asked(app(address), "/plan?token=abcdefgh", host="collector.example:8080")[0] == 200
    assert "abcdefgh" not in repr(address)


@pytest.mark.parametrize(
    ("text", "token", "said"),
    [
        ("0.0.0.0:8080", None, "--page-token"), ("192.0.2.1:80", None, "other machines"), ("80", None, "ADDRESS:PORT"),
        ("example.org:80", None, "Names are not looked up"), ("127.0.0.1:65536", None, "ADDRESS:PORT"),
        ("0.0.0.0:80", "short", "8 or more"), ("0.0.0.0:80", "with space", "letters and digits"),
    ],
)  # fmt: skip
def test_an_address_that_others_reach_without_a_token_is_refused(text: str, token: str | None, said: str) -> None:
    with pytest.raises((PlanError, SourceError), match=said):
        Address.of(text, token)


def test_an_address_that_is_taken_is_refused_and_ipv6_is_one() -> None:
    with Address.of("127.0.0.1:0").bound() as taken, pytest.raises(PlanError, match="cannot listen on"):
        Address.of(f"127.0.0.1:{taken.getsockname()[1]}").bound()
    assert str(Address.of("[::1]:8080").listening) == "[::1]:8080"
    assert Address.of("localhost:1").listening.is_loopback


def test_a_run_sends_views_only_while_somebody_looks_and_no_more_often_than_said() -> None:
    now = 0.0
    run, _ = running()
    feed = Feed(Results(run.plan.outputs[0].schema), clock=lambda: now)
    feed.watch(run.circuit)
    assert feed.view is None and not feed.asked
    feed.ask()
    for _ in range(10):
        feed.watch(run.circuit)
    assert feed.number == 1 and feed.view is not None
    now = 60.0
    feed.watch(run.circuit)
    feed.finish()
    assert feed.number == 1 and not feed.asked


def test_events_are_the_last_view_and_results_and_text_of_others_stays_text() -> None:
    run, rest = running(HOSTILE)
    served = app(run=run)
    assert isinstance(served.shown, Feed) and served.shown.results is not None
    for element in rest:
        served.shown.results.take(element)
    status, headers, body = asked(served, "/events")
    assert status == 200 and headers["content-type"] == "text/event-stream"
    found = dict(events(body))
    view = found["view"]
    assert view["state"] == "ended" and view["sources"][0]["label"] == "<img src=x onerror=alert(1)>\\x1b[31m\\u202e"
    assert found["results"]["total"] == 3 and len(found["results"]["rows"]) == 3
    assert found["results"]["columns"] == ["k", "count", "wid", "window_start", "window_end"]
    plan = json.loads(asked(served, "/plan")[2])
    assert plan["live"] and len(plan["boxes"]) == len(view["nodes"]) + 1
    assert plan["boxes"][0]["kind"] == "source"


def test_a_stream_that_is_to_end_sends_the_last_view_first() -> None:
    served = app()
    assert isinstance(served.shown, Feed)
    served.shown.take(running()[0].circuit)
    served.stopping = True
    assert [name for name, _ in events(asked(served, "/events")[2])] == ["view", "results", "end"]


def test_only_so_many_readers_look_at_once() -> None:
    served = app()
    served.streams = STREAMS
    status, _, body = asked(served, "/events")
    assert status == 503 and str(STREAMS) in body


def test_results_are_the_last_ones_newest_first_and_hold_no_more_than_those() -> None:
    schema = oop.Schema.of(n="int64", x="float64", t="timestamp[s]", s="string")
    results = Results(schema)
    for first in range(0, 500, 100):
        rows = [(n, n / 2 if n % 3 else float("nan"), n, f"{n}\x1b") for n in range(first, first + 100)]
        results.take(Page.of_rows(schema, rows))
    big = Page.of_rows(schema, [(2**60 + n, None, n, None) for n in range(1000)])
    found = results.plain()
    assert found["total"] == 500 and [row[0] for row in found["rows"]] == list(range(499, 299, -1))
    assert found["rows"][-1] == (300, "nan", "1970-01-01T00:05:00Z", "300\\x1b")
    results.take(big)
    found = results.plain()
    assert found["total"] == 1500 and len(found["rows"]) == ROWS
    assert found["rows"][0] == (str(2**60 + 999), None, "1970-01-01T00:16:39Z", None)
    assert sum(page.batch.nbytes for page in results._pages) < big.batch.nbytes / 2


def test_a_reader_that_goes_ends_its_stream() -> None:
    """The waits of trio, with its own clock."""
    gone = trio.Event()

    async def receive() -> Mapping[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def stream() -> None:
        gone.set()
        await trio.sleep_forever()

    trio.run(TrioWaits().until_gone, receive, stream)
    assert gone.is_set()


def test_a_page_is_served_beside_a_run_and_its_readers_get_the_end() -> None:
    run, rest = running()
    feed = Feed(Results(run.plan.outputs[0].schema))
    with Served.of_plan(Address.of("127.0.0.1:0"), run.plan, feed) as page:
        assert page.url == f"http://127.0.0.1:{page.address.listening.port}/"
        with urlopen(page.url, timeout=20) as answer:
            assert answer.status == 200 and "server" not in answer.headers
        reader = urlopen(f"{page.url}events", timeout=20)
        while not feed.asked:
            assert reader.status == 200
        feed.watch(run.circuit)
        for element in rest:
            feed.results.take(element)
        feed.finish()
    with reader:
        found = list(events(reader.read().decode()))
    assert [name for name, _ in found][-1] == "end"
    assert next(data for name, data in found[::-1] if name == "view")["state"] == "ended"
    assert next(data for name, data in found[::-1] if name == "results")["total"] == 3


def test_the_outline_has_a_box_for_each_node_with_room_and_a_route_for_each_edge() -> None:
    schema = Schema.of(ts="int64", k="string")
    streams = [oop.rows([(1, "a")], schema, name=HOSTILE * 4) for _ in range(3)]
    plan = Plan((oop.meld(*streams).window(range=10).aggregate(oop.count()).node,))
    found = outline(plan)
    assert len(found["boxes"]) == len(plan.nodes) + 1
    assert all(len(box["title"]) <= 2 and box["width"] > 200 for box in found["boxes"] if box["kind"] != "output")
    assert {(route["upstream"], route["reader"]) for route in found["routes"]} >= {(0, 3), (1, 3), (2, 3)}
    assert "\x1b" not in json.dumps(found) and "\\u001b" not in json.dumps(found)
