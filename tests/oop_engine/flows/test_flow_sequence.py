"""Sequence numbers tell what was lost, what came late, twice or from an exporter that began anew: injected, counted."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oop_engine.sources.flows import Datagrams, ExporterCounters, FlowDecoder
from oop_engine.sources.flows.source import trouble
from tests.examples import share
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    address,
    four,
    ipfix,
    ipfix_templates,
    number,
    read,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)

Maker = Callable[[int, int, int], bytes]
"""Makes the k-th datagram, of so many records, with this sequence number."""

_FIELDS = template(256, [(8, 4), (1, 4)])


def _records(k: int, many: int) -> bytes:
    return b"".join(four("10.0.0.1") + number(1000 * k + r, 4) for r in range(many))


def _v5(k: int, many: int, sequence: int, boot: int = 0) -> bytes:
    records = [v5_record(octets=1000 * k + r) for r in range(many)]
    return v5(records, sequence=sequence, seconds=NOW + k, uptime=(1000 * (k - boot) + 50_000) & 0xFFFFFFFF)


def _v9(k: int, many: int, sequence: int, boot: int = 0) -> bytes:
    sets = [v9_templates(_FIELDS), a_set(256, _records(k, many))]
    return v9(sets, sequence=sequence, seconds=NOW + k, uptime=(1000 * (k - boot) + 50_000) & 0xFFFFFFFF)


def _ipfix(k: int, many: int, sequence: int, boot: int = 0) -> bytes:
    return ipfix([ipfix_templates(_FIELDS), a_set(256, _records(k, many))], sequence=sequence, seconds=NOW + k)


def _sflow(k: int, many: int, sequence: int, boot: int = 0) -> bytes:
    return sflow([], sequence=sequence & 0xFFFFFFFF, uptime=(1000 * (k - boot) + 50_000) & 0xFFFFFFFF)


PROTOCOLS = {"v5": (_v5, True), "v9": (_v9, False), "ipfix": (_ipfix, True), "sflow": (_sflow, False)}
"""How each protocol's datagrams are made, and whether its sequence counts records."""

each = pytest.mark.parametrize("protocol", PROTOCOLS)


def stream(protocol: str, sizes: list[int], first: int = 0) -> tuple[list[bytes], list[int]]:
    """Give a datagram for each size, and by how much each moves the sequence."""
    make, by_records = PROTOCOLS[protocol]
    units = [many if by_records else 1 for many in sizes]
    payloads = [make(k, many, (first + sum(units[:k])) & 0xFFFFFFFF) for k, many in enumerate(sizes)]
    return payloads, units


def counts(one: ExporterCounters) -> tuple[int, int, int, int]:
    return one.lost, one.reordered, one.duplicated, one.restarts


@each
@pytest.mark.parametrize("first", [0, 77, 2**32 - 40, 2**31 - 10])
def test_nothing_is_lost_where_nothing_is_missing_even_over_the_wrap(protocol: str, first: int) -> None:
    payloads, _ = stream(protocol, [3] * 40, first)
    one = read(payloads).only
    assert counts(one) == (0, 0, 0, 0) and one.datagrams == 40


@each
@given(
    sizes=st.lists(st.integers(1, 9), min_size=6, max_size=40),
    seed=st.integers(0, 2**32),
    first=st.sampled_from([0, 5_000, 2**32 - 50, 2**31]),
)
def test_loss_duplication_and_reordering_are_counted_as_injected(
    protocol: str, sizes: list[int], seed: int, first: int
) -> None:
    payloads, units = stream(protocol, sizes, first)
    rng = random.Random(seed)
    last = len(payloads) - 1
    fate = [rng.choice(["ok", "ok", "ok", "lost", "twice", "late"]) for _ in payloads]
    # What is lost at either end no sequence tells of, and what comes late must be overtaken.
    fate[0] = fate[1] = fate[last] = "ok"
    sent: list[tuple[float, bytes]] = []
    for k, payload in enumerate(payloads):
        if fate[k] == "late" and fate[k + 1] not in ("ok", "twice"):
            fate[k] = "ok"
        if fate[k] != "lost":
            sent.append((k + (1.25 if fate[k] == "late" else 0), payload))
        if fate[k] == "twice":
            sent.append((k + rng.choice([0.1, 1.3, 2.6, 4.7]), payload))
    ordered = [payload for _, payload in sorted(sent, key=lambda entry: entry[0])]
    # A copy may be the last to come, behind which no more is lost.
    one = read(ordered).only
    lost = sum(unit for unit, what in zip(units, fate, strict=True) if what == "lost")
    assert counts(one) == (lost, fate.count("late"), fate.count("twice"), 0)
    assert one.datagrams == len(ordered)
    kept = sum(many for many, what in zip(sizes, fate, strict=True) if what != "lost")
    assert one.records == (0 if protocol == "sflow" else kept)


