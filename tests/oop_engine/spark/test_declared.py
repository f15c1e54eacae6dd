"""A project of declarative pipelines makes the tables that the plain job makes, and goes on where it stopped."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'oop-engine[spark]'")
pytest.importorskip("grpc", reason="declarative pipelines need pip install 'pyspark[pipelines]'")
pytest.importorskip("yaml", reason="declarative pipelines need pip install 'pyspark[pipelines]'")
pytest.importorskip("zstandard", reason="declarative pipelines need pip install 'pyspark[pipelines]'")

from pyspark.sql import SparkSession

from oop_engine.cli.pipeline import command
from oop_engine.spark import hourly
from oop_engine.spark.pipeline import Pipeline
from tests.capture_files import SECOND, pcap
from tests.oop_engine.spark.test_pipeline import DEMO, HOUR, syn


def captures(folder: Path) -> Path:
    """Write a capture, a scan in another hour, and of it a packet cut short."""
    folder.mkdir()
    shutil.copy(DEMO, folder / "a.pcap.gz")
    scan = pcap([((50 * HOUR + k) * SECOND, syn(1000 + k)) for k in range(25)])
    (folder / "b.pcap").write_bytes(scan[:-1])
    return folder


def rows(place: Path) -> Counter[tuple[tuple[str, object], ...]]:
    """Give the rows of a table, how often each."""
    return Counter(tuple(sorted(row.items())) for row in pq.read_table(place).to_pylist())


def run(line: str) -> None:
    """Run the line that `pipeline init` printed."""
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.slow
def test_the_tables_of_a_project_are_those_of_the_plain_job(spark: SparkSession, tmp_path: Path) -> None:
    source = captures(tmp_path / "captures")
    arguments = ["init", str(tmp_path / "project"), "--input", str(source), "--tables", str(tmp_path / "declared")]
    made = CliRunner().invoke(command, [*arguments, "--many", "20"])
    assert made.exit_code == 0, made.output
    line = made.stdout.strip()
    assert shlex.split(line)[-2:] == ["--spec", str(tmp_path / "project" / "spark-pipeline.yml")]
    plain = Pipeline(source, tmp_path / "plain", many=20)
    for again in (False, True):
        if again:
            shutil.copy(DEMO, source / "c.pcap.gz")
        run(line)
        plain.run(spark)
        for name in ("flows", "sources", "alerts"):
            found, expected = rows(tmp_path / "declared" / name), rows(tmp_path / "plain" / name)
            assert found == expected, name
    assert sum(pq.read_table(tmp_path / "declared" / "flows")["packets"].to_pylist()) == 2 * 4631 + 24


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    source = captures(tmp_path / "captures")
    arguments = ["init", str(tmp_path / "project"), "--input", str(source), "--tables", str(tmp_path / "tables")]
    first, second = (CliRunner().invoke(command, arguments) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 2)
    assert "is there already, and is yours" in second.stderr
    spec = tmp_path / "project" / "spark-pipeline.yml"
    assert str(tmp_path / "tables") in spec.read_text()
    compile((tmp_path / "project" / "transformations" / "captures.py").read_text(), "captures.py", "exec")


def test_a_project_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path) -> None:
    source = captures(tmp_path / "captures")
    (tmp_path / "file").touch()
    for project, tables in (("file/project", "tables"), ("project", "file/tables")):
        arguments = [str(tmp_path / project), "--input", str(source), "--tables", str(tmp_path / tables)]
        result = CliRunner().invoke(command, ["init", *arguments])
        assert (result.exit_code, result.stdout) == (2, "")
        assert f'SinkError: the project "{tmp_path / project}" cannot be written: Not a directory: ' in result.stderr
        assert "Name a folder that can be made" in result.stderr


def test_what_partitions_add_up_is_all_there_is() -> None:
    """Rows of equal flow are added up whatever the batches, and nulls are a key of their own."""
    number = 700_000
    rows = pa.record_batch(
        {
            "kind": ["packets"] * number,
            "srcIP": pa.array([None if k % 7 == 0 else f"10.0.{k % 500}.1" for k in range(number)]),
            **{name: pa.array([k % 3 for k in range(number)], pa.int32()) for name in hourly.KEY[1:]},
            "packets": pa.array([1] * number),
            "bytes": pa.array([k % 5 for k in range(number)]),
            "first": pa.array(range(number)).cast(pa.timestamp("us", "UTC")),
            "last": pa.array(range(number)).cast(pa.timestamp("us", "UTC")),
            "flags": pa.array([k % 2 for k in range(number)], pa.int32()),
            "hour": ["unknown"] * number,
        }
    )
    added = pa.Table.from_batches(list(hourly._partial(rows.slice(at, 9_999) for at in range(0, number, 9_999))))
    assert added.schema == rows.schema and added.num_rows < 10_000
    keys = ["kind", *hourly.KEY, "flags", "hour"]
    functions = [("packets", "sum"), ("bytes", "sum"), ("first", "min"), ("last", "max")]
    whole, twice = (t.group_by(keys).aggregate(functions) for t in (pa.table(rows), added))
    order = [(name, "ascending") for name in keys]
    assert twice.sort_by(order) == whole.sort_by(order)
