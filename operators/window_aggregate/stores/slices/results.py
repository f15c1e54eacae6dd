"""Results in columns, before they become pages, and how those are numbered that are given again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from operators.data.digests import digests
from operators.data.keys import KeyIndex
from operators.data.page import Bools, Int32s, Int64s
from operators.retractions import Retracted, Settles
from operators.window_aggregate.results import REVISION, START, STOP, WID, WINDOW
from operators.window_aggregate.stores.slices.revisions import Revisions

LATE: Final = Retracted(
    "the input gives windows again when late tuples change them (lateness=...): each revision would count as a result",
    'Take the former result back: refine="retract", in text RETRACT; or keep the first results,'
    ' .filter("revision = 0").',
    frozenset((REVISION,)),
    0,
)
_NONE = np.zeros(0, np.int64)


@attrs.define(eq=False)
class Results:
    """Hold results in columns: place of the window, window-id, begin, end, group, and the slot of the aggregate."""

    places: Int64s
    wids: Int64s
    opens: Int64s
    closes: Int64s
    groups: Int32s
    slots: Int32s
    revisions: Int64s = _NONE
    """How often each was given before, where windows are revised and it is known."""
    gone: bool = False
    """Whether these are sessions that are no more; they have no slots, and end never."""
    values: Sequence[Int64s] = ()
    """The aggregates as the 64 bits of their types, where they are known and none is null; then there are no slots."""

    def __len__(self) -> int:
        return len(self.wids)

    @property
    def windows(self) -> int:
        """Return the number of windows, where the results of one stand together."""
        if len(self) == 0 or self.wids.strides[0] == 0:
            return min(len(self), 1)
        other = (self.wids[1:] != self.wids[:-1]) | (self.places[1:] != self.places[:-1])
        return int(np.count_nonzero(other)) + 1

    @property
    def of_one_window(self) -> bool:
        """Return whether they are known to be of one window that is over."""
        return not self.gone and self.wids.strides == self.opens.strides == self.closes.strides == (0,)

    def first(self) -> tuple[int, int, int, int]:
        """Return place, id, begin and end of the window of the first result."""
        return int(self.places[0]), int(self.wids[0]), int(self.opens[0]), int(self.closes[0])

    def where(self, chosen: slice | Bools) -> Results:
        """Return the chosen ones."""
        return Results(
            self.places[chosen],
            self.wids[chosen],
            self.opens[chosen],
            self.closes[chosen],
            self.groups[chosen],
            self.slots[chosen] if len(self.slots) else self.slots,
            self.revisions[chosen] if len(self.revisions) else self.revisions,
            gone=self.gone,
        )


@attrs.define(eq=False)
class KeptKeys:
    """Keep the keys of the groups of a page of results, for the next page is mostly of the same groups."""

    _index: KeyIndex | None = attrs.field(init=False, default=None)
    _forgotten: int = attrs.field(init=False, default=0)
    _groups: Int32s = attrs.field(init=False, factory=lambda: np.empty(0, np.int32))
    _columns: list[pa.Array] = attrs.field(init=False, factory=list)

    def of(self, index: KeyIndex, groups: Int32s) -> list[pa.Array]:
        """Return the keys of groups, one column a field."""
        known = index is self._index and index.forgotten == self._forgotten
        if not known or len(groups) != len(self._groups) or not (groups == self._groups).all():
            self._index, self._forgotten, self._groups = index, index.forgotten, groups
            self._columns = index.keys(groups)
        return [*self._columns]


def late(by: Sequence[str], *, named: bool) -> Retracted:
    """Say that results by these groups are given again, and how the last ones of them are found.

    `named`: whether `window` tells of which window each is.
    """
    names = {*by, WID, START, STOP, REVISION, *([WINDOW] if named else [])}
    return attrs.evolve(LATE, settles=Settles("revisions", frozenset(names), tuple(by), apart=REVISION))


def revised(results: Results, columns: Sequence[pa.Array], revisions: Revisions) -> tuple[Results, list[pa.Array]]:
    """Number results and their aggregates, and leave out those that are as they were given last."""
    numbers = revisions.number(
        results.places, results.wids, results.groups, results.closes, digests(columns, len(results))
    )
    results, given = attrs.evolve(results, revisions=numbers), numbers >= 0
    if given.all():
        return results, list(columns)
    return results.where(given), [column.filter(pa.array(given)) for column in columns]
