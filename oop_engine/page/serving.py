"""A page is served in a thread of its own, by hypercorn on a trio loop, beside the run that it shows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import attrs
import trio

from oop_engine.errors import PlanError
from oop_engine.page.address import Address
from oop_engine.page.asgi import App, Moments, Receive
from oop_engine.page.feed import EVERY, Feed
from oop_engine.page.outline import outline
from oop_engine.plan.graph import Plan
from operators.data.printable import printable

Serve: TypeAlias = Callable[[App, socket.socket, Callable[[], Awaitable[None]]], Awaitable[None]]
"""Serves an application on a socket until something has ended."""

_GRACE: Final = 1.0
"""Seconds that readers have to take the last view."""


class TrioWaits:
    """Waits as trio does."""

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def until_gone(self, receive: Receive, stream: Callable[[], Awaitable[None]]) -> None:
        """Run a stream until it ends or its reader has gone."""
        async with trio.open_nursery() as nursery:

            async def gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(gone)
            await stream()
            nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class Served:
    """Serve a page while a `with` is open; `url` is where.

    - `address`: where to listen.
    - `title`: what runs, or ran; `outlined`: the drawing of its plan.
    - `shown`: the feed of a run, or the moments of a record.
    """

    address: Address
    title: str
    outlined: Mapping[str, Any]
    shown: Feed | Moments
    _app: App | None = attrs.field(init=False, default=None)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _stop: Callable[[], None] | None = attrs.field(init=False, default=None)

    @classmethod
    def of_plan(cls, address: Address, plan: Plan, feed: Feed, title: str = "") -> Self:
        """Serve the page of a run of a plan."""
        title = title or "; ".join(output.label for output in plan.outputs)
        return cls(address, printable(title), outline(plan), feed)

    @property
    def url(self) -> str:
        """Return what to open in a browser."""
        # What is behind # is sent to nobody, so it stands in no log and no referrer.
        return f"http://{self.address.listening}/" + (f"#token={self.address.token}" if self.address.token else "")

    def __enter__(self) -> Self:
        serve = _serve()
        listening = self.address.bound()
        self.address = self.address.at(int(listening.getsockname()[1]))
        self._app = App(self.address, self.title, self.outlined, self.shown, TrioWaits())
        begun = threading.Event()
        run = partial(self._run, serve, listening, begun)
        self._thread = threading.Thread(target=lambda: trio.run(run), name="page", daemon=True)
        self._thread.start()
        begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._app is not None and self._stop is not None and self._thread is not None:
            self._app.stopping = True
            self._stop()
            self._thread.join(2 * _GRACE + 1)

    async def _run(self, serve: Serve, listening: socket.socket, begun: threading.Event) -> None:
        stopped, token = trio.Event(), trio.lowlevel.current_trio_token()

        def stop() -> None:
            try:
                token.run_sync_soon(stopped.set)
            except trio.RunFinishedError:
                return  # it has ended already

        async def told() -> None:
            await stopped.wait()
            assert self._app is not None
            if self._app.streams:
                # Streams see within a step that they are to end, and send the last view.
                await trio.sleep(2 * EVERY)

        self._stop = stop
        begun.set()
        assert self._app is not None
        await serve(self._app, listening, told)


def _serve() -> Serve:
    """Return what serves an application on a socket; PlanError where hypercorn is not there."""
    try:
        # Optional: only a page needs it.
        from hypercorn.config import Config
        from hypercorn.trio import serve as hypercorn_serve
    except ImportError:
        raise PlanError(
            "a page is served by hypercorn, which is not installed.\n  Install it: pip install 'oop-engine[page]'"
        ) from None

    async def serve(app: App, listening: socket.socket, told: Callable[[], Awaitable[None]]) -> None:
        config = Config()
        config.bind = [f"fd://{listening.detach()}"]
        config.errorlog = config.accesslog = None
        config.graceful_timeout = _GRACE
        config.include_server_header = False
        await hypercorn_serve(app, config, shutdown_trigger=told)  # pyright: ignore[reportArgumentType]

    return serve
