"""Sessions of exporters: at most 1,024 with 256 templates each; the least used ones are dropped.

A session that has not yet given a record goes before one that has, and one of few datagrams before one of more, so
that senders of noise, and forged ones, push out each other first. One of a connection goes last: it would send no
template again.
Nothing that was counted is lost when a session is: what it counted stays in the sum.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows import walk as w
from oop_engine.sources.flows.exporter_names import MOST_NAMES, Named
from oop_engine.sources.flows.options import Announced
from oop_engine.sources.flows.plans import Plan
from oop_engine.sources.flows.templates import Template

MOST_SESSIONS: Final = 1024
MOST_TEMPLATES: Final = 256
MOST_PLANS: Final = 8192
_MARKS: Final = 1024
_GAPS: Final = 256
_READ: Final = 64
_SAMPLERS: Final = 256
_SOURCES: Final = 64
_ROOM_AT_ONCE: Final = 64
_FEW: Final = 2
"""Datagrams that do not make a sender one to be kept."""


@attrs.frozen(eq=False)
class Held:
    """A set of records whose template has not come yet, with what its datagram's head told."""

    template: int
    body: bytes
    head: NDArray[np.int64]
    address: NDArray[np.uint64]
    since: int
    datagram: int = -1
    """The datagram that it is of, by the clock of the walk."""


@attrs.frozen(eq=False)
class Packed:
    """Templates as arrays, one entry each: plan, number, scopes, whether of options, how many numbers their fields are;
    and those numbers, one template's behind the other's.
    """

    plans: NDArray[np.int64]
    number: NDArray[np.int64]
    scopes: NDArray[np.int64]
    options: NDArray[np.bool_]
    sizes: NDArray[np.int64]
    fields: NDArray[np.int64]


_NONE: Final = np.zeros(0, np.int64)
NONE: Final = Packed(_NONE, _NONE, _NONE, np.zeros(0, np.bool_), _NONE, _NONE)
"""No templates."""


@attrs.define(eq=False)
class Known:
    """A session's facts that Python keeps beside its arrays."""

    templates: dict[int, tuple[Template, int]] = attrs.field(factory=dict)
    packed: Packed | None = NONE
    """The templates as they are saved, None where they have changed since."""
    rates: dict[tuple[int, int], int] = attrs.field(factory=dict)
    """Where the rates announced for something stand among `samplers`, the oldest first."""
    held: deque[Held] = attrs.field(factory=deque)
    held_bytes: int = 0
    active: int | None = None
    """The timeouts of its flow cache that it announced, in ns."""
    inactive: int | None = None
    names: dict[tuple[str, bytes], tuple[Named, int]] = attrs.field(factory=dict)
    """The last name of each thing that it named, by kind and key, and when it was sent."""


def _grown(array: NDArray[Any], rows: int, fill: int = 0) -> NDArray[Any]:
    larger = np.full((rows, *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger


@attrs.define(eq=False)
class Plans:
    """The plans of all templates, as arrays over their numbers."""

    has: NDArray[np.uint8]
    facts: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, e.P_WIDTH), np.int64))
    segments: NDArray[np.int32] = attrs.field(factory=lambda: np.zeros((8, 4), np.int32))
    operations: NDArray[np.int32] = attrs.field(factory=lambda: np.zeros((8, 32, e.O_WIDTH), np.int32))
    used: int = 0
    free: list[int] = attrs.field(factory=list)
    retired: list[int] = attrs.field(factory=list)
    born: int = 0

    def add(self, template: int, expires: int, used: int) -> int:
        """Make room for the plan of a template, to be compiled when data come; give its number."""
        if self.free:
            number = self.free.pop()
        else:
            number = self.used
            self.used += 1
        if number >= len(self.facts):
            rows = 2 * len(self.facts)
            self.facts = _grown(self.facts, rows)
            self.segments = _grown(self.segments, rows)
            self.operations = _grown(self.operations, rows)
            self.has = _grown(self.has, rows)
        self.born += 1
        self.facts[number] = (e.K_RAW, 0, 0, expires, 0, used, template, self.born)
        return number

    @property
    def tables(self) -> e.PlanTables:
        """Return what the kernels read."""
        return self.facts, self.segments, self.operations

    def compiled(self, number: int, plan: Plan, kind: int) -> None:
        """Take in a plan."""
        if len(plan.segments) > self.segments.shape[1]:
            wider = np.zeros((len(self.segments), 2 * len(plan.segments)), np.int32)
            wider[:, : self.segments.shape[1]] = self.segments
            self.segments = wider
        if len(plan.operations) > self.operations.shape[1]:
            more = np.zeros((len(self.operations), 2 * len(plan.operations), e.O_WIDTH), np.int32)
            more[:, : self.operations.shape[1]] = self.operations
            self.operations = more
        facts = self.facts[number]
        facts[e.P_KIND] = kind
        facts[e.P_SIZE] = plan.least
        facts[e.P_VARIABLE] = len(plan.segments) - 1
        facts[e.P_OPERATIONS] = len(plan.operations)
        self.segments[number, : len(plan.segments)] = plan.segments
        self.operations[number, : len(plan.operations)] = plan.operations
        self.has[number] = plan.has

    def scarce(self) -> bool:
        """Return whether plans are retired faster than they are released."""
        return len(self.retired) > MOST_SESSIONS

    def release(self) -> None:
        """Let the numbers of retired plans be used again, once no run refers to them."""
        self.free.extend(self.retired)
        self.retired.clear()


