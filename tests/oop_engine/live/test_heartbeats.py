"""Templates, options and counters bring no records, but their headers tell how far an exporter is."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pytest

from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.parts import Parts
from oop_engine.sources.live import Rules
from oop_engine.sources.live.exporters import SECOND
from tests.oop_engine.flows.exporter import (
    HERE,
    NOW,
    a_set,
    address,
    flow_sample,
    four,
    header_record,
    ipfix,
    ipfix_options,
    ipfix_templates,
    number,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_options,
    v9_templates,
    xdr,
)
from tests.oop_engine.live.collector import Collected, Time, bound, collect, senders

SURE = Rules(active=0, inactive=0, scan=0, settle=0, trusted_after=1, lull=None)
LAYOUT = template(256, [(8, 4), (1, 4), (152, 8), (153, 8)])


def record(k: int) -> bytes:
    return a_set(256, four("10.0.0.1") + number(5, 4) + number(1000 * (NOW + k), 8) * 2)


@pytest.fixture
def exporter() -> Iterator[socket.socket]:
    with senders("127.0.0.1") as (one,):
        yield one


def read(exporter: socket.socket, payloads: Sequence[bytes], now: int, rules: Rules = SURE, **more: Any) -> Collected:
    """Collect datagrams that all came at second `now`."""
    listening = bound()
    for payload in payloads:
        exporter.sendto(payload, listening.getsockname())
    return collect(listening, most=len(payloads), clock=Time((NOW + now) * SECOND), rules=rules, **more)


def far(found: Collected) -> int:
    """Give how far it was promised, in seconds."""
    return max((int(p.bound("ts") or 0) for p in found.promises), default=0) // SECOND - NOW


def ipfix_at(k: int, *sets: bytes) -> bytes:
    return ipfix([ipfix_templates(LAYOUT), *sets], seconds=NOW + k, sequence=1 if k else 0)


RATE = [ipfix_options(300, [(149, 4)], [(34, 4)]), a_set(300, number(7, 4) + number(10, 4))]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (ipfix_at(0, record(0)), ipfix_at(8)),
        (ipfix_at(0, record(0)), ipfix_at(8, *RATE)),
        (ipfix_at(0, record(0)), ipfix([], seconds=NOW + 8, sequence=1)),
        (v9([v9_templates(LAYOUT), record(0)]), v9([v9_templates(LAYOUT)], sequence=1, seconds=NOW + 8)),
        (v9([v9_templates(LAYOUT), record(0)]), v9([v9_options(300, [(1, 4)], [(34, 4)])], sequence=1,
                                                   seconds=NOW + 8)),
        (v5([v5_record()]), v5([], sequence=1, seconds=NOW + 8, uptime=108_000)),
        (sflow([flow_sample([header_record(bytes(60))])]), sflow([xdr(2, bytes(12))], sequence=1, uptime=108_000)),
    ],
)  # fmt: skip
def test_a_datagram_without_records_tells_how_far_its_exporter_is(
    first: bytes, then: bytes, exporter: socket.socket
) -> None:
    found = read(exporter, [first, then], 8)
    assert len(found.rows) == 1 and far(found) == 8
    (one,) = found.reader.exporters()
    assert one.trails == 0 and one.late == 0


def test_headers_without_records_earn_no_say_and_make_nobody_known(exporter: socket.socket) -> None:
    rules = attrs.evolve(SURE, trusted_after=3)
    silent = [ipfix_at(k) for k in range(1, 6)]
    found = read(exporter, [*silent, ipfix_at(6, record(6)), *silent], 6, rules)
    assert found.promises[:-1] == [] and far(found) <= 0 and found.reader.exporters()[0].state == "new"
    found = read(exporter, silent, 6, rules)
    assert found.reader.exporting.exporters == [] and found.reader.exporters()[0].state == "silent"


def test_a_mad_header_without_records_moves_nothing_and_is_counted(exporter: socket.socket) -> None:
    found = read(exporter, [ipfix_at(0, record(0)), ipfix_at(200)], 1)
    assert far(found) == 0 and found.reader.exporting.exporters[0].doubted == 1
    (note,) = [note for note in found.reader.notes() if "moved nothing" in note]
    assert "127.0.0.1, domain 7: 1 datagrams whose header is more than 10 s off its clock" in note


def test_nothing_is_promised_by_a_header_while_records_of_before_wait_for_their_template(
    exporter: socket.socket,
) -> None:
    other = template(400, [(8, 4), (1, 4), (152, 8), (153, 8)])
    waiting = a_set(400, record(2)[4:])
    sent = [ipfix_at(0, record(0)), ipfix([waiting], seconds=NOW + 2, sequence=1), ipfix_at(6)]
    assert far(read(exporter, sent, 6)) == 0
    found = read(exporter, [*sent, ipfix([ipfix_templates(other)], seconds=NOW + 7, sequence=2)], 7)
    assert [row["ts"] // SECOND - NOW for row in found.rows] == [0, 2] and found.reader.exporting.late == 0


def test_it_is_not_waited_for_a_template_for_ever() -> None:
    waiting = a_set(400, record(2)[4:])
    payloads = [ipfix_at(0, record(0)), ipfix([waiting], seconds=NOW + 2, sequence=1), ipfix_at(9), ipfix_at(90)]
    assert [part[0] for part in heard_of(payloads, hold_for=60 * SECOND, one_by_one=True)] == [[0], [90]]


def heard_of(
    payloads: Sequence[bytes], *, one_by_one: bool = False, **options: Any
) -> list[tuple[list[int], list[int], list[bool]]]:
    """Give of each batch that is heard the seconds, first rows and whether recorded of its parts."""
    heard: list[tuple[list[int], list[int], list[bool]]] = []

    def take(batch: pa.RecordBatch, parts: Parts) -> pa.RecordBatch:
        assert sorted(parts.first.tolist()) == parts.first.tolist() and parts.first[-1] <= len(batch)
        heard.append(((parts.export // SECOND - NOW).tolist(), parts.first.tolist(), parts.recorded.tolist()))
        return batch

    decoder = FlowDecoder(heard=take, **options)
    for some in [[payload] for payload in payloads] if one_by_one else [list(payloads)]:
        list(decoder.decode(Datagrams.of(some, exporters=[HERE] * len(some))))
    return heard


def test_silent_datagrams_are_heard_in_order_once_each_however_the_records_are_cut() -> None:
    two = record(0) + record(0)
    payloads = [ipfix_at(0), ipfix_at(1, two), ipfix_at(2), ipfix_at(3), ipfix_at(4, record(4)), ipfix_at(5)]
    ((seconds, first, recorded),) = heard_of(payloads)
    assert seconds == [0, 1, 1, 2, 3, 4, 5] and first == [0, 0, 1, 2, 2, 2, 3]
    assert recorded == [False, True, True, False, False, True, False]
    # New rates are news, before which records are filled.
    cut = heard_of([*payloads[:3], ipfix_at(3, record(3), *RATE), *payloads[4:]])
    assert len(cut) == 2 and sorted(s for part in cut for s in part[0]) == [0, 1, 1, 2, 3, 4, 5]
    closed = [(address("10.0.0.0"), address("10.0.0.255"))]
    assert heard_of(payloads, allow=closed) == [] and heard_of([b"", b"\\0\\5"]) == []
