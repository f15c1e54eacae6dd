"""The clocks of keys: by how much each is off, as when its tuples came tells, and the times put right by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.group_text import group_text
from operators.data.keys import KeyIndex
from operators.data.page import Int64s, Page
from operators.data.schema import Schema, type_name
from operators.errors import SchemaError
from operators.streams.skew import RESOLUTION, SECOND, Greatest, Skew
from punctuation import NO_TIME

FORGET: Final = 3600 * SECOND
"""Nanoseconds after which a key that was not heard is forgotten, where there are many."""
_FEW: Final = 1024
_UNITS: Final = {"s": SECOND, "ms": 1_000_000, "us": 1000, "ns": 1}
_SAVED: Final = pa.schema(
    [
        ("skew", pa.list_(pa.int64())), ("greatest", pa.list_(pa.int64())), ("pending", pa.list_(pa.int64())),
    ]
)  # fmt: skip


@attrs.define(eq=False)
class Clock(Skew):
    """The clock of one key. Of the tuples that came in one second the one that is furthest ahead counts, when another
    second begins, so that pages may be cut anywhere; of the first second its first tuple counts at once.
    """

    second: int = attrs.field(init=False, default=NO_TIME)
    furthest: int = attrs.field(init=False, default=0)
    last: int = attrs.field(init=False, default=NO_TIME)

    def hear(self, ahead: Int64s, arrivals: Int64s, *, correct: bool) -> Int64s:
        """Take differences and arrivals, in order and of shape (n,); return what to add to the times of each."""
        if self._ahead is None:
            self.judge(int(ahead[0]), int(arrivals[0]))
            self._put_right(correct=correct)
        seconds = arrivals // SECOND
        first = np.append(0, np.flatnonzero(np.diff(seconds)) + 1)
        furthest, last = np.maximum.reduceat(ahead, first), np.append(first[1:], len(ahead)) - 1
        offsets = np.empty(len(first), np.int64)
        for place, (second, most, at) in enumerate(
            zip(seconds[first].tolist(), furthest.tolist(), arrivals[last].tolist(), strict=True)
        ):
            if second == self.second:
                most = max(most, self.furthest)
            elif self.second != NO_TIME:
                self.judge(self.furthest, self.last)
                self._put_right(correct=correct)
            self.second, self.furthest, self.last = second, most, at
            offsets[place] = self.offset
        return np.repeat(offsets, np.diff(np.append(first, len(ahead))))

    def _put_right(self, *, correct: bool) -> None:
        if correct:
            self.put_right()

    def row(self) -> dict[str, list[int | None] | None]:
        """Return all that is known, as a row of what is saved."""
        plain: list[int | None] = [self.doubted, self.steps, self.offset, self._doubtful, self._agreeing]
        greatest = None if self._ahead is None else self._ahead.numbers()
        return {"skew": plain, "greatest": greatest, "pending": [self.second, self.furthest, self.last]}

    @classmethod
    def of(cls, row: dict[str, list[int]]) -> Clock:
        """Return the clock that a row tells of; ValueError for what is none."""
        made = cls()
        made.doubted, made.steps, made.offset, made._doubtful, made._agreeing = row["skew"]
        made.second, made.furthest, made.last = row["pending"]
        made._ahead = Greatest.restored(row["greatest"])
        return made


@attrs.define(eq=False)
class KeyClocks(memory.Stateful):
    """Estimate the clock of each key from the attribute `clock`, its own time when it sent a tuple, and `arrival`, our
    time when that came. The times `correct` are put right, where there are any.

    The cut of the stream into pages makes no difference. Cost: some array operations a page; in Python a step for each
    key and second in it; some 500 bytes a key. One that was not heard for an hour is forgotten, where there are many.

    >>> schema = Schema.of(k=pa.string(), ts=pa.timestamp("s"), came=pa.timestamp("s"))
    >>> page = Page.of(schema, {"k": ["a", "b", "a"], "ts": [100, 5, 101], "came": [5, 5, 6]})
    >>> clocks = KeyClocks(("k",), "ts", "came", ("ts",))
    >>> clocks.corrected(page).column("ts").cast(pa.int64()).to_pylist(), list(clocks.off())
    ([5, 5, 6], [('k = a', 95000000000)])
    """

    by: tuple[str, ...] = attrs.field(converter=tuple)
    clock: str
    arrival: str
    correct: tuple[str, ...] = attrs.field(converter=tuple, default=())
    _index: KeyIndex | None = attrs.field(init=False, default=None, repr=False)
    _clocks: dict[int, Clock] = attrs.field(init=False, factory=dict, repr=False)
    _newest: int = attrs.field(init=False, default=NO_TIME, repr=False, metadata=memory.integer())
    _most: int = attrs.field(init=False, default=_FEW, repr=False, metadata=memory.integer())
    _rows: pa.RecordBatch | None = attrs.field(
        init=False, default=None, repr=False, metadata=memory.batch(of=lambda clocks: clocks.rows())
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """Name the attributes that tell of clocks."""
        return (*self.by, self.clock, self.arrival)

    def check(self, schema: Schema, where: str) -> None:
        """Raise SchemaError for attributes that are no times."""
        for name in dict.fromkeys((self.clock, self.arrival, *self.correct)):
            field = schema.field(name, where=where)
            if not pa.types.is_timestamp(field.type):
                raise SchemaError(
                    f'{where}: "{name}" is of type {type_name(field)}, and clocks are estimated from times.\n'
                    f'  Read it as one, e.g. types={{"{name}": "epoch_ms"}}, in the shell --types {name}=epoch_ms.'
                )

    def corrected(self, page: Page) -> Page:
        """Take the next page and return it with its times put right."""
        if not len(page):
            return page
        if self._index is None:
            self._index = KeyIndex([page.schema.field(name) for name in self.by])
        self._forget()
        ids = self._index.assign([page.column(name) for name in self.by])
        clock, arrival = _ns(page, self.clock), _ns(page, self.arrival)
        valid = (clock != NO_TIME) & (arrival != NO_TIME)
        shifts = np.zeros(len(page), np.int64)
        order = np.argsort(ids, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(ids[order])) + 1):
            known = self._clocks.setdefault(int(ids[own[0]]), Clock())
            there = valid[own]
            told = own[there]
            before, offsets = known.offset, np.empty(0, np.int64)
            if len(told):
                offsets = known.hear(clock[told] - arrival[told], arrival[told], correct=bool(self.correct))
                self._newest = max(self._newest, int(arrival[told[-1]]))
            # A tuple that does not tell goes with the last one that did.
            shifts[own] = np.append(before, offsets)[np.cumsum(there)]
        return _shifted(page, shifts, self.correct) if shifts.any() else page

    def off(self) -> Iterator[tuple[str, int]]:
        """Yield the keys whose clock is off by more than RESOLUTION, and by how many ns it is ahead."""
        for number, clock in self._clocks.items():
            if abs(clock.skew) > RESOLUTION:
                assert self._index is not None
                schema = Schema(pa.schema(list(self._index.fields)))
                keys = self._index.keys(np.array([number], np.int32))
                yield group_text(schema, schema.names, keys), -clock.skew

    @property
    def count(self) -> int:
        """Return how many clocks are known."""
        return len(self._clocks)

    def _forget(self) -> None:
        if len(self._clocks) <= self._most or self._index is None:
            return
        gone = [number for number, clock in self._clocks.items() if clock.last < self._newest - FORGET]
        for number in gone:
            del self._clocks[number]
        self._index.free(np.array(gone, np.int32))
        self._most = max(_FEW, 2 * len(self._clocks))

    def rows(self) -> pa.RecordBatch | None:
        """Return a row a key: the key, and what is known of its clock; None before the first tuple."""
        if self._index is None:
            return None
        keys = self._index.keys(np.array(list(self._clocks), np.int32))
        known = pa.RecordBatch.from_pylist([clock.row() for clock in self._clocks.values()], schema=_SAVED)
        schema = pa.schema([*self._index.fields, *_SAVED])
        return pa.RecordBatch.from_arrays([*keys, *known.columns], schema=schema)

    def _after_restoring(self) -> None:
        rows, self._rows = self._rows, None
        self._index, self._clocks = None, {}
        if rows is None:
            return
        many = rows.num_columns - len(_SAVED)
        if tuple(rows.schema.names[:many]) != self.by or list(rows.schema)[many:] != list(_SAVED):
            raise ValueError(
                f"the saved clocks have the columns {', '.join(rows.schema.names)}, and these are by"
                f" {', '.join(self.by)}"
            )
        self._index = KeyIndex(list(rows.schema)[:many])
        numbers = self._index.assign(rows.columns[:many]).tolist()
        known = pa.RecordBatch.from_arrays(rows.columns[many:], schema=_SAVED)
        self._clocks = {number: Clock.of(row) for number, row in zip(numbers, known.to_pylist(), strict=True)}


def _unit(page: Page, name: str) -> int:
    return _UNITS[page.schema.field(name).type.unit]


def _ns(page: Page, name: str) -> Int64s:
    """Return times in ns, NO_TIME for null."""
    times, timed = page.timed(name)
    if timed is None:
        return times * _unit(page, name)
    return np.where(timed, np.where(timed, times, 0) * _unit(page, name), NO_TIME)


def _shifted(page: Page, by: Int64s, names: tuple[str, ...]) -> Page:
    """Return a page with these of its times moved, each by its own number of ns."""
    batch = page.batch
    for name in names:
        if name not in page.schema:
            # Nobody reads it.
            continue
        name = page.schema.resolve(name, where="clocks")
        place = batch.schema.get_field_index(name)
        field, (times, timed) = batch.schema.field(place), page.timed(name)
        moved = times + by // _unit(page, name)
        column = pa.array(moved, pa.int64(), mask=None if timed is None else ~timed).view(field.type)
        batch = batch.set_column(place, field, column)
    return Page(page.schema, batch)
