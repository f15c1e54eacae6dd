"""Is somebody buried under answers that it never asked for?"""

from __future__ import annotations

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
) -> Stream:
    """Give the hosts that got so many bytes by UDP from this port of so many servers in one window.

    `port` is that of DNS; 123 (NTP), 389 (CLDAP) and 11211 (memcached) amplify too. Needs `wattr`, srcIP, destIP,
    srcPort, proto and a number of bytes. Results: destIP, bytes, packets, reflectors, wid, window_start, window_end.
    Source: Rossow, Amplification Hell: Revisiting Network Protocols for DDoS Abuse (NDSS 2014).
    """
    answers = stream.filter(lambda p: (p["proto"] == 17) & (p["srcPort"] == port))
    weighted, packets, octets = weighed(answers)
    windows = weighted.window(range=range, slide=slide, wattr=wattr)
    counted = windows.aggregate(bytes=octets, packets=packets, reflectors=count_distinct("srcIP"), by="destIP")
    return counted.filter(lambda w: (w["bytes"] >= bytes) & (w["reflectors"] >= reflectors))
