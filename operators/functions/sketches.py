"""Approximate answers in little memory, by the sketches of the Apache DataSketches package, of which a slot holds one.

The package is optional: pip install 'oop-engine[sketches]'. A sketch is an object, so each page costs a Python call or
more for every slot that it touches, some microseconds, besides its tuples: for few groups and large windows, not for
100,000 groups of a few tuples, which exact functions hold in less. Sketches combine; nothing can be taken from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.page import Page
from operators.data.saved import UNFIT
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.arguments import argument, call, is_floating, is_whole, plain, refuse
from operators.functions.columns import StateColumns, present
from operators.functions.frequent import listed
from operators.functions.function import OfOne
from operators.functions.order import is_bytes, is_keyed
from operators.functions.protocol import Accumulator, Slots
from operators.functions.shares import is_count, percent, share_of
from operators.functions.sketching import Items, Kind, Ranks, Registers, Sketch, package

LOWEST_LG, HIGHEST_LG = 7, 21
_USUAL_LG = 10
"""The size of a sketch of frequent values for shares that need no larger one."""


class _Estimate(OfOne):
    """A function whose answer is an estimate, from sketches of values that can be told apart."""

    __slots__ = ()
    estimates: ClassVar[bool] = True

    def _field(self, schema: Schema) -> pa.Field:
        field = super()._field(schema)
        if is_keyed(field.type) or is_bytes(field.type):
            return field
        instead = "Project it to one of them before."
        raise refuse(self._where, field, "numbers, times, text or binary are needed", instead)


@attrs.frozen
class ApproxCountDistinct(_Estimate):
    """Estimate how many different values an attribute has: int64, zero when there is none; null is no value.

    By HyperLogLog with 2^lg_k registers: a relative standard error of 1.04 / sqrt(2^lg_k), 1.6 % for 12 (0.83 and 1.3 %
    in a window that is one pane, as sketches that are combined know less), and exact up to some ten values. Cost: up to
    2^lg_k bytes a slot, one Python call for each slot and different value of a page.
    """

    lg_k: int = attrs.field(default=12, kw_only=True)
    name = "approx_count_distinct"

    def __attrs_post_init__(self) -> None:
        _within(self.lg_k, LOWEST_LG, HIGHEST_LG, "lg_k", self._where)

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return an int64 field that is never null; SchemaError when values cannot be told apart, or no package."""
        self.accumulator(schema)
        return pa.field(name, pa.int64(), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Sketches(self._field(schema), Registers(package(self._where), self.lg_k))


@attrs.frozen
class ApproxQuantile(_Estimate):
    """Estimate a quantile of an attribute: float64, or a duration; null when there is no value. NaN is skipped.

    By a KLL sketch: the rank of what is given is off by about 1.33 % of all values for k = 200, less for a larger k,
    with 99 % probability; exact up to k values. The sketch draws random numbers, so two runs may differ within the
    error. Cost: about 24 k bytes a slot, one Python call for each slot of a page.
    """

    q: float
    k: int = attrs.field(default=200, kw_only=True)
    name = "approx_quantile"

    def __attrs_post_init__(self) -> None:
        share_of(self.q, where=self._where, zero=True)
        _within(self.k, 8, 65535, "k", self._where)

    def output_name(self) -> str:
        """Return "approx_p95_x" for q = 0.95."""
        return f"approx_p{percent(self.q)}_{self.argument}"

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a float64 or duration field; SchemaError for what is no number, or without the package."""
        package(self._where)
        kind = self._field(schema).type
        return pa.field(name, kind if pa.types.is_duration(kind) else pa.float64())

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Sketches(self._field(schema), Ranks(package(self._where), self.k, self.q))

    def _field(self, schema: Schema) -> pa.Field:
        field = argument(schema, self.argument, where=self._where)
        if is_whole(field.type) or is_floating(field.type):
            return field
        raise refuse(
            self._where, field, "numbers or durations are needed", f"Write quantile({self.argument}, {self.q})."
        )

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.q))


@attrs.frozen
class ApproxHeavyHitters(_Estimate):
    """List the values that may be at least a share of all, with estimated counts, largest first; empty without any.

    By a frequent-items sketch of up to 0.75 * 2^lg_k values: none that has the share is left out, and one that has not
    may be listed when it lacks less than 3.5 / 2^lg_k of all; exact while there are no more values than that. Counts
    are estimated from above by as much. Without `lg_k` the sketch is so large that this is half the share at most: 10
    for a share of 0.007 or more, 13 for 0.001. SchemaError for a size that would leave out values that have the share.
    Cost: up to 2^lg_k entries a slot, one Python call for each slot and different value of a page.
    """

    share: float
    lg_k: int | None = attrs.field(default=None, kw_only=True)
    name = "approx_heavy_hitters"

    def __attrs_post_init__(self) -> None:
        share = share_of(self.share, where=self._where, zero=False)
        if self.lg_k is not None:
            _within(self.lg_k, 3, HIGHEST_LG, "lg_k", self._where)
        if _error(self._size) < share:
            return
        least = next((lg_k for lg_k in range(self._size, HIGHEST_LG + 1) if _error(lg_k) < share), None)
        remedy = f"write lg_k={least}, or leave it out" if least is not None else "choose a larger share"
        raise SchemaError(
            f"{self._where}: a sketch of 2^{self._size} entries knows counts to within"
            f" {float(_error(self._size)):.2g} of all values, and may miss some that have a share of {self.share}.\n"
            f"  {remedy.capitalize()}; or write heavy_hitters({self.argument}, {self.share}) for the exact answer."
        )

    @property
    def _size(self) -> int:
        """Return the size; the sketch has 2^size entries at most."""
        if self.lg_k is not None:
            return self.lg_k
        share = share_of(self.share, where=self._where, zero=False)
        return next((lg_k for lg_k in range(_USUAL_LG, HIGHEST_LG) if 2 * _error(lg_k) <= share), HIGHEST_LG)

    def output_field(self, schema: Schema, name: str) -> pa.Field:
        """Return a field of lists of (value, count); SchemaError when values cannot be told apart, or no package."""
        package(self._where)
        return pa.field(name, listed(self._field(schema)), nullable=False)

    def accumulator(self, schema: Schema) -> Accumulator:
        """Make an empty accumulator."""
        return Sketches(self._field(schema), Items(package(self._where), self._size, self.share))

    @property
    def _where(self) -> str:
        return call(self.name, self.argument, str(self.share))


@attrs.define
class Saved(memory.Stateful):
    """The sketches of slots as they are saved: their bytes."""

    slots: Slots = attrs.field(factory=lambda: np.empty(0, np.int32), metadata=memory.array(apart=True))
    sketches: pa.RecordBatch = attrs.field(factory=lambda: _batch(()), metadata=memory.batch())


@attrs.define(eq=False)
class Sketches(StateColumns):
    """Hold one sketch for each slot that has a value."""

    field: pa.Field
    kind: Kind
    _held: dict[int, Sketch] = attrs.field(factory=lambda: {}, init=False)
    _form: None = attrs.field(init=False, default=None, metadata=memory.form(Saved, "_become", lambda own: own.saved()))

    @property
    def nbytes(self) -> int:
        return 64 + sum(100 + self.kind.size(sketch) for sketch in self._held.values())

    def init(self, slots: Slots) -> None:
        self.free(slots)

    def update(self, slots: Slots, page: Page) -> None:
        slots, skipped = present(slots, page.valid(self.field.name))
        self.nulls += skipped
        order = np.argsort(slots, kind="stable")
        order = order[int(np.count_nonzero(slots < 0)) :]
        if len(order) == 0:
            return
        column = plain(page, self.field.name).take(pa.array(order))
        owners = slots[order]
        starts = np.flatnonzero(np.diff(owners, prepend=np.int32(-1)))
        stops = np.append(starts[1:], len(owners))
        for slot, start, stop in zip(owners[starts].tolist(), starts.tolist(), stops.tolist(), strict=True):
            sketch = self._held.get(slot)
            if sketch is None:
                sketch = self._held[slot] = self.kind.new()
            self.kind.add(sketch, column.slice(start, stop - start))

    def combine(self, into: Slots, source: Slots) -> None:
        for to, of in zip(into.tolist(), source.tolist(), strict=True):
            added = self._held.get(of)
            if added is not None:
                # A slot that is combined with itself has each value twice, so the source must not change on the way.
                held = self._held.get(to, self.kind.new())
                self._held[to] = self.kind.merged(held, self.kind.load(self.kind.save(added)) if to == of else added)

    def finalize(self, slots: Slots) -> pa.Array:
        return self.kind.answer([self._held.get(slot) for slot in slots.tolist()], self.field)

    def free(self, slots: Slots) -> None:
        for slot in slots.tolist():
            self._held.pop(slot, None)

    def saved(self) -> Saved:
        """Return the bytes of all sketches."""
        return Saved(np.array(list(self._held), np.int32), _batch(map(self.kind.save, self._held.values())))

    def _become(self, saved: Saved) -> None:
        column = saved.sketches.column(0)
        if len(column) != len(saved.slots) or not pa.types.is_binary(column.type) or column.null_count:
            raise ValueError(f'the saved state has {len(column)} values of {column.type} in "sketches"')
        try:
            self._held = {s: self.kind.load(b) for s, b in zip(saved.slots.tolist(), column.to_pylist(), strict=True)}
        except (RuntimeError, *UNFIT) as error:
            raise ValueError(f'the saved state has in "sketches" bytes that are no sketch: {error}') from error


def _error(lg_k: int) -> Fraction:
    """Return the share of all values by which a sketch of frequent ones may be off."""
    return Fraction(7, 2 << lg_k)


def _within(value: int, least: int, most: int, name: str, where: str) -> None:
    if not is_count(value) or not least <= value <= most:
        raise SchemaError(f"{where}: {name}={value} is not within {least} and {most}.\n  Write {name}={most // 2 + 2}.")


def _batch(saved: Iterable[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(saved, pa.binary())], ["sketch"])
