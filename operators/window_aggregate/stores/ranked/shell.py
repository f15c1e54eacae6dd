"""Windows that tuples define live the life of all window aggregates, in ticks, and by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import attrs
import pyarrow as pa

from operators.data import memory
from operators.data.page import ROWS, Int32s, Int64s
from operators.data.schema import Schema
from operators.functions.protocol import Accumulator, AggregateFunction, Slots
from operators.protocol import Emit, StateValue
from operators.streams.named_groups import GroupBound, group_bound
from operators.window.counted import OrderedWindow
from operators.window_aggregate.results import WID, columns_of, ordering, result_fields, result_page
from operators.window_aggregate.shell import Shell, while_bound
from operators.window_aggregate.stores.ranked.intake import Intake
from operators.window_aggregate.stores.ranked.partitions import Partitions, checked_partition
from punctuation import Punctuation

W = TypeVar("W", bound=OrderedWindow)
_OF_INTAKE = ("partitions.", "pool.", "waiting.", "owners.")
"""How entries of older states begin that are those of the intake."""


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class RankedShell(Shell, Generic[W]):
    """Aggregate tuples in the windows of each partition: the groups, unless `partition` names fewer attributes."""

    VERSION: ClassVar[int] = 2

    window: W
    functions: Mapping[str, AggregateFunction]
    by: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    partition: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)
    _partitions: Partitions = attrs.field(init=False)
    _accumulators: Sequence[Accumulator] = attrs.field(init=False, default=())
    _lost: dict[str, int] = attrs.field(
        init=False, factory=lambda: {"late": 0, "without_value": 0}, metadata=memory.counters()
    )

    def __attrs_post_init__(self) -> None:
        self._partitions = Partitions(self.by, checked_partition(self.by, self.partition))
        self._progressing = self.window.wattr

    def output_schema(self, *inputs: Schema) -> Schema:
        (schema,) = inputs
        kind = ordering(schema, self.window.wattr)
        Partitions(self.by, self._partitions.partition).bind(schema)
        arrow = result_fields(schema, self.functions, self.by, self._times(kind))
        return Schema(arrow, progress=self._progress(schema))

    def _times(self, kind: pa.DataType) -> pa.DataType:
        """Return the type of what windows begin and end at, for an attribute of a type."""
        return kind

    def _progress(self, schema: Schema) -> list[frozenset[str]]:
        """Return what the results will be punctuated on."""
        raise NotImplementedError

    def _promises(self, schema: Schema, linear: Sequence[str], *, over: bool = True) -> list[frozenset[str]]:
        """Return promises on the results: `linear` ones on these attributes, those on partitions as they come.

        Unless `over`, nothing follows of a promise that a partition is over.
        """
        wattr, partition = frozenset((self.window.wattr,)), set(self._partitions.partition)
        progress: list[frozenset[str]] = []
        for promise in schema.progress:
            if promise == wattr:
                progress += [frozenset((name,)) for name in linear]
            elif promise - wattr <= partition and (over or promise & wattr):
                progress.append(promise - wattr | {WID} if promise & wattr else promise)
        return progress

    def _advance_groups(self, punctuation: Punctuation, emit: Emit) -> None:
        promise = group_bound(punctuation, self._partitions.partition, self.window.wattr)
        if promise is not None:
            self._advance_parts(promise, emit)

    def _advance_parts(self, promise: GroupBound, emit: Emit) -> None:
        """Take a promise on single partitions."""
        raise NotImplementedError

    def _forget(self) -> None:
        super()._forget()
        self._partitions.clear()

    def _emit(self, groups: Int32s, slots: Slots, wids: Int64s, begins: Int64s, ends: Int64s, emit: Emit) -> None:
        """Emit one result a group, slot and window, all of shape (n,)."""
        output, partitions = self._output, self._partitions
        assert output is not None
        for at in range(0, len(wids), ROWS):
            some = slice(at, at + ROWS)
            owners = groups[some]

            def keys(which: slice, owners: Int32s = owners) -> list[pa.Array]:
                return partitions.keys(owners[which])

            columns = partitions.keys(owners) + columns_of(
                output, self.by, self.functions, self._accumulators, slots[some], self.overflow, wids[some], keys
            )
            emit(result_page(output, columns, wids[some], begins[some], ends[some]))
        self._results += len(wids)

    def statistics(self) -> dict[str, int]:
        return {
            **super().statistics(),
            "groups": 0 if self._input is None else self._partitions.groups,
            "null_arguments": sum(accumulator.nulls for accumulator in self._accumulators),
        }

    def _after_restoring(self) -> None:
        self._partitions.bound = self._bound


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class WaitingShell(RankedShell[W]):
    """Let tuples wait until a promise makes their order final."""

    _intake: Intake = attrs.field(init=False, metadata=memory.part(of=while_bound("_intake")))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._intake = Intake(self.window.wattr, self._partitions, self.functions, self._lost)

    def _bind(self, schema: Schema) -> None:
        intake = self._intake
        self._input, self._output = schema, self.output_schema(schema)
        intake.bind(schema)
        self._accumulators = intake.pool.accumulators

    def _upgraded(self, state: Mapping[str, StateValue]) -> Mapping[str, StateValue]:
        state = super()._upgraded(state)
        return {f"intake.{name}" if name.startswith(_OF_INTAKE) else name: value for name, value in state.items()}
