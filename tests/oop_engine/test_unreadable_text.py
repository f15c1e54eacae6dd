"""What cannot be read as text is told in a sentence, with the file and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import oop_engine as oop
from oop_engine.cli import commands
from oop_engine.sinks import sink_for
from oop_engine.sources.tables import Table

DEEP = b'{"ts":1,"d":' + b"[" * 2000 + b"]" * 2000 + b"}\n"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("h.csv", b"ts,\xffk\n1,a\n", r"h.csv: the name of a column, .*xffk.*, is not UTF-8"),
        ("k.ndjson", b'{"ts":1,"k\xff":2}\n', r"k.ndjson: the name of a column, .*xff.*, is not UTF-8"),
        ("deep.ndjson", DEEP, "deep.ndjson: a value is nested too deeply"),
    ],
)
def test_names_and_values_that_cannot_be_read_are_told_with_the_file(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(oop.TableError, match=said + r".*\n  "):
        oop.table(tmp_path / name, slack=1).run()


def test_a_separator_of_zeek_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "z.log").write_bytes(b"#separator \\x\n#fields\tts\n#types\ttime\n1\n")
    with pytest.raises(oop.TableError, match=r"#separator \\x names no character.\n  Write #separator \\x09"):
        oop.zeek(tmp_path / "z.log").run()


@pytest.mark.parametrize(
    "given",
    [["query", "@~nobody-here/q.sql"], ["collect", "--netflow", "127.0.0.1:0", "--state", "~nobody-here/state"]],
)
def test_the_home_of_nobody_is_told_on_the_command_line(given: list[str]) -> None:
    done = CliRunner().invoke(commands, given)
    assert done.exit_code == 2
    assert f'"{given[-1].removeprefix("@")}": there is no such user' in done.stderr


def test_the_home_of_nobody_is_told() -> None:
    with pytest.raises(oop.SinkError, match=r'"~nobody-here/x.csv": there is no such user'):
        sink_for("~nobody-here/x.csv")
    with pytest.raises(oop.SourceError, match=r'"~nobody-here/x.csv": there is no such user'):
        oop.table("~nobody-here/x.csv", slack=1)


def test_a_column_that_is_not_utf8_is_read_as_bytes_and_told(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(b"ts,k\n1,caf\xe9\n2,b\n")
    (note,) = Table(tmp_path / "l.csv").notes()
    assert 'column "k" is not UTF-8' in note and "--encoding latin-1" in note
