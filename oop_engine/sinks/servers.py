"""Choose the sink for a server by the scheme of its URI; what a scheme needs is imported once it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from oop_engine.sinks.protocol import Sink

SERVERS: Final = {
    "kafka": "oop_engine.sinks.kafka.KafkaSink",
    **dict.fromkeys(("clickhouse", "clickhouses"), "oop_engine.sinks.clickhouse.ClickhouseSink"),
    **dict.fromkeys(("influx", "influxs"), "oop_engine.sinks.influx.InfluxSink"),
    **dict.fromkeys(("prometheus", "prometheuss"), "oop_engine.sinks.prometheus.PrometheusSink"),
    **dict.fromkeys(("http", "https"), "oop_engine.sinks.posts.HttpSink"),
    **dict.fromkeys(("syslog", "syslog+tcp"), "oop_engine.sinks.syslog_messages.SyslogSink"),
}
"""The sinks of servers by scheme; each is `named` by a URI."""


def server_sink(text: str) -> Sink | None:
    """Return the sink of the server that a URI names, None where it names none; SinkError for one with wrong parts."""
    place = SERVERS.get(text.partition(":")[0].lower()) if "://" in text else None
    if place is None:
        return None
    module, _, name = place.rpartition(".")
    # Start-up: few results go to a server.
    return cast("Sink", getattr(import_module(module), name).named(text))
