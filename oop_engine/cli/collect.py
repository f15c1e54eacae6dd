"""`oop-engine collect`: a query over what exporters send, results as windows are released, until it is stopped."""

from __future__ import annotations

import click

from oop_engine.cli.errors import STOPPED, reported
from oop_engine.cli.naming import query_text
from oop_engine.cli.options import partial_options, spreadsheet_option

EVERYTHING = (
    "SELECT exporter, count(*) AS records, sum(packets) AS packets, sum(bytes) AS bytes [RANGE 10 seconds, WA ts] "
    "FROM Flows GROUP BY exporter"
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
  oop-engine collect --netflow 127.0.0.1:4739 --active 60s --inactive 15s --correct-clocks --query @scan.sql""",
)
@click.option(
    "--netflow", "listen", required=True, multiple=True, metavar="ADDRESS:PORT", help="Where to listen, e.g. "
    "127.0.0.1:2055: one address for all protocols.",
)  # fmt: skip
@click.option(
    "--query", "text", default=EVERYTHING, metavar="TEXT", help="The query, or @FILE that holds it; without, records, "
    "packets and bytes of each exporter every 10 s.",
)  # fmt: skip
@click.option("--to", metavar="FILE", help='Write results to a file, as with "query"; else to standard output.')
@click.option("--for", "lasting", metavar="DURATION", help="End after so long, e.g. 60s, and release all windows.")
@click.option("--most", type=click.IntRange(min=1), metavar="N", help="End after so many datagrams.")
@click.option("--allow", multiple=True, metavar="NET", help="Take datagrams from this network only. Repeat it.")
@click.option("--anyone", is_flag=True, help="Take datagrams from anybody, elsewhere than on loopback.")
@click.option("--buffer", type=click.IntRange(1, 2**30), metavar="BYTES", help="Receive buffer to ask the kernel for.")
@click.option("--active", metavar="DURATION", help="Active timeout of the exporters' flow caches.")
@click.option("--inactive", metavar="DURATION", help="Inactive timeout; what is not said or announced is observed.")
@click.option("--scan", default="10s", show_default=True, metavar="DURATION", help="How long a cache takes to notice.")
@click.option("--settle", default="10s", show_default=True, metavar="DURATION", help="Promise nothing for so long.")
@click.option("--lull", default="10s", show_default=True, metavar="DURATION", help='Silence after which time goes on '
              'without an exporter; "none" waits for it.')  # fmt: skip
@click.option("--idle", default="60s", show_default=True, metavar="DURATION", help="Silence after which nobody waits.")
@click.option("--correct-clocks", is_flag=True, help="Put flow times right by each exporter's estimated skew.")
@click.option("--shed", is_flag=True, help="Under load keep one of n datagrams, and tell n in `sampling`.")
@click.option("--state", metavar="FILE", help="Keep promises, clocks and templates here, and go on from what is there.")
@spreadsheet_option
@partial_options
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N results on standard output.")
@click.option("--stats", is_flag=True, help="Print what every operator did, at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary, but what was lost.")
def command(
    listen: tuple[str, ...], text: str, to: str | None, lasting: str | None, most: int | None, allow: tuple[str, ...],
    anyone: bool, buffer: int | None, active: str | None, inactive: str | None, scan: str, settle: str, lull: str,
    idle: str, correct_clocks: bool, shed: bool, state: str | None, partial: str | None, partial_every: str,
    limit: int | None, stats: bool, quiet: bool, spreadsheet: bool,
) -> None:  # fmt: skip
    """Collect NetFlow v5 and v9, IPFIX and sFlow v5 from all exporters that send to one address, and query it.

    Each exporter is a source of its own progress: windows are released as far as all of them must be, by their clocks
    and timeouts. Ctrl-C ends the collection: what has arrived is taken in, windows that are open stay open; --partial
    tells what is in them, while they wait and at the end.

    With --to, lines of CSV and NDJSON are in the file as windows are released, behind those of before where --state
    goes on; other files are complete at the end. A run that fails keeps what was released, in a file of any kind.

    With --state, results have a column more, "incomplete": true where the window may lack records, as it began before
    the collection did or went on, or was open when that came to its end (empty where a query does not tell). How many
    records were in windows that were open is told when it is stopped, and when it goes on. Results are on the disk
    before --state says that they were given: in a file, windows may come twice after a kill, as incomplete then. What
    --partial has of a run before is kept under another name.

    Exit status: 0 done or stopped, 2 refused, 3 failed in the run; where --state can no longer be written, with the
    results so far written; 130 stopped a second time, so that it did not wait for its results.
    """
    listening: list[object] = []
    with reported(promise=PROMISED, stopped=lambda: STOPPED if listening else 0):
        from oop_engine.cli.collecting import Collection, collect
        from oop_engine.cli.showing import Wishes

        address, *others = listen
        if others:
            raise click.UsageError(
                f"--netflow is given {len(listen)} times, and one collection listens on one address; send all"
                " exporters to it (it takes every protocol), or start a collection for each."
            )
        collection = Collection(
            listen=address, lasting=lasting, most=most, allow=allow, anyone=anyone, buffer=buffer, active=active,
            inactive=inactive, scan=scan, settle=settle, lull=None if lull == "none" else lull, idle=idle,
            correct_clocks=correct_clocks, shed=shed, state=state,
        )  # fmt: skip
        wishes = Wishes(
            to=to or "-", limit=limit, stats=stats, quiet=quiet, partial=partial, partial_every=partial_every,
            spreadsheet=spreadsheet,
        )  # fmt: skip
        collect(query_text(text), collection, wishes, listening.append)
