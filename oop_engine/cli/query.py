"""`oop-engine query`: a query over files or standard input, results as windows are released."""

from __future__ import annotations

import click

from oop_engine.cli.errors import STOPPED, reported
from oop_engine.cli.naming import Naming, naming_options, query_text
from oop_engine.cli.options import (
    checkpoint_options,
    form_option,
    json_option,
    log_option,
    memory_options,
    metrics_option,
    page_options,
    partial_options,
    partition_option,
    prefer_option,
    savepoint_options,
    spreadsheet_option,
    threads_option,
)


@click.command(
    name="query",
    context_settings={"allow_extra_args": True},
    short_help="Run a window query over captures, flows and tables.",
    epilog="""\b
Examples:
  oop-engine query "SELECT srcIP, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts]
      FROM Main GROUP BY srcIP" --stream Main=capture.pcap
  oop-engine query @q1-2.sql -s Control=c.pcap -s "Main1=m1-*.pcap.gz" -s Main2=m2.parquet --to out.parquet
  oop-engine query @talkers.sql -s Flows=netflow:exports.pcap -s "Log=conn.*.log.gz"
  oop-engine query @talkers.sql -s Main=huge.pcap --to talkers.parquet --checkpoint job
  tcpdump -w - | oop-engine query @talkers.sql -s Main=- --slack 2s""",
)
@click.argument("text")
@naming_options
@click.option(
    "--to",
    metavar="FILE",
    help="Write results to a .parquet, .csv, .ndjson (NaN and infinity as null), .arrow, .sqlite or .duckdb file, a"
    " .pages folder, or sqlite:///FILE?table=NAME&key=COLUMNS, or duckdb: in its place, or"
    " postgresql://USER@HOST/DATABASE?table=NAME&key=COLUMNS; to kafka:, clickhouse:, influx:, prometheus:, http: or"
    " syslog:, where a result may come twice, but in Kafka with --checkpoint (docs/results.md);"
    ' "-", standard output, is a table or CSV.',
)
@spreadsheet_option
@json_option
@form_option
@partition_option
@log_option
@partial_options
@page_options
@checkpoint_options
@savepoint_options
@threads_option
@memory_options
@metrics_option
@prefer_option
@click.option(
    "--newest",
    is_flag=True,
    help="While the terminal, or a reader of standard output, cannot keep up, show the newest"
    " results only; what is left out is told.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N results on standard output.")
@click.option("--page-size", type=click.IntRange(min=1), metavar="N", help="Most tuples in a page.  [default: 262144]")
@click.option("--stats", is_flag=True, help="Print statistics of every operator at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary, only losses.")
def command(
    text: str, naming: Naming, to: str | None, partial: str | None, partial_every: str, limit: int | None,
    page_size: int | None, stats: bool, quiet: bool, spreadsheet: bool, as_json: bool, to_format: str | None,
    partition_by: str | None, checkpoint: str | None, checkpoint_every: str, checkpoint_failures: int,
    savepoint: str | None, drop_state: tuple[str, ...], threads: int | None, memory: str | None,
    memory_policy: str | None, page: str | None, page_token: str | None, record: str | None, metrics: str | None,
    prefer: tuple[str, ...], newest: bool,
) -> None:  # fmt: skip
    """Run a query over captures (pcap, pcapng, also packed), flow exports, Zeek logs, CSV, NDJSON, Parquet or Arrow.

    TEXT is the query; @FILE reads it from a file, "-" from standard input. Each window is written as soon as the
    promises of the streams allow. The arrival order of tuples does not change results.

    Exit status: 0 done, 2 refused or not readable, 3 failed in the run, 130 stopped by Ctrl-C, SIGTERM or a closed
    terminal; results of what was read are written.

    With --checkpoint, a run that was stopped or killed goes on when the same command is given again. It reads files
    from where it was; files that have changed, and another query, are refused. `oop-engine job savepoint` keeps a
    checkpoint, from which --from begins with a changed query.
    """
    with reported(begins=False):
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.run import run_query
        from oop_engine.cli.showing import Wishes

        wishes = Wishes(
            to=to or "-", limit=limit, page_rows=page_size, stats=stats, quiet=quiet, partial=partial,
            partial_every=partial_every, spreadsheet=spreadsheet, as_json=as_json, form=to_format,
            partition_by=partition_by, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            checkpoint_failures=checkpoint_failures, savepoint=savepoint, drop_state=drop_state, threads=threads,
            memory=memory, memory_policy=memory_policy, page=page, page_token=page_token, record=record,
            metrics=metrics, prefer=prefer, newest=newest,
            keys=text != "-" and not any("-" in paths for paths in naming.places.values()),
        )  # fmt: skip
        if text == "-" and any("-" in paths for paths in naming.places.values()):
            raise click.UsageError("standard input cannot be both the query and a stream; write the query as @FILE.")
        statistics = run_query(query_text(text), naming, wishes)
    if statistics.interrupted:
        raise click.exceptions.Exit(STOPPED)
