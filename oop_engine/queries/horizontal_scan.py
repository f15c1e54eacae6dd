"""Find sources that try one port of many hosts, however slowly."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.api.windowing import session
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import attempts
from operators.functions import count_distinct, min


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


def scan_so_far(
    stream: Stream, *, hosts: int = 50, gap: Amount = "15 minutes", slide: Amount = "15 s", wattr: str = "ts"
) -> Stream:
    """Find sources that have tried one port of many different hosts lately, before their scan is over.

    - `stream`, `hosts`, `wattr`: as in `horizontal_scan`.
    - `gap`: length of the windows. As it is that of a `horizontal_scan`, all attempts of a window are of one scan, and
      the whole of it reaches `hosts`, too.
    - `slide`: distance of the windows, and so how long after its last attempt a scan is found.

    Results: srcIP, destPort, hosts, attempts, first (the first attempt in the window), wid, window_start, window_end.

    >>> found = scan_so_far(oop.pcap("demos/captures/web.pcap.gz"), hosts=10, gap="20 s", slide="10 s")
    >>> found.project("destPort", "hosts", "attempts").to_arrow().to_pylist()
    [{'destPort': 80, 'hosts': 21, 'attempts': 61}, {'destPort': 80, 'hosts': 16, 'attempts': 38}]
    """
    tried, number = attempts(stream)
    counted = tried.window(range=gap, slide=slide, wattr=wattr).aggregate(
        hosts=count_distinct("destIP"), attempts=number, first=min(wattr), by=("srcIP", "destPort")
    )
    return counted.filter(lambda w: w["hosts"] >= hosts)
