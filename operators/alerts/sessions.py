"""Alerts over sessions: each that meets the condition opens and closes, for a session is a whole run by itself."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.alerts.alerts import ALERT, EVENT, EVENTS, SINCE, WINDOWS, condition_of, event_fields, holding
from operators.data import memory
from operators.data.page import Page
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.expression import Bound, Expression
from operators.protocol import Emit
from operators.retractions import refused
from operators.window_aggregate.results import REVISION, START, STOP, WID
from punctuation import Punctuation

_TOLD: Final = ("open", "close")


@attrs.define(eq=False)
class SessionAlerts(memory.Stateful):
    """Emit for each session that meets a condition that the alert opened, and that it closed.

    A session is known when it is over, and no session of the group follows it at once. What was computed is null in the
    event that closes it, as it is with `Alerts`.
    Pass: the events of a session at once. Keep: nothing. Propagate: every promise. Cost: O(1) a result.

    >>> from operators.drive import drive, rows
    >>> from operators.expression import Column
    >>> schema = Schema.of(n=pa.int64(), wid=pa.int64(), window_start=pa.int64(), window_end=pa.int64())
    >>> page = Page.of_rows(schema, [(9, 0, 0, 12), (1, 20, 20, 30)])
    >>> for row in rows(drive(SessionAlerts("scan", Column("n") > 5), [page])):
    ...     print(row["event"], row["n"], row["since"], row["window_end"])
    open 9 0 12
    close None 0 12
    """

    name: str
    when: Expression = attrs.field(validator=attrs.validators.instance_of(Expression))
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    _fitted: tuple[Schema, Schema, Bound] | None = attrs.field(init=False, default=None)
    _counts: dict[str, int] = attrs.field(
        init=False, factory=lambda: dict.fromkeys(EVENTS, 0), metadata=memory.counters()
    )

    retracted = refused

    @property
    def inputs(self) -> int:
        return 1

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        return self._fit(schema)[0]

    def comes_from(self, name: str, *inputs: Schema) -> str | None:
        return name if name in (*self.by, WID, START, STOP) else None

    def process(self, page: Page, emit: Emit, port: int = 0) -> None:
        output, when = self._fit(page.schema)
        rows = np.flatnonzero(holding(when, page))
        if not len(rows):
            return
        found = page.take(np.repeat(rows, 2))
        closes = np.tile(np.array([False, True]), len(rows))
        made = {
            ALERT: pa.repeat(pa.scalar(self.name), len(found)),
            EVENT: pa.array(_TOLD).take(pa.array(closes.astype(np.int64))),
            SINCE: found.column(START).cast(output.arrow.field(SINCE).type),
            WINDOWS: pa.repeat(pa.scalar(1, pa.int64()), len(found)),
        }
        for name in (*self.by, WID, START, STOP):
            made[name] = found.column(name)
        there = pa.array(np.arange(len(found)), mask=closes)
        columns = [made[name] if name in made else found.column(name).take(there) for name in output.names]
        for event in _TOLD:
            self._counts[event] += len(rows)
        emit(Page(output, pa.RecordBatch.from_arrays(columns, schema=output.arrow)))

    def punctuate(self, punctuation: Punctuation, emit: Emit, port: int = 0) -> None:
        if set(punctuation.attributes) <= {*self.by, WID, START, STOP}:
            emit(punctuation)

    def statistics(self) -> dict[str, int]:
        return {"state_tuples": 0, "state_bytes": 0, **self._counts}

    def _fit(self, schema: Schema) -> tuple[Schema, Bound]:
        if self._fitted is None or not self._fitted[0].arrow.equals(schema.arrow, check_metadata=True):
            for name in (WID, START, STOP, *self.by):
                schema.field(name, where="alert")
            if REVISION in schema:
                raise SchemaError(
                    "alert: these sessions are given again after late tuples, and a session that was told of is over.\n"
                    "  Leave lateness out."
                )
            kept = {*self.by, WID, START, STOP}
            output = Schema(event_fields(schema, self.by), progress=[p for p in schema.progress if p <= kept])
            self._fitted = (schema, output, condition_of(self.when, schema, "when"))
        return self._fitted[1:]
