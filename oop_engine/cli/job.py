"""`oop-engine job show`: what a job keeps, read from its folder while it runs, or when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oop_engine.drive.checkpoints.store import Checkpoint

from oop_engine.cli.errors import reported


@click.group(name="job", short_help="Show what a run with --checkpoint keeps.")
def command() -> None:
    """Show what a run with --checkpoint keeps."""


@command.command(
    name="show",
    epilog="""\b
Examples:
  oop-engine job show job
  oop-engine job show job --windows 10""",
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--windows", type=click.IntRange(min=1), metavar="N",
    help="Also show the first N open windows of each operator, with their results so far.",
)  # fmt: skip
def show(folder: str, windows: int | None) -> None:
    """Show the last checkpoint of a job: what was read, what is held, what was written.

    Also while the job runs; nothing is changed. Every byte of the checkpoint is compared with its checksum. In Python,
    oop.state(DIR) gives the same as Arrow tables.

    Exit status: 0 done, 2 no job there, or a damaged one.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.options import expanded
        from oop_engine.cli.words import bytes_text, counted
        from oop_engine.drive.checkpoints.report import last_of, report
        from oop_engine.sinks.disk import RealDisk

        found = last_of(Path(expanded(folder)), RealDisk())
        for node in report(found):
            size = "" if node.bytes is None else f", {bytes_text(node.bytes)} of state"
            tuples = "" if node.tuples is None else f"  {counted(node.tuples, 'tuple')}"
            click.echo(f"{node.what:8}{node.name}{tuples}{size}{node.more}")
        if windows is not None:
            _show_windows(found, windows)


def _show_windows(checkpoint: Checkpoint, most: int) -> None:
    """Print the first open windows of each operator."""
    # Start-up: other commands need no operators.
    from oop_engine.drive.checkpoints.state import read
    from oop_engine.sinks import TerminalSink
    from operators.data.page import Page
    from operators.data.schema import Schema

    found = read(checkpoint, most=most)
    for name, table in found.windows.items():
        click.echo(f"\nopen in {name}")
        schema = Schema(table.schema)
        with TerminalSink().opened(schema) as deliver:
            for batch in table.to_batches():
                deliver(Page(schema, batch))
    for name, why in found.unread.items():
        click.echo(f"\nnot shown: {name}: {why}")
