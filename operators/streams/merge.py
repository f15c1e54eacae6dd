"""Merge is the union that enforces order: it holds tuples until no input can bring an earlier one.

It is here for comparison with Meld; its state grows with the skew between its inputs (thesis Fig 8-8).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.pace import Paces, finely
from operators.protocol import Emit
from operators.retractions import as_it_is
from operators.streams.sort_buffer import Held, orderable
from operators.streams.union import united
from punctuation import END, Meet, Punctuation, whole


@attrs.define(eq=False)
class Merge(memory.Stateful):
    """Unite n inputs of one schema in the order of an attribute, ties by port and then by arrival.

    Nothing is assumed of the order within an input, only its promises count, so disordered inputs are right too.
    Pass: the tuples below the bound that every input has promised, in order; a tuple without the attribute at once,
    it has no place in the order. Keep: the others. Propagate: what every input promised, when no held tuple matches.
    Cost: O(log n) a tuple; a promise other than on the attribute O(tuples held). State: the skew between the inputs.
    Source: thesis 8.2 and 8.3, the order-preserving union of IOP.

    >>> from operators.drive import drive, rows
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64())
    >>> one, other = Page.of(schema, {"ts": [5, 3]}), Page.of(schema, {"ts": [4]})
    >>> rows(drive(Merge(2, "ts"), [(0, one), (0, before("ts", 9)), (1, other), (1, before("ts", 5))]))
    [{'ts': 3}, {'ts': 4}]
    """

    ports: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)])
    attribute: str
    _on: str = attrs.field(init=False)
    """The attribute by its own name, which `output_schema` finds where it was given by another."""
    _meet: Meet = attrs.field(init=False, metadata=memory.meet(name=""))
    _held: Held = attrs.field(init=False, factory=Held, metadata=memory.part())
    _schema: Schema | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._on = self.attribute
        self._meet = Meet(self.ports)

    retracted = as_it_is

    @property
    def inputs(self) -> int:
        return self.ports

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = united(inputs, self.ports, f"merge(by={self.attribute})")
        self._on = orderable(schema, self.attribute, "merge")
        self._schema = schema
        return schema

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return name if name == self.order_wanted(*inputs) else None

    def order_wanted(self, *inputs: Schema) -> str | None:
        return inputs[0].resolve(self.attribute, where="plan")

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        name = inputs[0].resolve(self.attribute, where="plan")
        return [wanted | {name: finely(schema, name, 10)} for schema in inputs]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema = self._schema
        if schema is not None and page.schema is not schema:
            page = Page(schema, pa.RecordBatch.from_arrays(page.batch.columns, schema=schema.arrow))
        valid = page.valid(self._on)
        if valid is not None:
            emit(page.select(~valid))
            page = page.select(valid)
        self._held.add(page, page.ticks(self._on), port=port)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        for promise in self._meet.advance(port, punctuation):
            bound = whole(promise.bound(self._on))
            if promise.is_end or bound is not None:
                released = self._held.release(bound)
                if released is not None:
                    emit(released)
            if promise.is_end:
                self._held.clear()
                emit(END)
                continue
            if bound is not None:
                for waited in self._held.ready(bound):
                    emit(waited)
                emit(promise)
            elif not self._held.delay(promise):
                emit(promise)

    def __len__(self) -> int:
        """Return how many tuples are held."""
        return self._held.tuples

    def statistics(self) -> dict[str, int]:
        held = self._held
        return {"state_tuples": held.tuples, "state_bytes": held.nbytes, "peak_state_tuples": held.peak}
