"""A session knows the formats of the engine once they are registered with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, *, shipped: bool | None = None) -> SparkSession:
    """Register "oop.pcap", "oop.netflow" and "oop.results" with a session, and give the session back.

    The engine is sent to the workers where they do not have it; `shipped=False` never sends it, True always does.
    """
    from oop_engine.spark.results import ResultSource
    from oop_engine.spark.sources import FlowSource, PacketSource

    if shipped is not False:
        ship(spark, always=shipped is True)
    for source in (PacketSource, FlowSource, ResultSource):
        spark.dataSource.register(source)
    return spark
