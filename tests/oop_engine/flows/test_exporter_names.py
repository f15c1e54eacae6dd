"""Flows get the names that their own exporters send: those of their own time, in whatever order datagrams come."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import oop_engine as oop
from oop_engine.sources.flows import Datagrams, FlowDecoder
from oop_engine.sources.flows.exporter_names import KINDS, Named, read_names
from oop_engine.sources.flows.templates import V9_SCOPE, Field, Template
from oop_engine.sources.live import LiveFlows, Rules
from operators.data.page import Row
from tests.capture_files import ether, ipv4, pcap
from tests.examples import share
from tests.naive_lookup import naive_as_of
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    VARIABLE,
    a_set,
    address,
    four,
    ipfix,
    ipfix_options,
    ipfix_templates,
    long,
    number,
    plain,
    template,
    v9,
    v9_options,
    v9_templates,
)
from tests.oop_engine.live.collector import Time, bound, senders

TEMPLATE = ipfix_templates(template(256, [(152, 8), (8, 4), (10, 4), (1, 4), (95, 4)]))
TABLES = {
    "interfaces": ipfix_options(257, [(149, 4)], [(10, 4), (82, VARIABLE), (83, VARIABLE)]),
    "applications": ipfix_options(258, [(95, 4)], [(96, VARIABLE), (94, VARIABLE)]),
}
HOSTS = ("192.0.2.1", "192.0.2.2")
ON = ["exporter", ("in_if", "index")]
WAITING = (
    "SELECT i.name, sum(bytes) AS bytes [RANGE 1 minute, WA ts] FROM Flows LOOKUP interfaces AS i"
    " ON exporter = i.exporter AND in_if = i.index WAIT GROUP BY i.name"
)


def flows(*rows: tuple[int, int, int], sent: int, application: int = 0) -> bytes:
    """Give a datagram of flows: the second of each, its interface, its bytes."""
    body = b"".join(
        number((NOW + second) * 1000, 8) + four("10.0.0.1") + number(interface, 4) + number(octets, 4)
        + number(application, 4)
        for second, interface, octets in rows
    )  # fmt: skip
    return ipfix([TEMPLATE, a_set(256, body)], seconds=NOW + sent)


def interfaces(*rows: tuple[int, str, str], sent: int, mark: int = 0) -> bytes:
    """Give a datagram of names of interfaces; the mark makes its bytes those of no other."""
    body = b"".join(
        number(mark, 4) + number(index, 4) + long(name.encode()) + long(text.encode()) for index, name, text in rows
    )
    return ipfix([TABLES["interfaces"], a_set(257, body)], seconds=NOW + sent)


def capture(path: Path, sent: Sequence[tuple[int, str, bytes]]) -> Path:
    """Write datagrams with the second in which each came, and from whom."""
    records: list[tuple[int, bytes]] = []
    for second, host, payload in sent:
        packet = ipv4(struct.pack(">HHHH", 5000, 4739, 8 + len(payload), 0) + payload, 17)
        records.append(((NOW + second) * SECOND, ether(packet.replace(socket.inet_aton("10.1.2.3"), four(host), 1))))
    path.write_bytes(pcap(records))
    return path


def named(stream: oop.Stream, **options: Any) -> list[dict[str, Any]]:
    found = stream.lookup(oop.exporter_names("interfaces"), ON, **options)
    kept = ["ts", "exporter", "in_if", "bytes", "name", "description", *(["sign"] if "sign" in found.schema else [])]
    table = found.project(*kept).to_arrow()
    return table.set_column(0, "ts", table["ts"].cast(pa.int64())).to_pylist()


def left(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        counts[tuple(value for name, value in row.items() if name != "sign")] += row.get("sign", 1)
    assert all(count >= 0 for count in counts.values())
    return +counts


ONE = [
    (0, HOSTS[0], interfaces((1, "ge0", "uplink"), (2, "ge1", ""), sent=0)),
    (1, HOSTS[0], flows((-10, 1, 100), (-5, 3, 100), sent=1)),
    (20, HOSTS[0], interfaces((1, "xe9", "uplink"), sent=20)),
    (30, HOSTS[0], flows((10, 1, 7), (25, 1, 8), (26, 2, 9), sent=30)),
    (31, HOSTS[1], flows((26, 1, 5), sent=31)),
]


def test_a_flow_has_the_name_of_its_own_time_and_of_its_own_exporter(tmp_path: Path) -> None:
    stream = oop.netflow(capture(tmp_path / "a.pcap", ONE))
    found = [(row["bytes"], row["name"], row["description"]) for row in named(stream, wait=True)]
    assert sorted(found, key=str) == [
        (100, "ge0", "uplink"), (100, None, None), (5, None, None), (7, "ge0", "uplink"), (8, "xe9", "uplink"),
        (9, "ge1", None),
    ]  # fmt: skip


def test_text_says_the_same_and_an_exporter_that_sends_no_names_holds_no_window(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", ONE)
    own = oop.netflow(path, progress="exporters", inactive="5 s", active="20 s", settle="0 s", scan="1 s")
    for stream in (oop.netflow(path), own):
        table = oop.query(WAITING, Flows=stream).to_arrow()
        rows = Counter((row["name"], row["bytes"]) for row in table.to_pylist())
        assert rows == Counter([("ge0", 107), (None, 100), (None, 5), ("xe9", 8), ("ge1", 9)])


NAMES = st.tuples(
    st.integers(0, 1), st.integers(0, 30), st.integers(1, 2), st.sampled_from("ab"), st.sampled_from(["", "x"])
)
FLOWS = st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 2))


@share(1)
@given(
    st.lists(NAMES, max_size=6),
    st.lists(FLOWS, min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.integers(1, 3),
)
def test_every_order_of_datagrams_gives_the_answer_of_all_names_at_once(
    tmp_path_factory: pytest.TempPathFactory,
    names: list[tuple[int, int, int, str, str]],
    flown: list[tuple[int, int, int]],
    random_: Any,
    block: int,
) -> None:
    told = [
        (0, HOSTS[who], interfaces((index, name, text), sent=at, mark=mark))
        for mark, (who, at, index, name, text) in enumerate(names)
    ]
    told += [(0, HOSTS[who], flows((at, index, octets), sent=40)) for octets, (who, at, index) in enumerate(flown)]
    random_.shuffle(told)
    path = capture(tmp_path_factory.mktemp("names") / "a.pcap", told)
    tuples: list[Row] = [
        {"ts": (NOW + at) * SECOND, "exporter": HOSTS[who], "in_if": index, "bytes": octets}
        for octets, (who, at, index) in enumerate(flown)
    ]
    table: list[Row] = [
        {
            "since": (NOW + at) * SECOND,
            "exporter": HOSTS[who],
            "index": index,
            "name": name,
            "description": text or None,
        }
        for who, at, index, name, text in names
    ]
    brought = {"name": "name", "description": "description"}
    answer = naive_as_of(
        table, tuples, {"exporter": "exporter", "in_if": "index"}, brought, since="since", first_holds=True
    )
    expected = Counter(tuple(row.values()) for row in answer)
    stream = oop.netflow(path, slack="1000 s")
    assert left(named(stream, wait=True)) == expected
    assert left(named(stream)) == expected


@share(1)
@given(st.lists(NAMES, min_size=1, max_size=8), st.integers(0, 8))
def test_a_decoder_that_goes_on_gives_the_same_names(names: list[tuple[int, int, int, str, str]], cut: int) -> None:
    payloads = [interfaces((i, name, text), sent=at, mark=k % 3) for k, (_, at, i, name, text) in enumerate(names)]

    def rows(decoder: FlowDecoder, some: list[bytes]) -> list[dict[str, Any]]:
        given = Datagrams.of(
            some, arrival=[NOW * SECOND] * len(some), exporters=[(address(HOSTS[0]), 5000)] * len(some)
        )
        return plain(list(decoder.decode(given)), decoder.schema)

    whole = FlowDecoder(announced=True)
    expected = rows(whole, payloads)
    first, second = FlowDecoder(announced=True), FlowDecoder(announced=True)
    found = rows(first, payloads[:cut])
    second.restore_whole(first.whole_state())
    assert found + rows(second, payloads[cut:]) == expected
    assert all(row["announced"] == "interfaces" and row["ts"] is None for row in expected)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark (Debian package tshark)")
def test_tshark_reads_the_same_names(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", ONE)
    fields = ["-e", "cflow.inputint", "-e", "cflow.if_name"]
    command = ["tshark", "-r", str(path), "-d", "udp.port==4739,cflow", "-Y", "cflow.if_name", "-T", "fields", *fields]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    theirs = [pair for line in lines for pair in zip(*(part.split(",") for part in line.split("\t")), strict=True)]
    decoder = FlowDecoder(["announced_id", "announced_name"], announced=True)
    given = Datagrams.of([payload for _, _, payload in ONE], exporters=[(address(HOSTS[0]), 5000)] * len(ONE))
    ours = plain(list(decoder.decode(given)), decoder.schema)
    names = [(str(row["announced_id"]), row["announced_name"]) for row in ours if row["announced_id"] is not None]
    assert names == theirs and len(theirs) == 3


def test_a_name_that_is_said_again_makes_no_row_and_one_that_is_taken_away_is_none(tmp_path: Path) -> None:
    again = [(second, HOSTS[0], interfaces((1, "ge0", ""), sent=second, mark=second)) for second in range(5)]
    gone = [(6, HOSTS[0], interfaces((1, "", ""), sent=6)), (9, HOSTS[0], flows((3, 1, 1), (7, 1, 2), sent=9))]
    stream = oop.netflow(capture(tmp_path / "a.pcap", [*again, *gone]))
    assert [(row["bytes"], row["name"]) for row in named(stream, wait=True)] == [(1, "ge0"), (2, None)]


def test_applications_are_found_by_the_bytes_of_their_element(tmp_path: Path) -> None:
    told = number(0x0D0001C5, 4) + long(b"netflix") + long(b"Netflix video")
    sent = [
        (0, HOSTS[0], ipfix([TABLES["applications"], a_set(258, told)], seconds=NOW)),
        (1, HOSTS[0], flows((1, 1, 100), sent=1, application=0x0D0001C5)),
    ]
    stream = oop.netflow(capture(tmp_path / "a.pcap", sent), columns=["applicationId"])
    text = (
        "SELECT a.name, a.description FROM Flows LOOKUP applications AS a"
        " ON exporter = a.exporter AND applicationId = a.id WAIT"
    )
    assert oop.query(text, Flows=stream).to_arrow().to_pylist() == [{"name": "netflix", "description": "Netflix video"}]


def test_tables_of_netflow_v9_fill_their_fields_with_zeros() -> None:
    cisco = Template(260, (Field(1, 4, V9_SCOPE), Field(10, 2), Field(82, 8), Field(83, 8)), 1, options=True)
    body = number(7, 4) + number(5, 2) + b"Gi0/1".ljust(8, b"\0") + b"\xffto x".ljust(8, b"\0")
    assert list(read_names(cisco, body, 9)) == [Named("interfaces", b"\5", "Gi0/1", "\N{REPLACEMENT CHARACTER}to x")]
    scoped = Template(261, (Field(2, 4, V9_SCOPE), Field(82, 4)), 1, options=True)
    assert list(read_names(scoped, number(260, 4) + b"eth0", 9)) == [Named("interfaces", b"\1\4", "eth0", None)]
    vrf = Template(262, (Field(1, 4, V9_SCOPE), Field(234, 4), Field(236, 8)), 1, options=True)
    (red,) = read_names(vrf, number(7, 4) + number(0, 4) + b"red".ljust(8, b"\0"), 9)
    assert red == Named("vrfs", b"\0", "red", None) and red.number == 0
    sampler = Template(263, (Field(1, 4, V9_SCOPE), Field(48, 1), Field(84, 4), Field(34, 4)), 1, options=True)
    assert list(read_names(sampler, number(7, 4) + b"\3one\0" + number(100, 4), 9)) == [
        Named("samplers", b"\3", "one", None)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_any_bytes_are_names_or_a_fault(kind: str) -> None:
    fields = [Field(element, VARIABLE, 0) for _, element in KINDS[kind].read if element > 2]
    given = Template(300, tuple(fields), 1, options=True)
    for size in range(40):
        body = bytes(range(size))[::-1]
        try:
            for one in read_names(given, body, 5):
                assert one.kind == kind and len(one.key) <= 16
        except ValueError as error:
            assert "beyond its set" in str(error)


def test_an_exporter_may_name_no_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("oop_engine.sources.flows.sessions.MOST_NAMES", 2)
    sent = [(0, HOSTS[0], interfaces(*((k, f"if{k}", "") for k in range(5)), sent=0)), ONE[1]]
    stream = oop.netflow(capture(tmp_path / "a.pcap", sent))
    outcome = stream.lookup(oop.exporter_names("interfaces"), ON, wait=True).run()
    assert any(note.startswith("3 names of interfaces") for note in outcome.statistics.notes)


def test_rates_of_samplers_are_read_as_before_where_their_names_are_too(tmp_path: Path) -> None:
    options = v9_options(257, [(1, 4)], [(48, 1), (34, 4), (84, 4)])
    told = a_set(257, number(0, 4) + b"\1" + number(64, 4) + b"edge")
    record = number(1, 1) + four("10.0.0.1") + number(10, 4) + number(90_000, 4) + number(95_000, 4)
    data = v9_templates(template(256, [(48, 1), (8, 4), (1, 4), (22, 4), (21, 4)]))
    sent = [(0, HOSTS[0], v9([options, told])), (1, HOSTS[0], v9([data, a_set(256, record)], sequence=1))]
    stream = oop.netflow(capture(tmp_path / "a.pcap", sent), columns=["samplerId"])
    found = stream.lookup(oop.exporter_names("samplers"), ["exporter", ("samplerId", "id")], wait=True)
    assert found.project("sampling", "name").to_arrow().to_pylist() == [{"sampling": 64, "name": "edge"}]


def test_what_comes_over_a_socket_has_names_too() -> None:
    listening = bound()
    rules = Rules(inactive=SECOND, active=SECOND, scan=0, settle=0, trusted_after=1)
    with senders("127.0.0.5") as (one,):
        for _, _, payload in ONE[:4]:
            one.sendto(payload, listening.getsockname())
    source = LiveFlows(listening, most=4, allow="127.0.0.0/8", rules=rules, clock=Time((NOW + 40) * SECOND))
    outcome = oop.query(WAITING, Flows=oop.from_source(source)).run()
    found = Counter((row["name"], row["bytes"]) for row in outcome.table.to_pylist())
    assert sum(found.values()) >= 4 and {name for name, _ in found} == {"ge0", "xe9", "ge1", None}
    assert outcome.statistics.late == 0


@pytest.mark.parametrize("columns", [None, ["bytes"], ["announced"], ["exporter", "announced_name"]])
def test_records_of_names_are_rows_whatever_is_read(columns: list[str] | None) -> None:
    decoder = FlowDecoder(columns, announced=True)
    sent = [payload for _, _, payload in ONE]
    given = Datagrams.of(sent, arrival=[NOW * SECOND] * len(sent), exporters=[(address(HOSTS[0]), 5000)] * len(sent))
    batches = list(decoder.decode(given))
    for batch in batches:
        batch.validate(full=True)
    assert sum(map(len, batches)) == 3 + 6


def test_what_has_no_exporters_says_so(tmp_path: Path) -> None:
    plain_rows = oop.rows([(1, 2)], oop.Schema.of(ts="int64", in_if="int64"))
    with pytest.raises(oop.PlanError, match="of no flow exports, in which exporters send names"):
        plain_rows.lookup(oop.exporter_names("interfaces"), [("in_if", "index")])
    with pytest.raises(oop.LanguageError, match="--table interfaces=FILE"):
        oop.query("SELECT * FROM M LOOKUP interfaces AS i ON in_if = i.index", M=plain_rows)
    with pytest.raises(oop.PlanError, match="Did you mean"):
        oop.exporter_names("interface")
    own = {"interfaces": {"index": [2], "name": ["mine"]}}
    text = "SELECT i.name FROM M LOOKUP interfaces AS i ON in_if = i.index"
    assert oop.query(text, M=plain_rows, tables=own).to_arrow().to_pylist() == [{"name": "mine"}]
