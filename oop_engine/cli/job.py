"""`oop-engine job show`: what a job keeps, read from its folder while it runs, or when it does not."""

from __future__ import annotations

from pathlib import Path

import click

from oop_engine.cli.errors import reported


@click.group(name="job", short_help="Show what a run with --checkpoint keeps.")
def command() -> None:
    """Show what a run with --checkpoint keeps."""


@command.command(
    name="show",
    epilog="""\b
Example:
  oop-engine job show job""",
)
@click.argument("folder", metavar="DIR")
def show(folder: str) -> None:
    """Show the last checkpoint of a job: what was read, what is held, what was written.

    Also while the job runs; nothing is changed. Every byte of the checkpoint is compared with its checksum.

    Exit status: 0 done, 2 no job there, or a damaged one.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.options import expanded
        from oop_engine.cli.words import bytes_text, counted
        from oop_engine.drive.checkpoints.report import last_of, report
        from oop_engine.sinks.disk import RealDisk

        path = expanded(folder)
        for node in report(last_of(Path(path), RealDisk())):
            size = "" if node.bytes is None else f", {bytes_text(node.bytes)} of state"
            tuples = "" if node.tuples is None else f"  {counted(node.tuples, 'tuple')}"
            click.echo(f"{node.what:8}{node.name}{tuples}{size}{node.more}")
