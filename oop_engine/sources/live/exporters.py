"""The progress of an exporter: what its clock says, how far its records trail it, whether it is present.

A record is sent some time after its flow's last packet: when the flow was idle for the inactive timeout and the cache
was scanned. So nothing that an exporter sends later ends before

    header time - inactive - scan

and, as a long flow is reported once in every active timeout, nothing starts before that - active. The timeouts are
said by the user, announced by the exporter (flowActiveTimeout, flowIdleTimeout), or learnt: the longest that was seen.
While little was seen it is taken to be twice that, and no less than what most exporters are set to.

Everything here is arithmetic: time and arrivals are arguments, in ns since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data.page import Bools, Int64s
from operators.streams.skew import RESOLUTION, STEPPED, Greatest, Skew
from punctuation import NO_TIME

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
FARTHEST: Final = 24 * 60 * MINUTE
"""Flow times are believed as far ahead as their exporter's own clock is, up to this."""
FOLLOWED: Final = 2 * SECOND
"""One that is followed is assumed to be as far as its clock must be, less this: headers tell whole seconds, and
datagrams are under way for some time."""
USUAL: Final = 15 * SECOND
"""The inactive timeout that most exporters have unless they are set to another."""
LEARNT: Final = 4
"""How many times as long as its records may trail an exporter is heard until what was seen of them tells."""
MANY: Final = -1
"""Stands for the port of those that are one exporter, though they send from too many ports to be told apart."""


def _span(_: object, attribute: attrs.Attribute[int], value: int | None) -> None:
    if value is not None and value < 0:
        raise ValueError(f"{attribute.name} = {value}: a length of time is not negative")


@attrs.frozen(kw_only=True)
class Rules:
    """The assumptions on exporters, and how long they hold; all in ns.

    `active`, `inactive` and `scan` are those of the flow caches, where they are known. `settle`: how long nothing is
    promised at the start, so that all exporters are heard and what they announce. `lull`: an exporter that is silent
    for longer is assumed to be as far as its clock must be, less that (None: never). `idle`: one that is silent for
    longer holds nobody back. `future`: no exporter is believed to be further than that ahead of the clock here, and no
    flow time further ahead of both its exporter's clock and its arrival.
    `skew`: one whose clock is further off is set aside. `longest`: what trails a header by more is not learnt from,
    nor is a longer timeout believed.
    `trusted_after`: datagrams with records after which an exporter has a say. `correct`: times are put right by the
    estimated skew.
    """

    active: int | None = attrs.field(default=None, validator=_span)
    inactive: int | None = attrs.field(default=None, validator=_span)
    scan: int = attrs.field(default=10 * SECOND, validator=_span)
    settle: int = attrs.field(default=10 * SECOND, validator=_span)
    lull: int | None = attrs.field(default=10 * SECOND, validator=_span)
    idle: int = attrs.field(default=MINUTE, validator=_span)
    future: int = attrs.field(default=5 * MINUTE, validator=_span)
    skew: int = attrs.field(default=5 * MINUTE, validator=_span)
    longest: int = attrs.field(default=120 * MINUTE, validator=_span)
    trusted_after: int = attrs.field(default=3, validator=_span)
    correct: bool = False


_PLAIN: Final = (
    "domain", "first", "last", "datagrams", "doubted", "steps", "offset", "active", "inactive", "late", "contradicted",
    "listened",
)  # fmt: skip
_LATER: Final = ("timeless", "undated", "future")
SAVED: Final = pa.schema(
    [
        pa.field("address", pa.binary(16)),
        *(pa.field(name, pa.int64()) for name in (*_PLAIN, *_LATER, "doubtful", "agreeing")),
        pa.field("trailing", pa.map_(pa.string(), pa.int64())),
        *(pa.field(name, pa.list_(pa.int64())) for name in ("ahead", "clock")),
        pa.field("port", pa.int64()),
    ]
)
"""What an exporter is saved as: a row of these columns."""
SAVED_BEFORE: Final = tuple(
    pa.schema([field for field in SAVED if field.name not in without]) for without in (("port",), ("port", *_LATER))
)
"""What it was saved as before ports were told apart, and before some things were counted."""


