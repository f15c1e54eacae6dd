"""The rows of one walk: place, time and length of each packet, and its row of a batch."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import RowTables

#: Records that are walked before they are decoded: few enough to stay in the cache.
WALKED: Final = 8_192
#: Frames that are decoded at once: so few that the last steps for some overlap the first for the next.
STRETCH: Final = 32
#: Words that are gathered of each of them.
WORDS: Final = 11


@attrs.define
class Rows:
    """Arrays of one length, filled by a walk and overwritten by the next; `words` and `place` are for common frames."""

    offset: NDArray[np.int64]
    ts: NDArray[np.int64]
    caplen: NDArray[np.int32]
    length: NDArray[np.int32]
    interface: NDArray[np.int32]
    link: NDArray[np.int32]
    row: NDArray[np.int64]
    words: NDArray[np.uint64]
    place: NDArray[np.int64]

    @property
    def tables(self) -> RowTables:
        """Return what a walk fills."""
        return self.offset, self.ts, self.caplen, self.length, self.interface, self.link

    @property
    def room(self) -> int:
        return len(self.offset)

    @classmethod
    def empty(cls, room: int) -> Rows:
        """Make room for as many rows."""
        return cls(
            offset=np.empty(room, np.int64),
            ts=np.empty(room, np.int64),
            caplen=np.empty(room, np.int32),
            length=np.empty(room, np.int32),
            interface=np.empty(room, np.int32),
            link=np.empty(room, np.int32),
            row=np.empty(room, np.int64),
            words=np.empty((WORDS, STRETCH), np.uint64),
            place=np.empty(STRETCH, np.int64),
        )

    def first(self, room: int) -> Rows:
        """Return the same arrays with room for fewer rows."""
        if room >= self.room:
            return self
        return Rows(
            self.offset[:room], self.ts[:room], self.caplen[:room], self.length[:room], self.interface[:room],
            self.link[:room], self.row[:room], self.words, self.place,
        )  # fmt: skip
