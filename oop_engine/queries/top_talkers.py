"""Who sends most?"""

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
    """Give the n sources with the most bytes in each window, largest first, and those level with the last of them.

    Needs `wattr`, `by` and a number of bytes (`bytes`, `ip_length` or `length`). `by="destIP"` asks who gets most,
    ("srcIP", "destIP") which pairs exchange most. Results: `by`, bytes, packets, wid, window_start, window_end.
    Source: query Q6-4 of the thesis asks for heavy hitters by share; this one by rank.
    """
    weighted, packets, octets = weighed(stream)
    windows = weighted.window(range=range, slide=slide, wattr=wattr)
    return windows.aggregate(bytes=octets, packets=packets, by=by).apply(Largest("bytes", n, ("wid",)))
