"""What exporters send over loopback is read, counted and promised: nothing is lost without a number that says so."""

from __future__ import annotations

import random
import socket
import struct
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.drive.circuit import Circuit
from oop_engine.drive.runtime import run_to_end
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.sources.demanded_progress import Grain
from oop_engine.sources.errors import SourceError
from oop_engine.sources.live import LiveFlows, Rules
from oop_engine.sources.live import ring as ring_module
from oop_engine.sources.live.door import Door
from oop_engine.sources.live.exporters import SECOND
from operators.data.page import Page
from operators.pace import Pace
from operators.protocol import Element
from punctuation import Punctuation
from tests.examples import share
from tests.oop_engine.flows.exporter import (
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
    read,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
)
from tests.oop_engine.flows.test_flow_sequence import PROTOCOLS, stream
from tests.oop_engine.live.collector import AT_ONCE, Time, bound, collect, send, senders
from tests.open_set import OPEN_SET

FLOWS = OPEN_SET / "own/flows1.pcap"
each = pytest.mark.parametrize("protocol", PROTOCOLS)


def flows(k: int, *, count: int = 1, late: int = 0, octets: int = 400) -> bytes:
    """Give a datagram of v5 sent at second k, of records that ended then, or `late` s earlier, and took 5 s."""
    uptime = 1_000_000 + 1000 * k
    record = v5_record(first=uptime - 5000 - 1000 * late, last=uptime - 1000 * late, octets=octets)
    return v5([record] * count, sequence=k * count, seconds=NOW + k, uptime=uptime)


@each
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("first", [0, 2**32 - 50])
def test_what_was_lost_doubled_and_overtaken_on_the_way_is_counted(protocol: str, seed: int, first: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 9) for _ in range(60)]
    payloads, units = stream(protocol, sizes, first)
    fate = [rng.choice(["ok", "ok", "ok", "lost", "twice", "late"]) for _ in payloads]
    fate[0] = fate[1] = fate[-1] = "ok"
    sent: list[tuple[float, bytes]] = []
    for k, payload in enumerate(payloads):
        if fate[k] == "late" and fate[k + 1] not in ("ok", "twice"):
            fate[k] = "ok"
        if fate[k] != "lost":
            sent.append((k + (1.25 if fate[k] == "late" else 0), payload))
        if fate[k] == "twice":
            sent.append((k + 0.1, payload))
    ordered = [payload for _, payload in sorted(sent, key=lambda entry: entry[0])]
    listening = bound()
    port = send(ordered, listening)
    (one,) = collect(listening, most=len(ordered)).reader.exporters()
    counted = one.counters
    lost = sum(unit for unit, what in zip(units, fate, strict=True) if what == "lost")
    assert (counted.lost, counted.reordered, counted.duplicated, counted.restarts) == (
        lost, fate.count("late"), fate.count("twice"), 0,
    )  # fmt: skip
    who = "10.9.9.9" if protocol == "sflow" else "127.0.0.1"  # an agent says its address itself
    assert (counted.datagrams, counted.port, one.who) == (len(ordered), port, who)
    kept = sum(many for many, what in zip(sizes, fate, strict=True) if what != "lost")
    assert counted.records == (0 if protocol == "sflow" else kept)


@pytest.mark.parametrize("protocol", ["v5", "v9"])
def test_a_restart_and_a_wrap_of_the_uptime_are_no_loss(protocol: str) -> None:
    make, by_records = PROTOCOLS[protocol]
    step = 2 if by_records else 1
    before = [make(k, 2, 10_000 + step * k, 0) for k in range(5)]
    after = [make(k, 2, step * (k - 20), 40) for k in range(20, 25)]
    listening = bound()
    send([*before, *after], listening)
    counted = collect(listening, most=10).reader.exporters()[0].counters
    assert (counted.lost, counted.restarts, counted.records) == (0, 1, 20)
    boot = (50_000 - 2**32 + 3_000) // 1000 + 2
    listening = bound()
    send([make(k, 2, step * k, boot) for k in range(8)], listening)
    counted = collect(listening, most=8).reader.exporters()[0].counters
    assert (counted.lost, counted.restarts, counted.records) == (0, 0, 16)


