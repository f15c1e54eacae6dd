"""Bring the counts of operators inside Spark back to the user: late tuples, windows, and the other statistics of a run.

Each task reports its own totals. The largest report of a bucket counts, so a task that Spark repeats counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import attrs
from pyspark.accumulators import AccumulatorParam

from oop_engine.spark.errors import SparkError
from oop_engine.spark.shipping import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Told = dict[str, int]


class _Most(AccumulatorParam[Told]):
    """Keep the most that was told under each name."""

    def zero(self, value: Told) -> Told:
        return {}

    def addInPlace(self, value1: Told, value2: Told) -> Told:
        for name, count in value2.items():
            value1[name] = max(count, value1.get(name, count))
        return value1


class Telling(Protocol):
    """The part of an accumulator that a task uses."""

    def add(self, term: Told) -> None: ...


@attrs.define(eq=False)
class Counts:
    """Collect what the operators of one plan count inside Spark: pass it as `on_spark(..., counts=counts)`.

    `spark` is the session. SparkError over Spark Connect, where tasks cannot report.

    >>> spark = oop.spark.session(cores=2)
    >>> counts = oop.spark.Counts(spark)
    >>> stream = oop.read("demos/captures/web.pcap.gz").window(range="10 s").aggregate(oop.count())
    >>> oop.spark.on_spark(stream, spark, counts=counts).count(), counts.totals().get("late", 0)
    (2, 0)
    """

    spark: SparkSession
    telling: Telling = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if is_connect(self.spark):
            raise SparkError(
                "Counts: over Spark Connect tasks tell the client nothing, so nothing could be counted here.\n"
                "  Leave counts out, or run the plan in a session of its own: oop.spark.session(cores=2)."
            )
        self.telling = self.spark.sparkContext.accumulator({}, _Most())

    def totals(self) -> dict[str, int]:
        """Return the counts by name, added up over stages and buckets: "late", "late_for_some", "windows" and others.

        They are right after an action, or a micro-batch, has ended.
        """
        told: Mapping[str, int] = getattr(self.telling, "value", {})
        totals: dict[str, int] = {}
        for name, count in told.items():
            short = name.rpartition("/")[2]
            totals[short] = totals.get(short, 0) + count
        return totals


def told(stage: int, origin: int, counts: Mapping[str, int]) -> Told:
    """Return counts under names that tell whose they are."""
    return {f"{stage}/{origin}/{name}": count for name, count in counts.items()}
