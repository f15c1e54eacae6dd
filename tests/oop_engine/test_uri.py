"""A place elsewhere is told from a path of this machine, so that nothing is written to a folder named `s3a:`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import oop_engine as oop
from oop_engine.sinks.errors import SinkError
from oop_engine.uri import here, remote


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3a://bucket/out", "s3a://bucket"),
        (Path("s3a://bucket/out"), "s3a://bucket"),
        ("hdfs:///data", "hdfs://"),
        ("dbfs:/mnt/data", "dbfs://mnt"),
        ("file://server/share", "file://server"),
        ("file:///data", None),
        ("file:/data", None),
        ("file://localhost/data", None),
        ("C:/data", None),
        ("out/12:30/a.csv", None),
        ("//[not a host", None),
        ("-", None),
    ],
)
def test_a_uri_of_another_place_is_told(text: str | Path, place: str | None) -> None:
    assert remote(text) == place


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///data/a%20b", "/data/a b"),
        ("file://localhost/data", "/data"),
        (Path("file:///data"), "/data"),
        ("out/a%20b", "out/a%20b"),
        ("~/a", str(Path.home() / "a")),
    ],
)
def test_a_file_uri_is_a_path(text: str | Path, path: str) -> None:
    assert here(text) == Path(path)


@pytest.mark.parametrize("target", ["s3a://bucket/out.pages", "s3a://bucket/out.csv", Path("gs://bucket/out.parquet")])
def test_results_are_not_written_into_a_folder_named_like_a_scheme(
    target: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SinkError, match=r"is on no disk of this machine.*\n  Mount \w+://bucket as a folder"):
        oop.arrow(pa.table({"a": [1]})).to(target).run()
    assert list(tmp_path.iterdir()) == []


def test_results_are_written_to_a_file_uri(tmp_path: Path) -> None:
    oop.arrow(pa.table({"a": [1]})).to((tmp_path / "a b.csv").as_uri()).run()
    assert (tmp_path / "a b.csv").read_text() == "a\n1\n"
