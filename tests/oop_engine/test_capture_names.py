"""Names of DNS, TLS and HTTP are those in the packet, as bounded printable text; hostile bytes give null."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oop_engine.sources.capture import PACKET_SCHEMA, further
from tests.capture_files import SECOND, ether, ipv4, ipv6, pcap, rows, table, tcp, udp
from tests.examples import chosen
from tests.open_set import OPEN_SET, with_open_set

DNS = ["dns_query", "dns_type", "dns_response", "dns_rcode", "dns_id"]
NAMES = [*DNS, "tls_sni", "http_host"]


def question(name: bytes, *, bits: int = 0x0100, count: int = 1, kind: int = 28) -> bytes:
    return struct.pack(">HHHHHH", 0x1234, bits, count, 0, 0, 0) + name + struct.pack(">HH", kind, 1)


def labels(*parts: bytes) -> bytes:
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def hello(name: bytes, *, before: bytes = b"\0\x0b\0\2\1\0", session: int = 32, kind: int = 0) -> bytes:
    server = struct.pack(">HBH", len(name) + 3, kind, len(name)) + name
    extensions = before + struct.pack(">HH", 0, len(server)) + server + b"\0\x17\0\0"
    body = b"\3\3" + bytes(32) + bytes([session]) + bytes(session) + b"\0\4\x13\1\x13\2" + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def one(frame: bytes, *names: str) -> Any:
    (row,) = rows(pcap([(SECOND, frame)]), columns=names)
    return tuple(row[name] for name in names) if names[1:] else row[names[0]]


def asked(message: bytes) -> tuple[Any, ...]:
    return one(ether(ipv4(udp(message), 17)), *DNS)


def escaped(name: bytes, special: bytes) -> str:
    return "".join(chr(b) if 32 < b < 127 and b not in special else f"\\{b:03d}" for b in name)


def naive(message: bytes) -> tuple[Any, ...]:
    """Read the header and first question of a message, byte by byte."""
    if len(message) < 12:
        return None, None, None, None, None
    number, bits, count = struct.unpack(">HHH", message[:6])
    answer = bits >= 0x8000
    head = answer, bits & 15 if answer else None, number
    parts, at = [], 12
    while count and at < len(message) and (size := message[at]):
        part = message[at + 1 : at + 1 + size]
        if size > 63 or len(part) < size or at + 2 + size - 12 > 255:
            return None, None, *head
        parts.append(escaped(part, b"\\."))
        at += 1 + size
    if not count or at >= len(message):
        return None, None, *head
    kind = message[at + 1 : at + 3]
    return ".".join(parts) or ".", int.from_bytes(kind, "big") if len(kind) == 2 else None, *head


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (labels(b"www", b"exAmple", b"org"), "www.exAmple.org"),
        (b"\0", "."),
        (labels(b"a.b", b"c\\d", b"\xff\0 "), "a\\046b.c\\092d.\\255\\000\\032"),
        (labels(*[b"x" * 63] * 3, b"y" * 61), ".".join(["x" * 63] * 3 + ["y" * 61])),
        (labels(*[b"\xff" * 63] * 3, b"\0" * 61), ".".join(["\\255" * 63] * 3 + ["\\000" * 61])),
        (labels(*[b"x" * 63] * 3, b"y" * 62), None),
        (b"\xc0\x0c", None),
        (b"\3www\xc0\x0c", None),
        (b"\xc0\x00", None),
        (b"\x40abc", None),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_the_first_question_is_shown_as_printable_text(name: bytes, text: str | None) -> None:
    message = question(name)
    assert asked(message) == naive(message)
    assert asked(message)[0] == text


def test_queries_and_answers_are_told_apart_and_have_their_codes() -> None:
    assert asked(question(labels(b"a"), bits=0x0105)) == ("a", 28, False, None, 0x1234)
    assert asked(question(labels(b"a"), bits=0x8183)) == ("a", 28, True, 3, 0x1234)
    assert asked(question(labels(b"a"), bits=0x8400, count=0)) == (None, None, True, 0, 0x1234)


def test_dns_is_read_over_tcp_and_ipv6_and_on_its_ports_alone() -> None:
    message = question(labels(b"a", b"b"))
    segment = struct.pack(">HH", 40_000, 53) + tcp()[4:] + struct.pack(">H", len(message)) + message
    assert one(ether(ipv4(segment, 6)), "dns_query") == "a.b"
    assert one(ether(ipv6(udp(message), 17), 0x86DD), "dns_query") == "a.b"
    for ports, name in (((5353, 9), "a.b"), ((9, 5355), "a.b"), ((54, 9), None)):
        datagram = struct.pack(">HHHH", *ports, 8 + len(message), 0) + message
        assert one(ether(ipv4(datagram, 17)), "dns_query") == name
    assert one(ether(ipv4(udp(message), 17, fragment=0x00B9)), "dns_id") is None


def test_messages_of_any_bytes_cut_anywhere_are_read_as_byte_by_byte() -> None:
    made, messages = random.Random(11), []
    for _ in range(100 * chosen.unit):
        parts = [made.randbytes(made.choice((1, 3, 20, 63))) for _ in range(made.randrange(6))]
        message = bytearray(question(labels(*parts), bits=made.randrange(1 << 16), count=made.choice((0, 1, 1, 2))))
        if made.random() < 0.3:
            message[made.randrange(len(message))] = made.choice((0, 0x3F, 0x40, 0xC0, 0xFF))
        messages.append(bytes(message[: made.choice((len(message), made.randrange(len(message) + 1)))]))
    read = table(pcap([(SECOND, ether(ipv4(udp(message), 17))) for message in messages]), columns=DNS)
    read.validate(full=True)
    assert [tuple(row.values()) for row in read.to_pylist()] == [naive(message) for message in messages]


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (hello(b"www.example.org"), "www.example.org"),
        (hello(b"a", session=0, before=b""), "a"),
        (hello(b"\xc3\xa9 \\."), "\\195\\169\\032\\092."),
        (hello(b"x" * 255), "x" * 255),
        (hello(b"x" * 256), None),
        (hello(b""), None),
        (hello(b"www", kind=1), None),
        (hello(b"www", before=b"\0\0\0\3\0\1\0"), None),
        (b"\x17" + hello(b"www")[1:], None),
        (hello(b"www")[:5] + b"\2" + hello(b"www")[6:], None),
    ],
)
def test_a_client_of_tls_names_its_server(payload: bytes, name: str | None) -> None:
    assert one(ether(ipv4(tcp(payload), 6)), "tls_sni") == name


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"GET / HTTP/1.1\r\nAccept: */*\r\nhOsT: \t www.example.org:8080 \r\n\r\n", "www.example.org:8080"),
        (b"PROPFIND /x HTTP/1.0\nHost:a\n\n", "a"),
        (b"GET / HTTP/1.1\r\nHost: a b\xe9\\\r\n\r\n", "a\\032b\\233\\092"),
        (b"GET / HTTP/1.1\r\nHost: " + b"x" * 255 + b"\r\n\r\n", "x" * 255),
        (b"GET / HTTP/1.1\r\nHost: " + b"x" * 256 + b"\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\nHost: cut", None),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\n\r\nHost: body\r\n", None),
        (b"GET / SIP/2.0\r\nHost: a\r\n\r\n", None),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", None),
        (b"HTTP/1.1 200 OK\r\nHost: a\r\n\r\n", None),
        (b"GET \n", None),
        (b"GET HTTP/1.1", None),
    ],
)
def test_a_request_of_http_names_its_host(payload: bytes, name: str | None) -> None:
    assert one(ether(ipv4(tcp(payload), 6)), "http_host") == name


def test_a_payload_cut_anywhere_has_its_whole_name_or_none_and_never_what_follows() -> None:
    texts = {"tls_sni": hello(b"www.example.org"), "http_host": b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n"}
    texts["dns_query"] = question(labels(b"www", b"example", b"org"))
    for name, payload in texts.items():
        whole = ether(ipv4(udp(payload), 17) if name == "dns_query" else ipv4(tcp(payload), 6))
        for other in (b"\0", b"A", b"\xff", b"\n"):
            records = [(SECOND, part) for size in range(len(whole)) for part in (whole[:size], other * 60)]
            cut = pcap(records, wire=len(whole))
            found = [row[name] for row in rows(cut, columns=[name])][::2]
            assert set(found) <= {None, "www.example.org"}
            assert found == sorted(found, key=lambda text: text is not None), "what was there stays there"


def test_changed_bytes_of_payloads_never_give_more_than_a_name_of_printable_ascii() -> None:
    made, frames = random.Random(3), []
    for payload in (hello(b"www.example.org"), b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n"):
        for _ in range(60 * chosen.unit):
            changed = bytearray(payload)
            for _ in range(made.randrange(1, 4)):
                changed[made.randrange(len(changed))] = made.choice((0, 1, 0xFF, made.randrange(256)))
            frames.append(ether(ipv4(tcp(bytes(changed)), 6)))
    read = table(pcap([(SECOND, frame) for frame in frames]), columns=NAMES)
    read.validate(full=True)
    for name in ("tls_sni", "http_host"):
        texts = [text for text in read[name].to_pylist() if text is not None]
        assert all(0 < len(text) <= 4 * 255 and text.isascii() and text.isprintable() for text in texts)


def test_texts_have_room_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [ether(ipv4(udp(question(labels(b"\xff" * 63, str(k).encode()))), 17)) for k in range(300)]
    source = pcap([(SECOND, frame) for frame in frames])
    whole = table(source, columns=NAMES).combine_chunks()
    assert whole["dns_query"].to_pylist() == ["\\255" * 63 + f".{k}" for k in range(300)]
    monkeypatch.setattr(further, "_ROOM", 16)
    assert table(source, columns=NAMES).combine_chunks() == whole
    for batch_rows in (1, 64):
        assert table(source, columns=NAMES, batch_rows=batch_rows).combine_chunks() == whole


def test_names_leave_the_other_columns_as_they_are() -> None:
    frames = [ether(ipv4(udp(question(labels(b"a"))), 17)), ether(ipv4(tcp(hello(b"b")), 6)), ether(b"arp", 0x0806)]
    source = pcap([(SECOND, frame) for frame in frames])
    assert table(source, columns=[*PACKET_SCHEMA.names, *NAMES]).select(PACKET_SCHEMA.names) == table(source)
    assert table(pcap([]), columns=NAMES).schema.field("dns_query").type == pa.string()


FIELDS = [
    "dns.qry.name",
    "dns.qry.type",
    "dns.flags.response",
    "dns.flags.rcode",
    "dns.id",
    "tls.handshake.extensions_server_name",
    "http.host",
]


def by_tshark(path: Path) -> list[tuple[Any, ...]]:
    """Return the first of each field of each packet, as tshark reads it, no packets put together."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    fields = [argument for field in FIELDS for argument in ("-e", field)]
    alone = ["-o", "tcp.desegment_tcp_streams:FALSE", "-o", "ip.defragment:FALSE"]
    command = ["tshark", "-r", str(path), "-n", *alone, "-T", "fields", "-E", "occurrence=f", *fields]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = []
    for line in told:
        name, kind, answer, code, number, server, host = line.split("\t")
        found.append((
            "." if name == "<Root>" else name or None, int(kind, 0) if kind else None,
            answer in ("1", "True") if answer else None, int(code, 0) if code else None,
            int(number, 0) if number else None, server or None, host or None,
        ))  # fmt: skip
    return found


