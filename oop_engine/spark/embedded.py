"""Run a plan here, and give its results to Spark: a page log holds them, of which Spark makes a DataFrame."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from oop_engine.api.output import Output
from oop_engine.errors import PlanError
from oop_engine.rewrite.passes import prepared
from oop_engine.sinks.pagelog import PageLogSink
from oop_engine.spark.errors import SparkError, errors
from oop_engine.spark.paths import local
from oop_engine.spark.refused import check_ending, node_of
from oop_engine.spark.session import session as open_session
from oop_engine.spark.shipping import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oop_engine.api.stream import Stream


def to_spark(
    results: Stream | Output, spark: SparkSession | None = None, *, folder: str | Path | None = None
) -> DataFrame:
    """Run a plan here and return its results as a DataFrame.

    - `results`: a stream, or an output to a page log, as `stream.to("out.pages")`.
    - `spark`: the session; by default that of this process, or a new one.
    - `folder`: where to write the results, a path or a file: URI that workers on other machines see, too. By default a
      folder that lasts as long as this process.

    SinkError when the folder exists already, SourceError when it is on no disk of this machine.

    >>> spark = oop.spark.session(cores=2)
    >>> oop.spark.to_spark(oop.rows([(1,)], oop.Schema.of(ts="int64")), spark).count()
    1
    """
    node = results.stream.node if isinstance(results, Output) else node_of("to_spark", results)
    check_ending("to_spark", prepared(node))
    named = None if folder is None else local(folder, "to_spark(folder=...)")
    session = spark or open_session()
    if isinstance(results, Output):
        sink = results.sink
        if not isinstance(sink, PageLogSink):
            raise PlanError(
                f"to_spark takes a stream, or an output to a page log, and this one goes to {type(sink).__name__}.\n"
                '  Write oop.spark.to_spark(stream, spark), or stream.to("out.pages").'
            )
        output = results
    else:
        if named is None and not is_local(session):
            raise SparkError(
                "the workers of this session are on other machines.\n"
                "  Name a folder that they see, too: to_spark(stream, spark, folder=...)."
            )
        place = named if named is not None else temporary() / "results.pages"
        output = results.to(PageLogSink(place))
        sink = PageLogSink(place)
    output.run()
    with errors():
        return session.read.format("oop.results").load(str(sink.folder.absolute()))


def temporary() -> Path:
    """Return a new folder that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="oop-engine-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
