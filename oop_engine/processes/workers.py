"""Workers run the levels behind the seam: here, in a thread, or in processes. Each takes elements and returns results.

Elements are taken at once or wait in a bounded queue or ring, so a slow level slows those before it down.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Literal, Protocol, TypeAlias

import attrs

from oop_engine.processes.frames import Full, Receiver, is_end, waits
from oop_engine.processes.level_processes import Levels
from oop_engine.processes.process import check_alive, check_processes
from oop_engine.processes.ring import Ring
from operators.chain import Chain
from operators.drive import deliver
from operators.protocol import Element, Operator
from operators.streams.meld import Meld
from operators.window_aggregate.partial_final import HighAggregate, LowAggregate

Layout: TypeAlias = Literal["process", "thread", "here"]
_QUEUED: Final = 8
_TURN: Final = 16
"""Elements that are taken of one process before the next has its turn."""


@attrs.frozen(eq=False)
class Split:
    """Say where the levels of a window aggregate run.

    - `low`, `lows`: the low level, and how many processes have it; none where it is here, in front of the worker.
    - `high`, `layout`: the high level, and where it is.
    - `ring_bytes`, `full`: size of each ring, and what is done when one is full.
    """

    low: LowAggregate
    high: HighAggregate
    layout: Layout
    lows: int
    ring_bytes: int
    full: Full


class Worker(Protocol):
    """A runner of what is behind the seam."""

    def give(self, element: Element) -> None:
        """Hand an element over, waiting while there is no room; END is the last."""
        ...

    def taken(self) -> Iterator[Element]:
        """Yield the elements of the result that are there; after END has come, wait for all until the last."""
        ...

    def stop(self) -> None:
        """Let go of everything, whatever state it is in; may be called twice."""
        ...

    @property
    def ready(self) -> bool:
        """Return whether all of it runs; any thread may ask."""
        ...

    def counters(self) -> dict[str, int]:
        """Return what was counted on the way."""
        ...

    def cpu(self) -> dict[str, float]:
        """Return the seconds of processor time of each process, since it was ready."""
        ...


@attrs.define(eq=False)
class Here:
    """Run the high level in the calling thread."""

    high: Operator
    _out: list[Element] = attrs.field(init=False, factory=list)

    def give(self, element: Element, port: int = 0) -> None:
        deliver(self.high, element, self._out.append, port)

    def taken(self) -> Iterator[Element]:
        out, self._out = self._out, []
        yield from out

    def stop(self) -> None:
        pass

    @property
    def ready(self) -> bool:
        return True

    def counters(self) -> dict[str, int]:
        return {}

    def cpu(self) -> dict[str, float]:
        return {}


@attrs.define(eq=False)
class InThread:
    """Run the high level in a thread; kernels and Arrow let the other thread run meanwhile."""

    high: Operator
    _given: queue.Queue[tuple[int, Element] | None] = attrs.field(init=False, factory=lambda: queue.Queue(_QUEUED))
    _out: queue.SimpleQueue[Element | BaseException] = attrs.field(init=False, factory=queue.SimpleQueue)
    _thread: threading.Thread = attrs.field(init=False)
    _ends: int = attrs.field(init=False, default=0)
    """How many ports have ended."""
    _ended: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="high level", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while (given := self._given.get()) is not None:
                port, element = given
                deliver(self.high, element, self._out.put, port)
        except BaseException as error:
            self._out.put(error)
            # Who gives may be waiting for room.
            while self._given.get() is not None:
                pass

    def give(self, element: Element, port: int = 0) -> None:
        self._ends += is_end(element)
        self._given.put((port, element))

    def taken(self) -> Iterator[Element]:
        while not self._ended and (self._ends == self.high.inputs or not self._out.empty()):
            found = self._out.get()
            if isinstance(found, BaseException):
                raise found
            self._ended = is_end(found)
            yield found

    def stop(self) -> None:
        if self._thread.is_alive():
            self._given.put(None)
            self._thread.join()

    @property
    def ready(self) -> bool:
        return True

    def counters(self) -> dict[str, int]:
        return {}

    def cpu(self) -> dict[str, float]:
        return {}


@attrs.define(eq=False)
class Passed:
    """Pass on what processes have made."""

    _out: list[Element] = attrs.field(init=False, factory=list)

    def give(self, element: Element, port: int = 0) -> None:
        self._out.append(element)

    def taken(self) -> Iterator[Element]:
        out, self._out = self._out, []
        yield from out

    def stop(self) -> None:
        pass


@attrs.define(eq=False)
class InProcess:
    """Run levels in processes: the low one in several, or the high one, or both; `behind` takes what they give."""

    levels: Levels
    outputs: Sequence[Ring]
    """What comes back from processes, one for each port of `behind`."""
    behind: Here | InThread | Passed
    _receivers: dict[int, Receiver] = attrs.field(init=False)
    """Those whose streams go on, by port."""
    _ending: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._receivers = {port: Receiver(ring) for port, ring in enumerate(self.outputs)}
        # Frames there are waited for while results come back, so neither of two full rings can hold up the other.
        self.levels.waiting = self._watch

    @classmethod
    def start(cls, split: Split) -> InProcess:
        """Begin the processes of a run; PlanError for a window that only Python code describes.

        Where one cannot be begun, those before it are ended.
        """
        check_processes()
        levels = Levels(split.ring_bytes, split.full)
        try:
            outputs = levels.start_low(split.low, split.lows) if split.lows else ()
            if split.layout == "process":
                return cls(levels, [levels.start_high(split.high, outputs)], Passed())
            high = Chain([Meld(split.lows), split.high])
            return cls(levels, outputs, InThread(high) if split.layout == "thread" else Here(high))
        except BaseException:
            levels.stop()
            raise

    @property
    def pid(self) -> int:
        """Return the number of the last process."""
        return self.levels.processes[-1].pid

    @property
    def ready(self) -> bool:
        return all(process.output.ready for process in self.levels.processes)

    def give(self, element: Element) -> None:
        self._ending = is_end(element)
        self.levels.give(element)

    def taken(self) -> Iterator[Element]:
        self._take()
        yield from self.behind.taken()
        pauses = waits(self._watch)
        while self._ending and self._receivers:
            if self._take():
                pauses = waits(self._watch)
            else:
                next(pauses)
            yield from self.behind.taken()

    def _take(self) -> bool:
        """Take what processes have given, some of each; return whether there was anything."""
        found = False
        for port, receiver in list(self._receivers.items()):
            for element in islice(receiver.frames(), _TURN):
                found = True
                if is_end(element):
                    del self._receivers[port]
                self.behind.give(element, port)
        return found

    def _watch(self) -> None:
        """Take what has come back; ProcessError when nothing can come any more."""
        codes = self.levels.codes()
        while self._take():
            pass
        if self._receivers:
            check_alive(self.levels.processes, codes)

    def stop(self) -> None:
        self.behind.stop()
        self.levels.stop()

    def counters(self) -> dict[str, int]:
        return self.levels.counters()

    def cpu(self) -> dict[str, float]:
        return self.levels.cpu()
