"""Where a run shows itself: on a page, in a record, or both; one place for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.errors import PlanError
from oop_engine.messages import say
from oop_engine.page.address import Address
from oop_engine.page.feed import Feed, Results
from oop_engine.page.record import Recorder
from oop_engine.page.serving import Served
from oop_engine.plan.graph import Plan
from operators.data.schema import Schema
from operators.protocol import Element


@attrs.define(eq=False)
class Shown:
    """Show a run of a `plan` while a `with` is open; give `watch` to the run, and `take` what it gives.

    - `page`: where a page is served, as ADDRESS:PORT; None for nowhere. `page_token`: what its readers must know.
    - `record`: the file that keeps what a page would show; None for none.
    - `schema`: that of the results that the page shows; None where it shows none.
    - `title`: what runs, by default the names of the outputs.
    - `told`: is given a line with the address of the page.
    """

    plan: Plan
    page: str | None = None
    page_token: str | None = attrs.field(default=None, repr=False)
    record: str | Path | None = None
    schema: Schema | None = None
    title: str = ""
    told: Callable[[str], None] = say
    url: str | None = attrs.field(init=False, default=None)
    """What to open in a browser, once the page is served."""
    feed: Feed | None = attrs.field(init=False, default=None)
    _recorder: Recorder | None = attrs.field(init=False, default=None)
    _open: ExitStack = attrs.field(init=False, factory=ExitStack)

    def __enter__(self) -> Self:
        if self.page_token is not None and self.page is None:
            raise PlanError(
                "page_token (--page-token) is for a page, and none is served.\n"
                '  Name its address: page="127.0.0.1:8080" (--page).'
            )
        with ExitStack() as stack:
            if self.record is not None:
                self._recorder = Recorder(Path(self.record), self.plan, self.title)
                self._recorder.__enter__()
                stack.callback(self._recorder.close)
            if self.page is not None:
                self.feed = Feed(None if self.schema is None else Results(self.schema))
                address = Address.of(self.page, self.page_token)
                self.url = stack.enter_context(Served.of_plan(address, self.plan, self.feed, self.title)).url
                self.told(f"page: {self.url}")
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def finish(self) -> None:
        """Show and keep how a run ended; the page stays until `close`."""
        if self._recorder is not None:
            self._recorder.finish()
        if self.feed is not None:
            self.feed.finish()

    def close(self) -> None:
        """End the page, and with it the streams of its readers, and close the record."""
        self._open.close()

    def watch(self, circuit: Circuit) -> None:
        """Bring page and record up to date, if it is time; call it where no operator is at work."""
        if self._recorder is not None:
            self._recorder.watch(circuit)
        if self.feed is not None:
            self.feed.watch(circuit)

    def look(self, circuit: Circuit) -> None:
        """Have the page show the run as it is now, though nobody has asked yet."""
        if self.feed is not None:
            self.feed.take(circuit)

    def take(self, element: Element) -> None:
        """Show what an output gave, if the page shows results."""
        if self.feed is not None and self.feed.results is not None:
            self.feed.results.take(element)