NAMED = ["zeek__ticks-dns-1hr.pcap", "zeek__wikipedia.pcap", "pcapplusplus__example.pcap"]


@with_open_set
@pytest.mark.parametrize("name", NAMED)
def test_names_are_those_of_tshark(name: str) -> None:
    path = OPEN_SET / "traffic" / name
    read = [tuple(row[name] for name in NAMES) for row in rows(path, columns=NAMES)]
    assert read == by_tshark(path)
    assert any(row[0] or row[6] for row in read)


def test_made_names_are_those_of_tshark(tmp_path: Path) -> None:
    request = b"GET / HTTP/1.1\r\nHost: www.example.org:8080\r\n\r\n"
    frames = [
        ether(ipv4(tcp(hello(b"www.example.org"), 0x18), 6)),
        ether(ipv4(struct.pack(">HH", 50_001, 80) + tcp(b"", 0x18)[4:] + request, 6)),
        *(
            ether(ipv4(udp(question(name, bits=bits)), 17))
            for name in (b"\0", labels(b"www", b"exAmple"))
            for bits in (0, 0x8183)
        ),
    ]  # fmt: skip
    path = tmp_path / "names.pcap"
    path.write_bytes(pcap([(SECOND * k, frame) for k, frame in enumerate(frames)]))
    read = [tuple(row[name] for name in NAMES) for row in rows(path, columns=NAMES)]
    assert read == by_tshark(path)
    assert [row[0] or row[5] or row[6] for row in read] == [
        "www.example.org", "www.example.org:8080", ".", ".", "www.exAmple", "www.exAmple",
    ]  # fmt: skip
