"""Describe what a checkpoint holds, line by line, without the plan that it is of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs

from oop_engine.drive.checkpoints.store import CURRENT, Checkpoint, Store
from oop_engine.errors import CheckpointError
from oop_engine.sinks.disk import Disk
from operators.data.readable import tick_text


@attrs.frozen
class Line:
    """One thing that a checkpoint holds: a source, the state of an operator, results."""

    what: str
    name: str
    tuples: int | None = None
    bytes: int | None = None
    more: str = ""


def last_of(folder: Path, disk: Disk) -> Checkpoint:
    """Return the last checkpoint in a folder, whole, also while a run writes later ones there.

    CheckpointError where there is none, or it is damaged.
    """
    store, current = Store(folder, disk), folder / CURRENT
    while True:
        before = disk.read(current)
        try:
            found = store.read(lambda found: True)
            break
        except CheckpointError:
            # A run that goes on may have removed the files meanwhile, and then names others.
            if disk.read(current) == before:
                raise
    if found is None:
        raise CheckpointError(f'"{folder}" is no folder of a job: it has no checkpoint.')
    return found


def taken(checkpoint: Checkpoint) -> int:
    """Return how many tuples were taken from all sources."""
    nodes = checkpoint.body.get("nodes")
    positions = [node.get("position") for node in nodes.values()] if isinstance(nodes, dict) else []
    return sum(position["tuples"] for position in positions if isinstance(position, dict))


def report(checkpoint: Checkpoint) -> Iterator[Line]:
    """Yield the lines: the checkpoint, sources, operators and results."""
    body = checkpoint.body
    ended = "ended" if body.get("ended") else "not ended"
    engine = f", written by oop-engine {body['engine']}" if "engine" in body else ""
    yield Line("job", f"checkpoint {checkpoint.epoch} of {body.get('when')}", more=f", {ended}{engine}")
    nodes, query, outputs = body.get("nodes"), body.get("query"), body.get("outputs")
    for name, node in nodes.items() if isinstance(nodes, dict) else ():
        position = node.get("position")
        size = checkpoint.size(name)
        if isinstance(position, dict):
            more = ", to its end" if node.get("ended") else ""
            yield Line("read", name, position["tuples"], size, _files(query, name) + more)
        else:
            units = node.get("units") or {}
            lwm = "".join(
                f", {attribute} < {tick_text(bound, units.get(attribute))} promised"
                for attribute, bound in node.get("lwm", {}).items()
            )
            yield Line("state", name, node.get("tuples_in"), size, lwm)
    for kept in outputs if isinstance(outputs, list) else ():
        yield Line("results", kept["path"], more=f"  {kept['rows']:,} rows")


def _files(query: object, name: str) -> str:
    node = query.get(name) if isinstance(query, dict) else None
    files = node["identity"].get("files", []) if isinstance(node, dict) else []
    return "".join(f', "{file["path"]}"' for file in files[:1]) + (f" and {len(files) - 1} more" if files[1:] else "")
