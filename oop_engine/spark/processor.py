"""Run a stage of a stream as Spark's stateful processor, closed until rows come.

Spark starts a Python process for each stage of each query to be told of its state, and nothing else: there the plan and
the engine are not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

_SHIPPED: Final = CloudPickleSerializer()
"""As Spark ships functions itself; no state of a plan is kept so."""
VARIABLE: Final = "room"
"""What Spark calls the state of a bucket; checkpoints that were saved before have it by this name."""


class Kept(Protocol):
    """A value of Spark's state store, a row of one column of bytes."""

    def get(self) -> tuple[bytes] | None: ...
    def update(self, newValue: tuple[bytes]) -> None: ...


class Work(Protocol):
    """The work on the rows of a bucket in one micro-batch."""

    def over(self, kept: Kept, rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]: ...


class Processor(StatefulProcessor):
    """Do some work with the rows of a bucket, for Spark; it travels as bytes that are opened when there are rows."""

    def __init__(self, work: Work) -> None:
        self._work: Work | bytes = work

    def __getstate__(self) -> bytes:
        work = self._work
        return work if isinstance(work, bytes) else _SHIPPED.dumps(work)

    def __setstate__(self, sealed: bytes) -> None:
        self._work = sealed

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Find the bucket's state."""
        self._kept = cast(Kept, handle.getValueState(VARIABLE, "state binary"))

    def handleInputRows(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Return the rows that come of those of one micro-batch."""
        if isinstance(self._work, bytes):
            self._work = cast(Work, _SHIPPED.loads(self._work))
        return self._work.over(self._kept, rows)

    def close(self) -> None:
        """Do nothing: there is nothing open."""
