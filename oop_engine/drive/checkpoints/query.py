"""Describe what a run computes as JSON, the same in every run; operators have names there, not numbers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import chain, count
from types import CodeType
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from oop_engine.drive.checkpoints.identity import identity
from oop_engine.errors import CheckpointError
from oop_engine.plan.graph import Plan, SourceNode
from oop_engine.rewrite.demand import columns
from operators.data.memory import PARAMETER_ADDED
from operators.data.schema import Schema
from operators.fresh import fresh

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_UNSEEN = ("diverted", "wanted", "workers")
CONTENTS: Final = "contents"
"""The field of a table that says what is in it."""
READING: Final = " (reading)"
"""What the state of a reader has in its name behind that of the source, whose operator's state has the plain name."""
AHEAD: Final = " (read ahead)"
"""What that has in its name which was found by reading a source ahead."""


def names(plan: Plan) -> list[str]:
    """Name the nodes of a plan, each differently: by their labels, and numbered where several have one.

    A source that may be read elsewhere by a run that goes on has a name without its place.
    """
    found: dict[str, None] = {}
    for node in plan.nodes:
        label = getattr(node.source, "lasting_name", node.label) if isinstance(node, SourceNode) else node.label
        numbered = (f"{label} #{number}" for number in count(2))
        found[next(name for name in chain((label,), numbered) if name not in found)] = None
    return list(found)


def described(plan: Plan) -> Mapping[str, object]:
    """Return what each node is and reads, by its name."""
    named = names(plan)
    query: dict[str, object] = {}
    for place, (name, node) in enumerate(zip(named, plan.nodes, strict=True)):
        if isinstance(node, SourceNode):
            if node.divert is not None and not isinstance(node.divert, str):
                raise CheckpointError(
                    f"{name}: late tuples that are diverted to a function are not part of a checkpoint.\n"
                    '  Divert them to a file, as divert="late.csv"; or leave out divert=, so that they are counted.'
                )
            query[name] = {
                "source": True,
                "columns": str(node.schema.arrow),
                "promises": [str(promise) for promise in node.promises],
                "late": node.late,
                "identity": identity(node.source),
            }
        else:
            query[name] = {
                "operator": _plain(node.operator),
                "reads": [named[upstream] for upstream in plan.inputs[place]],
            }
    query["outputs"] = [named[plan.position(output)] for output in plan.outputs]
    return query


def received(plan: Plan) -> dict[str, Schema]:
    """Return what each operator is given on its first port, of what is read, by its name."""
    named, read = names(plan), columns(plan)
    given: list[Schema] = []
    found: dict[str, Schema] = {}
    for place, node in enumerate(plan.nodes):
        if isinstance(node, SourceNode):
            given.append(Schema(pa.schema([node.schema.arrow.field(name) for name in read[place]])))
            continue
        inputs = [given[upstream] for upstream in plan.inputs[place]]
        found[named[place]] = inputs[0]
        try:
            given.append(fresh(node.operator).output_schema(*inputs))
        except ValueError:  # it does not fit what is left of unread attributes
            given.append(node.schema)
    return found


def widened(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, object]:
    """Return what nodes were, each source with the columns that it has got since behind those that it had.

    Another version of the engine decodes more of the same files, of which a query from before reads nothing.
    """
    found = dict(before)
    for name, old in before.items():
        new = now.get(name)
        if isinstance(old, dict) and isinstance(new, dict) and old.get("source") and new.get("source"):
            columns = new["columns"]
            if str(columns).startswith(f"{old['columns']}\n"):
                found[name] = {**old, "columns": columns}
    return found


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    """Say what of a query is not as it was, sources apart from what they read."""
    for name in before:
        if name not in now:
            yield f'"{name}" is not there any more'
    for name, node in now.items():
        old = before.get(name)
        if name not in before:
            yield f'"{name}" is new'
        elif isinstance(node, dict) and isinstance(old, dict):
            for key, value in node.items():
                if key != "identity" and old.get(key) != value:
                    yield f'"{name}": {_difference(key, old.get(key), value)}'
        elif old != node:
            yield f"the results are those of {_listed(node)}, and were those of {_listed(old)}"


def _difference(key: str, old: object, new: object) -> str:
    """Say where two descriptions part."""
    while isinstance(old, dict) and isinstance(new, dict):
        parts = [k for k in {**old, **new} if old.get(k) != new.get(k)]
        key, old, new = parts[0], old.get(parts[0]), new.get(parts[0])
    if key == CONTENTS:
        return "its table has another content than it had"
    return f"{key} is {_short(new)}, and was {_short(old)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _plain(value: object) -> object:
    """Return public fields, and theirs, as JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, partial):
        return {"partial": _plain(value.func), "of": _plain(value.args), "with": _plain(value.keywords)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        plain = [_plain(item) for item in value]
        return sorted(plain, key=repr) if isinstance(value, set | frozenset) else plain
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if attrs.has(type(value)):
        fields = [field for field in attrs.fields(type(value)) if field.init and not field.name.startswith("_")]
        # Older checkpoints know nothing of a parameter that came later, and mean its default.
        names = [f.name for f in fields if not f.metadata.get(PARAMETER_ADDED) or getattr(value, f.name) != f.default]
        kept = {name: _plain(getattr(value, name)) for name in names if name not in _UNSEEN and name != "overflow"}
        return {"is": kind, **kept}
    code = getattr(getattr(value, "py_func", value), "__code__", None)
    if isinstance(code, CodeType):
        return f"{getattr(value, '__module__', '')}.{code.co_qualname} {_digest(code)}"
    return f"{kind} {_ADDRESS.sub('', repr(value))}"


def _digest(code: CodeType) -> str:
    """Return a checksum of what a function does, but not of where it stands."""
    digest = hashlib.sha256(code.co_code)
    for constant in (*code.co_consts, *code.co_names):
        digest.update((_digest(constant) if isinstance(constant, CodeType) else repr(constant)).encode())
    return digest.hexdigest()[:16]
