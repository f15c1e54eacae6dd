"""Know of some late tuples why they were late: the promise that each broke, who made it, and what would help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, runtime_checkable

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Bools, Int64s
from operators.data.readable import tick_text, written_unit
from operators.streams.lateness import Lateness
from punctuation import NO_TIME

KEPT: Final = 8
"""Late tuples of a stream that are kept, those that are furthest behind."""


_TEXTS: Final = ("attribute", "value", "promised", "assumed")
_SAVED: Final = pa.schema(
    [
        pa.field(name, pa.string() if name in _TEXTS else pa.int64())
        for name in ("number", "attribute", "value", "promised", "behind", "after", "assumed", "slack")
    ]
)
"""What a late tuple is saved as."""


class _Made(Protocol):
    """The promises of an attribute within a page, and its values."""

    attribute: str
    values: Int64s
    positions: Int64s

    def bound_before(self, indices: Int64s) -> Int64s: ...


@attrs.frozen
class LateTuple:
    """Say why one tuple was late.

    - `number`: how many tuples of its stream came before it.
    - `attribute`, `value`: what it is late by, as text; `promised`: the bound that had been promised.
    - `behind`: how far below it is, in ticks of the attribute.
    - `after`: the number of the tuple behind which that was promised; None where no tuple of the stream brought it.
    - `assumed`: when the clock promised it, as text; None where no clock did.
    - `slack`: the least slack that would have kept it, in ticks; None where a slack would not have.

    >>> from operators.streams.late_tuples import LateTuple
    >>> print(LateTuple(3, "ts", "7", "10", 3, 2, None, 6))
    tuple 3 had ts = 7 when [ts < 10] was promised, behind tuple 2
    """

    number: int
    attribute: str
    value: str
    promised: str
    behind: int
    after: int | None
    assumed: str | None
    slack: int | None

    def __str__(self) -> str:
        """Return it as a clause."""
        who = "by the stream itself" if self.after is None else f"behind tuple {self.after:,}"
        who = who if self.assumed is None else f"by the clock at {self.assumed}"
        said = f"tuple {self.number:,} had {self.attribute} = {self.value}"
        return f"{said} when [{self.attribute} < {self.promised}] was promised, {who}"


@attrs.define(eq=False)
class LateTuples(memory.Stateful):
    """Keep the late tuples of a stream that are furthest behind, and who made the promises they broke."""

    _kept: list[LateTuple] = attrs.field(init=False, factory=list)
    _rows: pa.RecordBatch | None = attrs.field(
        init=False, default=None, metadata=memory.batch(of=lambda own: own.rows())
    )
    """What a saved state has of those, while it is read."""
    _last: dict[str, int] = attrs.field(init=False, factory=dict, metadata=memory.tally())
    """The number of the tuple that brought the last promise of an attribute."""
    _clock: dict[str, int] = attrs.field(init=False, factory=dict, metadata=memory.tally())
    """When the clock made the promise of an attribute that is in force, in its ticks."""

    def __iter__(self) -> Iterator[LateTuple]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def rows(self) -> pa.RecordBatch:
        """Return those that are kept as rows of their fields."""
        return pa.RecordBatch.from_pylist([attrs.asdict(one) for one in self._kept], schema=_SAVED)

    def _after_restoring(self) -> None:
        rows, self._rows = self._rows, None
        if rows is not None:
            if rows.schema != _SAVED:
                raise ValueError(
                    f"late tuples are saved as {', '.join(_SAVED.names)}, not {', '.join(rows.schema.names)}"
                )
            self._kept = [LateTuple(**row) for row in rows.to_pylist()]

    def made(self, attribute: str, number: int) -> None:
        """Note that a tuple brought a promise."""
        self._last[attribute] = number
        self._clock.pop(attribute, None)

    def assumed(self, attribute: str, now: int) -> None:
        """Note that the clock brought one, in ticks of the attribute."""
        self._clock[attribute] = now

    def keep(self, made: _Made, late: Bools, first: int, kind: pa.DataType, lateness: Lateness | None) -> None:
        """Keep the late tuple of a page that is furthest behind; `first` is the number of its first tuple."""
        indices = np.flatnonzero(late)
        bounds = made.bound_before(indices)
        behind = bounds - made.values[indices]
        worst = int(behind.argmax())
        if len(self._kept) == KEPT and int(behind[worst]) <= self._kept[-1].behind:
            return
        index, bound, far = int(indices[worst]), int(bounds[worst]), int(behind[worst])
        value = int(made.values[index])
        place = int(np.searchsorted(made.positions, index)) - 1
        name = made.attribute
        clock = None if place >= 0 else self._clock.get(name)
        after = first + int(made.positions[place]) if place >= 0 else self._last.get(name)
        unit = written_unit(kind)
        slack = None
        if lateness is not None and clock is None:
            highest = max(int(made.values[:index].max(initial=NO_TIME)), lateness.before)
            end = value + lateness.step - (value - lateness.origin) % lateness.step
            # A slack holds promises of tuples back; where none had a time, the stream itself made the promise.
            slack = None if highest == NO_TIME else highest - end + 1
        self._kept.append(
            LateTuple(
                first + index, name, tick_text(value, unit), tick_text(bound, unit), far, after,
                None if clock is None else tick_text(clock, unit), slack,
            )
        )  # fmt: skip
        self._kept.sort(key=lambda one: -one.behind)
        del self._kept[KEPT:]


@runtime_checkable
class KeepsLateTuples(Protocol):
    """An operator that knows of some tuples why they were late."""

    @property
    def late_tuples(self) -> LateTuples:
        """Return those that it keeps."""
        ...
