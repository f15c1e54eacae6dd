"""Find hosts that are flooded with answers they never asked for."""

from __future__ import annotations

from oop_engine.api.early import Early
from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import weighed
from operators.functions import count_distinct


def dns_amplification(
    stream: Stream,
    *,
    bytes: int = 100_000,
    reflectors: int = 20,
    port: int = 53,
    range: Amount = "10 s",
    slide: Amount | None = None,
    wattr: str = "ts",
    early: Early | Amount | None = None,
) -> Stream:
    """Find hosts that get many bytes by UDP from one port of many servers, in one window.

    - `stream`: needs `wattr`, srcIP, destIP, srcPort, proto and a number of bytes (`bytes`, `ip_length` or `length`).
    - `bytes`, `reflectors`: least number of bytes, and of servers.
    - `port`: that of DNS; 123 (NTP), 389 (CLDAP) and 11211 (memcached) amplify too.
    - `range`, `slide`: length and distance of the windows.
    - `wattr`: the windowing attribute.
    - `early`: also results before a window is complete, as in `aggregate`.

    Results: destIP, bytes, packets, reflectors, wid, window_start, window_end. Source: Rossow, Amplification Hell:
    Revisiting Network Protocols for DDoS Abuse (NDSS 2014).

    >>> found = oop.queries.dns_amplification(oop.pcap("demos/captures/web.pcap.gz"), bytes=1_000, reflectors=1)
    >>> found.to_arrow().num_rows
    2
    """
    answers = stream.filter(lambda p: (p["proto"] == 17) & (p["srcPort"] == port))
    weighted, packets, octets = weighed(answers)
    windows = weighted.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(
        bytes=octets, packets=packets, reflectors=count_distinct("srcIP"), by="destIP", early=early
    )
    return counted.filter(lambda w: (w["bytes"] >= bytes) & (w["reflectors"] >= reflectors))
