"""Exact sums of whole numbers by slot are 128 bits wide while slots are few, and a word each where they are many.

Rows of 24 bytes are the fastest while they stay in the cache. Many slots are words of 8 bytes, of which those that
outgrow theirs have a row besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs
import numpy as np

from operators.data import memory
from operators.data.page import Bools, Int64s
from operators.functions.columns import frozen, grown
from operators.functions.protocol import RunningTotals, Slots, Step
from operators.kernels.functions import totals
from operators.kernels.functions.sums import (
    BLOCK,
    LANE,
    LANES,
    SIGNED,
    UNSIGNED,
    accumulate_whole,
    add_whole,
    between_whole,
    clear,
    combine_whole,
    combine_whole_blocks,
    difference_whole,
    read_sums,
    read_whole,
    run_whole,
    step_whole,
    subtract_whole,
)

FEW = 1 << 14
"""So many slots are few."""
NO_ROWS = np.zeros((0, 3), np.int64)
Given: TypeAlias = tuple[Int64s, Bools, bool, int]
"""Low limbs, which slots have a value, whether all have, and the first whose sum does not fit 64 bits, or -1."""


@attrs.define(eq=False)
class Rows(memory.Slotted):
    """Hold low limb, high limb and number of values of each slot in a row."""

    _sums: Int64s = attrs.field(default=NO_ROWS, metadata=memory.slots())
    _lanes: Int64s = attrs.field(init=False, factory=lambda: np.empty((LANES, LANE, 3), np.int64))
    """Room to work in."""

    def clear(self, slots: Slots) -> None:
        """Set the sums of these slots to nothing."""
        clear(frozen(slots), self._sums)

    def free(self, slots: Slots) -> None:
        """Let slots go: nothing is held for one beyond its row."""

    def add(self, slots: Slots, values: Int64s, *, signed: bool) -> None:
        """Add each value to its slot, -1 for none."""
        add_whole(slots, values, SIGNED if signed else UNSIGNED, self._sums, self._lanes)

    def step(self, slots: Slots, values: Int64s, step: Step, *, signed: bool) -> tuple[Int64s, Int64s] | None:
        """Do what `Stepping` says; gives low limb and number of values of each result as `differences` does."""
        low, number = np.empty((2, len(step.results)), np.int64)
        plain = step_whole(slots, values, SIGNED if signed else UNSIGNED, self._sums, self._lanes, *step, low, number)
        return (low, number) if plain else None

    def run(
        self, slots: Slots, values: Int64s, running: RunningTotals, *, signed: bool
    ) -> tuple[Int64s, Int64s] | None:
        """Do what `Summing` says; gives what `differences` does."""
        low, number = np.empty((2, len(running.later)), np.int64)
        plain = run_whole(slots, values, SIGNED if signed else UNSIGNED, self._sums, self._lanes, *running, low, number)
        return (low, number) if plain else None

    def combine(self, into: Slots, source: Slots) -> None:
        """Add the sums of `source` to those of `into`, in order."""
        combine_whole(frozen(into), frozen(source), self._sums)

    def clear_blocks(self, blocks: Slots) -> None:
        """Set the sums of all slots of blocks to nothing."""
        self._sums.reshape(-1, BLOCK, 3)[blocks] = 0

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        """Combine all slots of blocks, as `Blockwise` says."""
        combine_whole_blocks(frozen(into), frozen(source), self._sums)

    def subtract(self, into: Slots, source: Slots) -> None:
        """Take the sums of `source` from those of `into`, in order."""
        subtract_whole(frozen(into), frozen(source), self._sums)

    def accumulate(self, into: Slots, source: Slots, before: int) -> None:
        """Set running totals, as `Totalling` says."""
        accumulate_whole(into, source, before, self._sums)

    def difference(self, into: Slots, later: Slots, earlier: Slots) -> None:
        """Set differences, as `Totalling` says."""
        difference_whole(into, later, earlier, self._sums)

    def differences(self, later: Slots, earlier: Slots) -> tuple[Int64s, Int64s] | None:
        """Return low limb and number of values of each difference; None where one has no value, or not 64 bits."""
        low, number = np.empty((2, len(later)), np.int64)
        return (low, number) if between_whole(later, earlier, self._sums, low, number) else None

    def limbs(self, slots: Slots) -> tuple[Int64s, Int64s, Int64s]:
        """Return low limb, high limb and number of values of each slot."""
        low, high, number = (np.empty(len(slots), np.int64) for _ in range(3))
        read_whole(frozen(slots), self._sums, low, high, number)
        return low, high, number

    def sums(self, slots: Slots) -> Given:
        """Return the low limb of each slot and what it is worth."""
        low, there = np.empty(len(slots), np.int64), np.empty(len(slots), np.bool_)
        full, wide = read_sums(frozen(slots), self._sums, low, there)
        return low, there, bool(full), int(wide)

    def numbers(self, slots: Slots) -> Int64s:
        """Return how many values each slot has."""
        return self._sums[slots, 2]

    def all(self) -> Int64s:
        """Return the rows of all slots, copied."""
        return self._sums.copy()


@attrs.define(eq=False)
class Words(memory.Slotted):
    """Hold a word for each slot, and rows for the sums that have outgrown theirs."""

    _words: Int64s = attrs.field(factory=lambda: np.zeros(0, np.int64), metadata=memory.slots())
    _wide: Int64s = attrs.field(default=NO_ROWS, metadata=memory.rebuilt())
    _ledger: Int64s = attrs.field(factory=lambda: np.array([0, -1]))

    @classmethod
    def of(cls, rows: Int64s) -> Words:
        """Take over rows of low limb, high limb and number of values."""
        self, given = cls(np.zeros(len(rows), np.int64)), frozen(rows)
        self._go_on(len(given), lambda done: totals.write(given, done, self._words, self._wide, self._ledger))
        return self

    def clear(self, slots: Slots) -> None:
        """Set the sums of these slots to nothing."""
        totals.clear(frozen(slots), self._words, self._wide, self._ledger)

    def free(self, slots: Slots) -> None:
        """Let slots go, and the rows that they have besides."""
        self.clear(slots)

    def add(self, slots: Slots, values: Int64s, *, signed: bool) -> None:
        """Add each value to its slot, -1 for none."""
        kind = SIGNED if signed else UNSIGNED
        self._go_on(
            len(slots), lambda done: totals.add(slots, values, kind, done, self._words, self._wide, self._ledger)
        )

    def combine(self, into: Slots, source: Slots) -> None:
        """Add the sums of `source` to those of `into`, in order."""
        into, source = frozen(into), frozen(source)
        self._go_on(len(into), lambda done: totals.combine(into, source, done, self._words, self._wide, self._ledger))

    def clear_blocks(self, blocks: Slots) -> None:
        """Set the sums of all slots of blocks to nothing, and take back their rows."""
        totals.clear_blocks(frozen(blocks), self._words, self._wide, self._ledger)

    def combine_blocks(self, into: Slots, source: Slots) -> None:
        """Combine all slots of blocks, as `Blockwise` says."""
        into, source = frozen(into), frozen(source)
        self._go_on(
            BLOCK * len(into),
            lambda done: totals.combine_blocks(into, source, done, self._words, self._wide, self._ledger),
        )

    def subtract(self, into: Slots, source: Slots) -> None:
        """Take the sums of `source` from those of `into`, in order."""
        into, source = frozen(into), frozen(source)
        self._go_on(len(into), lambda done: totals.subtract(into, source, done, self._words, self._wide, self._ledger))

    def _go_on(self, number: int, some: Callable[[int], np.signedinteger]) -> None:
        """Call what gives how far it came until it has come to the end, with more rows each time."""
        done = int(some(0))
        while done < number:
            self._wide = grown(self._wide, max(4, 2 * len(self._wide)))
            done = int(some(done))

    def limbs(self, slots: Slots) -> tuple[Int64s, Int64s, Int64s]:
        """Return low limb, high limb and number of values of each slot."""
        low, high, number = (np.empty(len(slots), np.int64) for _ in range(3))
        totals.read(frozen(slots), self._words, self._wide, low, high, number)
        return low, high, number

    def sums(self, slots: Slots) -> Given:
        """Return the low limb of each slot and what it is worth."""
        low, there = np.empty(len(slots), np.int64), np.empty(len(slots), np.bool_)
        full, wide = totals.read_sums(frozen(slots), self._words, self._wide, low, there)
        return low, there, bool(full), int(wide)

    def numbers(self, slots: Slots) -> Int64s:
        """Return how many values each slot has."""
        number = np.empty(len(slots), np.int64)
        totals.read_numbers(frozen(slots), self._words, self._wide, number)
        return number

    def all(self) -> Int64s:
        """Return the rows of all slots."""
        return np.stack(self.limbs(np.arange(len(self._words), dtype=np.int32)), axis=1)
