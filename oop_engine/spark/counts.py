"""What operators counted inside Spark comes back to the user: late tuples, and whatever else a run's statistics tell.

Each task tells its own totals; the most that was told of one bucket counts, so a task that Spark repeats counts once.
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
    """What a task needs of an accumulator."""

    def add(self, term: Told) -> None: ...


@attrs.define(eq=False)
class Counts:
    """Collect what the operators of one plan on Spark count: counts = Counts(spark); on_spark(..., counts=counts).

    `totals` is right after an action has ended, or a micro-batch. SparkError over Spark Connect, where tasks tell the
    client nothing.
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
        """Give the counts by name, added up over rooms and buckets: "late", "late_for_some", "windows", ..."""
        told: Mapping[str, int] = getattr(self.telling, "value", {})
        totals: dict[str, int] = {}
        for name, count in told.items():
            short = name.rpartition("/")[2]
            totals[short] = totals.get(short, 0) + count
        return totals


def told(room: int, origin: int, counts: Mapping[str, int]) -> Told:
    """Give counts under names that tell whose they are."""
    return {f"{room}/{origin}/{name}": count for name, count in counts.items()}
