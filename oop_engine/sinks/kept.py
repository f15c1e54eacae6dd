"""Read what a checkpoint keeps of the results of one output, which is JSON, and check where results go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from oop_engine.sinks.disk import Disk
from oop_engine.sinks.errors import SinkError

Kept: TypeAlias = Mapping[str, object]
STAGE: Final = "_stage"
"""The folder in which parts of results are written, and the list of those that were shown."""
MANIFEST: Final = "_manifest.json"
OUTBOX: Final = "outbox"
"""The folder of a job with what a server is to get."""
AGAIN: Final = "Put back the results as they were, or begin anew with another --checkpoint and other results."


def alone(path: Path, disk: Disk, *ours: str) -> None:
    """Check that a folder has nothing but `ours`, or is not there; SinkError with what it has."""
    is_file = disk.size(path) is not None
    others = [] if is_file else [name for name in disk.names(path) if name not in ours]
    if is_file or others:
        what = f'"{path}" is a file' if is_file else f'"{path}" has "{others[0]}" already'
        raise SinkError(f"{what}, which this job did not write.\n  Move it away, or name another folder.")


def number(kept: Kept, name: str) -> int:
    """Return a number of what was kept; SinkError where it is missing or something else."""
    value = kept.get(name)
    if not isinstance(value, int):
        raise SinkError(f'the checkpoint should have a number "{name}" of the results, it has {value!r}')
    return value
