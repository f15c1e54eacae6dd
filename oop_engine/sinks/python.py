"""Results stay in Python: a list of rows, or a function that is called with every page."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import attrs

from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element


@attrs.frozen
class PageSink:
    """Call a function with every page, in order."""

    function: Callable[[Page], None]

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Call the function for pages; promises are not handed on."""

        def deliver(element: Element) -> None:
            if isinstance(element, Page):
                self.function(element)

        yield deliver


@attrs.frozen
class ListSink:
    """Append every element, pages and promises, to a list."""

    elements: list[Element]

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Append to the list."""
        yield self.elements.append
