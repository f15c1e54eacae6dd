"""The columns of windows: those they are over, and those of their results, window-ids and extents."""

from __future__ import annotations

import attrs
import pyarrow as pa

from operators.data.page import INT64, Int64s, tick_column
from operators.data.repeated import Repeated
from operators.data.steps import in_steps
from operators.errors import SchemaError
from operators.kernels.ticks import FOREVER


@attrs.define(eq=False)
class KeptExtents:
    """Keep the columns of the last window whose results had a page of their own: the next page may be of it, too."""

    _wid: Repeated = attrs.field(init=False, factory=Repeated)
    _begin: Repeated = attrs.field(init=False, factory=Repeated)
    _end: Repeated = attrs.field(init=False, factory=Repeated)

    def columns(self, wid: int, begin: int, end: int, rows: int, kind: pa.DataType) -> list[pa.Array]:
        """Return window-id, begin and end in so many rows; the window neither begins nor ends with the stream."""
        begins, ends = self._begin.column(begin, rows, kind), self._end.column(end, rows, kind)
        return [self._wid.column(wid, rows, INT64), begins, ends]


def extent_columns(
    wids: Int64s, begins: Int64s, ends: Int64s, kind: pa.DataType, *, bounded: bool = False
) -> list[pa.Array]:
    """Return window-ids, begins and ends as columns, the last two of the type of the windowing attribute.

    Null where a window begins with the stream (landmark windows), or ends with it (behind the last edge of a user's):
    not where all are `bounded`.
    """
    beyond = None if bounded else FOREVER
    return [tick_column(wids), tick_column(begins, kind, beyond=beyond), tick_column(ends, kind, beyond=beyond)]


def into_steps(field: pa.Field) -> str:
    """Say how an attribute that does not count in steps becomes one that does, by its type.

    It must be one where the stream begins: nothing is promised on a float or on text, so nothing on what is made of it.
    """
    name, kind = field.name, field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (
            f'Times of a table are read as such with types={{"{name}": "timestamp"}} (ISO 8601 text) or "epoch"'
            f" (seconds since 1970),\n  in the shell --types {name}=timestamp."
        )
    if pa.types.is_decimal(kind):
        return f'Decimals of at most 18 digits count in steps: read it with types={{"{name}": "decimal(18, 2)"}}, say.'
    if pa.types.is_floating(kind):
        return (
            f'A float has no steps: 0.3 lies a little below three tenths.\n  Read it as a decimal, types={{"{name}":'
            f' "decimal(18, 2)"}}, in the shell --types "{name}=decimal(18, 2)";\n  of an Arrow table cast it first,'
            f' table["{name}"].cast(pa.decimal128(18, 2)).\n  Seconds since 1970 are read as times with'
            f' types={{"{name}": "epoch"}}, in the shell --types {name}=epoch.'
        )
    return "Window on an integer, a time or a decimal."


def check_times_of_flow(start: pa.Field, end: pa.Field, where: str) -> None:
    """Raise SchemaError unless two attributes can say when a flow starts and ends; `where` begins the message."""
    for field in (start, end):
        if not in_steps(field.type):
            raise SchemaError(
                f'{where}: "{field.name}" has type {field.type}; a flow starts and ends at a time or a number.\n'
                f"  {into_steps(field)}"
            )
    if start.type != end.type:
        raise SchemaError(
            f'{where}: "{start.name}" has type {start.type} and "{end.name}" {end.type}.\n'
            "  Give both the same type first."
        )
