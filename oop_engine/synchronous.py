"""Run a plan in the calling thread, without a runtime: for tests, notebooks, and workers that bring their own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import attrs

from oop_engine.circuit import PAGE_ROWS, Circuit, readable
from oop_engine.plan import Plan
from operators.page import Page
from operators.protocol import Element


@attrs.define(eq=False)
class Run:
    """Give the elements of a plan's outputs as they appear; the source that is furthest behind is read next."""

    plan: Plan
    page_rows: int = PAGE_ROWS
    circuit: Circuit = attrs.field(init=False)
    ended: bool = attrs.field(init=False, default=False)
    """Whether all sources have ended; elements may still be taken."""
    _ready: deque[tuple[int, Element]] = attrs.field(init=False, factory=deque)

    def __attrs_post_init__(self) -> None:
        self.circuit = Circuit(self.plan, self.page_rows, crossed=self._cross)

    def _cross(self, place: int, port: int, element: Element) -> None:
        self._ready.append((-1 - place, element))

    def __iter__(self) -> Iterator[tuple[int, Element]]:
        """Give (output number, element) until all sources have ended."""
        with self.circuit as circuit:
            circuit.prepare()
            live = {place: circuit.open(place) for place in readable(self.plan)}
            while live:
                place = min(live, key=lambda p: (circuit.behind(p), p))
                chunk = next(live[place], None)
                if chunk is None:
                    del live[place]
                    self.ended = not live
                    circuit.finish(place)
                    yield from self._taken()
                    continue
                for page in circuit.pages(place, chunk):
                    circuit.give(place, 0, page)
                    yield from self._taken()

    def _taken(self) -> Iterator[tuple[int, Element]]:
        while self._ready:
            yield self._ready.popleft()

    def leave_out(self, kept: Callable[[Page], Page]) -> None:
        """Let the pages that were computed and not yet taken be what is kept of them."""
        ready = [(n, kept(element) if isinstance(element, Page) else element) for n, element in self._ready]
        self._ready = deque((n, element) for n, element in ready if not isinstance(element, Page) or len(element))
