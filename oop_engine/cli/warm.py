"""`oop-engine warm`: kernels are compiled ahead, for images and before the first query."""

from __future__ import annotations

import time

import click

from oop_engine.cli.errors import reported
from oop_engine.messages import say


@click.command(
    name="warm",
    short_help="Compile kernels ahead, for images and CI.",
    epilog="""\b
Examples:
  oop-engine warm
  NUMBA_CACHE_DIR=/opt/kernels oop-engine warm --processes 4""",
)
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Compile with so many processes.  [default: cores]"
)
@click.option("-q", "--quiet", is_flag=True, help="Draw no bar and print no summary.")
def command(processes: int | None, quiet: bool) -> None:
    """Compile the kernels that most queries need now and keep them on disk, so that later runs start at once.

    That takes minutes the first time. Functions of your own and rare combinations of types compile when they are
    used. Kernels hold for the processor, the version of Python and the versions of the packages that they were
    compiled with.

    Exit status: 0 done, 2 no folder can keep kernels, 3 a run failed.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.warming import sentence, warm

        begun = time.monotonic()
        warmed = warm(progress=False if quiet else None, processes=processes)
        for name, what in warmed.failed.items():
            say(f"the run {name} failed, so its kernels are not there: {what}")
        if not quiet:
            say(f"{sentence(warmed, time.monotonic() - begun)}.")
    if warmed.failed:
        raise click.exceptions.Exit(3)
