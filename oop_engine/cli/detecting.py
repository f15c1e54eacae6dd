"""Attacks by name: the ready query of each, the thresholds that it takes, and its events as a line that people read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, Final

import attrs

from oop_engine.api.stream import Stream
from oop_engine.cli.detect import ATTACKS
from oop_engine.plan.ticks import Amount, amount_of, ticks_of
from oop_engine.queries import beaconing, dns_amplification, horizontal_scan, syn_flood, vertical_scan
from oop_engine.queries.traffic import ATTEMPT
from operators.window_aggregate.early.firing import FIRED
from operators.window_aggregate.results import STOP


@attrs.frozen
class Attack:
    """One kind of attack."""

    query: Callable[..., Stream]
    counted: str
    """What a result counts, which is never 0."""
    line: str
    """What happened, with names of attributes in braces."""
    early: bool = False
    """Whether its windows give early results."""
    spreads: Callable[[Mapping[str, Any]], str] | None = None
    """Which flows are shared out over the time that they lasted, where what they carry is counted by window."""


KINDS: Final = {
    "syn_flood": Attack(
        syn_flood, "syns", "{destIP} port {destPort}: {syns:,} SYNs without an ACK from {sources:,} sources",
        early=True, spreads=lambda given: ATTEMPT,
    ),
    "vertical_scan": Attack(
        vertical_scan, "ports", "{srcIP} tries {ports:,} ports of {destIP}", early=True,
    ),
    "horizontal_scan": Attack(
        horizontal_scan, "hosts", "{srcIP} tries port {destPort} of {hosts:,} hosts",
    ),
    "dns_amplification": Attack(
        dns_amplification, "bytes", "{destIP}: {bytes:,} bytes of answers from {reflectors:,} servers",
        early=True, spreads=lambda given: f"proto = 17 and srcPort = {given.get('port', 53)}",
    ),
    "beaconing": Attack(
        beaconing, "contacts", "{srcIP} calls {destIP}: {contacts:,} contacts, one every {period:.1f} s",
    ),
}  # fmt: skip
"""How each attack is found."""


def alerts(attack: str, stream: Stream, given: Mapping[str, Any], *, early: str | None = None) -> Stream:
    """Return the events of an attack in a stream of packets or flow records, with the thresholds that were given.

    - `early`: how often windows are looked at before they are complete, where they can be.

    What a flow carries is shared out over the time that it lasted, so that a long flow is no burst where it ends.
    """
    kind = KINDS[attack]
    if kind.spreads is not None and {"end_ts", "bytes", "packets"} <= set(stream.schema.names):
        step = _step(stream, given.get("range", ATTACKS[attack]["range"]), early)
        stream = stream.filter(kind.spreads(given)).spread("bytes", "packets", step=step)
    options = {"early": early} if kind.early and early is not None else {}
    return kind.query(stream, **given, **options).alert(attack, f"{kind.counted} > 0")


def _step(stream: Stream, length: Any, early: str | None) -> Amount:
    """Return the panes over which flows are shared out: each window, and each part of one that is looked at, has whole
    ones."""
    field = stream.schema.field("ts")
    parts = [ticks_of(amount, field, what="--early") for amount in (length, early) if amount is not None]
    return amount_of(gcd(*parts), field.type)


def text(row: Mapping[str, Any]) -> str:
    """Write an event, a row as people read it, as a line: when it is known, what it is, and of whom."""
    kind = KINDS[row["alert"]]
    if row[kind.counted] is None:
        names = [name for name in ("srcIP", "destIP", "destPort") if row.get(name) is not None]
        what = f"{', '.join(str(row[name]) for name in names)}: over"
    else:
        what = kind.line.format(**row)
    event = row["event"].ljust(11 if FIRED in row else 6)
    return f"{row.get(FIRED, row[STOP])}  {event}  {row['alert']}  {what}  (since {row['since']})"
