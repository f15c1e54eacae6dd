"""Windows of any kinds over one stream: those that can share slices do, the others are computed beside them.

Slices are shared by windows over one attribute whose edges are values of it. Windows that tuples define, landmark
windows, and those over other attributes each read the same stream, once; all results become one stream.
"""

from __future__ import annotations

import attrs
import pyarrow as pa

from oop_engine.errors import PlanError
from oop_engine.rewrite.strategy import Windows
from operators.data.schema import ROW_NUM, Schema
from operators.data.steps import bounds_type
from operators.expression import Column, Expression, Literal, Null
from operators.rows.project import Project
from operators.window.counted import CountWindow
from operators.window_aggregate.results import START, STOP, WID, WINDOW


@attrs.frozen
class Bounds:
    """The window_start and window_end in the results of several parts."""

    kind: pa.DataType
    ranks: frozenset[str]
    """Windows that are without them: theirs are ranks or row numbers, beside those that are values of an attribute."""

    @classmethod
    def of(cls, windows: Windows, schema: Schema) -> Bounds:
        """Find the type; PlanError where windows are over attributes of several types."""
        ranks = [name for name, w in windows.items() if isinstance(w, CountWindow) or w.wattr == ROW_NUM]
        kinds: dict[pa.DataType, str] = {}
        for name, window in windows.items():
            if name not in ranks:
                field = schema.field(window.wattr, where="windows")
                kinds.setdefault(bounds_type(field.type), name)
        if len(kinds) > 1:
            (one, first), (other, second), *_ = kinds.items()
            raise PlanError(
                f"windows: {first} is over {windows[first].wattr} ({one}), {second} over {windows[second].wattr}"
                f" ({other}),\n  and {START} is of one type. Aggregate them by themselves, or cast one attribute first."
            )
        return cls(next(iter(kinds), pa.int64()), frozenset(ranks if kinds else ()))

    def naming(self, windows: Windows, schema: Schema, *, told: bool) -> Project:
        """Return the projection that makes the results of a part those of all: with the name, and the same bounds.

        `told` when results bear the names of their windows already.
        """
        name = next(iter(windows))
        if not told and WINDOW in schema:
            raise PlanError(f"aggregate: two results are named {WINDOW}; rename the one that is not the window's name.")
        columns: dict[str, Expression] = {}
        for each in schema.names:
            if each == WID and not told:
                columns[WINDOW] = Literal(name)
            columns[each] = Null(self.kind) if each in (START, STOP) and name in self.ranks else Column(each)
        return Project(columns)