@attrs.define(eq=False)
class Sessions:
    """The sessions as arrays over their numbers, which the walk reads and writes; number 0 is nobody's."""

    plans: Plans
    keys: NDArray[np.uint64] = attrs.field(factory=lambda: np.zeros((8, 2), np.uint64))
    senders: NDArray[np.uint64] = attrs.field(factory=lambda: np.zeros((8, 2), np.uint64))
    """Who sends the datagrams: the exporter itself, but for agents of sFlow."""
    table: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, e.TABLE_WIDTH), np.int64))
    recent: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, _MARKS), np.int64))
    gaps: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, 2 * _GAPS), np.int64))
    read: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, _READ, e.R_WIDTH), np.int64))
    drops: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, _SOURCES, 2), np.int64))
    """Of sources of sFlow, one more than their numbers, and what they could not sample so far."""
    allowances: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(MOST_SESSIONS + 2, np.int64))
    """In ns, the time until which senders have worked; see `entries`."""
    slot_ids: NDArray[np.int32] = attrs.field(factory=lambda: np.full((8, 2 * MOST_TEMPLATES), -1, np.int32))
    slot_plans: NDArray[np.int32] = attrs.field(factory=lambda: np.zeros((8, 2 * MOST_TEMPLATES), np.int32))
    samplers: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros((8, _SAMPLERS, 3), np.int64))
    index: NDArray[np.int32] = attrs.field(factory=lambda: np.full(4 * MOST_SESSIONS, -1, np.int32))
    known: list[Known] = attrs.field(factory=lambda: [Known()])
    forgotten: NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(e.TABLE_WIDTH, np.int64))
    evicted: int = 0
    evicted_templates: int = 0
    unnamed: int = 0
    """Names that were left out, as their exporter had named too many things."""
    revision: int = 0
    """Moves with all that exporters teach: templates, rates, clocks, timeouts; not with templates sent again."""
    _allowed: dict[bytes, int] = attrs.field(factory=dict)
    """The row of `allowances` of each sender."""
    _sessions_of: list[int] = attrs.field(factory=lambda: [0] * (MOST_SESSIONS + 2))
    _unused: list[int] = attrs.field(factory=lambda: list(range(MOST_SESSIONS + 1, e.FREELY, -1)))

    @property
    def tables(self) -> e.SessionTables:
        """Return what the walk reads and writes."""
        return (
            self.keys, self.senders, self.table, self.index, self.recent, self.gaps, self.read, self.drops,
            self.allowances, self.slot_ids, self.slot_plans,
        )  # fmt: skip

    def _victim(self) -> int:
        """Return the session that a stranger replaces: the one least used of those without a record, then of those
        that sent few datagrams, or of all; one whose connection has taught it templates only where there is no other.
        """
        table = self.table[1 : len(self.known)]
        order = table[:, e.T_USED] + (table[:, e.RECORDS] > 0) * (
            (1 << 60) + (table[:, e.DATAGRAMS] > _FEW) * (1 << 61)
        )
        order[[number - 1 for number in self.streams() if self.known[number].templates]] += 1 << 62
        return 1 + int(np.argmin(order))

    def streams(self) -> list[int]:
        """Return the sessions of connections, of those that are over, too."""
        many = len(self.known)
        found: list[int] = np.flatnonzero(self.table[:many, e.T_PORT] >= e.STREAM).tolist()
        return found

    def is_stream(self, session: int) -> bool:
        """Return whether a session is of a connection."""
        return bool(self.table[session, e.T_PORT] >= e.STREAM)

    def admit(
        self, address: tuple[int, int], sender: tuple[int, int], port: int, version: int, domain: int, *,
        refused: bool, freely: bool = False,
    ) -> int:  # fmt: skip
        """Take in a session; where there is no room, in the place of the victim. `freely`: it may work as it likes.

        The victim's rates stay where records that wait to be filled look for them, until the next change of rates,
        before which those are filled.
        """
        if len(self.known) > MOST_SESSIONS:
            number = self._victim()
            self.forget(number)
        else:
            number = len(self.known)
            self.known.append(Known())
            self.make_rows(number + 1)
        self.keys[number], self.senders[number] = address, sender
        row = self.table[number]
        row[:] = 0
        row[e.T_VERSION], row[e.T_DOMAIN], row[e.T_PORT] = version, domain, port
        row[e.T_REFUSED] = refused
        row[e.T_EXPECTED] = row[e.T_CANDIDATE] = row[e.T_ALSO] = row[e.T_OLD_BOOT] = -1
        row[e.T_ALLOWANCE] = e.FREELY if freely else self._allowance(self.senders[number].tobytes())
        row[e.T_INIT] = row[e.T_EXPORT] = e.NO_TIME
        row[e.T_RATE] = 1
        self.recent[number] = self.read[number] = self.drops[number] = 0
        self.slot_ids[number] = -1
        w.add_session(self.keys, self.senders, self.table, self.index, number)
        return number

    def _allowance(self, sender: bytes) -> int:
        """Return the row of a sender's allowance, which all of its sessions share."""
        place = self._allowed.get(sender)
        if place is None:
            place = self._allowed[sender] = self._unused.pop()
            self.allowances[place] = 0
        self._sessions_of[place] += 1
        return place

    def work(self, session: int, units: int, now: int) -> None:
        """Note that a session's sender made work."""
        place = int(self.table[session, e.T_ALLOWANCE])
        if place != e.FREELY and now != e.NO_TIME:
            self.allowances[place] = max(int(self.allowances[place]), now) + units * e.UNIT

    def forget(self, number: int) -> None:
        """Let a session go; its counts stay in the sum."""
        w.remove_session(self.keys, self.senders, self.table, self.index, number)
        table = self.table[number]
        place = int(table[e.T_ALLOWANCE])
        if place != e.FREELY:
            self._sessions_of[place] -= 1
            if not self._sessions_of[place]:
                del self._allowed[self.senders[number].tobytes()]
                self._unused.append(place)
        table[e.NO_TEMPLATE] += len(self.known[number].held)
        table[e.HELD] = 0
        self.forgotten[e.COUNTERS :] += table[e.COUNTERS :]
        self.evicted += 1
        known = self.known[number]
        for _, plan in known.templates.values():
            self.plans.retired.append(plan)
        self.revision += bool(known.templates or known.rates)
        self.known[number] = Known()

    def make_rows(self, many: int) -> None:
        """Have rows for so many sessions."""
        while len(self.table) < many:
            self._grow(2 * len(self.table))

    def index_all(self) -> None:
        """Make all that is known of fresh sessions be found by what their rows say."""
        for number in range(1, len(self.known)):
            w.add_session(self.keys, self.senders, self.table, self.index, number)
            place = int(self.table[number, e.T_ALLOWANCE])
            if place != e.FREELY:
                self._allowed[self.senders[number].tobytes()] = place
                self._sessions_of[place] += 1
        self._unused = [place for place in self._unused if not self._sessions_of[place]]

    def _grow(self, rows: int) -> None:
        self.keys = _grown(self.keys, rows)
        self.senders = _grown(self.senders, rows)
        self.drops = _grown(self.drops, rows)
        self.table = _grown(self.table, rows)
        self.recent = _grown(self.recent, rows)
        self.read = _grown(self.read, rows)
        self.gaps = _grown(self.gaps, rows)
        self.slot_ids = _grown(self.slot_ids, rows, -1)
        self.slot_plans = _grown(self.slot_plans, rows)
        self.samplers = _grown(self.samplers, rows)

    def learn(self, session: int, template: Template, plan: int) -> None:
        """Note a session's template and its plan, in the place of an earlier one of that number."""
        known = self.known[session].templates
        if template.number in known:
            self.plans.retired.append(known[template.number][1])
        elif len(known) >= MOST_TEMPLATES:
            self._drop_least(session)
        known[template.number] = template, plan
        self._changed(session)
        place = int(w.find_template(self.slot_ids, session, template.number))
        slot = place if place >= 0 else -1 - place
        self.slot_ids[session, slot] = template.number
        self.slot_plans[session, slot] = plan

    def drop(self, session: int, template: int) -> None:
        """Let a template go."""
        known = self.known[session].templates
        self.plans.retired.append(known.pop(template)[1])
        self._changed(session)
        w.remove_template(self.slot_ids, self.slot_plans, session, template)

    def _changed(self, session: int) -> None:
        """Note that a session has other templates: sets that were read may say something new now."""
        self.read[session] = 0
        self.known[session].packed = None
        self.revision += 1

    def make_room(self) -> None:
        """Let templates go until another can be learnt: of the session that is the next to go, the one least used."""
        plans = self.plans
        while plans.used - len(plans.free) - len(plans.retired) >= MOST_PLANS:
            held = [number for number, known in enumerate(self.known) if known.templates]
            crowded = min(
                held, key=lambda n: (self.is_stream(n), self.table[n, e.RECORDS] > 0, self.table[n, e.T_USED])
            )
            for _ in range(min(_ROOM_AT_ONCE, len(self.known[crowded].templates))):
                self._drop_least(crowded)

    def _drop_least(self, session: int) -> None:
        """Let the template go that is the least used, of several the one learnt first."""
        self.drop(session, int(w.least_template(self.slot_ids, self.slot_plans, self.plans.facts, session)))
        self.evicted_templates += 1

    def was_read(self, session: int, mark: int, templates: int, until: int) -> None:
        """Note that a set of templates or options changes nothing if it comes again, as long as nothing else does."""
        row = self.table[session]
        self.read[session, row[e.T_READ]] = mark, templates, until
        row[e.T_READ] = (row[e.T_READ] + 1) % _READ

    def is_news(self, session: int, said: Announced) -> bool:
        """Return whether something else than this is known, or nothing; what is not used never is."""
        row, known = self.table[session], self.known[session]
        if said.unused:
            return False
        if said.init is not None:
            return bool(row[e.T_INIT] != said.init)
        if said.active is not None or said.inactive is not None:
            return said.active not in (None, known.active) or said.inactive not in (None, known.inactive)
        if said.kind == 0:
            return bool(row[e.T_RATE] != said.rate)
        place = known.rates.get((said.kind, said.key))
        return place is None or int(self.samplers[session, place, 2]) != said.rate

    def announce(self, session: int, said: Announced) -> None:
        """Take note of what an exporter announces: sets that were read may say something new now."""
        row, known = self.table[session], self.known[session]
        self.read[session] = 0
        self.revision += 1
        if said.init is not None:
            row[e.T_INIT] = said.init
        elif said.active is not None or said.inactive is not None:
            known.active = known.active if said.active is None else said.active
            known.inactive = known.inactive if said.inactive is None else said.inactive
        elif said.kind == 0:
            row[e.T_RATE] = said.rate
        else:
            self.rate(session, said.kind, said.key, said.rate)

    def name(self, session: int, named: Named, at: int) -> list[tuple[Named, int]]:
        """Take note of a name that was sent at a time; return what is news, each with the time from which it holds.

        Where a name comes that was sent before the last one that is known, that one holds again behind it.
        """
        known = self.known[session].names
        last = known.get((named.kind, named.key))
        if last is None and len(known) >= MOST_NAMES:
            self.unnamed += 1
            return []
        if last is not None and last[0] == named:
            known[named.kind, named.key] = named, max(at, last[1])
            return []
        self.read[session] = 0
        self.revision += 1
        if last is not None and at < last[1]:
            return [(named, at), last]
        known[named.kind, named.key] = named, at
        return [(named, at)]

    def rate(self, session: int, kind: int, key: int, rate: int) -> None:
        """Note the rate of a sampler, an interface or a template; if there is no room, in the place of the oldest."""
        rates = self.known[session].rates
        place = rates.get((kind, key))
        if place is None:
            place = len(rates) if len(rates) < _SAMPLERS else rates.pop(next(iter(rates)))
            rates[kind, key] = place
        self.samplers[session, place] = kind, key, rate
        self.table[session, e.T_SAMPLERS] = len(rates)

    def begin_anew(self, session: int) -> None:
        """Let go what an exporter announced before it began anew, but what each of its datagrams says."""
        row = self.table[session]
        self.known[session].rates.clear()
        row[e.T_SAMPLERS], row[e.T_INIT] = 0, e.NO_TIME
        if row[e.T_VERSION] != e.V5:
            row[e.T_RATE] = 1
        self.revision += 1
