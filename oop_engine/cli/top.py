"""`oop-engine top`: watch a run from another terminal, operator by operator."""

from __future__ import annotations

import time
from typing import Any

import click

from oop_engine.cli.errors import on_terminal, reported


@click.command(
    name="top",
    short_help="Watch a run in a table: rates, promises, open windows.",
    epilog="""\b
Examples:
  oop-engine top job
  oop-engine top 4711 --every 5
  oop-engine top --once job > now.txt""",
)
@click.argument("target", metavar="[JOB_OR_PID]", required=False)
@click.option(
    "--every", type=click.FloatRange(min=0.25), default=1.0, show_default=True, metavar="SECONDS",
    help="How often to ask the run.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print the table once, as where standard output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print once, as data: an object.")
def command(target: str | None, every: float, once: bool, as_json: bool) -> None:
    """Watch a query or a collection that runs: what its next window waits for, and for each operator its rate, promise,
    lag, open windows, state and late tuples; sources with their silence, exporters with clock and losses.

    JOB_OR_PID is as in `oop-engine why`. The run is asked between two pages and goes on. Ctrl-C ends the table, not the
    run.

    Exit status: 0 done, also when the run has ended, 2 no run there, or no answer.
    """
    with reported(stopped=lambda: 0):
        # Start-up: help needs nothing of the engine.
        import json

        from oop_engine.cli.asking import asked
        from oop_engine.drive.run_socket import ask

        run = asked(target)
        first: Any = ask(run, "view")["view"]
        if as_json:
            click.echo(json.dumps(first, indent=1))
            return
        # Start-up: data needs no tables.
        from rich.console import Console

        from oop_engine.cli.live_table import shown

        console = Console(highlight=False, markup=False, emoji=False)
        if once or not on_terminal():
            console.print(shown(first, None, console.width))
            return
        _watch(console, run, first, every)


def _watch(console: Any, run: str, first: Any, every: float) -> None:
    """Draw the table anew until the run has ended, or the user has seen enough."""
    # Start-up: a table that is printed once needs no screen.
    from rich.live import Live

    from oop_engine.cli.live_table import shown
    from oop_engine.drive.run_socket import ask
    from oop_engine.errors import NotRunning

    before: Any = None
    now, ended = first, None
    with Live(shown(first, None, console.width), console=console, screen=True, auto_refresh=False) as live:
        while ended is None:
            time.sleep(every)
            try:
                answer: Any = ask(run, "view")
                before, now = now, answer["view"]
            except NotRunning as error:
                if error.answers:
                    raise
                ended = str(error)
            live.update(shown(now, before, console.width), refresh=True)
    # The screen is gone: what was last is left behind.
    console.print(shown(now, before, console.width))
    click.echo(ended)
