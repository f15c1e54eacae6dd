"""The names of windows, one a result, become a column: every release has one, and most have few results."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.page import Int32s, Int64s
from operators.data.repeated import Steps
from operators.kernels.compile import messages


@attrs.frozen(eq=False)
class Labels:
    """Hold names as the letters and offsets of a column. Cost: a step a letter, where Arrow's take starts slowly."""

    offsets: Int32s
    letters: npt.NDArray[np.uint8]
    longest: int
    _steps: Steps = attrs.field(init=False, factory=Steps)

    @classmethod
    def of(cls, names: Sequence[str]) -> Labels:
        """Take names; the place of each is where it stands."""
        written = [name.encode() for name in names]
        offsets = np.cumsum([0, *map(len, written)]).astype(np.int32)
        return cls(offsets, np.frombuffer(b"".join(written), np.uint8), max(map(len, written), default=0))

    def __getitem__(self, place: int) -> str:
        return self.letters[self.offsets[place] : self.offsets[place + 1]].tobytes().decode()

    def take(self, places: Int64s) -> pa.Array:
        """Return the names at these places as a string column.

        >>> Labels.of(["ten", "busy"]).take(np.array([1, 0, 1])).to_pylist()
        ['busy', 'ten', 'busy']
        >>> Labels.of(["ten", "busy"]).take(np.broadcast_to(1, 3)).to_pylist()
        ['busy', 'busy', 'busy']
        """
        n = len(places)
        if n > 0 and places.strides[0] == 0:
            # One name for all: its letters are written over and over, as fast as memory takes them.
            letters = self.letters[self.offsets[places[0]] : self.offsets[places[0] + 1]].tobytes()
            offsets = self._steps.of(len(letters), n)
            return pa.Array.from_buffers(pa.string(), n, [None, offsets, pa.py_buffer(letters * n)], 0)
        offsets, letters = np.empty(n + 1, np.int32), np.empty(n * self.longest, np.uint8)
        messages.take(places, self.offsets, self.letters, offsets, letters)
        return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(letters)], 0)


def only_label(labels: pa.Array) -> str | None:
    """Return the name that a string column without nulls has in all of its places; None where it has several or none.

    Cost: some time a letter, and none an object.

    >>> only_label(pa.array(["ten", "ten"])), only_label(pa.array(["ten", "two"]))
    ('ten', None)
    """
    n, begin = len(labels), labels.offset
    if n == 0:
        return None
    first: str = labels[0].as_py()
    _, offsets, letters = labels.buffers()
    ends = np.frombuffer(offsets, np.int32, n + 1, 4 * begin)
    width = int(ends[1] - ends[0])
    if int(ends[-1] - ends[0]) != n * width or (n > 2 and (np.diff(ends) != width).any()):
        return None
    if n > 1 and width:
        written = np.frombuffer(letters, np.uint8, n * width, int(ends[0]))
        # What stands one name further on is the same for all but the last one.
        if (written[width:] != written[:-width]).any():
            return None
    return first
