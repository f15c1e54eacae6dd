"""Operators in a row are an operator: what the first emits, the next takes, in one call and without a queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from operators.data.page import Page
from operators.data.schema import Schema
from operators.drive import deliver
from operators.plan_facts import Together, together
from operators.protocol import Element, Emit, LetsGo, Measured, Operator, State, StateValue
from operators.retractions import Retracted, Retracting, retracted
from punctuation import Punctuation


@attrs.define
class Chain:
    """Fuse one-input operators behind a first one; passes, keeps and propagates what they do.

    >>> from operators.drive import drive
    >>> from operators.rows.number import Number
    >>> import pyarrow as pa
    >>> page = Page.of(Schema.of(x=pa.int64()), {"x": [5]})
    >>> [str(e) for e in drive(Chain([Number("a"), Number("b")]), [page])[1:]]
    ['[a < 1]', '[b < 1]']
    """

    operators: list[Operator] = attrs.field(converter=list)

    @property
    def inputs(self) -> int:
        return self.operators[0].inputs

    def output_schema(self, *inputs: Schema) -> Schema:
        schema = self.operators[0].output_schema(*inputs)
        for operator in self.operators[1:]:
            schema = operator.output_schema(schema)
        return schema

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        for operator in self.operators:
            answer = retracted(operator, found, inputs)
            if isinstance(answer, str):
                return answer
            found, inputs = answer, (operator.output_schema(*inputs),)
        return found

    def together(self, *inputs: Schema) -> Together:
        first, *others = self.operators
        return Together.in_order(self) if others else together(first, inputs)

    def links(self) -> Sequence[Operator]:
        return self.operators

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        self._give(0, page, emit, port)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        self._give(0, punctuation, emit, port)

    def let_go(self, emit: Emit) -> None:
        """Have each link that holds back what it need not hand it on, the first one first."""
        for place, operator in enumerate(self.operators):
            if isinstance(operator, LetsGo):
                operator.let_go(lambda element, after=place + 1: self._give(after, element, emit))

    def _give(self, place: int, element: Element, emit: Emit, port: int = 0) -> None:
        if place == len(self.operators):
            emit(element)
            return
        deliver(self.operators[place], element, lambda e: self._give(place + 1, e, emit), port)

    def statistics(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for operator in self.operators:
            if isinstance(operator, Measured):
                for name, value in operator.statistics().items():
                    total[name] = total.get(name, 0) + value
        return total

    def state(self) -> State:
        return {f"{i}/{name}": value for i, o in enumerate(self.operators) for name, value in o.state().items()}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        for i, operator in enumerate(self.operators):
            prefix = f"{i}/"
            operator.restore({n[len(prefix) :]: v for n, v in state.items() if n.startswith(prefix)})
