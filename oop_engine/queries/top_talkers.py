"""Find the hosts that send most."""

from __future__ import annotations

from collections.abc import Sequence

from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount
from oop_engine.queries.traffic import weighed
from operators.rows.largest import Largest


def top_talkers(
    stream: Stream,
    *,
    n: int = 10,
    by: str | Sequence[str] = "srcIP",
    range: Amount = "1 minute",
    slide: Amount | None = None,
    wattr: str = "ts",
) -> Stream:
    """Select the sources with the most bytes in each window, largest first, with all that tie for the last place.

    - `stream`: needs `wattr`, `by` and a number of bytes (`bytes`, `ip_length` or `length`).
    - `n`: how many sources.
    - `by`: "srcIP"; "destIP" for receivers; ("srcIP", "destIP") for pairs.
    - `range`, `slide`: length and distance of the windows.
    - `wattr`: the windowing attribute.

    Results: `by`, bytes, packets, wid, window_start, window_end. Source: query Q6-4 of the thesis asks for heavy
    hitters by share; this one asks by rank.

    >>> found = oop.queries.top_talkers(oop.pcap("demos/captures/web.pcap.gz"), n=1)
    >>> found.project("srcIP", "bytes").to_arrow().to_pylist()
    [{'srcIP': '212.199.202.9', 'bytes': 3012757}]
    """
    weighted, packets, octets = weighed(stream)
    windows = weighted.window(range=range, slide=slide, wattr=wattr)
    return windows.aggregate(bytes=octets, packets=packets, by=by).apply(Largest("bytes", n, ("wid",)))
