"""What is written can be read again, a reader never sees half a file, and results leave when they are released."""

from __future__ import annotations

import contextlib
import csv
import datetime
import gzip
import io
import json
import math
import os
import resource
import stat
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine import rows
from oop_engine.sinks import (
    Csv,
    FileSink,
    GrowingSink,
    KeptSink,
    ListSink,
    Ndjson,
    PageSink,
    Sink,
    SinkError,
    StreamSink,
    TerminalSink,
    growing,
    sink_for,
)
from oop_engine.sinks.encoders import Arrow
from oop_engine.sinks.errors import WriteFailed
from oop_engine.sources.tables import Table
from operators.data.address import parse_ip
from operators.data.page import Page, concatenate
from operators.data.schema import IP_METADATA, IP_TYPE, Schema, ip_field
from punctuation import END, before

SCHEMA = Schema(
    pa.schema(
        [
            pa.field("ts", pa.timestamp("ns", "UTC")),
            ip_field("srcIP"),
            pa.field("name", pa.string()),
            pa.field("count", pa.int64()),
            pa.field("mean", pa.float64()),
            pa.field("ok", pa.bool_()),
        ]
    )
)
TEN = 1_795_255_200 * 10**9
PAGE = Page.of(
    SCHEMA,
    {
        "ts": [TEN, TEN + 500_000_000, TEN + 1, None, -1],
        "srcIP": [parse_ip("10.0.0.7"), parse_ip("2001:db8::1"), None, parse_ip("::1"), parse_ip("0.0.0.0")],
        "name": ['say "hi", all', "line\nbreak\t\\", "", None, "é=1"],
        "count": [1, -2, None, 2**63 - 1, 0],
        "mean": [0.1, math.nan, math.inf, None, -1e300],
        "ok": [True, False, None, True, False],
    },
)


def encoded(encoder, *pages):
    return encoder.open(SCHEMA) + b"".join(encoder.write(page) for page in pages) + encoder.close()


