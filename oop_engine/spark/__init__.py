"""The engine on Spark: captures as data sources, results as DataFrames. No other package imports pyspark.

    import oop_engine as oop

    spark = oop.spark.session(cores=2)
    packets = spark.read.format("oop.pcap").load("captures/*.pcap.gz")
    packets.groupBy("srcIP").count().show()

It can be imported without pyspark; functions that need it say how to install it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.lazy import lazily

if TYPE_CHECKING:
    from oop_engine.spark.counts import Counts
    from oop_engine.spark.dataframe import each_batch, from_spark
    from oop_engine.spark.embedded import to_spark
    from oop_engine.spark.errors import SparkError, errors
    from oop_engine.spark.explained import explain_on_spark
    from oop_engine.spark.narrow import read_page
    from oop_engine.spark.pipeline import Pipeline
    from oop_engine.spark.register import register
    from oop_engine.spark.run import on_spark
    from oop_engine.spark.session import session
    from oop_engine.spark.why import why

_PLACES = {
    "oop_engine.spark.counts": "Counts",
    "oop_engine.spark.dataframe": "each_batch from_spark",
    "oop_engine.spark.embedded": "to_spark",
    "oop_engine.spark.errors": "SparkError errors",
    "oop_engine.spark.explained": "explain_on_spark",
    "oop_engine.spark.narrow": "read_page",
    "oop_engine.spark.pipeline": "Pipeline",
    "oop_engine.spark.register": "register",
    "oop_engine.spark.run": "on_spark",
    "oop_engine.spark.session": "session",
    "oop_engine.spark.why": "why",
}
lazily(__name__, _PLACES)

__all__ = [
    "Counts",
    "Pipeline",
    "SparkError",
    "each_batch",
    "errors",
    "explain_on_spark",
    "from_spark",
    "on_spark",
    "read_page",
    "register",
    "session",
    "to_spark",
    "why",
]