@each
def test_a_late_datagram_fills_its_part_of_a_gap(protocol: str) -> None:
    payloads, units = stream(protocol, [2] * 12)
    order = [0, 1, 9, 5, 3, 8, 2, 10, 4, 11]  # 6 and 7 never come
    one = read([payloads[k] for k in order]).only
    assert counts(one) == (units[6] + units[7], 5, 0, 0)


@pytest.mark.parametrize("protocol", ["v5", "v9"])
@pytest.mark.parametrize("expected", [500, 2**31 + 500])
def test_a_restart_is_no_loss_and_takes_the_templates_of_v9(protocol: str, expected: int) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    before = [make(k, 2, (expected + step * k) & 0xFFFFFFFF) for k in range(5)]
    after = [make(k, 2, step * (k - 20), 40) for k in range(20, 25)]
    one = read([*before, *after]).only
    assert counts(one) == (0, 0, 0, 1) and one.records == 20
    if protocol == "v9":
        bare = v9([a_set(256, _records(20, 1))], sequence=0, seconds=NOW + 20, uptime=1000)
        assert read([*before, bare]).only.no_template == 1
        waiting = v9([a_set(300, _records(4, 1))], sequence=expected + 5, seconds=NOW + 5, uptime=55_000)
        anew = v9([v9_templates(template(300, [(8, 4), (1, 4)]))], sequence=0, seconds=NOW + 20, uptime=1000)
        one = read([*before, waiting, anew]).only
        assert (one.records, one.no_template, one.restarts) == (10, 1, 1)


@pytest.mark.parametrize("protocol", ["ipfix", "sflow"])
def test_without_a_clock_two_datagrams_that_agree_are_a_restart(protocol: str) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    before = [make(k, 2, 5_000_000 + step * k) for k in range(5)]
    after = [make(k, 2, step * (k - 5), 5) for k in range(5, 9)]
    assert counts(read([*before, *after]).only) == (0, 0, 0, 1)
    straggler = make(5, 2, 4_000_000)
    assert counts(read([*before, straggler, make(6, 2, 5_000_000 + 5 * step)]).only) == (0, 1, 0, 0)


@each
def test_a_number_far_ahead_counts_only_when_the_next_agrees(protocol: str) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    far = 3_000_000
    spoofed = [make(0, 2, 0), make(1, 2, far), make(2, 2, step)]
    assert counts(read(spoofed).only) == (0, 1, 0, 0)
    gone = [make(0, 2, 0), make(1, 2, far), make(2, 2, far + step), make(3, 2, far + 2 * step)]
    assert counts(read(gone).only) == (far - step + step, 0, 0, 0)


@pytest.mark.parametrize("protocol", ["v5", "v9"])
def test_a_wrap_of_the_uptime_is_no_restart(protocol: str) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    boot = (50_000 - 2**32 + 3_000) // 1000 + 2  # so that the 32 bits wrap after a few datagrams
    one = read([make(k, 2, step * k, boot) for k in (0, 1, 2, 3, 5, 4, 6, 7)]).only
    assert counts(one) == (0, 1, 0, 0)


