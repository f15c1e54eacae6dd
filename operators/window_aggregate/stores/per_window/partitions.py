"""Windows that never let go of a tuple (RANGE ALL), counted in partitions (PA), end in each partition by itself.

What a stream without partitions has as its last window, the first one that has all its tuples, each partition has: no
window of it is counted by the rows of another (Eq. 5.4 to 5.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from operators.data import memory
from operators.data.distinct import distinct
from operators.data.keys import Ids, KeyIndex
from operators.data.page import Int32s, Int64s
from operators.functions.columns import grown
from operators.kernels.ticks import BEFORE_ALL, FOREVER
from operators.window import PartitionedWindow, Window
from punctuation import Below, Pattern, Punctuation


def is_endless(window: Window) -> bool:
    """Return whether windows never let go of a tuple (RANGE ALL)."""
    rows = window.rows if isinstance(window, PartitionedWindow) else window
    return rows.extent(0)[0] == -FOREVER


@attrs.define(eq=False)
class Lasts(memory.Stateful):
    """Hold the last window that a tuple of each group begins, 8 bytes a group; shape (groups,)."""

    partition: tuple[str, ...]
    _lasts: Int64s = attrs.field(
        init=False,
        factory=lambda: np.full(16, BEFORE_ALL),
        metadata=memory.sparse("last_windows", name="last_groups"),
    )

    @classmethod
    def of(cls, window: Window, by: tuple[str, ...]) -> Lasts | None:
        """Return the facts of these windows; None where they end together, or groups are of all partitions."""
        if isinstance(window, PartitionedWindow) and is_endless(window) and set(window.partition) <= set(by):
            return cls(window.partition)
        return None

    def note(self, groups: Int32s, first: Int64s, capacity: int) -> None:
        """See tuples of these groups that are in windows from `first` on; `capacity` is above every group id."""
        if capacity > len(self._lasts):
            self._lasts = grown(self._lasts, max(capacity, 2 * len(self._lasts)), fill=BEFORE_ALL)
        np.maximum.at(self._lasts, groups, first)

    def forget(self, groups: Int32s) -> None:
        """Reset what is known of groups whose ids will be given away."""
        self._lasts[groups] = BEFORE_ALL

    def of_partitions(self, index: KeyIndex, which: Ids | None = None) -> Iterator[tuple[int, Ids]]:
        """Yield the last windows of partitions, ascending, with their groups (of `which`, else all)."""
        live = index.live()
        if len(live) == 0:
            return
        columns = dict(zip((field.name for field in index.fields), index.keys(live), strict=True))
        partitions = KeyIndex([field for field in index.fields if field.name in self.partition])
        ids = partitions.assign([columns[field.name] for field in partitions.fields])
        lasts = np.full(partitions.capacity, BEFORE_ALL)
        np.maximum.at(lasts, ids, self._lasts[live])
        each = lasts[ids]
        if which is not None:
            wanted = np.isin(live, which)
            live, each = live[wanted], each[wanted]
        for last in distinct(each).tolist():
            yield last, live[each == last]

    def whole(self, groups: Punctuation) -> bool:
        """Return whether a promise is of whole partitions, which then have no more windows.

        While a partition goes on, its groups stay in all its windows, and which there are, only later tuples tell.
        """
        return set(groups.attributes) <= set(self.partition)

    def follows(self, groups: Punctuation, wid: str, ended: Sequence[int]) -> Punctuation | None:
        """Return what follows, of results, from a promise that groups get no more tuples; None where nothing does.

        `ended` are the last windows of the partitions they are in, `wid` has a result's window.
        """
        if self.whole(groups) or not ended:
            return groups if self.whole(groups) else None
        patterns: dict[str, Pattern] = dict(groups.patterns)
        return Punctuation({**patterns, wid: Below(min(ended) + 1)}, assumed=groups.assumed)
