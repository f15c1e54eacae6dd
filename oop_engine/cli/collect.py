"""`oop-engine collect`: a query over what exporters send, results as windows are released, until it is stopped."""

from __future__ import annotations

import click

from oop_engine.cli.errors import STOPPED, reported
from oop_engine.cli.naming import elements_option, query_text, table_option, tables_said
from oop_engine.cli.options import (
    checkpoint_options,
    expanded,
    file_of,
    form_option,
    json_option,
    listen_options,
    log_option,
    memory_options,
    metrics_option,
    page_options,
    partial_options,
    partition_option,
    spreadsheet_option,
)
from oop_engine.messages import say

EVERYTHING = (
    "SELECT exporter, count(*) AS records, sum(packets) AS packets, sum(bytes) AS bytes [RANGE 10 seconds, WA ts] "
    "FROM Flows GROUP BY exporter"
)
COUNTED = (
    "SELECT exporter, if_index, max(if_speed) AS speed, (max(in_bytes) - min(in_bytes)) * 8 AS in_bits, "
    "(max(out_bytes) - min(out_bytes)) * 8 AS out_bits, max(ts) - min(ts) AS span "
    "[RANGE 5 minutes, WA ts] FROM Counters GROUP BY exporter, if_index"
)
PROMISED = "Exporters promise ts and end_ts, and arrivals are promised: write a window over ts, end_ts or arrival_ts."


@click.command(
    name="collect",
    short_help="Run a query over NetFlow, IPFIX and sFlow as it comes in.",
    epilog="""\b
Examples:
  oop-engine collect --netflow 127.0.0.1:2055
  oop-engine collect --netflow 0.0.0.0:2055 --allow 192.0.2.0/24 --for 1h --to talkers.csv --query
      "SELECT srcIP, sum(bytes) AS bytes [RANGE 1 minute, WA ts] FROM Flows GROUP BY srcIP"
  oop-engine collect --netflow 127.0.0.1:2055 --to talkers.parquet --checkpoint job --journal --query @talkers.sql
  oop-engine collect --netflow 127.0.0.1:2055 --netflow tcp://127.0.0.1:4739
  oop-engine collect --netflow tls://0.0.0.0:4740 --allow 192.0.2.0/24 --certificate collector.pem
      --key collector.key --client-ca exporters.pem
  oop-engine collect --netflow 127.0.0.1:6343 --counters --to utilisation.csv
  oop-engine collect --netflow 127.0.0.1:4739 --active 60s --inactive 15s --correct-clocks --query @scan.sql""",
)
@click.option(
    "--netflow", "--listen", "listen", required=True, multiple=True, metavar="ADDRESS:PORT", help="Address to listen"
    " on, e.g. 127.0.0.1:2055; all protocols share it. tcp://127.0.0.1:4739 and tls://127.0.0.1:4740 take"
    " connections of IPFIX. May be repeated.",
)  # fmt: skip
@click.option(
    "--query", "text", default=EVERYTHING, metavar="TEXT", help="The query, or @FILE that holds it. Default: records, "
    "packets and bytes of each exporter every 10 s.",
)  # fmt: skip
@click.option("--to", metavar="FILE", help='Write results to a file, as with "query"; default: standard output.')
@click.option("--for", "lasting", metavar="DURATION", help="End after this time, e.g. 60s, and release all windows.")
@click.option("--most", type=click.IntRange(min=1), metavar="N", help="End after N datagrams.")
@click.option("--allow", multiple=True, metavar="NET", help="Accept datagrams from this network only; may be repeated.")
@click.option("--anyone", is_flag=True, help="Accept datagrams from anybody, not only on loopback.")
@click.option("--buffer", type=click.IntRange(1, 2**30), metavar="BYTES", help="Receive buffer to ask the kernel for.")
@listen_options
@click.option("--counters", is_flag=True, help="Read the interface counters of sFlow instead of flow records.")
@click.option("--active", metavar="DURATION", help="Active timeout of the exporters' flow caches.")
@click.option(
    "--inactive", metavar="DURATION", help="Inactive timeout. Timeouts neither given nor announced are observed."
)
@click.option(
    "--scan", default="10s", show_default=True, metavar="DURATION", help="How long a cache may take to apply a timeout."
)
@click.option(
    "--settle", default="10s", show_default=True, metavar="DURATION", help="Promise nothing in this time at the start."
)
@click.option("--lull", default="10s", show_default=True, metavar="DURATION", help='After this silence, assume that '
              'an exporter is this late; "none": wait for it.')  # fmt: skip
