"""Compare a source with the one that an earlier checkpoint knew: a run goes on only with the same data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from oop_engine.errors import CheckpointError
from oop_engine.sources.arrival import Stamped
from oop_engine.sources.memory import Once, Rows
from oop_engine.sources.positions import Plain
from oop_engine.sources.protocol import Source
from operators.lazy import is_of

_LOOK: Final = 1 << 16
"""Bytes at the start and the end of a file that are compared."""
_SAMPLE: Final = 1024


def identity(source: Source) -> Plain:
    """Return what tells a source from another, as JSON; CheckpointError for one that cannot be read from a position."""
    if isinstance(source, Stamped):
        raise CheckpointError(
            f"{source.name}: arrival_ts is the time of reading, which is another when a run goes on.\n"
            "  Leave out arrival_ts=, or run without a checkpoint."
        )
    columns = str(source.arrow)
    paths: Sequence[object] | None = getattr(source, "paths", None)
    if paths is not None and source.rewindable:
        found: dict[str, object] = {"files": [_file(path) for path in paths if isinstance(path, Path)]}
        # Packets in tunnels are others than those that hold them; names of exporters are rows of their own.
        return found | {what: True for what in ("inner", "announced") if getattr(source, what, False)}
    if isinstance(source, Rows):
        return {"rows": sum(len(batch) for batch in source.batches), "columns": columns, "sample": _sample(source)}
    if is_of(source, "oop_engine.sources.generated", "GeneratedPackets"):
        return {"generated": repr(source)}
    if source.rewindable or (isinstance(source, Once) and source.again):
        return {"columns": columns}
    if isinstance(source, Once) and source.seek is not None:
        return {"columns": columns, "seek": True}
    if isinstance(source, Once):
        raise CheckpointError(
            f"{source.name} is an iterator, which gives its tuples only once, so a run cannot go on with it.\n"
            "  Give it a method seek(position), which is called with the number of tuples that were taken; or read"
            " from a file."
        )
    if is_of(source, "oop_engine.sources.live.source", "LiveFlows"):
        return {"live": "flow exports", "columns": columns}
    if is_of(source, "oop_engine.sources.live.counters", "LiveCounters"):
        return {"live": "interface counters", "columns": columns}
    if is_of(source, "oop_engine.sources.versions", "Reloaded"):
        return {"reloaded": str(source.path), "keep": str(source.keep), "columns": columns}  # pyright: ignore[reportAttributeAccessIssue]
    if is_of(source, "oop_engine.sources.kafka", "Kafka"):
        return {"topic": source.where.topic, "columns": columns}  # pyright: ignore[reportAttributeAccessIssue]
    if is_of(source, "oop_engine.sources.growing.source", "Growing"):
        places = [str(place) for place in source.places]  # pyright: ignore[reportAttributeAccessIssue]
        return {"growing": places, "columns": columns}
    raise CheckpointError(
        f"{source.name} gives its data only once (standard input, a pipe, or packets of an interface), so a run"
        " cannot go on with it.\n  Write it to a file first and read that (tcpdump -w capture.pcap), with --follow"
        " while it is written, or run without a checkpoint."
    )


def changed(name: str, before: Plain, now: Plain) -> str | None:
    """Say what became of a source since a checkpoint; None where it is the same."""
    if before == now:
        return None
    if before.get("inner") != now.get("inner"):
        read, said = ("inner", "outer") if before.get("inner") else ("outer", "inner")
        return f"{name}: the {read} packets of tunnels were read before, and now the {said} ones"
    old, new = before.get("files"), now.get("files")
    if not isinstance(old, list) or not isinstance(new, list):
        return f"{name} is not the stream that was read before"
    paths = [entry["path"] for entry in new]
    for entry in old:
        if entry["path"] not in paths:
            return f'{name}: "{entry["path"]}" was read before and is not among the files now'
    if paths != [entry["path"] for entry in old]:
        more = next((path for path in paths if path not in [entry["path"] for entry in old]), None)
        return f"{name}: the files come in another order" if more is None else f'{name}: "{more}" was not there before'
    for was, there in zip(old, new, strict=True):
        if there["bytes"] < was["bytes"]:
            return f'"{was["path"]}" was cut from {was["bytes"]:,} to {there["bytes"]:,} bytes'
        if there["bytes"] > was["bytes"]:
            return f'"{was["path"]}" has grown from {was["bytes"]:,} to {there["bytes"]:,} bytes'
        if there["head"] != was["head"]:
            return f'"{was["path"]}" was replaced or edited: its content is another'
        if there["modified"] != was["modified"]:
            return f'"{was["path"]}" was written to since, or is a copy with another time'
    return f"{name} is not the stream that was read before"


def _file(path: Path) -> Plain:
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        digest = hashlib.sha256(file.read(_LOOK))
        file.seek(max(0, about.st_size - _LOOK))
        digest.update(file.read(_LOOK))
    where = os.path.realpath(path)
    return {"path": where, "bytes": about.st_size, "modified": about.st_mtime_ns, "head": digest.hexdigest()}


def _sample(source: Rows) -> str:
    """Return a checksum of the first and the last tuples."""
    digest = hashlib.sha256()
    for batch in (*source.batches[:1], *source.batches[-1:]):
        for start in (0, max(0, len(batch) - _SAMPLE)):
            part = pa.Table.from_batches([batch.slice(start, _SAMPLE)])
            digest.update(repr(part.to_pydict()).encode())
    return digest.hexdigest()
