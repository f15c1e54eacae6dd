"""Some tuples of one input with what a join knows of them: keys, times, partners' times, whether they had a partner."""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa

from operators.data.keys import Ids
from operators.data.page import Bools, Int64s
from operators.join.segments import Flags


@attrs.frozen(eq=False)
class Tuples:
    """Tuples as columns, arrays of shape (n,)."""

    batch: pa.RecordBatch
    """The attributes that are stored."""
    keys: list[pa.Array]
    ids: Ids
    """Numbers of the keys, -1 for a key that has none."""
    ticks: Int64s
    low: Int64s
    high: Int64s
    """First and last tick of their partners."""
    matched: Flags | None
    """Which had a partner, None when nobody asks."""

    def __len__(self) -> int:
        return len(self.ticks)

    def select(self, mask: Bools) -> Tuples:
        """Return the tuples where the mask, shape (n,), is true."""
        chosen = pa.array(mask)
        return Tuples(
            batch=self.batch.filter(chosen),
            keys=[key.filter(chosen) for key in self.keys],
            ids=self.ids[mask],
            ticks=self.ticks[mask],
            low=self.low[mask],
            high=self.high[mask],
            matched=None if self.matched is None else self.matched[mask],
        )


def joined(one: Tuples, other: Tuples) -> Tuples:
    """Return the tuples of both, one after the other."""
    matched = None
    if one.matched is not None and other.matched is not None:
        matched = np.concatenate((one.matched, other.matched))
    return Tuples(
        batch=pa.concat_batches([one.batch, other.batch]),
        keys=[pa.concat_arrays(both) for both in zip(one.keys, other.keys, strict=True)],
        ids=np.concatenate((one.ids, other.ids)),
        ticks=np.concatenate((one.ticks, other.ticks)),
        low=np.concatenate((one.low, other.low)),
        high=np.concatenate((one.high, other.high)),
        matched=matched,
    )
