"""The functions and classes of others that an operator computes with: nobody knows whether threads may share them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np

_OURS: Final = frozenset(("operators", "punctuation", "oop_engine"))
_KNOWN: Final = (_OURS | sys.stdlib_module_names | {"numpy", "pyarrow"}) - {"__main__"}


def foreign(value: object) -> str:
    """Return the name of a function or class of somebody else's in an operator's public fields, empty for none.

    >>> from operators.expression import Column
    >>> from operators.rows.filter import Filter
    >>> foreign(Filter(Column("x") > 1)), foreign([abs, type("Mine", (), {"__module__": "mine"})])
    ('', 'Mine')
    """
    if isinstance(value, str | bytes):
        return ""
    if isinstance(value, Mapping):
        return next(filter(None, map(foreign, value.values())), "")
    if isinstance(value, np.ufunc):
        return "" if getattr(np, value.__name__, None) is value else value.__name__
    kind = type(value)
    if kind.__module__.partition(".")[0] not in _KNOWN:
        return kind.__qualname__
    if callable(value) and hasattr(value, "__qualname__"):
        # A class or a function, by where it was written.
        known = str(value.__module__ or "builtins").partition(".")[0] in _KNOWN
        return "" if known else str(value.__qualname__).rpartition(".")[2]
    if isinstance(value, list | tuple | set | frozenset):
        return next(filter(None, map(foreign, value)), "")
    if attrs.has(kind) and kind.__module__.partition(".")[0] in _OURS:
        fields = (field.name for field in attrs.fields(kind) if not field.name.startswith("_"))
        return next(filter(None, (foreign(getattr(value, name, None)) for name in fields)), "")
    return ""
