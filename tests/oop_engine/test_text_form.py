"""Lines that are written otherwise than most: delimiters, decimal commas, encodings, forms of times, nested JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.sources import text, text_file
from oop_engine.sources.files import Files
from oop_engine.sources.positions import Placing
from oop_engine.sources.text_form import TextForm, parse_times
from tests.examples import share

US = "%m/%d/%Y %I:%M:%S.%f %p"
GERMAN = "Zeit;Größe;Ort\n05/02/2013 08:20:45.5 PM;1,5;Köln\n05/02/2013 08:20:46 PM;2,5;Münster\n"
FORM = TextForm(delimiter=";", decimal=",", encoding="latin-1", time_format=US)
SECOND = datetime(2013, 5, 2, 20, 20, 45, tzinfo=UTC)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_semicolons_decimal_commas_encodings_and_dates_of_the_usa_are_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "g.csv").write_bytes(GERMAN.encode(encoding))
    stream = oop.read(tmp_path / "g.csv", delimiter=";", decimal=",", encoding=encoding, time_format=US)
    assert [list(row.values()) for row in stream.to_arrow().to_pylist()] == [
        [SECOND + timedelta(seconds=0.5), 1.5, "Köln"],
        [SECOND + timedelta(seconds=1), 2.5, "Münster"],
    ]


def test_the_command_reads_them_too(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(GERMAN.encode("latin-1"))
    query = "SELECT sum(Größe) AS m [RANGE 1 minute, WA Zeit] FROM M"
    form = ["--delimiter", ";", "--decimal", ",", "--encoding", "latin-1", "--time-format", US]
    done = CliRunner().invoke(commands, ["query", query, "-s", f"M={tmp_path / 'g.csv'}", *form])
    assert done.stdout.splitlines()[1] == "4,22792100,2013-05-02T20:20:00Z,2013-05-02T20:21:00Z"


def test_pieces_of_a_recoded_file_end_nowhere_within_a_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "PIECE", 7)
    (tmp_path / "w.csv").write_bytes(("a,b\n" + "".join(f"{i},ß€{i}\n" for i in range(40))).encode("utf-16"))
    rows = oop.table(tmp_path / "w.csv", encoding="utf-16").to_arrow().to_pylist()
    assert rows == [{"a": i, "b": f"ß€{i}"} for i in range(40)]


def test_a_reading_of_a_recoded_file_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_bytes(
        ("Zeit;v\n" + "".join(f"05/02/2013 08:20:{i:02} PM;{i}\n" for i in range(9))).encode("latin-1")
    )
    source = Files("w", tmp_path / "w.csv", form=FORM)
    whole = [row for chunk in source.open(("Zeit", "v"), 4).chunks() for row in chunk.to_pylist()]
    placing = Placing("w", tuples=5)
    assert [row for chunk in placing.chunks(source.open(("Zeit", "v"), 4)) for row in chunk.to_pylist()] == whole[5:]


@share(1)
@given(st.lists(st.none() | st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=1))
def test_times_of_a_format_are_those_that_python_reads(times: list[datetime | None]) -> None:
    written = [None if time is None else time.strftime("%d.%m.%Y %H:%M:%S.%f") for time in times]
    # strftime writes no zeros before a year of three digits, and all years here have four.
    found = parse_times(pa.array(written, pa.string()), "%d.%m.%Y %H:%M:%S.%f")
    assert found.cast(pa.timestamp("us", "UTC")).to_pylist() == [t and t.replace(tzinfo=UTC) for t in times]


def test_a_format_of_one_column_stands_where_its_type_does(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("ts,day\n20130502,20130503\n")
    (row,) = oop.table(tmp_path / "d.csv", types={"ts": "%Y%m%d"}).to_arrow().to_pylist()
    assert row == {"ts": datetime(2013, 5, 2, tzinfo=UTC), "day": 20130503}


def test_a_zone_in_a_time_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "z.ndjson").write_text('{"ts":"02/May/2013:22:20:45 +0200"}\n')
    stream = oop.table(tmp_path / "z.ndjson", time_format="%d/%b/%Y:%H:%M:%S %z")
    assert stream.to_arrow()["ts"].to_pylist() == [SECOND]


def test_a_later_value_that_is_no_time_ends_the_run_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("ts,v\n05/02/2013,1\n13/45/2013,2\n")
    with pytest.raises(oop.TableError, match='"13/45/2013" is no time as %m/%d/%Y'):
        oop.table(tmp_path / "g.csv", types={"ts": "%m/%d/%Y"}).to_arrow()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"delimiter": ";;"}, "one character stands between cells"),
        ({"decimal": ","}, 'add delimiter=";"'),
        ({"decimal": "x"}, "numbers have a point or a comma"),
        ({"encoding": "klingon"}, "unknown encoding: klingon; write one that Python knows"),
        ({"encoding": "base64"}, "is not a text encoding"),
        ({"time_format": "%Q %Y"}, "%Q is not read here"),
        ({"time_format": "%d/%m"}, "a time has a year"),
        ({"time_format": "%Y%f"}, "%f stands behind seconds"),
    ],
)
def test_a_form_that_cannot_be_is_refused_with_what_can(tmp_path: Path, form: Mapping[str, str], said: str) -> None:
    (tmp_path / "g.csv").write_text("ts\n1\n")
    with pytest.raises(oop.PlanError, match=said):
        oop.table(tmp_path / "g.csv", **form)  # pyright: ignore[reportArgumentType]


def test_a_form_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("ts\n1\n")
    with pytest.raises(oop.PlanError, match="takes no flatten; that is for ndjson"):
        oop.read(tmp_path / "g.csv", flatten=True)
    with pytest.raises(oop.SchemaError, match=r'no column is written as the time format "%Y/%m/%d".*\n.*--types'):
        oop.read(tmp_path / "g.csv", time_format="%Y/%m/%d")


def test_a_byte_that_is_not_of_the_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_bytes(b"a\n\xff\xff\n")
    with pytest.raises(oop.TableError, match=r"a byte near 2 is no utf-8-sig .*\n  Give the encoding"):
        oop.table(tmp_path / "g.csv", encoding="utf-8-sig")


LINES = (
    '{"ts":1,"a":{"b":{"c":"10.0.0.1"},"n":5},"x.y":7}\n'
    '{"ts":2,"a":{"b":{"c":"10.0.0.2"}},"x.y":8}\n'
    '{"ts":3,"a":null}\n'
)


def test_values_in_objects_are_attributes_that_queries_name_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "n.ndjson").write_text(LINES)
    stream = oop.table(tmp_path / "n.ndjson", flatten=True, types={"a.b.c": "ip"})
    assert stream.schema.names == ["ts", "a.b.c", "a.n", "x.y"]
    assert [tuple(row.values()) for row in stream.to_arrow().to_pylist()] == [
        (1, "10.0.0.1", 5, 7),
        (2, "10.0.0.2", None, 8),
        (3, None, None, None),
    ]
    for name in ("a.b.c", "M.a.b.c", "`a.b.c`"):
        found = oop.query(f"SELECT {name} AS c, sum(x.y) AS s [RANGE 2, WA ts] FROM M GROUP BY {name}", M=stream)
        assert {(row["c"], row["s"]) for row in found.to_arrow().to_pylist()} == {
            ("10.0.0.1", 7), ("10.0.0.2", 8), (None, None),
        }  # fmt: skip


def test_a_value_in_an_object_that_the_first_lines_had_not_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "PIECE", 20)
    monkeypatch.setattr(text_file, "LOOK", 0)
    # "n" is known of another object, "late" of none, and "w" is of two types.
    (tmp_path / "n.ndjson").write_text(
        '{"ts":1,"a":{"n":5}}\n{"ts":2,"b":{"n":6}}\n{"ts":3,"a":{"late":1}}\n{"ts":4,"w":1}\n{"ts":5,"w":{"n":"x"}}\n'
    )
    table = oop.table(tmp_path / "n.ndjson", flatten=True, slack=0)
    notes = " ".join(table.run().statistics.notes)
    for name, line in (("b.n", 2), ("a.late", 3), ("w", 4), ("w.n", 5)):
        assert f'the key "{name}" is left out, which line {line} has' in notes
    with pytest.raises(oop.TableError, match=r'line 2: the key "b.n" is no column'):
        oop.table(tmp_path / "n.ndjson", flatten=True, slack=0, strict=True).run()


KEYS = st.sampled_from(["a", "b", "c.d"])
OBJECTS = st.recursive(
    st.none() | st.integers(-9, 9), lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3), max_leaves=6
)


def _flat(value: object, path: str = "") -> dict[str, object]:
    """Return what a naive walk finds: the values behind the paths."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in _flat(inner, f"{path}.{key}" if path else key).items()}
    return {path: value}


