"""Number counts the tuples of a stream as they arrive, and promises that it never counts back."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import ROW_NUM, Schema
from operators.errors import SchemaError
from operators.plan_facts import Attributes, Passage
from operators.protocol import Emit
from operators.retractions import Retracted, Retracting
from punctuation import Punctuation, before


@attrs.define(eq=False)
class Number(memory.Stateful):
    """Append the arrival number of each tuple, from 0; at the source it is the system's, elsewhere the operator's.

    Pass: a tuple at once. Keep: the next number. Propagate: every promise; after a page that reached number n also
    `[row_num < n + 1]`.
    Cost: O(1) a tuple. Defined by arrival order, so laws 4 and 6 do not hold. Source: thesis 5.1.2 and 6.1.3.2.

    >>> from operators.drive import drive
    >>> page, promise = drive(Number(), [Page.of(Schema.of(x=pa.int64()), {"x": [7, 7]})])
    >>> page.plain_rows(), str(promise)
    ([{'x': 7, 'row_num': 0}, {'x': 7, 'row_num': 1}], '[row_num < 2]')
    """

    name: str = ROW_NUM
    _next: int = attrs.field(init=False, default=0, metadata=memory.integer(most=1 << 62))
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        # What is taken back would have another number than what was given.
        return "refused" if found is not None and found.settles is not None else found

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)

    def carrying(self, name: str) -> Number:
        return self

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted - {self.name}]

    def passage(self, attribute: str | None) -> Passage:
        return Passage(attribute, numbers=frozenset((self.name,)))

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        schema = self._fit(page.schema)
        if not len(page):
            return
        numbers = pa.array(np.arange(self._next, self._next + len(page), dtype=np.int64))
        self._next += len(page)
        emit(Page(schema, pa.RecordBatch.from_arrays([*page.batch.columns, numbers], schema=schema.arrow)))
        emit(before(self.name, self._next))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def _fit(self, schema: Schema) -> Schema:
        if self._fitted is None or self._fitted[0] is not schema:
            if self.name in schema:
                raise SchemaError(
                    f'number: the input already has an attribute "{self.name}".\n'
                    f'  input: {", ".join(schema.names)}\n  Choose another name, e.g. Number("arrival").'
                )
            arrow = schema.arrow.append(pa.field(self.name, pa.int64(), nullable=False))
            self._fitted = (schema, Schema(arrow, progress=[*schema.progress, {self.name}]))
        return self._fitted[1]
