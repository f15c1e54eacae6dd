"""Find sources that try the ports of a host."""

from __future__ import annotations

from oop_engine.api.early import Early
from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct


def vertical_scan(
    stream: Stream,
    *,
    ports: int = 100,
    range: Amount = "1 minute",
    slide: Amount | None = None,
    wattr: str = "ts",
    early: Early | Amount | None = None,
) -> Stream:
    """Find pairs of hosts of which the first tries many ports of the second, in one window.

    - `stream`: needs `wattr`, srcIP, destIP, destPort, proto and flags.
    - `ports`: least number of ports.
    - `range`, `slide`: length and distance of the windows.
    - `wattr`: the windowing attribute.
    - `early`: also results before a window is complete, as in `aggregate`.

    SYNs without an ACK count, so the many ports of a busy client do not. Results: srcIP, destIP, ports, attempts, wid,
    window_start, window_end. Source: Jung, Paxson, Berger and Balakrishnan, Fast Portscan Detection Using Sequential
    Hypothesis Testing (S&P 2004), section 3, for what a scan is; here a count decides.

    >>> found = oop.queries.vertical_scan(oop.pcap("demos/captures/web.pcap.gz"), ports=2)
    >>> found.to_arrow().num_rows
    1
    """
    tried, number = attempts(stream)
    windows = tried.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(ports=count_distinct("destPort"), attempts=number, by=("srcIP", "destIP"), early=early)
    return counted.filter(lambda w: w["ports"] >= ports)
