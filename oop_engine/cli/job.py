"""`oop-engine job`: what jobs keep, read from their folders while they run, or when they do not; and savepoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oop_engine.drive.checkpoints.store import Checkpoint

from oop_engine.cli.errors import reported


@click.group(name="job", short_help="Show what a run with --checkpoint keeps, and make savepoints.")
def command() -> None:
    """Show what a run with --checkpoint keeps, and make savepoints."""


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


@command.command(
    name="list",
    epilog="""\b
Example:
  oop-engine job list jobs""",
)
@click.argument("folder", metavar="DIR")
def listed(folder: str) -> None:
    """List the jobs in a folder, or one job, with their last checkpoints and savepoints.

    Exit status: 0 done, 2 no job there, or a damaged one.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.options import expanded
        from oop_engine.cli.words import counted
        from oop_engine.drive.checkpoints.report import last_of, taken
        from oop_engine.drive.checkpoints.store import CURRENT, Store
        from oop_engine.errors import CheckpointError
        from oop_engine.sinks.disk import RealDisk

        top, disk = Path(expanded(folder)), RealDisk()
        found = [path for path in [top, *(top / name for name in disk.names(top))] if (path / CURRENT).is_file()]
        if not found:
            raise CheckpointError(f'"{folder}" has no job: no folder with a checkpoint.')
        for path in found:
            last = last_of(path, disk)
            ended = ", ended" if last.body.get("ended") else ""
            read = counted(taken(last), "tuple")
            click.echo(f"{path}  checkpoint {last.epoch} of {last.body.get('when')}, {read}{ended}")
            for name, kept in Store(path, disk).savepoints():
                read = counted(taken(kept), "tuple")
                click.echo(f"  savepoint {name}  checkpoint {kept.epoch} of {kept.body.get('when')}, {read}")


@command.command(
    name="savepoint",
    epilog="""\b
Examples:
  oop-engine job savepoint job before-change
  oop-engine query @changed.sql -s Main=huge.pcap --to new.parquet --checkpoint job --from before-change""",
)
@click.argument("folder", metavar="DIR")
@click.argument("name", metavar="NAME")
def savepoint(folder: str, name: str) -> None:
    """Keep the last checkpoint of a job under a name, also while the job runs.

    It stays until its folder is removed. `oop-engine query --checkpoint DIR --from NAME` begins from there.

    Exit status: 0 done, 2 no job there, a damaged one, or the name is taken.
    """
    with reported():
        # Start-up: help needs nothing of the engine.
        from oop_engine.cli.options import expanded
        from oop_engine.drive.checkpoints.savepoint import taken
        from oop_engine.sinks.disk import RealDisk

        kept = taken(Path(expanded(folder)), name, RealDisk())
        click.echo(f"savepoint {name}: checkpoint {kept.epoch} of {kept.body.get('when')}")


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
