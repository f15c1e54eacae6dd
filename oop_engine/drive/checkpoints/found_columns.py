"""A checkpoint keeps the columns that a run found in files that grow, so that one which goes on takes the same.

The first lines of today's file may show other types, and lack columns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa

from oop_engine.drive.checkpoints.store import COMMIT, CURRENT, content_of
from oop_engine.errors import CheckpointError
from oop_engine.plan.graph import Plan
from oop_engine.sources.tables import Settled
from operators.lazy import is_of

FOUND: Final = "found"
"""What the body of a checkpoint calls them."""


def found_columns(plan: Plan) -> list[Mapping[str, object]]:
    """Return as JSON what was found out about the columns of files that grow."""
    found: list[Mapping[str, object]] = []
    for node in plan.sources.values():
        source: Any = node.source
        if is_of(source, "oop_engine.sources.growing.source", "Growing") and source.settled is not None:
            settled: Settled = source.settled
            schema = base64.b64encode(settled.schema.serialize().to_pybytes()).decode()
            about = {"name": settled.name, "format": settled.format, "times": settled.times, "empty": settled.empty}
            found.append({"growing": _places(source.places), "label": source.label, "schema": schema, **about})
    return found


def kept_columns(folder: Path, places: Sequence[Path], label: str, format: str) -> Settled | None:
    """Return what the job or the savepoint in a folder knows of the columns of files that grow; None for nothing.

    Whether the rest of a checkpoint is whole is for the run to find out, which reads all of it.
    """
    asked = {"growing": _places(places), "label": label, "format": format}
    entry = next((entry for entry in _entries(folder) if {key: entry.get(key) for key in asked} == asked), None)
    if entry is None:
        return None
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(str(entry["schema"]))))
        times = tuple(map(str, cast(Sequence[object], entry["times"])))
        return Settled(schema, str(entry["name"]), format, bool(entry["empty"]), times)
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise CheckpointError(
            f'"{folder}": the columns of {", ".join(_places(places))} cannot be taken up: {error!r}.\n'
            "  Another version wrote it: begin anew with another --checkpoint."
        ) from error


def _places(places: Sequence[Path]) -> list[str]:
    return [str(place) for place in places]


def _entries(folder: Path) -> list[Mapping[str, object]]:
    """Return the columns that the last commit in a folder has; nothing where there is none that can be read."""
    for name in (CURRENT, COMMIT):
        try:
            body = content_of((folder / name).read_bytes(), folder / name).get("body")
        except (FileNotFoundError, NotADirectoryError, CheckpointError, json.JSONDecodeError):
            continue
        found: object = cast(Mapping[str, object], body).get(FOUND) if isinstance(body, dict) else None
        return cast(list[Mapping[str, object]], found) if isinstance(found, list) else []
    return []
