"""Filter keeps the tuples for which a predicate is true; what was promised of all tuples is true of some of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.page import Bools, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Bound, Expression
from operators.overflow import Overflow
from operators.plan_facts import Attributes
from operators.protocol import Emit, Promises
from operators.retractions import Retracted, Retracting, passed_on, stands
from punctuation import Punctuation


@attrs.define(eq=False)
class Filter(memory.Stateful):
    """Pass on the tuples that satisfy a predicate; null is not true (SQL).

    Pass: a tuple at once. Keep: nothing. Propagate: every promise as it is.
    Cost: the predicate's, O(1) a tuple; no state. Source: thesis 8.2, Select.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> page = Page.of(Schema.of(length=pa.int64()), {"length": [40, None, 1500]})
    >>> rows(drive(Filter(Column("length") > 100), [page]))
    [{'length': 1500}]
    """

    predicate: Expression = attrs.field(validator=attrs.validators.instance_of(Expression))
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _fitted: tuple[Schema, Bound] | None = attrs.field(init=False, default=None)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        self._fit(schema)
        return schema

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        if found is None or stands(self.predicate, found, inputs[0]):
            return None
        return passed_on(self, found, inputs)

    def carrying(self, name: str) -> Filter:
        return self

    def passes_where(self) -> Expression:
        return self.predicate

    def same_as(self, other: object) -> bool:
        return isinstance(other, Filter) and self.predicate.equals(other.predicate)

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted | self.predicate.reads(inputs[0], where="plan")]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        chosen = self.overflow.evaluated(self._fit(page.schema), page)
        true = chosen.true_count
        if true == len(page):
            if true:
                emit(page)
        elif true:
            emit(page.select(chosen))

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        chosen = self.overflow.evaluated(self._fit(page.schema), page)
        if chosen.true_count < len(page):
            stops = promises.positions.tolist()
            pieces = [chosen.slice(start, stop - start) for start, stop in zip([0, *stops], stops, strict=False)]
            kept = np.cumsum([piece.true_count for piece in pieces], dtype=np.int64)
            promises = attrs.evolve(promises, positions=kept)
            page = page.select(chosen)
        promises.hand_on(page, emit)

    def mask(self, page: Page) -> Bools:
        """Return which tuples satisfy the predicate; nothing is counted."""
        chosen = Overflow().evaluated(self._fit(page.schema), page)
        return pc.fill_null(chosen, False).to_numpy(zero_copy_only=False)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        emit(punctuation)

    def _fit(self, schema: Schema) -> Bound:
        if self._fitted is None or not self._fitted[0].arrow.equals(schema.arrow, check_metadata=True):
            bound = self.predicate.bind(schema)
            if not pa.types.is_boolean(bound.type):
                raise SchemaError(
                    f"filter({self.predicate}): this is of type {bound.type}, a filter takes a truth value.\n"
                    "  Compare it with something, e.g. length > 100."
                )
            self._fitted = (schema, bound)
        return self._fitted[1]
