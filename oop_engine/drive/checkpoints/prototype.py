"""Make the operators of a job again from what its checkpoint says of them, without the program that wrote it.

The description of a query (`query.described`) has the class and the public fields of each operator, which is all that a
fresh one needs. Only attrs classes of `operators` are made; nothing that a checkpoint names besides is imported. What
a description cannot hold (functions and windows of a user's own, arrays) comes back as text, which no operator takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Final, cast

import attrs
import pyarrow as pa

from operators.protocol import Operator

_OURS: Final = re.compile(r"(operators(?:\.[a-z][a-z0-9_]*)+)\.([A-Z][A-Za-z0-9]*)")
_TYPE: Final = re.compile(r"pyarrow\.lib\.\w+ \w+\((?:timestamp\[(s|ms|us|ns), tz=(.+)\]|(.+))\)")


def prototype(described: object) -> Operator | None:
    """Return a fresh operator of a description; None where the description does not hold all of it."""
    try:
        made = _made(described)
    except (AttributeError, ImportError, TypeError, ValueError):
        return None
    return made if isinstance(made, Operator) else None


def _made(plain: object) -> object:
    if isinstance(plain, Mapping):
        fields = cast(Mapping[str, object], plain)
        kind = fields.get("is")
        made = {name: _made(value) for name, value in fields.items() if name != "is" or not isinstance(kind, str)}
        return _instance(_class(kind), made) if isinstance(kind, str) else made
    if isinstance(plain, list):
        return tuple(_made(value) for value in cast("list[object]", plain))
    if isinstance(plain, str) and (found := _TYPE.fullmatch(plain)) is not None:
        unit, zone, alias = found.groups()
        return pa.timestamp(unit, zone) if unit else pa.type_for_alias(alias)
    return plain


def _class(name: str) -> type:
    """Return an attrs class of `operators` by its whole name; ValueError for any other."""
    found = _OURS.fullmatch(name)
    kind = None if found is None else getattr(import_module(found.group(1)), found.group(2), None)
    if found is None or not isinstance(kind, type) or kind.__module__ != found.group(1) or not attrs.has(kind):
        raise ValueError(f"{name} is no class of operators that is made of its fields")
    return kind


def _instance(kind: type, fields: Mapping[str, object]) -> object:
    """Make a value of its fields, also where the class takes them in another way."""
    by_fields = getattr(kind, "__attrs_init__", None)
    if by_fields is None:
        return kind(**fields)
    made: object = object.__new__(kind)
    by_fields(made, **fields)
    return made
