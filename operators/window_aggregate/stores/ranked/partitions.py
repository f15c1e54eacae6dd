"""A partition has its own windows and its own progress; a group is what results are told apart by within them.

Mostly the two are the same and share their ids. With fewer partitioning than grouping attributes a partition has many
groups, with none the windows are those of the whole stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
import numpy as np
import pyarrow as pa

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.group_text import group_text
from operators.data.keys import KeyIndex
from operators.data.page import Int32s, Int64s, Page
from operators.data.saved import ROOM, bounded, read_integers
from operators.data.schema import Schema
from operators.errors import SchemaError
from operators.functions.columns import grown
from operators.kernels.ticks import BEFORE_ALL
from operators.protocol import StateValue
from operators.streams.named_groups import GroupBound, matched

_ONE: Int32s = np.zeros(1, np.int32)


@attrs.define(eq=False)
class Partitions(memory.Stateful):
    """Return ids to groups and partitions, and keep how far each partition has progressed."""

    VERSION: ClassVar[int] = 2

    by: tuple[str, ...]
    partition: tuple[str, ...]
    bound: int = attrs.field(init=False, default=BEFORE_ALL, metadata=memory.integer())
    """What is promised of every partition."""
    _groups: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part())
    _apart: KeyIndex | None = attrs.field(init=False, default=None, metadata=memory.part(name="parts"))
    """The partitions, where they are not the groups."""
    _own: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(1, BEFORE_ALL),
        metadata=memory.sparse("own", name="known", places="capacity"),
    )
    _part_of: Int32s = attrs.field(
        init=False, factory=lambda: np.zeros(1, np.int32), metadata=memory.array(least=0, since=2)
    )
    """The partition of each group, where they are not the same."""
    most: int = attrs.field(init=False, default=BEFORE_ALL)
    """No partition has a larger bound of its own."""
    _members: Int64s = attrs.field(init=False, factory=lambda: np.zeros(1, np.int64), metadata=memory.rebuilt())

    def bind(self, schema: Schema) -> None:
        """Become ready for tuples of a schema; SchemaError when an attribute is missing or cannot be a key."""
        self._groups = _index(schema, self.by)
        self._apart = None if self.same else _index(schema, self.partition)

    def clear(self) -> None:
        """Forget all groups and partitions, but not what is promised of all."""
        self._groups = self._apart = None
        self._own, self._part_of = np.full(1, BEFORE_ALL), np.zeros(1, np.int32)
        self._members = np.zeros(1, np.int64)

    @property
    def same(self) -> bool:
        """Return whether each group is a partition of its own."""
        return self.by == self.partition

    @property
    def _parts(self) -> KeyIndex | None:
        return self._groups if self.same else self._apart

    @property
    def groups(self) -> int:
        """Return the number of live groups; one, when nothing tells groups apart."""
        return 1 if self._groups is None else len(self._groups)

    @property
    def numbered(self) -> int:
        """Return the number of live partitions; none, when there is but one."""
        return 0 if self._parts is None else len(self._parts)

    @property
    def capacity(self) -> int:
        """Return one more than the largest id of a group or partition."""
        indexes = [index.capacity for index in (self._groups, self._parts) if index is not None]
        return max([1, *indexes])

    def parts(self, page: Page) -> Int32s:
        """Return each tuple's partition, shape (n,)."""
        index = self._parts
        if index is None:
            return np.zeros(len(page), np.int32)
        ids = index.assign([page.column(name) for name in self.partition])
        self._ensure()
        return ids

    def members(self, page: Page, parts: Int32s) -> Int32s:
        """Return each tuple's group, shape (n,), given its partition."""
        if self.same:
            return parts
        assert self._groups is not None
        ids, fresh = self._groups.assign_new([page.column(name) for name in self.by])
        self._ensure()
        self._part_of[ids] = parts
        np.add.at(self._members, parts[fresh], 1)
        return ids

    def _ensure(self) -> None:
        size = self.capacity
        if size > len(self._own):
            size = max(size, 2 * len(self._own))
            self._own = grown(self._own, size, fill=BEFORE_ALL)
            if not self.same:
                self._part_of, self._members = grown(self._part_of, size), grown(self._members, size)

    def part_of(self, groups: Int32s) -> Int32s:
        """Return the partition of each group."""
        return groups if self.same else self._part_of[groups]

    def limits(self, parts: Int32s) -> Int64s:
        """Return for each partition the value below which nothing more is to come."""
        return np.maximum(self._own[parts], self.bound)

    @property
    def own_bounds(self) -> Int64s:
        """Return what is promised of each partition alone, by its number."""
        return self._own

    def own(self, parts: Int32s) -> Int64s:
        """Return for each partition what is promised of it alone."""
        return self._own[parts]

    def raise_own(self, parts: Int32s, bound: int) -> None:
        """Take a promise on these partitions alone."""
        self._own[parts] = np.maximum(self._own[parts], bound)
        self.most = max(self.most, bound)

    def groups_of(self, parts: Int32s) -> Int32s:
        """Return the live groups of these partitions, for groups that are partitions in the same order."""
        if self.same:
            return parts
        assert self._groups is not None
        live = self._groups.live()
        if self._parts is None:
            return live if len(parts) else live[:0]
        wanted = np.zeros(len(self._own), np.bool_)
        wanted[parts] = True
        return live[wanted[self._part_of[live]]]

    @property
    def ahead(self) -> bool:
        """Return whether more is promised of some partition than of all."""
        return self.most > self.bound and bool((self._own > self.bound).any())

    def matching(self, promise: GroupBound) -> Int32s:
        """Return the live partitions that a promise speaks of."""
        if self._parts is None or len(self._parts) == 0:
            return _ONE[:0]
        return np.sort(matched(self._parts, promise.groups))

    def keys(self, groups: Int32s) -> list[pa.Array]:
        """Return the grouping attributes of groups."""
        return [] if self._groups is None else self._groups.keys(groups)

    def part_keys(self, parts: Int32s) -> list[pa.Array]:
        """Return the partitioning attributes of partitions."""
        return [] if self._parts is None else self._parts.keys(parts)

    def free_groups(self, groups: Int32s) -> Int32s:
        """Forget groups; gives the partitions that have none left. Groups that are partitions are kept for that."""
        if self.same:
            return groups
        assert self._groups is not None
        parts = self._part_of[groups]
        np.subtract.at(self._members, parts, 1)
        self._groups.free(groups)
        touched = distinct(parts)
        return touched[self._members[touched] == 0]

    def free_parts(self, parts: Int32s) -> None:
        """Forget partitions that have no groups."""
        self._own[parts] = BEFORE_ALL
        if self._parts is not None:
            self._parts.free(parts)

    def describe(self, group: int, schema: Schema) -> str:
        """Name a group in a message, whose keys are attributes of the schema."""
        return group_text(schema, self.by, self.keys(np.array([group], np.int32)))

    def _upgraded(self, state: Mapping[str, StateValue]) -> Mapping[str, StateValue]:
        if "live" not in state:
            return state
        live = read_integers(state, "live", least=0, below=ROOM)
        part_of = np.zeros(int(live.max(initial=0)) + 1, np.int64)
        part_of[live] = read_integers(state, "part_of", length=len(live))
        return {**state, "part_of": part_of}

    def _after_restoring(self) -> None:
        self._own = grown(self._own, self.capacity, fill=BEFORE_ALL)
        self.most = int(self._own.max())
        if self._groups is None or self.same:
            return
        size, live = len(self._own), self._groups.live()
        self._part_of, self._members = grown(self._part_of, size), grown(self._members, size)
        part_of = self._part_of[live]
        if self._parts is None:
            bounded(part_of, "part_of", below=1)
        else:
            self._parts.check_live(part_of, "part_of")
        np.add.at(self._members, part_of, 1)


def _index(schema: Schema, names: tuple[str, ...]) -> KeyIndex | None:
    return KeyIndex([schema.field(name, where="aggregate") for name in names]) if names else None


def checked_partition(by: tuple[str, ...], partition: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the partitioning attributes, those of the groups when none are named; SchemaError for others."""
    if partition is None:
        return by
    if missing := [name for name in partition if name not in by]:
        raise SchemaError(
            f"aggregate(partition={partition}): results would not tell which {missing[0]} a window is of.\n"
            f"  Name {', '.join(missing)} in `by` too."
        )
    return by if set(partition) == set(by) else partition
