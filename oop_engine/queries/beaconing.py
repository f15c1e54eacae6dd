"""Find hosts that call home like clockwork."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.api.windowing import session
from oop_engine.plan.ticks import Amount, amount_of, ticks_of
from oop_engine.queries.traffic import weighed
from operators.functions import avg, count, gap_variation, max, mean_gap
from operators.functions import sum as total


def beaconing(
    stream: Stream,
    *,
    contacts: int = 10,
    variation: float = 0.1,
    period: Amount = "10 s",
    contact: Amount = "1 s",
    range: Amount = "1 hour",
    slide: Amount | None = None,
    wattr: str = "ts",
) -> Stream:
    """Find pairs of hosts that are in contact often and at regular intervals.

    - `stream`: needs `wattr`, srcIP, destIP and a number of bytes (`bytes`, `ip_length` or `length`).
    - `contacts`: least number of contacts in a window.
    - `variation`: most irregular gaps: their coefficient of variation. People have about 1, a timer some hundredths.
    - `period`: least mean gap, because much that is harmless ticks faster.
    - `contact`: packets of a pair less than this apart are one contact.
    - `range`, `slide`: length and distance of the windows.
    - `wattr`: the windowing attribute.

    Contacts that last half of the period or more in the mean do not count, because exporters cut long flows into
    records, one an active timeout. Results: srcIP, destIP, contacts, period, variation, lasting, packets, bytes, wid,
    window_start, window_end. Source: Hu, Jang, Stoecklin et al., BAYWATCH: Robust Beaconing Detection (DSN 2016), for
    what a beacon is.

    >>> found = oop.queries.beaconing(oop.pcap("demos/captures/web.pcap.gz"), range="1 minute", contacts=3)
    >>> found.to_arrow().num_rows
    0
    """
    weighted, packets, octets = weighed(stream)
    pair = ("srcIP", "destIP")
    lasting = f"end_ts - {wattr}" if "end_ts" in stream.schema else f"{wattr} - {wattr}"
    sessions = weighted.derive(_lasting=lasting).window(session(contact, wattr=wattr))
    met = sessions.aggregate(packets=packets, bytes=octets, lasting=max("_lasting"), by=pair)
    regular = met.window(range=range, slide=slide, wattr="window_start").aggregate(
        contacts=count(),
        period=mean_gap("window_start"),
        variation=gap_variation("window_start"),
        lasting=avg("lasting"),
        packets=total("packets"),
        bytes=total("bytes"),
        by=pair,
    )
    field = regular.schema.field("period")
    least = amount_of(ticks_of(period, field, what="period"), field.type)
    called = regular.filter(
        lambda w: (w["contacts"] >= contacts) & (w["variation"] <= variation) & (w["period"] >= least)
    )
    return called.filter(lambda w: w["lasting"] + w["lasting"] <= w["period"])
