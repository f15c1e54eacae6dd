"""What a table's columns are is decided by their first values, wherever these are, and what comes later is told."""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
import threading
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.sources import text_file
from oop_engine.sources.errors import TableError
from oop_engine.sources.files import Files
from oop_engine.sources.json_keys import LeftOut
from oop_engine.sources.tables import Table
from oop_engine.sources.text import Piece
from operators.errors import SchemaError


def rows(table: Table) -> list[dict[str, object]]:
    return [row for batch in table.batches() for row in batch.to_pylist()]


def written(folder: Path, **files: str | bytes) -> list[Path]:
    """Write files whose names end in _csv and so on; those in _gz are packed."""
    found: list[Path] = []
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        path = folder / name.replace("_", ".")
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        found.append(path)
    return found


BLANK = {
    "csv": ("ts,v\n1,\n", "ts,v\n2,9\n3,10\n"),
    "tsv": ("ts\tv\n1\t\n", "ts\tv\n2\t9\n3\t10\n"),
    "csv_gz": ("ts,v\n1,\n", "ts,v\n2,9\n3,10\n"),
    "ndjson": ('{"ts": 1, "v": null}\n', '{"ts": 2, "v": 9}\n{"ts": 3, "v": 10}\n'),
}


@pytest.mark.parametrize("kind", BLANK)
@pytest.mark.parametrize("turned", [False, True])
def test_a_file_without_a_value_decides_no_type(tmp_path: Path, kind: str, turned: bool) -> None:
    files = written(tmp_path, **{f"h{n}_{kind}": content for n, content in enumerate(BLANK[kind])})
    stream = oop.table(*files[:: -1 if turned else 1])
    assert stream.schema.field("v").type == pa.int64()
    found = oop.query("SELECT max(v) AS most, min(v) AS least FROM M", {"M": stream}).to_arrow().to_pylist()
    assert found == [{"most": 10, "least": 9}]


