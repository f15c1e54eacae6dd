"""The page as an ASGI application: a few files, the plan, and a stream of views; it knows no socket and no clock.

All that a browser gets is text or JSON that its script writes as text. Nothing is read from elsewhere, nothing is kept
in the browser, and nothing is changed by a request.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qs

import attrs

from oop_engine.page.address import Address
from oop_engine.page.feed import EVERY, Feed

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

STREAMS: Final = 16
"""Readers of a page at the same time."""
_BEAT: Final = 40
"""Steps without news after which a stream says that it is there."""
_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FILES: Final = frozenset(
    {"index.html", "page.css", "page.js", "dom.js", "graph.js", "lanes.js", "tables.js", "icon.svg"}
)
_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Moments(Protocol):
    """Views that were recorded."""

    def times(self) -> list[int]:
        """Return when each was, in ns since 1970."""
        ...

    def moment(self, number: int) -> str:
        """Return one as JSON."""
        ...


class Waits(Protocol):
    """The loop that serves an application, as far as it needs one."""

    async def sleep(self, seconds: float) -> None: ...

    async def until_gone(self, receive: Receive, stream: Callable[[], Awaitable[None]]) -> None:
        """Run a stream until it ends or its reader has gone."""
        ...


@attrs.define(eq=False)
class App:
    """Serve the page of a run, or of what was recorded of one.

    - `address`: where it is served, which tells the requests that are for us.
    - `title`, `outline`: what runs, and the drawing of its plan.
    - `shown`: the feed of a run, or the moments of a record.
    """

    address: Address
    title: str
    outline: Mapping[str, Any]
    shown: Feed | Moments
    waits: Waits
    streams: int = attrs.field(init=False, default=0)
    """Readers that are there."""
    stopping: bool = False
    """Whether streams are to end once they have sent the last view."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        if scope["type"] != "http":
            return
        query = scope.get("query_string", b"").decode("latin-1")
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        # HTTP/2 has the host in a header of its own, which the server hands on under this name.
        if not self.address.listening.admits(headers.get(b"host", "")):
            await _answer(send, 421, "This address shows a run to its own machine. Open it as 127.0.0.1 or localhost.")
        elif scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, "A page is only read: GET or HEAD.")
        else:
            await self._get(str(scope["path"]), parse_qs(query), receive, send)

    async def _get(self, path: str, query: Mapping[str, list[str]], receive: Receive, send: Send) -> None:
        name = path.removeprefix("/") or "index.html"
        if name in _FILES:
            kind = _KINDS[name.rpartition(".")[2]]
            await _answer(send, 200, _file(name), f"{kind}; charset=utf-8")
        elif name not in ("plan", "events", "moment"):
            await _answer(send, 404, "There is no such page. It is at /.")
        elif not self.address.knows(query.get("token", [""])[0]):
            await _answer(send, 401, "This run is shown to who knows its token. Open the address that was printed.")
        elif name == "plan":
            await _answer(send, 200, self._plan(), "application/json")
        elif name == "events" and isinstance(self.shown, Feed):
            await self._events(self.shown, receive, send)
        elif name == "moment" and not isinstance(self.shown, Feed):
            number = query.get("number", ["0"])[0]
            last = len(self.shown.times()) - 1
            if not number.isascii() or not number.isdigit() or int(number) > last:
                await _answer(send, 404, f"There are moments 0 to {last} in this record.")
            else:
                await _answer(send, 200, self.shown.moment(int(number)).encode(), "application/json")
        else:
            await _answer(send, 404, "A run has events, a record has moments.")

    def _plan(self) -> bytes:
        live = isinstance(self.shown, Feed)
        # A browser's numbers hold no ns since 1970.
        times = [] if isinstance(self.shown, Feed) else [ns / 1e9 for ns in self.shown.times()]
        results = isinstance(self.shown, Feed) and self.shown.results is not None
        told = {"title": self.title, "live": live, "times": times, "results": results}
        return _json({**told, **self.outline}).encode()

    async def _events(self, feed: Feed, receive: Receive, send: Send) -> None:
        if self.streams >= STREAMS:
            await _answer(send, 503, f"{STREAMS} readers look at this run already. Close another page of it.")
            return
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [*_HEADERS, (b"content-type", b"text/event-stream")],
            }
        )
        self.streams += 1
        try:
            await self.waits.until_gone(receive, lambda: self._stream(feed, send))
        finally:
            self.streams -= 1

    async def _stream(self, feed: Feed, send: Send) -> None:
        """Send what is new, until the run has ended and all was sent."""
        number, total, idle = 0, -1, 0
        while True:
            feed.ask()
            last = self.stopping
            idle += 1
            if feed.number != number and feed.view is not None:
                idle = 0
                number, text = feed.text()
                await _event(send, "view", text)
            if feed.results is not None and feed.results.total != total and (number or last):
                found = feed.results.plain()
                total, idle = found["total"], 0
                await _event(send, "results", _json(found))
            if last:
                await _event(send, "end", "{}")
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            if idle >= _BEAT:
                idle = 0
                await send({"type": "http.response.body", "body": b": here\n\n", "more_body": True})
            await self.waits.sleep(EVERY)


@cache
def _file(name: str) -> bytes:
    return files("oop_engine.page").joinpath("static", name).read_bytes()


async def _live(receive: Receive, send: Send) -> None:
    """Begin and end with the server."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def _event(send: Send, name: str, data: str) -> None:
    # JSON on one line has no line end that could begin a field of its own.
    body = f"event: {name}\ndata: {data}\n\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _answer(send: Send, status: int, body: str | bytes, kind: str = "text/plain; charset=utf-8") -> None:
    content = body.encode() + b"\n" if isinstance(body, str) else body
    headers = [*_HEADERS, (b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
