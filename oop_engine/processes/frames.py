"""Elements become frames and come back: a schema once, then Arrow messages for pages and JSON for promises.

Nothing in a frame can run. Waiting is done in short sleeps, between which the caller may look whether the other process
is still there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

import attrs
import pyarrow as pa

from oop_engine.processes.errors import ProcessError
from oop_engine.processes.ring import Ring
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import END, Punctuation
from punctuation.plain import from_plain, to_plain

SCHEMA, PAGE, PROMISE, END_OF_STREAM, FAILURE = range(1, 6)
Full: TypeAlias = Literal["wait", "drop"]
"""What a sender does with a page for which there is no room: wait until there is, or leave it out and count it."""
Watch: TypeAlias = Callable[[], None]
_SHORTEST: Final = 20e-6
_LONGEST: Final = 2e-3


@attrs.define(eq=False)
class Sender:
    """Write elements into a ring; a promise is never left out, so what is promised stays true whatever is dropped.

    Once the reader has left the ring, nothing is written, waited for or counted as dropped.
    """

    ring: Ring
    full: Full = attrs.field(default="wait", validator=attrs.validators.in_(("wait", "drop")))
    waiting: Watch = attrs.field(default=lambda: None)
    """Called again and again while there is no room; raises when the reader is gone."""
    tuples: str = ""
    """The attribute that says how many tuples each row of a page stands for; none where that is one."""
    _schema: pa.Schema | None = attrs.field(init=False, default=None)

    def send(self, element: Element) -> None:
        """Write one element."""
        if self.ring.left:
            return
        if isinstance(element, Page):
            self._page(element)
        elif element.is_end:
            self.put(END_OF_STREAM, b"")
        else:
            self.put(PROMISE, json.dumps([to_plain(element), element.assumed]).encode())

    def put(self, kind: int, content: bytes | pa.Buffer) -> None:
        """Write a frame, waiting for room as long as somebody reads."""
        pauses = waits(self.waiting)
        while not self.ring.left and not self.ring.write(kind, content):
            next(pauses)

    def _page(self, page: Page) -> None:
        if self._schema is None:
            self._schema = page.schema.arrow
            progress = json.dumps(sorted(sorted(promise) for promise in page.schema.progress)).encode()
            self.put(SCHEMA, progress + b"\n" + page.schema.arrow.serialize().to_pybytes())
        message = page.batch.serialize()
        if not self.ring.fits(message.size):
            if len(page) == 1:
                raise ValueError(
                    f"one tuple is {message.size:,} bytes, and a frame of a ring of {self.ring.capacity:,} bytes at "
                    "most half of that.\n  Give the ring more bytes."
                )
            # A slice is written with its own values only, so halves are about half as long.
            self._page(page.slice(0, len(page) // 2))
            self._page(page.slice(len(page) // 2, len(page)))
        elif self.full == "wait":
            self.put(PAGE, message)
        elif not self.ring.write(PAGE, message):
            self.ring.drop(int(page[self.tuples].sum()) if self.tuples else len(page))


@attrs.define(eq=False)
class Receiver:
    """Read elements out of a ring."""

    ring: Ring
    schema: Schema | None = attrs.field(init=False, default=None)
    """That of the pages, once it has come."""

    def frames(self) -> Iterator[Element]:
        """Yield the elements that are there now; ProcessError when the other process said that it failed."""
        while (frame := self.ring.read()) is not None:
            kind, content = frame
            if kind == SCHEMA:
                progress, _, rest = content.to_pybytes().partition(b"\n")
                self.schema = Schema(pa.ipc.read_schema(pa.py_buffer(rest)), progress=json.loads(progress))
            else:
                yield self._read(kind, content)

    def _read(self, kind: int, content: pa.Buffer) -> Element:
        if kind == PAGE:
            assert self.schema is not None, "a schema comes before the first page"
            return Page(self.schema, pa.ipc.read_record_batch(content, self.schema.arrow))
        if kind == PROMISE:
            plain, assumed = json.loads(content.to_pybytes())
            return Punctuation(dict(from_plain(plain).patterns), assumed=assumed)
        if kind == END_OF_STREAM:
            return END
        assert kind == FAILURE, "there is no other kind of frame"
        raise ProcessError(content.to_pybytes().decode())


def is_end(element: Element) -> bool:
    """Return whether an element ends the stream."""
    return not isinstance(element, Page) and element.is_end


def waits(watch: Watch) -> Iterator[None]:
    """Call `watch` and sleep a little longer at each step."""
    pause = _SHORTEST
    while True:
        watch()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST)
        yield