def test_what_could_not_be_counted_is_not_taken_for_loss() -> None:
    """How many records an IPFIX message without its template holds, only the next message tells."""
    bare = [ipfix([a_set(300, bytes(40))], sequence=0), ipfix([a_set(300, bytes(40))], sequence=9)]
    known = _ipfix(2, 3, 27)
    one = read([*bare, known, _ipfix(3, 1, 30), _ipfix(4, 1, 33)]).only
    assert counts(one) == (2, 0, 0, 0)


def test_options_are_data_to_the_sequence_of_ipfix_and_templates_are_not() -> None:
    options = a_set(3, bytes.fromhex("0200 0002 0001 0095 0004 0022 0004"))
    first = ipfix([ipfix_templates(_FIELDS), options, a_set(512, bytes(24)), a_set(256, _records(0, 2))])
    assert counts(read([first, _ipfix(1, 1, 5), _ipfix(2, 1, 6)]).only) == (0, 0, 0, 0)


BOOTED = 500_000_000
"""An uptime of more than five days, in ms."""
NARROW = template(256, [(1, 4), (2, 4)])
_SWAPPED = template(256, [(2, 4), (1, 4)])


def _rebooting(sequence: int, second: int, uptime: int, *sets: bytes) -> bytes:
    return v9(list(sets), sequence=sequence, seconds=NOW + second, uptime=uptime & 0xFFFFFFFF)


def _row(octets: int) -> bytes:
    return a_set(256, number(octets, 4) + number(1, 4))


@pytest.mark.parametrize("first", [700_000, 70_000, 500_001, 5_000_000])
@pytest.mark.parametrize("uptime", [BOOTED, 2**32 - 5000, 90_000])
def test_a_clock_that_began_anew_is_a_restart_whichever_way_the_sequence_moved(first: int, uptime: int) -> None:
    """What an exporter counted before its reboot, while nobody listened, may be less than what it counted since."""
    before = _rebooting(499_999, 0, uptime, v9_templates(NARROW), _row(7))
    after = _rebooting(first, 3600, 1_800_000, _row(8))
    again = _rebooting(first + 1, 3601, 1_801_000, v9_templates(_SWAPPED), a_set(256, number(1, 4) + number(9, 4)))
    seen = read([before, after, again])
    assert counts(seen.only) == (0, 0, 0, 1)
    assert seen.column("bytes") == [7, 1, 9]  # what waited for its template had that which came
    assert sorted(seen.column("packets")) == [1, 1, 8]


def test_a_straggler_of_before_a_restart_is_neither_another_restart_nor_read_by_the_templates_of_now() -> None:
    before = [_rebooting(499_990 + k, k, BOOTED + 1000 * k, v9_templates(NARROW), _row(k)) for k in range(5)]
    anew = [_rebooting(k, 100 + k, 10_000 + 1000 * k, v9_templates(_SWAPPED)) for k in range(3)]
    late = _rebooting(499_995, 5, BOOTED + 5000, v9_templates(NARROW), _row(5))
    seen = read([*before, anew[0], late, late, *anew[1:]])
    assert counts(seen.only) == (0, 1, 1, 1)
    assert seen.column("bytes") == [0, 1, 2, 3, 4] and seen.only.no_template == 1 and seen.only.templates == 8
    # But one that takes over again, and sends from now on, is no straggler.
    back = [
        _rebooting(499_995 + k, 200 + k, BOOTED + 200_000 + 1000 * k, v9_templates(NARROW), _row(9)) for k in (0, 1)
    ]
    seen = read([*before, *anew, *back])
    assert seen.only.restarts == 2 and seen.column("bytes")[-2:] == [9, 9]


@pytest.mark.parametrize(
    ("uptime", "later"),
    [
        (2**32 - 5000, 2**32 - 5000 + 3_600_000),  # it wrapped
        (BOOTED, BOOTED + 3_600_900),  # headers have whole seconds, and clocks drift
        (BOOTED, BOOTED + 900_000),  # the clock of date was put right by 45 minutes
        (0, 0),  # there is no clock of uptime
    ],
)
def test_what_is_no_restart_is_loss(uptime: int, later: int) -> None:
    seen = read([_rebooting(100, 0, uptime, v9_templates(NARROW)), _rebooting(111, 3600, later, _row(3))])
    assert counts(seen.only) == (10, 0, 0, 0) and seen.column("bytes") == [3]


