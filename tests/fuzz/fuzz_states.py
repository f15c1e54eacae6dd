"""Forges the saved states of every kind of operator: a restored one refuses in words, or goes on; it never dies.

    python -m tests.fuzz.fuzz_states 5 100     for 5 seeds, 100 forgeries of each operator's state

A state's checksum fits though the bytes are forged: numbers are set to what no operator writes, arrays and batches are
cut, doubled, emptied, or a bit of them flipped. Prints what is tried before it is, so that the last line tells of what
a process died.
"""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.flows import Datagrams, FlowDecoder
from operators.baselines.adaptive.adaptive import AdaptiveAggregate
from operators.baselines.buffer.aggregate import BufferAggregate
from operators.baselines.negative.aggregate import SignedAggregate
from operators.baselines.negative.expire import Expire
from operators.baselines.negative.join import SignedJoin
from operators.chain import Chain
from operators.data.page import Page
from operators.data.saved import decode_state, encode_state, restore
from operators.data.schema import Schema
from operators.expression import Column
from operators.functions import (
    approx_count_distinct,
    argmax,
    avg,
    concat,
    count,
    count_distinct,
    first,
    last,
    m4,
    max,
    median,
    min,
    minmax,
    mode,
    stddev,
    sum,
    top_k,
)
from operators.join import Band, OAJoin
from operators.join.as_of import AsOfLookup
from operators.join.ordered import OPIBJoin, OPOBJoin
from operators.protocol import Element, Emit, Operator, State, StateValue
from operators.rates.billing import Billing
from operators.rates.dedup import Dedup
from operators.rows.distinct import Distinct
from operators.rows.largest import Largest
from operators.rows.number import Number
from operators.rows.ranking import Ranking
from operators.rows.spread import Spread
from operators.rows.valid_from import ValidFrom
from operators.streams.guard import Guard
from operators.streams.input import Input
from operators.streams.meld import Meld
from operators.streams.merge import Merge
from operators.streams.reorder import Reorder
from operators.window import LandmarkWindow, SlidingWindow
from operators.window.counted import CountWindow, LastTuples, SlideByRank, SlideByRows
from operators.window.predicate import PredicateWindow
from operators.window.session import SessionWindow
from operators.window.user import EdgeWindow
from operators.window_aggregate.bucket import Bucket
from operators.window_aggregate.early.firing import Fire, Part
from operators.window_aggregate.early.refine import Refine
from operators.window_aggregate.group_by import GroupAggregate
from operators.window_aggregate.stores.per_window.wid import WindowAggregate
from operators.window_aggregate.stores.ranked.counted import CountAggregate
from operators.window_aggregate.stores.ranked.last import LastAggregate
from operators.window_aggregate.stores.ranked.predicate import PredicateAggregate
from operators.window_aggregate.stores.ranked.slide import SlideAggregate
from operators.window_aggregate.stores.slices.aggregate import SlicingAggregate
from operators.window_aggregate.stores.stacks.aggregate import StackAggregate
from punctuation import END, Ordered, Punctuation, Slack, TupleSlack, before
from tests.oop_engine.flows.exporter import HERE, NOW, SECOND
from tests.oop_engine.flows.test_flow_totality import VALID
from tests.operators.join.joining import LEFT, RIGHT
from tests.operators.two_level.test_two_level import SCHEMA as LEVELS
from tests.operators.two_level.test_two_level import split

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), x=pa.float64(), progress=["ts"])
SIGNED = Schema.of(wid=pa.int64(), sign=pa.int8(), k=pa.string(), v=pa.int64(), progress=["wid"])
SPANS = Schema.of(ts=pa.int64(), end_ts=pa.int64(), v=pa.int64(), x=pa.float64(), progress=["ts"])
BARE = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64())
WINDOW = SlidingWindow("ts", size=12, slide=4)
PARTS = {"w2": SlidingWindow("ts", size=2, slide=6, origin=-4), "w6": SlidingWindow("ts", size=6, slide=6)}
LANDMARK = LandmarkWindow("ts", slide=5)
WHEN = PredicateWindow("ts", Column("v") > 3, leave=Column("v") < 3, within=9)
LAST = LastTuples("ts", size=3, slide=4)
PLAIN = {"n": count(), "total": sum("v"), "mean": avg("v"), "most": max("v")}
ALL = {
    **PLAIN,
    "text": min("k"),
    "kinds": count_distinct("v"),
    "middle": median("v"),
    "words": mode("k"),
    "top": top_k("k", 2),
    "first": first("k"),
    "last": last("v"),
    "joined": concat("k"),
    "at": argmax("k", "v"),
    "spread": stddev("x"),
    "loose": sum("x"),
    "about": approx_count_distinct("k"),
    "outline": m4("v"),
    "both": minmax("v"),
}
Forge = Callable[[random.Random, Any], StateValue]
ODD = (-1, -2, 0, 1, 2, 7, 1000, 2**20, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**62, -(2**62), 2**63 - 1, -(2**63))
ANSWERS = 200
"""Pages after which an answer is one, however many there would be."""


