"""A run with outputs in a thread of its own: a program goes on beside it, and stops it in order.

with stream.to("talkers.parquet").start(checkpoint="job", journal="100 ms") as started:
    ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

import attrs

from oop_engine.api.column_expressions import Computed
from oop_engine.api.disclaiming import disclaim
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import Statistics, operators_table
from oop_engine.drive.preference import ranks_of
from oop_engine.drive.questions import Questions
from oop_engine.drive.runtime import Watch
from oop_engine.drive.why import Wait, why
from oop_engine.errors import PlanError
from operators.signals import Event
from punctuation import Punctuation

if TYPE_CHECKING:
    from oop_engine.page.shown import Shown


@attrs.define(eq=False, repr=False)
class Started:
    """Hold a run that was started in a thread; `Output.start` makes it from a function that `runs` with a watch.

    Use it in a `with`, which stops it, or call `stop` or `wait`. The thread ends with the program.

    >>> with oop.packets(10_000).to("packets.parquet").start() as started:
    ...     started.wait().tuples
    10000
    >>> started.ended, started.statistics.tuples, started.stop().interrupted
    (True, 10000, False)
    """

    runs: Callable[[Watch], Statistics]
    _outcome: Future[Statistics] = attrs.field(init=False, factory=Future)
    _asked: threading.Event = attrs.field(init=False, factory=threading.Event)
    _questions: Questions = attrs.field(init=False, factory=Questions)
    _thread: threading.Thread = attrs.field(init=False)
    _shown: Shown | None = attrs.field(init=False, default=None)
    """The page that shows the run, if there is one."""

    def __attrs_post_init__(self) -> None:
        self._outcome.add_done_callback(lambda _: self._questions.close())
        self._thread = threading.Thread(target=self._run, name="run", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self.runs(self._watch))
        except BaseException as error:
            self._outcome.set_exception(error)

    def _watch(self, circuit: Circuit) -> bool:
        self._questions.watch(circuit)
        if self._shown is not None:
            self._shown.watch(circuit)
        return self._asked.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        """Return whether it still runs, and how far it is."""
        return f"Started({'ended' if self.ended else 'running'}; {self.statistics!r})"

    def _repr_html_(self) -> str:
        """Return how far the operators are, as a table, for a notebook."""
        return operators_table(self.statistics)

    @property
    def ended(self) -> bool:
        """Return whether the run has ended, or failed."""
        return self._outcome.done()

    @property
    def statistics(self) -> Statistics:
        """Return the statistics of the operators so far; the run answers between two pages."""
        if self.ended and self._outcome.exception() is None:
            return self._outcome.result()
        circuit = self._questions.circuit
        if circuit is None:
            return Statistics(())
        if threading.current_thread() is self._thread:
            return Statistics(circuit.statistics())
        # Counting works out what operators keep for later, so no other thread may do it while they work.
        return Statistics(self._questions.ask(lambda _: circuit.statistics()))

    def why(self, timeout: float | None = None) -> tuple[Wait, ...]:
        """Return what each output waits for, as `Running.why` does; the run answers between two pages.

        - `timeout`: seconds after which TimeoutError is raised; the run goes on.

        >>> with oop.packets(10_000).to("packets.parquet").start() as started:
        ...     started.wait().tuples, [wait.cause for wait in started.why()]
        (10000, ['ended'])
        """
        return self._questions.ask(lambda circuit: () if circuit is None else why(circuit), timeout)

    def disclaim(self, unwanted: Punctuation | Computed, *, output: int = 0, timeout: float | None = None) -> None:
        """Stop results of an output that match a condition, as `Running.disclaim` does.

        - `unwanted`: a condition on attributes of the result, or a punctuation.
        - `output`: the number of the output, from 0.
        - `timeout`: seconds after which TimeoutError is raised; the run goes on.

        PlanError where the run writes checkpoints.

        >>> with oop.packets(10_000).to("packets.parquet").start() as started:
        ...     started.disclaim("destPort = 80")
        """
        self._questions.ask(lambda circuit: None if circuit is None else disclaim(circuit, output, unwanted), timeout)

    def prefer(self, *names: str, timeout: float | None = None) -> None:
        """Read some sources before others whenever both have something, as `Running.prefer` does.

        - `names`: of the sources, the first one first; none for no preference.
        - `timeout`: seconds after which TimeoutError is raised; the run goes on.

        >>> stream = oop.rows([(1,), (2,)], oop.Schema.of(ts="int64"), name="left")
        >>> with stream.to("rows.csv").start() as started:
        ...     started.prefer("left")
        """
        self._questions.ask(
            lambda circuit: circuit and circuit.preference.ask(ranks_of(circuit.plan, names)), timeout
        )  # fmt: skip

    def fire(self, event: str, timeout: float | None = None) -> None:
        """Fire an event: open windows whose trigger hears it give what they have so far, within about 0.2 s.

        - `event`: its name, as in `oop.Trigger.event`. PlanError when no window of the run hears it. Where the run has
          ended, nothing happens.
        - `timeout`: seconds after which TimeoutError is raised; the event is then not fired.

        >>> results = oop.packets(10_000).window(range="1 s").aggregate(oop.count(), early=oop.Trigger.event("flush"))
        >>> with results.to("counts.parquet").start() as started:
        ...     started.fire("flush")
        ...     started.wait().tuples
        10000
        """
        self._questions.ask(lambda circuit: None if circuit is None else circuit.fire(Event(event)), timeout)

    def stop(self) -> Statistics:
        """Return the statistics of the run when it was stopped: its sources end, and what was read drains.

        Windows that are open are not released. With a checkpoint, a last one is taken, and the same run goes on with
        them when it is started again. An error of the run is raised.
        """
        self._asked.set()
        try:
            return self.wait()
        finally:
            if self._shown is not None:
                self._shown.close()

    def page(self, address: str = "127.0.0.1:8080", *, token: str | None = None) -> str:
        """Return the URL of a page that shows the run in a browser until `stop`; see docs/page.md.

        - `address`: where it is served, as ADDRESS:PORT; port 0 takes any that is free.
        - `token`: what its readers must know, 8 letters and digits or more; needed where other machines reach the
          address.

        PlanError where that cannot be, a page is served already, or the run ended before it was asked for anything.
        It needs `oop-engine[page]`.

        >>> with oop.packets(1_000_000).to("packets.parquet").start() as started:
        ...     url = started.page("127.0.0.1:0")
        >>> url.startswith("http://127.0.0.1:")
        True
        """
        # Start-up: few runs show themselves.
        from oop_engine.page.shown import Shown

        if self._shown is not None:
            raise PlanError(f"page: this run is shown at {self._shown.url} already.")
        self.why()
        if (circuit := self._questions.circuit) is None:
            raise PlanError("page: the run has ended, and there is nothing to show.")
        self._shown = Shown(circuit.plan, address, token, told=lambda text: None).__enter__()
        return str(self._shown.url)

    def wait(self, timeout: float | None = None) -> Statistics:
        """Return the statistics of the run when it has ended; its error is raised.

        - `timeout`: seconds after which TimeoutError is raised; the run goes on.
        """
        return self._outcome.result(timeout)
