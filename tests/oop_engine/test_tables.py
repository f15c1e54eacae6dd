"""Tables give the same rows from every format, as they arrive, and say what is wrong with what they cannot read."""

from __future__ import annotations

import gzip
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oop_engine.sources import columnar, delimited, objects
from oop_engine.sources.errors import SourceError, TableError
from oop_engine.sources.owned import owned
from oop_engine.sources.paths import STDIN, expand
from oop_engine.sources.rows import from_pages, from_rows
from oop_engine.sources.tables import Table
from oop_engine.sources.text import last_line_end
from operators.data.address import format_ip, parse_ip
from operators.data.page import Page
from operators.data.schema import Schema, ip_field, is_ip
from operators.errors import SchemaError
from punctuation import NO_TIME, before

TIME = pa.timestamp("ns", "UTC")
CSV = (
    b"ts,srcIP,length,note\n"
    b"2026-11-21T10:00:00Z,10.0.0.7,60,a\n"
    b"2026-11-21T10:00:00.5Z,2001:db8::1,,\n"
    b',,1500,"two\nlines, ""quoted"""\n'
)
NDJSON = (
    b'{"ts":"2026-11-21T10:00:00Z","srcIP":"10.0.0.7","length":60,"note":"a"}\n'
    b'{"ts":"2026-11-21T10:00:00.5Z","srcIP":"2001:db8::1"}\n\n'
    b'{"length":1500,"note":"two\\nlines, \\"quoted\\""}\n'
)
TEN = 1_795_255_200 * 10**9
TYPES = {"srcIP": "ip"}


def table(read: Table) -> pa.Table:
    return pa.Table.from_batches(list(read.batches()), schema=read.schema)


def rows(read: Table) -> list[tuple]:
    found = table(read)
    columns = []
    for field, column in zip(found.schema, found.columns, strict=True):
        array = column.combine_chunks()
        if is_ip(field):
            array = format_ip(array)
        columns.append((array.view(pa.int64()) if pa.types.is_timestamp(field.type) else array).to_pylist())
    return list(zip(*columns, strict=True))


ROWS = [
    (TEN, "10.0.0.7", 60, "a"),
    (TEN + 500_000_000, "2001:db8::1", None, None),
    (None, None, 1500, 'two\nlines, "quoted"'),
]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "x.csv").write_bytes(CSV)
    (tmp_path / "x.ndjson").write_bytes(NDJSON)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(CSV[:40]) + gzip.compress(CSV[40:]))
    with pa.CompressedOutputStream(str(tmp_path / "x.jsonl.zst"), "zstd") as stream:
        stream.write(NDJSON)
    tabbed = CSV.replace(b"lines,", b"lines;").replace(b",", b"\t").replace(b"lines;", b"lines,")
    (tmp_path / "x.tsv").write_bytes(tabbed)
    whole = table(Table(tmp_path / "x.csv"))
    pq.write_table(whole, tmp_path / "x.parquet")
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), whole.schema) as file:
        file.write_table(whole)
    with pa.ipc.new_stream(str(tmp_path / "x.arrows"), whole.schema) as stream:
        stream.write_table(whole)
    (tmp_path / "y.arrows.gz").write_bytes(gzip.compress((tmp_path / "x.arrows").read_bytes()))
    (tmp_path / "y.arrow.gz").write_bytes(gzip.compress((tmp_path / "x.arrow").read_bytes()))
    return tmp_path


ALL = ["x.csv", "x.tsv", "x.csv.gz", "x.ndjson", "x.jsonl.zst", "x.parquet", "x.arrow", "x.arrows"]
ALL += ["y.arrows.gz", "y.arrow.gz"]


@pytest.mark.parametrize("name", ALL)
def test_every_format_gives_the_same_stream(files, name):
    read = Table(files / name, types=TYPES)
    assert read.schema.names == ["ts", "srcIP", "length", "note"]
    assert read.schema.field("ts").type == TIME
    assert read.schema.field("srcIP").equals(ip_field("srcIP"), check_metadata=True)
    assert rows(read) == ROWS
    assert rows(read) == ROWS, "a file can be read again"
    assert read.position == read.size == (files / name).stat().st_size
    assert read.rewindable
    assert np.concatenate(list(read.values("ts"))).tolist() == [TEN, TEN + 500_000_000, NO_TIME]


