"""`oop-engine page`: the page of a run that was recorded, at any moment of it."""

from __future__ import annotations

import time
from typing import Final

import click

from oop_engine.cli.errors import reported
from oop_engine.cli.options import expanded, log_option
from oop_engine.messages import say
from oop_engine.stopping import begin

_LOOK: Final = 3600.0


@click.command(
    name="page",
    short_help="Show the page of a run that was recorded.",
    epilog="""\b
Examples:
  oop-engine page demos/skew_and_lull.oop
  oop-engine query @talkers.sql -s Main=m.pcap --to out.csv --record run.oop
  oop-engine page run.oop --page 127.0.0.1:9000""",
)
@click.argument("file", metavar="FILE")
@click.option(
    "--page", "address", default="127.0.0.1:8080", show_default=True, metavar="ADDRESS:PORT", help="Where it is served."
)
@click.option(
    "--page-token", "token", metavar="TOKEN", help="What its readers must know, 8 letters and digits or more."
)
@log_option
def command(file: str, address: str, token: str | None) -> None:
    """Show the page of a run that --record kept, with a slider: all promises and windows at any moment, and who held
    which window open then.

    FILE has the promises of the run and the outline of its windows, not its data. Ctrl-C ends the page.

    Exit status: 0 done, 2 refused, or a file that is no whole record.
    """
    with reported(stopped=lambda: 0):
        # Start-up: help needs nothing of the engine.
        from oop_engine.page.address import Address
        from oop_engine.page.record import Record
        from oop_engine.page.serving import Served

        record = Record(expanded(file))
        if not record.whole:
            say(f'note: "{file}" ends within a block, as that of a killed run; what is before that is shown.')
        with Served(Address.of(address, token), record.title, record.outlined, record) as page:
            say(f"page: {page.url} has {len(record.times()):,} moments. Ctrl-C ends it.")
            begin()
            while True:
                time.sleep(_LOOK)
