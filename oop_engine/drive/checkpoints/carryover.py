"""A changed query takes over the state of each part that means the same: it computes the same from the same inputs.

Parts are compared by what they are, not by names or places. What no part of the new query takes over is lost, and a run
that would lose something is refused, unless its user lets go of it by name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias, cast

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.checkpoints.identity import changed
from oop_engine.drive.checkpoints.query import AHEAD, READING, differences, widened
from oop_engine.drive.checkpoints.store import Checkpoint
from oop_engine.errors import CheckpointError
from operators.data.saved import Saved, read_batch, read_text, save_schema
from operators.data.schema import Schema
from operators.errors import did_you_mean
from operators.protocol import State, StateValue
from operators.streams.input import Input

Node: TypeAlias = Mapping[str, object]
PUNCTUATORS: Final = "punctuators"


@attrs.frozen
class Carried:
    """Hold the parts of a checkpoint that a changed query takes over, and name the others."""

    names: Mapping[str, str]
    """The names that the parts had, by their names in the new query."""
    nodes: Mapping[str, Node]
    """What the checkpoint says of the parts, by their names in the new query."""
    states: Mapping[str, Saved] = attrs.field(repr=False)
    new: Sequence[str]
    """Parts that begin without state."""
    dropped: Sequence[str]
    """Parts of the checkpoint, by their names there, whose state is let go of."""

    @property
    def told(self) -> str:
        """Say what was taken over and what was not."""
        texts = [f"{len(self.nodes)} parts go on with their state"]
        texts += [f"new: {', '.join(self.new)}"] if self.new else []
        texts += [f"dropped: {', '.join(self.dropped)}"] if self.dropped else []
        return "; ".join(texts)


def carried(checkpoint: Checkpoint, query: Mapping[str, object], drop: Collection[str] = ()) -> Carried:
    """Return what a query takes over of a checkpoint of another; CheckpointError, with a list, where some is lost.

    `drop`: parts of the checkpoint whose state may be lost, or is not to be taken over.
    """
    before = cast(Mapping[str, object], checkpoint.body.get("query") or {})
    old = _parts(widened(before, query))
    nodes = cast(Mapping[str, Node], checkpoint.body.get("nodes") or {})
    for name in drop:
        if name not in old:
            raise CheckpointError(f'"{name}" is no part of the savepoint. {did_you_mean(name, old)}')
    taken = _taken(old, _parts(query), drop)
    ended = {name for name, node in nodes.items() if node.get("ended")}
    new = [name for name in _parts(query) if name not in taken]
    _check_ended(_parts(query), taken, ended)
    left = [name for name in old if name not in taken.values()]
    lost = [name for name in left if name not in drop and _holds(nodes.get(name, {}), checkpoint.states.get(name))]
    if lost:
        raise CheckpointError(_refusal(lost, old, _parts(query), nodes))
    return Carried(
        taken,
        {name: nodes[was] for name, was in taken.items() if was in nodes},
        {
            f"{name}{kind}": checkpoint.states[f"{was}{kind}"]
            for name, was in taken.items()
            for kind in ("", READING, AHEAD)
            if f"{was}{kind}" in checkpoint.states
        },
        new,
        [name for name in left if _holds(nodes.get(name, {}), checkpoint.states.get(name))],
    )


def refitted(name: str, state: State, old: Sequence[str], new: Schema | None) -> Mapping[str, StateValue]:
    """Return the state of an operator that is given other columns than it was; CheckpointError where that cannot be.

    `old` are the names of the columns that it was given. A query reads only the columns that some part of it looks at,
    so a further part may bring more columns to all others.
    """
    if new is None or list(old) == new.names:
        return state
    fitted = dict(state)
    for key, value in state.items():
        if not isinstance(value, pa.RecordBatch):
            continue
        batch = read_batch(state, key)
        if set(old) <= set(batch.schema.names):
            if batch.num_rows:
                raise CheckpointError(
                    f'"{name}" holds tuples with the columns {", ".join(old)}, and the query now gives it'
                    f" {', '.join(new.names)}.\n  Leave the columns that the query reads as they were, or let go of the"
                    f' tuples: --drop-state "{name}".'
                )
            added = [new.field(column) for column in new.names if column not in batch.schema.names]
            kept = [field for field in batch.schema if field.name in new.names or field.name not in old]
            fitted[key] = save_schema(pa.schema([*kept, *added]))
    return fitted


def repromised(state: State, before: object, source: Input, tuples: int) -> Mapping[str, StateValue]:
    """Return the state of a source whose stream is promised on other attributes than `before`, after some tuples.

    What is promised on an attribute that was not needed before begins with the next tuple.
    """
    now = promising(source)
    if not isinstance(before, list) or before == now:
        return state
    saved = dict(
        zip(map(tuple, cast("list[list[str]]", before)), json.loads(read_text(state, PUNCTUATORS)), strict=True)
    )
    kept: list[object] = []
    for punctuator, key in zip(source.punctuators, now, strict=True):
        fresh = punctuator.state()
        # Most punctuators count the tuples of the stream, first of all.
        kept.append(saved.get(tuple(key)) or ([tuples, *fresh[1:]] if isinstance(fresh, list) else fresh))
    return {**state, PUNCTUATORS: json.dumps(kept)}


def promising(source: Input) -> list[list[str]]:
    """Return who makes the promises of a source, and on which attributes."""
    return [[type(punctuator).__name__, punctuator.attribute] for punctuator in source.punctuators]


def _parts(query: object) -> dict[str, Node]:
    found = cast(Mapping[str, object], query) if isinstance(query, Mapping) else {}
    return {name: cast(Node, node) for name, node in found.items() if isinstance(node, Mapping)}


def _taken(old: Mapping[str, Node], new: Mapping[str, Node], drop: Collection[str]) -> dict[str, str]:
    """Return, for each part of a new query that means what one of the old did, that one; inputs come before."""
    taken: dict[str, str] = {}
    for name, node in new.items():
        reads = [taken.get(read) for read in _reads(node)]
        if None in reads:
            continue
        meant = {**node, "reads": reads}
        same = (
            was
            for was in sorted(old, key=lambda was: was != name)
            if was not in drop and was not in taken.values() and {**old[was], "reads": list(_reads(old[was]))} == meant
        )
        if (found := next(same, None)) is not None:
            taken[name] = found
    return taken


def _reads(node: Node) -> Sequence[str]:
    return cast(Sequence[str], node.get("reads") or ())


def _check_ended(new: Mapping[str, Node], taken: Mapping[str, str], ended: Collection[str]) -> None:
    """Refuse parts that would read what had ended before they were there."""
    over: set[str] = set()
    for name, node in new.items():
        reads = _reads(node)
        done = taken.get(name) in ended if not reads else all(read in over for read in reads)
        if done and name in taken:
            over.add(name)
        if name not in taken and (late := [read for read in reads if read in over]):
            raise CheckpointError(
                f'"{name}" is new, and "{late[0]}", which it reads, had ended at the savepoint: it would get nothing of'
                " it.\n  Begin a new job for it, with another --checkpoint, or go on from an earlier savepoint."
            )


def _holds(node: Node, state: Saved | None) -> bool:
    """Return whether something is lost with the state of a part: tuples that were read, or are held."""
    if (counted := _counted(node)) is not None:
        return counted[0] > 0
    if state is None:
        return False
    if state.outside:
        return True
    held = state.decoded()
    return any(
        value.size > 0 if isinstance(value, np.ndarray) else read_batch(held, key).num_rows > 0
        for key, value in held.items()
        if isinstance(value, np.ndarray | pa.RecordBatch)
    )


def _counted(node: Node) -> tuple[int, str] | None:
    """Return how much a part holds, or has read, and what that is; None where it does not count."""
    if isinstance(position := node.get("position"), Mapping):
        return cast(Mapping[str, int], position)["tuples"], "tuples were read"
    details = cast(Mapping[str, int], node.get("details") or {})
    return (details["state_tuples"], "tuples or partial results are held") if "state_tuples" in details else None


def _refusal(lost: Sequence[str], old: Mapping[str, Node], new: Mapping[str, Node], nodes: Mapping[str, Node]) -> str:
    """Say what would be lost, why, and how to let go of it."""
    lines: list[str] = []
    for name in lost:
        counted = _counted(nodes[name])
        held = "it has state" if counted is None else f"{counted[0]:,} {counted[1]}"
        lines.append(f'  "{name}": {held}; {_why(name, old, new)}')
    options = " ".join(f'--drop-state "{name}"' for name in lost)
    listed = "\n".join(lines)
    return (
        f"the query takes over the state of parts that mean the same, and these have none:\n{listed}\n"
        f"  Put them back into the query, or let go of what they hold: {options}"
    )


def _why(name: str, old: Mapping[str, Node], new: Mapping[str, Node]) -> str:
    node = new.get(name)
    if node is None:
        return "it is not in the query now"
    if "identity" in node and "identity" in old[name]:
        before, now = (cast(Mapping[str, object], found["identity"]) for found in (old[name], node))
        return changed(name, before, now) or "its promises or its policy for late tuples are others"
    if {**node, "reads": None} != {**old[name], "reads": None}:
        return "it computes something else now"
    return f"what it reads is not what it was{_cause(name, old, new)}"


def _cause(name: str, old: Mapping[str, Node], new: Mapping[str, Node]) -> str:
    """Say which part before another is the first that is not what it was."""
    for read in _reads(old[name]):
        if read not in new:
            return f': "{read}" is not in the query now'
        if cause := _cause(read, old, new):
            return cause
        for difference in differences({read: old[read]}, {read: new[read]}):
            return f": {difference}"
        before, now = (found[read].get("identity") for found in (old, new))
        if isinstance(before, Mapping) and isinstance(now, Mapping) and (seen := changed(read, before, now)):
            return f": {seen}"
    return ""
