"""A pane buffer keeps tuples until their pane is complete, and then one partial aggregate a pane and group.

A pane here is a slice: the set of tuples with one range [first, last) of window-ids. No tuple can be added to it once
the window `first` is complete, so a promise that completes windows completes these panes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np

from operators.baselines.buffer.log import TupleLog
from operators.data import memory
from operators.data.page import Bools, Int32s, Int64s, Page
from operators.data.saved import ROOM, bounded, read_int, read_integers
from operators.errors import SchemaError
from operators.functions.protocol import Accumulator, AggregateFunction
from operators.protocol import State, StateValue
from operators.window_aggregate.store import Held, Released
from operators.window_aggregate.stores.per_window.store import SliceStore


@attrs.define(eq=False)
class PaneBuffer(memory.Stateful):
    """Hold the tuples of incomplete panes, 20 bytes each besides their values, and the slices of complete ones.

    Cost: a promise that completes windows O(tuples of incomplete panes), once a tuple when it completes its pane.
    """

    VERSION: ClassVar[int] = 2

    accumulators: Sequence[Accumulator]
    log: TupleLog = attrs.field(metadata=memory.part())
    _slices: SliceStore = attrs.field(init=False, metadata=memory.part(capacity="capacity"))
    capacity: int = attrs.field(init=False, default=ROOM)
    """What group ids were below when this was restored."""
    _groups: Int32s = attrs.field(
        init=False,
        factory=lambda: np.empty(0, np.int32),
        metadata=memory.array(least=0, below="capacity", length="log"),
    )
    _ranges: Int64s = attrs.field(
        init=False, factory=lambda: np.empty((0, 2), np.int64), metadata=memory.array(length="log")
    )
    """First window of each tuple, and the one after its last."""
    _waiting: Int64s = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64), metadata=memory.array())
    """How many tuples of each group wait."""
    _pages: list[tuple[Int32s, Int64s]] = attrs.field(init=False, factory=lambda: [])

    def __attrs_post_init__(self) -> None:
        self._slices = SliceStore(self.accumulators)

    def __len__(self) -> int:
        """Return the number of tuples and partial aggregates."""
        return len(self.log) + len(self._slices)

    @property
    def buffered(self) -> int:
        """Return how many tuples are in incomplete panes."""
        return len(self.log)

    def update(self, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        """Take tuples, each in the windows [first, last); `capacity` is above every group id."""
        if capacity > len(self._waiting):
            self._waiting = np.pad(self._waiting, (0, max(capacity, 2 * len(self._waiting)) - len(self._waiting)))
        self._waiting += np.bincount(groups, minlength=len(self._waiting))
        self._pages.append((groups, np.stack((first, last), axis=1)))
        self.log.append(page, np.arange(len(page)))

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound); panes that begin before `bound` are complete."""
        self._settle()
        self._aggregate(self._ranges[:, 0] < bound)
        yield from self._slices.release(released, bound)

    def close(self, bound: int) -> Int32s:
        """Forget the panes that are in no window from `bound` on; gives the groups left with nothing."""
        return self._left(self._slices.close(bound))

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`."""
        self._settle()
        of_groups = np.zeros(len(self._waiting), np.bool_)
        of_groups[which] = True
        self._aggregate(of_groups[self._groups] & (self._ranges[:, 0] < bound))
        yield from self._slices.release_groups(which, released, bound)

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; gives the groups left with nothing."""
        return self._left(self._slices.close_groups(which, bound))

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that anything is in."""
        self._settle()
        return int(self._ranges[:, 1].max(initial=self._slices.ranges.horizon(latest)))

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups left with nothing, whose ids will be given away."""
        self._slices.forget(groups)

    def held(self) -> Held:
        """Return the windows and the group of each tuple of an incomplete pane and of each slice."""
        self._settle()
        panes, own = self._slices.held(), self._slices.own[self._groups]
        first = np.maximum(self._ranges[:, 0], own)
        return Held(
            np.concatenate((panes.first, first)),
            np.concatenate((panes.last, self._ranges[:, 1])),
            np.concatenate((panes.groups, self._groups)),
        )

    def _settle(self) -> None:
        """Put what arrived behind what is there."""
        if self._pages:
            self._groups = np.concatenate([self._groups, *(groups for groups, _ in self._pages)])
            self._ranges = np.concatenate([self._ranges, *(ranges for _, ranges in self._pages)])
            self._pages = []

    def _aggregate(self, complete: Bools) -> None:
        """Turn the tuples of complete panes into partial aggregates."""
        if not complete.any():
            return
        positions, rest = np.flatnonzero(complete), ~complete
        groups = self._groups[positions]
        first, last = np.ascontiguousarray(self._ranges[positions].T)
        self._slices.update(self.log.take(positions), first, last, groups, len(self._waiting))
        self._waiting -= np.bincount(groups, minlength=len(self._waiting))
        self._groups, self._ranges = self._groups[rest], self._ranges[rest]
        self.log.keep(rest)

    def _left(self, idle: Int32s) -> Int32s:
        return idle[self._waiting[idle] == 0]

    def _before_saving(self) -> None:
        self._settle()

    def _upgraded(self, state: Mapping[str, StateValue]) -> State:
        capacity, groups = read_int(state, "capacity", least=0, most=ROOM), read_integers(state, "groups", least=0)
        waiting = np.bincount(bounded(groups, "groups", below=capacity), minlength=capacity)
        return {**state, "ranges": read_integers(state, "ranges", length=2).T, "waiting": waiting}

    def _after_restoring(self) -> None:
        if (self._ranges[:, 0] >= self._ranges[:, 1]).any():
            raise ValueError('the saved state has tuples in no window in "ranges"')
        waiting = np.bincount(self._groups, minlength=len(self._waiting))
        if not np.array_equal(waiting, self._waiting):
            raise ValueError('the saved state has other tuples than "waiting" tells')


def refuse_arrival(functions: Mapping[str, AggregateFunction], where: str) -> None:
    """Check that no function goes by the order of arrival or of slices; SchemaError names the first that does."""
    for name, function in functions.items():
        if function.arrival_order or not function.commutative:
            raise SchemaError(
                f"aggregate({where}): {name} depends on the order of its tuples, which panes do not keep.\n"
                f"  Leave out {where}; or write argmin(x, ts) or argmax(x, ts) for the value at the first or last time."
            )
