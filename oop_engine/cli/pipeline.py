"""`oop-engine pipeline run`: a folder of captures becomes hourly tables, on Spark, and goes on where it stopped.

`oop-engine pipeline init` writes the same as a project of Spark's declarative pipelines.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from oop_engine.cli.errors import FAILED, reported
from oop_engine.messages import printable, say


def _about(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what becomes what."""
    options = (
        click.option("--input", "source", required=True, metavar="DIR", help="Folder of captures and exports."),
        click.option("--tables", required=True, metavar="DIR", help="Folder of the tables; made if need be."),
        click.option(
            "--exports", multiple=True, metavar="PATTERN",
            help="Captures with names like these are read as flow exports, if they hold any. Files of export datagrams"
            " always are.  [default: *netflow*, *ipfix*, *sflow*]",
        ),
        click.option(
            "--many", type=click.IntRange(min=1), default=100, show_default=True, metavar="N",
            help="Alert on a source that sends SYN to this many ports of one host, or hosts, in an hour.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


@click.group(name="pipeline", short_help="Turn a folder of captures into hourly tables, on Spark.")
def command() -> None:
    """Turn a folder of captures into hourly tables, on Spark."""


@command.command(
    name="run",
    epilog="""\b
Examples:
  oop-engine pipeline run --input captures --tables tables
  oop-engine pipeline run --spark local[8] --memory 8g --input captures --tables tables
Then, in Spark: SELECT srcIP, sum(bytes) FROM parquet.`tables/sources` GROUP BY srcIP""",
)
@_about
@click.option("--spark", "master", default="local[*]", show_default=True, metavar="MASTER", help="Where Spark runs.")
@click.option("--memory", default="2g", show_default=True, metavar="SIZE", help="Memory of Spark's driver.")
@click.option("--whole-files", is_flag=True, help="Do not split large files.")
@click.option(
    "-q", "--quiet", is_flag=True, help="Print no progress and no summary, only files that could not be read."
)
def run(
    source: str,
    tables: str,
    master: str,
    memory: str,
    exports: tuple[str, ...],
    many: int,
    whole_files: bool,
    quiet: bool,
) -> None:
    """Read the captures that are new in a folder and bring the tables up to date.

    Tables are Parquet, one folder an hour: flows, sources and alerts (scans and sweeps). A run that was stopped or
    killed is resumed by calling it again. Captures may still grow; other files are read as they are when first seen.
    Only hours with something new are written, and the alerts of all hours if --many has changed. `oop-engine pipeline
    init` makes the same tables by Spark's declarative pipelines, which write all of them every time.

    Exit status: 0 done, 2 refused, 3 failed in the run.
    """
    with reported():
        # Optional: Spark.
        from oop_engine.spark.errors import SparkError
        from oop_engine.spark.hourly import EXPORTS
        from oop_engine.spark.paths import local
        from oop_engine.spark.pipeline import Pipeline
        from oop_engine.spark.session import session

        pipeline = Pipeline(
            local(source, "--input"),
            local(tables, "--tables"),
            exports=exports or EXPORTS,
            many=many,
            split_bytes=0 if whole_files else 64 << 20,
        )
        pipeline.check()
        began = time.monotonic()
        try:
            spark = session(master=master, memory=memory)
            try:
                report = pipeline.run(spark, _watch(quiet))
            finally:
                spark.stop()
        except SparkError as error:
            say(str(error))
            raise click.exceptions.Exit(FAILED) from None
        if not quiet:
            read = f"{report.packets:,} packets, {report.records:,} flow records"
            say(f"{read} read in {report.batches} new batches, {time.monotonic() - began:.1f} s")
            say(f"{len(report.hours)} hours brought up to date in {tables}: flows, sources, alerts")
        for note in report.notes:
            say(f"note: {note}")


@command.command(
    name="init",
    epilog="""\b
Example:
  oop-engine pipeline init project --input captures --tables tables
and then the line that it prints, whenever there are new captures.""",
)
@click.argument("folder", metavar="DIR")
@_about
def init(folder: str, source: str, tables: str, exports: tuple[str, ...], many: int) -> None:
    """Write a project of Spark's declarative pipelines that makes the same tables, to read, edit and run.

    It needs pip install 'pyspark[pipelines]'. Its tables do not go on from those of `oop-engine pipeline run`: give
    them a folder of their own.

    Exit status: 0 done, 2 refused.
    """
    with reported():
        # Optional: Spark.
        from oop_engine.spark.declared import command, declare
        from oop_engine.spark.hourly import EXPORTS
        from oop_engine.spark.paths import local

        line = command(Path(folder))
        for path in declare(
            Path(folder), local(source, "--input"), local(tables, "--tables"), exports=exports or EXPORTS, many=many
        ):
            say(f"wrote {path}")
        click.echo(line)


def _watch(quiet: bool) -> Callable[[str], None]:
    """Return what shows a line of progress: on a terminal, over the one before it."""
    if quiet or not sys.stderr.isatty():
        return lambda line: None
    return lambda line: click.echo(f"\r\x1b[2K{printable(line)}", nl=False, err=True)