@attrs.define(eq=False)
class Exporter(Skew):
    """The state of one exporter: an address, an observation domain, and a port (MANY for those that are not told apart,
    None where it was saved before ports were); see `roster`.

    `ahead` is by how much its clock is ahead of ours, as near as headers and arrivals tell (see `Skew`). Where a header
    tells no time that can be, its arrival stands for it.
    """

    address: bytes
    domain: int
    port: int | None
    first: int
    last: int
    datagrams: int = attrs.field(init=False, default=0)
    """Those that brought records and agreed with the clock; with those of who was there before, if it shares them."""
    trailing: dict[str, int] = attrs.field(init=False, factory=dict)
    """The furthest that a record trailed its header, by attribute."""
    active: int | None = attrs.field(init=False, default=None)
    inactive: int | None = attrs.field(init=False, default=None)
    late: int = attrs.field(init=False, default=0)
    """Records behind what had been promised of this exporter's stream or of all."""
    contradicted: int = attrs.field(init=False, default=0)
    """Those of them that were behind an assumed promise only."""
    timeless: int = attrs.field(init=False, default=0)
    """Datagrams whose header told no time that can be."""
    undated: int = attrs.field(init=False, default=0)
    """Those of them since the last one that did."""
    future: int = attrs.field(init=False, default=0)
    """Records of which a time was too far ahead to be believed."""
    listened: int = attrs.field(init=False, default=NO_TIME)
    """Since when its silence counts: before that, nobody listened."""
    newest: int = attrs.field(init=False, default=NO_TIME)
    """When the newest of its address and domain was first heard."""
    _clock: Greatest | None = attrs.field(init=False, default=None)

    def hear(self, headers: Int64s, arrivals: Int64s, rules: Rules, recorded: Bools) -> None:
        """Take the export times and the arrivals of datagrams, in order of arrival, and which have records; all of
        shape (n,).
        """
        ahead = headers - arrivals
        if self._clock is not None and self.steady(ahead, arrivals):
            # All is as expected, so that extremes are all that counts.
            self.note(int(ahead.max()), int(arrivals[-1]))
            believed = headers if rules.correct else np.minimum(headers, arrivals + rules.future)
            self._clock.note(int(believed.max()), int(arrivals[-1]))
            self.datagrams += int(np.count_nonzero(recorded))
        else:
            for header, arrival, counts in zip(headers.tolist(), arrivals.tolist(), recorded.tolist(), strict=True):
                self._hear(header, arrival, rules, counts=counts)
        self.last = max(self.last, int(arrivals.max()))
        if rules.correct:
            self.put_right()

    def date(self, told: Bools) -> None:
        """Take which of the datagrams that are heard now told their time, in order of arrival, of shape (n,)."""
        without = len(told) - int(np.count_nonzero(told))
        self.timeless += without
        self.undated = self.undated + without if without == len(told) else int(np.argmax(told[::-1]))

    def _hear(self, header: int, arrival: int, rules: Rules, *, counts: bool) -> None:
        # A clock that is put right is held to the future where it is used.
        believed = header if rules.correct else min(header, arrival + rules.future)
        what = self.judge(header - arrival, arrival)
        if what is None:
            return
        if what == STEPPED or self._clock is None:
            self._clock = Greatest(believed, arrival)
        else:
            self._clock.note(believed, arrival)
        self.datagrams += counts

    def learn(self, attribute: str, trailing: int) -> None:
        """Take how far a record trailed its header."""
        self.trailing[attribute] = max(self.trailing.get(attribute, 0), trailing)

    @property
    def key(self) -> tuple[bytes, int, int | None]:
        """Return its address, domain and port."""
        return self.address, self.domain, self.port

    @property
    def spoke(self) -> int:
        """Return since when it is silent, as far as anybody listened."""
        return max(self.last, self.listened)

    @property
    def followed(self) -> bool:
        """Return whether another port of its address and domain was new since it was heard: it may be that now."""
        return self.spoke < self.newest

    def gone(self, rules: Rules, now: int) -> bool:
        """Return whether another port may take its place: nobody waits for it, or expects it to send again."""
        return self.followed and self.idle(rules, now)

    def trusted(self, rules: Rules) -> bool:
        """Return whether enough came from it for it to have a say."""
        return self.datagrams >= max(1, rules.trusted_after)

    def idle(self, rules: Rules, now: int) -> bool:
        """Return whether it has been silent for too long to be waited for."""
        return now - self.spoke > rules.idle

    def aside(self, rules: Rules) -> bool:
        """Return whether its clock is too far off for it to have a say."""
        return not rules.correct and abs(self.skew) > rules.skew

    def allowance(self, attribute: str, rules: Rules) -> tuple[int, bool]:
        """Return by how much its records may trail its header, and whether that was said rather than seen."""
        seen = self.trailing.get(attribute, 0) + RESOLUTION
        inactive = self.inactive if rules.inactive is None else rules.inactive
        active = self.active if rules.active is None else rules.active
        said: int | None = None if inactive is None else inactive + rules.scan
        by_user = rules.inactive is not None
        if attribute != "end_ts" and said is not None:
            said = None if active is None else said + active
            by_user = by_user and rules.active is not None
        if said is None:
            return max(seen, self._guessed(seen, rules) if inactive is None else inactive + rules.scan), False
        # An exporter may not keep to what it announces; a user's word is taken as it is.
        return (said, True) if by_user or seen <= said + RESOLUTION else (seen, False)

    def _guessed(self, seen: int, rules: Rules) -> int:
        """Return by how much records may trail that are still to come, while those that came are too few to tell; 0
        when they are not.
        """
        guess = min(max(2 * seen, USUAL + rules.scan), rules.longest)
        return guess if self.last - self.first < LEARNT * guess else 0

    def reach(self, attribute: str, rules: Rules, now: int) -> tuple[int, bool] | None:
        """Return below which value it will send nothing more, and whether that is assumed; None when nothing is known.

        One that is set aside and has its say only as nobody else has one gets no further than its arrivals, so that
        those who come later and are right about the time are not late.
        """
        if self._clock is None or self._ahead is None:
            return None
        clock, ahead, assumed = self._clock.value + self.offset, self.ahead, self.undated > 0
        if self.aside(rules):
            clock, ahead, assumed = min(clock, self.last), min(ahead, 0), True
        lull = rules.lull
        if self.followed:
            lull = FOLLOWED if lull is None else min(lull, FOLLOWED)
        if lull is not None and now - self.spoke > lull:
            # Whatever it sends from now on, it will stamp with its clock of now, or of just before.
            silent = now + ahead - lull
            if silent > clock:
                clock, assumed = silent, True
        allowed, certain = self.allowance(attribute, rules)
        return min(clock, now + rules.future) - allowed, assumed or not certain

    def clock_now(self, attribute: str, rules: Rules, now: int) -> tuple[int, int]:
        """Return below which value it would send nothing more if its clock went on, and the most that is believed.

        That is what `reach` assumes of one that is silent for longer than a lull, without the lull.
        """
        allowed, _ = self.allowance(attribute, rules)
        ahead = min(self.ahead, 0) if self.aside(rules) else self.ahead
        return now + ahead - allowed, now + rules.future - allowed

    def row(self) -> dict[str, object]:
        """Return all that is known of it, as a row of SAVED."""
        return {
            "address": self.address,
            **{name: getattr(self, name) for name in (*_PLAIN, *_LATER)},
            "doubtful": self._doubtful,
            "agreeing": self._agreeing,
            "trailing": list(self.trailing.items()),
            "ahead": None if self._ahead is None else self._ahead.numbers(),
            "clock": None if self._clock is None else self._clock.numbers(),
            "port": self.port,
        }

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Exporter:
        """Return the exporter that a row tells of."""
        made = cls(row["address"], row["domain"], row.get("port"), row["first"], row["last"])
        for name in _PLAIN:
            setattr(made, name, row[name])
        for name in _LATER:
            setattr(made, name, row.get(name, 0))
        made._doubtful, made._agreeing = row["doubtful"], row["agreeing"]
        made.trailing = dict(row["trailing"])
        made._ahead, made._clock = Greatest.restored(row["ahead"]), Greatest.restored(row["clock"])
        return made
