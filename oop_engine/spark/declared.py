"""Write the hourly tables as a project of Spark's declarative pipelines, for `spark-pipelines run`, to read and edit.

    DIR/spark-pipeline.yml             what to run, and where checkpoints are
    DIR/transformations/captures.py    the tables: flows, sources and alerts, and the counts that they are made of
    DIR/conf/spark-defaults.conf       where the tables are, and the catalog that knows them

Its tables have the rows that `Pipeline` writes, and as it does it reads no file twice: new files become counts, in
streaming tables. It differs in what it costs: of a materialized view Spark makes all hours anew in every run, where
`Pipeline` makes those that changed; and it needs Spark Connect. That is why `oop-engine pipeline run` is `Pipeline`.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from oop_engine.sinks.errors import SinkError
from oop_engine.spark.errors import SparkError
from oop_engine.spark.hourly import EXPORTS, MANY
from oop_engine.spark.java import java_home
from oop_engine.spark.pipeline import Pipeline
from oop_engine.spark.python import worker_python
from oop_engine.spark.register import register
from oop_engine.spark.session import ROCKSDB, check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED: Final = ("grpc", "yaml", "zstandard")
"""Packages that Spark's own extra `pipelines` brings and ours does not."""

_SPEC: Final = """\
# Hourly tables of captures; run by: spark-pipelines run
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.session.timeZone: "UTC"
  spark.sql.sources.partitionOverwriteMode: "static"
  spark.sql.execution.arrow.maxRecordsPerBatch: "65536"
  spark.sql.shuffle.partitions: "4"
"""

_TABLES: Final = '''\
"""Hourly tables of captures and flow exports: what each source sent, in which flows, and what it seems to try."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from oop_engine.spark import hourly
from oop_engine.spark.declared import begin

CAPTURES = {captures!r}
EXPORTS = {exports!r}
MANY = {many!r}

spark = begin(SparkSession.active())


def counted(kind: str) -> DataFrame:
    """What is new of a kind, added up by hour and flow as it is read."""
    reading = hourly.reader(spark, kind, EXPORTS).option("journal", f"{journals}/{{kind}}.journal")
    reading = reading.option("maxBytesPerTrigger", "1g").option("notes", {notes!r})
    return hourly.partial(hourly.measured(reading.load(CAPTURES), kind))


# Made here and not in the functions below, in which Spark may not be asked for columns.
PACKETS, FLOW_RECORDS = counted("packets"), counted("exports")


@dp.table(format="parquet", comment="Packets, added up by flow as they were read.")
def counts_of_packets() -> DataFrame:
    return PACKETS


@dp.table(format="parquet", comment="Flow records, added up by flow as they were read.")
def counts_of_exports() -> DataFrame:
    return FLOW_RECORDS


def all_flows() -> DataFrame:
    """Flows by hour; views are made of this, not of one another."""
    return hourly.flows(spark.read.table("counts_of_packets").unionByName(spark.read.table("counts_of_exports")))


@dp.materialized_view(partition_cols=["hour"], format="parquet", comment="Flows by hour.")
def flows() -> DataFrame:
    return all_flows()


@dp.materialized_view(partition_cols=["hour"], format="parquet", comment="What each source sent, by hour.")
def sources() -> DataFrame:
    return hourly.sources(all_flows())


@dp.materialized_view(partition_cols=["hour"], format="parquet", comment="Scans and sweeps, by hour.")
def alerts() -> DataFrame:
    return hourly.alerts(all_flows(), MANY)
'''

_DEFAULTS: Final = """\
spark.sql.warehouse.dir                           {tables}
spark.sql.catalogImplementation                   hive
spark.hadoop.javax.jdo.option.ConnectionURL       jdbc:derby:;databaseName={work}/metastore;create=true
spark.driver.extraJavaOptions                     -Dderby.stream.error.file={work}/derby.log
spark.ui.enabled                                  false
spark.sql.streaming.stateStore.providerClass      {rocksdb}
"""


def declare(
    folder: Path, source: Path, tables: Path, *, exports: Sequence[str] = EXPORTS, many: int = MANY
) -> tuple[Path, ...]:
    """Write the project and give its files; SinkError when one is there, SourceError when there is nothing to read."""
    pipeline = Pipeline(source, tables)
    pipeline.check()
    source, tables = pipeline.source, pipeline.tables
    work = tables.absolute() / ".work" / "declared"
    texts = {
        folder / "spark-pipeline.yml": _SPEC.format(name="captures", storage=(work / "storage").as_uri()),
        folder / "transformations" / "captures.py": _TABLES.format(
            captures=str(source.absolute()), exports=tuple(exports), many=many, journals=work, notes=str(work / "notes")
        ),
        folder / "conf" / "spark-defaults.conf": _DEFAULTS.format(tables=tables.absolute(), work=work, rocksdb=ROCKSDB),
    }
    for path in texts:
        if path.exists():
            raise SinkError(f'"{path}" is there already, and is yours: name another folder, or move it away.')
    try:
        work.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        shutil.copy(Path(__file__).parent / "conf" / "log4j2.properties", folder / "conf")
    except OSError as error:
        raise SinkError(
            f'the project "{folder}" cannot be written: {error.strerror}: "{error.filename}".\n'
            "  Name a folder that can be made, and tables where a folder can be made."
        ) from error
    return tuple(texts)


def begin(spark: SparkSession) -> SparkSession:
    """Register the engine's formats with the session of a pipeline, and give it back.

    In Spark 4.3.0 what a Python data source may have profiled, by default nothing, comes to the client of a pipeline as
    a response that it does not know, and it stops with UNKNOWN_RESPONSE though all is done; here that is passed over.
    """
    # Optional: pyspark.
    from pyspark.sql.connect.client.core import PlanObservedMetrics

    client: Any = getattr(register(spark), "client", None)
    fetch: Callable[..., Iterator[object]] | None = getattr(client, "_execute_and_fetch_as_iterator", None)
    if fetch is None:
        return spark

    def known(*args: object, **more: object) -> Iterator[object]:
        for response in fetch(*args, **more):
            if not isinstance(response, PlanObservedMetrics) or response.name != "__python_accumulator__":
                yield response

    client._execute_and_fetch_as_iterator = known
    return spark


def environment(folder: Path) -> dict[str, str]:
    """Return what `spark-pipelines` takes from the environment to run a project of `declare` with this Python."""
    return {
        "SPARK_CONF_DIR": str(folder.absolute() / "conf"),
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": worker_python(),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }


def command(folder: Path) -> str:
    """Return the line that runs a project; SparkError when packages that it needs are missing."""
    check_pyspark()
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SparkError(
            f"spark-pipelines needs {', '.join(missing)}, which are not installed.\n  pip install 'pyspark[pipelines]'"
        )
    script = Path(sys.executable).parent / "spark-pipelines"
    names = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment(folder).items())
    return f"{names} {shlex.quote(str(script))} run --spec {shlex.quote(str(folder / 'spark-pipeline.yml'))}"
