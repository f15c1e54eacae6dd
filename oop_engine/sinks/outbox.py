"""Results go to a server: at once where a run is not kept, else from an outbox behind each checkpoint.

With a checkpoint, what came since the one before is written to a file in the folder of the job. It is sent once the
checkpoint is committed, and the file is removed once the server has taken all of it. A run that dies in between sends
that file again, so each result is there at least once, and never one that a later run would compute otherwise. A server
that can tell by the number of the checkpoint what it has already, as Kafka in a transaction, has each exactly once.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import attrs
import pyarrow as pa

from oop_engine.sinks.disk import Disk
from oop_engine.sinks.encoders import Arrow
from oop_engine.sinks.errors import SinkError
from oop_engine.sinks.kept import AGAIN, Kept, number
from oop_engine.sinks.part import PartFile
from oop_engine.sinks.protocol import Deliver
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element

_SENT: Final = "sent"
_ROWS: Final = 10_000
"""Results that wait for a promise, at most."""


@attrs.frozen
class Delivery:
    """Name the results of one checkpoint: the job, and the number of the checkpoint in it."""

    job: str
    epoch: int


class Sender(Protocol):
    """A connection that sends pages."""

    def send(self, pages: Iterable[Page], delivery: Delivery | None = None) -> None:
        """Return when the server has taken the pages; WriteFailed where it does not.

        What has the same `delivery` as what was sent before may be there already.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


@runtime_checkable
class RemoteSink(Protocol):
    """A sink whose results go to a server."""

    @property
    def place(self) -> str:
        """Return where results go, without names of users and passwords."""
        ...

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        """Connect, for results of a schema; SinkError for what the server has no form for."""
        ...


class Sent:
    """Part of a sink whose results are sent as they are released: what was sent before a run fails stays there."""

    __slots__ = ()

    def sender(self, schema: Schema, job: str | None = None) -> Sender:
        raise NotImplementedError

    @contextmanager
    def opened(self, schema: Schema) -> Generator[Deliver, None, None]:
        """Connect; every promise sends what was released before it."""
        with closing(self.sender(schema)) as sender:
            sending = _Sending(sender)
            try:
                yield sending
            finally:
                # What was released is right, though the run fails.
                sending.send()


@attrs.define(eq=False)
class _Sending:
    """Send what is released."""

    sender: Sender
    _pages: list[Page] = attrs.field(init=False, factory=list)
    _rows: int = attrs.field(init=False, default=0)

    @property
    def held(self) -> bool:
        return self._rows > 0

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page):
            self._pages.append(element)
            self._rows += len(element)
            if self._rows < _ROWS:
                return
        self.send()

    def send(self) -> None:
        """Send what is held."""
        if self._rows:
            pages, self._pages, self._rows = self._pages, [], 0
            self.sender.send(pages)


@attrs.define(eq=False)
class Outbox:
    """The results of a job that go to a server; see `oop_engine.sinks.committed.Committed`."""

    sink: RemoteSink
    schema: Schema = attrs.field(repr=False)
    disk: Disk = attrs.field(repr=False)
    folder: Path
    _job: str = attrs.field(init=False, default="")
    _sender: Sender | None = attrs.field(init=False, default=None)
    _part: PartFile | None = attrs.field(init=False, default=None)
    _total: int = attrs.field(init=False, default=0)
    _before: list[int] = attrs.field(init=False, factory=list)
    """Checkpoints that were not committed, whose files wait for the next one."""

    @property
    def place(self) -> str:
        return self.sink.place

    def fresh(self) -> Kept:
        return {"path": self.place, "epoch": 0, "rows": 0, "job": secrets.token_hex(8)}

    def begin(self, kept: Kept) -> None:
        self._job, self._total = str(kept.get("job")), number(kept, "rows")
        for folder in (self.folder.parent, self.folder):
            self.disk.make(folder)
            self.disk.sync_folder(folder.parent)
        self._sender = self.sink.sender(self.schema, self._job)
        self.publish(kept)
        for name in self.disk.names(self.folder):
            if name != _SENT:
                self.disk.remove(self.folder / name)

    def overtaken(self, kept: Kept) -> bool:
        job, epoch = self._sent()
        return job == kept.get("job") and epoch > number(kept, "epoch")

    def __call__(self, element: Element, /) -> None:
        if isinstance(element, Page) and len(element):
            if self._part is None:
                self._part = PartFile(self.folder / "unfinished", Arrow(stream=True, as_held=True), self.disk)
                self._part.begin(self.schema)
            self._part.write(element)

    def cut(self, epoch: int, *, ended: bool) -> Kept:
        part, self._part = self._part, None
        if part is not None:
            part.close()
            self.disk.rename(part.path, self._file(epoch))
            self._total += part.rows
        before, self._before = self._before, []
        return {
            "path": self.place, "epoch": epoch, "rows": self._total, "job": self._job,
            "part_rows": 0 if part is None else part.rows, "before": before,
        }  # fmt: skip

    def take_back(self, kept: Kept) -> None:
        self._before = _waiting(kept)

    def sync(self, kept: Kept) -> None:
        if kept.get("part_rows"):
            self.disk.sync(self._file(number(kept, "epoch")))
            self.disk.sync_folder(self.folder)

    def publish(self, kept: Kept) -> None:
        for epoch in _waiting(kept):
            self._send(epoch)

    def _send(self, epoch: int) -> None:
        """Send the file of a checkpoint, unless the server has it, and remove it."""
        staged = self.disk.read(self._file(epoch))
        job, sent = self._sent()
        if job != self._job or sent < epoch:
            if staged is None:
                raise SinkError(f'"{self._file(epoch)}" was committed, and is missing.\n  {AGAIN}')
            assert self._sender is not None
            self._sender.send(self._pages(staged), Delivery(self._job, epoch))
            note = self.folder / f"{_SENT}.new"
            self.disk.write(note, json.dumps({"job": self._job, "epoch": epoch}).encode())
            self.disk.sync(note)
            self.disk.rename(note, self.folder / _SENT)
            self.disk.sync_folder(self.folder)
        self.disk.remove(self._file(epoch))

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def _file(self, epoch: int) -> Path:
        return self.folder / f"{epoch:08d}.arrows"

    def _pages(self, data: bytes) -> Iterator[Page]:
        for batch in pa.ipc.open_stream(pa.py_buffer(data)):
            yield Page(self.schema, batch)

    def _sent(self) -> tuple[str, int]:
        """Return which checkpoint was sent last, and of which job; 0 where none was."""
        noted = self.disk.read(self.folder / _SENT)
        found = {} if noted is None else json.loads(noted)
        return str(found.get("job", "")), int(found.get("epoch", 0))


def _waiting(kept: Kept) -> list[int]:
    """Return the checkpoints whose files are to be sent with a checkpoint, which has none if no result came."""
    before = kept.get("before")
    own = [number(kept, "epoch")] if kept.get("part_rows") else []
    return [*(before if isinstance(before, list) else ()), *own]
