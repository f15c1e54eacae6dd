"""Rates that one can bill by: a percentile and the maximum of each interface or prefix, with a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from oop_engine.api.stream import Stream
from oop_engine.api.windowing import calendar, tumbling
from oop_engine.errors import PlanError
from oop_engine.plan.dates import UNITS
from oop_engine.plan.ticks import Amount, positive, tick_ns, ticks_of
from oop_engine.queries.traffic import octets_of
from operators.functions import argmax, argmin, count_distinct, max, min
from operators.functions import sum as total
from operators.window_aggregate.results import START, STOP

CERTIFIED: Final = ("lost", "received")
"""Columns of flow exports that certify the loss: what an exporter's sequence says never came, and what came."""
_SESSION: Final = ("exporter", "exporter_port", "domain")
_TWICE: Final = "_duplicate"
_ENDS: Final = (START, STOP)


def rates(
    stream: Stream,
    *,
    by: str | Sequence[str] = ("exporter", "out_if"),
    slot: Amount = "5 minutes",
    per: Amount = "month",
    zone: str = "UTC",
    origin: Amount = 0,
    share: float = 0.95,
    once: bool = False,
    reach: Amount = "2 s",
    lateness: Amount = 0,
    wattr: str = "ts",
) -> Stream:
    """Compute the rates that are billed: the 95th percentile and the maximum of bits per second over slots of a period.

    - `stream`: needs `wattr`, `by` and a number of bytes (`bytes`, `ip_length` or `length`); of flow records end_ts.
    - `by`: what is billed: interfaces, prefixes, customers.
    - `slot`: the length over which a rate is taken.
    - `per`, `zone`, `origin`: the period, as in `Stream.billing`: "month", or a length such as "30 days".
    - `share`: the percentile.
    - `once`: count a flow once that several observers tell of, within each value of `by`, as `Stream.dedup` does.
    - `reach`: how far the clocks of two observers may be apart.
    - `lateness`: how late records may be and still count. Then `late` and `late_share` are the bytes that these added
      to slots which had a result before, and their share.
    - `wattr`: the windowing attribute, at which flows start.

    Bytes are spread over the life of flows, and count times `sampling`. The percentile is that of the nearest rank over
    all slots; slots without traffic count as zero. Results: `by`, p95_bps, max_bps, bytes; and the certificate: slots,
    empty (without traffic), missing (nothing was heard of the exporter, or of any if `by` has none), sampling_least and
    sampling_most, duplicates (bytes that do not count, with `once`), lost, loss (the share of it) and
    incomplete_exporters if the stream has `lost` and `received`, window_start and window_end of the period.

    >>> exports = oop.netflow("demos/captures/exports.pcap.gz", columns=["lost", "received"])
    >>> found = oop.queries.rates(exports, by=["exporter", "in_if"], slot="1 s", per="15 minutes")
    >>> found.project("exporter", "p95_bps", "max_bps", "lost").to_arrow().to_pylist()
    [{'exporter': '192.0.2.1', 'p95_bps': 150712.0, 'max_bps': 737712.0, 'lost': 0}, {'exporter': '192.0.2.2',
    'p95_bps': 184560.0, 'max_bps': 783840.0, 'lost': 0}, {'exporter': '192.0.2.3', 'p95_bps': 155488.0, 'max_bps':
    619568.0, 'lost': 0}]
    """
    groups = (by,) if isinstance(by, str) else tuple(by)
    positive(slot, what="slot")
    schema = stream.schema
    flows = {"end_ts", "bytes"} <= set(schema.names)
    octets = octets_of(stream)
    if once and lateness:
        raise PlanError(
            "rates(once=True, lateness=...): what was promised decides which flows count once, so late ones cannot."
            "\n  Leave one of the two out."
        )
    if once and not flows:
        raise PlanError("rates(once=True): packets have no observers that could see them twice.\n  Leave once out.")
    counted = stream
    if once:
        counted = counted.dedup(by=groups, mark=_TWICE, reach=reach, start=wattr)
    if flows:
        counted = counted.spread("bytes", step=slot, start=wattr)
    sampled = "sampling" in schema
    amount = f"{octets} * sampling" if sampled else octets
    columns = {"_octets": f"CASE WHEN {_TWICE} THEN 0 ELSE {amount} END" if once else amount}
    functions: dict[str, Any] = {"bytes": total("_octets")}
    if once:
        columns["_twice"] = f"CASE WHEN {_TWICE} THEN {amount} ELSE 0 END"
        functions["_duplicates"] = total("_twice")
    if sampled:
        functions |= {"_least": min("sampling"), "_most": max("sampling")}
    slots = (
        counted.derive(**columns).window(range=slot, wattr=wattr).aggregate(**functions, by=groups, lateness=lateness)
    )
    certificate: dict[str, Any] = {"bytes": total("bytes")}
    if sampled:
        certificate |= {"sampling_least": min("_least"), "sampling_most": max("_most")}
    if once:
        certificate["duplicates"] = total("_duplicates")
    sources = [name for name in groups if name == "exporter"]
    on_time = {"_on_time": total("bytes")} if lateness else None
    bills = slots.derive(bps=f"bytes * 8 / {_seconds(stream, slot, wattr)}").billing(
        "bps", per=per, zone=zone, origin=origin, share=share, sources=sources, on_time=on_time, **certificate
    )
    if lateness:
        own = [name for name in bills.schema.names if name not in ("_on_time", *_ENDS)]
        late = bills.derive(_late="greatest(bytes - coalesce(_on_time, 0), 0)")
        share_of = "CASE WHEN bytes > 0 THEN _late / bytes ELSE 0.0 END"
        bills = late.project(*own, *_ENDS, late="_late", late_share=share_of)
    if set(CERTIFIED) <= set(schema.names):
        own = [name for name in bills.schema.names if name not in _ENDS]
        losses = _losses(stream, per, zone, origin, sources, wattr)
        told = bills.join(losses, sources, wattr=START, range="1 s", kind="left", prefix="_loss_")
        bills = told.project(*own, "lost", "loss", "incomplete_exporters", *_ENDS)
    return bills.ranked(groups, None, within=_ENDS)