@attrs.define
class Decoding:
    """Decode flow exports: each tuple of a page is a datagram, told by its number."""

    _decoder: FlowDecoder = attrs.field(init=False, factory=FlowDecoder)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        return Schema(self._decoder.schema)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        payloads = [VALID[number % len(VALID)] for number in page.batch.column("number").fill_null(0).to_pylist()]
        times = [NOW * SECOND + k for k in range(len(payloads))]
        datagrams = Datagrams.of(payloads, arrival=times, exporters=[HERE] * len(payloads))
        for batch in self._decoder.decode(datagrams):
            emit(Page(Schema(batch.schema), batch))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def state(self) -> State:
        return self._decoder.state()

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self._decoder.restore(state)


def _next_ten(tick: int) -> int:
    return tick // 10 * 10 + 10


def zoo() -> dict[str, tuple[Callable[[], Operator], tuple[Schema, ...]]]:
    """Give each kind of operator that remembers something, how it is made, and the schemas of its inputs."""
    one = (SCHEMA,)
    two = (LEFT, RIGHT)
    sessions = {"a": SessionWindow("ts", gap=3), "b": WINDOW}
    made: dict[str, tuple[Callable[[], Operator], tuple[Schema, ...]]] = {
        "panes": (lambda: Chain([Bucket(WINDOW), WindowAggregate(WINDOW, ALL, ("k",))]), one),
        "landmark": (
            lambda: Chain(
                [Bucket(LandmarkWindow("ts", slide=5)), WindowAggregate(LandmarkWindow("ts", slide=5), PLAIN)]
            ),
            one,
        ),
        "differential": (
            lambda: Chain([Bucket(WINDOW), WindowAggregate(WINDOW, {"n": count()}, ("k",), strategy="differential")]),
            one,
        ),
        "two stacks": (
            lambda: Chain([Bucket(WINDOW), WindowAggregate(WINDOW, PLAIN, ("k",), strategy="two_stacks")]),
            one,
        ),
        "slicing": (lambda: SlicingAggregate({"a": WINDOW}, ALL, ("k",)), one),
        "slicing vectors": (lambda: SlicingAggregate({"a": WINDOW}, PLAIN, ("k",)), one),
        "slicing without groups": (lambda: SlicingAggregate({"a": WINDOW}, PLAIN), one),
        "sessions": (lambda: SlicingAggregate(sessions, ALL, ("k",)), one),
        "sessions without groups": (lambda: SlicingAggregate(sessions, PLAIN), one),
        "stacks": (lambda: Chain([Reorder("ts", slack_time=12), StackAggregate(WINDOW, PLAIN)]), one),
        "buffer": (lambda: Chain([Bucket(WINDOW), BufferAggregate(WINDOW, ALL, ("k",))]), one),
        "adaptive": (lambda: Chain([Bucket(WINDOW), AdaptiveAggregate(WINDOW, PLAIN, ("k",))]), one),
        "group": (lambda: GroupAggregate(ALL, ("k",)), one),
        "distinct": (Distinct, one),
        "slide by rank": (lambda: SlideAggregate(SlideByRank("ts", size=6, rows=2), PLAIN, ("k",)), one),
        "slide by rows": (lambda: SlideAggregate(SlideByRows("ts", size=6, rows=2), ALL, ("k",), partition=()), one),
        "last": (lambda: LastAggregate(LAST, ALL, ("k",)), one),
        "last of a partition": (
            lambda: LastAggregate(LAST, PLAIN, ("k",), partition=()),
            one,
        ),
        "when": (lambda: PredicateAggregate(WHEN, ALL, ("k",)), one),
        "when of some": (lambda: PredicateAggregate(WHEN, PLAIN, ("k", "v"), partition=("k",)), one),
        "counted": (lambda: CountAggregate(CountWindow("ts", size=4, slide=2), ALL, ("k",)), one),
        "counted of a partition": (
            lambda: CountAggregate(CountWindow("ts", size=4, slide=2), PLAIN, ("k", "v"), partition=("k",)),
            one,
        ),
        "signed": (
            lambda: Chain([Bucket(WINDOW), Expire(), SignedAggregate(WINDOW, {**PLAIN, "least": min("v")}, ("k",))]),
            one,
        ),
        "reorder": (lambda: Reorder("ts", slack_time=9), one),
        "reorder by tuples": (lambda: Reorder("ts", slack_tuples=4), one),
        "merge": (lambda: Merge(2, "ts"), (SCHEMA, SCHEMA)),
        "largest": (lambda: Largest("v", 3, ("ts",)), one),
        "ranking": (lambda: Ranking(("v",), 3, ("ts",)), one),
        "as of": (lambda: AsOfLookup("right", ("k",), ("k",), "s", "t", {"found": "t"}), two),
        "valid from": (lambda: ValidFrom("v", "ts"), one),
        "as of, waiting": (lambda: AsOfLookup("right", ("k",), ("k",), "s", "t", {"found": "t"}, wait=True), two),
        "join": (lambda: OAJoin(Band("s", "t", left=5, right=5), (("k", "k"),)), two),
        "ordered join": (lambda: OPOBJoin(OAJoin(Band("s", "t", left=5, right=5), (("k", "k"),))), two),
        "join in order": (lambda: OPIBJoin(OAJoin(Band("s", "t", left=5, right=5), (("k", "k"),))), two),
        "outer join": (lambda: OAJoin(Band("s", "t", left=5, right=5), (("k", "k"),), kind="left"), two),
        "signed join": (lambda: SignedJoin([("k", "k")]), (SIGNED, SIGNED)),
        "refine": (
            lambda: Chain(
                [
                    SlicingAggregate(PARTS, {"n": count(), "total": sum("v")}, ("k",), named=True),
                    Fire({"w2": Part("w", 2, 6), "w6": Part("w", 6, 6)}, named=False),
                    Refine(("k",)),
                ]
            ),
            one,
        ),
        "guard": (lambda: Guard("ts", step=4), one),
        "input": (lambda: Input((Slack("ts", 12, step=3, jump=40), TupleSlack("v", 4), Ordered("ts"))), (BARE,)),
        "meld": (lambda: Meld(2), (SCHEMA, SCHEMA)),
        "number": (Number, one),
        "spread": (lambda: Spread(("v", "x"), step=5), (SPANS,)),
        "dedup": (lambda: Dedup(("v",), ("x",), reach=2, step=5, mark="twice"), (SPANS,)),
        "bills": (
            lambda: Chain(
                [
                    SlicingAggregate({"": WINDOW}, {"v": sum("v")}, ("k",)),
                    Billing("v", ("k",), slot=WINDOW, period=EdgeWindow("window_start", _next_ten)),
                ]
            ),
            one,
        ),
        "flow decoder": (Decoding, (Schema.of(ts=pa.int64(), number=pa.int64(), progress=["ts"]),)),
        "two levels": (lambda: split(WINDOW, ("k",), size=8).whole, (LEVELS,)),
    }
    return made


