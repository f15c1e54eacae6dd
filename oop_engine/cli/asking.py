"""A command that asks a run finds the one that is meant."""

from __future__ import annotations

import click

from oop_engine.cli.options import expanded
from oop_engine.drive.run_socket import running


def asked(target: str | None) -> str:
    """Return the run that is meant: the only one of this user where none is named; UsageError for none and several."""
    if target is not None:
        return str(expanded(target))
    found = running()
    if len(found) == 1:
        return found[0]
    if not found:
        raise click.UsageError("no run of this user can be asked; name the folder of a job that ran with --checkpoint.")
    raise click.UsageError(f"{len(found)} runs can be asked; name one of them: {', '.join(found)}.")
