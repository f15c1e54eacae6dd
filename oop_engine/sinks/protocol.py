"""A sink is opened for a schema and handed elements; an encoder beside it turns pages to bytes and opens nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

Deliver: TypeAlias = Callable[[Element], None]


@runtime_checkable
class Sink(Protocol):
    """A destination for the elements of one stream. A frozen value; it can be opened any number of times."""

    def opened(self, schema: Schema) -> AbstractContextManager[Deliver]:
        """Open for a stream; the function given takes its elements in order, and a punctuation makes it flush.

        Leaving the context without an exception completes the result; with one, what a reader could take for a whole
        result is not left behind.
        """
        ...


@runtime_checkable
class Holding(Protocol):
    """A function that delivers, and that may hold what a process that is killed would lose."""

    @property
    def held(self) -> bool:
        """Return whether it does now: results that a reader would not find, or that a failing machine would lose."""
        ...

    def __call__(self, element: Element, /) -> None: ...


class Encoder(Protocol):
    """Pages to bytes, purely; what it returns is to be written in order."""

    def open(self, schema: Schema) -> bytes:
        """Begin a file for this schema and give its first bytes."""
        ...

    def write(self, page: Page) -> bytes:
        """Take a page and give what became ready to be written, perhaps nothing yet."""
        ...

    def close(self) -> bytes:
        """Return the last bytes."""
        ...