@pytest.mark.parametrize("rest", [0, 10])
def test_a_header_of_v5_that_announces_more_than_it_sends_goes_on_either_way(rest: int) -> None:
    """A capture may have cut what was sent, or the exporter announces what it does not send."""
    records = [v5_record(octets=k) for k in range(20)]
    payloads = [v5(records, sequence=0, count=30), v5(records, sequence=20 + rest), v5(records, sequence=40 + rest)]
    one = read(payloads).only
    assert counts(one) == (0, 0, 0, 0) and one.malformed == {"length": 1} and one.records == 60
    always = [v5(records, sequence=20 * k, count=30, seconds=NOW + k, uptime=100_000 + 1000 * k) for k in range(9)]
    assert counts(read(always).only) == (0, 0, 0, 0)


OTHER = template(400, [(8, 4), (1, 4)])


def with_other(k: int, sequence: int, *more: bytes) -> bytes:
    """Give three records of a template that is known, and two of one that is not unless `more` brings it."""
    sets = [ipfix_templates(_FIELDS), *more, a_set(256, _records(k, 3)), a_set(400, _records(k, 2))]
    return ipfix(sets, sequence=sequence, seconds=NOW + k)


def test_where_a_loss_cannot_be_told_for_want_of_a_template_that_is_said_and_no_longer_than_that() -> None:
    unknown = [with_other(k, 5 * k) for k in range(10)]
    seen = read([one for k, one in enumerate(unknown) if k % 3 != 1])
    assert (seen.only.lost, seen.only.untold) == (0, 7)
    assert "7 datagrams behind which losses are unknown" in (trouble(seen.only) or "")
    # With the template, losses before it are told, too.
    known = [with_other(k, 5 * k, *([ipfix_templates(OTHER)] if k == 10 else [])) for k in range(10, 20)]
    seen = read([*unknown, *(one for k, one in enumerate(known) if k % 3 != 2)])
    assert (seen.only.lost, seen.only.untold, seen.only.records) == (15, 0, 5 * 17)
    seen = read([*unknown[:2], *(_ipfix(k, 3, 5 * 2 + 3 * (k - 2)) for k in (2, 3, 5, 6))])
    assert (seen.only.lost, seen.only.untold) == (3, 2)


_SETS = st.lists(st.tuples(st.sampled_from([256, 300, 400]), st.integers(1, 3)), max_size=3)
_NUMBERED = {n: template(n, [(8, 4), (1, 4)]) for n in (256, 300, 400)}


@attrs.frozen
class Message:
    """A message of IPFIX: records of some templates, and templates, at a place among them."""

    sets: list[tuple[int, int]]
    brings: list[int]
    behind: int
    arrives: float | None

    @property
    def records(self) -> int:
        return sum(many for _, many in self.sets)

    def payload(self, k: int, sequence: int) -> bytes:
        parts = [a_set(n, _records(k, many)) for n, many in self.sets]
        parts.insert(self.behind, b"".join(ipfix_templates(_NUMBERED[n]) for n in self.brings))
        return ipfix(parts, sequence=sequence & 0xFFFFFFFF, seconds=NOW + k)


_MESSAGES = st.lists(
    st.builds(
        Message, _SETS, st.lists(st.sampled_from([256, 300, 400]), max_size=1), st.integers(0, 3),
        st.one_of(st.none(), st.floats(0, 2.5)),
    ),
    min_size=2, max_size=9,
)  # fmt: skip


def missing(messages: list[Message], came: list[int]) -> int:
    """Return how many records were in messages that did not come between the first that did and the last (naive)."""
    return sum(messages[k].records for k in range(came[0], max(came)) if k not in came)


