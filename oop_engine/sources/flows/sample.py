"""Sample datagrams at random, one of so many; a record that is kept stands for as many."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.sources.flows.layout import Runs
from operators.data.page import Bools, Int64s

SAMPLING: Final = "sampling"
_MOST: Final = 2**32 - 1


@attrs.frozen(eq=False)
class Sample:
    """The datagrams that are kept, of shape (datagrams,); each was one of `rates`, alike or one for each."""

    kept: Bools
    rates: Int64s | int

    def runs(self, runs: Runs, count: int) -> tuple[Runs, Int64s, Bools]:
        """Return the runs of kept datagrams; of all, the row at which each begins, and which are kept."""
        kept = self.kept[runs.datagram[:count]]
        rows = np.where(kept, runs.count[:count], 0).astype(np.int64)
        first = np.cumsum(rows) - rows
        chosen = Runs(
            runs.plan[:count][kept], runs.at[:count][kept], runs.count[:count][kept], first[kept],
            runs.datagram[:count][kept],
        )  # fmt: skip
        return chosen, first, kept

    def weighed(self, batch: pa.RecordBatch, runs: Runs) -> pa.RecordBatch:
        """Return a batch, of runs of kept datagrams, whose records say that they stand for so many times as many."""
        place = batch.schema.get_field_index(SAMPLING)
        if place < 0:
            return batch
        own = self.rates if isinstance(self.rates, int) else np.repeat(self.rates[runs.datagram], runs.count)
        rates = np.asarray(batch.column(place).cast(pa.uint64()).fill_null(1)) * np.asarray(own, np.uint64)
        arrays = list(batch.columns)
        arrays[place] = pa.array(np.minimum(rates, np.uint64(_MOST)).astype(np.uint32))
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