def test_a_parquet_file_without_a_value_decides_no_type(tmp_path: Path) -> None:
    for name, values in (("a", pa.nulls(1)), ("b", pa.array([9, 10]))):
        pq.write_table(pa.table({"v": values}), tmp_path / f"{name}.parquet")
    table = Table(str(tmp_path / "*.parquet"))
    assert (table.schema.field("v").type, rows(table)) == (pa.int64(), [{"v": None}, {"v": 9}, {"v": 10}])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_first_value_far_down_decides_the_type(tmp_path: Path, kind: str, packed: bool) -> None:
    n = 700_000
    lines = (f"{i},{'' if i < n - 9 else i}\n" for i in range(n))
    objects = (f'{{"ts":{i},"v":{"null" if i < n - 9 else i}}}\n' for i in range(n))
    text = "ts,v\n" + "".join(lines) if kind == "csv" else "".join(objects)
    (path,) = written(tmp_path, **{f"far_{kind}{'_gz' if packed else ''}": text})
    table = Table(path, columns=["v"])
    assert table.schema.field("v").type == pa.int64()
    assert sum(batch.column(0).drop_null().sum().as_py() or 0 for batch in table.batches()) == sum(range(n - 9, n))


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at nothing behind the first piece."""
    monkeypatch.setattr("oop_engine.sources.tables.LOOK", 1)


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("kind", ["csv", "tsv", "csv_gz", "ndjson"])
def test_a_first_value_that_was_not_looked_for_is_an_error_that_names_its_place(tmp_path: Path, kind: str) -> None:
    files = written(tmp_path, **{f"h{n}_{kind}": content for n, content in enumerate(BLANK[kind])})
    table = Table(files)
    assert table.schema.field("v").type == pa.string()
    line = 1 if kind == "ndjson" else 2
    with pytest.raises(TableError, match=rf'h1\..*: line {line}, .*"v" is 9 here.*\n.*--types v=int .*v=text'):
        rows(table)
    assert [row["ts"] for row in rows(Table(files, columns=["ts"]))] == [1, 2, 3], "who does not read it is not told"
    for word, values in (("int", [None, 9, 10]), ("text", [None, "9", "10"])):
        if (kind, word) != ("ndjson", "text"):
            assert [row["v"] for row in rows(Table(files, types={"v": word}))] == values


@pytest.mark.usefixtures("near")
def test_a_parquet_value_that_was_not_looked_for_is_an_error(tmp_path: Path) -> None:
    (first,) = written(tmp_path, a_csv="v,w\n,1\n")
    pq.write_table(pa.table({"v": [9], "w": [1]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match=r'b\.parquet: "v" is 9 here.*\n.*--types v=int'):
        rows(Table([first, tmp_path / "b.parquet"]))


@pytest.mark.usefixtures("near")
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_first_value_that_is_text_is_what_the_column_was_taken_for(tmp_path: Path, kind: str) -> None:
    lines = {"csv": ("ts,v\n1,\n", "ts,v\n2,x\n3,7\n"), "ndjson": ('{"ts":1,"v":null}\n', '{"v":"x"}\n{"v":"7"}\n')}
    files = written(tmp_path, **{f"h{n}_{kind}": content for n, content in enumerate(lines[kind])})
    assert [row["v"] for row in rows(Table(files))] == [None, "x", "7"]


@pytest.mark.usefixtures("near")
def test_a_time_after_a_column_was_taken_as_text_is_an_error(tmp_path: Path) -> None:
    files = written(tmp_path, a_ndjson='{"v":null}\n', b_ndjson='{"v":"2026-01-01T10:00:00"}\n')
    with pytest.raises(TableError, match="--types v=timestamp"):
        rows(Table(files))
    assert Table(files, types={"v": "timestamp"}).schema.field("v").type == pa.timestamp("ns", "UTC")


HOUR = "SELECT count(*) AS n [RANGE 10, WA ts] FROM M"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_hour_without_traffic_neither_decides_nor_fails(tmp_path: Path, place: int) -> None:
    contents = ["ts,v\n1,2\n", "ts,v\n11,5\n"]
    contents.insert(place, "ts,v\n")
    files = written(tmp_path, **{f"h{n}_csv": content for n, content in enumerate(contents)})
    found = oop.query(HOUR, {"M": oop.table(*files)}).to_arrow()
    assert found.column("n").to_pylist() == [1, 1]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_empty_file_of_objects_neither_decides_nor_fails(tmp_path: Path, place: int) -> None:
    contents = ['{"ts":1,"v":2}\n', '{"ts":11,"v":5}\n']
    contents.insert(place, "")
    files = written(tmp_path, **{f"h{n}_ndjson": content for n, content in enumerate(contents)})
    assert rows(Table(files)) == [{"ts": 1, "v": 2}, {"ts": 11, "v": 5}]
    assert rows(Table(files, types={"v": "float"})) == [{"ts": 1, "v": 2.0}, {"ts": 11, "v": 5.0}]


def test_a_header_alone_is_a_table_without_tuples(tmp_path: Path) -> None:
    (path,) = written(tmp_path, h_csv="ts,v\n")
    assert oop.query("SELECT v FROM M", {"M": oop.table(path)}).to_arrow().num_rows == 0
    stream = oop.table(path, types={"ts": "int"})
    assert oop.query(HOUR, {"M": stream}).to_arrow().num_rows == 0


def test_another_order_of_columns_keeps_what_was_decided(tmp_path: Path) -> None:
    files = written(tmp_path, a_csv="ts,v\n1,\n", b_csv="v,ts\n,2\n", c_csv="v,ts\n9,3\n")
    assert rows(Table(files)) == [{"ts": 1, "v": None}, {"ts": 2, "v": None}, {"ts": 3, "v": 9}]


def test_shares_of_files_read_what_all_of_them_have_decided(tmp_path: Path) -> None:
    """Spark reads them apart; a share without a value has the type that another's value gave."""
    files = written(tmp_path, a_csv="ts,v,w\n1,,\n", b_csv="ts,v,w\n2,9,\n", c_csv="ts,v,w\n2026,10,\n")
    whole = Files("M", files)
    shares = [attrs.evolve(whole, given=[file]) for file in files]
    assert [share.arrow for share in shares] == [whole.arrow] * 3
    assert whole.arrow.field("v").type == pa.int64()


def piped(*parts: bytes) -> tuple[io.BufferedReader, threading.Thread]:
    receiving, sending = os.pipe()

    def write() -> None:
        with os.fdopen(sending, "wb", buffering=0) as stream:
            for part in parts:
                stream.write(part)

    thread = threading.Thread(target=write)
    thread.start()
    return os.fdopen(receiving, "rb"), thread


def test_a_pipe_is_held_until_a_value_shows_the_type() -> None:
    parts = [b"ts,v\n", *(b"%d,\n" % i * 100 for i in range(100)), b"7,9\n7,10\n"]
    stream, thread = piped(*parts)
    with stream:
        table = Table(stream, format="csv")
        assert table.schema.field("v").type == pa.int64()
        found = rows(table)
    thread.join()
    assert len(found) == 10_002 and [row["v"] for row in found[-2:]] == [9, 10]


