"""Captures of packets, classic pcap and pcapng, become Arrow batches at the speed of the page cache."""

from oop_engine.sources.capture.capture import Capture
from oop_engine.sources.capture.errors import DecodeError
from oop_engine.sources.capture.schema import FURTHER_SCHEMA, NO_TIME, PACKET_SCHEMA

__all__ = ["FURTHER_SCHEMA", "NO_TIME", "PACKET_SCHEMA", "Capture", "DecodeError"]