def _losses(stream: Stream, per: Amount, zone: str, origin: Amount, sources: Sequence[str], wattr: str) -> Stream:
    """Return what the sequences of exporters say was lost in each period."""
    dated = isinstance(per, str) and per.strip().lower().rstrip("s") in UNITS
    period = calendar(str(per), zone=zone, wattr=wattr) if dated else tumbling(per, origin=origin, wattr=wattr)
    # What came rises with each datagram, so it tells the first and the last one.
    sessions = stream.window(period).aggregate(
        _first=argmin("lost", "received"), _last=argmax("lost", "received"), _from=min("received"), _to=max("received"),
        by=_SESSION,
    )  # fmt: skip
    told = sessions.derive(_lost="greatest(_last - _first, 0)", _received="_to - _from").derive(
        _incomplete="CASE WHEN _lost > 0 THEN exporter END"
    )
    summed = told.aggregate(
        lost=total("_lost"), _received=total("_received"), incomplete_exporters=count_distinct("_incomplete"),
        by=[*sources, START],
    )  # fmt: skip
    return summed.derive(loss="CASE WHEN lost + _received > 0 THEN lost / (lost + _received) ELSE 0.0 END")


def _seconds(stream: Stream, slot: Amount, wattr: str) -> int | float:
    field = stream.schema.field(wattr, where="rates")
    tick = tick_ns(field.type)
    if tick is None:
        raise PlanError(
            f'rates: "{wattr}" has type {field.type}, and a rate is per second.\n'
            "  Make it a time first: stream.derive(at=\"cast(ts, 'timestamp[s]')\")."
        )
    seconds = Fraction(ticks_of(slot, field, what="slot") * tick, 10**9)
    return int(seconds) if seconds.denominator == 1 else float(seconds)
