"""Where streams come from, as users say it: one call a kind, the same promises everywhere, and errors that teach."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oop_engine as oop
from oop_engine.plan.graph import SourceNode
from oop_engine.sources.paths import standard_input
from operators.data.page import Page
from operators.data.schema import Schema, ip_field
from punctuation import before
from tests.capture_files import ether, ipv4, pcap
from tests.oop_engine.flows.exporter import v5, v5_record

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string())])
DATA = [{"ts": 1, "k": "a"}, {"ts": 12, "k": "b"}, {"ts": 5, "k": "a"}]
COUNTS = [
    {"count": 2, "wid": 0, "window_start": 0, "window_end": 10},
    {"count": 1, "wid": 1, "window_start": 10, "window_end": 20},
]


def counts(stream: oop.Stream) -> list[dict[str, object]]:
    table = stream.window(range=10, wattr="ts").aggregate(oop.count()).to_arrow().to_pylist()
    return sorted(table, key=lambda row: int(str(row["wid"])))


def node(stream: oop.Stream) -> SourceNode:
    assert isinstance(stream.node, SourceNode)
    return stream.node


def test_rows_are_dictionaries_or_tuples_and_may_be_read_again() -> None:
    for records in (DATA, [tuple(row.values()) for row in DATA]):
        stream = oop.rows(records, SCHEMA)
        assert node(stream).source.rewindable
        assert counts(stream) == counts(stream) == COUNTS
        assert stream.to_arrow().to_pylist() == DATA


def test_an_iterator_of_rows_needs_promises_and_may_bring_them() -> None:
    with pytest.raises(oop.PlanError, match='nothing promises "ts"'):
        counts(oop.rows(iter(DATA), SCHEMA))
    assert counts(oop.rows(iter(DATA), SCHEMA, slack=7)) == COUNTS
    schema = Schema(SCHEMA, progress=["ts"])
    assert counts(oop.rows(iter([*DATA, before("ts", 10)]), schema)) == COUNTS
    assert counts(oop.rows([*DATA, before("ts", 10)], schema)) == COUNTS


def test_addresses_may_be_text() -> None:
    schema = pa.schema([pa.field("ts", pa.int64()), ip_field("srcIP")])
    stream = oop.rows([(1, "10.0.0.1"), (2, "::1"), (3, None)], schema)
    assert stream.to_arrow()["srcIP"].to_pylist() == ["10.0.0.1", "::1", None]
    assert len(stream.filter('srcIP = "10.0.0.1"').to_arrow()) == 1


def test_arrow_data_of_any_kind() -> None:
    table = pa.Table.from_pylist(DATA, SCHEMA)
    batches = table.to_batches(max_chunksize=2)
    for data in (table, batches[0], batches):
        assert node(oop.arrow(data)).source.rewindable
    assert counts(oop.arrow(table)) == counts(oop.arrow(batches)) == COUNTS
    assert counts(oop.arrow(iter(batches), schema=SCHEMA, slack=7)) == COUNTS
    with pytest.raises(oop.PlanError, match=r"Write arrow\(batches, schema=\.\.\., punctuate=\.\.\.\)"):
        oop.arrow(iter(batches))
    with pytest.raises(oop.SchemaError, match="has no batches, so its schema must be given"):
        oop.arrow([])
    assert counts(oop.arrow([], schema=SCHEMA)) == []


def test_pages_bring_their_punctuation_and_late_tuples_are_met() -> None:
    schema = Schema(SCHEMA, progress=["ts"])
    elements = [Page.of_rows(schema, [(1, "a"), (12, "b")]), before("ts", 10), Page.of_rows(schema, [(5, "a")])]
    stream = oop.pages(elements, schema)
    assert counts(stream)[0]["count"] == 1
    with pytest.raises(oop.StreamViolation, match="tuple 2"):
        counts(oop.pages(elements, schema, late="refuse"))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "ndjson", "arrow"])
def test_tables_are_told_by_their_suffix_and_several_files_are_one_stream(tmp_path: Path, suffix: str) -> None:
    for number, part in enumerate((DATA[:1], DATA[1:])):
        oop.rows(part, SCHEMA).to(str(tmp_path / f"part{number}.{suffix}")).run()
    for stream in (
        oop.table(tmp_path / f"part*.{suffix}"),
        oop.read(str(tmp_path / f"part0.{suffix}"), str(tmp_path / f"part1.{suffix}")),
    ):
        assert counts(stream) == COUNTS
        assert stream.schema.names == ["ts", "k"]


def test_types_overrule_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "flows.csv"
    path.write_text("ts,srcIP\n1,10.0.0.1\n2,::1\n")
    stream = oop.table(path, types={"srcIP": "ip"})
    assert len(stream.filter('srcIP in network "10.0.0.0/8"').to_arrow()) == 1
    assert oop.read(path, types={"ts": "text"}).schema.field("ts").type == pa.string()
    with pytest.raises(oop.SchemaError, match='"addr" is no type for "srcIP"'):
        oop.table(path, types={"srcIP": "addr"})


def test_captures_are_told_by_their_content(tmp_path: Path) -> None:
    path = tmp_path / "capture.bin"
    path.write_bytes(pcap([(1_000_000_000, b"\x00" * 60), (2_500_000_000, b"\x00" * 60)]))
    stream = oop.read(path)
    assert "srcIP" in stream.schema.names
    assert len(stream.to_arrow()) == 2
    result = stream.window(range="1 s").aggregate(oop.count()).to_arrow()
    assert sorted(result["count"].to_pylist()) == [1, 1]
    with open(path, "rb") as handle:
        assert len(oop.pcap(handle, slack="1s").to_arrow()) == 2


def test_a_stream_may_be_read_from_standard_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    program = (
        "import oop_engine as oop\n"
        'stream = oop.read("-", format="csv", slack=7, on="ts")\n'
        'for page in stream.window(range=10, wattr="ts").aggregate(oop.count()):\n'
        "    print([row['count'] for row in page.rows()])\n"
    )
    root = Path(__file__).parents[2]
    text = "ts,k\n1,a\n12,b\n5,a\n"
    done = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, text=True, cwd=root)
    assert (done.stdout, done.stderr) == ("[2, 1]\n", "")


def test_standard_input_that_is_no_file_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.TextIOWrapper(io.BytesIO(b"x"))
    monkeypatch.setattr(sys, "stdin", given)
    assert standard_input() is given.buffer


EXPORTS = v5([v5_record(octets=1), v5_record(octets=2)])
UDP = b"\x13\x88\x08\x07" + (8 + len(EXPORTS)).to_bytes(2, "big") + b"\0\0"
LOG = (
    b"#separator \\x09\n#unset_field\t-\n#path\tdns\n#fields\tts\tuid\n#types\ttime\tstring\n"
    b"1521911720.5\tCa\n1521911721.5\tCb\n"
)
PIPED = {
    "pcap": (oop.pcap, pcap([(1_000_000_000, bytes(60)), (1_500_000_000, bytes(60))])),
    "datagrams": (oop.netflow, EXPORTS),
    "datagrams in gzip": (oop.netflow, gzip.compress(EXPORTS)),
    "captured datagrams": (oop.netflow, pcap([(1_000_000_000, ether(ipv4(UDP + EXPORTS, 17)))])),
    "log": (oop.zeek, LOG),
    "log in gzip": (oop.zeek, gzip.compress(LOG)),
}


@contextmanager
def substituted(data: bytes) -> Iterator[str]:
    """Give the path that a shell gives for <(...): a pipe that holds these bytes and their end."""
    near, far = os.pipe()
    try:
        with open(far, "wb") as write:
            write.write(data)
        yield f"/dev/fd/{near}"
    finally:
        os.close(near)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="pipes have no names here")
@pytest.mark.parametrize("kind", PIPED)
def test_what_a_shell_gives_for_a_process_is_read_once_from_its_first_byte(kind: str) -> None:
    make, data = PIPED[kind]
    with substituted(data) as path:
        stream: oop.Stream = make(path, slack="1 hour")
        assert not node(stream).source.rewindable and node(stream).source.name == Path(path).name
        assert stream.window(range="1 day").aggregate(oop.count()).to_arrow()["count"].to_pylist() == [2]
        with pytest.raises(ValueError, match="can be read only once"):
            stream.to_arrow()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("make", [oop.pcap, oop.netflow, oop.read])
def test_a_named_pipe_is_opened_when_it_is_read_and_not_before(tmp_path: Path, make: Callable[..., oop.Stream]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    # Nobody writes, so whoever opens it to read waits for ever.
    unpromised = make(path)
    assert not node(unpromised).source.rewindable
    with pytest.raises(oop.PlanError, match='nothing promises "ts"'):
        unpromised.window(range="1 s").aggregate(oop.count()).explain()
    promised = make(path, slack="2s").window(range="1 s").aggregate(oop.count())
    assert "slack 2" in str(promised.explain())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_gives_every_packet_that_is_written_into_it(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    stream = oop.pcap(path, slack="1s")
    # Opened for both ways, the writing end needs no other thread, and the reader does not meet the end.
    with open(path, "r+b", buffering=0) as both:
        both.write(PIPED["pcap"][1])
        reader = node(stream).source.open(("ts",), 10)
        assert len(next(reader.chunks())) == 2  # pyright: ignore[reportArgumentType]
        assert reader.progress()[1] is None


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: oop.pcap(), oop.PlanError, 'pcap needs at least one file, e.g. oop.pcap("capture.pcap")'),
        (lambda: oop.table(), oop.PlanError, 'table needs at least one file, e.g. oop.table("flows.csv")'),
        (
            lambda: oop.rows([{"tss": 1}], SCHEMA),
            oop.SchemaError,
            'row 0: "tss" is no attribute.\n  Did you mean "ts"?',
        ),
        (lambda: oop.rows([(1, "a"), (1,)], SCHEMA), oop.SchemaError, "row 1 has 1 values, but the schema 2: ts, k"),
    ],
)
def test_what_is_missing_is_said(make, error: type[Exception], text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


CAPTURE = pcap([(1_000_000_000, bytes(60))])


@pytest.mark.parametrize("make", [oop.read, oop.pcap, oop.netflow, oop.zeek, oop.nfdump, oop.table, oop.disorder])
def test_what_is_no_place_is_refused_by_the_function_that_was_called(make: Callable[..., object]) -> None:
    name = getattr(make, "__name__", "")
    with pytest.raises(oop.PlanError, match=rf"^{name} takes .*paths.*, and list is none\. Write {name}\(\*paths\)\.$"):
        make(["a.pcap", "b.pcap"])
    with pytest.raises(oop.PlanError, match=rf"^{name} takes .*paths.*, and int is none\.$"):
        make("a.pcap", 5) if make is oop.disorder else make(5)


@pytest.mark.parametrize("make", [oop.read, oop.pcap, oop.zeek, oop.nfdump, oop.table])
def test_where_no_place_is_named_the_function_says_how(make: Callable[..., object]) -> None:
    name = getattr(make, "__name__", "")
    with pytest.raises(oop.PlanError, match=rf"^{name} needs at least one file, e\.g\. oop\.{name}\("):
        make()


KINDS = {"c": CAPTURE, "e": EXPORTS, "l": LOG, "t.csv": b"ts,k\n1,a\n"}
TYPES = {"types": {"a": "b"}}
COLUMNS = {"columns": ["natEvent"]}


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    [
        ("c", TYPES, oop.PlanError, r'types=...\): "[^"]*c" is read as pcap, which takes no types'),
        ("c", TYPES, oop.PlanError, "that is for kafka, csv, tsv, ndjson, parquet, arrow.\n  Leave it out; pcap takes"),
        ("c", COLUMNS, oop.SchemaError, "a packet has no column .natEvent."),
        ("c", {"on": "nosuch"}, oop.SchemaError, 'c: on: the input has no attribute "nosuch"'),
        ("c", {"on": "nosuch", "slack": "1 s"}, oop.SchemaError, 'no attribute "nosuch"'),
        ("c", {"format": "nfdump", "strict": True}, oop.PlanError, "is read as nfdump, which takes no strict"),
        ("c", {"slak": "1 s"}, TypeError, r"^read\(\) got an unexpected keyword argument 'slak'"),
        ("e", TYPES, oop.PlanError, "netflow takes strict, columns, name, punctuate, slack, on"),
        ("e", {"arrival_ts": True}, oop.PlanError, "which takes no arrival_ts; that is for pcap, sflow_counters, zeek"),
        ("l", COLUMNS, oop.PlanError, "is read as zeek, which takes no columns"),
        ("t.csv", COLUMNS, oop.PlanError, "is read as csv, which takes no columns; that is for pcap, netflow"),
        ("t.csv", COLUMNS, oop.PlanError, "on_error, delimiter, decimal, encoding, time_format, name"),
        ("t.csv", {"on": "nosuch"}, oop.SchemaError, 'no attribute "nosuch"'),
    ],
)
def test_read_throws_no_option_away(
    tmp_path: Path, name: str, options: dict[str, object], error: type[Exception], text: str
) -> None:
    (tmp_path / name).write_bytes(KINDS[name])
    with pytest.raises(error, match=text):
        oop.read(tmp_path / name, **options)  # type: ignore[arg-type]


def test_read_hands_on_what_a_kind_takes(tmp_path: Path) -> None:
    for name, data in KINDS.items():
        (tmp_path / name).write_bytes(data)
        options: dict[str, object] = {"types": {"ts": "timestamp"}} if name == "t.csv" else {"strict": True}
        options |= COLUMNS if name == "e" else {"arrival_ts": True}
        stream = oop.read(tmp_path / name, name="named", slack="1 s", late="refuse", **options)  # type: ignore[arg-type]
        assert (node(stream).label, node(stream).late) == ("named", "refuse")
        assert [str(p) for p in node(stream).promises] == ["slack 1 s on ts"]
        assert "arrival_ts" in stream.schema
        assert ("natEvent" in stream.schema) == (name == "e")


def test_several_binary_streams_are_no_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("ts,k\n1,a\n")
    with open(tmp_path / "t.csv", "rb") as one, pytest.raises(oop.PlanError, match="a binary stream by itself"):
        oop.table(one, str(tmp_path / "t.csv"), format="csv")


PROMISES = ("punctuate", "slack", "on", "late", "divert", "arrival_ts")


@pytest.mark.parametrize(
    ("make", "lacks"),
    [(oop.interface, {"punctuate", "on"}), (oop.netflow, {"arrival_ts"})]
    + [
        (make, set[str]())
        for make in (
            oop.from_source, oop.read, oop.pcap, oop.zeek, oop.nfdump, oop.table,
            oop.rows, oop.arrow, oop.pages, oop.packets,
        )
    ],
)  # fmt: skip
def test_all_take_the_same_promises(make: Callable[..., object], lacks: set[str]) -> None:
    takes = signature(make).parameters
    assert {name for name in PROMISES if name not in takes} == lacks
    assert takes["late"].annotation == "Late"


def test_pages_and_packets_are_promised_and_diverted_as_all_are() -> None:
    schema = Schema(SCHEMA)
    elements = [Page.of_rows(schema, [(1, "a"), (12, "b")]), Page.of_rows(schema, [(5, "a")])]
    assert counts(oop.pages(elements, schema, slack=7)) == COUNTS
    late: list[Page] = []
    assert len(counts(oop.pages(elements, schema, punctuate=oop.every(10), divert=late.append))) == 2
    assert [row["ts"] for page in late for row in page.rows()] == [5]
    packets = oop.packets(9, punctuate=oop.slack(3, "length"), on="length", slack=1, divert=late.append)
    assert [str(p) for p in node(packets).promises] == ["slack 3 on length", "slack 1 on length"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for make in (oop.read, oop.pcap, oop.table):
        with pytest.raises(Exception, match=r'there is no file ".*nope.csv"'):
            make(tmp_path / "nope.csv")


def test_promises_are_said_in_one_way_for_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    pq.write_table(pa.Table.from_pylist(DATA, SCHEMA), path)
    for stream in (
        oop.table(path, slack=7),
        oop.read(path, slack=7),
        oop.rows(DATA, SCHEMA, slack=7),
        oop.arrow(pa.Table.from_pylist(DATA, SCHEMA), slack=7),
        oop.rows(DATA, SCHEMA, punctuate=[oop.slack(7)]),
        oop.rows(DATA, SCHEMA, punctuate=oop.slack(7), late="refuse"),
    ):
        assert [str(p) for p in node(stream).promises] == ["slack 7 on ts"]
        assert counts(stream) == COUNTS
    both = oop.rows(DATA, SCHEMA, punctuate=oop.ordered("ts"), slack=7)
    assert [str(p) for p in node(both).promises] == ["ordered on ts", "slack 7 on ts"]


@pytest.mark.parametrize("read", [oop.table, oop.read, oop.pcap])
def test_what_gives_text_is_refused_and_told_how_it_gives_bytes(
    read: Callable[..., oop.Stream], tmp_path: Path
) -> None:
    with pytest.raises(oop.PlanError, match=r"StringIO gives text\.\n  Write io\.BytesIO\(text\.encode\(\)\)"):
        read(io.StringIO("ts,v\n1,2\n"))
    path = tmp_path / "a.csv"
    path.write_text("ts,v\n1,2\n")
    with (
        open(path) as text,
        pytest.raises(oop.PlanError, match=r'TextIOWrapper gives text\.\n  Write open\(path, "rb"\)'),
    ):
        read(text)
    assert oop.table(io.BytesIO(b"ts,v\n1,2\n"), format="csv", slack=1).to_arrow().num_rows == 1
