"""Flow exports are read from captures, from files of datagrams, through nfdump and from Zeek's logs."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import stat
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sources import text as lines_of_text
from oop_engine.sources.capture import DecodeError
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.flows import ELEMENTS, FLOW_SCHEMA, FlowExports, NfdumpFiles, ZeekLogs, nfdump, stored
from oop_engine.sources.flows.schema import FLOW_ALIASES
from oop_engine.sources.flows.stored import Damage, Split, split
from oop_engine.sources.positions import Placing
from oop_engine.sources.protocol import Reader, Source
from operators.errors import SchemaError
from tests.capture_files import block, enhanced, ether, interface, ipv4, ipv6, mapped, pcap, section, tag, zstd
from tests.oop_engine.flows.exporter import (
    NOW,
    SECOND,
    a_set,
    address,
    flow_sample,
    four,
    header_record,
    ipfix,
    ipfix_templates,
    number,
    plain,
    read,
    sflow,
    template,
    v5,
    v5_record,
    v9,
    v9_templates,
    withdrawal,
)

FIELDS = template(256, [(8, 4), (1, 4), (152, 8), (153, 8)])


def record(source: str, octets: int) -> bytes:
    return four(source) + number(octets, 4) + number(NOW * 1000, 8) + number(NOW * 1000 + 5, 8)


IPFIX = [
    ipfix([ipfix_templates(FIELDS), a_set(256, record("10.0.0.1", 1))]),
    ipfix([a_set(256, record("10.0.0.2", 2))], sequence=1),
]
V5 = [v5([v5_record(octets=k) for k in range(3)]), v5([v5_record(octets=9)], sequence=3)]
V9 = [v9([v9_templates(FIELDS), a_set(256, record("10.0.0.3", 3))]),
      v9([a_set(256, record("10.0.0.4", 4))], sequence=1)]  # fmt: skip
SFLOW = [sflow([flow_sample([header_record(ether(ipv4(b"", 99)))])]), sflow([], sequence=1)]


def datagram(payload: bytes, port: int = 2055, *, said: int | None = None) -> bytes:
    return struct.pack(">HHHH", 5000, port, 8 + len(payload) if said is None else said, 0) + payload


def frames(payloads: list[bytes]) -> list[tuple[int, bytes]]:
    return [(NOW * SECOND + 1000 * k, ether(ipv4(datagram(p), 17))) for k, p in enumerate(payloads)]


def written(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def rows(source: Source, columns: list[str] | None = None) -> tuple[list[dict[str, Any]], Reader]:
    names = source.arrow.names if columns is None else columns
    reader = source.open(names, 65_536)
    schema = pa.schema([source.arrow.field(name) for name in source.arrow.names if name in names])
    batches = []
    for chunk in reader.chunks():
        assert isinstance(chunk, pa.RecordBatch) and chunk.schema.equals(schema, check_metadata=True)
        chunk.validate(full=True)
        batches.append(chunk)
    return plain(batches, schema), reader


def test_a_capture_gives_the_records_of_its_datagrams(tmp_path: Path) -> None:
    payloads = [*V5, *V9, *IPFIX, *SFLOW]
    path = written(tmp_path, "x.pcap", pcap(frames(payloads), tick=1))
    found, reader = rows(FlowExports([path]))
    direct = read(
        payloads, exporters=[(mapped("10.1.2.3"), 5000)] * len(payloads),
        arrival=[NOW * SECOND + 1000 * k for k in range(len(payloads))],
    )  # fmt: skip
    assert found == direct.rows and len(found) == 9
    assert reader.notes() == [] and reader.progress() == (path.stat().st_size,) * 2
    assert reader.arrived() is None


def test_datagrams_are_found_behind_any_headers(tmp_path: Path) -> None:
    inside = {
        "vlan": ether(tag(0x8100, 5) + b"\x08\0" + ipv4(datagram(V5[0]), 17), 0x88A8 - 0x88A8 + 0x8100)[:12]
        + tag(0x8100, 5) + b"\x08\0" + ipv4(datagram(V5[0]), 17),
        "options": ether(ipv4(datagram(V5[0]), 17, options=bytes(8))),
        "six": ether(ipv6(datagram(V5[0]), 17), 0x86DD),
        "extension": ether(ipv6(b"\x11\0" + bytes(6) + datagram(V5[0]), 0), 0x86DD),
        "trailer": ether(ipv4(datagram(V5[0]), 17)) + b"fcs!",
        "shorter": ether(ipv4(datagram(V5[0] + b"rubbish", said=8 + len(V5[0])), 17)),
    }  # fmt: skip
    for name, frame in inside.items():
        found, reader = rows(FlowExports([written(tmp_path, f"{name}.pcap", pcap([(SECOND, frame)]))]))
        assert [row["bytes"] for row in found] == [0, 1, 2] and reader.notes() == [], name
    raw = pcap([(SECOND, ipv4(datagram(V5[0]), 17))], link=101)
    assert len(rows(FlowExports([written(tmp_path, "raw.pcap", raw)]))[0]) == 3
    blocks = section() + interface() + enhanced(5, inside["six"]) + block(5, b"statistics..")
    assert len(rows(FlowExports([written(tmp_path, "six.pcapng", blocks)]))[0]) == 3


def test_only_the_ports_of_collectors_are_read_and_what_is_cut_or_in_fragments_is_told(tmp_path: Path) -> None:
    other = ether(ipv4(datagram(V5[0], 53), 17))
    part = ether(ipv4(datagram(V5[0]), 17, fragment=0x2000))
    short = ether(ipv4(datagram(V5[0]), 17))
    path = written(tmp_path, "x.pcap", pcap([(1, other), (2, part), (3, ether(b"arp", 0x0806))]) + _record(short, 40))
    found, reader = rows(FlowExports([path]))
    assert [row["bytes"] for row in found] == [0, 1]
    cut, fragments, malformed = reader.notes()
    assert cut.endswith("1 datagrams are cut by the capture's snaplen")
    assert fragments.endswith("1 datagrams came in fragments and were left out")
    assert malformed == "10.1.2.3 port 5000, NetFlow v5, domain 0: 1 malformed (length)"
    assert len(rows(FlowExports([path], ports=53))[0]) == 3
    assert len(rows(FlowExports([path], ports=()))[0]) == 5
    with pytest.raises(SourceError, match="0 is no port"):
        FlowExports([path], ports=[0])


def _record(frame: bytes, left_out: int) -> bytes:
    kept = frame[: len(frame) - left_out]
    return struct.pack("<IIII", 1, 5, len(kept), len(frame)) + kept


def test_only_allowed_exporters_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, "x.pcap", pcap(frames(V5)))
    found, reader = rows(FlowExports([path], allow="10.1.0.0/16"))
    assert len(found) == 4 and reader.notes() == []
    found, reader = rows(FlowExports([path], allow=["192.0.2.0/24", "2001:db8::/32"]))
    assert found == [] and reader.notes() == ["10.1.2.3 port 5000, NetFlow v5, domain 0: 2 datagrams refused"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("payloads", [V5, V9, IPFIX, SFLOW])
def test_datagrams_end_to_end_are_told_apart(tmp_path: Path, payloads: list[bytes], pack: Any) -> None:
    path = written(tmp_path, "x.bin", pack(b"".join(payloads)))
    found, reader = rows(FlowExports([path]))
    direct = read(payloads).rows
    gone = {"exporter": None, "exporter_port": 0, "arrival_ts": None}
    gone |= {"ts": None, "end_ts": None, "exporter": address("10.9.9.9")} if payloads is SFLOW else {}
    assert found == [{**row, **gone} for row in direct] and len(found) > 0
    assert reader.progress() == (path.stat().st_size,) * 2


def test_templates_of_one_file_are_good_for_the_next_and_may_be_withdrawn(tmp_path: Path) -> None:
    first, second = written(tmp_path, "a.ipfix", IPFIX[0]), written(tmp_path, "b.ipfix", IPFIX[1])
    assert len(rows(FlowExports([first, second]))[0]) == 2
    found, reader = rows(FlowExports([second, first]))
    assert len(found) == 2
    path = written(tmp_path, "c.ipfix", IPFIX[0] + ipfix([withdrawal(256)], sequence=1) + IPFIX[1])
    found, reader = rows(FlowExports([path]))
    assert len(found) == 1
    assert reader.notes() == [
        "IPFIX, domain 7: 1 sets without a template, 1 datagrams behind which losses are unknown, because not all"
        " in them could be counted"
    ]


def test_long_files_are_read_piece_by_piece_and_long_messages_whole(tmp_path: Path) -> None:
    records = b"".join(record("10.0.0.1", k) for k in range(2500))
    messages = [ipfix([ipfix_templates(FIELDS), a_set(256, records)], sequence=2500 * k) for k in range(80)]
    path = written(tmp_path, "x.ipfix", b"".join(messages))
    reader = FlowExports([path]).open(("bytes",), 65_536)
    total = sum(
        np.asarray(batch.column(0).to_numpy()).sum() for batch in reader.chunks() if isinstance(batch, pa.RecordBatch)
    )
    assert total == 80 * sum(range(2500)) and reader.progress() == (80 * len(messages[0]),) * 2
    assert reader.notes() == []


def test_datagrams_are_split_as_far_as_they_can_be_followed() -> None:
    whole = len(IPFIX[0])
    assert split(IPFIX[0] + b"\0\x0a\0\5rest") == Split([(0, whole)], whole, Damage(0, "an IPFIX message of 5 bytes"))
    for ended in (False, True):
        assert split(IPFIX[0] + b"\0\x0a\xff\xffrest", ended=ended) == Split([(0, whole)], whole)
    assert split(V9[0] + b"\0\x09") == Split([(0, len(V9[0]))], len(V9[0]))
    assert split(V9[0], ended=False) == Split([], 0) and split(V9[0]) == Split([(0, len(V9[0]))], len(V9[0]))
    assert split(V9[0] + b"\1\1\0\3", ended=False) == Split([], 0, Damage(len(V9[0]), "a set of 3 bytes"))
    assert split(b"") == Split([], 0)


UNKNOWN = b"\0\x4d" + IPFIX[1][2:]
GZIPPED = gzip.compress(b"".join(IPFIX), mtime=0)
FIRST, BOTH = len(IPFIX[0]), len(IPFIX[0] + IPFIX[1])
STOPS = {
    "cut": (IPFIX[0] + IPFIX[1][:-1], 1, f"truncated at byte {BOTH - 1}: what begins at byte {FIRST} is cut short"),
    "cut in the version": (IPFIX[0] + b"\0", 1,
        f"truncated at byte {FIRST + 1}: what begins at byte {FIRST} is cut short"),
    "cut samples": (SFLOW[0][:-1], 0, f"truncated at byte {len(SFLOW[0]) - 1}: what begins at byte 0 is cut short"),
    "cut gzip": (GZIPPED[:-4], 2, f"truncated at byte {BOTH}: the gzip data are cut"),
    "unknown version": (IPFIX[0] + UNKNOWN + IPFIX[1], 1,
        f"damaged at byte {FIRST}: {UNKNOWN[:4].hex(' ')} begins no datagram of NetFlow, IPFIX or sFlow, "
        f"what is behind it is not read ({len(UNKNOWN) + len(IPFIX[1])} bytes)"),
    "impossible length": (IPFIX[0] + b"\0\x0a\0\1" + IPFIX[1], 1,
        f"damaged at byte {FIRST}: an IPFIX message of 1 bytes, what is behind it is not read "
        f"({4 + len(IPFIX[1])} bytes)"),
    "impossible set": (V9[0] + b"\1\0\0\1" + V9[1], 1,
        f"damaged at byte {len(V9[0])}: a set of 1 bytes, what is behind it is not read ({4 + len(V9[1])} bytes)"),
}  # fmt: skip


@pytest.mark.parametrize("what", STOPS)
def test_where_stored_datagrams_are_cut_or_damaged_is_told_and_strict_makes_it_an_error(
    tmp_path: Path, what: str
) -> None:
    data, count, told = STOPS[what]
    path = written(tmp_path, "x.bin", data)
    found, reader = rows(FlowExports([path]))
    assert len(found) == count and reader.notes()[0] == f"{path}: {told}"
    assert reader.progress() == (len(data), len(data))
    reader = FlowExports([path], strict=True).open(("bytes",), 65_536)
    before = 0
    with pytest.raises(DecodeError) as caught:
        for chunk in reader.chunks():
            assert isinstance(chunk, pa.RecordBatch)
            before += len(chunk)
    # Sets before a damaged one are of the same datagram, which strict does not give.
    assert str(caught.value) == f"{path}: {told}" and before == (0 if what == "impossible set" else count)
    with pytest.raises(DecodeError):
        list(FlowExports([path], strict=True).values("ts"))


def test_damage_in_a_stream_ends_it_without_waiting_for_more() -> None:
    near, far = os.pipe()
    # What comes behind the damage is never written, and the writing end stays open.
    with open(near, "rb") as read_end, open(far, "wb", buffering=0) as write:
        write.write(IPFIX[0] + UNKNOWN)
        found, reader = rows(FlowExports([read_end]))
        assert len(found) == 1
        (note,) = reader.notes()
        assert f": damaged at byte {FIRST}: {UNKNOWN[:4].hex(' ')} begins" in note and note.endswith("is not read")


@pytest.mark.parametrize("payloads", [V5, V9, IPFIX, SFLOW])
def test_whole_files_of_datagrams_are_no_errors_however_they_come(
    tmp_path: Path, payloads: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "x.bin", b"".join(payloads))
    whole, reader = rows(FlowExports([path], strict=True))
    assert not any("x.bin" in note for note in reader.notes()) and len(whole) > 0
    for piece in (1, 7, len(payloads[0])):
        monkeypatch.setattr(stored, "_PIECE", piece)
        assert rows(FlowExports([path], strict=True))[0] == whole


def test_a_datagram_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_PIECE", 500)
    monkeypatch.setattr(stored, "_MOST_WHOLE", 1 << 20)
    endless = SFLOW[1][:24] + number(1, 4) + number(1, 4) + number(1 << 31, 4)
    path = written(tmp_path, "x.bin", SFLOW[0] + endless + bytes(1_100_000))
    found, reader = rows(FlowExports([path]))
    assert len(found) == 1
    told = f"damaged at byte {len(SFLOW[0])}: a datagram of more than 1 MiB, what is behind it is not read"
    assert told in reader.notes()[0]


def test_a_source_can_be_read_again_and_a_stream_once(tmp_path: Path) -> None:
    path = written(tmp_path, "x.pcap", pcap(frames(IPFIX)))
    source = FlowExports([path])
    assert isinstance(source, Source) and source.rewindable and source.promised == () and source.name == "x.pcap"
    assert rows(source)[0] == rows(source)[0]
    assert np.concatenate(list(source.values("export_ts"))).tolist() == [NOW * SECOND] * 2
    assert np.concatenate(list(source.values("ts"))).tolist() == [NOW * SECOND] * 2
    assert np.concatenate(list(source.values("vlan"))).tolist() == [-(2**63)] * 2
    for data in (path.read_bytes(), b"".join(IPFIX)):
        once = FlowExports([io.BufferedReader(io.BytesIO(data))], label="pipe")  # pyright: ignore[reportArgumentType]
        assert not once.rewindable and once.name == "pipe"
        assert len(rows(once)[0]) == 2
        with pytest.raises(SourceError, match="only once"):
            rows(once)


def test_columns_beyond_the_common_ones_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "x.ipfix", IPFIX[0])
    source = FlowExports([path], columns=("octetDeltaCount", "flowId", "9/1"))
    assert source.arrow.names == [*FLOW_SCHEMA.names, "flowId", "9/1"]
    assert rows(source, ["bytes", "flowId"])[0] == [{"bytes": 1, "flowId": None}]
    with pytest.raises(SchemaError, match='Did you mean "flowId"'):
        FlowExports([path], columns=("flowID",))


def test_what_holds_no_exports_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no flow exports: its first bytes are 74 73 2c 73"):
        rows(FlowExports([written(tmp_path, "x.csv", b"ts,srcIP\n")]))
    with pytest.raises(SourceError, match=r"oop\.nfdump"):
        rows(FlowExports([written(tmp_path, "nfcapd.1", b"\x0c\xa5\1\0" + bytes(20))]))


def test_every_alias_names_a_column_and_no_column() -> None:
    assert set(FLOW_ALIASES.values()) <= set(FLOW_SCHEMA.names)
    assert not set(FLOW_ALIASES) & set(FLOW_SCHEMA.names)
    assert len({entry.key for entry in ELEMENTS.values()}) == len(ELEMENTS)


HEADER = (
    "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#open\tnow\n"
    "#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_pkts\t"
    "orig_ip_bytes\tlocal_orig\ttunnel_parents\n"
    "#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tstring\tinterval\tcount\tcount\tbool\tset[string]\n"
)
LINES = [
    "1521911720.865716\tCa\t10.47.1.100\t41772\t10.0.0.100\t53\tudp\tdns\t0.000870\t3\t180\tT\t-",
    '1521911720.865717\tCb"x\tfe80::1\t128\tfe80::2\t129\ticmp\t-\t-\t1\t76\tF\ta,b',
    "1521911719.000001\tCc\t10.0.0.1\t5\t10.0.0.2\t80\tunknown_transport\t-\t3600.500000\t-\t-\t-\t-",
]
WANT = [
    (
        1_521_911_720_865_716_000,
        1_521_911_720_866_586_000,
        mapped("10.47.1.100"),
        41_772,
        17,
        "dns",
        3,
        180,
        True,
        None,
    ),
    (1_521_911_720_865_717_000, 1_521_911_720_865_717_000, address("fe80::1"), 128, 58, None, 1, 76, False, "a,b"),
    (1_521_911_719_000_001_000, 1_521_915_319_500_001_000, mapped("10.0.0.1"), 5, None, None, None, None, None, None),
]
NAMES = ("ts", "end_ts", "srcIP", "srcPort", "proto", "service", "packets", "bytes", "local_orig", "tunnel_parents")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_a_log_of_zeek_gives_its_lines(tmp_path: Path, pack: Any) -> None:
    text = HEADER + "\n".join(LINES[:2]) + "\n#close\tnow\n" + HEADER + LINES[2] + "\n#close\tnow\n"
    path = written(tmp_path, "conn.log", pack(text.encode()))
    source = ZeekLogs([path])
    assert isinstance(source, Source) and source.rewindable and source.name == "conn.log"
    found, reader = rows(source)
    assert [tuple(row[name] for name in NAMES) for row in found] == WANT
    assert found[1]["uid"] == 'Cb"x' and reader.progress() == (path.stat().st_size,) * 2
    for names in (["ts"], ["end_ts"], ["proto"], ["uid", "destIP"], ["packets"]):
        assert rows(source, names)[0] == [{name: row[name] for name in names} for row in found]
    assert np.concatenate(list(source.values("end_ts"))).tolist() == [want[1] for want in WANT]


def test_a_log_in_json_gives_the_same(tmp_path: Path) -> None:
    text = (
        '{"ts":1521911720.865716,"uid":"Ca","id.orig_h":"10.47.1.100","id.orig_p":41772,"id.resp_h":"10.0.0.100",'
        '"id.resp_p":53,"proto":"udp","service":"dns","duration":0.00087,"orig_pkts":3,"orig_ip_bytes":180,'
        '"local_orig":true,"tunnel_parents":["x"]}\n'
        '{"ts":1521911720.865717,"uid":"Cb","id.orig_h":"fe80::1","id.orig_p":128,"id.resp_h":"fe80::2",'
        '"id.resp_p":129,"proto":"icmp","orig_pkts":1,"orig_ip_bytes":76,"local_orig":false,"tunnel_parents":["a","b"]}\n'
    )
    found, _ = rows(ZeekLogs([written(tmp_path, "conn.json", text.encode())]))
    assert [tuple(row[name] for name in NAMES) for row in found] == [(*WANT[0][:-1], "x"), WANT[1]]
    dated = text.replace("1521911720.865716", '"2018-03-24T17:15:20.865716Z"').splitlines(keepends=True)[0]
    (row,), _ = rows(ZeekLogs([written(tmp_path, "dated.json", dated.encode())]))
    assert row["ts"] == WANT[0][0] and row["missed_bytes"] is None


@pytest.mark.parametrize("within", [",", ";"])
def test_texts_of_a_log_are_what_they_are_in_json(tmp_path: Path, within: str) -> None:
    """A line has no tab or set separator within a text, and tells an empty text from none: all of that is undone."""
    texts = ["a\tb", "", "(empty)", "-", "back\\slash \\x41", "né", None]
    sets = [["a", "b,c"], [], ["(empty)"], ["-"], ["x"], ["a", "", "b"], None]
    escaped = ["a\\x09b", "(empty)", "\\x28empty)", "\\x2d", "back\\\\slash \\\\x41", "n\\xc3\\xa9", "-"]
    listed = [f"a{within}b\\x2cc", "(empty)", "\\x28empty)", "\\x2d", "x", f"a{within}{within}b", "-"]
    head = (
        f"#separator \\x09\n#set_separator\t{within}\n#empty_field\t(empty)\n#unset_field\t-\n#path\thttp\n"
        "#fields\tts\turi\ttags\n#types\ttime\tstring\tset[string]\n"
    )
    lines = "".join(f"1.5\t{text}\t{tags}\n" for text, tags in zip(escaped, listed, strict=True))
    objects = [
        {"ts": 1.5} | {name: value for name, value in (("uri", text), ("tags", tags)) if value is not None}
        for text, tags in zip(texts, sets, strict=True)
    ]
    tsv, _ = rows(ZeekLogs([written(tmp_path, "http.log", (head + lines).encode())]))
    of_json, _ = rows(
        ZeekLogs([written(tmp_path, "http.json", "".join(json.dumps(one) + "\n" for one in objects).encode())])
    )
    assert [row["uri"] for row in tsv] == texts
    assert [row["tags"] for row in tsv] == [None if one is None else ",".join(one) for one in sets]
    assert tsv == of_json


def test_keys_of_a_log_in_json_that_come_late_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of_text, "PIECE", 64)
    lines = [{"ts": 1.5 + k, "uid": f"C{k}", "host": "a" * 60} for k in range(4)]
    lines[1]["answers"], lines[3]["answers"] = ["x"], ["y"]
    lines[2]["rtt"] = None
    path = written(tmp_path, "dns.json", "".join(json.dumps(line) + "\n" for line in lines).encode())
    found, reader = rows(ZeekLogs([path]))
    assert [row["uid"] for row in found] == ["C0", "C1", "C2", "C3"] and "answers" not in found[0]
    assert reader.notes() == [
        f'{path}: the key "answers" is left out, which 2 lines have (first line 2), since the first lines had it not.'
        " Begin the file with a line that has it."
    ]
    with pytest.raises(TableError, match='line 2: the key "answers" is no column'):
        rows(ZeekLogs([path], strict=True))
    # Those of a connection are columns in any case, and so is what TSV has.
    connections = [{"ts": 1.5, "conn_state": "SF"}, {"ts": 2.5, "service": "dns" * 40}]
    path = written(tmp_path, "conn.json", "".join(json.dumps(line) + "\n" for line in connections).encode())
    found, reader = rows(ZeekLogs([path], strict=True))
    assert (found[1]["service"], reader.notes()) == ("dns" * 40, [])


def test_a_log_that_is_none_or_is_damaged_is_told(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no log of Zeek"):
        ZeekLogs([written(tmp_path, "x.log", b"ts,srcIP\n1,2\n")])
    with pytest.raises(TableError, match="is empty"):
        ZeekLogs([written(tmp_path, "y.log", b"")])
    broken = written(tmp_path, "z.log", (HEADER + LINES[0] + "\nx\ty\n").encode())
    with pytest.raises(TableError, match=r"z\.log: line 10: .*Expected 13 columns, got 2: x"):
        rows(ZeekLogs([broken]))
    other = written(tmp_path, "w.log", (HEADER + LINES[0] + "\n#fields\tts\n1\n").encode())
    with pytest.raises(TableError, match="line 10: a log of other fields begins"):
        rows(ZeekLogs([other]))
    first = written(tmp_path, "a.log", (HEADER + LINES[0] + "\n").encode())
    second = written(tmp_path, "b.log", (HEADER.replace("service", "servant") + LINES[0] + "\n").encode())
    with pytest.raises(SchemaError, match='no column "service"'):
        rows(ZeekLogs([first, second]))


JSON = [
    '{"ts":1521911720.5,"uid":"Ca","id.orig_h":"10.0.0.1","id.orig_p":5,"proto":"udp","rtt":0.5}',
    '{"ts":1521911721.5,"uid":"Cb","id.orig_h":"10.0.0.2","id.orig_p":6,"proto":"tcp","rtt":1.5}',
]
LOGS = {"fields": HEADER + LINES[0] + "\n" + LINES[1] + "\n", "objects": JSON[0] + "\n" + JSON[1] + "\n"}


def cut_anywhere(text: str) -> list[str]:
    """Give a log of two lines with the second cut behind its first byte, in the middle, and before the line end."""
    before, last = len(text) - len(text.splitlines()[-1]) - 1, len(text) - 1
    cuts = [before + 1, (before + last) // 2, last - 1]
    return [text[:cut] for cut in cuts]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("kind", LOGS)
def test_a_last_line_that_is_still_in_writing_is_left_out_and_told(tmp_path: Path, kind: str, pack: Any) -> None:
    (first, _), _ = rows(ZeekLogs([written(tmp_path, "whole.log", LOGS[kind].encode())], strict=True))
    for text in cut_anywhere(LOGS[kind]):
        path = written(tmp_path, "cut.log", pack(text.encode()))
        found, reader = rows(ZeekLogs([path]), ["ts", "srcIP", "proto"])
        assert found == [{name: first[name] for name in ("ts", "srcIP", "proto")}]
        told = f"{path}: truncated at byte {len(text)}: the last line is not whole"
        assert reader.notes() == [told] and reader.progress() == (path.stat().st_size,) * 2
        strict = ZeekLogs([path], strict=True).open(("ts",), 10).chunks()
        assert len(next(strict)) == 1  # pyright: ignore[reportArgumentType]
        with pytest.raises(TableError) as caught:
            next(strict)
        assert str(caught.value) == told
        # The log behind it is read nevertheless.
        assert len(rows(ZeekLogs([path, tmp_path / "whole.log"]))[0]) == 3


def test_a_line_that_needs_no_line_end_is_whole(tmp_path: Path) -> None:
    for text, count in (
        (LOGS["objects"].rstrip(), 2),
        (LOGS["fields"] + "#close\tnow", 2),
        (LOGS["fields"] + "#cl", 2),
    ):
        found, reader = rows(ZeekLogs([written(tmp_path, "x.log", text.encode())], strict=True))
        assert len(found) == count and reader.notes() == []
    # The last of these fields may have been longer.
    found, reader = rows(ZeekLogs([written(tmp_path, "x.log", LOGS["fields"].rstrip().encode())]))
    assert len(found) == 1 and len(reader.notes()) == 1


def test_a_packed_log_that_is_cut_gives_its_whole_lines(tmp_path: Path) -> None:
    lines = [f"{1_521_911_720 + k}.{k * 7919 % 1_000_000:06d}\tC{k * 104_729 % 9973}" for k in range(20_000)]
    text = "#separator \\x09\n#fields\tts\tuid\n#types\ttime\tstring\n" + "\n".join(lines) + "\n"
    packed = gzip.compress(text.encode(), mtime=0)
    path = written(tmp_path, "dns.log.gz", packed[: len(packed) // 2])
    found, reader = rows(ZeekLogs([path]), ["uid"])
    assert 5_000 < len(found) < 15_000
    assert [row["uid"] for row in found] == [line.split("\t")[1] for line in lines[: len(found)]]
    (note,) = reader.notes()
    assert note.startswith(f"{path}: truncated at byte ") and note.endswith(": the gzip data are cut")
    with pytest.raises(TableError, match="the gzip data are cut"):
        rows(ZeekLogs([path], strict=True))
    with pytest.raises(TableError, match=r"x\.gz: truncated at byte 0: the gzip data are cut"):
        ZeekLogs([written(tmp_path, "x.gz", packed[:12])])


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (HEADER + "\n" + LINES[0] + "\n#open\tagain\n" + LINES[1][:40] + "\n" + LINES[2] + "\n", 12, "Expected 13"),
        (HEADER + "\n" + LINES[0] + "\n" + LINES[1].replace("128", "many") + "\n" + LINES[2] + "\n", 11, "'many'"),
        (HEADER + LINES[0] + "\n" + LINES[1].replace("1521911720", "noon") + "\n" + LINES[2] + "\n", 10, "noon"),
        (HEADER + LINES[0] + "\n" + LINES[1].replace("fe80::1", "here") + "\n" + LINES[2] + "\n", 10, "here"),
        (f"\n{JSON[0]}\n\n{JSON[1][:30]}\n{JSON[1]}\n", 4, "JSON parse error"),
        (f"{JSON[0]}\n\n{JSON[1].replace('1.5}', 'true}')}\n{JSON[1]}\n", 3, "rtt"),
        (f"{JSON[0]}\n\n{JSON[1].replace('10.0.0.2', 'here')}\n{JSON[1]}\n", 3, "here"),
        ("\n{rubbish\n", 2, "Expecting property name"),
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_named_by_its_number_in_the_file(
    tmp_path: Path, text: str, line: int, told: str
) -> None:
    path = written(tmp_path, "conn.log", text.encode())
    with pytest.raises(TableError) as caught:
        rows(ZeekLogs([path]))
    message = str(caught.value)
    assert message.startswith(f"{path}: line {line}: ") and told in message
    # Arrow counts the rows of a piece.
    assert "Row #" not in message and "in row" not in message


def test_a_bad_line_behind_the_first_piece_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_of_text, "PIECE", 1000)
    lines = [LINES[0]] * 50
    lines[37] = "x"
    path = written(tmp_path, "conn.log", (HEADER + "\n".join(lines) + "\n").encode())
    with pytest.raises(TableError, match=r"conn\.log: line 46: "):
        rows(ZeekLogs([path]))


def _fake_nfdump(folder: Path, prints: str, code: int = 0) -> Path:
    """Put a program in place of nfdump that prints what it would."""
    path = folder / "nfdump"
    (folder / "printed").write_text(prints)
    path.write_text(
        f'#!/bin/sh\necho "$@" > "{folder}/asked"\ncat "{folder}/printed"\n'
        f'[ {code} = 0 ] || echo "bad magic" >&2\nexit {code}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


PRINTED = (
    "2|1750086407613|1750086407811|6|0|0|0|3405803841|443|0|0|0|167838281|46977|1|2|3|4|19|8|4|4200\n"
    "10|1750086404605|-5|17|536939960|0|0|1|53|536939960|0|0|2|5353|0|0|0|0|0|0|18446744073709|9223372036854775807\n"
)


def test_what_nfdump_prints_becomes_records(tmp_path: Path) -> None:
    path = written(tmp_path, "nfcapd.1", b"any")
    source = NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, PRINTED)))
    found, reader = rows(source)
    assert found == [
        {"ts": 1_750_086_407_613_000_000, "end_ts": 1_750_086_407_811_000_000, "srcIP": mapped("203.0.113.65"),
         "destIP": mapped("10.1.2.73"), "srcPort": 443, "destPort": 46_977, "proto": 6, "bytes": 4200, "packets": 4,
         "flags": 19, "tos": 8, "in_if": 3, "out_if": 4, "src_as": 1, "dest_as": 2},
        {"ts": 1_750_086_404_605_000_000, "end_ts": None, "srcIP": address("2001:db8::1"),
         "destIP": address("2001:db8::2"), "srcPort": 53, "destPort": 5353, "proto": 17,
         "bytes": 9_223_372_036_854_775_807, "packets": 18_446_744_073_709, "flags": 0, "tos": 0, "in_if": 0,
         "out_if": 0, "src_as": 0, "dest_as": 0},
    ]  # fmt: skip
    assert (tmp_path / "asked").read_text().split() == ["-q", "-N", "-r", str(path), "-o", "pipe"]
    assert reader.progress() == (3, 3) and source.name == "nfcapd.1" and isinstance(source, Source)
    old = PRINTED.replace("1750086407613", "1750086407|613").replace("1750086407811", "1750086407|811").splitlines()[0]
    (row,), _ = rows(NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, old + "\n"))), ["ts", "end_ts"])
    assert row == {name: found[0][name] for name in row}


def test_a_reading_of_nfdump_goes_on_with_the_file_where_it_was(tmp_path: Path) -> None:
    paths = [written(tmp_path, f"nfcapd.{n}", b"any") for n in range(3)]
    source = NfdumpFiles(paths, program=str(_fake_nfdump(tmp_path, PRINTED)))
    whole = list(source.open(["bytes"], 1).chunks())
    for tuples, first in ((1, 0), (2, 0), (3, 1), (6, 2)):
        placing = Placing("it")
        for chunk in placing.chunks(source.open(["bytes"], 1)):
            placing.took(chunk)
            if placing.tuples == tuples:
                break
        reader = source.open(["bytes"], 1)
        assert list(Placing.of("it", placing.position()).chunks(reader)) == whole[tuples:]
        assert placing.mark == {"file": first} and reader.progress() == (9, 9)


def test_a_reading_of_nfdump_passes_over_what_was_taken_and_parses_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it goes on a second time, in the same file."""
    lines = [PRINTED.splitlines()[0].rpartition("|")[0] + f"|{n}\n" for n in range(400)]
    path = written(tmp_path, "nfcapd.1", b"any")
    source = NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, "".join(lines))))
    monkeypatch.setattr(nfdump, "_PIECE", 2000)
    parsed, parse = list[int](), nfdump._parsed  # pyright: ignore[reportPrivateUsage]

    def counted(piece: bytes, *others: object) -> pa.RecordBatch:
        parsed.append(piece.count(b"\n"))
        return parse(piece, *others)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(nfdump, "_parsed", counted)
    position: Mapping[str, object] = Placing("it").position()
    for until in (150, 310, 400):
        placing, found = Placing.of("it", position), list[int]()
        parsed.clear()
        began = placing.tuples
        for chunk in placing.chunks(source.open(["bytes"], 7)):
            assert isinstance(chunk, pa.RecordBatch)
            part = chunk.slice(0, until - placing.tuples)
            found += part["bytes"].to_pylist()
            placing.took(part)
            if placing.tuples == until:
                break
        assert found == [*range(began, until)]
        assert sum(parsed) <= until - began + 40
        position = placing.position()


