"""Is a service being flooded with SYNs?"""

from __future__ import annotations

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
) -> Stream:
    """Give the services that got so many SYNs without an ACK, from so many sources, in one window.

    A flood comes from addresses that are made up, so it has nearly as many sources as packets, and nobody acknowledges.
    Needs `wattr`, srcIP, destIP, destPort, proto and flags; of flows, a record without any ACK is taken. Results:
    destIP, destPort, syns, sources, wid, window_start, window_end. Source: RFC 4987, section 2.
    """
    tried, number = attempts(stream)
    windows = tried.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(syns=number, sources=count_distinct("srcIP"), by=("destIP", "destPort"))
    return counted.filter(lambda w: (w["syns"] >= syns) & (w["sources"] >= sources))
