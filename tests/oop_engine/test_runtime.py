"""The trio runtime gives what the synchronous driver gives, whatever the schedule; and it ends, whatever fails."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.api.stream import Stream
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.meter import Statistics
from oop_engine.drive.runtime import run_plan, run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.sources.memory import Once
from oop_engine.sources.protocol import Chunk
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element, Emit, State
from punctuation import END, Progress, Punctuation, before
from tests.oop_engine.schedules import scheduled, simulate

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
ROOT = Path(__file__).parents[2]
Rows = Counter[tuple[object, ...]]


def bag(elements: Sequence[Element]) -> Rows:
    return Counter(tuple(row.values()) for e in elements if isinstance(e, Page) for row in e.rows())


def grammatical(elements: Sequence[Element]) -> None:
    """Check that no tuple matches an earlier promise and that END comes once, last."""
    progress = Progress()
    for element in elements:
        if isinstance(element, Page):
            for row in element.rows():
                assert not any(promise.matches(row) for promise in progress.promises())  # type: ignore[arg-type]
        else:
            progress.advance(element)
    assert [e == END for e in elements] == [False] * (len(elements) - 1) + [True]


def batch(rows: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"ts": [t for t, _ in rows], "x": [x for _, x in rows]}, schema=SCHEMA)


def source(rows: Sequence[tuple[int, int]], cuts: Sequence[int] = ()) -> Stream:
    edges = [0, *sorted({c for c in cuts if 0 < c < len(rows)}), len(rows)]
    return oop.arrow([batch(rows[a:b]) for a, b in itertools.pairwise(edges)], schema=SCHEMA)


@st.composite
def plans(draw: st.DrawFn) -> list[Stream]:
    """Draw a graph: handles are used again and again, so that parts are shared and meet in melds; 1 to 3 outputs."""
    tuples = st.lists(st.tuples(st.integers(-3, 12), st.integers(0, 3)), max_size=12)
    cuts = st.lists(st.integers(1, 11), max_size=3)
    pool = [source(draw(tuples), draw(cuts)) for _ in range(draw(st.integers(1, 3)))]
    numbered = [s.number().project("ts", x=lambda p: p["row_num"] % 3) for s in pool]
    pool += numbered
    for _ in range(draw(st.integers(0, 6))):
        one, other, third = (draw(st.sampled_from(pool)) for _ in range(3))
        kind = draw(st.sampled_from(["filter", "project", "derive", "meld", "meld of three", "distinct"]))
        pool.append(
            {
                "filter": lambda one=one: one.filter(lambda p: p["x"] > 0),
                "project": lambda one=one: one.project("ts", x=lambda p: 3 - p["x"]),
                "derive": lambda one=one: one.derive(y=lambda p: p["x"] + 1).project("ts", x="y"),
                "meld": lambda one=one, other=other: oop.meld(one, other),
                "meld of three": lambda one=one, other=other, third=third: oop.meld(one, other, third),
                "distinct": lambda one=one: one.distinct(),
            }[kind]()
        )
    outputs: list[Stream] = []
    for _ in range(draw(st.integers(1, 3))):
        chosen = draw(st.sampled_from(pool))
        if draw(st.booleans()):
            size, slide = draw(st.integers(1, 6)), draw(st.integers(1, 4))
            windowed = chosen.window(range=size, slide=slide, wattr="ts")
            chosen = windowed.aggregate(oop.count(), total=oop.sum("x"), by=draw(st.sampled_from([(), ("x",)])))
        outputs.append(chosen)
    return outputs


def synchronous(outputs: Sequence[Stream], page_rows: int = 8192) -> list[list[Element]]:
    found: list[list[Element]] = [[] for _ in outputs]
    for number, element in Run(Plan(tuple(s.node for s in outputs)), page_rows):
        found[number].append(element)
    return found


@given(plans(), st.sampled_from([1, 8]), st.sampled_from([1, 3, 8192]), st.integers(0, 2**32))
def test_any_schedule_gives_what_the_synchronous_driver_gives(
    outputs: list[Stream], inbox: int, page_rows: int, seed: int
) -> None:
    expected = [bag(elements) for elements in synchronous(outputs)]
    found: list[list[Element]] = [[] for _ in outputs]

    async def main() -> None:
        plan = Plan(tuple(s.node for s in outputs))
        takers = [elements.append for elements in found]
        await run_plan(plan, takers, inbox=inbox, page_rows=page_rows, waiting=False)

    simulate(main, seed)
    assert [bag(elements) for elements in found] == expected
    for elements in found:
        grammatical(elements)


@given(plans(), st.sampled_from([1, 8]))
def test_threads_make_no_difference(outputs: list[Stream], inbox: int) -> None:
    expected = [bag(elements) for elements in synchronous(outputs, 3)]
    found: list[list[Element]] = [[] for _ in outputs]

    async def main() -> None:
        with trio.fail_after(60):
            await run_plan(Plan(tuple(s.node for s in outputs)), [f.append for f in found], inbox=inbox, page_rows=3)

    trio.run(main)
    assert [bag(elements) for elements in found] == expected
    for elements in found:
        grammatical(elements)


def order_of_tasks(seed: int) -> list[int]:
    trace: list[int] = []

    async def step(name: int) -> None:
        for _ in range(3):
            trace.append(name)
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for name in range(5):
                nursery.start_soon(step, name)

    simulate(main, seed)
    return trace


def test_the_seed_alone_decides_the_schedule() -> None:
    traces = [order_of_tasks(seed) for seed in range(30)]
    assert traces == [order_of_tasks(seed) for seed in range(30)]
    assert len({tuple(t) for t in traces}) > 25


def promised(elements: Sequence[Element | Chunk], schema: Schema | None = None) -> Stream:
    return oop.pages(iter(elements), schema or Schema(SCHEMA, progress=["ts"]))  # type: ignore[arg-type]


def pages(times: Sequence[int]) -> list[Page]:
    schema = Schema(SCHEMA, progress=["ts"])
    return [Page(schema, batch([(t, 0)])) for t in times]


def test_a_slow_consumer_holds_the_sources_back() -> None:
    pulled, gate, taken = [0], threading.Event(), list[Element]()
    held_at = [0]

    def elements() -> Iterator[Element]:
        for page in pages(range(500)):
            pulled[0] += 1
            yield page

    schema = Schema(SCHEMA, progress=["ts"])
    read = oop.pages(elements(), schema)
    diamond = oop.meld(read.filter(lambda p: p["ts"] >= 0), read)

    def take(element: Element) -> None:
        gate.wait()
        taken.append(element)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run_plan(Plan((diamond.node,)), [take], inbox=1))
            await trio.testing.wait_all_tasks_blocked(0.2)
            held_at[0] = pulled[0]
            gate.set()

    with_deadline(main)
    assert held_at[0] <= 10
    assert sum(len(e) for e in taken if isinstance(e, Page)) == 1000


def with_deadline(main: Callable[[], Awaitable[object]], seconds: float = 30) -> None:
    """Run a trio program, and wait until no thread works for it any more."""

    async def bounded() -> None:
        with trio.fail_after(seconds):
            await main()
            await settled()

    trio.run(bounded)


@attrs.define
class Fails:
    """Pass everything on until a tuple has a certain x."""

    x: int
    error: type[Exception] = ArithmeticError

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return inputs[0]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if self.x in page["x"]:
            raise self.error(f"cannot take x = {self.x}")
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if self.x == -1 and not punctuation.is_end:
            raise self.error("cannot take promises")
        emit(punctuation)

    def state(self) -> State:
        return {}

    def restore(self, state: object) -> None:
        """Do nothing."""


def failing(stream: Stream, error: type[BaseException] = ArithmeticError, **options: object) -> BaseException:
    """Run until it fails and give the error, having checked that nothing is left behind."""
    caught: list[BaseException] = []

    async def main() -> None:
        before_it = trio.lowlevel.current_statistics().tasks_living
        with pytest.raises(error) as info:
            await run_plan(Plan((stream.node,)), [lambda e: None], **options)  # type: ignore[arg-type]
        caught.append(info.value)
        assert trio.lowlevel.current_statistics().tasks_living == before_it

    with_deadline(main)
    return caught[0]


@pytest.mark.parametrize("page_rows", [1, 2, 8192])
@pytest.mark.parametrize("endless", [False, True])
def test_a_failing_operator_ends_the_run_with_its_own_error_and_one_note(page_rows: int, endless: bool) -> None:
    read = source([(1, 0), (2, 1), (3, 7), (4, 0)])
    other = promised(forever()) if endless else source([(9, 0)])
    out = oop.meld(read.filter(lambda p: p["ts"] > 0).apply(Fails(7)), other).distinct()
    error = failing(out, page_rows=page_rows)
    assert str(error) == "cannot take x = 7"
    (note,) = error.__notes__
    page, first, tuples = {1: (3, "ts = 3, x = 7", 1), 2: (2, "ts = 3, x = 7", 2), 8192: (1, "ts = 1, x = 0", 4)}[
        page_rows
    ]
    assert note == f"in operator 2 (Fails), port 0, page {page} of {tuples} tuples; its first tuple: {first}"
    assert error.__context__ is None


def test_what_an_operator_emits_before_it_fails_is_sent_by_nobody_else() -> None:
    """While the error is on its way, others go on, who know other inboxes: one run in three had a second error."""

    class Emits(Fails):
        def process(self, page: Page, emit: Emit, port: int = 0) -> None:
            emit(page)
            super().process(page, emit, port)

    for _ in range(30):
        once = source([(1, 0), (3, 7)]).apply(Emits(7))
        (note,) = failing(oop.meld(once, promised(forever())).distinct()).__notes__
        assert note.startswith("in operator 1 (Emits), port 0, page 1 of 2 tuples")


def forever() -> Iterator[Element]:
    schema = Schema(SCHEMA, progress=["ts"])
    while True:
        yield Page(schema, batch([(1, 0)]))


def test_an_operator_that_fails_at_a_promise_is_named_with_it() -> None:
    stream = promised([*pages([1]), before("ts", 5)]).apply(Fails(-1))
    assert failing(stream).__notes__ == ["in operator 1 (Fails), port 0, at the punctuation [ts < 5]"]
    with pytest.raises(ArithmeticError) as synchronously:
        list(promised([*pages([1]), before("ts", 5)]).apply(Fails(-1)))
    assert synchronously.value.__notes__ == ["in operator 1 (Fails), port 0, at the punctuation [ts < 5]"]


def test_of_two_errors_at_once_the_first_is_raised_and_the_other_noted() -> None:
    """Both consumers are held until both are in: then both fail, and neither is cancelled by the other."""
    both = threading.Barrier(2)

    def fails(error: type[Exception]) -> Callable[[Element], None]:
        def take(element: Element) -> None:
            both.wait(20)
            raise error("no room")

        return take

    stream = source([(1, 0)])

    async def main() -> None:
        with pytest.raises((OSError, LookupError)) as info:
            await run_plan(Plan((stream.node, stream.node)), [fails(OSError), fails(LookupError)])
        located, other = info.value.__notes__
        assert located in ("while output 0 of the plan was written", "while output 1 of the plan was written")
        expected = "LookupError" if info.type is OSError else "OSError"
        assert other == f"another error came with it: {expected}: no room"

    with_deadline(main)


def test_an_error_is_raised_alone_where_the_run_is_cancelled_at_the_same_time() -> None:
    async def main() -> None:
        with trio.CancelScope() as scope:

            def take(element: Element) -> None:
                trio.from_thread.run_sync(scope.cancel)
                raise OSError("no room")

            with pytest.raises(OSError, match="no room") as info:
                await run_plan(Plan((promised(forever()).node,)), [take])
            assert info.value.__notes__ == ["while output 0 of the plan was written"]

    with_deadline(main)


def test_the_same_stream_may_be_two_outputs() -> None:
    stream = source([(1, 0), (2, 5)])
    one: list[Element] = []
    other: list[Element] = []
    trio.run(run_plan, Plan((stream.node, stream.node)), [one.append, other.append])
    assert bag(one) == bag(other) == Counter([(1, 0), (2, 5)])


def test_a_failing_source_says_how_far_it_was_read() -> None:
    def breaks() -> Iterator[Element]:
        yield from pages([1, 2])
        raise EOFError("the cable is cut")

    read = oop.meld(oop.pages(breaks(), Schema(SCHEMA, progress=["ts"]), name="main1"), promised(forever()))
    error = failing(read, EOFError)
    assert (str(error), error.__notes__) == ("the cable is cut", ["while main1 was read, after 2 tuples"])


def test_nothing_is_released_for_a_source_that_fails() -> None:
    def breaks() -> Iterator[Element]:
        yield from pages([1, 2])
        raise EOFError("the cable is cut")

    # Which task the scheduler takes first, the one that fails or the one that finds its inbox ended, is chance.
    for _ in range(20):
        read = oop.pages(breaks(), Schema(SCHEMA, progress=["ts"]))
        results: list[Element] = []
        with pytest.raises(EOFError):
            run_to_end(Plan((read.window(range=10).aggregate(oop.count()).node,)), [results.append])
        assert not results


def test_an_error_of_watch_ends_the_run() -> None:
    def watch(circuit: Circuit) -> None:
        raise LookupError("nothing to see")

    assert str(failing(promised(forever()), LookupError, watch=watch)) == "nothing to see"


def test_watch_sees_how_far_a_run_is() -> None:
    seen: list[int] = []
    sources = [promised(pages(range(50))), source([(t, 0) for t in range(9)])]

    def watch(circuit: Circuit) -> None:
        seen.append(len(circuit.statistics()))

    run_to_end(Plan((oop.meld(*sources).node,)), [lambda e: None], watch=watch)
    assert seen


def test_as_many_consumers_as_outputs() -> None:
    with pytest.raises(oop.PlanError, match="the plan has 1 outputs and 2 consumers were given"):
        trio.run(run_plan, Plan((source([]).node,)), [print, print])


def test_cancelling_from_outside_leaves_nothing_behind() -> None:
    async def main() -> None:
        before_it = trio.lowlevel.current_statistics().tasks_living
        started = trio.Event()
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await started.wait()
                scope.cancel()

            def watch(circuit: Circuit) -> None:
                started.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel)
                nursery.start_soon(lambda: run_plan(Plan((promised(forever()).node,)), [lambda e: None], watch=watch))
        assert scope.cancelled_caught
        assert trio.lowlevel.current_statistics().tasks_living == before_it

    with_deadline(main)


async def settled() -> None:
    """Wait until no thread works for the runtime any more."""
    limiter = trio.to_thread.current_default_thread_limiter()
    while limiter.borrowed_tokens:
        await trio.sleep(0.001)


def test_inside_a_loop_that_is_there() -> None:
    stream = source([(1, 0), (12, 1)]).window(range=10, wattr="ts").aggregate(oop.count())

    async def main() -> None:
        assert (await stream.run_async()).table["count"].to_pylist() == [1, 1]
        pages: list[Page] = []
        from oop_engine.sinks import PageSink

        statistics = await stream.to(PageSink(pages.append)).run_async()
        assert (statistics.windows, sum(len(p) for p in pages)) == (2, 2)
        with pytest.raises(oop.PlanError, match="await run_async"):
            stream.run()

    with_deadline(main)


def test_several_outputs_are_one_run_and_share_their_source(tmp_path: Path) -> None:
    opened = [0]

    def begin() -> Iterator[Chunk]:
        opened[0] += 1
        yield batch([(1, 0), (12, 1)])

    read = oop.from_source(Once("once", SCHEMA, begin), punctuate=oop.ordered("ts"))
    counted = read.window(range=10, wattr="ts").aggregate(oop.count())
    oop.run_outputs([read.to(str(tmp_path / "raw.csv")), counted.to(str(tmp_path / "counts.ndjson"))])
    assert opened == [1]
    assert (tmp_path / "raw.csv").read_text().splitlines()[1:] == ["1,0", "12,1"]
    assert len((tmp_path / "counts.ndjson").read_text().splitlines()) == 2


def test_a_failing_sink_ends_the_run_and_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    @attrs.frozen
    class Full:
        def opened(self, schema: Schema) -> object:
            from contextlib import nullcontext

            def take(element: Element) -> None:
                raise OSError(28, "No space left on device")

            return nullcontext(take)

    read = promised(forever())
    with pytest.raises(OSError, match="No space left") as info:
        oop.run_outputs([read.to(str(tmp_path / "raw.csv")), read.to(Full())])  # type: ignore[arg-type]
    assert "while output 1 of the plan was written" in info.value.__notes__
    assert list(tmp_path.iterdir()) == []


NANOS = pa.schema([("ts", pa.timestamp("ns", tz="UTC"))])


@pytest.mark.parametrize(
    "promise",
    [
        lambda: oop.ordered("ts", lull="100ms"),
        lambda: oop.slack("50ms", on="ts", lull="100ms"),
        lambda: oop.heartbeat({"a": ("10ms", "20ms"), "b": ("0s", "50ms")}),
    ],
)
def test_a_silent_source_is_promised_by_the_clock(promise: Callable[[], object]) -> None:
    """The source waits for the result of its own tuple: only the timer can release it."""
    released, waited = threading.Event(), [False]

    def begin() -> Iterator[Chunk]:
        yield pa.RecordBatch.from_pydict({"ts": [time.time_ns()]}, schema=NANOS)
        waited[0] = released.wait(20)

    read = oop.from_source(Once("link", NANOS, begin), punctuate=promise())  # type: ignore[arg-type]
    elements: list[Element] = []

    def take(element: Element) -> None:
        elements.append(element)
        if isinstance(element, Page):
            released.set()

    out = read.window(range="20 ms", wattr="ts").aggregate(oop.count())
    with_deadline(lambda: run_plan(Plan((out.node,)), [take]))
    assert waited == [True]
    counts = [row["count"] for e in elements if isinstance(e, Page) for row in e.rows()]
    assert counts == [1]
    first = next(i for i, e in enumerate(elements) if isinstance(e, Page))
    after = [e for e in elements[first:] if isinstance(e, Punctuation) and not e.is_end]
    assert after and all(p.assumed for p in after)


def test_a_silent_link_does_not_hold_back_a_meld_for_ever() -> None:
    """Link a goes on, link b is silent: with a lull, what a counted is released before b ends."""
    released, now = threading.Event(), time.time_ns()

    def busy() -> Iterator[Chunk]:
        yield pa.RecordBatch.from_pydict({"ts": [now, now + 10**9]}, schema=NANOS)

    def silent() -> Iterator[Chunk]:
        yield pa.RecordBatch.from_pydict({"ts": [now]}, schema=NANOS)
        assert released.wait(20)

    one = oop.from_source(Once("a", NANOS, busy), punctuate=oop.ordered("ts"))
    other = oop.from_source(Once("b", NANOS, silent), punctuate=oop.ordered("ts", lull="2 s"))
    out = oop.meld(one, other).window(range="20 ms", wattr="ts").aggregate(oop.count())
    counts: list[object] = []

    def take(element: Element) -> None:
        if isinstance(element, Page):
            counts.extend(row["count"] for row in element.rows())
            released.set()

    with_deadline(lambda: run_plan(Plan((out.node,)), [take]))
    assert counts == [2, 1]


PRELUDE = """
import signal, sys, threading, time
import pyarrow as pa
import trio
import oop_engine as oop
from oop_engine.plan.graph import Plan
from oop_engine.drive.runtime import run_to_end
from oop_engine.sources.memory import Once
from operators.data.page import Page

