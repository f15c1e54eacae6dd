"""Expire turns a windowed stream into the changes of the relation that slides with the window."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.baselines.buffer.log import TupleLog
from operators.data import memory
from operators.data.page import Int64s, Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.protocol import Emit
from operators.retractions import SIGN, Retracted, Retracting
from operators.window_aggregate.bucket import FROM, UNTIL
from punctuation import END, Punctuation, before

WID = "wid"


CHANGES = Retracted(
    "the input has insertions and deletions: a tuple with sign -1 would be added, not taken away",
    "Put a SignedAggregate or a SignedJoin behind it.",
)


@attrs.define(eq=False)
class Expire(memory.Stateful):
    """Emit each tuple as an insertion, and as a deletion when it expires; the input is a Bucket's output.

    Emits the input's attributes but wid_from and wid_until, then `wid` and `sign`: +1 at the first window that has the
    tuple, -1 at the first one that no longer has it. So the relation at window w, its extent, is the sum of the changes
    with wid <= w.
    Pass: an insertion at once, a deletion on the promise that completes the tuple's last window. Keep: the tuples that
    have not expired. Propagate: `[wid_from < w]` as `[wid < w]`; promises of single groups wait for it, since deletions
    are still to come.
    Cost: O(1) a tuple; a promise O(tuples held).
    Source: negative tuples, thesis 3.1.

    >>> from operators.window_aggregate.bucket import Bucket
    >>> from operators.drive import drive, rows
    >>> from operators.window import SlidingWindow
    >>> page = Page.of(Schema.of(ts=pa.int64(), progress=["ts"]), {"ts": [7, 3]})
    >>> tagged = drive(Bucket(SlidingWindow("ts", size=10, slide=5)), [page, before("ts", 10)])
    >>> rows(drive(Expire(), tagged))  # doctest: +NORMALIZE_WHITESPACE
    [{'ts': 7, 'wid': 1, 'sign': 1}, {'ts': 3, 'wid': 0, 'sign': 1}, {'ts': 3, 'wid': 2, 'sign': -1}]
    """

    _schemas: tuple[Schema, Schema] | None = attrs.field(init=False, default=None, metadata=memory.bound("_bind"))
    _log: TupleLog | None = attrs.field(init=False, default=None, metadata=memory.part())
    _until: Int64s = attrs.field(
        init=False, factory=lambda: np.empty(0, np.int64), metadata=memory.array(length="_log")
    )
    _bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    _peak: int = attrs.field(init=False, default=0, metadata=memory.integer())
    _peak_bytes: int = attrs.field(init=False, default=0, metadata=memory.integer(since=1))

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        for name in (FROM, UNTIL):
            if name not in schema:
                raise SchemaError(f'expire: the input has no "{name}"; put a Bucket in front of it.')
        for name in (WID, SIGN):
            if name in schema:
                raise SchemaError(f'expire: the input already has an attribute "{name}"; rename it with a projection.')
        fields = [field for field in schema.arrow if field.name not in (FROM, UNTIL)]
        fields += [pa.field(WID, pa.int64()), pa.field(SIGN, pa.int8())]
        return Schema(pa.schema(fields), progress=[{WID}] if schema.progressing(FROM) else [])

    def retracted(self, found: Retracted | None, *inputs: Schema) -> Retracting:
        return "refused" if found else CHANGES

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        if len(page) == 0:
            return
        log = self._bind(page.schema)
        first, last = page.ticks(FROM), page.ticks(UNTIL)
        if int(last.max()) == FOREVER:
            raise SchemaError(
                "expire: no tuple of a window of RANGE ALL ever expires.\n"
                "  Give the window a RANGE, or aggregate the stream with a WindowAggregate."
            )
        everything = np.arange(len(page))
        self._change(page.batch.select(log.names), first, 1, emit)
        log.append(page, everything)
        self._until = np.concatenate((self._until, last))
        self._peak, self._peak_bytes = max(self._peak, len(self._until)), max(self._peak_bytes, self.nbytes)

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if punctuation.is_end:
            self._expire(FOREVER, emit)
            self._log, self._schemas = None, None
            emit(END)
            return
        bound = punctuation.bound(FROM)
        if isinstance(bound, int) and bound > self._bound:
            self._bound = bound
            self._expire(bound, emit)
            emit(before(WID, bound, assumed=punctuation.assumed))

    def _expire(self, bound: int, emit: Emit) -> None:
        gone = self._until <= bound
        if self._log is None or not gone.any():
            return
        self._change(self._log.take(np.flatnonzero(gone)).batch, self._until[gone], -1, emit)
        self._log.keep(~gone)
        self._until = self._until[~gone]

    def _change(self, batch: pa.RecordBatch, wids: Int64s, sign: int, emit: Emit) -> None:
        assert self._schemas is not None
        output = self._schemas[1]
        try:
            columns = [
                _as(column, output.arrow.field(name).type)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
        except pa.ArrowInvalid:
            if len(batch) == 1:
                raise
            # Of pages with a dictionary each, there may be more values than numbers.
            half = len(batch) // 2
            self._change(batch.slice(0, half), wids[:half], sign, emit)
            self._change(batch.slice(half), wids[half:], sign, emit)
            return
        columns += [pa.array(wids), pa.array(np.full(len(wids), sign, np.int8))]
        emit(Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow)))

    def _bind(self, schema: Schema) -> TupleLog:
        if self._log is None:
            self._schemas = (schema, self.output_schema(schema))
            self._log = TupleLog(schema, [name for name in schema.names if name not in (FROM, UNTIL)])
        return self._log

    def statistics(self) -> dict[str, int]:
        return {
            "state_tuples": len(self._until),
            "state_bytes": self.nbytes,
            "peak_state_tuples": self._peak,
            "peak_state_bytes": self._peak_bytes,
        }


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column that was looked up or laid out in the type it had; ArrowInvalid where numbers are too few."""
    if column.type == kind:
        return column
    return (column.dictionary_encode() if pa.types.is_dictionary(kind) else column).cast(kind)
