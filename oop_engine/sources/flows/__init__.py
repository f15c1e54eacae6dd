"""Flow exports, NetFlow, IPFIX and sFlow v5, become Arrow batches; so do files of nfdump and logs of Zeek."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.lazy import lazily

if TYPE_CHECKING:
    from oop_engine.sources.flows.captured import PORTS
    from oop_engine.sources.flows.counters import ExporterCounters
    from oop_engine.sources.flows.datagrams import Datagrams
    from oop_engine.sources.flows.decoder import FlowDecoder, flow_columns
    from oop_engine.sources.flows.element_file import read_elements
    from oop_engine.sources.flows.elements import ELEMENTS, Element
    from oop_engine.sources.flows.interface_counters import COUNTER_SCHEMA, InterfaceCounters
    from oop_engine.sources.flows.nfdump import NfdumpFiles
    from oop_engine.sources.flows.schema import FLOW_ALIASES, FLOW_SCHEMA
    from oop_engine.sources.flows.source import FlowExports, FlowReader
    from oop_engine.sources.flows.zeek import ZEEK_ALIASES, ZeekLogs

__all__ = [
    "COUNTER_SCHEMA",
    "ELEMENTS",
    "FLOW_ALIASES",
    "FLOW_SCHEMA",
    "PORTS",
    "ZEEK_ALIASES",
    "Datagrams",
    "Element",
    "ExporterCounters",
    "FlowDecoder",
    "FlowExports",
    "FlowReader",
    "InterfaceCounters",
    "NfdumpFiles",
    "ZeekLogs",
    "flow_columns",
    "read_elements",
]

lazily(
    __name__,
    {
        "oop_engine.sources.flows.captured": "PORTS",
        "oop_engine.sources.flows.counters": "ExporterCounters",
        "oop_engine.sources.flows.datagrams": "Datagrams",
        "oop_engine.sources.flows.decoder": "FlowDecoder flow_columns",
        "oop_engine.sources.flows.element_file": "read_elements",
        "oop_engine.sources.flows.elements": "ELEMENTS Element",
        "oop_engine.sources.flows.interface_counters": "COUNTER_SCHEMA InterfaceCounters",
        "oop_engine.sources.flows.nfdump": "NfdumpFiles",
        "oop_engine.sources.flows.schema": "FLOW_ALIASES FLOW_SCHEMA",
        "oop_engine.sources.flows.source": "FlowExports FlowReader",
        "oop_engine.sources.flows.zeek": "ZEEK_ALIASES ZeekLogs",
    },
)
