"""A function over the whole tuples of windows: which attributes are collected for it, and what it makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from oop_engine.errors import PlanError
from operators.data.schema import Schema
from operators.functions import collect
from operators.functions.collecting import Collect
from operators.rows.process_windows import ProcessWindows, WindowFunction

LISTED: Final = "(tuples)"
"""The attribute with the tuples of a window, between the aggregate and the function."""


def collected(
    schema: Schema, wattrs: Iterable[str], groups: Sequence[str], columns: Sequence[str], most: int
) -> Collect:
    """Return the aggregate that lists the tuples of windows by their windowing attribute.

    - `wattrs`: the windowing attributes; those that the schema does not have number tuples.
    - `columns`: the attributes that the function sees, none for all but the groups.

    PlanError for windows over several attributes without `columns`, whose first one then orders the tuples.

    >>> collected(oop.Schema.of(k="string", v="int64", ts="int64"), ["ts"], ["k"], (), 9).columns
    ('ts', 'v')
    """
    named = [schema.resolve(name, where="process(columns=...)") for name in columns]
    first = list(dict.fromkeys(name for name in wattrs if name in schema))
    if len(first) > 1 and not named:
        raise PlanError(
            f"process: the windows are over {', '.join(first)}, each of which orders tuples in its own way.\n"
            "  Name the attributes that the function reads, first the one that orders tuples:"
            f' columns=["{first[0]}", ...].'
        )
    others = named or [name for name in schema.names if name not in groups]
    names = dict.fromkeys([*(first if len(first) == 1 else ()), *others])
    found = collect(*names, most=most)
    assert isinstance(found, Collect)
    return found


def processing(function: WindowFunction, schema: Schema, *, replaces: bool) -> ProcessWindows:
    """Make the operator that calls a function with the tuples that were collected; PlanError for what is no function.

    >>> processing(lambda tuples, window: None, oop.Schema.of(v="int64"), replaces=False).tuples
    '(tuples)'
    """
    if not callable(function):
        raise PlanError(
            f"process: {function!r} is no function.\n"
            "  Write one of two pages, def f(tuples, window), which returns rows of the schema."
        )
    if not schema.names:
        raise PlanError('process: the schema has no attribute.\n  Write oop.Schema.of(slope="float64"), say.')
    return ProcessWindows(function, schema, LISTED, replaces=replaces)
