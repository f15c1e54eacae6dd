"""Distinct passes on each combination of values once, at first arrival, and forgets it when it cannot come again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.expiry import Expiry
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Page
from operators.data.schema import Schema
from operators.data.steps import in_steps
from operators.pace import Paces, group_promises
from operators.plan_facts import Attributes, Together
from operators.protocol import Emit
from operators.retractions import refused
from punctuation import Punctuation, whole


@attrs.define(eq=False)
class Distinct(memory.Stateful):
    """Emit every combination of some attributes (of all, when none is named) once; the output has only these.

    Pass: a combination when it first arrives. Keep: the combinations that may arrive again; one that a promise on these
    attributes matches is dropped with that promise. Propagate: the promises on these attributes alone.
    Cost: O(1) a tuple; a linear promise on what counts in steps O(combinations dropped), any other promise
    O(combinations held). Null equals null here. Source: thesis 8.2, DupElim.

    >>> from operators.drive import drive
    >>> from punctuation import before
    >>> page = Page.of(Schema.of(ts=pa.int64(), x=pa.int64()), {"ts": [1, 1, 2], "x": [8, 9, 8]})
    >>> distinct = Distinct(("ts",))
    >>> found, promise = drive(distinct, [page, before("ts", 2)])
    >>> found.plain_rows(), str(promise), len(distinct)
    ([{'ts': 1}, {'ts': 2}], '[ts < 2]', 1)
    """

    attributes: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    _fitted: tuple[Schema, Schema] | None = attrs.field(init=False, default=None)
    _index: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part(KeyIndex))
    _expiries: dict[str, Expiry] = attrs.field(init=False, factory=dict)
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def __len__(self) -> int:
        """Return the number of combinations held."""
        return 0 if self._index is None else len(self._index)

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        output = self._fit(schema)
        KeyIndex(list(output.arrow))
        return output

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self.attributes or inputs[0].names)

    def order_from(self, name: str, *inputs: Schema) -> str | None:
        return name

    def order_wanted(self, *inputs: Schema) -> str | None:
        return next(filter(inputs[0].progressing, self.attributes), None)

    def attributes_read(self, wanted: Attributes, *inputs: Schema) -> Sequence[Collection[str]]:
        return [self.attributes or inputs[0].names]

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [group_promises(self.attributes or inputs[0].names, wanted, inputs[0])]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        output = self._fit(page.schema)
        columns = [page.column(name) for name in output.names]
        chosen = Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow))
        if self._index is None:
            self._index = KeyIndex(list(output.arrow))
        ids, first = self._index.assign_new(columns)
        if not first.any():
            return
        fresh = chosen if first.all() else chosen.select(first)
        for name, expiry in self._expiries.items():
            _enter(expiry, name, ids[first], fresh)
        self._peak = max(self._peak, len(self._index))
        emit(fresh)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        names = self.attributes if self._fitted is None else self._fitted[1].names
        kept = {name: name for name in names or punctuation.attributes}
        promise = punctuation.onto(kept)
        if promise is None:
            return
        if self._index is not None and len(self._index):
            self._purge(self._index, promise)
        emit(promise)

    def statistics(self) -> dict[str, int]:
        held = 0 if self._index is None else self._index.nbytes
        return {"state_tuples": len(self), "state_bytes": held, "peak_state_tuples": self._peak}

    def _purge(self, index: KeyIndex, promise: Punctuation) -> None:
        """Drop the combinations that match a promise."""
        if promise.is_end:
            index.free(index.live())
            self._expiries = {}
            return
        (name, *others) = promise.attributes
        kind = next(field.type for field in index.fields if field.name == name)
        least = whole(promise.bound(name))
        if not others and least is not None and in_steps(kind):
            expired = self._expiry(index, name)
            gone = expired.expire(least)
        else:
            expired = None
            live = index.live()
            gone = live[_keys(index, live).matching(promise)]
        if len(gone):
            mask = np.zeros(index.capacity, np.bool_)
            mask[gone] = True
            for expiry in self._expiries.values():
                # The freed numbers will be given to other keys.
                if expiry is not expired:
                    expiry.forget(mask)
            index.free(gone)

    def _expiry(self, index: KeyIndex, name: str) -> Expiry:
        if name not in self._expiries:
            live = index.live()
            self._expiries[name] = Expiry()
            _enter(self._expiries[name], name, live, _keys(index, live))
        return self._expiries[name]

    def _fit(self, schema: Schema) -> Schema:
        if self._fitted is None or self._fitted[0] is not schema:
            names = [schema.resolve(name, where="distinct") for name in self.attributes] or schema.names
            arrow = pa.schema([schema.arrow.field(name) for name in names])
            self._fitted = (schema, schema.onto(arrow, {name: name for name in names}))
        return self._fitted[1]


def _enter(expiry: Expiry, name: str, ids: Ids, page: Page) -> None:
    values, valid = page.ticks(name), page.valid(name)
    if valid is None:
        expiry.add(ids, values)
    else:
        expiry.add(ids[valid], values[valid])


def _keys(index: KeyIndex, ids: Ids) -> Page:
    arrow = pa.schema(list(index.fields))
    return Page(Schema(arrow), pa.RecordBatch.from_arrays(index.keys(ids), schema=arrow))