# Who runs the tests may have been started to ignore it (nohup).
signal.signal(signal.SIGHUP, signal.SIG_DFL)
SCHEMA = pa.schema([("ts", pa.int64())])
def say(*words):
    print(*words, flush=True)
"""


@attrs.define
class Child:
    """A Python process whose standard input stays open until it ends."""

    process: subprocess.Popen[str]
    begun: float = attrs.field(init=False, factory=time.perf_counter)
    starting: float | None = attrs.field(init=False, default=None)
    """The seconds until it said something, which tell how busy the machine is."""

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().rstrip("\n")
        self.starting = self.starting or time.perf_counter() - self.begun
        return line

    def ended(self) -> tuple[bool, str, str, int]:
        """Wait for the end, at most 20 s; say whether it came at once, what was still said, and the status.

        To end is less work than to start. So what takes 2 s more than that waits for something.
        """
        start = time.perf_counter()
        self.process.wait(20)
        at_once = time.perf_counter() - start < 2 + (self.starting or 0)
        assert self.process.stdout is not None and self.process.stderr is not None
        return at_once, self.process.stdout.read(), self.process.stderr.read(), self.process.returncode


@pytest.fixture
def child() -> Iterator[Callable[[str], Child]]:
    children: list[Child] = []

    def start(program: str) -> Child:
        process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        children.append(Child(process))
        return children[-1]

    yield start
    for each in children:
        each.process.kill()
        each.process.wait()
        for pipe in (each.process.stdin, each.process.stdout, each.process.stderr):
            assert pipe is not None
            pipe.close()


Start = Callable[[str], Child]


STDIN = """
read = oop.table("-", format="csv", types={"ts": "int"}, punctuate=oop.ordered("ts"))
out = read.window(range=10, wattr="ts").aggregate(oop.count())
def take(element):
    if isinstance(element, Page):
        for row in element.rows():
            say("released", row["wid"], row["count"])
