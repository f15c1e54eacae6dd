"""One run of a query from the command line: streams opened, sink opened, progress shown, what was done told."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from oop_engine.circuit import PAGE_ROWS
from oop_engine.cli.compiling import NOTICE, compiled
from oop_engine.cli.errors import say
from oop_engine.cli.naming import Naming
from oop_engine.cli.progress import Progress
from oop_engine.cli.streams import opened, placed
from oop_engine.cli.summary import summary, table
from oop_engine.cli.words import counted
from oop_engine.meter import Statistics
from oop_engine.plan import Plan
from oop_engine.runtime import Deliver, run_to_end
from oop_engine.sinks import sink_for
from oop_engine.translate import query
from operators.page import Page
from operators.protocol import Element
from operators.schema import Schema

STDOUT: Final = "-"


@attrs.frozen
class Wishes:
    """What the user wants of the run, apart from the query and its streams."""

    to: str
    limit: int | None = None
    page_rows: int | None = None
    stats: bool = False
    quiet: bool = False


def run_query(text: str, naming: Naming, wishes: Wishes) -> Statistics:
    """Run a query to its end, or until SIGINT; results go to the sink, words about them to stderr."""
    with ExitStack() as stack:
        diverts = {}
        if naming.late_to is not None:
            diverts = {name: _Late(target, stack) for name, target in _late_files(placed(text, naming), naming.late_to)}
        streams = opened(text, naming, {name: late.take for name, late in diverts.items()})
        plan = Plan((query(text, streams).node,))
        progress = Progress(sys.stderr) if sys.stderr.isatty() and not wishes.quiet else None
        if not compiled() and not wishes.quiet:
            say(NOTICE)
        output = plan.outputs[0].schema
        shown = _Shown(stack.enter_context(sink_for(wishes.to).opened(output)), wishes, progress)
        try:
            statistics = run_to_end(
                plan,
                (shown.take,),
                page_rows=wishes.page_rows or PAGE_ROWS,
                watch=progress.watch if progress is not None else None,
                handle_signals=True,
            )
        finally:
            if progress is not None:
                progress.wipe()
        for name, late in diverts.items():
            late.made(streams[name].schema)
    shown.tell()
    if wishes.stats:
        say(table(plan, statistics))
    if not wishes.quiet:
        say(summary(plan, statistics, late=naming.late, late_to=naming.late_to))
    elif statistics.interrupted:
        say("interrupted: the results so far are written.")
    return statistics


@attrs.define(eq=False)
class _Shown:
    """Hand results to the sink, at most so many on standard output, with the progress line out of the way."""

    sink: Deliver
    wishes: Wishes
    progress: Progress | None
    _rows: int = attrs.field(init=False, default=0)
    _hidden: int = attrs.field(init=False, default=0)

    def take(self, element: Element) -> None:
        if isinstance(element, Page) and self.wishes.limit is not None and self.wishes.to == STDOUT:
            room = max(0, self.wishes.limit - self._rows)
            self._rows += len(element)
            self._hidden += max(0, len(element) - room)
            if room == 0:
                return
            element = element.slice(0, min(room, len(element)))
        if self.progress is None or self.wishes.to != STDOUT:
            self.sink(element)
        else:
            self.progress.aside(partial(self.sink, element))

    def tell(self) -> None:
        """Say what was not shown."""
        if self._hidden and not self.wishes.quiet:
            more = counted(self._hidden, "more result")
            say(f"... and {more}; --limit shows {self.wishes.limit}, --to FILE writes all.")


@attrs.define(eq=False)
class _Late:
    """Take the late tuples of one stream to a file of their own, which is there even when nothing was late."""

    target: str
    stack: ExitStack
    _sink: Deliver | None = attrs.field(init=False, default=None)

    def take(self, page: Page) -> None:
        if self._sink is None:
            self._sink = self.stack.enter_context(sink_for(self.target).opened(page.schema))
        self._sink(page)

    def made(self, schema: Schema) -> None:
        """Make the file, if no tuple was late."""
        if self._sink is None:
            fields = [*schema.arrow, pa.field("broken", pa.string()), pa.field("tuple", pa.int64())]
            self.stack.enter_context(sink_for(self.target).opened(Schema(pa.schema(fields))))


def _late_files(places: dict[str, tuple[str, ...]], target: str) -> list[tuple[str, str]]:
    """Give the file for the late tuples of each stream: the one named, or one a stream when there are several."""
    if len(places) == 1:
        return [(name, target) for name in places]
    path = Path(target)
    return [(name, str(path.with_name(f"{path.stem}-{name}{path.suffix}"))) for name in places]