@pytest.mark.parametrize("name", ALL)
def test_only_the_wanted_columns_are_read(files, name):
    read = Table(files / name, columns=["note", "length"])
    assert read.schema.names == ["length", "note"], "in the order of the file"
    assert rows(read) == [row[2:] for row in ROWS]


@pytest.mark.parametrize("name", ALL)
def test_an_open_stream_is_read_once(files, name):
    with open(files / name, "rb") as stream:
        format = {"tsv": "tsv", "ndjson": "ndjson", "jsonl": "ndjson", "csv": "csv", "parquet": "parquet"}
        read = Table(stream, types=TYPES, format=format.get(name.split(".")[1], "arrow"))
        assert not read.rewindable
        assert rows(read) == ROWS
        with pytest.raises(SourceError, match="a second time"):
            list(read.batches())


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson"])
def test_a_stream_in_pieces_of_any_size_is_the_file(files, name):
    data = (files / name).read_bytes()

    class Dribble(io.RawIOBase):
        def __init__(self, size):
            self.at, self.size = 0, size

        def readable(self):
            return True

        def readinto(self, buffer):
            piece = data[self.at : self.at + min(self.size, len(buffer))]
            buffer[: len(piece)] = piece
            self.at += len(piece)
            return len(piece)

    for size in (1, 2, 7, 50, 1000):
        types = {**TYPES, "ts": "timestamp", "length": "int", "note": "text"}
        assert rows(Table(Dribble(size), format=name[2:], types=types)) == ROWS


def test_lines_of_a_pipe_are_given_as_they_arrive():
    receiving, sending = os.pipe()
    with os.fdopen(receiving, "rb") as stream:
        os.write(sending, b"a,b\n1,2\n3,")
        batches = Table(stream, format="csv").batches()
        assert next(batches).to_pylist() == [{"a": 1, "b": 2}]
        os.write(sending, b"4\n5,6")
        assert next(batches).to_pylist() == [{"a": 3, "b": 4}]
        threading.Timer(0, os.close, (sending,)).start()
        assert next(batches).to_pylist() == [{"a": 5, "b": 6}]
        assert next(batches, None) is None


def test_a_pattern_is_one_stream_in_the_order_of_names(files, tmp_path):
    for i in (2, 10, 1):
        (tmp_path / f"part-{i:02}.csv").write_text(f"n,s\n{i},x\n" if i != 10 else f"s,n\nx,{i}\n")
    read = Table(str(tmp_path / "part-*.csv"))
    assert rows(read) == [(1, "x"), (2, "x"), (10, "x")]
    assert rows(Table([tmp_path / "part-02.csv", tmp_path / "part-01.csv"])) == [(2, "x"), (1, "x")]