def test_a_header_that_comes_alone_waits_for_a_tuple() -> None:
    receiving, sending = os.pipe()
    os.write(sending, b"ts,v\n")
    later = threading.Timer(0, lambda: (os.write(sending, b"1,9\n"), os.close(sending)))
    later.start()
    with os.fdopen(receiving, "rb") as stream:
        table = Table(stream, format="csv")
        assert table.schema.field("v").type == pa.int64()
        assert rows(table) == [{"ts": 1, "v": 9}]
    later.join()


def test_a_live_stream_is_not_held_back_for_a_column_that_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "_PAUSE", 0.0)
    receiving, sending = os.pipe()
    os.write(sending, b"ts,v\n1,\n")
    with os.fdopen(receiving, "rb") as stream:
        batches = Table(stream, format="csv").batches()
        assert next(batches).to_pylist() == [{"ts": 1, "v": None}]
        os.write(sending, b"2,9\n")
        os.close(sending)
        with pytest.raises(TableError, match=r'line 3, .*"v" is 9 here.*\n.*--types v=int'):
            next(batches)


LATER = ('{"ts":1}\n', '{"ts":2,"v":9}\n{"ts":3,"v":null}\n\n{"ts":4,"v":[1,"}"]}\n')


def test_keys_that_come_later_are_counted_and_told(tmp_path: Path) -> None:
    files = written(tmp_path, a_ndjson=LATER[0], b_ndjson=LATER[1])
    table = Table(files)
    assert [row["ts"] for row in rows(table)] == [1, 2, 3, 4]
    (note,) = table.notes()
    assert note.startswith(f'{files[1]}: the key "v" is left out, which 2 lines have (first line 1), since')
    assert "--types v=int" in note and 'types={"v": "int"}' in note
    with pytest.raises(TableError, match=r'b\.ndjson: line 1: the key "v" is no column.*--types v=int'):
        rows(Table(files, strict=True))
    files = written(tmp_path, a_ndjson=LATER[0], b_ndjson='{"ts":2,"v":9}\n{"v":null,"ts":3}\n')
    whole = Table(files, types={"v": "int"}, strict=True)
    assert ([row["v"] for row in rows(whole)], whole.notes()) == ([None, 9, None], [])


def test_what_is_left_out_is_in_the_notes_of_a_run(tmp_path: Path) -> None:
    files = written(tmp_path, a_ndjson=LATER[0], b_ndjson=LATER[1])
    ran = oop.query("SELECT ts FROM M", {"M": oop.table(*files)}).run()
    assert any('the key "v" is left out' in note for note in ran.statistics.notes)
    assert Files("M", files).open(("ts",), 10).notes() == []


def test_columns_that_a_later_file_has_besides_are_told(tmp_path: Path) -> None:
    files = written(tmp_path, a_csv="ts\n1\n", b_csv="x,ts,y\n5,2,6\n")
    table = Table(files)
    assert rows(table) == [{"ts": 1}, {"ts": 2}]
    (note,) = table.notes()
    assert note.startswith(f'{files[1]}: columns "x", "y" left out, which {files[0]} has not')
    with pytest.raises(SchemaError, match=r'b\.csv: .*a\.csv, which names the columns, has no columns "x", "y"'):
        rows(Table(files, strict=True))


def test_many_keys_are_told_by_number(tmp_path: Path) -> None:
    line = json.dumps({f"k{i}": i for i in range(100)})
    table = Table(written(tmp_path, a_ndjson=LATER[0], b_ndjson=f"{line}\n" * 300))
    assert len(rows(table)) == 301
    assert table.notes()[0].endswith('--types k0=int (in Python types={"k0": "int"}) makes it a column.')
    assert table.notes()[-1] == "92 more keys that the first lines had not are left out"


keys = st.sampled_from(["ts", "s", "a b", 'q"', "b\\", ":", "é", "", "ts:", "o", "1"])
scalars = st.one_of(
    st.none(), st.integers(-9, 9), st.sampled_from(['"', "\\", '"ts":', '{"x":1', "a,b", "é", "}", "[", ""])
)
values = st.recursive(scalars, lambda v: st.one_of(st.lists(v, max_size=2), st.dictionaries(keys, v, max_size=2)))