@share(2)
@example([Message([], [], 0, 2.5), Message([(256, 1)], [], 0, 0.0), Message([], [], 0, 0.0)], False, 0, False)
@given(_MESSAGES, st.booleans(), st.sampled_from([0, 0xFFFFFFFA]), st.booleans())
def test_what_is_said_to_be_lost_never_came_and_once_all_templates_are_there_all_of_it_is_said(
    messages: list[Message], told: bool, first: int, saved: bool
) -> None:
    """Data before their template leave it open what was lost behind them, until it comes."""
    if told:
        messages = [*messages, Message([], [256, 300, 400], 0, 3.0)]
    begins = [first + sum(one.records for one in messages[:k]) for k in range(len(messages))]
    there = [k for k, one in enumerate(messages) if one.arrives is not None]
    order = sorted(there, key=lambda k: (k + (messages[k].arrives or 0.0), k))
    decoder, who = FlowDecoder(["bytes"]), (address("192.0.2.1"), 5000)
    found: list[int] = []
    for place, k in enumerate(order):
        sent = Datagrams.of([messages[k].payload(k, begins[k])], arrival=[NOW * SECOND], exporters=[who])
        for batch in decoder.decode(sent):
            found += batch.column("bytes").to_pylist()
        (one,) = decoder.exporters()
        assert one.restarts == 0 and 0 <= one.lost <= missing(messages, order[: place + 1])
        if saved:
            other = FlowDecoder(["bytes"])
            other.restore_whole(decoder.whole_state())
            decoder = other
    if told:
        (one,) = decoder.exporters()
        assert (one.lost, one.untold, one.held) == (missing(messages, order), 0, 0)
        assert len(found) == one.records == sum(messages[k].records for k in there)


@pytest.mark.parametrize("protocol", ["v5", "v9", "ipfix"])
def test_where_all_is_counted_every_loss_is_told(protocol: str) -> None:
    make, by_records = PROTOCOLS[protocol]
    seen = read([make(k, 2, 2 * k if by_records else k, 0) for k in range(9) if k != 4])
    assert (seen.only.lost, seen.only.untold) == (2 if by_records else 1, 0)


@each
@pytest.mark.parametrize("behind", [70, 500, 1000])
def test_copies_are_known_however_far_behind_as_a_thousand_datagrams(protocol: str, behind: int) -> None:
    payloads, _ = stream(protocol, [2] * 1100)
    both = [
        p for k, payload in enumerate(payloads) for p in ([payload, payloads[k - behind]] if k >= behind else [payload])
    ]
    one = read(both).only
    assert counts(one) == (0, 0, 1100 - behind, 0)
    assert one.records == (0 if protocol == "sflow" else 2200)


@each
def test_two_stragglers_in_a_row_are_no_restart(protocol: str) -> None:
    """They were sent before the session was first heard, so that nothing of before tells of them."""
    payloads, _ = stream(protocol, [2] * 20)
    one = read([*payloads[6:9], *payloads[2:5], *payloads[9:]]).only
    assert counts(one) == (0, 3, 0, 0)


@each
@pytest.mark.parametrize("behind", [20, 250])
def test_two_paths_of_which_one_is_slow_lose_nothing(protocol: str, behind: int) -> None:
    payloads, units = stream(protocol, [1, 2] * 300)
    fast, slow = payloads[::2], payloads[1::2]
    mixed = [payload for k, one in enumerate(fast) for payload in ([one, slow[k - behind]] if k >= behind else [one])]
    one = read([*mixed, *slow[len(slow) - behind :]]).only
    assert counts(one) == (0, len(slow) - 1, 0, 0)  # the last is the next one that is waited for
    # What never came is lost, whatever came late around it.
    gone = {slow[7], slow[8]}
    one = read([payload for payload in [*mixed, *slow[len(slow) - behind :]] if payload not in gone]).only
    assert counts(one) == (2 * units[1], len(slow) - 3, 0, 0)


@each
@pytest.mark.parametrize("first", [500, 100_000])
def test_stragglers_of_before_a_restart_are_no_loss(protocol: str, first: int) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    before = [make(k, 2, first + step * k, -9950) for k in range(20)]
    after = [make(k, 2, step * (k - 20), k and 19) for k in range(20, 40)]
    swapped = [*before[:19], after[0], before[19], *after[1:]]
    assert counts(read(swapped).only) == (0, 1, 0, 1)
    late = [*before[:18], *after[:4], *before[18:], *after[4:]]
    assert counts(read(late).only) == (0, 2, 0, 1)


