"""Turn the row in which a streaming input marks its end into END of that input, behind all its tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.spark.end_of_stream import COMPLETE, MARK
from oop_engine.spark.in_memory import Batches
from oop_engine.spark.stages import FRONT
from oop_engine.spark.wire import PROMISE, WireRow, promise_bytes, to_batches
from punctuation import END, NO_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LAST: Final = 1 << 62
"""An origin behind those of all partitions."""
_KEEPING: Final = (
    "Project",
    "SubqueryAlias",
    "EventTimeWatermark",
    "WithColumns",
    "WithColumnsRenamed",
    "WithWatermark",
)
"""Nodes of Spark's plans that drop no row and keep the order of rows."""


@attrs.frozen(eq=False)
class EndMarker:
    """Make rows of a DataFrame's tuples, and END of the one row that is the end, for the source at a place."""

    place: int
    taking: Callable[[Batches], Iterator[pa.RecordBatch]]
    """Makes the rows of the tuples."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        ended: list[bool] = []
        yield from self.taking(_tuples(batches, ended))
        if any(ended):
            end = WireRow(FRONT, 0, self.place, _LAST, 0, NO_TIME, PROMISE, promise_bytes(END))
            yield from to_batches([end])


def _tuples(batches: Batches, ended: list[bool]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that are not the end, without the mark, and note whether one was."""
    for batch in batches:
        marks = batch.column(MARK)
        if marks.null_count < len(marks):
            ended.append(True)
            batch = batch.filter(marks.is_null())
        if batch.num_rows:
            yield batch.drop_columns([MARK])


def check_end(name: str, frame: DataFrame, *, asked: bool) -> bool:
    """Return whether an input says its end; PlanError if it should and cannot, or if that could be lost."""
    if MARK not in frame.columns:
        if not asked:
            return False
        raise PlanError(
            f'on_spark(end=True): the input "{name}" does not say where it ends; it has no column "{MARK}".\n'
            f'  Folders of captures, flow exports and page logs do: spark.readStream....option("{COMPLETE}", True).\n'
            "  Of other streams write a page log first (oop.results) and read that, or read what there is as a\n"
            "  DataFrame that is not streaming: it always ends."
        )
    for node in _nodes(frame):
        if node not in _KEEPING:
            raise PlanError(
                f'on_spark: the input "{name}" says its end in its last row, and Spark\'s {node} may lose that.\n'
                '  Do it within the plan, e.g. stream.filter("..."), and give on_spark what was read as it is.'
            )
    return True


def _nodes(frame: DataFrame) -> Iterator[str]:
    """Yield the kinds of what Spark does to what was read, outermost first."""
    given: Any = frame
    if hasattr(frame, "_jdf"):
        node = given._jdf.queryExecution().analyzed()
        while node.children().size():
            yield str(node.nodeName())
            node = node.children().apply(0)
        return
    node = given._plan
    while (below := getattr(node, "_child", None)) is not None:
        yield type(node).__name__
        node = below
