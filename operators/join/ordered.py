"""The joins of in-order engines: the pairs of OA-Join in the order of the left time, at the price of buffers.

They are here to be measured against it (thesis 7.3): OPOB-Join sorts what a join gives, OPIB-Join what it takes. An
engine that needs order has Merge or Reorder in front of them; they assume none, and do without.
"""

from __future__ import annotations

import attrs

from operators.data import memory
from operators.data.page import ROWS, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.join.oa import OAJoin
from operators.kernels.ticks import BEFORE_ALL, FOREVER, LIMIT
from operators.protocol import Emit
from operators.retractions import refused
from operators.streams.merge import Merge
from operators.streams.sort_buffer import Held
from punctuation import END, Punctuation, before, whole


@attrs.define(eq=False)
class OPOBJoin(memory.Stateful):
    """Join, and hold the pairs back until they can leave in the order of the left time.

    Pass: pairs below what the join promises of the left time, in order. Keep: what the join keeps, and the pairs above.
    Propagate: `[left time < v]` alone. Cost: the join's, and O(log n) a pair. State: all pairs of a band's length.
    Source: thesis 7.3, order-preserving output-buffered join.

    >>> import pyarrow as pa
    >>> from operators.drive import drive, rows
    >>> from operators.join.window import Band
    >>> schema = Schema.of(ts=pa.int64(), progress=["ts"])
    >>> join = OPOBJoin(OAJoin(Band("ts", "ts", left=5, right=5)))
    >>> output = join.output_schema(schema, schema)
    >>> one, other = Page.of(schema, {"ts": [7, 5]}), Page.of(schema, {"ts": [9]})
    >>> rows(drive(join, [(0, one), (1, other), (0, before("ts", 8)), (1, before("ts", 12))]))
    [{'ts': 5, 'right_ts': 9}, {'ts': 7, 'right_ts': 9}]
    """

    join: OAJoin = attrs.field(metadata=memory.part())
    _sort: Merge = attrs.field(init=False, factory=lambda: Merge(1, ""), metadata=memory.part())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())

    def __attrs_post_init__(self) -> None:
        self.join = attrs.evolve(self.join, promises="individual")

    retracted = refused

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self.join.output_schema(*inputs)
        time = inputs[0].resolve(self.join.window.attributes[0], where="join")
        if time not in schema:
            raise SchemaError(
                f'join: results cannot be put in the order of "{time}", which is left out.\n'
                f'  Add "{time}" to `attributes`.'
            )
        self._sort.attribute = time
        kept = [promise for promise in schema.progress if promise == frozenset((time,))]
        return self._sort.output_schema(schema.with_progress(kept))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self.join.process(page, lambda element: self._take(element, emit), port)
        self._peak = max(self._peak, len(self.join) + len(self._sort))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self.join.punctuate(punctuation, lambda element: self._take(element, emit), port)

    def statistics(self) -> dict[str, int]:
        join, held = self.join.statistics(), self._sort.statistics()
        return {
            **join,
            "state_tuples": join["state_tuples"] + held["state_tuples"],
            "state_bytes": join.get("state_bytes", 0) + held["state_bytes"],
            "buffered": held["state_tuples"],
            "peak_state_tuples": self._peak,
        }

    def _take(self, element: Page | Punctuation, emit: Emit) -> None:
        if isinstance(element, Page):
            self._sort.process(element, emit)
            self._peak = max(self._peak, len(self.join) + len(self._sort))
        elif element.is_end or element.bound(self._sort.attribute) is not None:
            self._sort.punctuate(element, emit)


@attrs.define(eq=False)
class OPIBJoin(memory.Stateful):
    """Hold left tuples back until all their partners are there, and join them in the order of their time.

    Pass: the pairs of a left tuple below what both inputs allow, in order. Keep: the left tuples above, and the right
    tuples until the left ones that may meet them have been joined. Propagate: what the join promises then; promises on
    other attributes are not used. Cost: the join's, and O(log n) a left tuple. Source: thesis 7.3, order-preserving
    input-buffered join.

    >>> import pyarrow as pa
    >>> from operators.drive import drive, rows
    >>> from operators.join.window import Band
    >>> schema = Schema.of(ts=pa.int64(), progress=["ts"])
    >>> join = OPIBJoin(OAJoin(Band("ts", "ts", left=5, right=5)))
    >>> output = join.output_schema(schema, schema)
    >>> one, other = Page.of(schema, {"ts": [7, 5]}), Page.of(schema, {"ts": [9]})
    >>> rows(drive(join, [(0, one), (1, other), (0, before("ts", 8)), (1, before("ts", 12))]))
    [{'ts': 5, 'right_ts': 9}, {'ts': 7, 'right_ts': 9}]
    """

    join: OAJoin = attrs.field(metadata=memory.part())
    _held: Held = attrs.field(init=False, factory=Held, metadata=memory.part())
    _times: tuple[str, str] = attrs.field(init=False, default=("", ""))
    _bounds: list[int] = attrs.field(init=False, factory=lambda: [BEFORE_ALL, BEFORE_ALL], metadata=memory.numbers())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())

    def __attrs_post_init__(self) -> None:
        if self.join.kind != "inner":
            raise ValueError(f'OPIB-Join gives pairs alone; kind="{self.join.kind}" is for OAJoin and OPOBJoin')
        self.join = attrs.evolve(self.join, patience=0, in_order=True)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self.join.output_schema(*inputs)
        left, right = self.join.window.attributes
        self._times = inputs[0].resolve(left, where="join"), inputs[1].resolve(right, where="join")
        times = [
            s.with_progress([p for p in s.progress if p == frozenset((t,))])
            for s, t in zip(inputs, self._times, strict=True)
        ]
        return Schema(schema.arrow, progress=attrs.evolve(self.join).output_schema(*times).progress)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if port == 0:
            valid = page.valid(self._times[0])
            if valid is not None:
                # What has no time waits for nothing, and has no partner; the join counts it.
                self.join.process(page.select(~valid), emit, 0)
                page = page.select(valid)
            self._held.add(page, page.ticks(self._times[0]))
        else:
            self.join.process(page, emit, port)
        self._peak = max(self._peak, len(self.join) + self._held.tuples)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = FOREVER if punctuation.is_end else whole(punctuation.bound(self._times[port]))
        if bound is None or bound <= self._bounds[port]:
            return
        self._bounds[port] = bound
        joined = min(self._bounds[0], self._all_there(self._bounds[1]))
        released = self._held.release(None if joined == FOREVER else joined)
        if port == 1:
            self.join.punctuate(punctuation, emit, 1)
        if released is not None:
            for start in range(0, len(released), ROWS):
                self.join.process(released.slice(start, min(start + ROWS, len(released))), emit, 0)
        if joined == FOREVER:
            self.join.punctuate(END, emit, 0)
        elif joined > BEFORE_ALL:
            self.join.punctuate(before(self._times[0], joined, assumed=punctuation.assumed), emit, 0)

    def statistics(self) -> dict[str, int]:
        join = self.join.statistics()
        return {
            **join,
            "state_tuples": join["state_tuples"] + self._held.tuples,
            "state_bytes": join.get("state_bytes", 0) + self._held.nbytes,
            "buffered": self._held.tuples,
            "peak_state_tuples": self._peak,
        }

    def _all_there(self, bound: int) -> int:
        """Return the bound below which a left tuple's partners have all come."""
        if bound in (BEFORE_ALL, FOREVER):
            return bound
        return self.join.window.settled(max(-2 * LIMIT, min(bound, 2 * LIMIT)), 0)
