"""Find out what is wrong with flow exporters: clocks, delays, timeouts."""

from __future__ import annotations

from oop_engine.api.stream import Stream
from oop_engine.plan.ticks import Amount, amount_of, ticks_of
from operators.functions import count, max, min
from operators.functions import sum as total


def exporter_health(
    flows: Stream, *, skew: Amount = "2 s", range: Amount = "1 minute", wattr: str = "arrival_ts"
) -> Stream:
    """Report for each exporter and window what it sent, how far its clock is off, and how late its records are.

    - `flows`: needs `wattr`, exporter, domain, export_ts, arrival_ts, ts, end_ts, bytes and packets, as `oop.netflow`
      has them.
    - `skew`: how far a clock may be off.
    - `range`: length of the windows.
    - `wattr`: the windowing attribute.

    Results: records, bytes, packets, `clock` (how far the exporter's clock is ahead of ours, by its fastest datagram;
    headers have whole seconds, so less than a second is no skew), `off` (whether that is more than `skew` either way),
    `oldest` (how long before its export the oldest flow began, which a promise on `ts` must allow for), `waited` (the
    longest that a finished flow waited for its export), `longest` (the longest flow, which shows the active timeout),
    exporter, domain, wid, window_start, window_end. A silent exporter has no row. Source: RFC 3954, section 5.1, and
    RFC 7011, section 3.1.

    >>> found = oop.queries.exporter_health(oop.netflow("demos/captures/exports.pcap.gz"), range="1 hour")
    >>> found.project("exporter", "records", "off").to_arrow().to_pylist()
    [{'exporter': '192.0.2.2', 'records': 379, 'off': True}, {'exporter': '192.0.2.1', 'records': 2001, 'off':
    False}, {'exporter': '192.0.2.3', 'records': 1855, 'off': True}]
    """
    timed = flows.derive(
        _ahead="export_ts - arrival_ts", _age="export_ts - ts", _waited="export_ts - end_ts", _length="end_ts - ts"
    )
    told = timed.window(range=range, wattr=wattr).aggregate(
        records=count(),
        bytes=total("bytes"),
        packets=total("packets"),
        clock=max("_ahead"),
        oldest=max("_age"),
        waited=max("_waited"),
        longest=max("_length"),
        first=min("export_ts"),
        last=max("export_ts"),
        by=("exporter", "domain"),
    )
    field = told.schema.field("clock")
    most = ticks_of(skew, field, what="skew")
    ahead, behind = amount_of(most, field.type), amount_of(-most, field.type)
    return told.derive(off=lambda w: (w["clock"] > ahead) | (w["clock"] < behind))
