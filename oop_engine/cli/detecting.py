"""Attacks by name: the ready query of each, the thresholds that it takes, and its events as a line that people read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from typing import Any, Final

import attrs

from oop_engine.api.stream import Stream
from oop_engine.api.trigger import Trigger
from oop_engine.cli.detect import ATTACKS
from oop_engine.plan.ticks import Amount, amount_of, ticks_of
from oop_engine.queries import beaconing, dns_amplification, horizontal_scan, syn_flood, vertical_scan
from oop_engine.queries.horizontal_scan import scan_so_far
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
    so_far: Callable[..., Stream] | None = None
    """Finds it before it is over, where its windows are sessions, which give no early results."""
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
        horizontal_scan, "hosts", "{srcIP} tries port {destPort} of {hosts:,} hosts", so_far=scan_so_far,
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


def alerts(
    attack: str, stream: Stream, given: Mapping[str, Any], *, early: str | None = None, live: bool = False
) -> list[Stream]:
    """Return the events of an attack in a stream of packets or flow records, with the thresholds that were given.

    - `early`: how often windows are looked at before they are complete, where they can be.
    - `live`: look by a clock, too, at what has come by then; else only by the times in the stream, at what is promised.

    Of what sessions find, provisional events are a stream of their own.

    What a flow carries is shared out over the time that it lasted, so that a long flow is no burst where it ends.
    """
    kind = KINDS[attack]
    if kind.spreads is not None and {"end_ts", "bytes", "packets"} <= set(stream.schema.names):
        step = _step(stream, given.get("range", ATTACKS[attack]["range"]), early)
        stream = stream.filter(kind.spreads(given)).spread("bytes", "packets", step=step)
    options: dict[str, Any] = {}
    if kind.early and early is not None:
        options["early"] = Trigger.every(early) | Trigger.clock(early) if live else early
    events = kind.query(stream, **given, **options).alert(attack, f"{kind.counted} > 0")
    if kind.so_far is None or early is None:
        return [events]
    gap = given.get("gap", ATTACKS[attack]["gap"])
    found = kind.so_far(stream, **given, slide=_looks(stream, gap, early)).alert(attack, f"{kind.counted} > 0")
    return [_provisional(found, events.schema.names), events]


def _provisional(found: Stream, names: Sequence[str]) -> Stream:
    """Return the events of an attack that is found while it goes on, with these attributes of those at its end."""
    others = [name for name in names if name not in ("event", "since")]
    opened = found.filter("event = 'open'")
    return opened.project(*others, event="'provisional'", since="first", **{FIRED: STOP})


def _looks(stream: Stream, gap: Amount, early: str) -> Amount:
    """Return how often sessions are looked at: as is said, but not more often than each sixtieth of their gap."""
    field = stream.schema.field("ts")
    longest, step = (ticks_of(amount, field, what="--early") for amount in (gap, early))
    return amount_of(min(longest, max(step, longest // 60)), field.type)


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
    return f"{row.get(FIRED) or row[STOP]}  {event}  {row['alert']}  {what}  (since {row['since']})"
