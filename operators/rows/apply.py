"""Apply adds computed attributes to every tuple and keeps all that was there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Column, Expression
from operators.expression.images import Images
from operators.overflow import Overflow
from operators.pace import Paces
from operators.plan_facts import Attributes
from operators.protocol import Emit, Promises
from operators.rows.project import Fitted, computed_from, image_paces, named_expressions, same_columns
from punctuation import Punctuation


@attrs.define(eq=False)
class Apply(memory.Stateful):
    """Append computed attributes to each tuple.

    Pass: a tuple at once. Keep: nothing. Propagate: every promise as it is; a linear promise also on a rising function
    of its attribute (x + c, x - c, x * c, x // c with c > 0).
    Cost: the expressions', O(1) a tuple; no state. Source: thesis 8.2, Apply.

    >>> import pyarrow as pa
    >>> from operators.drive import drive, punctuations, rows
    >>> from punctuation import before
    >>> schema = Schema.of(ts=pa.int64(), progress=["ts"])
    >>> found = drive(Apply({"late": Column("ts") + 5}), [Page.of(schema, {"ts": [7]}), before("ts", 7)])
    >>> rows(found), [str(p) for p in punctuations(found)]
    ([{'ts': 7, 'late': 12}], ['[ts < 7]', '[late < 12]'])
    """

    columns: Mapping[str, Expression] = attrs.field(converter=named_expressions)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _fitted: tuple[Fitted, Mapping[str, Expression]] | None = attrs.field(init=False, default=None)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)[0].output

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        (schema,) = inputs
        expression = self.columns.get(name)
        if expression is None:
            return name
        return schema.resolve(expression.name, where="apply") if isinstance(expression, Column) else None

    def computed(self, name: str) -> Expression | None:
        return self.columns.get(name)

    def carrying(self, name: str) -> Apply:
        return self

    def same_as(self, other: object) -> bool:
        return isinstance(other, Apply) and same_columns(self.columns, other.columns)

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        expression = self.columns.get(name)
        return name if expression is None else expression.bind(inputs[0]).attribute

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted - frozenset(self.columns) | computed_from(self.columns, inputs[0])]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [image_paces(self.columns, wanted, inputs[0])]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted, columns = self._fit(page.schema)
        if len(page):
            emit(fitted.page(page, columns, self.overflow))

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        fitted, columns = self._fit(page.schema)
        fitted.images.hand_on(fitted.page(page, columns, self.overflow), promises, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if self._fitted is None:
            emit(punctuation)
            return
        images: Images = self._fitted[0].images
        for promise in images.promises(punctuation):
            emit(promise)

    def _fit(self, schema: Schema) -> tuple[Fitted, Mapping[str, Expression]]:
        if self._fitted is None or not self._fitted[0].schema.arrow.equals(schema.arrow, check_metadata=True):
            for name in self.columns:
                if name in schema:
                    raise SchemaError(
                        f'apply({name}={self.columns[name]}): the input already has an attribute "{name}".\n'
                        f"  input: {', '.join(schema.names)}\n  Choose another name, or replace it with project."
                    )
            columns = {**{name: Column(name) for name in schema.names}, **self.columns}
            self._fitted = (Fitted.to(schema, columns), columns)
        return self._fitted
