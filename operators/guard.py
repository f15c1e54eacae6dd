"""A guard keeps late tuples from an operator that relies on what was promised, while others still count them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from operators.page import Page
from operators.protocol import Emit, State, StateValue
from operators.saved import read_int, read_text
from operators.schema import Schema
from punctuation import Progress, Punctuation
from punctuation.plain import dump_progress, read_progress


@attrs.define(eq=False)
class Guard:
    """Leave out the tuples whose attribute is below what was promised of it.

    Pass: every other tuple at once, and those without a value. Keep: the promise. Propagate: every promise. Late tuples
    are left out and counted. Cost: one comparison a tuple. Source: thesis 6.1.5.2; semantics, "in force everywhere".

    >>> from operators.drive import drive
    >>> import pyarrow as pa
    >>> from punctuation import before
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3]})
    >>> drive(Guard("ts"), [before("ts", 5), page])[1].rows()
    [{'ts': 7}]
    """

    attribute: str
    _progress: Progress = attrs.field(init=False, factory=Progress)
    _late: int = attrs.field(init=False, default=0)

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        schema.field(self.attribute, where="guard")
        return schema

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        bound = self._progress.bound(self.attribute)
        if isinstance(bound, int) and len(page):
            late = page.ticks(self.attribute) < bound
            if (valid := page.valid(self.attribute)) is not None:
                late &= valid
            if late.any():
                self._late += int(np.count_nonzero(late))
                page = page.select(~late)
        if len(page):
            emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.bound(self.attribute) is not None:
            self._progress.advance(punctuation)
        emit(punctuation)

    def statistics(self) -> dict[str, int]:
        return {"late": self._late, "state_tuples": 0}

    def state(self) -> State:
        return {"late": self._late, "progress": dump_progress(self._progress)}

    def restore(self, state: Mapping[str, StateValue]) -> None:
        self._late, self._progress = read_int(state, "late"), read_progress(read_text(state, "progress"))
