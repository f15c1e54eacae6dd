"""Workers run the high level: here, in a thread, or in a process. Each takes elements and returns those of the result.

Elements are taken at once or wait in a bounded queue or ring, so a slow high level slows the low level down.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

import attrs

from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import TEXT, Full, Receiver, Sender, waits
from oop_engine.processes.ring import Ring
from oop_engine.processes.spec import dump_high
from operators.data.page import Page
from operators.drive import deliver
from operators.kernels.compile.disk_cache import prepare
from operators.protocol import Element
from operators.window_aggregate.partial_final import HighAggregate
from operators.window_aggregate.partial_final.partials import TUPLES

_QUEUED = 8


class Worker(Protocol):
    """A runner of the high level."""

    def give(self, element: Element) -> None:
        """Hand an element over, waiting while there is no room; END is the last."""
        ...

    def taken(self) -> Iterator[Element]:
        """Return the elements of the result that are there, after END all until the last."""
        ...

    def stop(self) -> None:
        """Let go of everything, whatever state it is in; may be called twice."""
        ...

    def counters(self) -> dict[str, int]:
        """Return what was counted on the way."""
        ...


@attrs.define(eq=False)
class Here:
    """Run the high level in the calling thread."""

    high: HighAggregate
    _out: list[Element] = attrs.field(init=False, factory=list)

    def give(self, element: Element) -> None:
        deliver(self.high, element, self._out.append)

    def taken(self) -> Iterator[Element]:
        out, self._out = self._out, []
        yield from out

    def stop(self) -> None:
        pass

    def counters(self) -> dict[str, int]:
        return {}


@attrs.define(eq=False)
class InThread:
    """Run the high level in a thread; kernels and Arrow let the other thread run meanwhile."""

    high: HighAggregate
    _given: queue.Queue[Element | None] = attrs.field(init=False, factory=lambda: queue.Queue(_QUEUED))
    _out: queue.SimpleQueue[Element | BaseException] = attrs.field(init=False, factory=queue.SimpleQueue)
    _thread: threading.Thread = attrs.field(init=False)
    _ending: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="high level", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while (element := self._given.get()) is not None:
                deliver(self.high, element, self._out.put)
        except BaseException as error:
            self._out.put(error)
            # Who gives may be waiting for room.
            while self._given.get() is not None:
                pass

    def give(self, element: Element) -> None:
        self._ending = not isinstance(element, Page) and element.is_end
        self._given.put(element)

    def taken(self) -> Iterator[Element]:
        while self._ending or not self._out.empty():
            found = self._out.get()
            if isinstance(found, BaseException):
                raise found
            self._ending = self._ending and not _is_end(found)
            yield found

    def stop(self) -> None:
        if self._thread.is_alive():
            self._given.put(None)
            self._thread.join()

    def counters(self) -> dict[str, int]:
        return {}


@attrs.define(eq=False)
class InProcess:
    """Run the high level in a new process; two rings of shared memory go there and back."""

    high: HighAggregate
    ring_bytes: int
    full: Full
    _there: Ring = attrs.field(init=False)
    _back: Ring = attrs.field(init=False)
    _sender: Sender = attrs.field(init=False)
    _receiver: Receiver = attrs.field(init=False)
    _process: subprocess.Popen[bytes] = attrs.field(init=False)
    _out: list[Element] = attrs.field(init=False, factory=list)
    _ready: bool = attrs.field(init=False, default=False)
    _ended: bool = attrs.field(init=False, default=False)
    _counters: dict[str, int] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        if os.name != "posix":
            raise ProcessError(
                f'layout="process" hands memory on to another process, which it cannot here ({sys.platform}).\n'
                '  Write layout="thread".'
            )
        spec = dump_high(self.high)
        self._there, self._back = Ring.create(self.ring_bytes), Ring.create(self.ring_bytes)
        # Frames there are waited for while results come back, so neither of two full rings can hold up the other.
        tuples = TUPLES if self.full == "drop" else ""
        self._sender = Sender(self._there, self.full, self._watch, tuples)
        self._receiver = Receiver(self._back)
        rings = (self._there.descriptor, self._there.capacity, self._back.descriptor, self._back.capacity)
        prepare()
        command = [sys.executable, "-m", "oop_engine.processes.child", *map(str, rings)]
        self._process = subprocess.Popen(command, pass_fds=(rings[0], rings[2]), stdin=subprocess.DEVNULL)
        self._sender.put(TEXT, spec.encode())

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Return whether the process runs and has loaded what it is to be; any thread may ask."""
        return self._ready or self._back.used > 0

    def give(self, element: Element) -> None:
        self._sender.send(element)
        if _is_end(element):
            pauses = waits(self._watch)
            while not self._ended:
                next(pauses)

    def taken(self) -> Iterator[Element]:
        self._drain()
        out, self._out = self._out, []
        yield from out

    def _drain(self) -> None:
        try:
            for found in self._receiver.frames():
                if isinstance(found, str):
                    self._ready = True
                    continue
                self._ended = self._ended or _is_end(found)
                self._out.append(found)
        except ProcessError as failure:
            raise ProcessError(f"the process of the high level (pid {self.pid}) failed.\n  {failure}") from None

    def _watch(self) -> None:
        """Take what has come back; ProcessError when nothing can come any more."""
        code = self._process.poll()
        self._drain()
        if code is not None and not self._ended:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit status {code}"
            raise ProcessError(
                f"the process of the high level (pid {self.pid}) {how} before the stream did.\n"
                "  Its results so far were given; the partial aggregates it held are lost. Run it again, or write "
                'layout="thread".'
            )

    def stop(self) -> None:
        if self._there.descriptor < 0:
            return
        if not self._ended:
            self._process.kill()
        self._process.wait()
        self._counters = self._there.counters
        self._there.close()
        self._back.close()

    def counters(self) -> dict[str, int]:
        return self._there.counters if self._there.descriptor >= 0 else self._counters


def _is_end(element: Element) -> bool:
    return not isinstance(element, Page) and element.is_end
