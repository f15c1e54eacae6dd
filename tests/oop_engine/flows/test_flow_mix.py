"""A mix of v5, v9 and IPFIX loses, repeats and delays datagrams; what is read of it is compared with what was sent."""

from __future__ import annotations

import ipaddress
import random
import struct
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import pytest

from oop_engine.sources.flows import ExporterCounters
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    Read,
    a_set,
    address,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    read,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)

MS: Final = 1_000_000
START: Final = NOW * SECOND + 123_456_789
DRIFT: Final = 20
"""By how many millionths the clocks of date run fast: they are slewed, while uptimes go on evenly."""
BURSTS, BURST, EVERY = 12, 30, 10 * SECOND + SECOND // 12
LAST: Final = BURSTS * BURST - 1
_UPTIMES: Final = template(256, [(1, 4), (22, 4), (21, 4)])
_ABSOLUTE: Final = template(256, [(1, 4), (152, 8), (153, 8)])
_INIT: Final = [(149, 4)], [(160, 8)]


@attrs.frozen
class Clock:
    """An exporter's clocks, in ns: the date, which may be wrong and is slewed, and when it booted."""

    boot: int
    off: int

    def date(self, when: int) -> int:
        return when + self.off + (when - START) * DRIFT // 1_000_000

    def uptime(self, when: int) -> int:
        return (when - self.boot) // MS & 0xFFFFFFFF


Flow = tuple[int, int, int]
"""Its number, start and end."""
Make = Callable[[Clock, int, int, int, list[Flow]], bytes]
"""Makes a datagram: its place, when it is sent, its sequence number, its flows."""


def _relative(clock: Clock, flows: list[Flow]) -> bytes:
    return a_set(256, b"".join(struct.pack(">III", n, clock.uptime(a), clock.uptime(b)) for n, a, b in flows))


def _v5(clock: Clock, k: int, when: int, sequence: int, flows: list[Flow]) -> bytes:
    records = [v5_record(octets=n, first=clock.uptime(a), last=clock.uptime(b)) for n, a, b in flows]
    seconds, rest = divmod(clock.date(when), SECOND)
    return v5(records, sequence=sequence, uptime=clock.uptime(when), seconds=seconds, nanoseconds=rest)


