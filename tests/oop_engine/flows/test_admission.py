"""Forged senders become known no faster than is bearable: they push out nobody who sends, and all are counted."""

from __future__ import annotations

import numpy as np
import pytest

from oop_engine.sources.flows import Datagrams, FlowDecoder
from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.admission import Admission, Budget
from oop_engine.sources.flows.decoder import network_numbers
from oop_engine.sources.flows.source import trouble
from oop_engine.sources.flows.walk import is_allowed
from operators.data.address import parse_network
from tests.oop_engine.flows.exporter import HERE, NOW, SECOND, address, v5, v5_record
from tests.oop_engine.live.collector import bound, collect, send


def forged(k: int) -> tuple[bytes, int]:
    return address(f"198.{51 + k // 62_500}.{k // 250 % 250}.{k % 250}"), 6000


def decoded(decoder: FlowDecoder, senders: list[tuple[bytes, int]], now: int, sequence: int = 0) -> int:
    """Have a record of each sender decoded that came at a second; give how many were."""
    payloads = [v5([v5_record()], sequence=sequence + k) for k in range(len(senders))]
    datagrams = Datagrams.of(payloads, exporters=senders, arrival=[(NOW + now) * SECOND] * len(senders))
    return sum(len(batch) for batch in decoder.decode(datagrams))


def total(decoder: FlowDecoder, name: str) -> int:
    return sum(getattr(one, name) for one in decoder.exporters())


def test_so_many_strangers_are_taken_in_at_once_and_so_many_a_second() -> None:
    decoder = FlowDecoder(admission=Admission(strangers=Budget(20, 100)))
    places = iter(range(1_000_000))
    taken = [decoded(decoder, [forged(next(places)) for _ in range(500)], now) for now in (0, 0, 1, 2, 2, 60)]
    assert taken == [100, 0, 20, 20, 0, 100]
    assert total(decoder, "unadmitted") == 3000 - 240 and total(decoder, "datagrams") == 3000
    (nobody,) = [one for one in decoder.exporters() if one.address is None]
    assert "2,760 datagrams of senders that were not known" in (trouble(nobody) or "")
    # Those that were taken in are known.
    assert decoded(decoder, [forged(k) for k in range(100)] * 3, 60, sequence=10_000) == 300
    # What is in files, or has no time, is taken in whoever sent it.
    assert decoded(FlowDecoder(), [forged(k) for k in range(2000)], 0) == 2000


def test_a_flood_of_forged_senders_costs_an_exporter_no_record_and_not_its_place() -> None:
    decoder = FlowDecoder(admission=Admission())
    good, sent = 0, 0
    assert decoded(decoder, [HERE] * 3, 0) == 3
    for second in range(120):
        flood = [forged(1000 * second + k) for k in range(1000)]
        taken = decoded(decoder, flood[:500], second)
        assert decoded(decoder, [HERE, *flood[500:]], second, sequence=3 + second) >= 1
        sent += 1
        good += taken
    (one,) = [c for c in decoder.exporters() if c.address == HERE[0] and c.port == HERE[1]]
    assert (one.records, one.lost, one.datagrams) == (3 + sent, 0, 3 + sent)
    assert total(decoder, "unadmitted") >= 120 * 1000 - 1024 - 120 * 200


def test_who_may_not_send_is_told_of_singly_at_first_and_takes_no_place_of_others() -> None:
    allow = [parse_network("192.0.2.0/24")]
    assert allow[0][0] <= HERE[0] <= allow[0][1]
    decoder = FlowDecoder(admission=Admission(), allow=allow)
    for k in range(20):
        assert decoded(decoder, [HERE, *(forged(500 * k + n) for n in range(500))], 0, sequence=k) == 1
    told = decoder.exporters()
    assert total(decoder, "refused") == 10_000 and total(decoder, "unadmitted") == 0
    assert sum(one.refused > 0 and one.address is not None for one in told) == 64
    assert decoder.sessions.evicted == 0 and len(decoder.sessions.known) == 66
    (one,) = [c for c in told if c.address == HERE[0]]
    assert (one.records, one.refused) == (20, 0)


@pytest.mark.parametrize(
    "networks", [["10.0.0.0/8"], ["192.0.2.1", "2001:db8::/33", "0.0.0.0/1"], ["::/0"], ["::ffff:0:0/97"]]
)
def test_networks_are_told_as_python_tells_them(networks: list[str]) -> None:
    rng, known = np.random.default_rng(3), [parse_network(one) for one in networks]
    packed = network_numbers(known)
    edges = [end for one in known for end in one]
    near = [(int.from_bytes(end) + d) % 2**128 for end in edges for d in (-1, 0, 1)]
    every = [number.to_bytes(16) for number in near] + [rng.bytes(16) for _ in range(50)]
    every += [bytes(10) + b"\xff\xff" + rng.bytes(4) for _ in range(50)]
    for one in every:
        high, low = np.frombuffer(one, np.uint64)
        assert is_allowed(packed, high, low) == any(first <= one <= last for first, last in known)
    assert is_allowed(np.zeros((0, 4), np.uint64), np.uint64(1), np.uint64(2))


def test_a_budget_is_what_was_not_taken_of_late() -> None:
    budget = Budget(10, 5)
    assert budget.left(0) == 5
    for _ in range(5):
        budget.take(0)
    assert [budget.left(now * SECOND // 10) for now in (0, 1, 2, 5, 100)] == [0, 1, 2, 5, 5]


def test_a_collector_has_such_a_bound_and_tells_what_is_beyond_it() -> None:
    listening, many = bound(), 1024 + 30
    for k in range(many):
        send([v5([v5_record()])], listening, f"127.{1 + k // 200}.0.{1 + k % 200}")
    found = collect(listening, most=many)
    assert len(found.rows) == 1024 and found.reader.decoder.sessions.table[e.NOBODY, e.UNADMITTED] == 30
    assert any("30 datagrams of senders that were not known" in note for note in found.reader.troubles())
