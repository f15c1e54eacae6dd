"""Results stay in Python: a list of elements, or a function that is called with every page or row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal

import attrs

from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

Each = Literal["page", "row"]


@attrs.frozen
class PageSink:
    """Call a function with `each` page, or each row as a dict, in order.

    An async function is awaited in the loop of the run.

    The function is called in a thread of the run, and the run reads on meanwhile, until its inboxes are full.
    """

    function: Callable[[Any], object]
    each: Each = "page"

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Call the function for pages; promises are not handed on."""
        call = _awaited(self.function) if _is_async(self.function) else self.function

        def deliver(element: Element) -> None:
            if not isinstance(element, Page):
                return
            if self.each == "page":
                call(element)
                return
            for row in element.rows():
                call(row)

        yield deliver


def _is_async(function: Callable[[Any], object]) -> bool:
    """Return whether a call gives something to await, also of an object that can be called."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _awaited(function: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Return a function that has the loop of the run await another."""
    # Start-up: most results go to no async function.
    import trio

    def call(given: Any) -> object:
        try:
            trio.from_thread.check_cancelled()
        except RuntimeError as error:
            raise SinkError(
                "an async function takes results in the loop of a run, and none is here.\n"
                "  Call to(function).run() or await run_async(), or give a function that is not async."
            ) from error
        return trio.from_thread.run(function, given)

    return call


@attrs.frozen
class ListSink:
    """Append every element, pages and promises, to a list."""

    elements: list[Element]

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Append to the list."""
        yield self.elements.append
