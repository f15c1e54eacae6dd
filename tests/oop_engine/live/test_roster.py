"""Processes behind one address and domain are exporters of their own; nobody waits for one that changed its port."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources.live import LiveFlows, LiveReader, Rules
from oop_engine.sources.live.exporters import MANY, MINUTE, SECOND
from oop_engine.sources.live.progress import ExporterProgress
from oop_engine.sources.live.roster import MOST_EXPORTERS, PORTS
from operators.data.saved import decode_state, encode_state
from tests.naive_exporters import Export
from tests.oop_engine.flows.exporter import NOW, v5, v5_record
from tests.oop_engine.live.collector import bound, collect, senders
from tests.oop_engine.live.test_exporter_progress import (
    ACTIVE,
    BOTH,
    INACTIVE,
    KEPT,
    SCAN,
    A,
    B,
    broken,
    export,
    heard,
    said,
    time,
    told,
)

RULES = attrs.evolve(KEPT, idle=MINUTE)


@st.composite
def neighbours(draw: st.DrawFn) -> list[Export]:
    """Draw what exporters send that keep the timeouts and share an address and domain; heard in turn at first."""
    exports: list[Export] = []
    for port in range(1, draw(st.integers(2, 4))):
        ahead, now = draw(st.integers(-120, 120)), 0.0
        exports += [export(A, k + port / 10, ahead=ahead, port=port) for k in (-20, -19)]
        for gap in draw(st.lists(st.integers(0, 9), min_size=1, max_size=8)):
            now += gap
            end = draw(st.integers(0, INACTIVE + SCAN))
            start = draw(st.integers(end, end + ACTIVE))
            exports.append(export(A, now, ahead=ahead, start=start, end=end, port=port))
    return sorted(exports, key=lambda e: e.arrival)


@given(neighbours(), st.integers(1, 4), st.booleans())
def test_who_shares_an_address_and_keeps_the_timeouts_breaks_no_promise(
    exports: list[Export], cut: int, by_exporter: bool
) -> None:
    chosen = attrs.evolve(KEPT, settle=10 * SECOND)
    assert broken(exports, chosen, cut, by_exporter=by_exporter) == 0


@pytest.mark.parametrize("skew", [0, 5, 8, 20, 200])
def test_two_ports_that_are_heard_in_turn_have_a_clock_each(skew: float) -> None:
    progress = ExporterProgress(attrs.evolve(RULES, settle=2 * SECOND))
    for k in range(40):
        told(progress, [export(A, k, start=35, port=1)], k)
        told(progress, [export(A, k + 0.5, ahead=-skew, start=35, port=2)], k + 0.5)
    assert [e.late for e in progress.exporters] == [0, 0]
    assert [round(e.skew / SECOND) for e in progress.exporters] == [0, skew]
    assert progress.bound("ts") >= time(39 - skew - 36)


def test_an_exporter_that_began_anew_at_another_port_is_not_waited_for_at_the_old_one() -> None:
    progress = ExporterProgress(attrs.evolve(RULES, trusted_after=3))
    told(progress, [export(A, k, start=35, port=1) for k in range(10)], 9)
    assert progress.bound("ts") == time(9 - 35)
    for k in range(11, 90):
        told(progress, [export(A, k, start=35, port=2)], k)
        # Until the old one has been silent for `idle`, as far as its clock must be.
        assert progress.bound("ts") == time(k - 35 - (2 if k <= 9 + 60 else 0))
    assert progress.late == 0
    (_, _, _, assumed) = told(progress, [export(A, 90, port=2)], 90)[0]
    assert not assumed
    # It was another one after all, and only silent: it is waited for again, and has kept its clock and counts.
    told(progress, [export(A, 91, ahead=-9, start=35, port=1)], 91)
    assert [e.port for e in progress.exporters] == [1, 2]
    assert told(progress, [export(A, 120, port=2)], 120) == []


@pytest.mark.parametrize("ahead", [9, 200, 10**6])
def test_a_port_that_is_made_up_cannot_push_time_ahead_while_the_real_one_is_there(ahead: float) -> None:
    progress = ExporterProgress(RULES)
    for k in range(40):
        if k % 10 == 0:
            assert told(progress, [export(A, k, start=34, end=14, port=1)], k) is not None
        told(progress, [export(A, k + 0.1 * n, ahead=ahead, port=100 + k % 3) for n in range(1, 5)], k + 0.5)
    assert progress.late == 0 and progress.exporters[0].skew == 0 and progress.exporters[0].steps == 0


def test_who_agrees_on_the_time_has_a_say_at_once_and_who_does_not_has_to_earn_it() -> None:
    progress = ExporterProgress(attrs.evolve(RULES, trusted_after=3))
    told(progress, [export(A, k, port=1) for k in range(4)], 3)
    told(progress, [export(A, 4, port=2), export(A, 4, ahead=-100, port=3)], 4)
    assert [e.trusted(progress.rules) for e in progress.exporters] == [True, True, False]
    told(progress, [export(A, 5, ahead=-100, port=3), export(A, 6, ahead=-100, port=3)], 6)
    assert [e.trusted(progress.rules) for e in progress.exporters] == [True, True, True]


def test_what_is_known_of_an_address_is_known_of_its_new_port() -> None:
    progress = ExporterProgress(attrs.evolve(RULES, active=None, inactive=None))
    told(progress, [export(A, 0, start=50, port=1)], 0)
    progress.announce((A, 0, 1), active=40 * SECOND, inactive=20 * SECOND)
    told(progress, [export(A, 1, port=2)], 1)
    one, two = progress.exporters
    assert (two.active, two.inactive, two.trailing) == (one.active, one.inactive, one.trailing)
    assert told(progress, [export(B, 1)], 1) == []


def test_one_that_sends_each_datagram_from_another_port_is_one_exporter() -> None:
    progress = ExporterProgress(attrs.evolve(RULES, trusted_after=3))
    for k in range(200):
        told(progress, [export(A, k, start=35, port=k + 1)], k)
        assert k < 2 or progress.bound("ts") >= time(k - 35 - 2)
    assert progress.late == 0 and len(progress.exporters) == PORTS + 1
    shared = progress.exporters[-1]
    assert shared.port == MANY and progress.bound("ts") == time(199 - 35)
    assert progress.roster.find((A, 0, 777)) is shared and progress.roster.find((A, 1, 777)) is None
    # Once it has been silent for long, it is known by its port again.
    told(progress, [export(A, 300, start=35, port=9999)], 300)
    assert [e.port for e in progress.exporters] == [9999]


def test_made_up_ports_are_bounded_and_take_nothing_from_who_is_known_by_one() -> None:
    progress = ExporterProgress(attrs.evolve(RULES, trusted_after=2))
    told(progress, [export(A, k, port=1) for k in range(3)], 2)
    for n in range(3000):
        progress.hear(heard([export(A, 3, domain=n % 50, port=2 + n, ahead=-50)], ("ts",)))
        progress.hear(heard([export(A, 4, port=1)], ("ts",)))
    assert len(progress.exporters) <= MOST_EXPORTERS and len(progress.roster.at((A, 0))) == PORTS + 1
    first = progress.exporters[0]
    assert (first.port, first.skew, first.doubted, first.datagrams) == (1, 0, 0, 3003)


@given(neighbours(), st.integers(0, 12), st.booleans())
def test_a_run_of_neighbours_that_is_saved_and_restored_says_the_same(
    exports: list[Export], moment: int, by_exporter: bool
) -> None:
    whole, parted = (ExporterProgress(RULES, BOTH, by_exporter) for _ in range(2))
    for k, one in enumerate(exports):
        found = []
        for progress in (whole, parted):
            progress.hear(heard([one]))
            found.append(said(progress.elapse(one.arrival)))
        assert found[0] == found[1]
        if k == moment:
            state = encode_state(parted.state())
            parted = ExporterProgress(RULES, BOTH, by_exporter)
            parted.restore(decode_state(state))
            assert encode_state(parted.state()) == state
    assert encode_state(whole.state()) == encode_state(parted.state())


@attrs.define
class Turns:
    """A clock each look at which goes on by 50 ms or to what is due next, and that sends what is due by then."""

    to: socket.socket
    due: list[tuple[float, socket.socket, bytes]]
    now: float = -1.0

    def __call__(self) -> int:
        self.now = max(self.now + 0.05, min(self.now + 2, self.due[0][0])) if self.due else self.now + 0.05
        while self.due and self.due[0][0] <= self.now:
            _, sender, payload = self.due.pop(0)
            sender.sendto(payload, self.to.getsockname())
        return round((NOW + self.now) * SECOND)


def in_turn(made: Sequence[socket.socket], skew: int) -> list[tuple[float, socket.socket, bytes]]:
    """Give what these export in turn for a minute and a half, of whom the second's clock is off."""
    due = list[tuple[float, socket.socket, bytes]]()
    for k in range(90):
        for j, sender in enumerate(made):
            uptime = 1_000_000 + 1000 * k
            record = v5_record(first=uptime - 4000, last=uptime - 1000, octets=100)
            payload = v5([record] * 3, sequence=3 * k, seconds=NOW + k - skew * j, uptime=uptime)
            due.append((k + 0.4 * j, sender, payload))
    return due


