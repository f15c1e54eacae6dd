"""What windows in the order of an attribute share: tuples come in and wait, and slots are given back."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
import numpy as np

from operators.functions.protocol import AggregateFunction, Slots
from operators.page import Int64s, Page
from operators.protocol import State, StateValue
from operators.ranked.partitions import Partitions
from operators.ranked.slots import Pool
from operators.ranked.waiting import Final, Owners, Waiting
from operators.saved import part, prefixed, read_batch, read_counts, read_int, read_text, save_schema
from operators.schema import Schema
from operators.window.protocol import LIMIT, Int32s

_COUNTERS = ("late", "without_value", "results", "windows", "peak_state_tuples", "peak_state_bytes")


@attrs.define(eq=False)
class Intake:
    """Take tuples in, those below what is promised of their partition left out and counted."""

    wattr: str
    partitions: Partitions
    functions: Mapping[str, AggregateFunction]
    input: Schema | None = attrs.field(init=False, default=None)
    pool: Pool = attrs.field(init=False)
    waiting: Waiting = attrs.field(init=False)
    owners: Owners | None = attrs.field(init=False, default=None)
    counts: dict[str, int] = attrs.field(init=False, factory=lambda: dict.fromkeys(_COUNTERS, 0))

    def bind(self, schema: Schema) -> None:
        """Become ready for tuples of a schema."""
        self.input = schema
        self.partitions.bind(schema)
        self.pool = Pool([function.accumulator(schema) for function in self.functions.values()])
        self.waiting = Waiting(self.pool)
        self.owners = None if self.partitions.same else Owners()

    def clear(self) -> None:
        """Forget all tuples, groups and partitions; counters and what is promised of all stay."""
        self.input = None
        self.partitions.clear()

    def take(self, page: Page) -> Int64s:
        """Let the tuples of a page wait; gives the values of those that are not left out."""
        partitions = self.partitions
        values, valid = page.ticks(self.wattr), page.valid(self.wattr)
        if len(page) and (
            valid is not None or int(values.min()) < max(-LIMIT + 1, partitions.bound) or int(values.max()) >= LIMIT
        ):
            usable = (values > -LIMIT) & (values < LIMIT)
            if valid is not None:
                usable &= valid
            kept = usable & (values >= partitions.bound)
            self.counts["without_value"] += int((~usable).sum())
            self.counts["late"] += int((usable & ~kept).sum())
            page, values = page.select(kept), values[kept]
        if len(page) == 0:
            return values
        parts = partitions.parts(page)
        late = values < partitions.limits(parts)
        if late.any():
            self.counts["late"] += int(late.sum())
            page, values, parts = page.select(~late), values[~late], parts[~late]
        groups = partitions.members(page, parts)
        self.waiting.ensure(partitions.capacity)
        slots = self.waiting.add(page, values, parts)
        if self.owners is not None:
            self.owners.add(slots, groups)
        return values

    def final(self, parts: Int32s, bound: int) -> Final:
        """Take out the tuples of partitions below a bound, in order."""
        return self.waiting.release(parts, bound)

    def drop(self, slots: Slots) -> Int32s:
        """Give slots back and forget groups that have none left; gives partitions left without a group."""
        parts = np.empty(0, np.int32)
        if self.owners is not None and len(slots):
            parts = self.partitions.free_groups(self.owners.drop(slots))
        self.pool.give(slots)
        return parts

    def measure(self, tuples: int, nbytes: int) -> None:
        """Note the largest state so far: tuples and partial aggregates, and bytes besides what is held here."""
        self.counts |= self.peaks(tuples, nbytes + self.nbytes)

    def peaks(self, tuples: int, nbytes: int) -> dict[str, int]:
        """Give the largest state when it is now so many tuples and bytes, all told."""
        now = {"peak_state_tuples": tuples, "peak_state_bytes": nbytes}
        return {name: max(self.counts[name], value) for name, value in now.items()}

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        owners = 0 if self.owners is None else self.owners.nbytes
        return self.pool.nbytes + self.waiting.nbytes + owners + self.partitions.nbytes

    @property
    def nulls(self) -> int:
        """Tuples that an aggregate skipped so far because an argument was null, counted for each."""
        return sum(accumulator.nulls for accumulator in self.pool.accumulators)

    def state(self) -> State:
        state: State = {f"count.{name}": value for name, value in self.counts.items()}
        state["bound"] = self.partitions.bound
        if self.input is not None:
            state["input"] = save_schema(self.input.arrow)
            state["progress"] = json.dumps(sorted(sorted(promise) for promise in self.input.progress))
            state |= prefixed("partitions.", self.partitions.state())
            state |= prefixed("pool.", self.pool.state()) | prefixed("waiting.", self.waiting.state())
            if self.owners is not None:
                state |= prefixed("owners.", self.owners.state())
        return state

    def saved_schema(self, state: Mapping[str, StateValue]) -> Schema | None:
        """Give the schema of the tuples in a saved state; None when there were none."""
        if "input" not in state:
            return None
        progress: list[list[str]] = json.loads(read_text(state, "progress"))
        return Schema(read_batch(state, "input").schema, progress=progress)

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become what gave this state; called after `bind` if there were tuples."""
        self.counts = read_counts(state, _COUNTERS, added=("windows",))
        self.partitions.bound = read_int(state, "bound")
        if self.input is not None:
            self.partitions.restore(part("partitions.", state))
            self.waiting.ensure(self.partitions.capacity)
            self.pool.restore(part("pool.", state))
            self.waiting.restore(part("waiting.", state))
            if self.owners is not None:
                self.owners.restore(part("owners.", state))
                self.owners.ensure(self.pool.capacity, self.partitions.capacity)
