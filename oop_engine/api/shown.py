"""The page of a run that Python started: its feed, and the server that shows it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.page.address import Address
from oop_engine.page.feed import Feed, Results
from oop_engine.page.serving import Served
from operators.protocol import Element


@attrs.frozen(eq=False)
class Shown:
    """Hold a page until `close`."""

    feed: Feed
    url: str
    _circuit: Circuit
    _served: ExitStack

    @classmethod
    def of(cls, address: str, token: str | None, circuit: Circuit, *, results: bool = False) -> Self:
        """Serve the page of a run, with its results or without."""
        feed = Feed(Results(circuit.plan.outputs[0].schema) if results else None)
        served = ExitStack()
        page = served.enter_context(Served.of_plan(Address.of(address, token), circuit.plan, feed))
        return cls(feed, page.url, circuit, served)

    def given(self, element: Element) -> None:
        """Show what an output gave; call it where no operator is at work."""
        if self.feed.results is not None:
            self.feed.results.take(element)
        self.feed.watch(self._circuit)

    def close(self) -> None:
        """End the page, and with it the streams of its readers."""
        self._served.close()
