"""A run that hangs says in which operator or consumer, and a second signal ends it, also within a compiled kernel."""

from __future__ import annotations

import json
import queue
import signal
from collections.abc import Iterator

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.drive.watchdog import Watchdog
from oop_engine.plan.graph import Plan
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Emit, State
from punctuation import Punctuation
from tests.examples import mostly_slow
from tests.oop_engine.test_runtime import Start
from tests.oop_engine.test_runtime import child as child  # the fixture

LONG = 60
"""Seconds after which what is waited for will not come."""
SCHEMA = pa.schema([("ts", pa.int64())])
OPERATOR = """
from oop_engine.drive import watchdog
watchdog.PATIENCE = 0.3
class Hangs:
    inputs = 1
    def output_schema(self, schema):
        return schema
    def process(self, page, emit, port=0):
        say("hung")
        hang()
    def punctuate(self, punctuation, emit, port=0):
        emit(punctuation)
    def state(self):
        return {}
    def restore(self, state):
        pass
stream = oop.rows([(1,), (2,)], SCHEMA).apply(Hangs())
"""
HUNG = f"""
{OPERATOR}
def hang():
    threading.Event().wait()
"""
COMPILED = f"""
{OPERATOR}
import numba
@numba.njit("int64(int64)", nogil=True)
def spin(n):
    while n:
        n += 2 * (n % 2)
    return n
def hang():
    spin(1)
"""
COMMAND = """
run_to_end(Plan((stream.node,)), [lambda element: None], handle_signals=True)
"""
PLACE = "in operator 1 (Hangs), port 0, page 1 of 2 tuples; its first tuple: ts = 1"


def test_what_stays_at_work_is_named_once_and_what_goes_on_is_not() -> None:
    said: queue.Queue[str] = queue.Queue()
    stuck, looks = object(), 0

    def hung() -> tuple[object, str]:
        return stuck, "in operator 7"

    def busy() -> tuple[object, str]:
        nonlocal looks
        looks += 1
        if looks == 100:
            said.put("busy went on")
        return object(), "in operator 8"

    with Watchdog([hung, busy, lambda: None], patience=0.03, say=said.put):
        first, second = said.get(timeout=LONG), said.get(timeout=LONG)
    assert first == "note: no progress for 0 s in operator 7. A second Ctrl-C ends the process."
    assert second == "busy went on"


def test_at_work_is_the_innermost_operator_and_none_between_pages_or_after_an_error() -> None:
    found: list[str] = []

    class Looks:
        inputs = 1

        def output_schema(self, *inputs: Schema) -> Schema:
            return inputs[0]

        def process(self, page: Page, emit: Emit, port: int = 0) -> None:
            work = run.circuit.at_work()
            found.append("nothing" if work is None else work[1])
            if page["ts"][0] == 9:
                raise ZeroDivisionError
            emit(page)

        def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
            emit(punctuation)

        def state(self) -> State:
            return {}

        def restore(self, state: object) -> None:
            """Do nothing."""

    def over(*rows: int) -> Run:
        stream = oop.rows([(row,) for row in rows], SCHEMA).filter("ts > 0").apply(Looks())
        return Run(Plan((stream.node,)))

    run = over(1, 2)
    for _ in run:
        assert run.circuit.at_work() is None
    assert found == ["in operator 2 (Looks), port 0, page 1 of 2 tuples; its first tuple: ts = 1"]
    run = over(9)
    with pytest.raises(ZeroDivisionError):
        list(run)
    assert run.circuit.at_work() is None


@pytest.mark.parametrize("program", mostly_slow([HUNG, COMPILED], but=[COMPILED]))
def test_the_second_signal_ends_a_run_whose_operator_never_comes_back(child: Start, program: str) -> None:
    hung = child(program + COMMAND)
    assert hung.line() == "hung"
    hung.process.send_signal(signal.SIGINT)
    hung.process.send_signal(signal.SIGTERM)
    _, out, err, status = hung.ended()
    assert (out, status) == ("", 130)
    lines = [line for line in err.splitlines() if not line.startswith("note: no progress")]
    assert lines == [f"note: ended by the second signal {PLACE}"]


def test_the_second_interruption_ends_run_within_a_compiled_kernel(child: Start) -> None:
    hung = child(COMPILED + "stream.run()")
    assert hung.line() == "hung"
    hung.process.send_signal(signal.SIGINT)
    hung.process.send_signal(signal.SIGTERM)
    assert hung.ended()[3] in (130, -signal.SIGTERM)  # the system's own handler ends it before


@pytest.mark.parametrize("drive", mostly_slow([COMMAND, "list(stream)", "stream.run()"], but=["stream.run()"]))
def test_a_hung_operator_is_named_under_every_driver(child: Start, drive: str) -> None:
    hung = child(HUNG + drive)
    assert hung.line() == "hung"
    assert hung.process.stderr is not None
    assert hung.process.stderr.readline().startswith(f"note: no progress for 0 s {PLACE}.")


def test_a_program_is_told_an_event_a_line_whatever_hangs(child: Start) -> None:
    hung = child("from oop_engine.messages import log_as\nlog_as('json')" + HUNG + COMMAND)
    assert hung.line() == "hung" and hung.process.stderr is not None
    events = [json.loads(hung.process.stderr.readline())]
    hung.process.send_signal(signal.SIGINT)
    hung.process.send_signal(signal.SIGTERM)
    events += map(json.loads, hung.ended()[2].splitlines())
    assert {event["level"] for event in events} == {"warning"}
    assert events[0]["message"].startswith(f"no progress for 0 s {PLACE}.")
    assert events[-1]["message"] == f"ended by the second signal {PLACE}"


def test_a_consumer_that_does_not_come_back_is_named(child: Start) -> None:
    hung = child(
        """
        from oop_engine.drive import watchdog
        watchdog.PATIENCE = 0.3
        stream = oop.rows([(1,), (2,)], SCHEMA)
        run_to_end(Plan((stream.node,)), [lambda element: threading.Event().wait()], handle_signals=True)
        """
    )
    assert hung.process.stderr is not None
    said = hung.process.stderr.readline()
    assert said.startswith(
        "note: no progress for 0 s in the consumer of output 0 (rows), which was given a page of 2 tu"
    )


def test_waiting_for_input_is_no_work() -> None:
    found: list[object] = []

    def given() -> Iterator[pa.RecordBatch]:
        for tick in (1, 2):
            found.append(run.circuit.at_work())
            yield pa.RecordBatch.from_pydict({"ts": [tick]}, schema=SCHEMA)
        found.append(run.circuit.at_work())

    run = Run(Plan((oop.arrow(given(), schema=SCHEMA, punctuate=oop.ordered()).node,)))
    assert sum(len(element) for _, element in run if isinstance(element, Page)) == 2
    assert found == [None, None, None]


def test_a_run_in_a_thread_that_is_not_the_main_one_leaves_signals_alone() -> None:
    import threading

    found: list[int] = []
    stream = oop.rows([(1,)], SCHEMA)
    thread = threading.Thread(target=lambda: found.append(run_to_end(Plan((stream.node,)), [lambda e: None]).tuples))
    thread.start()
    thread.join(LONG)
    assert found == [1]


def test_signals_are_as_they_were_after_a_run() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    run_to_end(Plan((oop.rows([(1,)], SCHEMA).node,)), [lambda element: None])
    after = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(after)
    assert after == before
