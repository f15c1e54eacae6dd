"""A running plan can be asked for promises and told to make finer ones; they keep their place among the tuples."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pytest
import trio

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_plan
from oop_engine.plan.graph import Plan
from oop_engine.sources.live.reading import LiveReading
from operators.data.page import Page
from operators.pace import Pace
from operators.protocol import Element
from punctuation import Punctuation, Slack

SCHEMA = pa.schema([("ts", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"ts": list(values)}, schema=SCHEMA)


def coarse(stream: Stream) -> Plan:
    """Give a plan that asks for promises every 100 ticks only, and shows its source's tuples."""
    return Plan((stream.filter("ts > -1").node, stream.window(range=100, wattr="ts").aggregate(oop.count()).node))


def fed(plan: Plan, chunks: list[pa.RecordBatch], ask: Callable[[Circuit], None]) -> list[str]:
    """Give chunks to a circuit by hand, `ask` in between; give what left the first output."""
    found: list[str] = []

    def crossed(place: int, port: int, element: Element) -> None:
        if place == -1:
            found.append(str(element["ts"].tolist()) if isinstance(element, Page) else str(element))

    with Circuit(plan, crossed=crossed) as circuit:
        circuit.prepare()
        for chunk in chunks:
            for element in circuit.pages(0, chunk):
                circuit.give(0, 0, element)
            ask(circuit)
    return found


def live(*chunks: pa.RecordBatch) -> Stream:
    return oop.arrow(iter(chunks), schema=SCHEMA, slack=2)


def test_an_input_that_is_polled_promises_what_it_knows_behind_what_comes_next() -> None:
    asked: list[int] = []

    def once(circuit: Circuit) -> None:
        if not asked:
            circuit.poll(len(circuit.plan.nodes) - 1)
        asked.append(1)

    found = fed(coarse(live()), [batch(7, 9), batch(8, 11), batch(30)], once)
    assert found == ["[7, 9]", "[ts < 0]", "[8, 11]", "[ts < 9]", "[30]"]


def test_an_idle_input_that_is_polled_promises_when_its_timer_is_called() -> None:
    def poll(circuit: Circuit) -> None:
        circuit.poll(0)
        circuit.elapse(0, 0)

    found = fed(coarse(live()), [batch(7, 9)], poll)
    assert found[-1] == "[ts < 7]" and found.count("[ts < 7]") == 1


def test_an_input_that_is_told_promises_more_finely() -> None:
    def describe(circuit: Circuit) -> None:
        circuit.describe(0, "ts", Pace(10))

    found = fed(coarse(live()), [batch(7, 25), batch(39), batch(58)], describe)
    assert [text for text in found if text.startswith("[ts")][-2:] == ["[ts < 30]", "[ts < 50]"]


def test_exact_promises_that_were_read_ahead_cannot_be_told() -> None:
    def describe(circuit: Circuit) -> None:
        circuit.describe(0, "ts", Pace(10))

    with pytest.raises(oop.PlanError, match="in a plan of its own"):
        fed(coarse(oop.arrow([batch(1, 2)], schema=SCHEMA)), [batch(1, 2)], describe)


def test_a_blocked_operator_gets_a_bound_within_one_round() -> None:
    """A meld waits for the input whose promises are coarse: asked, it tells how far it is with its next chunk."""
    asked = trio.Event()

    def chunks() -> Iterator[pa.RecordBatch]:
        yield batch(7, 9)
        yield batch()
        while not circuits:
            yield batch()
        circuits[0].poll(2)
        yield batch()
        asked.set()

    circuits: list[Circuit] = []
    one = oop.arrow(chunks(), schema=SCHEMA, slack=0)
    other = oop.arrow(iter([batch(50)]), schema=SCHEMA, slack=0)
    both = oop.meld(one, other)
    plan = Plan((both.filter("ts > -1").node, both.window(range=100, wattr="ts").aggregate(oop.count()).node))
    promises: list[str] = []

    def take(element: Element) -> None:
        if isinstance(element, Punctuation):
            promises.append(str(element))

    async def main() -> None:
        with trio.fail_after(60):
            await run_plan(plan, [take, lambda element: None], watch=circuits.append, waiting=False)

    trio.run(main)
    assert promises[-1] == "[END]" and "[ts < 9]" in promises


def at_once(*calls: Callable[[], None]) -> None:
    """Make each call in a thread of its own, all at the same time, and with as many turns as there can be."""
    together, often = threading.Barrier(len(calls)), sys.getswitchinterval()
    failed: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        together.wait(60)
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert not failed


def step_of(circuit: Circuit) -> int | None:
    (punctuator,) = circuit.inputs[0].punctuators
    assert isinstance(punctuator, Slack)
    return punctuator.step


def test_an_input_that_is_told_in_the_middle_of_a_page_changes_nothing_until_the_next() -> None:
    """It may be told by another thread between any two steps of the one that drives it."""
    steps: list[int | None] = []

    def crossed(place: int, port: int, element: Element) -> None:
        if isinstance(element, Page):
            circuit.describe(0, "ts", Pace(10))
        steps.append(step_of(circuit))

    with Circuit(coarse(live()), crossed=crossed) as circuit:
        circuit.prepare()
        for chunk in (batch(7, 125), batch(239)):
            for element in circuit.pages(0, chunk):
                circuit.give(0, 0, element)
    first, *_, last = steps
    assert first is not None and first > 10 and last == 10


def test_what_several_threads_ask_for_is_all_promised_while_the_run_goes_on() -> None:
    """Finest of all: the step that serves each of them. None is forgotten, and no promise is wrong or fails."""
    found: list[Element] = []
    asked = [2**number * 3 * 5 * 7 for number in range(8)]

    def crossed(place: int, port: int, element: Element) -> None:
        if place == -1:
            found.append(element)

    for _ in range(40):
        with Circuit(coarse(live()), crossed=crossed) as circuit:
            circuit.prepare()

            def drive(circuit: Circuit = circuit) -> None:
                for at in range(0, 6_000, 300):
                    for element in circuit.pages(0, batch(at, at + 100, at + 1)):
                        circuit.give(0, 0, element)
                    circuit.behind(0)

            def ask(first: int, circuit: Circuit = circuit) -> None:
                for step in asked[first::2]:
                    circuit.describe(0, "ts", Pace(step))
                    circuit.poll(0)

            at_once(drive, partial(ask, 0), partial(ask, 1))
            for element in circuit.pages(0, batch(7_007)):
                circuit.give(0, 0, element)
            assert step_of(circuit) == 5  # with the 100 of the window


class AskedMeanwhile(LiveReading):
    """It is asked by another thread just after it has looked whether it is asked."""

    asked = False
    meanwhile = False

    @property
    def _polled(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        asked, meanwhile = self.asked, self.meanwhile
        self.meanwhile = False
        if meanwhile:
            self.poll()
        return asked

    @_polled.setter
    def _polled(self, value: bool) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.asked = value

    def looks(self, count: int) -> list[bool]:
        return [self._is_polled() for _ in range(count)]


def test_no_question_to_a_live_source_is_forgotten() -> None:
    reading = AskedMeanwhile()
    reading.meanwhile = True
    assert reading.looks(3) == [False, True, False]
