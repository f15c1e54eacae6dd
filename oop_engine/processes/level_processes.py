"""The processes of a run's levels, the rings between them, and how elements are dealt out to the first of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from oop_engine.processes.frames import Full, Sender, Watch
from oop_engine.processes.process import LevelProcess
from oop_engine.processes.ring import Ring
from oop_engine.processes.spec import dump_high, dump_low
from operators.data.page import Page
from operators.protocol import Element
from operators.window_aggregate.partial_final import HighAggregate, LowAggregate
from operators.window_aggregate.partial_final.partials import TUPLES


@attrs.define(eq=False)
class Levels:
    """Hold the processes of levels; each of the first ones gets a part of the tuples, and all promises."""

    ring_bytes: int
    full: Full
    waiting: Watch = attrs.field(default=lambda: None)
    """Called again and again while there is no room; raises when a process is gone."""
    processes: list[LevelProcess] = attrs.field(init=False, factory=list)
    _rings: list[Ring] = attrs.field(init=False, factory=list)
    _dropping: list[Ring] = attrs.field(init=False, factory=list)
    """The rings into which tuples or partial aggregates go."""
    _senders: list[Sender] = attrs.field(init=False, factory=list)
    _turn: int = attrs.field(init=False, default=0)
    _counters: dict[str, int] = attrs.field(init=False, factory=dict)
    _cpu: dict[str, float] = attrs.field(init=False, factory=dict)

    def start_low(self, low: LowAggregate, count: int) -> Sequence[Ring]:
        """Begin so many processes of a low level, and return the rings that they write."""
        level, outputs = dump_low(low), list[Ring]()
        for number in range(1, count + 1):
            there, output = self._ring(), self._ring()
            self._dropping += there, output
            self._senders.append(Sender(there, self.full, self._wait))
            outputs.append(output)
            self._start(f"low level {number}", level, [there], output, self.full, "low=0")
        return outputs

    def start_high(self, high: HighAggregate, inputs: Sequence[Ring] = ()) -> Ring:
        """Begin the process of a high level, and return the ring that it writes.

        - `inputs`: what it reads; what is given here where there are none.
        """
        level = dump_high(high)
        if not inputs:
            there = self._ring()
            self._dropping.append(there)
            self._senders.append(Sender(there, self.full, self._wait, TUPLES if self.full == "drop" else ""))
            inputs = [there]
        back = self._ring()
        self._start("the high level", {**level, "ports": len(inputs)}, inputs, back, "wait", 'layout="thread"')
        return back

    def give(self, element: Element) -> None:
        """Hand a page to the process that has the least to do, and a promise to all."""
        if not isinstance(element, Page):
            for sender in self._senders:
                sender.send(element)
            return
        count = len(self._senders)
        self._turn = (self._turn + 1) % count
        least = min(range(count), key=lambda i: (self._senders[i].ring.used, (i - self._turn) % count))
        self._senders[least].send(element)

    def codes(self) -> list[int | None]:
        """Return the status with which each process ended, None for those that run."""
        return [process.code for process in self.processes]

    def counters(self) -> dict[str, int]:
        """Return how many pages and tuples were dropped on the way, and the most bytes that were in one ring."""
        if not self._dropping:
            return self._counters
        found = [ring.counters for ring in self._dropping]
        return {name: (max if name == "most_bytes_used" else sum)(one[name] for one in found) for name in found[0]}

    def cpu(self) -> dict[str, float]:
        """Return the seconds of processor time of each process since it was ready."""
        return (
            {process.name.removeprefix("the "): process.output.cpu for process in self.processes}
            if self._rings
            else self._cpu
        )

    def stop(self) -> None:
        """Let go of rings and processes, whatever these do; may be called twice."""
        if not self._rings:
            return
        for process in self.processes:
            process.stop()
        self._counters, self._cpu = self.counters(), self.cpu()
        self._senders.clear()
        self._dropping.clear()
        for ring in self._rings:
            ring.close()
        self._rings.clear()

    def _wait(self) -> None:
        self.waiting()

    def _ring(self) -> Ring:
        self._rings.append(Ring.create(self.ring_bytes))
        return self._rings[-1]

    def _start(
        self, name: str, level: dict[str, object], inputs: Sequence[Ring], output: Ring, full: Full, instead: str
    ) -> None:  # fmt: skip
        self.processes.append(LevelProcess.start(name, level, inputs, output, full, instead))