@click.option(
    "--idle",
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="After this silence, wait for an exporter no longer.",
)
@click.option("--correct-clocks", is_flag=True, help="Correct flow times by each exporter's estimated skew.")
@click.option("--shed", is_flag=True, help="Under load keep one of n datagrams, and multiply `sampling` by n.")
@checkpoint_options
@memory_options
@click.option(
    "--journal", is_flag=False, flag_value="100ms", metavar="[INTERVAL]", help="Write datagrams to a journal in the"
    " folder of --checkpoint, too, and sync it once in this time (100ms if left out). After kill -9 the same command"
    " takes in what the journal has.",
)  # fmt: skip
@click.option(
    "--state", metavar="DIR", help="Write --checkpoint instead, which this is. A file that an earlier version wrote"
    " goes on as it was: without open windows.",
)  # fmt: skip
@table_option
@elements_option
@spreadsheet_option
@json_option
@form_option
@partition_option
@log_option
@partial_options
@page_options
@metrics_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N results on standard output.")
@click.option("--stats", is_flag=True, help="Print statistics of every operator at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary, only losses.")
def command(
    listen: tuple[str, ...], text: str, to: str | None, lasting: str | None, most: int | None, allow: tuple[str, ...],
    anyone: bool, buffer: int | None, sockets: int, certificate: str | None, key: str | None, client_ca: str | None,
    counters: bool, active: str | None, inactive: str | None, scan: str, settle: str, lull: str,
    idle: str, correct_clocks: bool, shed: bool, checkpoint: str | None, checkpoint_every: str,
    checkpoint_failures: int, journal: str | None, state: str | None, table: tuple[str, ...], elements: str | None,
    partial: str | None, partial_every: str, limit: int | None, stats: bool, quiet: bool, spreadsheet: bool,
    as_json: bool, to_format: str | None, partition_by: str | None, memory: str | None, memory_policy: str | None,
    page: str | None, page_token: str | None, record: str | None, metrics: str | None,
) -> None:  # fmt: skip
    """Collect NetFlow v1, v5, v7 and v9, IPFIX and sFlow v5 from all exporters that send here, and query it.

    Exporters send datagrams (UDP), or connect to a tcp:// or tls:// address and send IPFIX (RFC 7011). A connection is
    not read faster than results are made: the exporter then waits, and nothing is dropped. What cannot be read closes
    that connection alone.

    Each exporter has its own progress. A window is released when all exporters, by their clocks and timeouts, must be
    past it. Ctrl-C ends the collection: it reads what has arrived, and releases no open window; --partial writes those,
    during the run and at its end.

    With --counters the query reads interface counters of sFlow: in_bytes, out_bytes, if_speed, errors and more. It has
    in_bits and out_bits of each interface every 5 minutes by default; divided by span and speed they are utilisation.

    With --to, CSV and NDJSON files get each window's lines as it is released. Files of other formats are complete at
    the end. A run that fails keeps the windows released so far.

    With --checkpoint, the same command goes on where it was, with its open windows, also after kill -9. No result is
    lost or comes twice. What came after the last checkpoint and was not in a --journal, and what was sent while no
    collector ran, is lost, and counted for each exporter by its sequence numbers. (Of a connection nobody can count
    that: TCP has acknowledged what the collector had not kept.) Results have a further column,
    "incomplete": true where a window may lack records, because it was open while no collector ran (empty if the query
    cannot show that). Ctrl-C and SIGTERM take a last checkpoint. --for and --most end the job; --for counts anew with
    each start. If the disk takes no more of the journal, that is said, and the collection goes on without; if it takes
    no checkpoint, the run ends, or goes on for as many as --checkpoint-failures says.

    Exit status: 0 done or stopped, 2 refused, 3 failed in the run, such as a checkpoint that cannot be written (the
    last one is whole), 130 stopped a second time, without waiting for results.
    """
    listening: list[object] = []
    with reported(promise=PROMISED, stopped=lambda: STOPPED if listening else 0, begins=False):
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.collecting import Collection, collect
        from oop_engine.cli.showing import Wishes

        if checkpoint is not None and state is not None:
            raise click.UsageError(
                "--state is another name of --checkpoint, and each names a folder; leave out --state."
            )
        if state is not None and expanded(state).is_file():
            say(
                f'note: "{state}" is a file of an earlier version, which keeps no open windows; name a new folder with'
                " --checkpoint to keep them, and remove the file."
            )
        elif state is not None:
            say(f"note: --state is --checkpoint now, and will be removed; write --checkpoint {state}.")
            checkpoint, state = state, None
        if counters and (state or shed or correct_clocks or active or inactive or certificate):
            raise click.UsageError(
                "--counters reads sFlow datagrams by when they come; leave out --state, --shed, --correct-clocks,"
                " --active, --inactive and --certificate. --checkpoint keeps a job."
            )
        if counters and text == EVERYTHING:
            text = COUNTED
        if checkpoint is None and journal is not None:
            raise click.UsageError("--journal holds what comes until a checkpoint has it; add --checkpoint DIR.")
        collection = Collection(
            listen=listen, lasting=lasting, most=most, allow=allow, anyone=anyone, buffer=buffer, active=active,
            sockets=sockets, certificate=file_of(certificate), key=file_of(key), client_ca=file_of(client_ca),
            counters=counters,
            inactive=inactive, scan=scan, settle=settle, lull=None if lull == "none" else lull, idle=idle,
            correct_clocks=correct_clocks, shed=shed, state=state, tables=tables_said(table),
            elements=file_of(elements),
        )  # fmt: skip
        wishes = Wishes(
            to=to or "-", limit=limit, stats=stats, quiet=quiet, partial=partial, partial_every=partial_every,
            spreadsheet=spreadsheet, as_json=as_json, form=to_format, partition_by=partition_by, checkpoint=checkpoint,
            checkpoint_every=checkpoint_every, checkpoint_failures=checkpoint_failures, journal=journal,
            keys=text != "-", memory=memory, memory_policy=memory_policy, page=page, page_token=page_token,
            record=record, metrics=metrics,
        )  # fmt: skip
        collect(query_text(text), collection, wishes, listening.append)
