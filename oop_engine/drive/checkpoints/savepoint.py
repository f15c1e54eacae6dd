"""A job may begin from a savepoint, with a changed query: what means the same goes on, and so do its results.

A savepoint is a copy of a checkpoint under a name. `--from NAME` begins the job anew from there, once: the same command
again goes on from the last checkpoint, as always.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import cast

from oop_engine.drive.checkpoints.carryover import carried
from oop_engine.drive.checkpoints.found_columns import FOUND
from oop_engine.drive.checkpoints.report import last_of
from oop_engine.drive.checkpoints.store import SAVEPOINTS, Checkpoint, Store
from oop_engine.errors import CheckpointError
from oop_engine.sinks.committed import Committed
from oop_engine.sinks.disk import Disk
from oop_engine.sinks.kept import Kept

FROM = "from"
"""What a job that began from a savepoint has in each checkpoint: which one that was."""
REFIT = "refit"
"""What the first checkpoint of such a job has besides: the columns that each operator was given before."""


def taken(folder: Path, name: str, disk: Disk) -> Checkpoint:
    """Keep the last checkpoint of a job as a savepoint, also while the job runs; return that checkpoint."""
    last = last_of(folder, disk)
    Store(folder, disk).keep(name, last)
    return last


def begun(
    store: Store, last: Checkpoint | None, savepoint: str, query: Mapping[str, object], outputs: Sequence[Committed],
    columns: Sequence[str], drop: Collection[str],
) -> Checkpoint:  # fmt: skip
    """Return the checkpoint that a job goes on from: `last` where it began from this savepoint before, or a new one.

    `columns` are those of the results, by output. CheckpointError where state would be lost, and where results came
    after the savepoint.
    """
    origin = _found(store, savepoint)
    mark = {"savepoint": savepoint, "epoch": origin.epoch, "when": origin.body.get("when")}
    if last is not None and isinstance(before := last.body.get(FROM), Mapping) and mark.items() <= before.items():
        return last
    if origin.body.get("ended"):
        raise CheckpointError(
            f'the job of the savepoint "{savepoint}" had ended, so there is nothing to go on with.\n'
            "  Begin a new job, with another --checkpoint."
        )
    over = carried(origin, query, drop)
    results = [_results(output, origin, last, savepoint, names) for output, names in zip(outputs, columns, strict=True)]
    given = cast(Mapping[str, Sequence[str]], origin.body.get("given") or {})
    body = {
        "query": query, "when": origin.body.get("when"), "nodes": over.nodes, "ended": False, "outputs": results,
        FROM: {**mark, "told": over.told},
        FOUND: origin.body.get(FOUND, []),
        REFIT: {name: given[was] for name, was in over.names.items() if was in given},
    }  # fmt: skip
    return Checkpoint(1 + max(origin.epoch, 0 if last is None else last.epoch), body, over.states)


def told(checkpoint: Checkpoint) -> str:
    """Say from which savepoint a job began with this checkpoint; nothing for any other checkpoint."""
    if REFIT not in checkpoint.body:
        return ""
    origin = cast(Mapping[str, object], checkpoint.body[FROM])
    return f'going on from savepoint "{origin["savepoint"]}" of {origin["when"]}: {origin["told"]}.'


def _found(store: Store, savepoint: str) -> Checkpoint:
    """Return the savepoint of a name, or the one, or the last checkpoint, in a folder."""
    if not {"/", os.sep}.intersection(savepoint):
        return store.savepoint(savepoint)
    path = Path(os.path.abspath(Path(savepoint).expanduser()))
    if path.parent.name == SAVEPOINTS:
        return Store(path.parent.parent, store.disk).savepoint(path.name)
    return last_of(path, store.disk)


def _results(output: Committed, origin: Checkpoint, last: Checkpoint | None, savepoint: str, columns: str) -> Kept:
    """Return where the results of an output go on: behind those of the savepoint, or in a place of their own."""
    kept = _kept(output, origin)
    if kept is None:
        return output.fresh()
    before = dict(zip(map(id, _outputs(origin)), cast(Sequence[str], origin.body.get("columns") or ()), strict=False))
    if before.get(id(kept)) != columns:
        raise CheckpointError(
            f'"{output.place}" has results with other columns than those of the query now.\n'
            "  Name another place for them."
        )
    now = None if last is None else _kept(output, last)
    if output.overtaken(kept) if now is None else now.get("rows") != kept.get("rows"):
        raise CheckpointError(
            f'"{output.place}" has results that came after the savepoint "{savepoint}", which would come again.\n'
            "  Name another place for the results, or go on from a savepoint after them."
        )
    return kept


def _outputs(checkpoint: Checkpoint) -> Sequence[Kept]:
    return cast(Sequence[Kept], checkpoint.body.get("outputs") or ())


def _kept(output: Committed, checkpoint: Checkpoint) -> Kept | None:
    """Return what a checkpoint keeps of the results in a place; None where it has none there."""
    return next((kept for kept in _outputs(checkpoint) if kept.get("path") == output.place), None)
