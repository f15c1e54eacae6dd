"""The signed join follows the join of two relations through the insertions and deletions of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.baselines.buffer.log import TupleLog
from operators.baselines.negative.expire import CHANGES, WID
from operators.data import memory
from operators.data.changes import added_up, same_tuples
from operators.data.distinct import distinct
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Bools, Int64s, Page
from operators.data.saved import (
    ROOM,
    read_flag,
)
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import plain_type
from operators.join.shape import common_field, renamed
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import Emit, State, StateValue
from operators.retractions import SIGN, Retracted, Retracting
from punctuation import END, Meet, Punctuation, before

_SIDES = ("left", "right")


@attrs.define(eq=False)
class SignedJoin(memory.Stateful):
    """Join by equal attributes the relations that two streams of changes make; the inputs are outputs of Expire.

    `on` are pairs of attributes, of the left and of the right input. Emits the attributes of the left tuple, then those
    of the right, `prefix` before a name that the left has too, then `wid` and `sign`. So the changes with wid <= w add
    up to the pairs of tuples that are in both relations at window w. Null equals nothing. Both inputs are of windows
    with the same SLIDE and ORIGIN: a wid means the same in both.
    A pair of changes, at windows v and w, is a change at the later of both, whose sign is the product of theirs; of
    pairs that were in no window together, and where both tuples leave, the changes cancel each other.
    Pass: a change at once, with each change of the other input that has its key. Keep: what the changes of an input add
    up to, as far as the other one's promise tells that their order no longer matters, the others as they are; nothing
    for an input that has ended. Propagate: `[wid < w]` when both inputs have promised it.
    Cost: O(log n) a change for n that are held of the other input, which are sorted by key for a page when there are
    new ones, and O(1) a pair; a promise O(changes held).
    Source: negative tuples, thesis 3.1. Joins are bilinear in signed changes: the delta rule of incremental view
    maintenance.

    >>> from operators.drive import drive, rows
    >>> schema = Schema.of(k=pa.string(), wid=pa.int64(), sign=pa.int8(), progress=["wid"])
    >>> join = SignedJoin([("k", "k")])
    >>> _ = join.output_schema(schema, schema)
    >>> there = Page.of(schema, {"k": ["a"], "wid": [1], "sign": [1]})
    >>> again = Page.of(schema, {"k": ["a", "a"], "wid": [2, 4], "sign": [1, -1]})
    >>> [(row["wid"], row["sign"]) for row in rows(drive(join, [(0, there), (1, again)]))]
    [(2, 1), (4, -1)]
    """

    VERSION: ClassVar[int] = 2

    on: tuple[tuple[str, str], ...] = attrs.field(converter=lambda pairs: tuple((a, b) for a, b in pairs))
    prefix: str = attrs.field(default="right_", kw_only=True)
    page_rows: int = attrs.field(default=1 << 16, kw_only=True, validator=attrs.validators.ge(1))
    _fitted: _Fitted | None = attrs.field(
        init=False,
        default=None,
        metadata=memory.bound(
            "output_schema", "input1", name="input0", of=lambda join: join._fitted and join._fitted.inputs
        ),
    )
    _sides: tuple[_Side, _Side] = attrs.field(init=False, metadata=memory.parts("side"))
    _index: KeyIndex = attrs.field(init=False, metadata=memory.part(name="keys"))
    _meet: Meet = attrs.field(init=False, factory=lambda: Meet(2), metadata=memory.meet())
    _pairs: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())

    @property
    def inputs(self) -> int:
        return 2

    def output_schema(self, *inputs: Schema) -> Schema:
        fitted = _Fitted.of(inputs, self.on, self.prefix)
        if self._fitted is None or self._fitted.inputs != fitted.inputs:
            self._fitted, self._index = fitted, KeyIndex(fitted.keys)
            self._sides = (_Side.of(fitted.inputs[0]), _Side.of(fitted.inputs[1]))
        return fitted.output

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return CHANGES

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        fitted = self._fitted
        assert fitted is not None
        keys, there = fitted.key_columns(page, port)
        if len(there) == 0:
            return
        ids = self._index.assign(keys)
        wids, signs = page.ticks(WID)[there], page.ticks(SIGN)[there]
        mine, other = self._sides[port], self._sides[1 - port]
        for rows, positions in other.partners(ids, self.page_rows):
            emit(self._joined(fitted, page, there, wids, signs, rows, positions, port))
        if not other.ended:
            mine.add(page, there, ids, wids, signs)
            self._peak = max(self._peak, len(mine) + len(other))
        else:
            self._free(ids)

    def _joined(
        self, fitted: _Fitted, page: Page, there: Int64s, wids: Int64s, signs: Int64s, rows: Int64s,
        positions: Int64s, port: int,
    ) -> Page:  # fmt: skip
        """Make the changes of pairs: rows of the page, and positions in what is held of the other input."""
        mine, other = self._sides[port], self._sides[1 - port]
        self._pairs += len(rows)
        sides = [mine.log.select(page, there[rows]), other.log.take(positions)]
        columns = [column for side in (sides if port == 0 else sides[::-1]) for column in side.batch.columns]
        columns.append(pa.array(np.maximum(wids[rows], other.wids[positions])))
        columns.append(pa.array((signs[rows] * other.signs[positions]).astype(np.int8)))
        return Page(fitted.output, pa.RecordBatch.from_arrays(columns, schema=fitted.output.arrow))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        bound = FOREVER if punctuation.is_end else punctuation.bound(WID)
        if not isinstance(bound, int):
            return
        if self._fitted is not None:
            self._settle(port, bound, ended=punctuation.is_end)
        told = END if punctuation.is_end else before(WID, bound, assumed=punctuation.assumed)
        for promise in self._meet.advance(port, told):
            emit(promise)

    def _settle(self, port: int, bound: int, *, ended: bool) -> None:
        """Add up what the other input's changes come to, for changes of this one are all at windows from `bound` on."""
        mine, other = self._sides[port], self._sides[1 - port]
        mine.ended = mine.ended or ended
        gone = other.clear() if mine.ended else other.add_up(bound)
        if len(gone):
            self._free(gone)

    def _free(self, ids: Ids) -> None:
        """Forget the keys that nothing held has any more."""
        held = np.zeros(self._index.capacity, np.bool_)
        for side in self._sides:
            held[side.ids] = True
        candidates = distinct(ids)
        self._index.free(candidates[~held[candidates]])

    def statistics(self) -> dict[str, int]:
        held = sum(len(side) for side in self._sides) if self._fitted is not None else 0
        return {"state_tuples": held, "state_bytes": self.nbytes, "peak_state_tuples": self._peak, "pairs": self._pairs}

    def _upgraded(self, state: Mapping[str, StateValue]) -> State:
        # Of the promises of an input only that on windows was saved, as a flag.
        promised = [name for name in ("promised0", "promised1") if name in state]
        found = {f"input{name[-1]}.progress": json.dumps([[WID]] * read_flag(state, name)) for name in promised}
        return {**state, **found}

    def _after_restoring(self) -> None:
        if self._fitted is not None:
            for side in self._sides:
                self._index.check_live(side.ids, "ids")