def script(schemas: Sequence[Schema], draw: random.Random) -> list[tuple[int, Element]]:
    """Give pages and promises for these inputs."""
    steps: list[tuple[int, Element]] = []
    for k in range(6):
        for port, schema in enumerate(schemas):
            time = schema.names[0]
            columns: dict[str, list[object]] = {}
            for field in schema.arrow:
                if field.name == time:
                    columns[field.name] = [6 * k + draw.randrange(12) for _ in range(12)]
                elif field.type == pa.string():
                    columns[field.name] = [draw.choice(["a", "b", "cé", "", None]) for _ in range(12)]
                elif field.name == "sign":
                    columns[field.name] = [draw.choice([1, 1, -1]) for _ in range(12)]
                elif field.name == "number":
                    columns[field.name] = [draw.randrange(100) for _ in range(12)]
                else:
                    columns[field.name] = [draw.choice([None, *range(-4, 5)]) for _ in range(12)]
            steps.append((port, Page.of(schema, columns)))
        for port, schema in enumerate(schemas):
            if k % 2:
                steps.append((port, before(schema.names[0], 6 * k)))
    return steps + [(port, END) for port in range(len(schemas))]


def forged_array(draw: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Give an array in which something is wrong."""
    array = array.copy()
    how = draw.randrange(8)
    if array.dtype.kind in "iu" and array.size and how < 5:
        flat, info = array.reshape(-1), np.iinfo(array.dtype)
        for _ in range(draw.choice([1, 1, 3, flat.size])):
            flat[draw.randrange(flat.size)] = draw.choice([v for v in ODD if info.min <= v <= info.max])
        return flat.reshape(array.shape)
    if array.ndim and how == 5:
        return array[: draw.randrange(len(array) + 1)].copy()
    if array.ndim and how == 6:
        return np.concatenate((array, array))
    if array.size:
        raw = bytearray(array.tobytes())
        raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        return np.frombuffer(bytes(raw), array.dtype).reshape(array.shape).copy()
    return np.full((3, *array.shape[1:]), 5, array.dtype)


def forged_cell(draw: random.Random, value: Any) -> Any:
    """Give a value of a column, or of a list or a struct in it, in which one thing is wrong."""
    if isinstance(value, list) and value:
        place, how = draw.randrange(len(value)), draw.randrange(4)
        cell = forged_cell(draw, value[place])
        return value[:place] if how == 0 else value + value if how == 1 else [*value[:place], cell, *value[place + 1 :]]
    if isinstance(value, dict):
        name = draw.choice(sorted(value))
        return {**value, name: forged_cell(draw, value[name])}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice(ODD)
    return None


def forged_batch(draw: random.Random, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch in which one cell is wrong, if its type can hold that."""
    column, row = draw.randrange(batch.num_columns), draw.randrange(len(batch))
    cells = batch.column(column).to_pylist()
    cells[row] = forged_cell(draw, cells[row])
    columns = list(batch.columns)
    try:
        columns[column] = pa.array(cells, batch.schema.field(column).type)
    except (pa.ArrowException, ValueError, OverflowError):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def forged(draw: random.Random, value: Any) -> StateValue:
    """Give a value in which something is wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw.choice([*ODD, value - 1, value + 1, 2 * value + 1])
    if isinstance(value, np.ndarray):
        return forged_array(draw, value)
    if isinstance(value, pa.RecordBatch):
        how = draw.randrange(4)
        if how == 3 and value.num_columns and len(value):
            return forged_batch(draw, value)
        if how == 0:
            return value.slice(0, draw.randrange(len(value) + 1))
        if how == 1 and value.num_columns:
            return pa.concat_batches([value, value])
        return pa.RecordBatch.from_arrays([pa.nulls(len(value), f.type) for f in value.schema], schema=value.schema)
    if isinstance(value, str):
        digits = [place for place, letter in enumerate(value) if letter.isdigit()]
        if digits and draw.randrange(2):
            place = draw.choice(digits)
            return value[:place] + str(draw.choice(ODD)) + value[place + 1 :]
        return value[: draw.randrange(len(value) + 1)]
    return value


class Enough(Exception):
    """Ends an answer that would go on and on."""


def goes_on(make: Callable[[], Operator], schemas: Sequence[Schema], state: State, rest: Sequence[Any]) -> str:
    """Restore an operator and show it the rest; tells what came of it."""
    operator = make()
    operator.output_schema(*schemas)
    try:
        restore(operator, decode_state(encode_state(state)))
    except ValueError:
        return "refused"
    answers = 0

    def emit(element: Element) -> None:
        nonlocal answers
        answers += 1
        if answers > ANSWERS:
            raise Enough

    try:
        for port, element in rest:
            if isinstance(element, Page):
                operator.process(element, emit, port)
            else:
                operator.punctuate(element, emit, port)
        operator.state()
    except Exception as error:
        return f"failed: {type(error).__name__}"
    return "answered"


def interrupt(*_: object) -> None:
    raise Enough


def main(seeds: Sequence[int], tries: int, names: Sequence[str] = ()) -> dict[str, int]:
    """Try forgeries of each operator; gives how often what came of it."""
    outcomes: dict[str, int] = {}
    signal.signal(signal.SIGALRM, interrupt)
    for name, (make, schemas) in zoo().items():
        if names and name not in names:
            continue
        for seed in seeds:
            draw = random.Random(f"{name} {seed}")
            steps = script(schemas, draw)
            cut = draw.randrange(len(steps) // 2, len(steps) - len(schemas))
            operator = make()
            operator.output_schema(*schemas)
            for port, element in steps[:cut]:
                take = operator.process if isinstance(element, Page) else operator.punctuate
                take(element, lambda out: None, port)  # type: ignore[arg-type]
            whole = operator.state()
            assert goes_on(make, schemas, whole, steps[cut:]) == "answered", name
            for number in range(tries):
                state = dict(whole)
                changed = draw.sample(sorted(state), 1 if number % 4 else 2 if len(state) > 1 else 1)
                for entry in changed:
                    state[entry] = forged(draw, state[entry])
                print(name, seed, number, changed, flush=True)
                # What loops in Python is interrupted; what loops in a kernel is not, and ends the process.
                signal.setitimer(signal.ITIMER_REAL, 5)
                faulthandler.dump_traceback_later(60, exit=True)
                try:
                    what = goes_on(make, schemas, state, steps[cut:])
                except Enough:
                    what = "interrupted"
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    faulthandler.cancel_dump_traceback_later()
                outcomes[what] = outcomes.get(what, 0) + 1
    print(outcomes)
    return outcomes


if __name__ == "__main__":
    faulthandler.enable()
    main(range(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3:])
