"""Exporters that connect by TCP or TLS: their answer is that of their messages, whatever the pieces these come in."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.channel import channel_of, port_of, sender_text, transport_of
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import FlowDecoder
from oop_engine.sources.flows.messages import cut
from oop_engine.sources.live import Certificate, LiveFlows, LiveReader
from oop_engine.sources.live.address import Listening
from oop_engine.sources.live.certificate import Renewed
from oop_engine.sources.live.streams import ROOM, Key, Streams
from tests.oop_engine.flows.exporter import (
    NOW,
    a_set,
    address,
    four,
    ipfix,
    ipfix_templates,
    number,
    plain,
    template,
    v5,
    v5_record,
    withdrawal,
)
from tests.oop_engine.live.collector import AT_ONCE, Time, bound, collect

SPECS = [(152, 8), (153, 8), (8, 4), (1, 4)]
TEMPLATE = ipfix_templates(template(256, SPECS))


def records(*octets: int) -> bytes:
    return b"".join(number(NOW * 1000, 8) * 2 + four("10.0.0.1") + number(n, 4) for n in octets)


def message(*octets: int, sequence: int = 0, told: bool = False, domain: int = 7) -> bytes:
    """Return a message with a record for each number, and the template before them if it is told."""
    return ipfix([*([TEMPLATE] if told else []), a_set(256, records(*octets))], sequence=sequence, domain=domain)


def listening() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen(64)
    return made


@contextmanager
def opened(many: int, **options: object) -> Iterator[tuple[Streams, list[socket.socket]]]:
    """Yield streams, and clients that are connected to them."""
    one = listening()
    made = Streams([(one, Listening("127.0.0.1", 0, "tcp"))], None, None, np.zeros(ROOM, np.uint8), **options)  # type: ignore[arg-type]
    clients = [socket.create_connection(one.getsockname()) for _ in range(many)]
    try:
        yield made, clients
    finally:
        made.close()
        for client in clients:
            client.close()


def payloads(found: Datagrams | None) -> list[tuple[int, bytes]]:
    """Return the port and the bytes of each datagram."""
    if found is None:
        return []
    places = zip(found.port.tolist(), found.offset.tolist(), found.length.tolist(), strict=True)
    return [(port_of(port), found.data[at : at + length].tobytes()) for port, at, length in places]


def rows_of(sent: list[bytes], port: int) -> list[dict[str, object]]:
    """Return what the messages of one exporter say."""
    whence = [(address("127.0.0.1"), channel_of("tcp", port))] * len(sent)
    decoder = FlowDecoder()
    found = list(decoder.decode(Datagrams.of(sent, arrival=[NOW * 10**9] * len(sent), exporters=whence)))
    return plain(found, decoder.schema)


@given(st.data())
def test_messages_in_any_pieces_are_those_that_were_sent(data: st.DataObject) -> None:
    many = data.draw(st.integers(1, 3))
    sent = [
        [message(*range(n), sequence=k, told=k == 0) for k, n in enumerate(numbers)]
        for numbers in data.draw(st.lists(st.lists(st.integers(0, 40), max_size=5), min_size=many, max_size=many))
    ]
    left = [b"".join(one) for one in sent]
    ended = data.draw(st.lists(st.booleans(), min_size=many, max_size=many))
    with opened(many) as (streams, clients):
        ports = [client.getsockname()[1] for client in clients]
        found: list[tuple[int, bytes]] = []
        while any(left):
            k = data.draw(st.sampled_from([k for k in range(many) if left[k]]))
            size = data.draw(st.integers(1, len(left[k])))
            clients[k].sendall(left[k][:size])
            left[k] = left[k][size:]
            found += payloads(streams.take(NOW).datagrams)
        for k in range(many):
            if ended[k]:
                clients[k].close()
        over = set[Key]()
        # What is on its way has come at last.
        while len(over) < sum(ended) or len(found) < sum(map(len, sent)):
            taken = streams.take(NOW)
            found += payloads(taken.datagrams)
            over |= set(taken.closed)
        assert [[one for port, one in found if port == own] for own in ports] == sent
        assert {port_of(channel) for _, channel in over} == {ports[k] for k in range(many) if ended[k]}
        assert not streams.reasons


@given(st.lists(st.integers(0, 9), max_size=9), st.binary(max_size=20), st.integers(0, 9))
def test_messages_are_cut_as_their_lengths_say(sizes: list[int], rest: bytes, before: int) -> None:
    def naive(data: bytes) -> tuple[list[int], bool]:
        at, ends = 0, [0]
        while at + 4 <= len(data):
            length = int.from_bytes(data[at + 2 : at + 4], "big")
            if data[at : at + 2] != b"\0\x0a" or length < 16:
                return ends, True
            if at + length > len(data):
                break
            at += length
            ends.append(at)
        return ends, False

    data = b"".join(ipfix([bytes(n)]) for n in sizes) + rest
    ends, damaged = cut(np.frombuffer(b"x" * before + data, np.uint8), before, before + len(data))
    assert ((ends - before).tolist(), damaged) == naive(data)


def drained(reader: LiveReader, chunks: Iterator[object], *, until: Callable[[], bool]) -> list[pa.RecordBatch]:
    """Read until something is so."""
    found: list[pa.RecordBatch] = []
    while not until():
        chunk = next(chunks)
        if isinstance(chunk, pa.RecordBatch) and len(chunk):
            found.append(chunk)
    return found


def test_the_answer_is_that_of_the_messages_beside_datagrams() -> None:
    one, udp = listening(), bound()
    source = LiveFlows([udp, one], clock=Time(), rules=AT_ONCE, most=6)
    sent = [message(1, 2, told=True), message(3, sequence=2), message(4, 5, 6, sequence=3)]
    with (
        socket.create_connection(one.getsockname()) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.1", client.getsockname()[1]))
        for k in range(3):
            other.sendto(v5([v5_record(octets=70 + k)], sequence=k), udp.getsockname())
            client.sendall(sent[k])
        port = client.getsockname()[1]
        reader = source.open(source.arrow.names, 65_536)
        batches = [chunk for chunk in reader.chunks() if isinstance(chunk, pa.RecordBatch)]
        rows = plain(batches, source.arrow)
    said = rows_of(sent, port)
    assert (
        [row["bytes"] for row in rows if row["version"] == 10] == [row["bytes"] for row in said] == [1, 2, 3, 4, 5, 6]
    )
    assert [row["bytes"] for row in rows if row["version"] == 5] == [70, 71, 72]
    # They have one address and one port, and are two exporters.
    assert {(r.who, r.counters.port, r.counters.lost, r.state) for r in reader.exporters()} == {
        ("127.0.0.1", port, 0, "live"), ("tcp://127.0.0.1", port, 0, "live"),
    }  # fmt: skip
    assert any("6 datagrams and messages received, 1 connections accepted" in note for note in reader.notes())


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_templates_live_and_die_with_their_connection(cleanup: ExitStack) -> None:
    """And are withdrawn in it; what is expired over UDP is not, and nothing is a copy or overtaken."""
    one, time = cleanup.enter_context(listening()), Time()
    source = LiveFlows(one, clock=time, rules=AT_ONCE)
    reader = source.open(["bytes"], 65_536)
    chunks = cleanup.enter_context(closing(reader.chunks()))
    next(chunks)
    assert reader.door is not None
    first = cleanup.enter_context(socket.create_connection(one.getsockname()))
    port = first.getsockname()[1]
    first.sendall(message(1, told=True))
    found = drained(reader, chunks, until=lambda: reader.door.received == 1)  # type: ignore[union-attr]
    time.now += 100_000 * 10**9
    # The same again, and one of before: an exporter that counts nothing.
    first.sendall(message(2) + message(2) + message(9, sequence=2**31))
    found += drained(reader, chunks, until=lambda: reader.door.received == 4)  # type: ignore[union-attr]
    first.sendall(ipfix([withdrawal(256)]) + message(8))
    found += drained(reader, chunks, until=lambda: reader.door.received == 6)  # type: ignore[union-attr]
    (report,) = reader.exporters()
    assert (report.counters.withdrawn, report.counters.held) == (1, 1)
    first.sendall(message(told=True))
    found += drained(reader, chunks, until=lambda: reader.door.received == 7)  # type: ignore[union-attr]
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first.close()
    found += drained(reader, chunks, until=lambda: not reader.door.streams.open)  # type: ignore[union-attr]
    assert [n for batch in found for n in batch.column("bytes").to_pylist()] == [1, 2, 2, 9, 8]
    # From the same port, and it has to tell its templates again.
    second = cleanup.enter_context(socket.socket())
    second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    second.bind(("127.0.0.1", port))
    second.connect(one.getsockname())
    second.sendall(message(5, sequence=77))
    drained(reader, chunks, until=lambda: reader.door.received == 8)  # type: ignore[union-attr]
    (report,) = reader.exporters()
    assert (report.counters.records, report.counters.held, report.counters.lost, report.state) == (5, 1, 0, "set aside")
    assert (report.counters.reordered, report.counters.duplicated, report.counters.restarts) == (0, 0, 0)
    assert reader.decoder.streams() == [(address("127.0.0.1"), channel_of("tcp", port))]
    reader.stop()
    list(chunks)
    assert any("1 connections closed, reset by the exporter" in note for note in reader.notes())


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"\0\x0a\0\x0f" + bytes(12), "a message of 15 bytes cannot be"),
        (v5([v5_record()]), "it sends NetFlow v5, and over connections only IPFIX is sent"),
        (b"\x16\x03\x01\x02\0\1", "it speaks TLS; tls:// listens for that"),
        (b"GET / HTTP/1.1\r\n\r\n", "47 45 54 20 begins no message of IPFIX"),
    ],
)
def test_damage_closes_its_connection_alone(damage: bytes, says: str) -> None:
    with opened(2) as (streams, (bad, good)):
        good.sendall(message(1, told=True)[:40])
        bad.sendall(message(2, told=True) + damage)
        found = payloads(streams.take(NOW).datagrams)
        good.sendall(message(1, told=True)[40:])
        while len(found) < 2:
            found += payloads(streams.take(NOW).datagrams)
        while len(streams.open) != 1:
            streams.take(NOW)
        assert dict(found) == {
            bad.getsockname()[1]: message(2, told=True),
            good.getsockname()[1]: message(1, told=True),
        }
        assert [says in trouble for trouble in streams.troubles()] == [True]
        (news,) = streams.news()
        assert news.startswith(f"tcp://127.0.0.1:{bad.getsockname()[1]}: closed, ") and list(streams.news()) == []


def test_an_end_inside_a_message_is_counted() -> None:
    with opened(1) as (streams, (client,)):
        client.sendall(message(1, told=True)[:-1])
        client.close()
        while streams.open or not streams.accepted:
            assert streams.take(NOW).datagrams is None
        assert streams.troubles() == ["1 connections closed, ended inside a message"]


def test_one_look_takes_what_a_connection_sent_before_it_was_accepted() -> None:
    """A collection that is stopped looks once more, and an exporter may have come and gone before that."""
    with opened(2) as (streams, (one, other)):
        one.sendall(message(1, told=True))
        one.close()
        other.sendall(message(2, told=True))
        found = dict[int, bytes]()
        while streams.accepted < 2:
            before = streams.accepted
            came = dict(payloads(streams.take(NOW).datagrams))
            found |= came
            assert len(came) == streams.accepted - before
        assert sorted(found.values()) == [message(1, told=True), message(2, told=True)]


def test_those_that_never_send_make_room_for_others() -> None:
    with opened(3, most=2) as (streams, clients):
        ports = [client.getsockname()[1] for client in clients]
        clients[2].sendall(message(1, told=True))
        while not payloads(streams.take(NOW).datagrams):
            pass
        assert streams.accepted == 3
        assert {port_of(channel) for _, channel in streams.open} == set(ports[1:])
        clients[1].sendall(message(1, told=True))
        while not payloads(streams.take(NOW).datagrams):
            pass
        # Both have sent, so the next has to go.
        with socket.create_connection(streams.listening[0][0].getsockname()) as late:
            while sum(streams.reasons.values()) < 2:
                streams.take(NOW)
            assert late.recv(1) == b""
        assert streams.troubles() == [
            "1 connections closed, silent, and others needed its place",
            "1 connections refused, more than 2 connections at once",
        ]


def test_who_is_not_allowed_is_refused_at_once() -> None:
    with opened(1) as (streams, (client,)):
        streams.allow = ((address("192.0.2.0"), address("192.0.2.255")),)
        client.sendall(message(1, told=True))
        while not streams.reasons:
            assert streams.take(NOW).datagrams is None
        assert streams.troubles() == ["1 connections refused, not of a network that allow names"]


@pytest.mark.slow
def test_who_sends_waits_while_nothing_is_read_and_nothing_is_lost() -> None:
    """More than the kernel keeps, from several at once: each has its share of a look."""
    each, many = 400, 3
    sent = [[message(*range(1500), sequence=1500 * k, told=k == 0) for k in range(each)] for _ in range(many)]
    one = listening()
    source = LiveFlows(one, clock=Time(), rules=AT_ONCE, most=each * many)
    done: list[int] = []

    def export(k: int) -> None:
        with socket.create_connection(one.getsockname()) as client:
            for part in sent[k]:
                client.sendall(part)
            done.append(k)

    threads = [threading.Thread(target=export, args=(k,)) for k in range(many)]
    for thread in threads:
        thread.start()
    reader = source.open(["bytes"], 65_536)
    chunks = reader.chunks()
    total = 0
    for chunk in chunks:
        total += len(chunk) if isinstance(chunk, pa.RecordBatch) else 0
        # There is more than the kernel takes, so nobody can be done before most is read.
        assert total > each * 1500 // 2 or not done
    for thread in threads:
        thread.join()
    assert total == many * each * 1500
    assert [(r.counters.records, r.counters.lost, r.counters.beyond) for r in reader.exporters()] == [
        (600_000, 0, 0)
    ] * 3


def test_a_flood_of_strangers_takes_nothing_from_a_connection() -> None:
    """Forged senders use up what may be admitted, and sessions; a connection is admitted, and keeps its templates."""
    one, udp = listening(), bound()
    source = LiveFlows([udp, one], clock=Time(), rules=AT_ONCE, most=2403)
    reader = source.open(["bytes", "version"], 65_536)
    chunks = reader.chunks()
    next(chunks)
    with (
        socket.create_connection(one.getsockname()) as client,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger,
    ):
        found = list[pa.RecordBatch]()

        def flood(first: int) -> None:
            for k in range(first, first + 1200):
                forger.sendto(message(1, told=True, domain=100 + k), udp.getsockname())
                if k % 100 == 99:
                    found.extend(drained(reader, chunks, until=lambda k=k: reader.door.received >= k))  # type: ignore[union-attr]

        flood(0)
        client.sendall(message(7, told=True))
        flood(1201)
        client.sendall(message(8, sequence=1) + message(9, sequence=2))
        found += [chunk for chunk in chunks if isinstance(chunk, pa.RecordBatch)]
    (mine,) = [r for r in reader.exporters() if r.counters.transport == "tcp"]
    assert (mine.counters.records, mine.counters.no_template) == (3, 0)
    (nobody,) = [r for r in reader.exporters() if r.counters.address is None]
    assert nobody.counters.unadmitted > 0


def test_a_connection_of_more_records_than_a_datagram_may_have_is_read_whole() -> None:
    one = listening()
    layout = ipfix_templates(template(256, [(4, 1)]))
    with socket.create_connection(one.getsockname()) as client:
        client.sendall(ipfix([layout, a_set(256, bytes(60_000))]))
        found = collect(one, most=1)
    (report,) = found.reader.exporters()
    assert (report.counters.records, report.counters.beyond, len(found.rows)) == (60_000, 0, 60_000)


def test_shedding_spares_connections() -> None:
    from oop_engine.sources.live.shedding import Shedder, Shedding

    shedder = Shedder(Shedding())
    shedder.rate = 8.0
    spared = np.arange(1000) % 2 == 0
    sample = shedder.choose(1000, 0.9, 10**12, idle=False, spared=spared)
    assert sample is not None and sample.kept[spared].all() and np.all(np.asarray(sample.rates)[spared] == 1)
    assert shedder.shed == 1000 - np.count_nonzero(sample.kept) > 300


def test_channels_are_told_apart() -> None:
    for transport in ("udp", "tcp", "tls"):
        for port in (0, 1, 4739, 65_535):
            channel = channel_of(transport, port)
            assert (transport_of(channel), port_of(channel)) == (transport, port)
    assert (transport_of(None), transport_of(-1), port_of(-1)) == ("udp", "udp", -1)
    assert sender_text("::1", channel_of("tls", 5)) == "tls://[::1]"
    assert sender_text("::1", 5) == "::1"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tcp://127.0.0.1:4739", Listening("127.0.0.1", 4739, "tcp")),
        ("TLS://[::1]:1", Listening("::1", 1, "tls")),
        ("udp://localhost:5", Listening("127.0.0.1", 5)),
        ("127.0.0.1:5", Listening("127.0.0.1", 5)),
    ],
)
def test_addresses_of_exporters_are_read_and_written(text: str, wanted: Listening) -> None:
    assert Listening.of_exporters(text) == wanted
    assert Listening.of_exporters(str(wanted)) == wanted


def test_a_port_of_tcp_that_is_taken_is_said_so() -> None:
    with listening() as taken:
        reader = LiveFlows(f"tcp://127.0.0.1:{taken.getsockname()[1]}").open(["ts"], 100)
        with pytest.raises(SourceError, match="ss -tlpn"):
            next(iter(reader.chunks()))
    with socket.socket() as loose, pytest.raises(SourceError, match="call its listen"):
        loose.bind(("127.0.0.1", 0))
        LiveFlows(loose)


# TLS


@attrs.frozen
class Files:
    certificate: Path
    key: Path
    ca: Path
    client: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    trustme = pytest.importorskip("trustme", reason="trustme is not installed (extra test)")
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("exporter.example")
    made = Files(folder / "c.pem", folder / "c.key", folder / "ca.pem", folder / "client.pem")
    for k, blob in enumerate(server.cert_chain_pems):
        blob.write_to_path(made.certificate, append=k > 0)
    server.private_key_pem.write_to_path(made.key)
    authority.cert_pem.write_to_path(made.ca)
    client.private_key_and_cert_chain_pem.write_to_path(made.client)
    return made


def exporting(where: tuple[str, int], files: Files, own: Path | None, sent: bytes, said: list[str]) -> None:
    """Connect by TLS and send; note what went wrong."""
    context = ssl.create_default_context(cafile=str(files.ca))
    if own is not None:
        context.load_cert_chain(own)
    try:
        with context.wrap_socket(socket.create_connection(where), server_hostname="127.0.0.1") as client:
            for k in range(0, len(sent), 100):
                client.sendall(sent[k : k + 100])
            client.unwrap().close()
            said.append("sent")
    except OSError as error:
        said.append(type(error).__name__)


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("shown", [False, True])
def test_exporters_connect_by_tls(files: Files, asked: bool, shown: bool) -> None:
    one = listening()
    source = LiveFlows(
        one,
        clock=Time(),
        rules=AT_ONCE,
        certificate=Certificate(files.certificate, files.key, files.ca if asked else None),
    )
    reader = source.open(["bytes"], 65_536)
    chunks = reader.chunks()
    sent = message(*range(900), told=True) + b"".join(message(k, sequence=900 + k) for k in range(2000))
    said: list[str] = []
    export = threading.Thread(
        target=exporting, args=(one.getsockname(), files, files.client if shown else None, sent, said)
    )
    export.start()
    streams = None
    found: list[int] = []
    for chunk in chunks:
        streams = reader.door.streams if reader.door is not None else None
        if isinstance(chunk, pa.RecordBatch):
            found += chunk.column("bytes").to_pylist()
        if streams is not None and streams.accepted and not streams.open:
            break
    export.join()
    reader.stop()
    list(chunks)
    assert streams is not None
    if asked and not shown:
        assert found == [] and streams.troubles() == [
            "1 connections closed, it showed no certificate, which client_ca wants"
        ]
    else:
        assert said == ["sent"] and found == [*range(900), *range(2000)] and streams.troubles() == []
        (report,) = reader.exporters()
        assert report.who == "tls://127.0.0.1" and report.counters.lost == 0 and report.state == "closed"


def test_who_speaks_no_tls_is_told_of(files: Files) -> None:
    one = listening()
    renewed = Renewed(Certificate(files.certificate, files.key))
    streams = Streams([(one, Listening("127.0.0.1", 0, "tls"))], renewed, None, np.zeros(ROOM, np.uint8))
    with socket.create_connection(one.getsockname()) as client:
        client.sendall(message(1, told=True))
        while not streams.reasons:
            assert streams.take(NOW).datagrams is None
    assert streams.troubles() == ["1 connections closed, it does not speak TLS; tcp:// listens without"]
    # One that says nothing holds up nobody.
    with socket.create_connection(one.getsockname()) as silent:
        while not streams.open:
            streams.take(NOW)
        silent.close()
        while streams.open:
            streams.take(NOW)
    streams.close()


def test_renewed_certificates_are_shown_without_a_restart(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme", reason="trustme is not installed (extra test)")
    ours = Certificate(tmp_path / "c.pem", tmp_path / "c.key", tmp_path / "ca.pem")
    authorities = [trustme.CA(), trustme.CA()]
    issued = [authority.issue_cert("127.0.0.1") for authority in authorities]

    def write(option: str, pem: Any) -> None:
        """Replace a file, as who renews certificates does."""
        pem.write_to_path(tmp_path / "new")
        (tmp_path / "new").rename(ours.files[option])

    write("certificate", issued[0].cert_chain_pems[0])
    write("key", issued[0].private_key_pem)
    write("client_ca", authorities[0].cert_pem)
    one = listening()
    streams = Streams([(one, Listening("127.0.0.1", 0, "tls"))], Renewed(ours), None, np.zeros(ROOM, np.uint8))
    said: list[str] = []

    def connected(trusted: int, shown: int) -> bool:
        """Connect as who trusts one authority and shows a certificate of one; return whether a message came."""
        context = ssl.create_default_context()
        authorities[trusted].configure_trust(context)
        authorities[shown].issue_cert("exporter.example").configure_cert(context)

        def connect() -> None:
            with (
                suppress(OSError),
                socket.create_connection(one.getsockname()) as raw,
                context.wrap_socket(raw, server_hostname="127.0.0.1") as client,
            ):
                client.sendall(message(1, told=True))
                client.unwrap()

        export = threading.Thread(target=connect)
        accepted, messages = streams.accepted, 0
        export.start()
        while export.is_alive() or streams.open or streams.accepted == accepted:
            taken = streams.take(NOW)
            messages += 0 if taken.datagrams is None else len(taken.datagrams)
        export.join()
        said.extend(streams.news())
        return messages == 1

    assert connected(0, 0) and said == []
    # A certificate whose key is still to come leaves all as it was, and is told of once.
    write("certificate", issued[1].cert_chain_pems[0])
    assert connected(0, 0) and connected(0, 0)
    (failure,) = said
    assert failure.startswith("certificate: the renewed files cannot be used, and the former ones are shown still: ")
    write("key", issued[1].private_key_pem)
    assert connected(1, 0) and not connected(0, 0)
    assert said[1] == "certificate: the renewed files are shown from now on"
    # Exporters have to show certificates of another authority from now on.
    write("client_ca", authorities[1].cert_pem)
    assert connected(1, 1) and not connected(1, 0)
    assert said[-1].endswith("no authority of client_ca signed its certificate")
    streams.close()


def test_files_that_cannot_be_used_are_named(files: Files, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("nothing\n")
    for made, says in (
        (Certificate(tmp_path / "no"), "cannot be read: No such file"),
        (Certificate(files.certificate), "cannot be used with the key in"),
        (Certificate(files.certificate, files.client), "key values mismatch"),
        (Certificate(files.certificate, files.key, tmp_path / "empty"), "holds no certificates in PEM"),
    ):
        with pytest.raises(SourceError, match=says):
            made.context()
    plain_key = files.key.read_bytes()
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(plain_key, None)
    locked = tmp_path / "locked"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(SourceError, match="is encrypted, and no password can be given"):
        Certificate(files.certificate, locked).context()


def test_who_holds_a_promise_back_is_named_by_its_connection() -> None:
    one = listening()
    source = LiveFlows(one, clock=Time(), rules=AT_ONCE, most=2)
    reader = source.open(["ts", "bytes"], 65_536)
    with socket.create_connection(one.getsockname()) as client:
        client.sendall(message(1, told=True) + message(2, sequence=1))
        list(reader.chunks())
        name = f"tcp://127.0.0.1:{client.getsockname()[1]}"
    holder = reader.holder("ts")
    assert holder is not None and holder.name == f"exporter {name}"
    (report,) = reader.exporters()
    assert f"{report.who}:{report.counters.port}" == name