@attrs.frozen(eq=False)
class _Fitted:
    """A join that was checked against the schemas of its inputs."""

    inputs: tuple[Schema, Schema]
    output: Schema
    keys: tuple[pa.Field, ...]
    on: tuple[tuple[str, ...], tuple[str, ...]]

    @classmethod
    def of(cls, inputs: Sequence[Schema], on: Sequence[tuple[str, str]], prefix: str) -> _Fitted:
        """Check both inputs; SchemaError with what to write instead."""
        if len(inputs) != 2:
            raise SchemaError(f"join takes two inputs, it was given {len(inputs)}.")
        for side, schema in zip(_SIDES, inputs, strict=True):
            for name in (WID, SIGN):
                if name not in schema:
                    raise SchemaError(f'join: the {side} input has no "{name}"; put an Expire in front of it.')
        left, right = (Schema(pa.schema(_fields(schema))) for schema in inputs)
        names = [
            tuple(schema.resolve(pair[port], where=f"join, {_SIDES[port]} input") for pair in on)
            for port, schema in enumerate((left, right))
        ]
        keys = tuple(common_field(left.arrow.field(a), right.arrow.field(b)) for a, b in zip(*names, strict=True))
        # Equal changes cancel each other, so that all attributes must be such that can be told apart.
        for schema in (left, right):
            KeyIndex(list(schema.arrow))
        its = renamed(left, right, prefix)
        fields = [*left.arrow, *(field.with_name(its[field.name]) for field in right.arrow)]
        fields += [pa.field(WID, pa.int64()), pa.field(SIGN, pa.int8())]
        if taken := sorted({WID, SIGN} & set(its.values())):
            raise SchemaError(f"join: an attribute of the right input would be named {', '.join(taken)}; rename it.")
        progress = [{WID}] if all(schema.progressing(WID) for schema in inputs) else []
        output = Schema(pa.schema(fields), progress=progress)
        return cls((inputs[0], inputs[1]), output, keys, (names[0], names[1]))

    def key_columns(self, page: Page, port: int) -> tuple[list[pa.Array], Int64s]:
        """Return the keys of the tuples that have all, in the types of both sides, and those tuples."""
        columns = [page.column(name) for name in self.on[port]]
        there = np.ones(len(page), np.bool_)
        for column in columns:
            if column.null_count:
                there &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(there)
        if len(rows) < len(page):
            columns = [column.take(pa.array(rows)) for column in columns]
        return [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self.keys, strict=True)], rows


