"""Write the open windows, as far as they are, to a file now and then, beside the results."""

from __future__ import annotations

import filecmp
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from oop_engine.drive.circuit import Circuit
from oop_engine.drive.snapshot import released_at_end
from oop_engine.errors import PlanError
from oop_engine.plan.ticks import duration_of, positive
from oop_engine.report.facts import one_line
from oop_engine.sinks import FileSink, SinkError, sink_for
from oop_engine.sinks.files import claimed, naming
from operators.data.page import Page
from operators.data.schema import Schema

_SHARE: Final = 10
"""Of so much time the file takes one at most, however large the state is."""
_SECOND: Final = 1_000_000_000


def _kept(path: Path) -> Path | None:
    """Link a file under a free name with its time, and return that; None where there is no file, or an empty one.

    SinkError where it cannot have another.
    """
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    if not there.st_size:
        return None
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(there.st_mtime))
    suffixes = "".join(path.suffixes[-2:] if path.suffix.lower() in (".gz", ".zst") else path.suffixes[-1:])
    for number in range(1000):
        more = f"-{number}" if number else ""
        kept = path.with_name(f"{path.name.removesuffix(suffixes)}.{when}{more}{suffixes}")
        try:
            os.link(path, kept)
        except FileExistsError:
            continue
        except OSError:
            # There are file systems without hard links.
            if kept.exists():
                continue
            with naming(f'"{kept}"'):
                os.rename(path, kept)
        return kept
    raise SinkError(f'"{path}" has been kept too often under the time of its last change; move some of these away.')


def _seconds(every: str) -> float:
    positive(every, what="--partial-every")
    duration = duration_of(every, what="--partial-every")
    if duration.unit != "ns":
        raise PlanError(f"--partial-every is {every}: of what? Give a duration, e.g. 10s.")
    return duration.value / _SECOND


@attrs.define(eq=False)
class Partial:
    """Write, every so many seconds and at the end, what a run would release if its streams ended there.

    The file is replaced as a whole each time, so that who reads it sees one moment. If the file cannot be written, that
    is reported once and tried again; the run goes on.
    """

    sink: FileSink
    schema: Schema
    every: float
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    mark: Callable[[Page], Page] | None = None
    """What is done to pages of the plan's schema, if anything, to give those of this one."""
    _circuit: Circuit | None = attrs.field(init=False, default=None)
    _next: float = attrs.field(init=False)
    _failed: str = attrs.field(init=False, default="")

    def __attrs_post_init__(self) -> None:
        self._next = self.clock() + self.every

    @classmethod
    def of(
        cls,
        target: str,
        every: str,
        schema: Schema,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        mark: Callable[[Page], Page] | None = None,
        spreadsheet: bool = False,
    ) -> Partial:
        """Take what the command line says; SinkError, PlanError for what cannot be."""
        sink = None if target == "-" else sink_for(target, spreadsheet=spreadsheet)
        if not isinstance(sink, FileSink) or (sink.path.exists() and not sink.path.is_file()):
            raise SinkError(f'--partial "{target}": name a file, such as open.csv; it is replaced each time.')
        return cls(attrs.evolve(sink, claimed=True), schema, _seconds(every), say, clock, mark)

    @contextmanager
    def begun(self) -> Generator[None]:
        """Begin the file, and keep it from other runs."""
        with claimed(self.sink.path):
            self.begin()
            yield

    def begin(self) -> None:
        """Write a file without rows, so that one that cannot be written is known before anything is read.

        A file that an earlier run left there is kept under another name, which is reported, unless it has no rows.
        """
        kept = _kept(self.sink.path)
        try:
            with self.sink.opened(self.schema):
                pass
        except BaseException:
            if kept is not None:
                os.replace(kept, self.sink.path)
            raise
        if kept is not None and filecmp.cmp(kept, self.sink.path, shallow=False):
            kept.unlink()
        elif kept is not None:
            self.say(f'note: "{kept}" has what open windows of a run before had in "{self.sink.path}"')

    def watch(self, circuit: Circuit) -> None:
        """Write the file, when it is time."""
        self._circuit = circuit
        if circuit.operators and self.clock() >= self._next:
            self.write()

    def write(self) -> int | None:
        """Write what is open now; give the number of its rows, None where it could not be written."""
        began, rows = self.clock(), 0
        try:
            with self.sink.opened(self.schema) as deliver:
                for page in () if self._circuit is None else released_at_end(self._circuit):
                    deliver(page if self.mark is None else self.mark(page))
                    rows += len(page)
        except SinkError as error:
            if str(error) != self._failed:
                self._failed = str(error)
                self.say(f"note: {one_line(self._failed)}")
            return None
        finally:
            now = self.clock()
            self._next = now + max(self.every, _SHARE * (now - began))
        self._failed = ""
        return rows
