"""Sinks take results out: a pure encoder turns pages to bytes, and a thin shell beside it writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.lazy import lazily

if TYPE_CHECKING:
    from oop_engine.sinks.choice import FORMS, STREAMED, sink_for
    from oop_engine.sinks.databases import DatabaseSink, DuckdbSink, FileDatabaseSink, PostgresqlSink, SqliteSink
    from oop_engine.sinks.encoders import Arrow, Csv, Ndjson, Packed, Parquet
    from oop_engine.sinks.errors import SinkError
    from oop_engine.sinks.files import FileSink, StreamSink
    from oop_engine.sinks.growing import GrowingSink, KeptSink
    from oop_engine.sinks.pagelog import PageLogSink
    from oop_engine.sinks.partitioned import PartitionedSink
    from oop_engine.sinks.protocol import Deliver, Encoder, Holding, Sink
    from oop_engine.sinks.python import ListSink, PageSink
    from oop_engine.sinks.terminal import TerminalSink

__all__ = [
    "FORMS",
    "STREAMED",
    "Arrow",
    "Csv",
    "DatabaseSink",
    "Deliver",
    "DuckdbSink",
    "Encoder",
    "FileDatabaseSink",
    "FileSink",
    "GrowingSink",
    "Holding",
    "KeptSink",
    "ListSink",
    "Ndjson",
    "Packed",
    "PageLogSink",
    "PageSink",
    "Parquet",
    "PartitionedSink",
    "PostgresqlSink",
    "Sink",
    "SinkError",
    "SqliteSink",
    "StreamSink",
    "TerminalSink",
    "sink_for",
]

lazily(
    __name__,
    {
        "oop_engine.sinks.choice": "FORMS STREAMED sink_for",
        "oop_engine.sinks.databases": "DatabaseSink DuckdbSink FileDatabaseSink PostgresqlSink SqliteSink",
        "oop_engine.sinks.encoders": "Arrow Csv Ndjson Packed Parquet",
        "oop_engine.sinks.errors": "SinkError",
        "oop_engine.sinks.files": "FileSink StreamSink",
        "oop_engine.sinks.growing": "GrowingSink KeptSink",
        "oop_engine.sinks.pagelog": "PageLogSink",
        "oop_engine.sinks.partitioned": "PartitionedSink",
        "oop_engine.sinks.protocol": "Deliver Encoder Holding Sink",
        "oop_engine.sinks.python": "ListSink PageSink",
        "oop_engine.sinks.terminal": "TerminalSink",
    },
)
