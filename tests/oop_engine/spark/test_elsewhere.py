"""Folders that are on no disk of this machine are refused before anything is written, and file: URIs are paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")

import oop_engine as oop
from oop_engine.sources.errors import SourceError
from oop_engine.spark.declared import declare
from oop_engine.spark.embedded import to_spark
from oop_engine.spark.pipeline import Pipeline
from oop_engine.spark.results import ResultSource
from oop_engine.spark.sources import FlowSource, PacketSource
from tests.capture_files import WHOLE


def stream(**options: str) -> object:
    source = PacketSource({**options, "__is_streaming__": "true"})
    return source.streamReader(source.schema())


REFUSED: dict[str, Callable[[str], object]] = {
    "to_spark(folder=...)": lambda place: to_spark(oop.arrow(pa.table({"a": [1]})), folder=f"s3a://{place}"),
    "Pipeline": lambda place: Pipeline(Path("."), f"s3a://{place}"),
    "Pipeline source": lambda place: Pipeline(Path(f"s3a://{place}"), Path(".")),
    "declare": lambda place: declare(Path("project"), Path("."), Path(f"s3a://{place}")),
    "the option journal": lambda place: stream(path=".", journal=f"s3a://{place}"),
    "the option journal with one slash": lambda place: stream(path=".", journal=f"s3a:/{place}"),
    "the option notes": lambda place: stream(path=".", notes=f"s3a://{place}"),
    "the option notes of exports": lambda place: FlowSource({"path": ".", "notes": f"s3a://{place}"}).schema(),
    "a page log": lambda place: ResultSource({"path": f"s3a://{place}"}).schema(),
    "captures": lambda place: stream(path=f"s3a://{place}"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_another_place_is_refused_with_the_way_out(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as caught:
        REFUSED[what]("bucket/folder")
    words = str(caught.value)
    assert "bucket/folder" in words and "Mount the place s3a://bucket as a folder on every worker" in words
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_refuses_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from oop_engine.cli.pipeline import command

    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["run", "--input", ".", "--tables", "s3a://bucket/tables"])
    assert done.exit_code == 2
    assert '--tables: "s3a://bucket/tables" is on no disk of this machine' in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_file_uris_are_paths(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.pcapng").write_bytes(WHOLE["pcapng"])
    pipeline = Pipeline((tmp_path / "in").as_uri(), (tmp_path / "tables").as_uri())
    assert (pipeline.source, pipeline.tables) == (tmp_path / "in", tmp_path / "tables")
    stream(path=(tmp_path / "in").as_uri(), journal=(tmp_path / "a journal").as_uri(), notes=tmp_path.as_uri())