@pytest.mark.parametrize("skew", [0, 5, 40])
def test_two_processes_behind_one_address_lose_no_records_to_each_other(skew: int) -> None:
    reports = list[LiveReader]()
    listening = bound()
    rules = Rules(active=5 * SECOND, inactive=2 * SECOND, scan=SECOND, settle=5 * SECOND)
    with senders("127.0.0.2", "127.0.0.2") as made:
        clock = Turns(listening, in_turn(made, skew))
        source = LiveFlows(listening, clock=clock, most=len(clock.due), rules=rules, opened=reports.append)
        run = oop.from_source(source).window(range="10 s", wattr="ts").aggregate(oop.sum("bytes"), oop.count()).run()
    assert run.statistics.late == 0 and sum(run.table["count"].to_pylist()) == 540
    one, two = reports[0].exporters()
    assert [r.counters.records for r in (one, two)] == [270, 270] and one.who == two.who == "127.0.0.2"
    assert [round((r.skew or 0) / SECOND) for r in (one, two)] == [0, skew]
    ports = [r.counters.port for r in (one, two)]
    told_of = [note for note in run.statistics.notes if "its clock" in note]
    if skew == 40:
        assert len(told_of) == 1 and told_of[0].startswith(f"127.0.0.2 port {ports[1]}, domain 0: its clock is 40.")


