"""How many partners a tuple of a join may have, as its user states it, and the check of what is stated.

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
from operators.data.keys import KeyIndex
from operators.data.page import ROWS
from operators.join.bounds import latest
from operators.join.side import Side, Stored
from operators.join.store import Store
from operators.join.tuples import Tuples
from operators.join.window import JoinWindow
from operators.kernels.ticks import FAR, LIMIT
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
_TICKS: Final = pa.schema([("tick", pa.int64())])


@attrs.define(eq=False)
class KeyCheck(memory.Stateful):
    """Count the tuples of one input that break the statement that its equality attributes are a key.

    That says: no two of its tuples have equal keys, and times so near that one tuple of the other input might meet
    both. A tuple is remembered, by its key and its time alone, until no later one of its input can be so near.
    Cost: O(log n) a tuple; 48 bytes a tuple, and its key.
    """

    port: int
    keys: tuple[pa.Field, ...]
    names: tuple[str, ...]
    """What the input calls the equality attributes."""
    wattr: str
    window: JoinWindow
    index: KeyIndex | None = attrs.field(init=False, metadata=memory.part())
    _side: Side = attrs.field(init=False, metadata=memory.counted())
    _stored: Stored = attrs.field(init=False, factory=Stored, metadata=memory.part(of=lambda own: own._side.stored()))
    """What the side is made of when it is restored."""

    def __attrs_post_init__(self) -> None:
        self.clear()

    def __len__(self) -> int:
        """Return the number of tuples that are remembered."""
        return len(self._side)

    def came(self, tuples: Tuples) -> int:
        """Remember tuples of the input; return how many of them are too near an earlier one of their key."""
        ids = np.zeros(len(tuples), np.int32)
        if self.index is not None:
            ids = self.index.assign(tuples.keys)
            self._side.store.reserve(self.index.capacity)
        batch = pa.RecordBatch.from_arrays([pa.array(tuples.ticks)], schema=_TICKS)
        base = self._side.store.insert(ids, tuples.ticks, batch, None)
        low, high = self._near(tuples)
        broken = np.zeros(len(tuples), np.bool_)
        for pairs in self._side.store.probe(ids, low, high, size=ROWS):
            broken[pairs.rows[pairs.positions < base + pairs.rows]] = True
        return int(np.count_nonzero(broken))

    def advance(self, bound: int) -> None:
        """Forget the tuples that none of the input from a bound on can be too near."""
        if len(self._side):
            _, emptied = self._side.purge(self._least(bound))
            if self.index is not None:
                self.index.free(emptied)

    def advance_keys(self, promise: Punctuation) -> None:
        """Forget what a promise of single keys allows to."""
        patterns: dict[str, Pattern] = {
            field.name: promise.pattern(name)
            for field, name in zip(self.keys, self.names, strict=True)
            if name in promise.attributes
        }
        others = set(promise.attributes) - set(self.names)
        bound = whole(below(promise.pattern(self.wattr)))
        if self.index is None or not patterns or others - {self.wattr} or (others and bound is None):
            return
        ids = matched(self.index, Punctuation(patterns))
        if len(ids):
            settled = np.full(len(ids), FAR if bound is None else self._least(bound))
            _, emptied = self._side.store.purge_keys(ids, settled)
            self.index.free(emptied)

    def clear(self) -> None:
        """Forget everything."""
        self._side = Side(_TICKS, Store(self.window.span))
        self.index = KeyIndex(self.keys) if self.keys else None

    def _near(self, tuples: Tuples) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last time of what is too near each tuple: it has a partner in common with it."""
        first, _ = self.window.partners(tuples.low, 1 - self.port)
        _, last = self.window.partners(tuples.high, 1 - self.port)
        return first, last

    def _least(self, bound: int) -> int:
        """Return the first time of what is too near a tuple at a bound."""
        ticks = np.array([max(-2 * LIMIT, min(latest(bound), 2 * LIMIT))])
        partners, _ = self.window.partners(ticks, self.port)
        first, _ = self.window.partners(partners, 1 - self.port)
        return int(first[0])

    def _after_restoring(self) -> None:
        stored = self._stored
        if stored.tuples is not None:
            if not stored.tuples.schema.equals(_TICKS):
                raise ValueError(f"the saved state has keys with {stored.tuples.schema.names}, not {_TICKS.names}")
            if self.index is not None:
                self.index.check_live(stored.ids, "ids")
                self._side.store.reserve(self.index.capacity)
            self._side.store.insert(stored.ids, stored.ticks, stored.tuples, None)
        self._stored = Stored()


def checks(
    cardinality: Cardinality,
    keys: tuple[pa.Field, ...],
    names: tuple[Sequence[str], Sequence[str]],
    wattrs: tuple[str, str],
    window: JoinWindow,
) -> dict[int, KeyCheck]:
    """Return the checks of what a cardinality states, by the port whose attributes are a key."""
    once = CARDINALITIES[cardinality]
    return {port: KeyCheck(port, keys, tuple(names[port]), wattrs[port], window) for port in (0, 1) if once[1 - port]}
