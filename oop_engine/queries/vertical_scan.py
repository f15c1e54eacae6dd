"""Is somebody trying the ports of a host?"""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct


def vertical_scan(
    stream: Stream, *, ports: int = 100, range: Amount = "1 minute", slide: Amount | None = None, wattr: str = "ts"
) -> Stream:
    """Give the pairs of hosts of which the first tried so many different ports of the second in one window.

    Counted are SYNs without an ACK, so a busy client's many ports are none. Needs `wattr`, srcIP, destIP, destPort,
    proto and flags. Results: srcIP, destIP, ports, attempts, wid, window_start, window_end. Source: Jung, Paxson,
    Berger and Balakrishnan, Fast Portscan Detection Using Sequential Hypothesis Testing (S&P 2004), section 3, for what
    a scan is; here it is told by a count.
    """
    tried, number = attempts(stream)
    windows = tried.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(ports=count_distinct("destPort"), attempts=number, by=("srcIP", "destIP"))
    return counted.filter(lambda w: w["ports"] >= ports)
