"""A cardinality states how many partners a tuple of a join has at most, and a check counts what breaks the statement.

In an extension join the equality attributes are a key of one input, so that each tuple of the other has at most one
partner, and need not be remembered once it met that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.expiry import Expiry
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Int64s
from operators.errors import SchemaError
from operators.join.bounds import latest
from operators.join.store import read_only
from operators.join.tuples import Tuples
from operators.join.window import JoinWindow, KnowsNear, Near
from operators.kernels.join.unique import too_near
from operators.kernels.ticks import FAR
from operators.streams.named_groups import matched
from punctuation import Pattern, Punctuation, below, whole

Cardinality: TypeAlias = Literal["many to many", "many to one", "one to many", "one to one"]
CARDINALITIES: Final[Mapping[Cardinality, tuple[bool, bool]]] = {
    "many to many": (False, False),
    "many to one": (True, False),
    "one to many": (False, True),
    "one to one": (True, True),
}
"""Whether a tuple of the left, and of the right input, has at most one partner."""


def _column() -> Int64s:
    return np.zeros(0, np.int64)


@attrs.define(eq=False)
class KeyCheck(memory.Slotted):
    """Count the tuples of one input that break the statement that its equality attributes are a key.

    That says: no two of its tuples have equal keys, and times so near that one tuple of the other input might meet
    both. Tuples of a key that are in one cell of time are that near, and so may be those in cells beside one another.
    So the check remembers, by key and cell, the least and the most time, until no later tuple can be so near.
    Cost: O(1) a tuple; about 60 bytes a tuple, its key included where that is short.
    """

    port: int
    keys: tuple[pa.Field, ...]
    names: tuple[str, ...]
    """What the input calls the equality attributes."""
    wattr: str
    near: Near
    index: KeyIndex = attrs.field(init=False, metadata=memory.part())
    _least: Int64s = attrs.field(init=False, factory=_column, metadata=memory.slots())
    _most: Int64s = attrs.field(init=False, factory=_column, metadata=memory.slots())
    _expiry: Expiry = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        """Return the number of keys and cells that are remembered."""
        return len(self.index)

    def came(self, tuples: Tuples) -> int:
        """Remember tuples of the input; return how many of them are too near an earlier one of their key."""
        cells = (tuples.ticks - self.near.origin) // self.near.size
        ids, fresh = self.index.assign_new([*tuples.keys, pa.array(cells)])
        new = ids[fresh]
        self.reserve(self.index.capacity)
        self._least[new], self._most[new] = FAR, -FAR
        earlier, later = np.full((2, len(ids)), -1, np.int32)
        if self.near.distance:
            earlier = self.index.find([*tuples.keys, pa.array(cells - 1)])
            later = self.index.find([*tuples.keys, pa.array(cells + 1)])
        near = np.empty(len(ids), np.bool_)
        too_near(ids, earlier, later, read_only(tuples.ticks), self.near.distance, self._least, self._most, near)
        self._expiry.add(new, self._until(new, cells[fresh]))
        return int(np.count_nonzero(near))

    def advance(self, bound: int) -> None:
        """Forget what no tuple of the input from a bound on can be too near."""
        bound = latest(bound)
        gone = self._expiry.expire(bound)
        if not len(gone):
            return
        # A cell may have got a later tuple since.
        until = self._until(gone, self._cells(gone))
        stays = until >= bound
        self._expiry.add(gone[stays], until[stays])
        self.index.free(gone[~stays])

    def advance_keys(self, promise: Punctuation) -> None:
        """Forget what a promise of single keys allows to."""
        patterns: dict[str, Pattern] = {
            field.name: promise.pattern(name)
            for field, name in zip(self.index.fields, self.names, strict=False)
            if name in promise.attributes
        }
        others = set(promise.attributes) - set(self.names)
        bound = whole(below(promise.pattern(self.wattr)))
        if not patterns or others - {self.wattr} or (others and bound is None):
            return
        ids = matched(self.index, Punctuation(patterns))
        if bound is not None:
            ids = ids[self._until(ids, self._cells(ids)) < latest(bound)]
        if len(ids):
            gone = np.zeros(self.index.capacity, np.bool_)
            gone[ids] = True
            self._expiry.forget(gone)
            self.index.free(ids)

    def clear(self) -> None:
        """Forget everything."""
        # By number, for two attributes of an input may have to be equal to one of the other.
        fields = [field.with_name(f"key {number}") for number, field in enumerate(self.keys)]
        self.index, self._expiry = KeyIndex([*fields, pa.field("cell", pa.int64())]), Expiry()
        self._least, self._most = _column(), _column()

    def _cells(self, ids: Ids) -> Int64s:
        return self.index.keys(ids)[-1].to_numpy()

    def _until(self, ids: Ids, cells: Int64s) -> Int64s:
        """Return the last time of what is too near the tuples of these cells."""
        ends = self.near.origin + (cells + 1) * self.near.size - 1
        return np.maximum(ends, self._most[ids] + self.near.distance)

    def _after_restoring(self) -> None:
        super()._after_restoring()
        self.reserve(self.index.capacity)
        live = self.index.live()
        self._expiry = Expiry()
        self._expiry.add(live, self._until(live, self._cells(live)))


def checks(
    cardinality: Cardinality,
    keys: tuple[pa.Field, ...],
    names: tuple[Sequence[str], Sequence[str]],
    wattrs: tuple[str, str],
    window: JoinWindow,
) -> dict[int, KeyCheck]:
    """Return the checks of what a cardinality states, by the port whose attributes are a key.

    SchemaError where the window does not say which tuples of an input are near one another.
    """
    once = CARDINALITIES[cardinality]
    if not any(once):
        return {}
    near = window.near() if isinstance(window, KnowsNear) else None
    if near is None:
        raise SchemaError(
            f"join: {cardinality} is stated of windows of range or tumbling, and this one is {window}.\n"
            "  Leave the cardinality out, or join by range."
        )
    return {port: KeyCheck(port, keys, tuple(names[port]), wattrs[port], near) for port in (0, 1) if once[1 - port]}
