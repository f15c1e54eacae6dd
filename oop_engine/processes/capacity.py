"""Find the highest rate at which a query loses nothing: Fig 8-7 of the thesis for this machine and any query.

A process sends packets into a ring, or flows over UDP, at one rate after another. What finds no room is lost, as in the
ring of a network card and the receive buffer of a socket. The search doubles the rate until something is lost, and then
halves the distance.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

import attrs

from oop_engine.api.stream import Stream
from oop_engine.drive.runtime import run_to_end
from oop_engine.errors import PlanError
from oop_engine.plan.graph import source_node
from oop_engine.processes.apart import RING_BYTES, Apart, aparts_of, with_levels_apart
from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import Watch, waits
from oop_engine.processes.load import PACKETS, Sent, Turn
from oop_engine.processes.ring import Ring
from oop_engine.processes.source import RingSource
from oop_engine.rewrite.passes import prepared
from oop_engine.sources.live.exporters import SECOND, Rules
from oop_engine.sources.live.source import LiveFlows, LiveReader
from operators.data.page import Page
from operators.kernels.compile.disk_cache import prepare
from operators.protocol import Element

By: TypeAlias = Literal["ring", "udp"]
_KINDS: Final[tuple[By, ...]] = ("ring", "udp")
BUFFER: Final = 32 << 20
"""Bytes of receive buffer to ask for."""
STEP: Final = 5_000
START: Final = 100_000
MOST: Final = 1 << 26
_SLACK: Final = 0.1
"""Part of a turn that a query may need after its end; one that needs more has only been saved by its buffer."""
_REACHED: Final = 0.95
"""Part of a rate that the sender has to reach."""
_LEAD: Final = 1.0
"""Seconds for which few packets come, so that a process that has just begun has loaded what it runs."""
_QUIET: Final = 0.3
"""Seconds after which a receive buffer that gives nothing is empty."""


@attrs.frozen
class CapacityTrial:
    """Hold what one turn of `oop.capacity` found.

    - `asked`: the rate asked for, in packets or flows a second.
    - `sent`: how many were sent.
    - `lost`: how many of them found no room.
    - `seconds`: how long was sent.
    - `behind`: seconds that the query needed after that.
    - `cpu`: seconds of processor time of the "sender", the "engine", and of each process of a level: "high level",
      "low level 1".
    - `results`: how many rows the query gave.

    >>> trial = oop.CapacityTrial(1_000, 1_990, 0, 2.0, 0.1, {"sender": 0.1, "engine": 0.5}, 20)
    >>> trial.rate, trial.kept
    (995.0, True)
    """

    asked: int
    sent: int
    lost: int
    seconds: float
    behind: float
    cpu: dict[str, float]
    results: int

    @property
    def rate(self) -> float:
        """Return the rate that was sent, a second.

        >>> oop.CapacityTrial(1_000, 2_000, 0, 2.0, 0.1, {}, 20).rate
        1000.0
        """
        return self.sent / self.seconds

    @property
    def reached(self) -> bool:
        """Return whether the sender sent about as much as it was asked to.

        >>> oop.CapacityTrial(1_000, 1_000, 0, 2.0, 0.1, {}, 20).reached
        False
        """
        return self.rate >= _REACHED * self.asked

    @property
    def kept(self) -> bool:
        """Return whether nothing was lost, and the query did not fall behind.

        >>> oop.CapacityTrial(1_000, 2_000, 3, 2.0, 0.1, {}, 20).kept
        False
        """
        return self.lost == 0 and self.behind <= max(_SLACK * self.seconds, _QUIET + _SLACK)


@attrs.frozen
class Capacity:
    """Hold what `oop.capacity` found.

    - `rate`: the highest rate at which nothing was lost, a multiple of the step; 0 if something was lost at each.
    - `trials`: all turns, in their order.
    - `limit`: what ended the search: the "query", the "sender", which could send no faster, or the "most" asked for.

    >>> oop.Capacity(20_000, (), "query").rate
    20000
    """

    rate: int
    trials: tuple[CapacityTrial, ...]
    limit: Literal["query", "sender", "most"]


def capacity(
    query: Callable[[Stream], Stream],
    *,
    by: By = "ring",
    step: int = STEP,
    start: int = START,
    most: int = MOST,
    seconds: float = 2.0,
    groups: int = 1_000,
    room: int | None = None,
    two_processes: bool = False,
    low: int = 0,
    told: Callable[[CapacityTrial], None] | None = None,
) -> Capacity:
    """Find the highest rate, in packets or flows a second, at which a query of a stream loses nothing.

    - `query`: makes the query of a stream of packets (ts, srcIP, destIP, srcPort, destPort, proto, len), or, over UDP,
      of flows as `oop.netflow` has them.
    - `by`: packets come through a "ring" of memory, or flows of NetFlow v5 over "udp" on this machine.
    - `step`: the rate is a multiple of it. `start`: the first rate. `most`: no higher rate is tried.
    - `seconds`: how long each rate is sent.
    - `groups`: how many sources the packets or flows are of.
    - `room`: bytes of the ring (16 MiB), or of the receive buffer to ask for (32 MiB).
    - `two_processes`: the high level of a window aggregate runs in a process of its own, as by `oop.apart`.
    - `low`: its low level runs in so many processes, each with a part of the tuples.
    - `told`: is called with each turn.

    The sender shares the machine with the query. PlanError for what cannot be asked, ProcessError when the sender
    fails.

    >>> found = oop.capacity(lambda packets: packets.filter("len > 9000"), most=200_000, seconds=0.2)
    >>> found.rate <= 200_000, found.trials[0].asked
    (True, 100000)
    """
    if by not in _KINDS:
        raise PlanError(f"capacity(by={by!r}): write one of {', '.join(_KINDS)}.")
    for name, given in (("step", step), ("start", start), ("most", most), ("groups", groups)):
        if given < 1:
            raise PlanError(f"capacity({name}={given}): write 1 or more.")
    if seconds <= 0:
        raise PlanError(f"capacity(seconds={seconds:g}): write how long each rate is sent, as 2.")
    trials: list[CapacityTrial] = []
    with sending(groups, RING_BYTES if by == "udp" or room is None else room) as sender:
        turns = Turns(query, by, sender, BUFFER if room is None else room, two_processes, low)

        def holds(rate: int, times: int = 1) -> bool:
            trial = turns.take(rate, times * seconds)
            trials.append(trial)
            if told is not None:
                told(trial)
            return trial.kept and trial.reached

        # Kernels are loaded, or compiled, before anything is measured.
        turns.take(min(start, most), min(seconds, 0.2))
        turns.beginning = turns.processes
        rate = highest(holds, step=step, start=start, most=most)
        # A buffer may hide for a turn that a rate is too high.
        while rate and not holds(rate, 3):
            rate = max(0, rate - max(step, rate // 20 // step * step))
    failed = [trial for trial in trials if not trial.kept]
    if rate + step > most and not failed:
        return Capacity(rate, tuple(trials), "most")
    return Capacity(rate, tuple(trials), "query" if failed else "sender")


def highest(holds: Callable[[int], bool], *, step: int, start: int, most: int) -> int:
    """Return the highest multiple of a step, up to `most`, that holds, where all below one that holds do; 0 for none.

    - `holds`: tries one.

    >>> highest(lambda rate: rate <= 42, step=5, start=10, most=1_000)
    40
    """
    first = max(1, min(start, most) // step)
    low, high = 0, most // step + 1
    at = first
    while low < high - 1:
        if holds(at * step):
            low = at
            at = min(2 * at, (low + high) // 2) if high <= most // step else min(2 * at, most // step)
        else:
            high = at
            at = (low + high) // 2 if low else at // 2
        if at in (low, high):
            break
    return low * step


@attrs.define(eq=False)
class Sending:
    """Hold the process that sends, and the ring that it writes into."""

    process: subprocess.Popen[str]
    ring: Ring

    def ask(self, turn: Turn) -> None:
        """Have it begin a turn."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(turn) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Sent:
        """Return what it sent in a turn, once that is over; ProcessError when it is gone."""
        return Sent(**json.loads(self.line()))

    def line(self) -> str:
        """Return the next line that it says; ProcessError when it is gone."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.watch()
        return line

    def end(self) -> None:
        """End the sender, whatever it does; may be called twice."""
        self.process.kill()
        self.process.wait()

    def watch(self) -> None:
        """Raise ProcessError when the sender is gone: nothing will come any more."""
        if (code := self.process.poll()) is not None:
            raise ProcessError(f"the process that sends (pid {self.process.pid}) ended with status {code}.")


@contextmanager
def sending(groups: int, room: int) -> Generator[Sending]:
    """Begin the process that sends, and end it."""
    if os.name != "posix":
        raise ProcessError(
            f"capacity hands memory on to another process, which it cannot here ({sys.platform}).\n"
            "  Measure on Linux or macOS."
        )
    ring = Ring.create(room)
    command = [sys.executable, "-m", "oop_engine.processes.load", *map(str, (groups, ring.descriptor, ring.capacity))]
    prepare()
    process = subprocess.Popen(
        command, pass_fds=(ring.descriptor,), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    sending = Sending(process, ring)
    try:
        sending.line()
        yield sending
    finally:
        sending.end()
        process.communicate()
        ring.close()


@attrs.define(eq=False)
class Turns:
    """Run a query once for each rate."""

    query: Callable[[Stream], Stream]
    by: By
    sender: Sending
    room: int
    two_processes: bool = False
    low: int = 0
    beginning: Mapping[str, float] = attrs.field(factory=dict[str, float])
    """Seconds of processor time that each process of a level takes for hardly any work, loading its kernels."""
    _aparts: list[Apart] = attrs.field(init=False, factory=list)
    """Those of the plan that runs."""

    def take(self, rate: int, seconds: float) -> CapacityTrial:
        """Send at a rate for so long, and run the query on what comes."""
        results, ended = 0, time.time()

        def count(element: Element) -> None:
            nonlocal results, ended
            results += len(element) if isinstance(element, Page) else 0
            ended = time.time()

        used = time.process_time()
        sent, lost = (self._ring if self.by == "ring" else self._udp)(rate, seconds, count)
        cpu = {"sender": sent.cpu, "engine": time.process_time() - used}
        cpu |= {name: max(0.0, used - self.beginning.get(name, 0.0)) for name, used in self.processes.items()}
        return CapacityTrial(rate, sent.sent, lost, sent.ended - sent.began, max(0.0, ended - sent.ended), cpu, results)

    def _run(self, stream: Stream, count: Callable[[Element], None]) -> None:
        node = self.query(stream).node
        if self.two_processes or self.low:
            node = with_levels_apart(node, layout="process" if self.two_processes else "here", low=self.low)
        plan = prepared(node)
        self._aparts = aparts_of(plan)
        run_to_end(plan, [count])

    @property
    def processes(self) -> dict[str, float]:
        """Return the seconds of processor time of each process of a level, those of one name together."""
        found: dict[str, float] = {}
        for apart in self._aparts:
            for name, used in apart.cpu().items():
                found[name] = found.get(name, 0.0) + used
        return found

    @property
    def _lead(self) -> float:
        return _LEAD if self._aparts else 0.0

    def _ready(self) -> bool:
        """Return whether the processes of the query run."""
        return all(apart.worker is not None and apart.worker.ready for apart in self._aparts)

    def _ring(self, rate: int, seconds: float, count: Callable[[Element], None]) -> tuple[Sent, int]:
        # A query that needs no more before its sender is done leaves frames behind.
        self.sender.ring.clear()
        asked, before = False, self.sender.ring.counters["dropped_tuples"]

        def watch() -> None:
            nonlocal asked
            self.sender.watch()
            if not asked and self._ready():
                asked = True
                self.sender.ask({"rate": rate, "seconds": seconds, "lead": self._lead, "port": 0})

        source = RingSource(self.sender.ring, PACKETS.arrow, ("ts",), "packets", watch)
        self._run(Stream(source_node(source)), count)
        return self.sender.answer(), self.sender.ring.counters["dropped_tuples"] - before

    def _udp(self, rate: int, seconds: float, count: Callable[[Element], None]) -> tuple[Sent, int]:
        readers: list[LiveReader] = []
        answers: list[Sent | BaseException] = []
        conductors: list[threading.Thread] = []

        def conduct() -> None:
            try:
                pauses = waits(self.sender.watch)
                while not self._ready():
                    next(pauses)
                port = listening.getsockname()[1]
                self.sender.ask({"rate": rate, "seconds": seconds, "lead": self._lead, "port": port})
                sent = self.sender.answer()
                _drain(readers[0], sent.led + sent.sent, self.sender.watch)
                answers.append(sent)
            except BaseException as error:
                answers.append(error)
            readers[0].stop()

        def opened(reader: LiveReader) -> None:
            readers.append(reader)
            conductors.append(threading.Thread(target=conduct, name="conducts the sender", daemon=True))
            conductors[0].start()

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
            listening.bind(("127.0.0.1", 0))
            rules = Rules(active=10 * SECOND, inactive=0, scan=0, settle=SECOND, trusted_after=1)
            source = LiveFlows(listening, rules=rules, buffer=self.room, opened=opened)
            try:
                self._run(Stream(source_node(source)), count)
            except BaseException:
                # Nobody takes what is sent any more, and who waits for the sender finds that it is gone.
                self.sender.end()
                raise
            finally:
                for conductor in conductors:
                    conductor.join()
        (sent,) = answers
        if isinstance(sent, BaseException):
            raise sent
        return sent, sent.led + sent.sent - _flows(readers[0])


def _drain(reader: LiveReader, sent: int, watch: Watch) -> None:
    """Wait until all flows are there, or nothing comes any more."""
    seen, since, pauses = -1, time.monotonic(), waits(watch)
    while (found := _flows(reader)) < sent and time.monotonic() - since < _QUIET:
        if found != seen:
            seen, since = found, time.monotonic()
        next(pauses)


def _flows(reader: LiveReader) -> int:
    return sum(report.counters.records for report in reader.exporters())
