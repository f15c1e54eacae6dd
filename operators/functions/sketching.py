"""Each kind of sketch is made, filled, combined, asked and saved in its own way; here they all look alike.

A sketch is whatever object the Apache DataSketches package makes of it, and is only handed back to that package.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.errors import SchemaError
from operators.functions.arguments import call, floating, result
from operators.functions.frequent import list_of
from operators.functions.order import is_keyed, keys, ranks, unkeyed, unsigned_zero
from operators.functions.shares import rounded_up, share_of

Sketch: TypeAlias = object
"""A sketch of any kind; only its `Kind` knows more of it."""


class Kind(Protocol):
    """A kind of sketches: how they are made, filled, combined, asked and saved; a frozen value."""

    def new(self) -> Sketch:
        """Make an empty sketch."""
        ...

    def add(self, sketch: Sketch, values: pa.Array) -> None:
        """Add the values of one slot, none of them null."""
        ...

    def merged(self, sketch: Sketch, other: Sketch) -> Sketch:
        """Return the sketch of both; the first may be changed, the other is not."""
        ...

    def answer(self, sketches: Sequence[Sketch | None], field: pa.Field) -> pa.Array:
        """Return one result for each; None is an empty one."""
        ...

    def save(self, sketch: Sketch) -> bytes:
        """Return a sketch as bytes."""
        ...

    def load(self, saved: bytes) -> Sketch:
        """Make the sketch that was saved."""
        ...

    def size(self, sketch: Sketch) -> int:
        """Return about how many bytes a sketch holds."""
        ...


def package(where: str) -> ModuleType:
    """Return the package of sketches; SchemaError that says how to install it."""
    try:
        return importlib.import_module("datasketches")
    except ImportError as error:
        exact = where.partition("(")[0].removeprefix("approx_")
        raise SchemaError(
            f"{where}: the package datasketches is not installed.\n"
            f"  Run pip install 'oop-engine[sketches]', or write {exact} for the exact answer."
        ) from error


@attrs.frozen
class Registers:
    """HyperLogLog: the largest number of leading zeros of a hash, in each of 2^lg_k registers of 8 bits."""

    package: ModuleType
    lg_k: int

    def new(self) -> Sketch:
        return self.package.hll_sketch(self.lg_k, self.package.tgt_hll_type.HLL_8)

    def add(self, sketch: Sketch, values: pa.Array) -> None:
        update = self.package.hll_sketch.update
        for item in _items(values.unique()):
            # The package skips empty texts, so none is left empty.
            update(sketch, "=" + item if isinstance(item, str) else item)

    def merged(self, sketch: Sketch, other: Sketch) -> Sketch:
        union = self.package.hll_union(self.lg_k)
        union.update(sketch)
        union.update(other)
        return union.get_result(self.package.tgt_hll_type.HLL_8)

    def answer(self, sketches: Sequence[Sketch | None], field: pa.Field) -> pa.Array:
        estimate = self.package.hll_sketch.get_estimate
        return pa.array([0 if sketch is None else round(estimate(sketch)) for sketch in sketches], pa.int64())

    def save(self, sketch: Sketch) -> bytes:
        return self.package.hll_sketch.serialize_updatable(sketch)

    def load(self, saved: bytes) -> Sketch:
        return self.package.hll_sketch.deserialize(saved)

    def size(self, sketch: Sketch) -> int:
        return self.package.hll_sketch.get_updatable_serialization_bytes(sketch)


@attrs.frozen
class Ranks:
    """KLL: a sample of the values in levels, each of which stands for twice as many as the one below."""

    package: ModuleType
    k: int
    q: float

    def new(self) -> Sketch:
        return self.package.kll_doubles_sketch(self.k)

    def add(self, sketch: Sketch, values: pa.Array) -> None:
        # The package takes only arrays that it might write to.
        self.package.kll_doubles_sketch.update(sketch, np.array(floating(values)))

    def merged(self, sketch: Sketch, other: Sketch) -> Sketch:
        self.package.kll_doubles_sketch.merge(sketch, other)
        return sketch

    def answer(self, sketches: Sequence[Sketch | None], field: pa.Field) -> pa.Array:
        of, empty = self.package.kll_doubles_sketch.get_quantile, self.package.kll_doubles_sketch.is_empty
        there = np.array([sketch is not None and not empty(sketch) for sketch in sketches], np.bool_)
        found = np.zeros(len(sketches), np.float64)
        for i in np.flatnonzero(there).tolist():
            found[i] = of(sketches[i], self.q, True)
        if pa.types.is_duration(field.type):
            return result(np.rint(found).astype(np.int64), there, field.type)
        return result(found, there, pa.float64())

    def save(self, sketch: Sketch) -> bytes:
        return self.package.kll_doubles_sketch.serialize(sketch)

    def load(self, saved: bytes) -> Sketch:
        return self.package.kll_doubles_sketch.deserialize(saved)

    def size(self, sketch: Sketch) -> int:
        return 8 * self.package.kll_doubles_sketch.num_retained.__get__(sketch)


@attrs.frozen
class Items:
    """Frequent items: counts of the values, from all of which as much is taken when there are too many."""

    package: ModuleType
    lg_k: int
    share: float

    def new(self) -> Sketch:
        return self.package.frequent_strings_sketch(self.lg_k)

    def add(self, sketch: Sketch, values: pa.Array) -> None:
        update = self.package.frequent_strings_sketch.update
        counted = values.value_counts()
        for item, count in zip(_items(counted.field("values")), counted.field("counts").to_pylist(), strict=True):
            update(sketch, str(item), count)

    def merged(self, sketch: Sketch, other: Sketch) -> Sketch:
        self.package.frequent_strings_sketch.merge(sketch, other)
        return sketch

    def answer(self, sketches: Sequence[Sketch | None], field: pa.Field) -> pa.Array:
        frequent = self.package.frequent_strings_sketch.get_frequent_items
        weight = self.package.frequent_strings_sketch.total_weight.__get__
        share = share_of(self.share, where=call("approx_heavy_hitters", field.name), zero=False)
        complete = self.package.frequent_items_error_type.NO_FALSE_NEGATIVES
        found: list[tuple[int, str, int]] = []
        for i, sketch in enumerate(sketches):
            if sketch is not None:
                enough = int(rounded_up(share, np.array([weight(sketch)]))[0])
                found += [(i, item, count) for item, count, _, _ in frequent(sketch, complete, enough - 1)]
        owners = np.array([owner for owner, _, _ in found], np.int64)
        counts = np.array([count for _, _, count in found], np.int64)
        values = _values([item for _, item, _ in found], field.type)
        order = np.lexsort((ranks(values), -counts, owners))
        numbers = np.bincount(owners, minlength=len(sketches))
        return list_of(field, values.take(pa.array(order)), counts[order], numbers)

    def save(self, sketch: Sketch) -> bytes:
        return self.package.frequent_strings_sketch.serialize(sketch)

    def load(self, saved: bytes) -> Sketch:
        return self.package.frequent_strings_sketch.deserialize(saved)

    def size(self, sketch: Sketch) -> int:
        return self.package.frequent_strings_sketch.get_serialized_size_bytes(sketch)


def _items(values: pa.Array) -> list[int] | list[str]:
    """Return values as what a sketch hashes: keys of numbers and times, text, or bytes as text of their code points."""
    if is_keyed(values.type):
        return unsigned_zero(keys(values), values.type).tolist()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.to_pylist()
    return [value.decode("latin-1") for value in values.to_pylist()]


def _values(items: Sequence[str], kind: pa.DataType) -> pa.Array:
    """Return the values that items stand for."""
    if is_keyed(kind):
        return unkeyed(np.array([int(item) for item in items], np.int64), np.ones(len(items), np.bool_), kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(items, kind)
    return pa.array([item.encode("latin-1") for item in items], kind)
