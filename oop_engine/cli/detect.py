"""`oop-engine detect`: find attacks in captures and flow exports, and print when each begins, goes on and ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import click

from oop_engine.cli.errors import STOPPED, reported
from oop_engine.cli.intake import Intake, intake_options
from oop_engine.messages import printable, say

ATTACKS: Final[dict[str, dict[str, int | float | str]]] = {
    "syn_flood": {"syns": 250, "sources": 100, "range": "10 s"},
    "vertical_scan": {"ports": 100, "range": "1 minute"},
    "horizontal_scan": {"hosts": 50, "gap": "15 minutes"},
    "dns_amplification": {"bytes": 100_000, "reflectors": 20, "port": 53, "range": "10 s"},
    "beaconing": {"contacts": 10, "variation": 0.1, "period": "10 s", "range": "1 hour"},
}
"""Attacks by name, and the thresholds of each with their defaults, which are those of the ready queries."""
ALL: Final = "all"
_AT_THE_END: Final = 30.0
"""Seconds that a run waits at its end for the actions that are left."""
_HELP: Final = {
    "syns": "least SYNs without an ACK to a service in a window",
    "sources": "least sources of these",
    "ports": "least ports of a host that one source tries in a window",
    "hosts": "least hosts of which one source tries a port",
    "gap": "a longer pause ends a scan of hosts",
    "bytes": "least bytes of answers to a host in a window",
    "reflectors": "least servers that these come from",
    "port": "port of these servers",
    "contacts": "least contacts of two hosts in a window",
    "variation": "most irregular gaps between contacts: their coefficient of variation",
    "period": "least mean gap",
    "range": "length of the windows",
}


def _thresholds(command: Callable[..., None]) -> Callable[..., None]:
    """Add the thresholds of all attacks as options."""
    for name, said in reversed(_HELP.items()):
        of = {attack: given[name] for attack, given in ATTACKS.items() if name in given}
        kinds = {type(default) for default in of.values()}
        shown = ", ".join(f"{attack} {default}" for attack, default in of.items())
        command = click.option(
            f"--{name}", f"limit_{name}", type=kinds.pop(), help=f"{said[0].upper()}{said[1:]}.  [default: {shown}]"
        )(command)
    return command


@click.command(
    name="detect",
    short_help="Find attacks in captures and flow exports, also live.",
    epilog="""\b
Examples:
  oop-engine detect all capture.pcap
  oop-engine detect syn_flood --syns 1000 netflow:exports.pcap
  oop-engine detect dns_amplification --port 123 --json capture.pcap
  oop-engine detect all --on-alert "logger -t alerts" capture.pcap
  oop-engine detect all --netflow 127.0.0.1:2055 --active 60s --inactive 15s
  tcpdump -w - | oop-engine detect all --slack 2s -""",
)
@click.argument("attack", type=click.Choice([ALL, *ATTACKS]), metavar="ATTACK")
@_thresholds
@intake_options
@click.option(
    "--early", metavar="DURATION", help="Make alerts provisional before their window is complete: look at windows each"
    ' time so much of them has passed; "none" waits for whole windows. Scans of hosts are looked at each 60th'
    " of --gap at most. Not for beaconing."
    "  [default: 2s with --netflow, else none]",
)  # fmt: skip
@click.option(
    "--on-alert", "action", metavar="COMMAND", help="Run this for each event, with the event as JSON on its standard"
    " input. No shell runs it, and it may take 10 s. A slow one does not hold the stream; what fails or is left out is"
    " counted.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Write each event as an object a line.")
def command(attack: str, early: str | None, action: str | None, as_json: bool, **options: Any) -> None:
    """Find an attack in packets or flow records, or all that are known: syn_flood, vertical_scan, horizontal_scan,
    dns_amplification, beaconing.

    A line is written when an alert opens, for each further window, and when it closes: with the first window in which
    there is no attack. With --early it is provisional at once; the complete window opens it, or withdraws it. A scan of
    many hosts opens and closes when it is over; it is provisional once it has reached its threshold within --gap. What
    a flow carries is shared out over the time that it lasted, so a long flow is no burst. The order of arrival changes
    nothing.

    With --netflow it listens to exporters until Ctrl-C, --for or --most, and writes alerts as windows are complete. A
    window is complete when exporters promise so, by their clocks and timeouts; --active and --inactive give these.
    --early looks by the clock, too, at the flows that have come, however long --active is.

    Exit status: 0 done, whatever was found, 2 refused or not readable, 3 failed in the run, 130 stopped.
    """
    asked = list(ATTACKS) if attack == ALL else [attack]
    intake, rest = Intake.of(options)
    limits = {name.removeprefix("limit_"): value for name, value in rest.items() if value is not None}
    for name in limits:
        if not any(name in ATTACKS[one] for one in asked):
            known = ", ".join(f"--{name}" for name in ATTACKS[attack])
            raise click.UsageError(f"{attack} has no threshold --{name}; it takes {known}.")
    said = early or ("2s" if intake.listen else "none")
    listening: list[object] = []
    with reported(stopped=lambda: 0 if listening else STOPPED):
        # Start-up: help needs nothing of the engine.
        from oop_engine.api.outputs import run_outputs
        from oop_engine.cli.acting import Actions, command_of
        from oop_engine.cli.detecting import alerts, text
        from oop_engine.sinks.python import PageSink
        from operators.data.page import Page

        actions = None if action is None else Actions(command_of(action))
        counts, writing = dict.fromkeys(asked, 0), Lock()

        def show(page: Page) -> None:
            for row in page.rows():
                with writing:
                    counts[row["alert"]] += row["event"] == "open"
                    click.echo(json.dumps(row) if as_json else printable(text(row)))
                if actions is not None:
                    actions.put(json.dumps(row))

        def opened(reader: Any) -> None:
            listening.append(reader)
            say(f"listening on {', '.join(map(str, reader.door.addresses))}")

        stream = intake.stream(opened=opened)
        found = [
            events
            for one in asked
            for events in alerts(
                one, stream, {name: value for name, value in limits.items() if name in ATTACKS[one]},
                early=None if said == "none" else said, live=bool(intake.listen),
            )
        ]  # fmt: skip
        if said != "none" and "beaconing" in asked:
            say("beaconing is judged by the gaps of a whole window, so it is never provisional.")
        statistics = run_outputs(
            [one.to(PageSink(show)) for one in found], handle_signals=bool(intake.listen)
        )  # fmt: skip
        if actions is not None:
            actions.close(_AT_THE_END)
        for note in [*statistics.notes, *(actions.notes() if actions is not None else ())]:
            say(note)
        say(f"{statistics.tuples:,} tuples read; " + ", ".join(f"{name}: {count}" for name, count in counts.items()))