def test_what_nfdump_does_not_print_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "nfcapd.1", b"any")
    with pytest.raises(TableError, match="nfdump cannot read it: bad magic"):
        rows(NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, "", 1))))
    with pytest.raises(TableError, match="a line of 3 fields"):
        rows(NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, "1|2|3\n"))))
    with pytest.raises(TableError, match="at or after line 1 of what nfdump printed"):
        rows(NfdumpFiles([path], program=str(_fake_nfdump(tmp_path, PRINTED.replace("4200", "many")))))
    monkeypatch.setenv("PATH", os.fspath(tmp_path / "nowhere"))
    with pytest.raises(SourceError, match="nfdump is not installed"):
        NfdumpFiles([path])


@pytest.mark.skipif(shutil.which("nfdump") is None, reason="nfdump is not installed")
def test_nfdump_refuses_what_is_not_its_own(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="nfdump cannot read it"):
        rows(NfdumpFiles([written(tmp_path, "x", b"no file of nfdump")]))


def test_a_query_reads_flow_exports_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "exports.ipfix"
    path.write_bytes(b"".join(IPFIX))
    flows = oop.netflow(path)
    found = flows.window(range="1 minute").aggregate(oop.sum("bytes"), oop.count(), by="version").to_arrow().to_pylist()
    assert [(row["sum_bytes"], row["count"]) for row in found] == [(3, 2)]
    with pytest.raises(oop.PlanError, match="netflow needs at least one file"):
        oop.netflow()
    with pytest.raises(oop.PlanError, match="zeek needs at least one file"):
        oop.zeek()
