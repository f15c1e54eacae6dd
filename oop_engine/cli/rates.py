"""`oop-engine rates`: the 95th percentile and the maximum of interfaces or prefixes, with a certificate."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from oop_engine.cli.errors import STOPPED, reported
from oop_engine.cli.intake import Intake, intake_options
from oop_engine.cli.options import (
    checkpoint_options,
    form_option,
    json_option,
    log_option,
    memory_options,
    partition_option,
    spreadsheet_option,
)

_NAMED: Final = re.compile(r"(?P<expression>.+)\s+AS\s+(?P<name>[A-Za-z_]\w*)\s*", re.IGNORECASE | re.DOTALL)


@click.command(
    name="rates",
    short_help="Compute rates to bill by: 95th percentile and maximum.",
    epilog="""\b
Examples:
  oop-engine rates netflow:exports.pcap
  oop-engine rates --by exporter,in_if --slot 5m --zone Europe/Berlin netflow:june/*.pcap
  oop-engine rates --by "network(destIP, 24) AS customer" --once netflow:exports.pcap --json
  oop-engine rates --netflow 127.0.0.1:2055 --per day --to bills.csv --checkpoint job""",
)
@intake_options
@click.option(
    "--by", multiple=True, default=("exporter,out_if",), show_default=True, metavar="NAMES", help="What is billed:"
    ' attributes, or an expression as "network(destIP, 24) AS customer"; may be repeated.',
)  # fmt: skip
@click.option("--slot", default="5m", show_default=True, metavar="DURATION", help="Length over which a rate is taken.")
@click.option(
    "--per", default="month", show_default=True, metavar="PERIOD", help="The period of a bill: day, week, month,"
    " quarter, year, or a length as 30d.",
)  # fmt: skip
@click.option("--zone", default="UTC", show_default=True, metavar="ZONE", help="Time zone of these, as Europe/Berlin.")
@click.option("--share", default=0.95, show_default=True, metavar="SHARE", help="The percentile, as a share.")
@click.option(
    "--once", is_flag=True, help="Count a flow once, though it is metered where it comes in and goes out, or by several"
    " exporters.",
)  # fmt: skip
@click.option(
    "--reach", default="2s", show_default=True, metavar="DURATION", help="How far clocks of observers are apart."
)
@click.option("--lateness", metavar="DURATION", help="Count records that are so late, too, and tell their share.")
@click.option("--to", metavar="FILE", help='Write results to a file, as with "query"; default: standard output.')
@checkpoint_options
@memory_options
@spreadsheet_option
@json_option
@form_option
@partition_option
@log_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N results on standard output.")
@click.option("--stats", is_flag=True, help="Print statistics of every operator at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no summary, only losses.")
def command(
    by: tuple[str, ...], slot: str, per: str, zone: str, share: float, once: bool, reach: str, lateness: str | None,
    to: str | None,
    checkpoint: str | None, checkpoint_every: str, checkpoint_failures: int, memory: str | None,
    memory_policy: str | None, spreadsheet: bool, as_json: bool, to_format: str | None, partition_by: str | None,
    limit: int | None, stats: bool, quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Compute the rates that are billed, in bits per second: p95_bps and max_bps over slots of a period.

    Bytes are spread over the life of flows, and count times their sampling. The percentile is that of the nearest rank
    over all slots of the period; slots without traffic count as zero. Each result has its certificate: slots, empty,
    missing (the exporter sent nothing), sampling_least and sampling_most, duplicates (with --once), and of flow exports
    lost, loss (the share of it) and incomplete_exporters. Late records are counted in the summary. With --netflow and
    --checkpoint results have a further column, "incomplete": true where the period may lack records, because it was
    open while no collector ran.

    Exit status: 0 done, 2 refused or not readable, 3 failed in the run, 130 stopped.
    """
    intake, _ = Intake.of(options)
    listening: list[object] = []
    with reported(stopped=lambda: 0 if listening else STOPPED, begins=False):
        # Start-up: help needs nothing of the engine.
        from oop_engine.api.stream import Stream
        from oop_engine.cli.collecting import listened
        from oop_engine.cli.run import run_stream
        from oop_engine.cli.showing import Wishes
        from oop_engine.queries.rates import CERTIFIED, rates

        def billed(stream: Stream) -> Stream:
            names: list[str] = []
            for given in by:
                if (named := _NAMED.fullmatch(given)) is not None:
                    stream = stream.derive(**{named["name"]: named["expression"]})
                    names.append(named["name"])
                else:
                    names += [name.strip() for name in given.split(",")]
            return rates(
                stream,
                by=names,
                slot=slot,
                per=per,
                zone=zone,
                share=share,
                once=once,
                reach=reach,
                lateness=lateness or 0,
            )

        wishes = Wishes(
            to=to or "-", limit=limit, stats=stats, quiet=quiet, spreadsheet=spreadsheet, as_json=as_json,
            form=to_format, partition_by=partition_by, checkpoint=checkpoint, checkpoint_every=checkpoint_every,
            checkpoint_failures=checkpoint_failures, keys="-" not in intake.files, memory=memory,
            memory_policy=memory_policy,
        )  # fmt: skip
        stream = intake.stream(CERTIFIED)
        if intake.listen:
            listened(stream, billed, wishes, listening.append)
            return
        statistics = run_stream(billed(stream), wishes)
    if statistics.interrupted:
        raise click.exceptions.Exit(STOPPED)
