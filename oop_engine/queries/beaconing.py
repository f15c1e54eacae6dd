"""Does a host call home like clockwork?"""

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
    """Give the pairs of hosts that were in contact so often in a window, and so regularly.

    A contact is a session of the pair: packets less than `contact` apart. Of the gaps between contacts the coefficient
    of variation is at most `variation` (people have about 1, a timer with jitter some hundredths), and the mean at
    least `period`, since much that is harmless ticks faster. A flow that lasts half of the period or more in the mean
    is none: exporters cut what goes on for long into records, one an active timeout. Needs `wattr`, srcIP, destIP and a
    number of bytes.
    Results: srcIP, destIP, contacts, period, variation, lasting, packets, bytes, wid, window_start, window_end.
    Source: Hu, Jang, Stoecklin et al., BAYWATCH: Robust Beaconing Detection (DSN 2016), for what a beacon is.
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