def test_ports_that_are_too_many_to_tell_apart_are_said_to_be_and_what_is_late_of_them_is_told_once() -> None:
    listening = bound()
    rules = Rules(active=0, inactive=0, scan=0, settle=0, trusted_after=1, lull=None)
    uptime = 1_000_000
    with senders(*["127.0.0.2"] * (PORTS + 5)) as made:
        for k, sender in enumerate(made):
            record = v5_record(first=uptime, last=uptime)
            payload = v5([record] * (k + 1), seconds=NOW, uptime=uptime)
            sender.sendto(payload, listening.getsockname())
        late = v5([v5_record(first=uptime - 9000, last=uptime)], seconds=NOW, uptime=uptime, sequence=99)
        clock = Turns(listening, [(1.0, made[0], b""), *((2.0, one, late) for one in made[-3:])])
        reader = collect(listening, most=PORTS + 9, rules=rules, clock=clock).reader
    (note,) = [note for note in reader.notes() if "more than 16 of its ports sent within 60 s" in note]
    assert note.startswith("127.0.0.2, domain 0: ")
    reports = reader.exporters()
    assert len(reports) == PORTS + 6 and sum(r.late for r in reports) == sum(e.late for e in reader.exporting.exporters)
    assert sum(r.late for r in reports) == reader.exporting.late > 0
