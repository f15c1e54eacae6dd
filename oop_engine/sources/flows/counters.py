"""The counters of an exporter: every datagram, record and set is in one of these numbers."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.channel import port_of, transport_of
from oop_engine.sources.flows.sessions import Sessions

_MALFORMED: Final = {
    "header": e.BAD_HEADER,
    "length": e.BAD_LENGTH,
    "set": e.BAD_SET,
    "record": e.BAD_RECORD,
    "template": e.BAD_TEMPLATE,
    "options": e.BAD_OPTIONS,
    "sample": e.BAD_SAMPLE,
    "field": e.BAD_FIELD,
    "too many": e.TOO_MANY,
}


@attrs.frozen
class ExporterCounters:
    """One session of an exporter: its address (16 bytes), channel (see `channel`), protocol and domain; or, without
    address, nobody's. The address of an agent of sFlow is the one it says; the port is of who sends for it.

    `lost` counts by the sequence what never came: flow records of v5, v7 and IPFIX, datagrams of v9 and sFlow; of v1,
    which has no sequence, nobody knows. One that
    comes late after all is taken from it and counted in `reordered`, as is any that comes behind one sent after it; a
    delay in which nothing overtakes a datagram shows in neither. `malformed` counts by reason: a header that is
    too short or of no version that is read, a length that is not the header's, a set or record or sample that reaches
    beyond what holds it, a template or options that cannot be, a field of a length its type cannot have (which is left
    out), and a datagram of too many records, of which `beyond` counts those behind the most that are read.
    `no_template` counts sets of data whose template never came, `held` those that wait for it. `skipped` are sets and
    samples of other kinds. `untimed` are records without a start and `unended` those without an end, as far as these
    columns are decoded. `shed` are those of `records` that were left out. `left_out` counts sets of templates and
    options, and first data of templates, that would have been more work than an exporter may make; `unused_rates` rates
    announced for what no record tells, such as a line card; `unsampled` packets that an agent of sFlow had not the
    means to sample; `unrated` records that name a sampler that is not announced, whose sampling is 1 as nothing else
    tells it (where `sampling` is read). `untold` counts datagrams behind which the sequence tells nothing of a loss, as
    not all that they hold could be counted: of IPFIX, mostly for want of a template. When that comes, `lost` has what
    was lost behind them; it never has what may have come. `unadmitted` counts datagrams of senders that were not known
    and came faster than they are taken in; nobody knows whether anything of them was lost.
    """

    address: bytes | None
    channel: int
    version: int
    domain: int
    datagrams: int
    records: int
    options: int
    counter_samples: int
    skipped: int
    templates: int
    withdrawn: int
    expired: int
    held: int
    no_template: int
    lost: int
    reordered: int
    duplicated: int
    restarts: int
    refused: int
    untimed: int
    unended: int
    shed: int
    beyond: int
    left_out: int
    unused_rates: int
    unsampled: int
    unrated: int
    untold: int
    unadmitted: int
    malformed: dict[str, int]

    @property
    def protocol(self) -> str:
        """Name the protocol: "NetFlow v1" (v5, v7, v9), "IPFIX", "sFlow v5"; "unknown" for what is none of them."""
        if self.version in (e.V1, e.V5, e.V7, e.V9):
            return f"NetFlow v{self.version}"
        return {e.IPFIX: "IPFIX", e.SFLOW: "sFlow v5"}.get(self.version, "unknown")

    @property
    def port(self) -> int:
        """Return the port that it sends from."""
        return port_of(self.channel)

    @property
    def transport(self) -> str:
        """Return "udp", "tcp" or "tls"."""
        return transport_of(self.channel)

    @property
    def losses(self) -> str:
        """Name what `lost` counts: flow records, or datagrams."""
        return "flow records" if self.version in (e.V5, e.V7, e.IPFIX) else "datagrams"


def counted(sessions: Sessions) -> list[ExporterCounters]:
    """Return the counters of all sessions; nobody's, with those of sessions that were left behind, last."""
    # Who is refused has said nothing that is believed, so it is not the agent that it says.
    rows = [
        ((sessions.senders if sessions.table[n, e.T_REFUSED] else sessions.keys)[n].tobytes(), sessions.table[n])
        for n in range(1, len(sessions.known))
    ]
    nobody = sessions.table[e.NOBODY].copy()
    nobody[e.COUNTERS :] += sessions.forgotten[e.COUNTERS :]
    found = [_one(address, row) for address, row in rows]
    if nobody[e.COUNTERS :].any():
        found.append(_one(None, nobody))
    return found


def _one(address: bytes | None, row: NDArray[np.int64]) -> ExporterCounters:
    def of(entry: int) -> int:
        return int(row[entry])

    return ExporterCounters(
        address=address, channel=of(e.T_PORT), version=of(e.T_VERSION), domain=of(e.T_DOMAIN),
        datagrams=of(e.DATAGRAMS), records=of(e.RECORDS), options=of(e.OPTION_RECORDS),
        counter_samples=of(e.COUNTER_SAMPLES), skipped=of(e.SKIPPED), templates=of(e.TEMPLATES_SEEN),
        withdrawn=of(e.WITHDRAWN), expired=of(e.EXPIRED), held=of(e.HELD), no_template=of(e.NO_TEMPLATE),
        lost=of(e.LOST), reordered=of(e.REORDERED), duplicated=of(e.DUPLICATED), restarts=of(e.RESTARTS),
        refused=of(e.REFUSED), untimed=of(e.UNTIMED), unended=of(e.UNENDED), shed=of(e.SHED), beyond=of(e.BEYOND),
        left_out=of(e.LEFT_OUT), unused_rates=of(e.UNUSED_RATES), unsampled=of(e.UNSAMPLED),
        unrated=of(e.UNRATED), untold=of(e.UNTOLD), unadmitted=of(e.UNADMITTED),
        malformed={reason: of(entry) for reason, entry in _MALFORMED.items() if of(entry)},
    )  # fmt: skip