@share(0.5)
@given(st.lists(st.dictionaries(KEYS, OBJECTS, min_size=1), min_size=1, max_size=8), st.integers(1, 60))
def test_flattened_values_and_those_left_out_are_together_all_that_a_naive_walk_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], piece: int
) -> None:
    path = tmp_path_factory.mktemp("n") / "n.ndjson"
    path.write_text("".join(json.dumps({"ts": i, **row}) + "\n" for i, row in enumerate(rows)))
    wanted = [{k: v for k, v in _flat({"ts": i, **row}).items() if v is not None} for i, row in enumerate(rows)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text, "PIECE", piece)
        try:
            source = Files("n", path, form=TextForm(flatten=True))
            reader = source.open(source.arrow.names, 5)
            found = [row for chunk in reader.chunks() for row in chunk.to_pylist()]
        except oop.TableError:
            # A key that is a number here and an object there is an error, where it is a column.
            paths = {name for row in rows for name in _flat(row)}
            assert any(name.startswith(f"{path}.") for name in paths for path in paths)
            return
    assert [{k: v for k, v in row.items() if v is not None} for row in found] == [
        {k: v for k, v in row.items() if k in source.arrow.names} for row in wanted
    ]
    left = sum(k not in source.arrow.names for row in wanted for k in row)
    assert sum(other.lines for other in reader.table._left_out._others.values()) == left
