"""FROM 'capture.pcap' reads a file, as a stream that is opened and given by name does."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.language import LanguageError, parse, unparse

WEB = "demos/captures/web.pcap.gz"
COUNTS = "SELECT srcIP, count(*), sum(length) AS bytes [RANGE 10 s, WA ts] FROM {} GROUP BY srcIP"


def answer(stream: oop.Stream) -> list[dict[str, object]]:
    return stream.to_arrow().to_pylist()


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A file of a name that is a name, with times from 0 to 9 s."""
    path = tmp_path / "numbers.parquet"
    times = pa.array(range(0, 10_000_000_000, 1_000_000_000), pa.timestamp("ns"))
    pq.write_table(pa.table({"ts": times, "k": [i % 3 for i in range(10)], "v": range(10)}), path)
    return path


@pytest.mark.parametrize("quoted", [f"'{WEB}'", f'"{WEB}"', f"'pcap:{WEB}'", f"('{WEB}')", f"'{WEB}' AS W"])
def test_a_file_is_the_stream_that_reads_it(quoted: str) -> None:
    named = answer(oop.query(COUNTS.format("Main"), Main=oop.read(WEB)))
    assert answer(oop.query(COUNTS.format(quoted))) == named != []


def test_a_file_is_called_by_its_name_up_to_the_first_dot(numbers: Path) -> None:
    rows = answer(oop.query(f"SELECT numbers.k FROM '{numbers}' WHERE numbers.v = 4"))
    assert rows == [{"k": 1}]
    with pytest.raises(LanguageError, match="parquet"):
        oop.query(f"SELECT parquet.k FROM '{numbers}'")


def test_files_are_joined_and_melded(numbers: Path) -> None:
    other = numbers.with_name("others.csv")
    other.write_text("ts,k,w\n1970-01-01T00:00:04Z,1,100\n1970-01-01T00:00:05Z,2,200\n")
    text = f"SELECT numbers.v, o.w FROM '{numbers}' [RANGE 1 s, WA ts], '{other}' AS o [RANGE 1 s, WA ts]"
    assert answer(oop.query(f"{text} WHERE numbers.k = o.k")) == [{"v": 4, "w": 100}, {"v": 5, "w": 200}]
    both = f"SELECT count(*) FROM (SELECT k FROM '{numbers}') UNION ALL (SELECT k FROM '{other}')"
    assert answer(oop.query(both)) == [{"count": 12}]


def test_a_file_that_is_named_twice_is_read_once(numbers: Path) -> None:
    text = f"SELECT count(*) FROM (SELECT k FROM '{numbers}') UNION ALL (SELECT k FROM '{numbers}')"
    stream = oop.query(text)
    assert answer(stream) == [{"count": 20}]
    assert stream.explain().count("attributes  ts") <= 1


def test_windows_of_sql_and_queries_with_take_files(numbers: Path) -> None:
    tumbling = f"SELECT count(*) FROM TUMBLE(TABLE '{numbers}', DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY k"
    assert sum(row["count"] for row in answer(oop.query(tumbling))) == 10  # type: ignore[misc]
    named = f"WITH numbers AS (SELECT k FROM '{numbers}' WHERE v > 7) SELECT count(*) FROM numbers"
    assert answer(oop.query(named)) == [{"count": 2}]


def test_what_the_text_reads_is_decoded() -> None:
    assert answer(oop.query(f"SELECT DISTINCT srcMAC FROM '{WEB}'"))


def test_a_pattern_names_several_files(numbers: Path) -> None:
    numbers.with_name("numbers2.parquet").write_bytes(numbers.read_bytes())
    text = f"SELECT count(*) FROM '{numbers.parent}/*.parquet'"
    assert answer(oop.query(text)) == [{"count": 20}]


def test_a_stream_of_that_name_stands_for_a_file() -> None:
    given = oop.rows([(1, 2)], oop.Schema.of(ts="int64", k="int64"))
    assert answer(oop.query("SELECT k FROM 'no such.csv'", {"no such.csv": given})) == [{"k": 2}]


@pytest.mark.parametrize(
    ("quoted", "said"),
    [
        ("'no such.pcap'", 'there is no file "no such.pcap"'),
        ("'no/*.pcap'", 'no file matches "no/*.pcap"'),
        ("'demos'", '"demos" is a folder'),
        ("'-'", "standard input is no file"),
        ("''", "these quotes name no file"),
        ("'csv:'", "these quotes name no file"),
    ],
)
def test_a_file_that_is_not_there_is_pointed_at(quoted: str, said: str) -> None:
    text = f"SELECT count(*) FROM {quoted}"
    with pytest.raises(LanguageError) as caught:
        oop.query(text)
    assert said in str(caught.value)
    assert f"column {text.index(quoted) + 1}" in str(caught.value)


def test_text_to_tree_to_text() -> None:
    tree = parse("""SELECT k FROM 'a "b".csv' AS x, "c.csv" [RANGE 1 s, WA ts] WHERE x.k = c.k""")
    assert parse(unparse(tree)) == tree


def shell(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(commands, list(words), prog_name="oop-engine")
    return result.exit_code, result.output


def test_the_command_needs_no_stream(numbers: Path) -> None:
    code, shown = shell("query", f"SELECT count(*) FROM '{numbers}'", "-q")
    assert (code, shown) == (0, "count\n10\n")
    text = f"SELECT count(*) FROM (SELECT k FROM '{numbers}') UNION ALL (SELECT k FROM M)"
    code, shown = shell("query", text, "-q", "--stream", f"M={numbers}")
    assert (code, shown) == (0, "count\n20\n")
    assert shell("explain", f"SELECT count(*) FROM '{numbers}'")[0] == 0


def test_options_are_for_files_of_the_text_too(numbers: Path) -> None:
    plain = numbers.with_name("plain.txt")
    plain.write_text("ts;k\n1970-01-01T00:00:01Z;7\n")
    code, shown = shell("query", f"SELECT k FROM 'csv:{plain}'", "-q", "--delimiter", ";")
    assert (code, shown) == (0, "k\n7\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("query", "SELECT count(*) FROM M"), "or write a file in quotes"),
        (("query", f"SELECT count(*) FROM '{WEB}'", "--stream", WEB), "alone"),
        (("query", "SELECT count(*) FROM '-'"), "standard input is no file"),
        (("collect", "--netflow", "127.0.0.1:0", "--query", f"SELECT count(*) FROM '{WEB}'"), "reads the file"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], said: str) -> None:
    code, shown = shell(*words)
    assert code == 2
    assert said in shown
