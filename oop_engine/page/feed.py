"""A feed hands views and results from the thread of a run to whoever serves them; while nobody asks, it takes none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from time import monotonic, thread_time
from typing import Any, Final

import attrs
import pyarrow as pa

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.view import View, Viewer
from operators.data.page import Page
from operators.data.printable import printable
from operators.data.readable import text_of
from operators.data.schema import Schema
from operators.protocol import Element

EVERY: Final = 0.22
"""Seconds between two views that a reader is sent: four a second, and time to send them."""
_LEAST: Final = 0.15
"""Seconds between two views of a run; who watches comes ten times a second."""
ROWS: Final = 200
"""Results that are shown."""
_ASKED: Final = 2.0
"""Seconds for which a reader counts as there after it asked."""
_ASKING: Final = 0.008
"""The share of the time that open windows and `why` may take; with the rest of a view and its way out, 2 % are kept."""
_SHARE: Final = 0.005
"""The share of the time that views may take of a run, beside what a viewer takes for what costs more."""
_SELDOM: Final = 2.0
"""Seconds between two views at most, whatever they cost."""
_EXACT: Final = 2**53
"""Integers from here on are not exact in a browser, and are sent as text."""


@attrs.define(eq=False)
class Feed:
    """Hold the last view of a run and its last results.

    - `results`: keeps the results; None where they are not shown, as those that files take.
    - `clock`: seconds that rise.
    """

    results: Results | None
    clock: Callable[[], float] = monotonic
    number: int = attrs.field(init=False, default=0)
    """Counts the views."""
    view: View | None = attrs.field(init=False, default=None)
    _text: tuple[int, str] = attrs.field(init=False, default=(0, ""))
    """The last view that was asked for as JSON, and its number: all readers get the same."""
    _circuit: Circuit | None = attrs.field(init=False, default=None)
    _viewer: Viewer | None = attrs.field(init=False, default=None)
    _asked: float = attrs.field(init=False, default=float("-inf"))
    _due: float = attrs.field(init=False, default=float("-inf"))

    def ask(self) -> None:
        """Say that somebody looks, so that views are taken for a while; from any thread."""
        self._asked = self.clock()

    def text(self) -> tuple[int, str]:
        """Return the number of the last view and its JSON; call it in the thread of the readers."""
        number, view = self.number, self.view
        if view is not None and self._text[0] != number:
            self._text = number, view.to_json()
        return self._text

    def watch(self, circuit: Circuit) -> None:
        """Take a view, if somebody looks and it is time; call it where no operator is at work."""
        self._circuit = circuit
        now = self.clock()
        if self.asked and now >= self._due:
            self.take(circuit)

    @property
    def asked(self) -> bool:
        """Return whether somebody looks."""
        return self.clock() - self._asked <= _ASKED

    def finish(self) -> None:
        """Take the last view of a run that has ended, if somebody looks."""
        if self._circuit is not None and self.asked:
            self.take(self._circuit)

    def take(self, circuit: Circuit) -> None:
        """Take a view now; call it where no operator is at work."""
        if self._viewer is None or self._viewer.circuit is not circuit:
            self._viewer = Viewer(circuit, _ASKING)
        began = thread_time()
        self.view = self._viewer.look()
        self.number += 1
        # The viewer sees to it itself that what costs most is asked for seldom.
        took = thread_time() - began - self._viewer.asking
        self._due = self.clock() + min(max(_LEAST, took / _SHARE), _SELDOM)


@attrs.define(eq=False)
class Results:
    """Keep the last results of a run, for whoever asks."""

    schema: Schema
    total: int = attrs.field(init=False, default=0)
    """How many there were."""
    _pages: deque[Page] = attrs.field(init=False, factory=deque)
    _held: int = attrs.field(init=False, default=0)
    _lock: Lock = attrs.field(init=False, factory=Lock)

    def take(self, element: Element) -> None:
        """Keep a page, or the end of one that is longer than what is shown."""
        if not isinstance(element, Page) or not len(element):
            return
        if (more := len(element) - ROWS) > 0:
            # A slice would hold the memory of the whole page.
            last = pa.array(range(more, len(element)))
            element = Page(element.schema, element.batch.take(last))
            self.total += more
        with self._lock:
            self._pages.append(element)
            self.total += len(element)
            self._held += len(element)
            while self._held - len(self._pages[0]) >= ROWS:
                self._held -= len(self._pages.popleft())

    def plain(self) -> dict[str, Any]:
        """Return the last results, the newest first, as JSON has them: numbers as numbers, all else as text."""
        with self._lock:
            pages, total = list(self._pages), self.total
        # A run that is kept, or limited, adds columns.
        names = (pages[-1].schema if pages else self.schema).names
        rows = [row for page in pages for row in _rows(page)]
        return {"columns": list(map(printable, names)), "total": total, "rows": rows[::-1][:ROWS]}


def _rows(page: Page) -> Iterator[tuple[Any, ...]]:
    columns = [_cells(page.column(name), page.schema.field(name)) for name in page.schema.names]
    return zip(*columns, strict=True)


def _cells(column: pa.Array, field: pa.Field) -> Sequence[Any]:
    kind = field.type
    if pa.types.is_integer(kind):
        return [v if v is None or -_EXACT < v < _EXACT else str(v) for v in column.to_pylist()]
    if pa.types.is_floating(kind):
        return [v if v is None or abs(v) < float("inf") else str(v) for v in column.to_pylist()]
    return [None if v is None else printable(v) for v in text_of(column, field).to_pylist()]
