"""What Spark is given has the value it has here, and what is asked for wrongly is told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oop_engine.sources.errors import SourceError
from oop_engine.spark.options import Options
from oop_engine.spark.paths import Choice, Folder, files, local
from oop_engine.spark.reading import Piece, grouped
from oop_engine.spark.schema import Wanted, converted, spark_type
from operators.errors import SchemaError

UTC = pa.timestamp("us", "UTC")
EVERY = Choice()


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62))), st.sampled_from(["s", "ms", "us", "ns"]))
def test_times_are_rounded_down_to_the_microsecond(ticks: list[int | None], unit: str) -> None:
    room = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
    ticks = [None if t is None else t // room for t in ticks]
    array = pa.array(ticks, pa.int64()).view(pa.timestamp(unit, "UTC"))
    expected = [None if t is None else t // 1000 if unit == "ns" else t * room for t in ticks]
    assert converted(array, UTC).view(pa.int64()).to_pylist() == expected


NESTED = st.recursive(
    st.sampled_from([pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.timestamp("ms"), pa.uint16(), pa.time32("s")]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.tuples(inner, inner).map(lambda kinds: pa.struct([("a", kinds[0]), ("b", kinds[1])])),
    ),
    max_leaves=3,
)


def values(kind: pa.DataType) -> st.SearchStrategy[object]:
    if pa.types.is_struct(kind):
        given = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_map(kind):
        given = st.lists(st.tuples(st.sampled_from("xyz"), values(kind.item_type)), max_size=3)
    elif pa.types.is_fixed_size_list(kind):
        given = st.lists(values(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_nested(kind):
        given = st.lists(values(kind.value_type), max_size=3)
    else:
        signed = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
        given = st.integers(-5_000 if signed else 0, 5_000)
    return st.one_of(st.none(), given)


def naive(value: object, kind: pa.DataType) -> object:
    """Give what Spark is to have of a value of ticks, in ticks of its own."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        assert isinstance(value, dict)
        return {field.name: naive(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        assert isinstance(value, list)
        return [(key, naive(item, kind.item_type)) for key, item in value]
    if pa.types.is_nested(kind):
        assert isinstance(value, list)
        return [naive(item, kind.value_type) for item in value]
    assert isinstance(value, int)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return value // 1_000 if kind.unit == "ns" else value * 1_000
    return value


@given(st.data(), NESTED)
def test_times_within_lists_structs_and_maps_are_rounded_down_too(data: st.DataObject, kind: pa.DataType) -> None:
    given = data.draw(st.lists(values(kind), max_size=6))
    first = data.draw(st.integers(0, len(given)))
    count = data.draw(st.integers(0, len(given) - first))
    found = converted(pa.array(given, kind).slice(first, count), spark_type(kind))
    found.validate(full=True)
    assert found.equals(pa.array([naive(v, kind) for v in given[first : first + count]], spark_type(kind)))


def test_dictionaries_of_times_are_rounded_down() -> None:
    array = pa.array([1_001, -1, None, 1_001], pa.timestamp("ns", "UTC")).dictionary_encode()
    assert converted(array, spark_type(array.type)).view(pa.int64()).to_pylist() == [1, -1, None, 1]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
def test_unsigned_numbers_keep_their_largest_value(kind: pa.DataType) -> None:
    largest = 2**kind.bit_width - 1
    assert int(converted(pa.array([largest], kind), spark_type(kind))[0].as_py()) == largest


def test_columns_come_in_the_order_asked_for() -> None:
    given = pa.schema([("ts", pa.timestamp("ms", "UTC")), ("x", pa.uint8()), ("y", pa.string())])
    wanted = Wanted.of(given, ("y", "ts_ns", "x"))
    assert wanted.read == ("ts", "x", "y")
    batch = pa.RecordBatch.from_pylist([{"ts": 7, "x": 1, "y": "a"}], schema=given)
    assert wanted.batch(batch).to_pylist() == [{"y": "a", "ts_ns": 7_000_000, "x": 1}]
    for names, words in ((("z",), 'no column "z"'), (("x", "x"), "named twice"), (("y_ns",), 'no column "y_ns"')):
        with pytest.raises(SchemaError, match=words):
            Wanted.of(given, names)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1700000000", 1_700_000_000 * 10**9),
        ("1700000000.000000001", 1_700_000_000 * 10**9 + 1),
        ("-1.5", -1_500_000_000),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01 00:00:01.000002", 10**9 + 2_000),
        ("1970-01-01T02:00+02:00", 0),
        ("1970-01-02", 86_400 * 10**9),
    ],
)
def test_a_time_is_read_in_utc(text: str, ns: int) -> None:
    assert Options.of("f", {"start": text}, ("start",)).time("start") == ns


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("64m", 64 << 20), ("2 GiB", 2 << 30), ("3KB", 3 << 10)])
def test_a_size_is_read(text: str, number: int) -> None:
    assert Options.of("f", {"SIZE": text}, ("size",)).number("size", 1) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "64x", "m"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="no whole number from 1 on"):
        Options.of("f", {"size": text}, ("size",)).number("size", 1)


def test_paths_name_files_patterns_and_folders(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap", "c.txt", "_d.pcap", "e.pcap.tmp", "sub/f.pcap"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    def named(paths: list[str], choice: Choice = EVERY) -> list[str]:
        return [str(path.relative_to(tmp_path)) for path in files(paths, choice)]

    assert named([str(tmp_path)]) == ["a.pcap", "b.pcap", "c.txt", "sub/f.pcap"]
    assert named([str(tmp_path)], Choice(None, ("*.txt",))) == ["a.pcap", "b.pcap", "sub/f.pcap"]
    assert named([f"file://{tmp_path}/[ab].pcap"[7:], str(tmp_path / "a.pcap")]) == ["a.pcap", "b.pcap"]
    assert named([str(tmp_path / "_d.pcap")]) == ["_d.pcap"]
    assert local(f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    with pytest.raises(SourceError, match="none of 2 files"):
        named([str(tmp_path / "*.pcap")], Choice(("*.cap",)))
    assert Folder.of([str(tmp_path / "*.pcap")]).names() == ["a.pcap", "b.pcap"]
    with pytest.raises(SourceError, match="neither a folder nor a pattern"):
        Folder.of([str(tmp_path / "nothing")])


def test_small_pieces_go_together_and_none_is_lost(tmp_path: Path) -> None:
    given = []
    for k in range(100):
        (tmp_path / str(k)).write_bytes(bytes(100_000))
        given.append(Piece(tmp_path / str(k)))
    groups = grouped(given, 64 << 20)
    assert [piece for group in groups for piece in group] == given
    assert len(groups) == 3
