"""Largest keeps, of each group, the tuples with the n largest values of an attribute: the top talkers of a window."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Page, concatenate
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.order import is_keyed, keys
from operators.protocol import Emit
from operators.retractions import refused
from operators.rows.pruned import behind
from punctuation import END, Progress, Punctuation

_LEAST = 4096


def _some(largest: object, attribute: attrs.Attribute[int], n: int) -> None:
    if n < 1:
        raise SchemaError(f"largest: n is {n}; keep one tuple of a group at least.")


@attrs.define
class Largest(memory.Stateful):
    """Keep of each group the tuples whose value is exceeded by fewer than n tuples of it: n, and those level with them.

    They leave when a promise ends their group, largest value first; so what is kept does not depend on the order of
    arrival. Tuples without a value are left out and counted; NaN counts as the largest of all.
    Without groups, tuples that n others exceed are not needed any more (`needless`).
    Pass: a group on the promise that matches it. Keep: n tuples of a group that is not over, and those level with the
    n-th; as many again, or 4096, may lie unsorted. Propagate: promises on grouping attributes alone.
    Cost: O(log n) a tuple, amortised; a promise O(tuples held).

    >>> from operators.drive import drive, rows
    >>> from punctuation import before
    >>> schema = Schema.of(wid=pa.int64(), x=pa.int64(), progress=["wid"])
    >>> page = Page.of(schema, {"wid": [1, 1, 1, 2], "x": [5, 9, 7, 1]})
    >>> rows(drive(Largest("x", 2, ("wid",)), [page, before("wid", 2)]))
    [{'wid': 1, 'x': 9}, {'wid': 1, 'x': 7}]
    """

    value: str
    n: int = attrs.field(validator=_some)
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("page"))
    _tuples: int = attrs.field(init=False, default=0)
    _sorted: int = attrs.field(init=False, default=0, metadata=memory.integer(since=1))
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _missing: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _names: frozenset[str] = attrs.field(init=False)
    """The grouping attributes, as the stream names them once there is a tuple."""
    _needless: Punctuation | None = attrs.field(init=False, default=None)
    """Tuples that n others, which are held, exceed."""

    def __attrs_post_init__(self) -> None:
        self._names = frozenset(self.by)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        field = schema.field(self.value, where="largest")
        if not is_keyed(field.type):
            raise SchemaError(f'largest: "{field.name}" has type {field.type}; numbers or times say what is large.')
        by = [schema.field(name, where="largest") for name in self.by]
        KeyIndex(by)
        names = {field.name for field in by}
        return Schema(schema.arrow, progress=[promise for promise in schema.progress if promise <= names])

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        valid = page.valid(self.value)
        if valid is not None:
            self._missing += len(page) - int(valid.sum())
            page = page.select(valid)
        if len(page) == 0:
            return
        self._names = frozenset(page.schema.resolve(name, where="largest") for name in self.by)
        self._held.append(Page(self.output_schema(page.schema), page.batch))
        self._tuples += len(page)
        self._peak = max(self._peak, self._tuples)
        if self._tuples > max(2 * self._sorted, _LEAST):
            self._prune()

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            if self._tuples:
                emit(self._leading())
            self._held, self._tuples, self._sorted, self._promised = [], 0, 0, Progress()
            emit(END)
            return
        if not set(punctuation.attributes) <= self._names or not self._promised.advance(punctuation):
            return
        if self._tuples:
            leading = self._leading()
            over: Bools = leading.matching(punctuation)
            if over.any():
                emit(leading.select(over))
            self._keep(leading.select(~over))
        emit(punctuation)

    def needless(self, port: int) -> Punctuation | None:
        """Return which tuples to come are not among the n largest, because n that are held exceed them."""
        return self._needless

    def statistics(self) -> dict[str, int]:
        return {
            "state_tuples": self._tuples,
            "state_bytes": self.nbytes,
            "peak_state_tuples": self._peak,
            "without_value": self._missing,
        }

    def _after_restoring(self) -> None:
        self._tuples = sum(map(len, self._held))

    def _prune(self) -> None:
        """Keep the largest of each group, and note which tuples to come cannot be among them."""
        self._keep(self._leading())
        if not self.by and self._tuples >= self.n:
            (page,) = self._held
            name = page.schema.resolve(self.value, where="largest")
            self._needless = behind(page, self.n - 1, name, descending=True) or self._needless

    def _keep(self, page: Page) -> None:
        self._held = [page] if len(page) else []
        self._tuples = self._sorted = len(page)

    def _leading(self) -> Page:
        """Return the tuples that may still be among the n largest of their group, group by group, largest first."""
        page = concatenate(self._held[0].schema, self._held)
        column = page.column(self.value)
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 is 0.0
        values = keys(column, descending=True)
        if self.by:
            fields = [page.schema.field(name) for name in self.by]
            groups = KeyIndex(fields).assign([page.column(name) for name in self.by])
        else:
            groups = np.zeros(len(page), np.int32)
        order = np.lexsort((values, groups))
        values, groups = values[order], groups[order]
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        sizes = np.diff(np.append(starts, len(page)))
        least = values[starts + np.minimum(sizes, self.n) - 1]
        return page.take(order[values <= np.repeat(least, sizes)])
