"""Find services that are flooded with SYNs."""

from __future__ import annotations

from oop_engine.api.early import Early
from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct


def syn_flood(
    stream: Stream,
    *,
    syns: int = 250,
    sources: int = 100,
    range: Amount = "10 s",
    slide: Amount | None = None,
    wattr: str = "ts",
    early: Early | Amount | None = None,
) -> Stream:
    """Find services that get many SYNs without an ACK from many sources, in one window.

    - `stream`: needs `wattr`, srcIP, destIP, destPort, proto and flags.
    - `syns`, `sources`: least number of SYNs, and of sources. Floods forge addresses, so they have about as many
      sources as packets.
    - `range`, `slide`: length and distance of the windows.
    - `wattr`: the windowing attribute.
    - `early`: also results before a window is complete, as in `aggregate`.

    Of flows, a record without any ACK counts. Results: destIP, destPort, syns, sources, wid, window_start, window_end.
    Source: RFC 4987, section 2.

    >>> found = oop.queries.syn_flood(oop.pcap("demos/captures/web.pcap.gz"), syns=5, sources=1)
    >>> found.to_arrow().num_rows
    2
    """
    tried, number = attempts(stream)
    windows = tried.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(syns=number, sources=count_distinct("srcIP"), by=("destIP", "destPort"), early=early)
    return counted.filter(lambda w: (w["syns"] >= syns) & (w["sources"] >= sources))