def _v9(clock: Clock, k: int, when: int, sequence: int, flows: list[Flow]) -> bytes:
    sets = [*([v9_templates(_UPTIMES)] if k % 20 == 0 else []), _relative(clock, flows)]
    return v9(sets, sequence=sequence, uptime=clock.uptime(when), seconds=clock.date(when) // SECOND)


def _ipfix_uptimes(clock: Clock, k: int, when: int, sequence: int, flows: list[Flow]) -> bytes:
    taught = []
    if k % 20 == 0:  # options are data to the sequence
        said = number(7, 4) + number(clock.date(clock.boot) // MS, 8)
        taught = [ipfix_templates(_UPTIMES), ipfix_options(512, *_INIT), a_set(512, said)]
    return ipfix([*taught, _relative(clock, flows)], sequence=sequence, seconds=clock.date(when) // SECOND)


def _ipfix(clock: Clock, k: int, when: int, sequence: int, flows: list[Flow]) -> bytes:
    """Every twentieth message has nothing but templates, and the number of the data that follow."""
    body = b"".join(struct.pack(">IQQ", n, clock.date(a) // MS, clock.date(b) // MS) for n, a, b in flows)
    sets = [a_set(256, body)] if flows else [ipfix_templates(_ABSOLUTE)]
    return ipfix(sets, sequence=sequence, seconds=clock.date(when) // SECOND)


@attrs.frozen
class Kind:
    make: Make
    clock: Clock
    units: Callable[[int, int], int]
    """By how much the datagram of a place, with so many flows, moves the sequence."""
    off: int
    """By how many ms a time may be off: one for each clock that is rounded down to ms, and what slewing adds."""
    bare: bool = False
    """Whether templates come by themselves."""


_DAY: Final = 86_400 * SECOND
KINDS: Final = {
    "192.0.2.1": Kind(_v5, Clock(START + 61 * SECOND - 2**32 * MS, 0), lambda k, many: many, 4),  # its uptime wraps
    "192.0.2.2": Kind(_v9, Clock(START - 9 * _DAY - 1, -2_500_000_000), lambda k, many: 1, 4),
    "192.0.2.3": Kind(_ipfix, Clock(START - _DAY, 7_250_000_000), lambda k, many: many, 1, bare=True),
    # It announces when it booted, which stays as it is while the clock of date is slewed away from it.
    "192.0.2.4": Kind(_ipfix_uptimes, Clock(START - 100 * SECOND, 0), lambda k, many: many + (k % 20 == 0), 7),
}  # fmt: skip


@attrs.define
class Truth:
    """What became of an exporter's datagrams, and the times of the flows that came by its own clock."""

    lost: int = 0
    """What the sequence can tell of: not what was lost before the first that came."""
    late: int = 0
    """Datagrams that came behind one sent after them; a delay alone is none that anybody could see."""
    copies: int = 0
    times: dict[int, tuple[int, int]] = attrs.field(factory=dict)


def _sent(rng: random.Random, kind: Kind, first_delay: int) -> Iterator[tuple[int, int, bytes | None, int, list[Flow]]]:
    """Give when each datagram comes, its place, its bytes (None: lost), what it moves the sequence by, its flows."""
    sequence, flow = rng.randrange(2**32), 0
    for k in range(LAST + 1):
        when = START + k // BURST * EVERY + k % BURST * rng.randrange(5 * MS, 6 * MS)
        flows: list[Flow] = []
        for _ in range(0 if kind.bare and k % 20 == 0 else rng.randrange(1, 9)):
            begin = when - rng.randrange(60 * SECOND)
            flows.append((flow, begin, rng.randrange(begin, when)))
            flow += 1
        payload = kind.make(kind.clock, k, when, sequence, flows)
        units = kind.units(k, len(flows))
        sequence = (sequence + units) & 0xFFFFFFFF
        # What is lost at either end no sequence tells of.
        fate = rng.random() if 0 < k < LAST else 1.0
        if fate < 0.02:
            yield when, k, None, units, flows
            continue
        delay = rng.randrange(MS, 8 * SECOND) if fate < 0.05 else (first_delay if k == 0 else 0)
        yield when + delay, k, payload, units, flows
        if 0.04 < fate < 0.07:
            yield when + rng.randrange(20 * SECOND), k, payload, units, flows


def mix(seed: int, first_delay: int = 0) -> tuple[list[tuple[int, bytes, bytes]], dict[bytes, Truth]]:
    """Give datagrams as they come, with arrival and exporter, and by exporter what is true of them."""
    rng = random.Random(seed)
    came: list[tuple[int, bytes, bytes]] = []
    truths: dict[bytes, Truth] = {}
    for name, kind in KINDS.items():
        who, truth = address(name), Truth()
        truths[who] = truth
        seen: set[int] = set()
        sent = sorted(_sent(rng, kind, first_delay), key=lambda one: one[0])
        heard = min(one[:2] for one in sent if one[2] is not None)[1]
        for when, k, payload, units, flows in sent:
            if payload is None:
                truth.lost += units if k > heard else 0
                continue
            came.append((when, who, payload))
            if k in seen:
                truth.copies += 1
                continue
            truth.late += k < max(seen, default=0)
            seen.add(k)
            truth.times.update({n: (kind.clock.date(a), kind.clock.date(b)) for n, a, b in flows})
    return sorted(came, key=lambda one: one[0]), truths


def reading(came: list[tuple[int, bytes, bytes]], block: int) -> Read:
    return read(
        [payload for _, _, payload in came], arrival=[when for when, _, _ in came],
        exporters=[(who, 2055) for _, who, _ in came], block=block,
        columns=["ts", "end_ts", "bytes", "exporter", "version"],
    )  # fmt: skip


def counts(one: ExporterCounters) -> tuple[int, int, int, int]:
    return one.lost, one.reordered, one.duplicated, one.restarts


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("block", [0, 37])
def test_what_was_lost_late_and_sent_twice_is_counted_as_it_was(seed: int, block: int) -> None:
    came, truths = mix(seed)
    seen = reading(came, block)
    assert sum(truth.late for truth in truths.values()) > 20
    for one in seen.exporters:
        truth = truths[one.address or b""]
        assert counts(one) == (truth.lost, truth.late, truth.copies, 0), one.protocol
        assert (one.untold, one.no_template, one.untimed, one.malformed) == (0, 0, 0, {})


@pytest.mark.parametrize("seed", range(4))
def test_times_are_as_far_off_as_the_protocol_has_them_and_no_further(seed: int) -> None:
    """v9 has its date in whole seconds, so a time may be a second early, half a second on average."""
    came, truths = mix(seed)
    seen = reading(came, 0)
    assert len(seen.rows) == sum(len(truth.times) for truth in truths.values())
    early: list[int] = []
    for row in seen.rows:
        begin, end = truths[row["exporter"]].times[row["bytes"]]
        most = KINDS[str(ipaddress.IPv4Address(row["exporter"][12:]))].off * MS
        least = -most - (SECOND if row["version"] == 9 else 0)
        for found, true in ((row["ts"], begin), (row["end_ts"], end)):
            assert least < found - true < most, row
            if row["version"] == 9:
                early.append(true - found)
        # How long it lasted does not hang on the date.
        assert abs(row["end_ts"] - row["ts"] - (end - begin)) < 3 * MS
    assert 0.45 * SECOND < sum(early) / len(early) < 0.55 * SECOND


@pytest.mark.parametrize("seed", range(4))
def test_where_the_first_templates_come_late_lateness_and_copies_are_counted_all_the_same(seed: int) -> None:
    came, truths = mix(seed, first_delay=SECOND // 10)
    seen = reading(came, 0)
    for one in seen.exporters:
        truth = truths[one.address or b""]
        assert (one.reordered, one.duplicated, one.restarts) == (truth.late, truth.copies, 0), one.protocol
        assert (one.lost, one.untold) == (truth.lost, 0), one.protocol
    untimed = sum(one.untimed for one in seen.exporters)  # of uptimes, before it is said when these began
    assert len(seen.rows) == sum(len(truth.times) for truth in truths.values()) and untimed > 0