statistics = run_to_end(Plan((out.node,)), [take], handle_signals=True)
say("interrupted", statistics.interrupted, "tuples", statistics.tuples)
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGHUP))]
)
def test_the_first_signal_lets_what_was_read_drain(child: Start, number: int) -> None:
    """Standard input stays open: only the signal can end the run; window 2 is not released, as nothing promised it."""
    reading = child(STDIN)
    reading.type("ts\n" + "".join(f"{t}\n" for t in range(25)))
    assert [reading.line(), reading.line()] == ["released 0 10", "released 1 10"]
    reading.process.send_signal(number)
    at_once, out, err, status = reading.ended()
    assert (out, err, status) == ("interrupted True tuples 25\n", "", 0)
    assert at_once


def test_the_second_signal_does_not_wait_for_a_consumer(child: Start) -> None:
    """Signals of one kind that arrive together are one, so the second is of the other kind."""
    stuck = child(
        """
        def begin():
            yield pa.RecordBatch.from_pydict({"ts": [1]}, schema=SCHEMA)
            threading.Event().wait()
        def take(element):
            say("stuck")
            threading.Event().wait()
        stream = oop.from_source(Once("once", SCHEMA, begin), punctuate=oop.ordered("ts"))
        try:
            run_to_end(Plan((stream.node,)), [take], handle_signals=True)
        except KeyboardInterrupt:
            say("ended")
            sys.exit(130)
        """
    )
    assert stuck.line() == "stuck"
    stuck.process.send_signal(signal.SIGINT)
    stuck.process.send_signal(signal.SIGTERM)
    at_once, out, err, status = stuck.ended()
    assert (out, err, status) == ("ended\n", "", 130)
    assert at_once


