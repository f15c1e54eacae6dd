"""Ranking puts the tuples of each group into an order and keeps the first n: ORDER BY ... LIMIT of each window."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.data import memory
from operators.data.keys import KeyIndex
from operators.data.page import Page, concatenate
from operators.data.schema import Schema
from operators.data.sort_keys import sort_key, sortable
from operators.errors import SchemaError
from operators.pace import Paces, group_promises
from operators.plan_facts import Together
from operators.protocol import Emit
from operators.retractions import refused
from operators.rows.pruned import behind
from punctuation import END, Progress, Punctuation, below

_LEAST = 4096


def _some(ranking: object, attribute: attrs.Attribute[int | None], n: int | None) -> None:
    if n is not None and n < 1:
        raise SchemaError(f"ranking: n is {n}; keep one tuple of a group at least.")


@attrs.define
class Ranking(memory.Stateful):
    """Emit of each group its first n tuples in the order of some attributes, or all of them, when the group is over.

    Tuples that are level in that order are put into the order of all other attributes, so that which of them are first
    does not depend on the order of arrival. Nulls come last.
    Without groups, tuples that come after n others in the order are not needed any more (`needless`).
    Pass: a group on the promise that matches it. Keep: n tuples of a group that is not over, as many again, or 4096,
    unsorted; all tuples without n. Propagate: promises on grouping attributes alone.
    Cost: O(log n) a tuple, amortised; a promise O(tuples held).

    >>> from operators.drive import drive, rows
    >>> from punctuation import before
    >>> schema = Schema.of(wid=pa.int64(), x=pa.int64(), progress=["wid"])
    >>> page = Page.of(schema, {"wid": [1, 1, 1, 2], "x": [5, 9, 7, 1]})
    >>> rows(drive(Ranking(("x",), 2, ("wid",), descending=("x",)), [page, before("wid", 2)]))
    [{'wid': 1, 'x': 9}, {'wid': 1, 'x': 7}]
    """

    order: tuple[str, ...] = attrs.field(converter=tuple)
    n: int | None = attrs.field(default=None, validator=_some)
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    descending: tuple[str, ...] = attrs.field(default=(), converter=tuple, kw_only=True)
    """Those attributes of `order` of which the largest comes first."""
    _held: list[Page] = attrs.field(init=False, factory=list, metadata=memory.pages("page"))
    _tuples: int = attrs.field(init=False, default=0)
    _sorted: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _promised: Progress = attrs.field(init=False, factory=Progress, metadata=memory.progress())
    _names: frozenset[str] = attrs.field(init=False)
    """The grouping attributes, as the stream names them once there is a tuple."""
    _needless: Punctuation | None = attrs.field(init=False, default=None)
    """Tuples that come after n others, which are held."""

    def __attrs_post_init__(self) -> None:
        self._names = frozenset(self.by)

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in self.order:
            field = schema.field(name, where="ranking")
            if not sortable(field.type):
                raise SchemaError(f'ranking: "{field.name}" has type {field.type}, whose values have no order.')
        by = [schema.field(name, where="ranking") for name in self.by]
        KeyIndex(by)
        names = {field.name for field in by}
        return Schema(schema.arrow, progress=[promise for promise in schema.progress if promise <= names])

    def together(self, *inputs: Schema) -> Together:
        return Together.by(self._groups(inputs[0]))

    def promises_asked(self, wanted: Paces, *inputs: Schema) -> Sequence[Paces]:
        return [group_promises(self._groups(inputs[0]), wanted, inputs[0])]

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        self._names = frozenset(self._groups(page.schema))
        self._held.append(Page(self.output_schema(page.schema), page.batch))
        self._tuples += len(page)
        self._peak = max(self._peak, self._tuples)
        if self.n is not None and self._tuples > max(2 * self._sorted, _LEAST):
            self._prune()

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            if self._tuples:
                emit(self._leading())
            self._held, self._tuples, self._sorted, self._promised = [], 0, 0, Progress()
            emit(END)
            return
        if self._bounds(punctuation):
            self._prune()
        if not set(punctuation.attributes) <= self._names or not self._promised.advance(punctuation):
            return
        if self._tuples:
            page = concatenate(self._held[0].schema, self._held)
            over = page.matching(punctuation)
            if over.any():
                self._keep(page.select(over))
                emit(self._leading())
                self._keep(page.select(~over))
        emit(punctuation)

    def needless(self, port: int) -> Punctuation | None:
        """Return which tuples to come are not among the first n, because n others are held that come before them."""
        return self._needless

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": self._tuples, "state_bytes": self.nbytes, "peak_state_tuples": self._peak}

    def _groups(self, schema: Schema) -> list[str]:
        return [schema.resolve(name, where="ranking") for name in self.by]

    def _after_restoring(self) -> None:
        self._tuples = sum(map(len, self._held))

    def _bounds(self, punctuation: Punctuation) -> bool:
        """Return whether a promise may be what n tuples that are held need to be the first for good.

        Where tuples are few, nobody has looked for the n-th yet.
        """
        if self.by or self.descending or self.n is None or self._needless is not None or self._tuples < self.n:
            return False
        return below(punctuation.pattern(self._held[0].schema.resolve(self.order[0], where="ranking"))) is not None

    def _prune(self) -> None:
        """Keep the first n of each group, and note which tuples to come cannot be among them."""
        self._keep(self._leading())
        if not self.by and self.n is not None and self._tuples == self.n:
            (page,) = self._held
            first = page.schema.resolve(self.order[0], where="ranking")
            falling = any(page.schema.resolve(name, where="ranking") == first for name in self.descending)
            self._needless = behind(page, self.n - 1, first, descending=falling) or self._needless

    def _keep(self, page: Page) -> None:
        self._held = [page] if len(page) else []
        self._tuples = self._sorted = len(page)

    def _leading(self) -> Page:
        """Return the first n tuples of each group that is held, group by group, in order."""
        page = concatenate(self._held[0].schema, self._held)
        schema = page.schema
        by = self._groups(schema)
        order = [schema.resolve(name, where="ranking") for name in self.order]
        falling = {schema.resolve(name, where="ranking") for name in self.descending}
        keys: list[tuple[pa.Array, str]] = [(sort_key(page.column(name)), "ascending") for name in by]
        keys += [(sort_key(page.column(name)), "descending" if name in falling else "ascending") for name in order]
        for name in schema.names:
            column = page.column(name)
            if name not in by and name not in order:
                keys.append((sort_key(column), "ascending"))
            if pa.types.is_floating(column.type):
                # -0.0 and 0.0 are level, and NaNs, but differ as tuples.
                keys.append((column.view(f"int{column.type.bit_width}"), "ascending"))
        table = pa.table([key for key, _ in keys], names=[str(place) for place in range(len(keys))])
        ranks = [(str(place), direction) for place, (_, direction) in enumerate(keys)]
        ranked = page.take(np.asarray(pc.sort_indices(table, sort_keys=ranks), np.int64))
        if self.n is None:
            return ranked
        groups = np.zeros(len(ranked), np.int32)
        if by:
            groups = KeyIndex([schema.field(name) for name in by]).assign([ranked.column(name) for name in by])
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        sizes = np.diff(np.append(starts, len(ranked)))
        place = np.arange(len(ranked)) - np.repeat(starts, sizes)
        return ranked.select(place < self.n)
