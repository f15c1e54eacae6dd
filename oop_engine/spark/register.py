"""Register the engine's formats with a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, *, shipped: bool | None = None) -> SparkSession:
    """Register "oop.pcap", "oop.netflow" and "oop.results" with a session, and return the session.

    - `spark`: the session.
    - `shipped`: send the engine to the workers: True always, False never, by default where they do not have it.

    >>> spark = oop.spark.session(cores=2)
    >>> oop.spark.register(spark) is spark
    True
    """
    # Optional: pyspark.
    from oop_engine.spark.results import ResultSource
    from oop_engine.spark.sources import FlowSource, PacketSource

    if shipped is not False:
        ship(spark, always=shipped is True)
    for source in (PacketSource, FlowSource, ResultSource):
        spark.dataSource.register(source)
    return spark
