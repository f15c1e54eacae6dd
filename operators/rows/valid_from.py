"""Rows that are valid from a time of their own become a table that changes, which progresses as their stream does."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema, type_name
from operators.errors import SchemaError
from operators.kernels.ticks import BEFORE_ALL
from operators.pace import Pace, Paces, want
from operators.plan_facts import Attributes
from operators.protocol import Emit
from punctuation import END, Progress, Punctuation, before


@attrs.define(eq=False)
class ValidFrom(memory.Stateful):
    """Promise the time `since` which rows are valid by what the stream has promised of `at`.

    A row that would be valid since a time that is promised already is valid from the promise on: what came before it is
    decided. A row without a time was always valid, as long as nothing is promised.

    Pass: a row at once. Keep: the promise. Propagate: a promise on `at`, as one on `since`; no other.
    Cost: one comparison a row.

    >>> from operators.drive import drive, rows
    >>> schema = Schema.of(ts=pa.int64(), since=pa.int64(), progress=["ts"])
    >>> page = Page.of(schema, {"ts": [None, None], "since": [3, 9]})
    >>> promise, table = drive(ValidFrom("since", "ts"), [before("ts", 5), page])
    >>> str(promise), [row["since"] for row in table.plain_rows()]
    ('[since < 5]', [5, 9])
    """

    since: str
    at: str
    _progress: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _made: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        since, at = schema.field(self.since, where="valid from"), schema.field(self.at, where="valid from")
        if since.type != at.type:
            raise SchemaError(
                f'"{since.name}" is of type {type_name(since)}, and "{at.name}" of {type_name(at)}; a table that'
                f" changes has both in one unit.\n  Write cast({since.name}, '{at.type}')."
            )
        return Schema(schema.arrow, progress=[self.since] if schema.progressing(self.at) else [])

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Attributes]:
        return [wanted | {self.since, self.at}]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        paces: Paces = {}
        want(paces, self.at, wanted.get(self.since, Pace(None, optional=True)))
        return [paces]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if not len(page):
            return
        bound = self._progress.bound(self.at)
        if not isinstance(bound, int):
            emit(page)
            return
        times, timed = page.timed(self.since)
        early = times < bound if timed is None else (times < bound) | ~timed
        if early.any():
            place = page.batch.schema.get_field_index(self.since)
            field = page.batch.schema.field(place)
            since = pa.array(np.where(early, bound, times), pa.int64()).view(field.type)
            page = Page(page.schema, page.batch.set_column(place, field, since))
        emit(page)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if not self._progress.advance(punctuation):
            return
        if self._progress.ended:
            if not self._made.ended:
                self._made.advance(END)
                emit(END)
            return
        bound = self._progress.bound(self.at)
        if isinstance(bound, int) and bound > BEFORE_ALL:
            promise = before(self.since, bound, assumed=punctuation.assumed)
            if self._made.advance(promise):
                emit(promise)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": 0}