def test_a_template_that_changes_is_obeyed_from_then_on() -> None:
    early = v9([v9_templates(template(256, [(8, 4), (1, 4)])), a_set(256, four("10.0.0.1") + number(7, 4))])
    later = v9([v9_templates(template(256, [(1, 4), (8, 4)])), a_set(256, number(9, 4) + four("10.0.0.2"))], sequence=1)
    listening = bound()
    send([early, later, v9([a_set(256, number(11, 4) + four("10.0.0.3"))], sequence=2)], listening)
    rows = collect(listening, most=3, columns=["ts", "srcIP", "bytes"]).rows
    assert [row["bytes"] for row in rows] == [7, 9, 11]


MIXED = [
    flows(0, count=3),
    v9([v9_templates(template(256, [(8, 4), (1, 4)])), a_set(256, (four("10.0.0.3") + number(3, 4)) * 2)]),
    ipfix([ipfix_templates(template(257, [(8, 4), (1, 4), (152, 8)])),
           a_set(257, four("10.0.0.4") + number(4, 4) + number(NOW * 1000, 8))]),
    sflow([flow_sample([header_record(bytes(64))])]),
]  # fmt: skip


@pytest.mark.parametrize("batched", [True, False])
def test_one_socket_takes_all_protocols_of_all_exporters(batched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not batched:
        monkeypatch.setattr(ring_module, "batched", lambda: None)
    hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"]
    listening = bound()
    with senders(*hosts) as sockets:
        for one, payload in zip(sockets, MIXED, strict=True):
            one.sendto(payload, listening.getsockname())
        ports = [one.getsockname()[1] for one in sockets]
    exporters = [(address(host), port) for host, port in zip(hosts, ports, strict=True)]
    found = collect(listening, most=4)
    assert found.rows == read(MIXED, exporters=exporters, arrival=[NOW * SECOND] * 4).rows
    assert len(found.rows) == 7
    reports = found.reader.exporters()
    assert [r.who for r in reports] == [*hosts[:3], "10.9.9.9"]
    assert [r.counters.protocol for r in reports] == ["NetFlow v5", "NetFlow v9", "IPFIX", "sFlow v5"]


@pytest.mark.parametrize("call", [True, False])
def test_exporters_may_have_addresses_of_ipv6(call: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not call:
        monkeypatch.setattr(ring_module, "batched", lambda: None)
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
        listening = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        try:
            listening.bind(("::1", 0))
        except OSError:
            listening.close()
            pytest.skip("this machine has no IPv6 loopback")
        sender.sendto(flows(0), listening.getsockname())
        (one,) = collect(listening, most=1).reader.exporters()
    assert one.who == "::1" and one.counters.records == 1


@pytest.mark.skipif(not hasattr(socket, "SO_RCVBUF"), reason="no receive buffers here")
def test_what_the_kernel_drops_is_known_and_is_what_the_sequence_misses() -> None:
    listening = bound(buffer=1)
    source = LiveFlows(listening, buffer=1, most=401, clock=Time(), rules=AT_ONCE)
    reader = source.open(["ts"], 65_536)
    send_from = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    chunks = reader.chunks()
    with send_from:
        for k in range(400):
            send_from.sendto(flows(k, count=30), listening.getsockname())
        first = next(chunks)
        assert isinstance(first, pa.RecordBatch) and len(first) > 0
        send_from.sendto(flows(400, count=30), listening.getsockname())
        list(chunks)
    (one,) = reader.exporters()
    door = reader.door
    assert door is not None and door.dropped > 0
    assert one.counters.datagrams + door.dropped == 401
    assert one.counters.records + one.counters.lost == 401 * 30
    assert any(f"{door.dropped:,} datagrams dropped by the kernel" in note for note in reader.notes())


def test_who_is_not_allowed_is_counted_and_never_promises() -> None:
    listening = bound()
    send([flows(k) for k in range(5)], listening, "127.0.0.9")
    assert collect(listening, most=5, allow="127.0.0.2/31").promises == []
    listening = bound()
    send([flows(k) for k in range(5)], listening, "127.0.0.9")
    send([flows(k) for k in range(3)], listening, "127.0.0.3")
    found = collect(listening, most=8, allow=["127.0.0.2/31"])
    assert {r.who: (r.state, r.counters.refused, r.counters.records) for r in found.reader.exporters()} == {
        "127.0.0.9": ("refused", 5, 0),
        "127.0.0.3": ("live", 0, 3),
    }
    assert len(found.rows) == 3 and len(found.promises) == 1


def test_garbage_promises_nothing_and_does_not_harm_a_good_exporter() -> None:
    rng = random.Random(7)
    garbage = [rng.randbytes(rng.randrange(200)) for _ in range(200)]
    garbage += [struct.pack(">H", rng.choice([5, 9, 10, 0])) + rng.randbytes(60) for _ in range(200)]
    good = [flows(k, count=2) for k in range(50)]
    listening = bound()
    with senders("127.0.0.1", "127.0.0.2") as (bad, fine):
        for k in range(400):
            bad.sendto(garbage[k], listening.getsockname())
            if k % 8 == 0:
                fine.sendto(good[k // 8], listening.getsockname())
    found = collect(listening, most=450, rules=attrs.evolve(AT_ONCE, trusted_after=3))
    mine = [r for r in found.reader.exporters() if r.who == "127.0.0.2"]
    assert [r.counters.records for r in mine] == [100] and mine[0].counters.lost == 0
    received = sum(r.counters.datagrams for r in found.reader.exporters())
    assert received == 450

    listening = bound()
    send(garbage, listening)
    alone = collect(listening, most=400, rules=attrs.evolve(AT_ONCE, trusted_after=3))
    assert alone.promises == []


def test_an_address_that_others_reach_must_be_opened_on_purpose() -> None:
    with pytest.raises(SourceError, match=r'allow="192\.0\.2\.0/24"'):
        oop.netflow(listen="0.0.0.0:2055")
    oop.netflow(listen="0.0.0.0:2055", anyone=True)
    oop.netflow(listen="[::]:4739", allow="192.0.2.0/24")
    oop.netflow(listen="localhost:2055")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as everywhere:
        everywhere.bind(("0.0.0.0", 0))
        with pytest.raises(SourceError, match="takes datagrams from whoever reaches this machine"):
            oop.netflow(listen=everywhere)


@pytest.mark.parametrize("text", ["2055", "127.0.0.1", "host:2055", "127.0.0.1:99999", "::1:2055x", "[::1:2055", ""])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(SourceError, match="is no address to listen on"):
        LiveFlows(text)


def test_a_port_that_is_taken_is_said_so() -> None:
    with bound() as taken:
        reader = LiveFlows(f"127.0.0.1:{taken.getsockname()[1]}").open(["ts"], 100)
        with pytest.raises(SourceError, match="ss -ulpn"):
            next(iter(reader.chunks()))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "not both"),
        ({"listen": "127.0.0.1:1", "places": ["x.pcap"]}, "not both"),
        ({"listen": "127.0.0.1:1", "on": "bytes"}, "exporters promise ts"),
        ({"listen": "127.0.0.1:1", "on": ("ts", "end_ts"), "slack": "1s"}, "slack is on one attribute"),
        ({"places": ["-"], "progress": "exact"}, 'write progress="exporters"'),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object], says: str) -> None:
    places = options.pop("places", [])
    with pytest.raises(ValueError, match=says):
        oop.netflow(*places, **options)  # type: ignore[misc,arg-type]


def test_it_can_be_read_once() -> None:
    listening = bound()
    source = LiveFlows(listening, lasting=1)
    list(source.open(["ts"], 100).chunks())
    with pytest.raises(SourceError, match="only once"):
        source.open(["ts"], 100)
    with pytest.raises(SourceError, match="cannot be read ahead"):
        source.values("ts")


@pytest.mark.parametrize("how", ["stop", "lasting"])
@pytest.mark.parametrize("stamped", [True, False])
def test_what_had_arrived_when_the_end_came_is_read(how: str, stamped: bool) -> None:
    listening = bound()
    source = LiveFlows(listening, lasting=1 if how == "lasting" else None, **({} if stamped else {"clock": Time()}))
    reader = source.open(["ts"], 65_536)
    chunks = reader.chunks()
    if how == "stop":
        while len(next(chunks)) != 0:  # type: ignore[arg-type]
            pass
    send([flows(k, count=2) for k in range(1500)], listening)
    reader.stop() if how == "stop" else None
    assert sum(len(chunk) for chunk in chunks if isinstance(chunk, pa.RecordBatch)) == 3000


def test_an_idle_socket_lets_time_pass_and_promises_come_without_a_datagram() -> None:
    listening, time = bound(), Time()
    rules = attrs.evolve(AT_ONCE, inactive=10 * SECOND, active=20 * SECOND, lull=5 * SECOND)
    source = LiveFlows(listening, clock=time, rules=rules)
    chunks = source.open(["ts"], 100).chunks()
    send([flows(0)], listening)
    assert len(next(chunks)) == 1  # type: ignore[arg-type]
    assert str(next(chunks)) == f"[ts < {(NOW - 40) * SECOND}]"
    assert len(next(chunks)) == 0  # type: ignore[arg-type]
    time.now += 30 * SECOND
    late = next(chunks)
    assert isinstance(late, Punctuation) and late.assumed and late.bound("ts") == (NOW + 30 - 5 - 40) * SECOND
    assert len(next(chunks)) == 0  # type: ignore[arg-type]


def test_promises_are_as_fine_as_they_were_asked_for_and_exact_when_polled() -> None:
    listening, time = bound(), Time()
    reader = LiveFlows(listening, clock=time, rules=attrs.evolve(AT_ONCE, inactive=0, scan=0), on="end_ts").open(
        ["end_ts"], 100
    )
    assert reader.describe({"end_ts": Grain(3600 * SECOND)})
    chunks = reader.chunks()
    with senders("127.0.0.1") as (exporter,):
        for k in range(10):
            exporter.sendto(flows(k), listening.getsockname())
        assert len(next(chunks)) == 10  # type: ignore[arg-type]
        assert str(next(chunks)) == f"[end_ts < {(NOW + 9 - (NOW + 9) % 3600) * SECOND}]"
        assert len(next(chunks)) == 0  # type: ignore[arg-type]
        reader.poll()
        assert str(next(chunks)) == f"[end_ts < {(NOW + 9) * SECOND}]"
        assert reader.describe({"end_ts": Grain(SECOND)}) and not reader.describe({"ts": Grain(SECOND)})
        exporter.sendto(flows(10), listening.getsockname())
        found = [next(chunks) for _ in range(3)]
    assert f"[end_ts < {(NOW + 10) * SECOND}]" in map(str, found)


def test_timeouts_that_an_exporter_announces_make_firm_promises() -> None:
    fields = template(256, [(8, 4), (152, 8), (153, 8)])
    record = four("10.0.0.1") + number(NOW * 1000 - 5000, 8) + number(NOW * 1000 - 1000, 8)
    data = ipfix([ipfix_templates(fields), a_set(256, record)])
    said = ipfix([ipfix_options(512, [(149, 4)], [(36, 2), (37, 2)]),
                  a_set(512, number(7, 4) + number(60, 2) + number(15, 2))], sequence=1)  # fmt: skip
    again = ipfix([a_set(256, record)], sequence=2, seconds=NOW + 1)
    listening = bound()
    send([data], listening)
    assert [(str(p), p.assumed) for p in collect(listening, most=1, on=("ts", "end_ts")).promises] == [
        (f"[ts < {(NOW - 25) * SECOND}]", True), (f"[end_ts < {(NOW - 25) * SECOND}]", True),
    ]  # fmt: skip
    listening = bound()
    send([data, said, again], listening)
    assert [(str(p), p.assumed) for p in collect(listening, most=3, on=("ts", "end_ts")).promises] == [
        (f"[ts < {(NOW + 1 - 85) * SECOND}]", False), (f"[end_ts < {(NOW + 1 - 25) * SECOND}]", False),
    ]  # fmt: skip


def test_a_clock_that_is_off_is_told_and_put_right_where_that_is_asked() -> None:
    hours = 7200
    listening = bound()
    send([flows(k) for k in range(3)], listening)
    found = collect(listening, most=3, clock=Time((NOW + hours + 2) * SECOND))
    assert [row["ts"] for row in found.rows] == [(NOW + k - 5) * SECOND for k in range(3)]
    assert found.reader.exporters()[0].state == "set aside"
    assert [(p.bound("ts"), p.assumed) for p in found.promises] == [((NOW + 2 - 25) * SECOND, True)]
    (note,) = [note for note in found.reader.notes() if "its clock is 7200.0 s behind" in note]
    assert "correct_clocks corrects that, and no other exporter has a trusted clock, so promises are estimated" in note
    listening = bound()
    send([flows(k) for k in range(3)], listening)
    found = collect(
        listening, most=3, clock=Time((NOW + hours + 2) * SECOND), rules=attrs.evolve(AT_ONCE, correct=True)
    )
    assert [row["ts"] for row in found.rows] == [(NOW + hours + k - 5) * SECOND for k in range(3)]
    assert [row["end_ts"] for row in found.rows] == [(NOW + hours + k) * SECOND for k in range(3)]
    assert [row["export_ts"] for row in found.rows] == [(NOW + hours + k) * SECOND for k in range(3)]
    assert [str(p) for p in found.promises] == [f"[ts < {(NOW + hours + 2 - 25) * SECOND}]"]


@attrs.frozen(eq=False)
class Behind(LiveFlows):
    """What the kernel stamped, read by a clock that is later."""

    def door(self) -> Door:
        return Door.open(*self.listen, stamped=True)


@pytest.mark.skipif(ring_module.batched() is None, reason="datagrams are stamped by Linux")
def test_who_waits_in_the_socket_is_not_silent() -> None:
    listening, now = bound(), int(clock.time())
    uptime = 1_000_000

    def sent(k: int) -> bytes:
        return v5([v5_record(first=uptime, last=uptime)], sequence=k, seconds=now, uptime=uptime)

    with senders("127.0.0.2", "127.0.0.3") as (first, second):
        for one, count in ((first, 1), (second, 1), (first, 600), (second, 600)):
            for k in range(count):
                one.sendto(sent(k + (count > 1)), listening.getsockname())
        rules = attrs.evolve(AT_ONCE, active=0, inactive=0, scan=0, lull=10 * SECOND, idle=15 * SECOND)
        source = Behind(listening, most=1202, rules=rules, clock=lambda: clock.time_ns() + 18 * SECOND)
        reader = source.open(["ts"], 65_536)
        chunks = list(reader.chunks())
    assert sum(len(chunk) for chunk in chunks if isinstance(chunk, pa.RecordBatch)) == 1202
    assert [(r.who, r.late) for r in reader.exporters()] == [("127.0.0.2", 0), ("127.0.0.3", 0)]


def test_a_record_of_the_future_is_without_a_time_and_told_of() -> None:
    listening = bound()
    send([flows(0), flows(1, late=-400), flows(2, late=-200), flows(3, late=-297)], listening)
    found = collect(listening, most=4, clock=Time((NOW + 2) * SECOND))
    assert [row["ts"] for row in found.rows] == [(NOW - 5) * SECOND, None, (NOW + 197) * SECOND, (NOW + 295) * SECOND]
    assert [row["end_ts"] is None for row in found.rows] == [False, True, False, False]
    assert any("127.0.0.1, domain 0: 1 records more than 300 s in the future" in n for n in found.reader.notes())


def test_an_exporter_without_a_clock_promises_by_its_arrivals_and_is_told_of() -> None:
    fields = v9_templates(template(256, [(8, 4), (152, 8)]))
    record = four("10.0.0.1") + number(NOW * 1000, 8)
    listening = bound()
    send([v9([fields, a_set(256, record)], sequence=k, seconds=1000 + k) for k in range(4)], listening)
    found = collect(listening, most=4, rules=attrs.evolve(AT_ONCE, trusted_after=3))
    assert [(str(p), p.assumed) for p in found.promises] == [(f"[ts < {(NOW - 25) * SECOND}]", True)]
    assert found.reader.exporters()[0].state == "live"
    assert any("4 datagrams whose header has no possible time" in note for note in found.reader.notes())


def test_records_without_a_time_stay_without_when_clocks_are_put_right() -> None:
    listening = bound()
    send([MIXED[1], v9([a_set(256, (four("10.0.0.3") + number(3, 4)))], sequence=1)], listening)
    rules = attrs.evolve(AT_ONCE, correct=True)
    found = collect(listening, most=2, clock=Time((NOW + 500) * SECOND), rules=rules)
    assert [row["ts"] for row in found.rows] == [None] * 3


def test_a_window_query_over_what_comes_in() -> None:
    listening = bound()
    send([flows(k, count=2) for k in range(30)], listening)
    source = LiveFlows(
        listening, most=30, clock=Time(), rules=attrs.evolve(AT_ONCE, inactive=0, active=5 * SECOND, scan=0)
    )
    seen = oop.from_source(source).window(range="10s", wattr="ts").aggregate(oop.count(), by="srcIP").run()
    assert seen.table["count"].to_pylist() == [10, 20, 20, 10]
    assert seen.statistics.late == 0 and not seen.statistics.interrupted


@contextmanager
def receiving(transport: str, sent: Sequence[bytes]) -> Iterator[socket.socket]:
    """Send datagrams, or their bytes over TCP, to a socket, which is closed at the end."""
    with closing(bound() if transport == "udp" else socket.create_server(("127.0.0.1", 0))) as listening:
        if transport == "udp":
            send(sent, listening)
        else:
            with closing(socket.create_connection(listening.getsockname())) as exporter:
                exporter.sendall(b"".join(sent))
        yield listening


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@share(1)
@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from([False, False, True])), min_size=1, max_size=12))
def test_promises_that_exporters_embed_in_their_records_close_windows(
    transport: str, records: list[tuple[int, bool]]
) -> None:
    """A record that is marked promises that none below its own start follows, whatever the collector's clock says."""
    wanted, before_the_end = windows_by_embedded(records)
    fields = ipfix_templates(template(256, [(152, 8), (153, 8), (276, 1)]))
    sent = [ipfix([fields])]
    for ts, marked in records:
        times = number((NOW - 100 + ts) * 1000, 8) + number((NOW - 50) * 1000, 8)
        sent.append(ipfix([a_set(256, times + number(1 if marked else 2, 1))], sequence=len(sent) - 1))
    with receiving(transport, sent) as listening:
        source = LiveFlows(
            listening, columns=["dataRecordsReliability"], most=len(sent), on=(), clock=Time(NOW * SECOND)
        )
        stream = oop.from_source(source, punctuate=oop.embedded("dataRecordsReliability"))
        plan = Plan((stream.window(range="10s", wattr="ts").aggregate(oop.count()).node,))
        found, early = list[tuple[int, int]](), list[tuple[int, int]]()
        for _, element in Run(plan):
            if isinstance(element, Page):
                starts = element.ticks("window_start") // SECOND - (NOW - 100) // 10 * 10
                found += zip(starts.tolist(), (int(str(row["count"])) for row in element.rows()), strict=True)
            elif not element.is_end:
                early = list(found)
    assert sorted(found) == wanted
    assert sorted(early) == before_the_end


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_blocks_of_records_from_a_socket_end_with_the_first_record_of_the_next_one(transport: str) -> None:
    """Records of ten seconds come in any order among themselves; their window leaves as soon as they are over."""
    begin = (NOW - 100) // 10 * 10
    blocks = [[7, 0, 9, 3], [14, 11], [22, 29, 20], [35, 31]]
    wanted = [(begin + 10 * place, len(block)) for place, block in enumerate(blocks)]
    sent = [ipfix([ipfix_templates(template(256, [(152, 8), (153, 8)]))])]
    for ts in (begin + offset for block in blocks for offset in block):
        times = number(ts * 1000, 8) + number((NOW - 50) * 1000, 8)
        sent.append(ipfix([a_set(256, times)], sequence=len(sent) - 1))
    with receiving(transport, sent) as listening:
        source = LiveFlows(listening, most=len(sent), on=(), clock=Time(NOW * SECOND))
        stream = oop.from_source(source, punctuate=oop.blocks("ts", length="10s"))
        found, early = list[tuple[int, int]](), list[tuple[int, int]]()
        for _, element in Run(Plan((stream.window(range="10s", wattr="ts").aggregate(oop.count()).node,))):
            if isinstance(element, Page):
                starts = (element.ticks("window_start") // SECOND).tolist()
                found += zip(starts, (int(str(row["count"])) for row in element.rows()), strict=True)
            elif not element.is_end:
                early = list(found)
    assert found == wanted
    assert early == wanted[:-1]


def test_a_stream_that_listens_may_be_promised_by_slack_instead() -> None:
    listening = bound()
    send([flows(k, count=2) for k in range(30)], listening)
    stream = oop.netflow(listen=listening, most=30, slack="1s")
    assert stream.window(range="10s").aggregate(oop.count()).to_arrow()["count"].to_pylist() == [10, 20, 20, 10]


def windows_by_embedded(records: list[tuple[int, bool]]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Count by definition: a record is in its window of 10 s if no mark before it was at the window's end or behind.

    Windows begin at multiples of 10 s since 1970, and a marked record is a promise alone. Returns all windows, and
    those that the last mark completes.
    """
    offset = (NOW - 100) % 10
    counts: dict[int, int] = {}
    bound = -1
    for ts, marked in records:
        begin = (ts + offset) // 10 * 10
        if marked:
            bound = max(bound, ts + offset)
        elif begin + 10 > bound:
            counts[begin] = counts.get(begin, 0) + 1
    return sorted(counts.items()), sorted((begin, n) for begin, n in counts.items() if begin + 10 <= bound)


def test_windows_over_arrival_need_no_promise() -> None:
    listening = bound()
    send([flows(k, count=2) for k in range(30)], listening)
    time = Time()
    source = LiveFlows(listening, clock=time, rules=AT_ONCE)
    plan = Plan((oop.from_source(source).window(range="10s", wattr="arrival_ts").aggregate(oop.count()).node,))
    rows: list[dict[str, object]] = []

    def watch(circuit: Circuit) -> None:
        # In a lull the clock alone tells.
        time.now += 5 * SECOND
        if rows:
            circuit.readers[0].stop()  # type: ignore[attr-defined]

    run_to_end(plan, [lambda e: rows.extend(e.rows()) if isinstance(e, Page) else None], watch=watch)
    assert [row["count"] for row in rows] == [60]


def test_groups_of_an_exporter_are_released_by_its_own_progress() -> None:
    listening = bound()
    for k in range(40):
        send([flows(k)], listening, "127.0.0.2")
    send([flows(0)], listening, "127.0.0.3")
    rules = attrs.evolve(AT_ONCE, inactive=0, active=5 * SECOND, scan=0)
    source = LiveFlows(listening, most=41, clock=Time(), rules=rules, by_exporter=True)
    plan = Plan((oop.from_source(source).window(range="10s", wattr="ts").aggregate(oop.count(), by="exporter").node,))
    rows: list[dict[str, object]] = []
    ended = False
    for _, element in Run(plan):
        ended |= isinstance(element, Punctuation) and element.is_end
        if isinstance(element, Page) and not ended:
            rows += element.rows()
    assert len(rows) == 6


def run(listening: socket.socket, watch: Callable[[Circuit], None], **options: object) -> list[Element]:
    """Run a query of one-hour windows until `watch` stops it."""
    found: list[Element] = []
    rules = attrs.evolve(AT_ONCE, inactive=0, active=0, scan=0)
    stream = oop.from_source(LiveFlows(listening, rules=rules, clock=Time(), **options))  # type: ignore[arg-type]
    output = stream.window(range="1 hour", wattr="ts").aggregate(oop.count())
    plan = Plan((stream.filter("bytes > 0").node, output.node))
    run_to_end(plan, [found.append, lambda element: None], watch=watch)
    return found


def test_a_finer_query_at_run_time_makes_finer_promises_appear() -> None:
    listening, seen = bound(), list[int]()
    send([flows(k) for k in range(5)], listening)

    def watch(circuit: Circuit) -> None:
        seen.append(1)
        if 0 in circuit.readers and len(seen) > 3:
            circuit.describe(0, "ts", Pace(SECOND))
            circuit.readers[0].stop()  # type: ignore[attr-defined]

    promises = [e for e in run(listening, watch) if isinstance(e, Punctuation) and not e.is_end]
    steps = [p.bound("ts") % (3600 * SECOND) for p in promises]  # type: ignore[operator]
    assert steps == [0, (NOW + 4) % 3600 * SECOND]


def test_who_waits_for_a_promise_can_ask_for_it() -> None:
    listening, seen = bound(), list[int]()
    send([flows(k) for k in range(5)], listening)

    def watch(circuit: Circuit) -> None:
        seen.append(1)
        if 0 in circuit.readers and len(seen) > 3:
            circuit.poll(len(circuit.plan.nodes) - 1)
            circuit.readers[0].stop()  # type: ignore[attr-defined]

    promises = [e for e in run(listening, watch) if isinstance(e, Punctuation) and not e.is_end]
    assert promises[-1].bound("ts") == (NOW + 4) * SECOND


@pytest.mark.skipif(not FLOWS.exists(), reason=f"{FLOWS} is not there")
def test_a_file_of_exports_is_replayed_with_the_promises_of_its_exporters() -> None:
    exports = oop.netflow(FLOWS, progress="exporters", active="60s", inactive="15s", correct_clocks=True)
    outcome = exports.window(range="10s", wattr="ts").aggregate(oop.count()).run()
    assert (
        outcome.statistics.late == 0 and sum(outcome.table["count"].to_pylist()) == outcome.statistics.tuples > 30_000
    )


def test_rules_of_a_stream_are_said_as_durations() -> None:
    node = oop.netflow(listen="127.0.0.1:0", active="1 minute", inactive="15s", idle="2 minutes", lull=None).node
    assert node.source.rules == Rules(  # type: ignore[union-attr]
        active=60 * SECOND, inactive=15 * SECOND, idle=120 * SECOND, lull=None
    )
