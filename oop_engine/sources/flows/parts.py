"""The parts of a batch: the records of one set in one datagram, whose header says who sent it and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs
import pyarrow as pa

from operators.data.page import Bools, Int64s


@attrs.frozen(eq=False)
class Parts:
    """Part i is of a session (its number in the decoder), from row `first[i]` on; all of shape (parts,).

    A part whose records were left out has no rows; neither has one of a datagram without records, such as of templates,
    options or counters: those are not `recorded`.
    `export` and `arrival` are ns since 1970, NO_TIME where that is not known; sFlow says no export time.
    """

    session: Int64s
    version: Int64s
    export: Int64s
    arrival: Int64s
    first: Int64s
    recorded: Bools


Hearing: TypeAlias = Callable[[pa.RecordBatch, Parts], pa.RecordBatch]
"""Takes note of a batch, and gives it as it goes on."""
