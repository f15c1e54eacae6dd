"""`oop-engine why`: ask a run, from another terminal, what its next window waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

from oop_engine.cli.errors import reported
from oop_engine.messages import printable


@click.command(
    name="why",
    short_help="Ask a run what its next window waits for.",
    epilog="""\b
Examples:
  oop-engine why job
  oop-engine why 4711
  oop-engine why --json job""",
)
@click.argument("target", metavar="[JOB_OR_PID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as data: an array with an object an output.")
def command(target: str | None, as_json: bool) -> None:
    """Ask a query or a collection that runs what its next window waits for, who holds that back, what lets it go.

    JOB_OR_PID is the folder of its --checkpoint, or the number of its process; it can be left out where one run of this
    user is there. The run answers between two pages and goes on. Only its user can ask, on the same machine. A job that
    does not run is answered for by its last checkpoint.

    Exit status: 0 answered, 2 no run and no job there, or no answer.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.asking import asked
        from oop_engine.drive.run_socket import ask
        from oop_engine.errors import NotRunning

        run = asked(target)
        try:
            waits = ask(run, "why")["why"]
        except NotRunning as error:
            if error.answers or not Path(run, "CURRENT").is_file():
                raise
            # Start-up: a run that answers spares loading the engine.
            from oop_engine.api.why import why

            waits = [wait.to_json() for wait in why(run)]
        if as_json:
            click.echo(json.dumps(waits, indent=1))
            return
        for wait in cast("list[dict[str, object]]", waits):
            click.echo(printable(str(wait["text"])))
