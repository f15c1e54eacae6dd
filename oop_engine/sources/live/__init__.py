"""Live sources: datagrams as exporters send them, and packets as an interface sees them."""

from oop_engine.sources.live.certificate import Certificate
from oop_engine.sources.live.counters import LiveCounterReader, LiveCounters
from oop_engine.sources.live.door import BUFFER
from oop_engine.sources.live.exporters import Rules
from oop_engine.sources.live.interface import Interface
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.reading import Live
from oop_engine.sources.live.report import ExporterReport
from oop_engine.sources.live.shedding import Shedding
from oop_engine.sources.live.source import LiveFlows, LiveReader

__all__ = [
    "BUFFER",
    "Certificate",
    "ExporterProgress",
    "ExporterReport",
    "Interface",
    "Live",
    "LiveCounterReader",
    "LiveCounters",
    "LiveFlows",
    "LiveReader",
    "Rules",
    "Shedding",
]