def _fields(schema: Schema) -> list[pa.Field]:
    """Return what is held of an input: its attributes, but those of the change, with texts as they are."""
    return [f.with_type(plain_type(f.type)) for f in schema.arrow if f.name not in (WID, SIGN)]


@attrs.define(eq=False)
class _Side(memory.Stateful):
    """The changes of one input that a change of the other may meet: tuple, key, window and sign of each."""

    log: TupleLog = attrs.field(metadata=memory.part())
    fields: Sequence[pa.Field]
    ids: Ids = attrs.field(
        factory=lambda: np.empty(0, np.int32), metadata=memory.array(least=0, below=ROOM, length="log")
    )
    wids: Int64s = attrs.field(factory=lambda: np.empty(0, np.int64), metadata=memory.array(length="ids"))
    signs: Int64s = attrs.field(
        factory=lambda: np.empty(0, np.int64), metadata=memory.array(least=-1, below=2, length="ids")
    )
    ended: bool = attrs.field(default=False, metadata=memory.flag())
    _settled: int = attrs.field(default=BEFORE_ALL, metadata=memory.integer())
    _order: Int64s | None = None
    """Positions in the order of their keys, once somebody asked."""

    @classmethod
    def of(cls, schema: Schema) -> _Side:
        """Make what holds changes of an input."""
        fields = _fields(schema)
        return cls(TupleLog(schema, [field.name for field in fields]), fields)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, page: Page, rows: Int64s, ids: Ids, wids: Int64s, signs: Int64s) -> None:
        """Hold these changes of a page."""
        self.log.append(page, rows)
        self.ids = np.concatenate((self.ids, ids))
        self.wids, self.signs = np.concatenate((self.wids, wids)), np.concatenate((self.signs, signs))
        self._order = None

    def partners(self, ids: Ids, most: int) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield all pairs of a row, whose key's number is ids[row], and a position with that key, at most so many each.

        Positions rise.
        """
        if self._order is None:
            self._order = np.argsort(self.ids, kind="stable")
        held = self.ids[self._order]
        first, last = np.searchsorted(held, ids, side="left"), np.searchsorted(held, ids, side="right")
        ends = np.cumsum(last - first)
        for start in range(0, int(ends[-1]), most):
            pairs = np.arange(start, min(start + most, int(ends[-1])))
            rows = np.searchsorted(ends, pairs, side="right")
            positions = self._order[last[rows] - (ends[rows] - pairs)]
            rising = np.argsort(positions, kind="stable")
            yield rows[rising], positions[rising]

    def add_up(self, bound: int) -> Ids:
        """Cancel what was inserted and deleted at windows up to `bound`; gives the keys of what is held no more."""
        if bound <= self._settled:
            return self.ids[:0]
        self._settled = bound
        settled = np.flatnonzero(self.wids <= bound)
        if not (self.signs[settled] < 0).any():
            return self.ids[:0]
        kept = added_up(same_tuples(self.log.take(settled).batch.columns, len(settled)), self.signs[settled])
        wanted = np.ones(len(self), np.bool_)
        wanted[settled[~kept]] = False
        gone = self.ids[~wanted]
        self._keep(wanted)
        return gone

    def clear(self) -> Ids:
        """Hold nothing any more; gives the keys of what was held."""
        gone = self.ids
        self._keep(np.zeros(len(self), np.bool_))
        return gone

    def _keep(self, wanted: Bools) -> None:
        self.log.keep(wanted)
        self.ids, self.wids, self.signs = self.ids[wanted], self.wids[wanted], self.signs[wanted]
        self._order = None
