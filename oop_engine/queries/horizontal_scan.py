"""Is somebody trying one port of many hosts, however slowly?"""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.api.windowing import session
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct


def horizontal_scan(stream: Stream, *, hosts: int = 50, gap: Amount = "15 minutes", wattr: str = "ts") -> Stream:
    """Give the sources that tried one port of so many different hosts, never pausing for longer than `gap`.

    A session of the source and the port, not a window of the clock, so that what takes its time is seen whole. Counted
    are SYNs without an ACK. Needs `wattr`, srcIP, destIP, destPort, proto and flags. Results: srcIP, destPort, hosts,
    attempts, wid, window_start, window_end, which is `gap` after the last attempt. Source: as `vertical_scan`.
    """
    tried, number = attempts(stream)
    counted = tried.window(session(gap, wattr=wattr)).aggregate(
        hosts=count_distinct("destIP"), attempts=number, by=("srcIP", "destPort")
    )
    return counted.filter(lambda w: w["hosts"] >= hosts)