def test_the_first_file_decides_the_types_and_another_says_what_does_not_fit(tmp_path):
    (tmp_path / "a.csv").write_text("n\n1\n")
    (tmp_path / "b.csv").write_text("n\nmany\n")
    read = Table([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(TableError, match=r'b\.csv: line 2.*invalid value .many.[^"]*"n"'):
        rows(read)
    (tmp_path / "b.csv").write_text("m\n1\n")
    with pytest.raises(SchemaError, match=r'b\.csv: there is no column "n"'):
        rows(read)


def test_batches_are_no_larger_than_asked(files):
    whole = pa.table({"a": np.arange(1000)})
    pq.write_table(whole, files / "n.parquet", row_group_size=300)
    pa.csv.write_csv(whole, files / "n.csv")
    with pa.ipc.new_file(str(files / "n.arrow"), whole.schema) as file:
        file.write_table(whole)
    for name in ("n.parquet", "n.csv", "n.arrow"):
        batches = list(Table(files / name, batch_rows=128).batches())
        assert max(len(b) for b in batches) <= 128
        assert np.concatenate([b.column(0).to_numpy() for b in batches]).tolist() == list(range(1000))


def test_times_keep_their_unit_and_become_utc(files):
    kinds = {
        "plain": pa.timestamp("ms"),
        "zoned": pa.timestamp("us", "Europe/Berlin"),
        "day": pa.date32(),
        "coded": pa.dictionary(pa.int8(), pa.large_string()),
    }
    data = {name: pa.array([1, None], pa.int64()).cast(kind) for name, kind in list(kinds.items())[:2]}
    data["day"] = pa.array([1, None], pa.int32()).cast(pa.date32())
    data["coded"] = pa.array(["x", None]).dictionary_encode().cast(kinds["coded"])
    with pa.ipc.new_file(str(files / "t.arrow"), pa.schema(list(kinds.items()))) as file:
        file.write_table(pa.table(data, schema=pa.schema(list(kinds.items()))))
    found = table(Table(files / "t.arrow"))
    utc = [pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")]
    assert [f.type for f in found.schema] == [*utc, pa.date32(), pa.string()]
    assert [found[n][0].value for n in ("plain", "zoned")] == [1, 1]
    assert found["coded"].to_pylist() == ["x", None]


def test_words_for_types_overrule_the_file(tmp_path):
    (tmp_path / "w.csv").write_text("e,m,t,n,d\n1331901000.123456789,1500,2026-01-01,007,2026-01-01 10:00:00+02:00\n")
    read = Table(tmp_path / "w.csv", types={"e": "epoch", "m": "timestamp[ms]", "t": "timestamp", "n": "text"})
    assert [str(f.type) for f in read.schema] == [
        "timestamp[ns, tz=UTC]",
        "timestamp[ms, tz=UTC]",
        "timestamp[ns, tz=UTC]",
        "string",
        "timestamp[ns, tz=UTC]",
    ]
    day = 1_767_225_600 * 10**9
    assert rows(read) == [(1331901000_123456789, 1500, day, "007", day + 8 * 3600 * 10**9)]
    (tmp_path / "w.ndjson").write_text('{"e": 1331901000.123456, "n": 3}\n{"e": null, "n": 4}\n')
    read = Table(tmp_path / "w.ndjson", types={"e": "epoch", "n": pa.int16()})
    assert rows(read) == [(1331901000_123456000, 3), (None, 4)]
    assert read.schema.field("n").type == pa.int16()


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.ip_addresses().map(str)), max_size=12), st.integers(0, 5))
def test_addresses_are_read_as_the_standard_library_reads_them(texts, start):
    from oop_engine.sources.addresses import parse_addresses

    array = pa.array(texts, pa.string()).slice(start)
    expected = [None if t is None else parse_ip(t) for t in texts[start:]]
    assert parse_addresses(array).to_pylist() == expected


@settings(deadline=None)
@given(st.text(alphabet="0123456789.", min_size=1, max_size=16))
def test_what_is_no_dotted_quad_is_no_address(text):
    from oop_engine.sources.addresses import parse_addresses

    try:
        expected = parse_ip(text)
    except ValueError:
        with pytest.raises(ValueError, match="no IP address"):
            parse_addresses(pa.array([text]))
    else:
        assert parse_addresses(pa.array([text])).to_pylist() == [expected]


def broken(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"a,a\n1,2\n", 'column "a" twice'),
        ("a.csv", b"a,b\n1,2\n3\n", r"line 3.*Expected 2 columns, got 1"),
        ("a.ndjson", b"", "the file is empty"),
        ("a.arrow", b"", "the file is empty"),
        ("a.ndjson", b"[1]", "not an array"),
        ("a.ndjson", b'{"a": 1\n', "JSON parse error"),
        ("a.parquet", b"PAR1 no PAR1", r"a\.parquet"),
        ("a.arrow", b"ARROW1\0\0 no", r"a\.arrow"),
        ("a.csv.gz", gzip.compress(CSV * 9000)[:-2000], r"a\.csv\.gz: .*cut"),
    ],
)
def test_damage_is_told_with_the_file_and_the_place(tmp_path, name, data, words):
    path = broken(tmp_path, name, data)
    with pytest.raises(TableError, match=words):
        list(Table(path).batches())


def test_a_value_of_another_type_far_down_is_told_with_its_line(tmp_path):
    lines = "".join(f"{i},x\n" for i in range(900_000))
    path = broken(tmp_path, "n.csv", f"n,s\n{lines}1.5,y\n".encode())
    with pytest.raises(TableError, match=r'line 900002,.*\n.*--types n=float .*types=\{"n": "float"\}'):
        list(Table(path, columns=["n"]).batches())
    assert table(Table(path, types={"n": "float"})).num_rows == 900_001


