"""`oop-engine capacity`: find the highest rate at which a query loses nothing on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from oop_engine.cli.errors import reported
from oop_engine.messages import say

if TYPE_CHECKING:
    from oop_engine.api.stream import Stream
    from oop_engine.processes.capacity import Capacity, CapacityTrial

_QUERIES: Final = {
    "ring": "SELECT srcIP, count(*), sum(len) AS bytes [RANGE 1 s, WA ts] FROM P GROUP BY srcIP",
    "udp": "SELECT srcIP, count(*), sum(bytes) AS bytes [RANGE 1 s, WA ts] FROM F GROUP BY srcIP",
}
_RATE: Final = click.IntRange(min=1)


@click.command(
    name="capacity",
    short_help="Find the highest rate that a query keeps up with.",
    epilog="""\b
Examples:
  oop-engine capacity
  oop-engine capacity --by udp --groups 100000
  oop-engine capacity "SELECT destPort, count(*) [RANGE 10 s, WA ts] FROM P WHERE proto = 6 GROUP BY destPort"
  oop-engine capacity --two-processes --low 2 --seconds 10 --json""",
)
@click.argument("query", required=False)
@click.option(
    "--by",
    type=click.Choice(["ring", "udp"]),
    default="ring",
    show_default=True,
    help="Packets through a ring of memory, or flows of NetFlow v5 over UDP.",
)
@click.option("--step", type=_RATE, default=5_000, show_default=True, metavar="N", help="The rate is a multiple of it.")
@click.option("--start", type=_RATE, default=100_000, show_default=True, metavar="N", help="The first rate.")
@click.option("--most", type=_RATE, default=1 << 26, metavar="N", help="Try no higher rate.  [default: 67 million]")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    metavar="S",
    help="How long each rate is sent; the one that is found, three times as long.",
)
@click.option(
    "--groups",
    type=_RATE,
    default=1_000,
    show_default=True,
    metavar="N",
    help="How many sources there are.",
)
@click.option(
    "--room",
    type=click.IntRange(min=1 << 16),
    metavar="BYTES",
    help="Size of the ring, or receive buffer to ask for.  [default: 16 or 32 MiB]",
)
@click.option("--two-processes", is_flag=True, help="Run the high level of a window aggregate in its own process.")
@click.option(
    "--low",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Run the low level of a window aggregate in N processes of its own.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Do not tell of each rate.")
def command(
    query: str | None, by: str, step: int, start: int, most: int, seconds: float, groups: int, room: int | None,
    two_processes: bool, low: int, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Find the highest rate, in packets or flows a second, at which a query loses nothing on this machine.

    A process sends packets into a ring, or flows over UDP, and shares the machine with the query. The rate is doubled
    until something is lost or the query falls behind; then the distance is halved. Each turn tells how much of a core
    the sender and each process of the query took.

    With --two-processes or --low the last window aggregates of the query run in two levels, as by oop.apart; what reads
    their results runs here.

    A QUERY reads one stream. From a ring it is of packets: ts, srcIP, destIP, srcPort, destPort, proto, len. Over UDP
    it is of flows. Without one, packets or flows and bytes of each source are counted for each second.

    Exit status: 0 done, 2 refused before anything ran, 3 the sender or the query failed.
    """  # fmt: skip
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.language.parse import parse
        from oop_engine.language.translate import query as translated
        from oop_engine.language.walk import tables
        from oop_engine.processes.capacity import capacity

        text = query or _QUERIES[by]
        names = {table.name for table in tables(parse(text).source)}
        if len(names) != 1 or any(table.path for table in tables(parse(text).source)):
            raise click.UsageError(f"the query reads one stream, such as FROM P, and no file; it reads {len(names)}.")
        (name,) = names

        def made(stream: Stream) -> Stream:
            return translated(text, {name: stream})

        found = capacity(
            made, by="udp" if by == "udp" else "ring", step=step, start=start, most=most, seconds=seconds,
            groups=groups, room=room, two_processes=two_processes, low=low, told=None if quiet else _tell,
        )  # fmt: skip
        if as_json:
            click.echo(json.dumps(_plain(found)))
            return
        what = "flows" if by == "udp" else "packets"
        click.echo(f"{found.rate:,} {what} a second without loss")
        last = next((trial for trial in reversed(found.trials) if trial.asked == found.rate), None)
        if last is not None:
            click.echo(f"at that rate: {_shares(last)}")
        if found.limit == "sender":
            click.echo("The sender could send no faster, so the query may keep up with more.")
        elif found.limit == "most":
            click.echo("No higher rate was tried: --most allows it.")


def _tell(trial: CapacityTrial) -> None:
    if not trial.reached:
        outcome = f"the sender reached {trial.rate:,.0f}"
    elif trial.lost:
        outcome = f"{trial.lost:,} of {trial.sent:,} lost"
    elif trial.kept:
        outcome = "nothing lost"
    else:
        outcome = f"{trial.behind:.1f} s behind at the end"
    say(f"{trial.asked:>12,}/s  {outcome}; {_shares(trial)}")


def _shares(trial: CapacityTrial) -> str:
    """Say how much of a core each process took."""
    whole = trial.seconds + trial.behind
    return ", ".join(f"{who} {used / whole:.0%} of a core" for who, used in trial.cpu.items())


def _plain(found: Capacity) -> dict[str, object]:
    return {
        "rate": found.rate,
        "limit": found.limit,
        "trials": [
            {
                "asked": trial.asked, "sent": trial.sent, "lost": trial.lost, "seconds": round(trial.seconds, 4),
                "behind": round(trial.behind, 4), "kept": trial.kept and trial.reached, "results": trial.results,
                "cpu": {who: round(used, 4) for who, used in trial.cpu.items()},
            }
            for trial in found.trials
        ],
    }  # fmt: skip