def test_a_terminal_that_hangs_up_twice_lets_what_was_read_drain(child: Start) -> None:
    """The system and the shell both send the signal."""
    slow = child(
        """
        def begin():
            yield pa.RecordBatch.from_pydict({"ts": [1]}, schema=SCHEMA)
            threading.Event().wait()
        def take(element):
            for word in ("taking", "still taking"):
                say(word)
                sys.stdin.readline()
        stream = oop.from_source(Once("once", SCHEMA, begin), punctuate=oop.ordered("ts"))
        say("interrupted", run_to_end(Plan((stream.node,)), [take], handle_signals=True).interrupted)
        import os
        os._exit(0)
        """
    )
    for word in ("taking", "still taking"):
        assert slow.line() == word
        slow.process.send_signal(signal.SIGHUP)
        slow.type("\n")
    slow.type("\n" * 9)
    _, out, err, status = slow.ended()
    assert (out.splitlines()[-1], err, status) == ("interrupted True", "", 0)


def test_who_ignores_that_the_terminal_hangs_up_goes_on(child: Start) -> None:
    reading = child("signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + STDIN)
    reading.type("ts\n" + "".join(f"{t}\n" for t in range(25)))
    assert [reading.line(), reading.line()] == ["released 0 10", "released 1 10"]
    reading.process.send_signal(signal.SIGHUP)
    reading.type("35\n")
    assert reading.line() == "released 2 5"
    assert reading.process.stdin is not None
    reading.process.stdin.close()
    _, out, err, status = reading.ended()
    assert (out, err, status) == ("released 3 1\ninterrupted False tuples 26\n", "", 0)


def test_a_signal_during_a_long_reading_ahead_ends_the_run_at_once(child: Start) -> None:
    reading = child(
        """
        import numpy as np
        from oop_engine.drive.runtime import run_plan
        from oop_engine.sources.memory import Rows
        class Long(Rows):
            def values(self, column):
                say("reading ahead")
                while True:
                    yield np.arange(1000)
        stream = oop.from_source(Long("long", (pa.RecordBatch.from_pydict({"ts": [1]}, schema=SCHEMA),)))
        out = stream.window(range=10, wattr="ts").aggregate(oop.count())
        async def main():
            statistics = await run_plan(Plan((out.node,)), [say], handle_signals=True)
            limiter = trio.to_thread.current_default_thread_limiter()
            with trio.fail_after(5):
                while limiter.borrowed_tokens:
                    await trio.sleep(0.001)
            say("interrupted", statistics.interrupted, "late", statistics.late)
        trio.run(main)
        """
    )
    assert reading.line() == "reading ahead"
    reading.process.send_signal(signal.SIGINT)
    at_once, out, err, status = reading.ended()
    assert (out, err, status) == ("interrupted True late 0\n", "", 0)
    assert at_once


def test_scheduled_leaves_trio_as_it_was() -> None:
    inner = trio._core._run  # type: ignore[attr-defined]
    earlier = (inner._ALLOW_DETERMINISTIC_SCHEDULING, inner._r.getstate())
    with scheduled(7):
        assert inner._ALLOW_DETERMINISTIC_SCHEDULING
    assert (inner._ALLOW_DETERMINISTIC_SCHEDULING, inner._r.getstate()) == earlier


def test_statistics_of_an_empty_run() -> None:
    statistics = run_to_end(Plan((source([]).node,)), [lambda e: None])
    assert isinstance(statistics, Statistics)
    assert (statistics.tuples, statistics.late, statistics.interrupted) == (0, 0, False)


def ending(error: Exception) -> oop.Stream:
    schema = Schema.of(progress=["ts"], ts=pa.int64())

    def elements() -> Iterator[Element]:
        for start in range(0, 100, 10):
            yield Page.of(schema, {"ts": range(start, start + 10)})
            yield before("ts", start + 10)
        raise error

    return oop.pages(elements(), schema).window(range=30).aggregate(oop.count())


@pytest.mark.parametrize("run", [oop.Stream.run, oop.Stream.to_arrow, lambda stream: trio.run(stream.run_async)])
def test_a_source_that_cannot_go_on_is_an_error_that_has_the_results_so_far(
    run: Callable[[oop.Stream], object],
) -> None:
    with pytest.raises(oop.SourceEnded, match="the disk is full") as found:
        run(ending(oop.SourceEnded("the disk is full")))
    outcome = found.value.outcome
    assert outcome is not None
    # The window from 90 on was still open: nobody knows what else would have come.
    assert outcome.table["count"].to_pylist() == [30, 30, 30]
    assert "interrupted, ended: the disk is full" in repr(outcome.statistics)


@pytest.mark.parametrize("drive", [Stream.__iter__, lambda stream: run_pages(stream)], ids=["synchronous", "trio"])
def test_replays_keep_step_by_arrival_though_one_link_is_far_behind_in_its_own_time(
    drive: Callable[[Stream], Iterator[Page]],
) -> None:
    skew = 5_000_000_000
    links = [oop.packets(20_000, rate=1_000, link=name, seed=1, skew=s) for name, s in (("near", 0), ("far", skew))]
    newest, seen = 0, set[str]()
    for page in drive(oop.meld(*(link.derive(name=f"'{n}'") for n, link in zip(("near", "far"), links, strict=True)))):
        name = str(page["name"][0])
        arrived = int(page.ticks("ts").max()) + (skew if name == "far" else 0)
        # Only its first chunk tells when a link's packets arrive, and some are read ahead.
        assert name not in seen or arrived > newest - 2_000_000_000
        newest = max(newest, arrived) if name in seen else newest
        seen.add(name)
    assert seen == {"near", "far"}


def run_pages(stream: Stream) -> Iterator[Page]:
    pages: list[Page] = []
    run_to_end(Plan((stream.node,)), (lambda element: pages.append(element) if isinstance(element, Page) else None,))
    return iter(pages)
