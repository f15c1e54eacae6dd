"""Sources without a name go on under their names of now, where a former version called them by their addresses.

An address may change while a job goes on, as one more is listened to, so what a job calls a source has none in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import attrs

from oop_engine.drive.checkpoints.query import AHEAD, READING
from oop_engine.drive.checkpoints.store import JOURNAL, Checkpoint, Store, file_name

_FORMER: Final = ("exporters at ", "kafka://")
"""How the names of those sources began."""


def renaming(checkpoint: Checkpoint, query: Mapping[str, object]) -> dict[str, str]:
    """Return what the sources of a checkpoint that had addresses for names are called now."""
    before = cast(Mapping[str, object], checkpoint.body.get("query") or {})
    new = {name: _identity(node) for name, node in query.items() if name not in before and _is_source(node)}
    found: dict[str, str] = {}
    for name, node in before.items():
        if name not in query and _is_source(node) and name.startswith(_FORMER):
            same = (now for now, identity in new.items() if identity == _identity(node))
            if (now := next(same, None)) is not None:
                found[name] = now
                del new[now]
    return found


def renamed(checkpoint: Checkpoint, names: Mapping[str, str]) -> Checkpoint:
    """Return a checkpoint that calls sources by these names."""
    if not names:
        return checkpoint
    body = dict(checkpoint.body)
    query, nodes = cast(Mapping[str, object], body["query"]), cast(Mapping[str, object], body.get("nodes") or {})
    body["query"] = {names.get(name, name): _with_names(node, names) for name, node in query.items()}
    body["nodes"] = {names.get(name, name): node for name, node in nodes.items()}
    states = {
        f"{names.get(plain, plain)}{kind}": state
        for plain, kind, state in ((*_kind(name), state) for name, state in checkpoint.states.items())
    }
    return attrs.evolve(checkpoint, body=body, states=states)


def move_journals(store: Store, names: Mapping[str, str]) -> None:
    """Have journals lie where those of the names of now do; what was moved when a machine died stays there."""
    for old, new in names.items():
        there, here = (store.folder / JOURNAL / file_name(name) for name in (old, new))
        segments = sorted(store.disk.names(there))
        if segments:
            store.disk.make(here)
        for segment in segments:
            store.disk.rename(there / segment, here / segment)
        if segments:
            store.disk.sync_folder(here)
            store.disk.sync_folder(there)
            store.disk.sync_folder(store.folder / JOURNAL)


def _is_source(node: object) -> bool:
    return isinstance(node, dict) and bool(node.get("source"))


def _identity(node: object) -> Mapping[str, object]:
    """Return what tells a source from others, but for its columns, of which another version has more."""
    identity = cast(Mapping[str, Mapping[str, object]], node)["identity"]
    return {key: value for key, value in identity.items() if key != "columns"}


def _with_names(node: object, names: Mapping[str, str]) -> object:
    """Return the node of a query, or its outputs, with other names of what it reads."""
    if isinstance(node, list):
        return [names.get(str(name), name) for name in node]
    if isinstance(node, dict) and "reads" in node:
        return {**node, "reads": _with_names(node["reads"], names)}
    return node


def _kind(name: str) -> tuple[str, str]:
    """Return the name of a node and what stands behind it in that of a state."""
    kind = next((kind for kind in (READING, AHEAD) if name.endswith(kind)), "")
    return name.removesuffix(kind), kind
