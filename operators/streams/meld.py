"""Meld is the union that never waits: tuples pass at once, promises when every input has made them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.plan_facts import Attributes, InOrder
from operators.protocol import Emit
from operators.streams.union import united
from punctuation import Meet, Punctuation


@attrs.define(eq=False)
class Meld(memory.Stateful):
    """Unite n inputs of one schema.

    Pass: a tuple at once. Keep: what each input has promised, no tuple. Propagate: a promise, linear, group-wise or
    general, once every input has made it (an ended input promises everything); none that is already implied.
    Cost: O(1) a page; a promise O(inputs + groups ahead). Source: thesis Fig 8-2; docs/semantics.md row 37.

    >>> from operators.drive import drive
    >>> from punctuation import before
    >>> [str(p) for p in drive(Meld(2), [(0, before("ts", 9)), (1, before("ts", 4)), (1, before("ts", 7))])]
    ['[ts < 4]', '[ts < 7]']
    """

    ports: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(1)])
    _meet: Meet = attrs.field(init=False, metadata=memory.meet(name=""))
    _schema: Schema | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._meet = Meet(self.ports)

    @property
    def inputs(self) -> int:
        return self.ports

    def output_schema(self, *inputs: Schema) -> Schema:
        self._schema = united(inputs, self.ports, "meld")
        return self._schema

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted] * self.ports

    def carrying(self, name: str) -> Meld:
        return attrs.evolve(self)

    def in_order(self, wanted: str | None, buffer: str, *inputs: Schema) -> InOrder | None:
        if wanted is None or not self.output_schema(*inputs).progressing(wanted):
            return None
        label = f"merge of {self.ports} by {wanted}"
        # Start-up: few plans are run in order.
        from operators.streams.merge import Merge

        return InOrder(Merge(self.ports, wanted), (wanted,) * self.ports, wanted, label)

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if not len(page):
            return
        schema = self._schema
        if schema is not None and page.schema is not schema:
            page = Page(schema, pa.RecordBatch.from_arrays(page.batch.columns, schema=schema.arrow))
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        for promise in self._meet.advance(port, punctuation):
            emit(promise)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": 0, "stale": sum(self._meet.port(i).stale for i in range(self.ports))}