@given(st.lists(st.dictionaries(keys, values, max_size=4), max_size=6), st.sets(keys), st.data())
def test_keys_are_counted_as_json_reads_them(
    lines: list[dict[str, object]], known: set[str], data: st.DataObject
) -> None:
    dumped = [
        json.dumps(
            line,
            ensure_ascii=data.draw(st.booleans()),
            separators=data.draw(st.sampled_from([(",", ":"), (" , ", " : ")])),
        )
        for line in lines
    ]
    left_out = LeftOut()
    left_out.known(known)
    left_out.look(Piece(5, "\n".join(dumped).encode()), "f")
    expected: dict[str, tuple[int, int]] = {}
    for number, line in enumerate(lines, 5):
        for key, value in line.items():
            if key not in known and value is not None:
                count, first = expected.get(key, (0, number))
                expected[key] = (count + 1, first)
    assert {key: (other.lines, other.first) for key, other in left_out._others.items()} == expected


@pytest.mark.parametrize("suffix", ["csv", "csv_gz", "ndjson"])
def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path, suffix: str) -> None:
    text = '{"ts":1,"v":2}\n' if suffix == "ndjson" else "ts,v\n1,2\n"
    (path,) = written(tmp_path, **{f"marked_{suffix}": text.encode("utf-8-sig")})
    assert rows(Table(path)) == [{"ts": 1, "v": 2}]


def test_a_wrong_value_is_told_with_its_own_column_and_what_reads_it(tmp_path: Path) -> None:
    lines = "".join(f"{i},{i if i < 399_000 else i + 0.5},{i}\n" for i in range(400_000))
    (path,) = written(tmp_path, blame_csv="p,q,r\n" + lines)
    for columns in (["q", "r"], ["q"], ["p", "q", "r"]):
        with pytest.raises(
            TableError, match=r'line 399002, [^"]*"q": .*399000\.5.*\n.*type of "q"; --types q=float'
        ) as caught:
            rows(Table(path, columns=columns))
        assert '"r"' not in str(caught.value) and "#" not in str(caught.value)
    files = written(tmp_path, a_csv="ts,a\n1,2\n", b_csv="a,b,ts\n7,1,5\nx,1,2\n")
    with pytest.raises(TableError, match=r'b\.csv: line 3, [^"]*"a": .*\'x\'\n.*--types a=text'):
        rows(Table(files))


def test_a_wrong_value_in_an_object_is_told_with_its_line_its_column_and_what_reads_it(tmp_path: Path) -> None:
    lines = [f'{{"p":{i},"q":{i if i < 299_990 else i + 0.5},"r":{i}}}\n' for i in range(300_000)]
    (path,) = written(tmp_path, blame_ndjson="".join(lines).replace("\n", "\n\n", 1))
    for columns in (["q"], ["p", "q", "r"]):
        with pytest.raises(TableError, match=r'line 299992: "q" is 299990\.5, which is no int64\n.*--types q=float'):
            rows(Table(path, columns=columns))
    assert rows(Table(path, columns=["r"]))[-1] == {"r": 299_999}
    files = written(tmp_path, a_ndjson='{"v":1}\n', b_ndjson='{"v":2}\n{"v":"x"}\n{"v":3}\n')
    with pytest.raises(TableError, match=r'b\.ndjson: line 2: "v" is "x", which is no int64\n.*--types v=text'):
        rows(Table(files))


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8), st.booleans())
def test_whole_numbers_up_to_64_bits_are_exact(numbers: list[int], objects: bool) -> None:
    lines = [f'{{"id":{number}}}\n' if objects else f"{number}\n" for number in numbers]
    head = "" if objects else "id\n"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("ids.ndjson" if objects else "ids.csv")
        path.write_text(head + "".join(lines))
        assert [row["id"] for row in rows(Table([path]))] == numbers
        assert [row["id"] for row in rows(Table([path], types={"id": "uint"}))] == numbers


def test_other_large_numbers_are_floats_and_a_later_one_says_its_type(tmp_path: Path) -> None:
    files = written(
        tmp_path, a_csv="v,w,x,y\n18446744073709551615,1e19,18446744073709551616,18446744073709551615\n1.5,2,3,-1\n",
    )  # fmt: skip
    assert set(map(str, Table(files).schema.types)) == {"double"}
    late = written(tmp_path, late_csv="v\n1\n", later_csv="v\n18446744073709551615\n")
    with pytest.raises(TableError, match=r'"v": .*18446744073709551615.*\n.*--types v=uint'):
        rows(Table(late))
    assert rows(Table(late, types={"v": "uint"})) == [{"v": 1}, {"v": 2**64 - 1}]
