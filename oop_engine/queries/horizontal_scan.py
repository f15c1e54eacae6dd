"""Find sources that try one port of many hosts, however slowly."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.api.windowing import session
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct


def horizontal_scan(stream: Stream, *, hosts: int = 50, gap: Amount = "15 minutes", wattr: str = "ts") -> Stream:
    """Find sources that try one port of many different hosts, without a long pause.

    - `stream`: needs `wattr`, srcIP, destIP, destPort, proto and flags.
    - `hosts`: least number of hosts.
    - `gap`: a longer pause ends a scan.
    - `wattr`: the windowing attribute.

    Windows are sessions of the source and the port, so slow scans are seen whole. SYNs without an ACK count. Results:
    srcIP, destPort, hosts, attempts, wid, window_start, window_end, which is `gap` after the last attempt. Source: as
    `vertical_scan`.

    >>> found = oop.queries.horizontal_scan(oop.pcap("demos/captures/web.pcap.gz"), hosts=10)
    >>> found.project("destPort", "hosts", "attempts").to_arrow().to_pylist()
    [{'destPort': 80, 'hosts': 21, 'attempts': 61}]
    """
    tried, number = attempts(stream)
    counted = tried.window(session(gap, wattr=wattr)).aggregate(
        hosts=count_distinct("destIP"), attempts=number, by=("srcIP", "destPort")
    )
    return counted.filter(lambda w: w["hosts"] >= hosts)
