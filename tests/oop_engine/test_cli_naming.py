"""How the command line names queries and streams, and what it says where a name means something else than it seems."""

from __future__ import annotations

import codecs
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oop_engine.cli import commands
from oop_engine.language import parse
from oop_engine.query_errors import LanguageError
from oop_engine.sources.generator import packets
from oop_engine.sources.recording import write_pcap

QUERY = "SELECT s FROM M"


def oop(*arguments: object, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(commands, [str(a) for a in arguments], input=stdin, prog_name="oop-engine")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "u.csv"
    path.write_text("ts,s\n1,x\n")
    return path


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    write_pcap(packets(10, rate=1), tmp_path / "c.pcap")
    return tmp_path / "c.pcap"


def given(how: str, query: bytes, folder: Path) -> Result:
    """Hand over a query in one of three ways."""
    table = folder / "u.csv"
    if how == "stdin":
        return oop("query", "-", "-s", table, stdin=query)
    if how == "file":
        (folder / "q.sql").write_bytes(query)
        return oop("query", f"@{folder / 'q.sql'}", "-s", table)
    return oop("query", query.decode("utf-8", "surrogateescape"), "-s", table)


@pytest.mark.parametrize("how", ["stdin", "file", "argument"])
def test_a_byte_that_is_no_text_is_refused_with_its_place(table: Path, how: str) -> None:
    result = given(how, "SELECT s FROM M -- é\nWHERE s = '".encode() + b"\xff'", table.parent)
    assert result.exit_code == 2
    assert "is no text in UTF-8: line 2, column 12 has the byte 0xff" in result.stderr
    assert "Traceback" not in result.output and "bug" not in result.output


@pytest.mark.parametrize("how", ["stdin", "file", "argument"])
def test_a_byte_order_mark_and_line_ends_of_windows_are_no_part_of_a_query(table: Path, how: str) -> None:
    result = given(how, codecs.BOM_UTF8 + b"SELECT s\r\nFROM M\r\n", table.parent)
    assert (result.exit_code, result.stdout) == (0, 's\n"x"\n')


def test_an_argument_of_a_shell_may_hold_any_byte(table: Path) -> None:
    run = [sys.executable, "-m", "oop_engine", "query", b'SELECT s FROM M WHERE s = "\xff"', "-s", str(table)]
    result = subprocess.run(run, capture_output=True, check=False)
    assert result.returncode == 2
    assert b"the query is no text in UTF-8: line 1, column 28 has the byte 0xff" in result.stderr


def test_half_of_a_surrogate_pair_is_refused_by_the_language() -> None:
    with pytest.raises(LanguageError, match=r"line 2, column 12: half of a surrogate pair, U\+DCFF"):
        parse("SELECT s FROM M\nWHERE s = '\udcff'")


@pytest.mark.parametrize(("name", "said"), [("my stream", "my stream"), ("my-s`1", "`my-s``1`"), ("a/b=c", "`a/b=c`")])
def test_a_name_may_be_whatever_the_query_can_name(table: Path, name: str, said: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    result = oop("query", f"SELECT s FROM {quoted}", "-s", f"{said}={table}", "--punctuate", f"{said}=ordered")
    assert (result.exit_code, result.stdout) == (0, 's\n"x"\n'), result.output


def test_late_tuples_of_a_stream_with_any_name_stay_in_their_folder(table: Path, tmp_path: Path) -> None:
    options = ("-s", f"`a/b`={table}", "-s", f"c={table}", "--every", "1", "--late-to", tmp_path / "late.csv")
    result = oop("query", "SELECT s FROM `a/b` UNION c", *options)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "late-a_b.csv").exists() and (tmp_path / "late-c.csv").exists()


@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_file_behind_the_query_is_told_the_option_for_it(table: Path, command: str) -> None:
    result = oop(command, QUERY, table)
    assert result.exit_code == 2
    assert f'"{table}" is one argument too many; a stream is named by an option' in result.stderr
    assert f"--stream {table} (or NAME={table})." in result.stderr
    assert f"--stream s={table}." in oop(command, QUERY, f"s={table}").stderr
    assert oop(command, QUERY, "--nosuch").exit_code == 2


def test_standard_input_that_is_no_capture_is_told_how_to_say_so(table: Path) -> None:
    with table.open("rb") as stdin:
        run = [sys.executable, "-m", "oop_engine", "query"]
        result = subprocess.run([*run, QUERY, "-s", "-"], stdin=stdin, capture_output=True, check=False, text=True)
    assert result.returncode == 2
    assert 'there is no attribute "s" here' in result.stderr
    assert "Standard input is read as a capture by default;\n  for a table write --format csv" in (result.stderr)
    with table.open("rb") as stdin:
        told = [*run, "SELECT ts FROM M", "-s", "-", "--slack", "1s"]
        result = subprocess.run(told, stdin=stdin, capture_output=True, check=False, text=True)
    assert "DecodeError: standard input is no capture: " in result.stderr
    assert "if it is a table, say --format csv" in result.stderr
    assert "while M was read" in result.stderr


def test_tables_of_standard_input_are_called_so() -> None:
    given = ("query", "SELECT a FROM M", "-s", "-", "--format", "csv")
    run = [sys.executable, "-m", "oop_engine", *given]
    result = subprocess.run(run, input="a,b\n1,2\n3\n", capture_output=True, check=False, text=True)
    assert "TableError: standard input: line 3" in result.stderr


@pytest.mark.parametrize("attribute", ["exporter", "octetDeltaCount"])
def test_an_attribute_of_flows_is_told_how_captures_are_read_as_flows(capture: Path, attribute: str) -> None:
    result = oop("query", f"SELECT {attribute} FROM M", "-s", capture)
    assert result.exit_code == 2
    assert f"of a capture of exports say -s M=netflow:{capture}" in result.stderr
    plain = oop("query", "SELECT nope FROM M", "-s", capture)
    assert "netflow" not in plain.stderr and "Standard input" not in plain.stderr


def test_a_column_without_a_value_is_told_how_its_type_is_said(tmp_path: Path) -> None:
    query = "SELECT count(*) AS n [RANGE 1, WA ts] FROM M"
    (tmp_path / "h.csv").write_text("ts,v\n")
    result = oop("query", query, "-s", tmp_path / "h.csv")
    assert result.exit_code == 2
    assert 'M has no tuples, so "ts" is taken as text;\n  set its type: --types ts=int' in result.stderr
    assert oop("query", query, "-s", tmp_path / "h.csv", "--types", "ts=int").exit_code == 0
    (tmp_path / "h.csv").write_text("ts,v\n,1\n")
    result = oop("explain", query, "-s", tmp_path / "h.csv")
    assert 'M has no value of "ts" in the part examined' in result.stderr
    assert "no value" not in oop("query", "SELECT nope FROM M", "-s", tmp_path / "h.csv").stderr


def test_keys_that_are_left_out_are_in_the_notes_and_refused_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"ts":1}\n')
    (tmp_path / "b.ndjson").write_text('{"ts":2,"v":9}\n')
    options = ("query", "SELECT * FROM M", "-s", f"M={tmp_path / '*.ndjson'}")
    for more in ((), ("--quiet",)):
        result = oop(*options, *more)
        assert result.stdout == "ts\n1\n2\n"
        assert f'note: {tmp_path / "b.ndjson"}: the key "v" is left out, which line 1 has' in result.stderr
    strict = oop(*options, "--strict")
    assert strict.exit_code == 2 and 'the key "v" is no column' in strict.stderr
    assert oop(*options, "--strict", "--types", "v=int").stdout == "ts,v\n1,\n2,9\n"


def test_disorder_takes_types_and_shows_a_group_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('at,g\n1,"a\nb"\n3,"a\nb"\n2,c\n')
    plain = ("disorder", tmp_path / "d.csv", "--by", "g")
    assert "no time whose disorder" in oop(*plain).stderr
    result = oop(*plain, "--types", "at=timestamp[s]")
    assert result.exit_code == 0, result.output
    assert any(line.split()[:3] == ["at", "a", "b"] for line in result.stdout.splitlines())
    assert "--types" in oop("disorder", tmp_path / "d.csv", "--types", "at").stderr
