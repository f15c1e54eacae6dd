"""Compute hourly tables from DataFrames: the measures of a row, their sums by flow, and what follows from these.

Counts of a flow in an hour add up: `measured` gives what each row of a capture or of flow exports contributes,
`summed` or `partial` add some of it, and `flows` all. Of flows follow `sources`, and `alerts`: a source that in an hour
sent SYN without ACK to many ports of one host (`scan`) or to many hosts (`sweep`). A row without a time is in the hour
`unknown`; what exports count is times their sampling rate; `kind` tells packets and exports apart.

None of them but `partial` asks Spark for columns, which the query functions of declarative pipelines may not do. The
hour is the last column, where Spark wants what a table is partitioned by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oop_engine.sources.capture import PACKET_SCHEMA
from oop_engine.spark.schema import Wanted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

EXPORTS: Final = ("*netflow*", "*ipfix*", "*sflow*")
"""Names of captures that hold flow exports, if there are export datagrams in them."""
MANY: Final = 100
"""Ports of a host, or hosts, from which on a source is told of."""
KEY: Final = ("srcIP", "destIP", "srcPort", "destPort", "proto")
_READ: Final = {"packets": ("length",), "exports": ("end_ts", "packets", "bytes", "sampling")}
_MEASURES: Final = ("packets", "bytes", "first", "last", "flags")
_MEASURED: Final = "packets bigint, bytes bigint, first timestamp, last timestamp, flags int"
_SYN_ALONE: Final = "flags & 18 = 2"
_HELD: Final = 1 << 18
_ADDED: Final = (("packets", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max"))


def reader(spark: SparkSession, kind: str, exports: Sequence[str] = EXPORTS) -> DataStreamReader:
    """Return a reader of the new `packets`, or `exports`, of a folder; the caller adds options and load()."""
    return (
        spark.readStream.format("oop.pcap" if kind == "packets" else "oop.netflow")
        .option("exports", ",".join(exports))
        .option("columns", ",".join(("ts", *KEY, "flags", *_READ[kind])))
    )


def measured(rows: DataFrame, kind: str) -> DataFrame:
    """Return the hour, the flow and the measures of every row that `reader` reads."""
    # Optional: pyspark.
    from pyspark.sql import functions as f

    if kind == "packets":
        packets, size, last = f.lit(1).cast("bigint"), f.col("length").cast("bigint"), f.col("ts")
    else:
        packets = f.expr("cast(packets as bigint) * sampling").cast("bigint")
        size = f.expr("cast(bytes as bigint) * sampling").cast("bigint")
        last = f.coalesce("end_ts", "ts")
    hour = f.coalesce(f.date_format("ts", "yyyy-MM-dd'T'HH"), f.lit("unknown"))
    return rows.select(
        f.lit(kind).alias("kind"),
        *KEY,
        packets.alias("packets"),
        size.alias("bytes"),
        f.col("ts").alias("first"),
        last.alias("last"),
        f.col("flags").cast("int").alias("flags"),
        hour.alias("hour"),
    )


def summed(counts: DataFrame) -> DataFrame:
    """Add up measures by hour and flow."""
    return counts.groupBy("kind", "hour", *KEY).agg(*_sums()).select("kind", *KEY, *_MEASURES, "hour")


flows = summed
"""The table of flows: all that was counted of each, by hour."""


def partial(counts: DataFrame) -> DataFrame:
    """Add up measures by hour and flow within each partition, so that few rows are kept; streaming, too."""
    schema = Wanted.of(PACKET_SCHEMA, KEY).struct
    columns = [f"{field.name} {field.dataType.simpleString()}" for field in schema]
    return counts.mapInArrow(_partial, f"kind string, {', '.join(columns)}, {_MEASURED}, hour string")


def sources(flows: DataFrame) -> DataFrame:
    """Return what each source sent in an hour, in how many flows, to how many peers."""
    # Optional: pyspark.
    from pyspark.sql import functions as f

    more = [f.count("*").alias("flows"), f.count_distinct("destIP").alias("peers")]
    packets, size, first, last, _ = _sums()
    sums = flows.groupBy("kind", "hour", "srcIP").agg(packets, size, *more, first, last)
    return sums.select("kind", "srcIP", "packets", "bytes", "flows", "peers", "first", "last", "hour")


def alerts(flows: DataFrame, many: int = MANY) -> DataFrame:
    """Return the sources that tried many ports of one host, or many hosts, in an hour."""
    # Optional: pyspark.
    from pyspark.sql import functions as f

    tried = flows.where(_SYN_ALONE)
    ports = tried.groupBy("kind", "hour", "srcIP", "destIP").agg(f.count_distinct("destPort").alias("value"))
    scans = ports.groupBy("kind", "hour", "srcIP").agg(f.max("value").alias("value"))
    hosts = tried.groupBy("kind", "hour", "srcIP").agg(f.count_distinct("destIP").alias("value"))
    both = scans.withColumn("alert", f.lit("scan")).unionByName(hosts.withColumn("alert", f.lit("sweep")))
    return both.where(f.col("value") >= many).select("kind", "srcIP", "alert", "value", "hour")


def _sums() -> list[Column]:
    # Optional: pyspark.
    from pyspark.sql import functions as f

    return [
        f.sum("packets").alias("packets"),
        f.sum("bytes").alias("bytes"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        f.bit_or("flags").alias("flags"),
    ]


def _partial(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up rows of equal hour, flow and flags; what is held is given when it is much."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(_added(pa.Table.from_batches([batch])))
        if sum(map(len, held)) > _HELD:
            held = [_added(pa.concat_tables(held))]
            if len(held[0]) > _HELD // 2:
                yield from held.pop().to_batches()
    if held:
        yield from _added(pa.concat_tables(held)).to_batches()


def _added(rows: pa.Table) -> pa.Table:
    by = ["kind", *KEY, "flags", "hour"]
    added = rows.group_by(by, use_threads=False).aggregate([*_ADDED])
    names = {f"{name}_{function}": name for name, function in _ADDED}
    named = added.rename_columns([names.get(name, name) for name in added.column_names])
    return named.select(rows.column_names).cast(rows.schema)
