"""Meld is the union that never waits: tuples pass at once, promises when every input has made them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema, is_ip
from operators.errors import SchemaError
from operators.plan_facts import Attributes
from operators.protocol import Emit
from punctuation import Meet, Punctuation


def united(inputs: tuple[Schema, ...], ports: int, where: str) -> Schema:
    """Return the schema of a union; SchemaError naming the input, the attribute and both types when they differ."""
    if len(inputs) != ports:
        raise SchemaError(f"{where} of {ports} inputs was given {len(inputs)}.")
    first = inputs[0]
    for port, schema in enumerate(inputs[1:], 1):
        if schema.names != first.names:
            raise SchemaError(
                f"{where}: input {port} has other attributes than input 0.\n"
                f"  input 0: {', '.join(first.names)}\n  input {port}: {', '.join(schema.names)}\n"
                "  Project them to the same attributes in the same order first."
            )
        for mine, its in zip(first.arrow, schema.arrow, strict=True):
            if mine.type != its.type or is_ip(mine) != is_ip(its):
                raise SchemaError(
                    f'{where}: attribute "{mine.name}" is {_kind(mine)} in input 0 and {_kind(its)} in input {port}.\n'
                    "  Give both the same type first."
                )
    return Schema(first.arrow, progress=frozenset.intersection(*(schema.progress for schema in inputs)))


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


def _kind(field: pa.Field) -> str:
    return "an IP address" if is_ip(field) else str(field.type)
