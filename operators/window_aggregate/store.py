"""A store holds the open windows of all groups, in whatever form; the shell asks it for those that are complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np

from operators.data.page import Bools, Int32s, Int64s, Page
from operators.functions.protocol import Accumulator, Slots
from operators.protocol import State, StateValue


@attrs.frozen(eq=False)
class Released:
    """Results of complete windows: window-id and group of each, and the slot that holds its aggregate."""

    wids: Int64s
    groups: Int32s
    slots: Slots

    def some(self, which: slice | Bools | Int64s) -> Released:
        """Return the results at these places."""
        return Released(self.wids[which], self.groups[which], self.slots[which])


@attrs.frozen(eq=False)
class Held:
    """The entries of a store: each is of one group, and belongs to the windows [first, last)."""

    first: Int64s
    last: Int64s
    groups: Int32s

    def windows(self, released: int, latest: Int64s, most: int) -> tuple[Int64s, Int32s]:
        """Return the windows from `released` to each entry's `latest` with their groups, in order, at most so many."""
        first, last = np.maximum(self.first, released), np.minimum(self.last - 1, latest) + 1
        wids, groups, count = [np.empty(0, np.int64)], [np.empty(0, np.int32)], 0
        open_ = first < last
        capacity = int(self.groups.max(initial=-1)) + 1
        while open_.any() and count < most:
            wid = int(first[open_].min())
            # Groups are numbered from 0, so that marks put them in order faster than a sort does.
            marked = np.zeros(capacity, bool)
            marked[self.groups[open_ & (first == wid)]] = True
            found = np.flatnonzero(marked).astype(np.int32)
            wids.append(np.full(len(found), wid))
            groups.append(found)
            count += len(found)
            first = np.where(first == wid, wid + 1, first)
            open_ = first < last
        return np.concatenate(wids)[:most], np.concatenate(groups)[:most].astype(np.int32)


class WindowStore(Protocol):
    """A holder of the open windows of all groups."""

    @property
    def accumulators(self) -> Sequence[Accumulator]:
        """Return one accumulator a function; the slots of `Released` are theirs."""
        ...

    @property
    def nbytes(self) -> int:
        """Return how many bytes are held."""
        ...

    def __len__(self) -> int:
        """Return the number of tuples and partial aggregates held."""
        ...

    def update(self, page: Page, first: Int64s, last: Int64s, groups: Int32s, capacity: int) -> None:
        """Take tuples, each of a group and in the windows [first, last); `capacity` is above every group id."""
        ...

    def release(self, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of the windows [released, bound); slots hold until the next."""
        ...

    def close(self, bound: int) -> Int32s:
        """Forget what is in no window from `bound` on; return the groups left with nothing."""
        ...

    def release_groups(self, which: Int32s, released: int, bound: int) -> Iterator[Released]:
        """Yield the results of these groups alone up to `bound`."""
        ...

    def close_groups(self, which: Int32s, bound: int) -> Int32s:
        """Forget what these groups hold for no window from `bound` on; return the groups left with nothing."""
        ...

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups left with nothing, whose ids will be given away."""
        ...

    def horizon(self, latest: int) -> int:
        """Return the window-id after the last window that anything is in; endless ones count up to `latest`."""
        ...

    def held(self) -> Held:
        """Return the windows and the group of each tuple and partial aggregate that a window still needs."""
        ...

    capacity: int
    """What is above every group id, told before a fresh one is restored."""

    def state(self) -> State:
        """Return all that is remembered."""
        ...

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Become the store whose `state` this was."""
        ...