def test_csv_quotes_text_and_leaves_null_empty():
    text = encoded(Csv(), PAGE).decode()
    assert text == (
        "ts,srcIP,name,count,mean,ok\n"
        '2026-11-21T10:00:00Z,10.0.0.7,"say ""hi"", all",1,0.1,true\n'
        '2026-11-21T10:00:00.5Z,2001:db8::1,"line\nbreak\t\\",-2,nan,false\n'
        '2026-11-21T10:00:00.000000001Z,,"",,inf,\n'
        ",::1,,9223372036854775807,,true\n"
        '1969-12-31T23:59:59.999999999Z,0.0.0.0,"é=1",0,-1e+300,false\n'
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ['say "hi", all', "line\nbreak\t\\", "", "", "é=1"]


def test_ndjson_is_json_with_null_for_what_json_has_not():
    lines = encoded(Ndjson(), PAGE).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows[0] == {
        "ts": "2026-11-21T10:00:00Z",
        "srcIP": "10.0.0.7",
        "name": 'say "hi", all',
        "count": 1,
        "mean": 0.1,
        "ok": True,
    }
    assert [row["name"] for row in rows] == PAGE.column("name").to_pylist()
    assert [row["mean"] for row in rows] == [0.1, None, None, None, -1e300]
    assert [row["count"] for row in rows] == [1, -2, None, 2**63 - 1, 0]
    assert [row["ok"] for row in rows] == [True, False, None, True, False]
    assert rows[3]["ts"] is None


def test_text_that_a_spreadsheet_takes_for_a_formula_is_marked_on_request_only():
    schema = Schema.of(name=pa.string(), count=pa.int64())
    page = Page.of(schema, {"name": ["=1+1", "+x", "-x", "@x", "x=1", "\tx"], "count": [-1] * 6})
    for spreadsheet, mark in ((False, ""), (True, "'")):
        encoder = Csv(spreadsheet=spreadsheet)
        text = (encoder.open(schema) + encoder.write(page)).decode()
        cells = [row["name"] for row in csv.DictReader(io.StringIO(text))]
        assert cells == [mark + "=1+1", mark + "+x", mark + "-x", mark + "@x", "x=1", mark + "\tx"]
        assert [row["count"] for row in csv.DictReader(io.StringIO(text))] == ["-1"] * 6


def test_a_spreadsheet_finds_no_formula_in_the_header_either():
    schema = Schema(pa.schema([("=1+1", pa.int64()), ("a b", pa.int64())]))
    assert Csv(spreadsheet=True).open(schema) == b'"\'=1+1","a b"\n'
    assert Csv().open(schema) == b'"=1+1","a b"\n'


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize("endless", [False, True])
def test_the_sink_of_a_file_marks_formulas_on_request(tmp_path, suffix, endless):
    path, schema = tmp_path / f"out{suffix}", Schema.of(name=pa.string())
    with sink_for(path, spreadsheet=True, endless=endless).opened(schema) as deliver:
        deliver(Page.of(schema, {"name": ["=1+1"]}))
        deliver(END)
    read = gzip.open if suffix.endswith(".gz") else open
    with read(path, "rt") as file:
        assert file.read() == 'name\n"\'=1+1"\n'


def test_a_file_that_has_no_formulas_is_not_one_for_a_spreadsheet(tmp_path):
    with pytest.raises(SinkError, match=r"--spreadsheet is for CSV"):
        sink_for(tmp_path / "out.parquet", spreadsheet=True)


@pytest.mark.parametrize(
    "suffix", [".parquet", ".csv", ".tsv", ".ndjson", ".arrow", ".arrows", ".csv.gz", ".ndjson.zst", ".arrows.gz"]
)
def test_what_a_sink_writes_a_table_reads_again(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    with sink_for(path).opened(SCHEMA) as deliver:
        for element in (PAGE, before("ts", 5), PAGE.slice(1, 3), PAGE.slice(0, 0), END):
            deliver(element)
    text = {"srcIP": "ip"} if "parquet" not in suffix and "arrow" not in suffix else {}
    read = Table(path, types=text)
    batch = pa.Table.from_batches(list(read.batches()), schema=read.schema)
    assert read.schema.equals(SCHEMA.arrow, check_metadata=True)
    expected = pa.Table.from_batches([PAGE.batch, PAGE.slice(1, 3).batch])
    for name in SCHEMA.names:
        got, wanted = batch[name].to_pylist(), expected[name].to_pylist()
        if name == "mean" and "ndjson" in suffix:
            wanted = [None if v is None or not math.isfinite(v) else v for v in wanted]
        assert [repr(v) for v in got] == [repr(v) for v in wanted], name


def test_columns_whose_values_hardly_repeat_have_no_dictionary_in_parquet(tmp_path):
    path, n = tmp_path / "out.parquet", 140_000
    columns = [
        pa.array(range(n)),
        pa.array([f"flow {i}" for i in range(n)]),
        pa.array([i % 7 for i in range(n)]),
        pa.array([i // 2 for i in range(n)]),
    ]
    table = pa.table(columns, ["id", "name", "port", "half"])
    oop.arrow(table).to(path).run()
    metadata = pq.read_metadata(path)
    encodings = [metadata.row_group(0).column(i).encodings for i in range(4)]
    assert [any("DICTIONARY" in e for e in found) for found in encodings] == [False, False, True, True]
    assert metadata.num_row_groups == 2 and pq.read_table(path).equals(table)


def test_parquet_has_addresses_as_text_native_times_and_page_checksums(tmp_path):
    path = tmp_path / "out.parquet"
    with sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
    file = pq.ParquetFile(path)
    assert file.schema_arrow.field("ts").type == pa.timestamp("ns", "UTC")
    assert file.read()["srcIP"].to_pylist() == ["10.0.0.7", "2001:db8::1", None, "::1", "0.0.0.0"]
    data = bytearray(path.read_bytes())
    column = file.metadata.row_group(0).column(3)
    damaged = 0
    for place in range(column.data_page_offset, column.data_page_offset + column.total_compressed_size):
        flipped = bytearray(data)
        flipped[place] ^= 1
        try:
            values = pq.ParquetFile(pa.BufferReader(bytes(flipped)), page_checksum_verification=True).read()["count"]
            assert values.to_pylist() == PAGE.column("count").to_pylist(), "a flipped bit was read as data"
        except (OSError, pa.ArrowInvalid):
            damaged += 1
    assert damaged > 0


@pytest.mark.parametrize("stream", [False, True])
def test_other_programs_read_addresses_in_arrow_as_text(stream):
    data = encoded(Arrow(stream=stream), PAGE)
    table = (pa.ipc.open_stream if stream else pa.ipc.open_file)(data).read_all()
    assert table["srcIP"].to_pylist() == ["10.0.0.7", "2001:db8::1", None, "::1", "0.0.0.0"]
    assert table.schema.field("ts").type == pa.timestamp("ns", "UTC")


@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_arrow_files_of_earlier_versions_are_read_with_those_of_this_one(tmp_path, suffix):
    for name, as_held in (("a", True), ("b", False), ("c", True)):
        encoder = Arrow(stream=suffix == ".arrows", as_held=as_held)
        (tmp_path / f"{name}{suffix}").write_bytes(encoded(encoder, PAGE))
    read = oop.table(tmp_path / f"*{suffix}").project("srcIP", "count").to_arrow()
    addresses = ["10.0.0.7", "2001:db8::1", None, "::1", "0.0.0.0"]
    assert read["srcIP"].to_pylist() == addresses * 3
    chosen = oop.table(tmp_path / f"*{suffix}").filter("srcIP IN '10.0.0.0/8'").to_arrow()
    assert chosen["count"].to_pylist() == [1, 1, 1]


def test_a_dictionary_of_addresses_is_written_as_one_of_text():
    held = pa.array([parse_ip("10.0.0.7"), parse_ip("::1")], IP_TYPE)
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1], pa.int32()), held)
    schema = Schema(pa.schema([pa.field("host", column.type, metadata=IP_METADATA)]))
    page = Page(schema, pa.RecordBatch.from_arrays([column], schema=schema.arrow))
    for stream, read in ((True, pa.ipc.open_stream), (False, pa.ipc.open_file)):
        encoder = Arrow(stream=stream)
        data = encoder.open(schema) + encoder.write(page) + encoder.close()
        assert read(data).read_all()["host"].to_pylist() == ["::1", "10.0.0.7", None, "::1"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow", ".csv.gz"])
def test_a_reader_never_sees_half_a_file(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"the old result")
    with pytest.raises(RuntimeError, match="broken"), sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
        assert path.read_bytes() == b"the old result"
        assert len(names(tmp_path)) == 2
        raise RuntimeError("broken")
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"the old result"
    with sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
    assert os.listdir(tmp_path) == [path.name]
    assert len(pa.Table.from_batches(list(Table(path).batches()))) == 5


def test_a_new_file_has_the_rights_that_the_user_gives_new_files(tmp_path):
    old = os.umask(0o027)
    try:
        with sink_for(tmp_path / "out.csv").opened(SCHEMA) as deliver:
            deliver(END)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o640


class Watched(io.BytesIO):
    """A stream that notes what had been written at each flush."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def flush(self):
        self.flushed.append(self.getvalue())


def test_a_punctuation_flushes_a_stream():
    stream = Watched()
    with StreamSink(Ndjson, stream).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 1))
        assert stream.flushed == []
        deliver(before("ts", 5))
        assert stream.flushed[-1].count(b"\n") == 1
    assert not stream.closed


def test_a_pipe_is_written_as_results_come(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with FileSink(path, Csv).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 1))
        deliver(before("ts", 5))
        assert os.read(reader, 1000).count(b"\n") == 2
    os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_the_terminal_shows_aligned_columns_and_no_control_characters():
    out = io.StringIO()
    schema = Schema.of(name=pa.string(), count=pa.int64(), window_start=pa.timestamp("s", "UTC"))
    with TerminalSink(out).opened(schema) as deliver:
        deliver(Page.of(schema, {"name": ["a", "\x1b[31mred"], "count": [5, 12345], "window_start": [0, 60]}))
        assert out.getvalue() == ""
        deliver(before("count", 5))
        first = out.getvalue()
        deliver(Page.of(schema, {"name": [None, "a longer name"], "count": [None, 1], "window_start": [None, 120]}))
        deliver(END)
    assert first == (
        "name         count  window_start\n"
        "a                5  1970-01-01T00:00:00Z\n"
        "\\x1b[31mred  12345  1970-01-01T00:01:00Z\n"
    )
    assert out.getvalue() == first + ("·                  ·  ·\na longer name      1  1970-01-01T00:02:00Z\n")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_table_says_which_columns_the_terminal_was_too_narrow_for(monkeypatch):
    schema = Schema.of(name=pa.string(), count=pa.int64(), window_start=pa.string(), window_end=pa.string())
    rows = {"name": ["a"], "count": [1], "window_start": ["10:00"], "window_end": ["11:00"]}
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for width, cut in ((80, None), (20, "2 of 4 columns cut: window_start, window_end.")):
        monkeypatch.setenv("COLUMNS", str(width))
        narrow, piped = Terminal(), io.StringIO()
        for file in (narrow, piped):
            with TerminalSink(file).opened(schema) as deliver:
                deliver(Page.of(schema, rows))
                deliver(END)
        assert "cut" not in piped.getvalue() and "11:00" in piped.getvalue()
        assert ("cut" in narrow.getvalue()) == (cut is not None)
        assert cut is None or narrow.getvalue().endswith(f"... {cut}\nA file or a pipe has them all.\n")


def test_long_text_is_cut_so_that_a_table_fits_the_terminal(monkeypatch):
    schema = Schema.of(name=pa.string(), at=pa.timestamp("s", "UTC"), n=pa.int64())
    rows = {"name": ["n" * 40, "short"], "at": [0, 60], "n": [1, 2]}
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "45")
    narrow, piped = Terminal(), io.StringIO()
    for file in (narrow, piped):
        with TerminalSink(file).opened(schema) as deliver:
            deliver(Page.of(schema, rows))
            deliver(END)
    _, first, second, *told = narrow.getvalue().splitlines()
    assert first == f"{'n' * 17}…  1970-01-01T00:00:00Z    1"
    assert second == "short               1970-01-01T00:01:00Z    2"
    assert told[0] == "... 1 of 3 columns cut: name."
    assert "n" * 40 in piped.getvalue()


def test_a_list_of_counts_that_is_null_is_a_dot():
    kind = pa.list_(pa.struct([("value", pa.string()), ("count", pa.int64())]))
    schema, out = Schema.of(top=kind), io.StringIO()
    with TerminalSink(out).opened(schema) as deliver:
        deliver(Page.of(schema, {"top": [[{"value": "a", "count": 2}, {"value": None, "count": 1}], None, []]}))
    assert out.getvalue().splitlines()[1:] == ["a ×2, · ×1", "·", ""]


@pytest.mark.parametrize("mark", ["\x1b[31m", "\x9b31m", "\u202e", "\u2066", "\u2028"])
def test_neither_names_nor_values_steer_the_terminal(mark):
    out, schema = io.StringIO(), Schema(pa.schema([(f"a{mark}", pa.string())]))
    with TerminalSink(out).opened(schema) as deliver:
        deliver(Page.of(schema, {f"a{mark}": [f"x{mark}y"]}))
    head, row = out.getvalue().splitlines()
    assert head.isprintable() and row.isprintable()
    assert row.startswith("x\\") and row.endswith("y")


def test_python_sinks_keep_what_they_are_given():
    elements, pages = [], []
    for sink in (ListSink(elements), PageSink(pages.append)):
        assert isinstance(sink, Sink)
        with sink.opened(SCHEMA) as deliver:
            deliver(PAGE)
            deliver(END)
    assert elements == [PAGE, END]
    assert pages == [PAGE]


def test_a_function_gets_each_page_or_each_row_and_an_async_one_is_awaited_in_the_loop():
    stream, seen = rows([(1,), (2,)], Schema.of(ts="int64")), []

    async def take(row):
        await trio.lowlevel.checkpoint()
        seen.append((row, trio.lowlevel.in_trio_task()))

    stream.to(lambda page: seen.append(len(page))).run()
    stream.to(take, each="row").run()
    assert seen == [2, ({"ts": 1}, True), ({"ts": 2}, True)]


def test_an_async_function_needs_the_loop_of_a_run():
    async def take(page):
        raise AssertionError("nobody can await it")

    with PageSink(take).opened(SCHEMA) as deliver, pytest.raises(SinkError, match="none is here"):
        deliver(PAGE)


def test_the_error_of_a_function_ends_the_run_and_says_where():
    with pytest.raises(ZeroDivisionError) as caught:
        rows([(1,)], Schema.of(ts="int64")).to(lambda page: 1 // 0).run()
    assert "while output 0 of the plan was written" in caught.value.__notes__[0]


def test_a_format_that_was_said_is_written_whatever_the_suffix(tmp_path):
    path = tmp_path / "out.txt"
    with sink_for(path, form="ndjson").opened(SCHEMA) as deliver:
        deliver(PAGE)
    assert len(path.read_text().splitlines()) == len(PAGE) and path.read_text().startswith("{")
    for target, form, words in (
        ("-", "parquet", "not for standard output; known there are csv"),
        ("out.txt", "xml", '"xml" is no format of a file'),
        ("sqlite:///a.sqlite", "csv", "leave out the format"),
    ):
        with pytest.raises(SinkError, match=words):
            sink_for(target, form=form)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("out.xlsx", r'"\.xlsx" is no suffix of a sink\. Known are \.parquet, \.csv'),
        ("out", "the name has no suffix"),
        ("out.parquet.gz", "Parquet packs its own pages"),
    ],
)
def test_an_unknown_target_is_answered_with_the_known_ones(target, words):
    with pytest.raises(SinkError, match=words):
        sink_for(target)


def test_a_missing_folder_and_a_folder_as_target_are_named(tmp_path):
    with pytest.raises(SinkError, match="no folder"), sink_for(tmp_path / "not" / "out.csv").opened(SCHEMA):
        pass
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(SinkError, match="is a folder"), sink_for(tmp_path / "dir.csv").opened(SCHEMA):
        pass


def test_a_name_that_cannot_be_written_is_told_as_the_user_wrote_it(tmp_path):
    name = "x" * 240 + ".csv"
    with pytest.raises(SinkError, match=f'{name}" cannot be written: File name too long'):
        sink_for(tmp_path / name).opened(SCHEMA).__enter__()


@settings(deadline=None)
@given(st.lists(st.text(), max_size=8))
def test_any_text_survives_csv_and_ndjson(texts):
    schema = Schema.of(name=pa.string())
    page = Page.of(schema, {"name": texts})
    as_csv, as_json = Csv(), Ndjson()
    data = (as_csv.open(schema) + as_csv.write(page)).decode()
    assert [row[0] for row in csv.reader(io.StringIO(data, newline=""))][1:] == texts
    lines = as_json.write(page) if as_json.open(schema) == b"" else b""
    assert [json.loads(line)["name"] for line in lines.decode().split("\n")[:-1]] == texts


@settings(deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=8), st.sampled_from(["s", "ms", "us", "ns"]))
def test_times_are_written_to_the_last_digit_that_is_not_zero(ticks, unit):
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    limit = 60_000_000_000 * per_second
    ticks = [t % limit if per_second < 10**9 else t for t in ticks]
    schema = Schema.of(ts=pa.timestamp(unit, "UTC"))
    lines = Csv()
    written = (lines.open(schema) + lines.write(Page.of(schema, {"ts": ticks}))).decode().splitlines()[1:]
    epoch = datetime.datetime(1970, 1, 1)
    for tick, text in zip(ticks, written, strict=True):
        whole = (epoch + datetime.timedelta(seconds=tick // per_second)).isoformat()
        fraction = f"{tick % per_second * 10**9 // per_second:09d}".rstrip("0")
        assert text == whole + ("." + fraction if fraction else "") + "Z"


LINES = [".csv", ".tsv", ".ndjson", ".jsonl"]
WHOLE = [".parquet", ".arrow", ".arrows", ".csv.gz", ".ndjson.zst"]


def names(folder):
    """Give the files of a folder, but for the lock of one that is being written."""
    return sorted(name for name in os.listdir(folder) if not name.endswith(".lock"))


def rows_of(path):
    types = {"srcIP": "ip"} if "parquet" not in path.name and "arrow" not in path.name else {}
    return [row for batch in Table(path, types=types).batches() for row in batch["count"].to_pylist()]


@pytest.mark.parametrize("suffix", LINES)
def test_lines_of_what_is_endless_are_there_as_they_are_released_and_stay_when_the_run_fails(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"the old result")
    with pytest.raises(RuntimeError, match="broken"), sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(before("ts", 4))
        assert path.read_bytes() == b"the old result"
        deliver(PAGE.slice(0, 2))
        assert path.read_bytes() == b"the old result"
        deliver(before("ts", 5))
        assert names(tmp_path) == [path.name] and rows_of(path) == [1, -2]
        deliver(PAGE.slice(2, 3))
        raise RuntimeError("broken")
    assert names(tmp_path) == [path.name] and rows_of(path) == [1, -2, None]


@pytest.mark.parametrize("suffix", WHOLE)
def test_what_needs_its_end_is_completed_when_the_run_fails(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"the old result")
    with pytest.raises(KeyboardInterrupt), sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 2))
        deliver(before("ts", 5))
        assert path.read_bytes() == b"the old result"
        raise KeyboardInterrupt
    assert names(tmp_path) == [path.name] and rows_of(path) == [1, -2]


@pytest.mark.parametrize("suffix", [*LINES, *WHOLE])
def test_a_run_that_fails_before_anything_is_released_leaves_the_old_result(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"the old result")
    with pytest.raises(RuntimeError, match="broken"), sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 0))
        deliver(before("ts", 5))
        raise RuntimeError("broken")
    assert names(tmp_path) == [path.name] and path.read_bytes() == b"the old result"


@pytest.mark.parametrize("suffix", LINES)
def test_results_go_behind_those_of_before_where_that_is_asked(tmp_path, suffix):
    path, whole = tmp_path / f"out{suffix}", tmp_path / f"whole{suffix}"
    for start in range(3):
        with sink_for(path, endless=True, append=True).opened(SCHEMA) as deliver:
            deliver(PAGE.slice(start, start + 1))
            deliver(END)
    with sink_for(whole).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 3))
    assert path.read_bytes() == whole.read_bytes()
    with sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(END)
    assert rows_of(path) == [] if "csv" in suffix else path.read_bytes().count(b"\n") <= 1
    path.write_bytes(b"")
    with sink_for(path, endless=True, append=True).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 3))
    assert path.read_bytes() == whole.read_bytes()


def test_a_file_of_other_columns_or_with_a_cut_line_is_not_appended_to(tmp_path):
    path = tmp_path / "out.csv"
    with sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
    whole = path.read_bytes()
    other = Schema.of(name=pa.string())
    with pytest.raises(SinkError, match="has other columns than the results, name; it begins with\n  ts,srcIP,name"):
        sink_for(path, endless=True, append=True).opened(other).__enter__()
    with open(path, "ab") as file:
        file.write(b"2026-11")
    with pytest.raises(SinkError, match=rf"ends within a line[^\0]*truncate -s {len(whole)} FILE"):
        sink_for(path, endless=True, append=True).opened(SCHEMA).__enter__()
    assert path.read_bytes() == whole + b"2026-11"
    for line in (b'{"ts": 1}\n', b"[1]\n", b"nothing\n"):
        lines = tmp_path / "out.ndjson"
        lines.write_bytes(line)
        with pytest.raises(SinkError, match="has other columns"):
            sink_for(lines, endless=True, append=True).opened(SCHEMA).__enter__()


@pytest.mark.parametrize("suffix", WHOLE)
def test_what_is_written_from_its_beginning_is_not_appended_to(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    assert sink_for(path, endless=True, append=True)
    path.write_bytes(b"the old result")
    with pytest.raises(SinkError, match="has results of before, which would be replaced"):
        sink_for(path, endless=True, append=True)


def test_a_disk_that_is_full_leaves_whole_lines(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    write = os.write

    def full(handle, data):
        if len(data) < 60:
            raise OSError(28, "No space left on device")
        return write(handle, data[:40])

    with pytest.raises(WriteFailed, match="No space left"), sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(PAGE.slice(0, 2))
        deliver(before("ts", 5))
        good = path.read_bytes()
        monkeypatch.setattr(growing.os, "write", full)
        deliver(PAGE.slice(2, 5))
        deliver(before("ts", 6))
    assert path.read_bytes() == good and rows_of(path) == [1, -2]
    path.unlink()
    with pytest.raises(WriteFailed), sink_for(path, endless=True).opened(SCHEMA) as deliver:
        deliver(PAGE)
        deliver(END)
    assert names(tmp_path) == []


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".csv.gz", ".parquet", ".arrow"])
def test_a_file_that_may_not_grow_is_named_and_the_old_result_stays(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_bytes(b"the old result")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, most[1]))
    try:
        says = f'"{path}" cannot be written: File too large'
        with pytest.raises(WriteFailed, match=says), sink_for(path).opened(SCHEMA) as deliver:
            deliver(PAGE)
            deliver(before("ts", 5))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert path.read_bytes() == b"the old result" and names(tmp_path) == [path.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_device_that_takes_nothing_is_named(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.symlink_to("/dev/full")
    says = f'"{path}" cannot be written: No space left'
    with pytest.raises(WriteFailed, match=says), sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
        deliver(before("ts", 5))
    assert path.is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_what_else_fails_is_told_though_what_is_left_cannot_be_written(tmp_path):
    path = tmp_path / "out.csv"
    path.symlink_to("/dev/full")
    with pytest.raises(ZeroDivisionError), sink_for(path).opened(SCHEMA) as deliver:
        deliver(PAGE)
        raise ZeroDivisionError


def test_many_results_without_a_punctuation_are_not_held(tmp_path):
    path = tmp_path / "out.csv"
    with sink_for(path, endless=True).opened(SCHEMA) as deliver:
        page = concatenate(SCHEMA, [PAGE] * 100)
        for _ in range(100):
            deliver(page)
        assert path.stat().st_size > 1 << 20


def test_a_pipe_of_what_is_endless_is_written_as_it_is(tmp_path):
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    for endless in (sink_for(path, endless=True, append=True), KeptSink(path, Csv)):
        with endless.opened(SCHEMA) as deliver:
            deliver(PAGE.slice(0, 1))
            deliver(before("ts", 5))
            assert os.read(reader, 1000).count(b"\n") == 2
    os.close(reader)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_who_is_left_behind_while_it_writes_writes_nothing_behind_the_end(tmp_path, suffix):
    path, inside, go_on = tmp_path / f"out{suffix}", threading.Event(), threading.Event()

    class Slow(Csv):
        def write(self, page):
            inside.set()
            go_on.wait(30)
            return super().write(page)

    def late(deliver):
        with contextlib.suppress(ValueError):  # the file is closed
            deliver(PAGE)

    sink = GrowingSink(path, Slow) if suffix == ".csv" else KeptSink(path, Slow)
    with pytest.raises(KeyboardInterrupt), sink.opened(SCHEMA) as deliver:
        writer = threading.Thread(target=late, args=(deliver,), daemon=True)
        writer.start()
        inside.wait(30)
        raise KeyboardInterrupt
    assert not path.exists()
    go_on.set()
    writer.join(30)
    assert not path.exists()