def test_a_wrong_address_is_told_with_its_column(tmp_path):
    path = broken(tmp_path, "a.csv", b"srcIP\n10.0.0.300\n")
    with pytest.raises(TableError, match=r'column "srcIP".*as "ip": "10.0.0.300" is no IP address'):
        list(Table(path, types=TYPES).batches())


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ("x.csvv", {}, SourceError, r"Did you mean .*x\.csv"),
        ("x.foo", {}, SourceError, r"there is no file"),
        ("no/x.csv", {}, SourceError, "no folder"),
        ("*.foo", {}, SourceError, "no file matches"),
        (".", {}, SourceError, "is a folder"),
        ("x.csv", {"format": "xml"}, SourceError, "csv, tsv, ndjson, parquet, arrow"),
        ("x.csv", {"batch_rows": 0}, SourceError, "at least one row"),
        ("x.csv", {"columns": ["lenght"]}, SchemaError, 'Did you mean "length"'),
        ("x.csv", {"types": {"lenght": "int"}}, SchemaError, 'Did you mean "length"'),
        ("x.csv", {"types": {"length": "integer"}}, SchemaError, 'Did you mean "int"'),
    ],
)
def test_what_a_user_names_wrongly_is_answered_with_what_there_is(files, source, options, error, words):
    with pytest.raises(error, match=words):
        Table(str(files / source), **options)


def test_a_suffix_that_nobody_knows_and_standard_input_need_a_format(files):
    (files / "x.dat").write_bytes(CSV)
    with pytest.raises(SourceError, match=r'"\.dat" is no suffix of a table\. Known are \.csv'):
        Table(files / "x.dat")
    assert rows(Table(files / "x.dat", format="csv", types=TYPES)) == ROWS
    assert expand("-") == [STDIN]
    with pytest.raises(SourceError, match="standard input has no suffix"):
        Table("-")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "a[1].csv").write_text("n\n1\n")
    assert rows(Table(str(tmp_path / "a[1].csv"))) == [(1,)]


def test_python_rows_become_pages_and_a_punctuation_closes_the_page():
    schema = Schema(pa.schema([pa.field("ts", pa.int64()), ip_field("srcIP")]))
    given = [{"ts": 1, "srcIP": "10.0.0.7"}, (2, parse_ip("::1")), before("ts", 3), {"srcIP": None}]
    given += [(5, None), (6, None)]
    elements = list(from_rows(given, schema, page_rows=2))
    assert [e.plain_rows() if isinstance(e, Page) else e for e in elements] == [
        [{"ts": 1, "srcIP": parse_ip("10.0.0.7")}, {"ts": 2, "srcIP": parse_ip("::1")}],
        before("ts", 3),
        [{"ts": None, "srcIP": None}, {"ts": 5, "srcIP": None}],
        [{"ts": 6, "srcIP": None}],
    ]
    pages = [e for e in elements if isinstance(e, Page)]
    arrow = pa.Table.from_batches([p.batch for p in pages])
    assert sum(len(e) for e in from_pages([*pages, arrow, pages[0].batch], schema)) == 12


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"tss": 1}], 'row 0: "tss" is no attribute'),
        ([(1,), (1, 2)], "row 1 has 2 values"),
        ([("x",)], 'row 0: "ts" is int64'),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_number(given, words):
    with pytest.raises(SchemaError, match=words):
        list(from_rows(given, Schema.of(ts=pa.int64())))


def test_pages_of_another_schema_are_refused():
    other = Page.of(Schema.of(x=pa.int64()), {"x": [1]})
    with pytest.raises(SchemaError, match="element 0"):
        list(from_pages([other], Schema.of(ts=pa.int64())))
    with pytest.raises(SourceError, match="element 0 is a str"):
        list(from_pages(["x"], Schema.of(ts=pa.int64())))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n "ts": 1,\n "x": 2\n}', "the first object goes on in the next line: .* one JSON object a line"),
        ('\n{"ts": 1, "o": {"a":\n 2}}\n{"ts": 2}\n', "the first object goes on in the next line"),
        ('{"ts": 1}\n{"ts": 2, "ts": 3}\n', 'line 2, .*: an object has the key "ts" twice; rename one'),
        ('{"ts": 1, "o": {"a": 1, "a": 2}}\n', 'an object has the key "o.a" twice'),
        ('{"ts":', "line 1, blank lines not counted: JSON parse error"),
    ],
)
def test_what_is_no_object_a_line_is_told_in_a_sentence(tmp_path, text, says):
    path = tmp_path / "in.ndjson"
    path.write_text(text)
    with pytest.raises(TableError, match=says) as caught:
        Table(path)
    assert "types=" not in str(caught.value)