def bare(k: int, many: int) -> bytes:
    """Give records of IPFIX without their template, all of one second."""
    return ipfix([a_set(256, _records(k, many))], sequence=many * k)


TAUGHT = ipfix_templates(_FIELDS)


@each
def test_what_comes_late_before_anything_else_is_read_as_if_it_had_not(protocol: str) -> None:
    """No gap tells of it, but its templates are those of now."""
    payloads, _ = stream(protocol, [2] * 20)
    one = read([payloads[1], payloads[0], *payloads[2:]]).only
    assert counts(one) == (0, 1, 0, 0) and (one.no_template, one.skipped) == (0, 0)
    assert one.records == (0 if protocol == "sflow" else 40)


def test_templates_that_their_data_overtook_are_late_and_nothing_is_lost() -> None:
    data = [bare(k, 3) for k in range(10)]
    taught = ipfix([TAUGHT])
    for overtaken in (1, 2, 5):
        one = read([*data[:overtaken], taught, *data[overtaken:]]).only
        assert counts(one) == (0, 1, 0, 0) and one.records == 30


@pytest.mark.parametrize("order", [[0, 2, 1, 3], [0, 2, 3, 1], [0, 1, 3, 2], [0, 3, 2, 1]])
def test_what_is_late_is_counted_so_though_its_template_has_not_come(order: list[int]) -> None:
    data = [bare(k, 3) for k in range(10)]
    one = read([*(data[k] for k in order), ipfix([TAUGHT], sequence=12), *data[4:]]).only
    late = sum(k < max(order[:place], default=0) for place, k in enumerate(order))
    assert counts(one) == (0, late, 0, 0) and one.records == 30


def test_what_never_came_is_lost_though_one_around_it_was_late() -> None:
    known = [ipfix([TAUGHT, a_set(256, _records(k, 3))], sequence=3 * k) for k in range(6)]
    strange = ipfix([a_set(300, bytes(24))], sequence=15, seconds=NOW + 1)
    one = read([*known[:2], strange, known[4], ipfix([a_set(256, _records(6, 3))], sequence=18)]).only
    assert counts(one) == (6, 1, 0, 0)  # numbers 2 and 3, of three records each


@pytest.mark.parametrize("protocol", ["v9", "ipfix"])
def test_several_of_one_burst_that_lag_behind_its_last_are_no_restart(protocol: str) -> None:
    taught = v9_templates(_FIELDS) if protocol == "v9" else TAUGHT
    make, step = (v9, 1) if protocol == "v9" else (ipfix, 2)
    burst = [make([taught, a_set(256, _records(k, 2))], sequence=step * k) for k in range(8)]
    one = read([burst[3], *burst[:3], *burst[4:]]).only
    assert counts(one) == (0, 3, 0, 0) and one.records == 16


def test_an_exporter_that_begins_anew_without_its_templates_is_not_late() -> None:
    before = [ipfix([a_set(256, _records(k, 3))], sequence=900 + 3 * k, seconds=NOW + k) for k in range(4)]
    after = [ipfix([a_set(256, _records(k, 3))], sequence=3 * k, seconds=NOW + 9 + k) for k in range(4)]
    assert counts(read([*before, *after]).only) == (0, 0, 0, 0)


@each
def test_a_wide_gap_is_filled_from_its_middle_however_many_others_there_are(protocol: str) -> None:
    payloads, units = stream(protocol, [2] * 1000)
    gone = set(range(3, 900, 3))  # more gaps than are known at a time
    first = [payload for k, payload in enumerate(payloads[:950]) if k not in gone]
    one = read([*first, payloads[953], payloads[951], payloads[950], payloads[952], *payloads[954:]]).only
    assert counts(one) == (units[0] * len(gone), 3, 0, 0)
