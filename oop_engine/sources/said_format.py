"""Read what a user writes for a file: its path, a format that may stand before it, and what it is called for short."""

from __future__ import annotations

import os
from typing import Final

FORMATS: Final = ("pcap", "netflow", "sflow_counters", "zeek", "nfdump", "csv", "tsv", "ndjson", "parquet", "arrow")


def said_format(place: str) -> tuple[str | None, str]:
    """Return the format that stands before a path, None where none does, and the path.

    >>> said_format("netflow:exports.pcap"), said_format("C:exports.pcap")
    (('netflow', 'exports.pcap'), (None, 'C:exports.pcap'))
    """
    said, colon, path = place.partition(":")
    return (said, path) if colon and said in FORMATS and not os.path.exists(place) else (None, place)


def short_name(place: object) -> str:
    """Call a file by its name up to the first dot.

    >>> short_name("netflow:exports/today.pcap.gz")
    'today'
    """
    return os.path.basename(said_format(str(place))[1]).partition(".")[0]
