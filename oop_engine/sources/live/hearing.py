"""Pass what a decoder reads on to the progress of exporters: who sent it, when, and how it trails the header."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oop_engine.sources.columns import ticks
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.exporter_names import ANNOUNCED_AT
from oop_engine.sources.flows.parts import Parts
from oop_engine.sources.flows.sessions import Sessions
from oop_engine.sources.live.progress import ExporterProgress, Heard
from oop_engine.sources.live.roster import Key
from oop_engine.sources.live.unreleased import Unreleased
from oop_engine.sources.protocol import ARRIVAL
from operators.data.page import Bools, Int64s

_TIMES = ("ts", "end_ts")


@attrs.define(eq=False)
class Hearing:
    """Pass every batch on to `progress`, leave out times too far ahead, and correct the others if asked to.

    Sessions are the decoder's.
    """

    progress: ExporterProgress
    sessions: Sessions | None = None
    unreleased: Unreleased | None = None
    """Who counts the records, if anybody does."""

    def __call__(self, batch: pa.RecordBatch, parts: Parts) -> pa.RecordBatch:
        assert self.sessions is not None
        numbers, who = np.unique(parts.session, return_inverse=True)
        keys = [key_of(self.sessions, number) for number in numbers.tolist()]
        header = np.where(parts.version == e.SFLOW, parts.arrival, parts.export)
        times = {name: ticks(batch, name) for name in _TIMES if name in batch.schema.names}
        heard = Heard(keys, who, header, parts.arrival, parts.first, times, parts.recorded)
        shifts = self.progress.hear(heard)
        batch = _without(batch, self.progress.beyond(heard, shifts))
        for key, number in zip(keys, numbers.tolist(), strict=True):
            known = self.sessions.known[number]
            if known.active is not None or known.inactive is not None:
                self.progress.announce(key, active=known.active, inactive=known.inactive)
        counts = np.diff(parts.first, append=len(batch))
        batch = batch if shifts is None else _shifted(batch, np.repeat(shifts, counts))
        if self.unreleased is not None and len(batch) and parts.recorded.any():
            times = {name: ticks(batch, name) for name in times} | {ARRIVAL: parts.arrival}
            self.unreleased.take(times, {ARRIVAL: counts}, int(parts.arrival.max()))
        return batch


def key_of(sessions: Sessions, number: int) -> Key:
    """Return the exporter that a session is of."""
    row = sessions.table[number]
    return sessions.keys[number].tobytes(), int(row[e.T_DOMAIN]), int(row[e.T_PORT])


def _without(batch: pa.RecordBatch, beyond: Mapping[str, Bools]) -> pa.RecordBatch:
    """Leave out times that are not believed: their records are without a time."""
    for name, far in beyond.items():
        place = batch.schema.get_field_index(name)
        kept = pc.if_else(pa.array(far), pa.scalar(None, batch.column(place).type), batch.column(place))
        batch = batch.set_column(place, batch.schema.field(place), kept)
    return batch


def _shifted(batch: pa.RecordBatch, by: Int64s) -> pa.RecordBatch:
    """Return a batch with the times of its records put right."""
    arrays = list(batch.columns)
    for place, field in enumerate(batch.schema):
        if field.name in (*_TIMES, "export_ts", ANNOUNCED_AT):
            column = batch.column(place)
            values = np.asarray(column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)) + by
            absent = np.asarray(column.is_null().to_numpy(zero_copy_only=False)) if column.null_count else None
            arrays[place] = pa.array(values, pa.int64(), mask=absent).view(field.type)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
