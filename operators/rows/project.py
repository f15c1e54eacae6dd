"""Project computes each output tuple from one input tuple, and keeps every promise that can still be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.expression import Bound, Column, Expression, Opaque, as_expression
from operators.expression.images import Images
from operators.overflow import Overflow
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes
from operators.protocol import Emit, Promises
from punctuation import Punctuation


def named_expressions(columns: Mapping[str, Expression]) -> dict[str, Expression]:
    """Check new names and their expressions, a plain value standing for a constant; ValueError when there is none."""
    if not columns:
        raise ValueError('an output needs at least one attribute; name one, e.g. {"srcIP": Column("srcIP")}')
    return {name: as_expression(value) for name, value in columns.items()}


def same_columns(columns: Mapping[str, Expression], others: Mapping[str, Expression]) -> bool:
    """Return whether names and their expressions are the same, in the same order."""
    return list(columns) == list(others) and all(e.equals(others[name]) for name, e in columns.items())


def computed_from(columns: Mapping[str, Expression], schema: Schema) -> Attributes:
    """Name the attributes that expressions read."""
    return frozenset(name for expression in columns.values() for name in expression.reads(schema, where="plan"))


def image_paces(columns: Mapping[str, Expression], wanted: Paces, schema: Schema) -> Paces:
    """Ask for the promises on what is computed as promises on what it is computed from."""
    paces: Paces = {}
    for name, pace in wanted.items():
        expression = columns.get(name)
        if expression is None:
            want(paces, name, pace)
        elif isinstance(expression, Column):
            want(paces, schema.resolve(expression.name, where="plan"), pace)
        elif not isinstance(expression, Opaque):
            for read in expression.reads(schema, where="plan"):
                want(paces, read, Pace(None, optional=pace.optional))
    return paces


@attrs.frozen(eq=False)
class Fitted:
    """A projection that was checked against one input schema."""

    schema: Schema
    output: Schema
    bound: Mapping[str, Bound]
    images: Images

    @classmethod
    def to(cls, schema: Schema, columns: Mapping[str, Expression]) -> Fitted:
        """Bind every expression and say what the output looks like."""
        bound = {name: expression.bind(schema) for name, expression in columns.items()}
        fields: list[pa.Field] = []
        for name, expression in columns.items():
            field = bound[name].field
            if isinstance(expression, Column):
                field = schema.arrow.field(field.name)
            fields.append(field.with_name(name))
        images = Images.of(columns, bound)
        return cls(schema, Schema(pa.schema(fields), progress=images.progress(schema.progress)), bound, images)

    def page(self, page: Page, columns: Mapping[str, Expression], overflow: Overflow) -> Page:
        """Compute a page; an attribute that is merely kept is not copied."""
        arrays = [
            page.column(bound.field.name) if isinstance(columns[name], Column) else overflow.evaluated(bound, page)
            for name, bound in self.bound.items()
        ]
        return Page(self.output, pa.RecordBatch.from_arrays(arrays, schema=self.output.arrow))


@attrs.define(eq=False)
class Project(memory.Stateful):
    """Project each tuple to new attributes, in order: kept, renamed, or computed.

    Pass: a tuple at once. Keep: nothing. Propagate: a promise on kept attributes, under each of their names; a linear
    promise also on a rising function of its attribute (x + c, x - c, x * c, x // c with c > 0); no other: without a
    lost attribute it would claim more than was promised.
    Cost: the expressions', O(1) a tuple; no state. Source: thesis 8.2, Project.

    >>> from operators.drive import drive
    >>> from punctuation import before
    >>> schema = Schema.of(x=pa.int64(), progress=["x"])
    >>> ten = Project({"y": Column("x") // 10})
    >>> page, promise = drive(ten, [Page.of(schema, {"x": [31]}), before("x", 25)])
    >>> page.plain_rows(), str(promise)
    ([{'y': 3}], '[y < 2]')
    """

    columns: Mapping[str, Expression] = attrs.field(converter=named_expressions)
    overflow: Overflow = attrs.field(init=False, factory=Overflow, eq=False)
    _fitted: Fitted | None = attrs.field(init=False, default=None)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema).output

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        (schema,) = inputs
        expression = self.columns[name]
        return schema.resolve(expression.name, where="project") if isinstance(expression, Column) else None

    def computed(self, name: str) -> Expression | None:
        return self.columns.get(name)

    def carrying(self, name: str) -> Project:
        return Project({**self.columns, name: Column(name)})

    def same_as(self, other: object) -> bool:
        return isinstance(other, Project) and same_columns(self.columns, other.columns)

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        expression = self.columns.get(name)
        return None if expression is None else expression.bind(inputs[0]).attribute

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [computed_from(self.columns, inputs[0])]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [image_paces(self.columns, wanted, inputs[0])]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted = self._fit(page.schema)
        if len(page):
            emit(fitted.page(page, self.columns, self.overflow))

    def process_with(self, page: Page, promises: Promises, emit: Emit, port: int = 0) -> None:
        fitted = self._fit(page.schema)
        fitted.images.hand_on(fitted.page(page, self.columns, self.overflow), promises, emit)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        images = Images.of(self.columns, {}) if self._fitted is None else self._fitted.images
        for promise in images.promises(punctuation):
            emit(promise)

    def _fit(self, schema: Schema) -> Fitted:
        if self._fitted is None or not self._fitted.schema.arrow.equals(schema.arrow, check_metadata=True):
            self._fitted = Fitted.to(schema, self.columns)
        return self._fitted
