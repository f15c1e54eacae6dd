"""Send results to a server by HTTP: what is one request, what its answers mean, and when to send it again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from oop_engine.sinks.encoders import Ndjson
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.outbox import Delivery, Sender, Sent
from oop_engine.sinks.retry import RETRY, Refused, Retry
from operators.data.page import Page
from operators.data.schema import Schema

if TYPE_CHECKING:
    import httpx

_SECONDS: Final = 30.0
_AGAIN: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers of a server that may take the same request later."""
_ROWS: Final = 10_000
"""Results in one request, at most."""


@attrs.frozen
class Server:
    """One address that takes results by POST; the tests give another `transport`."""

    url: str
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    retry: Retry = attrs.field(default=RETRY, repr=False)
    transport: Any = attrs.field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Return the address without its options."""
        return self.url.partition("?")[0]

    def client(self) -> httpx.Client:
        """Make a client; SinkError where httpx is not installed."""
        try:
            # Optional: httpx is an extra, and few results are sent by HTTP.
            import httpx
        except ModuleNotFoundError as error:
            if error.name != "httpx":
                raise
            raise SinkError(
                f"\"{self.place}\": the package httpx is not installed.\n  Run pip install 'oop-engine[http]'."
            ) from error
        return httpx.Client(timeout=_SECONDS, transport=self.transport, headers=dict(self.headers))

    def post(
        self, client: httpx.Client, body: bytes, headers: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Send a request until the server has taken it; WriteFailed where it does not, with what it says."""
        # Optional: httpx is an extra.
        import httpx

        url = httpx.URL(self.url).copy_merge_params(dict(options or {}))

        def once() -> None:
            try:
                answer = client.post(url, content=body, headers=dict(headers or {}))
            except httpx.TransportError as error:
                raise Refused(str(error) or type(error).__name__) from error
            if not answer.is_success:
                said = answer.text.strip()[:300] or answer.reason_phrase
                after = answer.headers.get("Retry-After", "")
                raise Refused(
                    f"{answer.status_code} {said}", again=answer.status_code in _AGAIN,
                    after=float(after) if after.isdecimal() else None,
                )  # fmt: skip

        self.retry.call(once, self.place)


class Form(Protocol):
    """The form of results in the requests to a server."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Return what says how the body is encoded."""
        ...

    def body(self, page: Page) -> bytes:
        """Encode results as one request."""
        ...

    def options(self, key: str) -> Mapping[str, str]:
        """Return options of the URL for the request with a key; one that is sent again has the same."""
        ...


@attrs.frozen
class Posts:
    """Send pages as requests, each with at most 10,000 results, and with a key that is the same when it comes again."""

    server: Server
    form: Form
    client: httpx.Client = attrs.field(repr=False)

    @classmethod
    def to(cls, server: Server, form: Form) -> Posts:
        """Connect to a server."""
        return cls(server, form, server.client())

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        number = 0
        for page in pages:
            for start in range(0, len(page), _ROWS):
                key = "" if delivery is None else f"oop-engine-{delivery.job}-{delivery.epoch}-{number}"
                number += 1
                part = page.slice(start, min(start + _ROWS, len(page)))
                named = {"Idempotency-Key": key} if key else {}
                headers = {**self.form.headers, **named}
                self.server.post(self.client, self.form.body(part), headers, self.form.options(key))

    def close(self) -> None:
        self.client.close()


@attrs.frozen
class HttpSink(Sent):
    """Results as NDJSON in POST requests to a URL.

    A result is there at least once: a request that was not answered is sent again. With a checkpoint it then has the
    same header Idempotency-Key. The header Authorization is that of the variable OOP_HTTP_AUTHORIZATION. Revisions and
    retractions are further objects, which `sign` tells from others.
    """

    server: Server

    @classmethod
    def named(cls, text: str) -> HttpSink:
        """Read http://HOST:PORT/PATH, or https:; SinkError for a URL with a password."""
        place, _, rest = text.partition("://")
        if "@" in rest.partition("/")[0]:
            raise SinkError(
                f"{place}://...: the URL has a user or password, which others could read in the list of processes.\n"
                "  Leave it out, and set OOP_HTTP_AUTHORIZATION to the header, such as 'Bearer abc'."
            )
        return cls(Server(text, given("Authorization", "OOP_HTTP_AUTHORIZATION")))

    @property
    def place(self) -> str:
        return self.server.place

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        return Posts.to(self.server, _Lines(schema))


@attrs.frozen
class _Lines:
    schema: Schema
    headers: Mapping[str, str] = attrs.field(init=False, factory=lambda: {"Content-Type": "application/x-ndjson"})

    def body(self, page: Page) -> bytes:
        encoder = Ndjson()
        return encoder.open(self.schema) + encoder.write(page)

    def options(self, key: str) -> Mapping[str, str]:
        return {}


def given(header: str, variable: str, before: str = "") -> dict[str, str]:
    """Return a header whose value an environment variable has, if it is set: so no command line shows it."""
    value = os.environ.get(variable)
    return {header: f"{before}{value}"} if value else {}