@given(st.lists(st.sampled_from([b"a", b'"', b"\n"]), max_size=14))
def test_a_piece_ends_at_the_last_line_end_that_is_not_between_quotes(parts: list[bytes]) -> None:
    held = bytearray(b"".join(parts))
    ends = [at + 1 for at in range(len(held)) if held[at : at + 1] == b"\n" and held.count(b'"', 0, at) % 2 == 0]
    assert last_line_end(held, quotes=True) == max(ends, default=0)


def test_a_stray_quote_in_a_large_file_costs_no_more_than_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "inches.csv"
    path.write_bytes(b'ts,x\n1,5" disk\n' + b"1,2\n" * 1_500_000)
    assert sum(len(batch) for batch in Table(path).batches()) == 1_500_001


def test_a_quote_that_is_never_closed_is_named_by_its_line() -> None:
    data = b'ts,x\n1,2\n1,"two\n' + b"1,2\n" * 18_000_000
    with pytest.raises(TableError, match='line 3 is longer than 64 MiB: a " in it is never closed'):
        for _ in Table(io.BytesIO(data), format="csv").batches():
            pass


def test_an_arrow_file_that_is_cut_while_it_is_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Were it mapped, what is cut off would end this process (SIGBUS)."""
    path = tmp_path / "cut.arrow"
    schema = pa.schema([("ts", pa.int64()), ("other", pa.string()), ("v", pa.int64())])
    with pa.ipc.new_file(str(path), schema) as file:
        for k in range(40):
            many = range(k * 10_000, (k + 1) * 10_000)
            file.write_batch(pa.record_batch([list(many), ["x"] * 10_000, list(many)], schema=schema))
    batches = Table(path, columns=["v", "ts"]).batches()
    assert next(batches).schema.names == ["ts", "v"]
    os.truncate(path, 1_000_000)
    with pytest.raises(TableError, match=r"cut\.arrow"):
        assert sum(len(batch) for batch in batches) < 400_000


@pytest.mark.parametrize("name", ["x.csv", "x.ndjson", "x.parquet"])
def test_what_threads_of_arrows_read_lies_in_its_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They may let go of it when the interpreter has ended, and that of memory of Python's would abort the process."""
    whole = pa.table({"ts": range(500), "v": range(500)})
    with io.BytesIO() as file:
        if name == "x.csv":
            pyarrow.csv.write_csv(whole, file)
        elif name == "x.parquet":
            pq.write_table(whole, file)
        else:
            file.write("".join(f'{{"ts":{t},"v":{t}}}\n' for t in range(500)).encode())
        data = file.getvalue()
    addresses: list[int] = []
    threaded: list[int] = []

    def spied(given: bytes) -> pa.Buffer:
        found = owned(given)
        addresses.append(found.address)
        return found

    def spy(read: Callable[..., object]) -> Callable[..., object]:
        def wrapped(source: pa.NativeFile, *args: object, **options: object) -> object:
            # Parquet's tasks are those of its batches, which come later.
            settings = options.get("read_options")
            if settings is None or settings.use_threads:  # type: ignore[attr-defined]
                threaded.append(source.read_buffer(1).address)
                source.seek(0)
            return read(source, *args, **options)

        return wrapped

    for module in (delimited, objects):
        monkeypatch.setattr(module, "_BLOCK", 1024)
    for module in (delimited, objects, columnar):
        monkeypatch.setattr(module, "owned", spied)
    monkeypatch.setattr(pyarrow.csv, "read_csv", spy(pyarrow.csv.read_csv))
    monkeypatch.setattr(pyarrow.json, "read_json", spy(pyarrow.json.read_json))
    monkeypatch.setattr(pq, "ParquetFile", spy(pq.ParquetFile))
    found = table(Table(io.BytesIO(data), format=name.partition(".")[2]))
    assert found.to_pydict() == whole.to_pydict()
    assert threaded and set(threaded) <= set(addresses)
