"""A clamp bounds how far one tuple may move a promise, so that a single wrong time does not make all others late."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from operators.data.page import Int64s
from operators.kernels.streams.clamp import AHEAD, FIELDS, FIRST, HIGHEST, PLACE, RUN, WAITING, believe
from punctuation import NEVER, NO_TIME
from punctuation.plain import Plain

AGREE: Final = 16
"""So many tuples in a row that lie beyond the jump are believed: then it is the time that jumped."""
_JUDGED: Final = 4 * AGREE
"""After so many more tuples a value that is still too far ahead counts as one that moved no promise."""


@attrs.define(eq=False)
class Clamp:
    """Let a value move a promise only as far as `jump`, unless others confirm it.

    With a clock (`elapse` was called) a value is believed that is at most `jump` ahead of the time. Without, one that
    is at most `jump` above the highest believed so far; when `AGREE` values in a row are further, the least of them is
    believed, and with it those of them that are at most `jump` above it. So an honest gap passes after `AGREE` tuples,
    and one outlier never does. The first value waits for the second: of two that disagree, the lower one is believed.
    Nothing is left out of the stream: a value that is not believed only says nothing.

    `jump` is in the unit of the values. The cut of the stream into pages does not change the beliefs. Cost: one maximum
    a page, and one compiled pass where a value in it, or shortly before it, jumps.

    >>> clamp = Clamp(10)
    >>> clamp.believed(np.array([1, 5, 900, 7, 18])).tolist() == [NO_TIME, 5, NO_TIME, 7, NO_TIME]
    True
    >>> clamp.believed(np.array([16, 18])).tolist()
    [16, 18]
    >>> clamp.ahead
    1
    """

    jump: int = attrs.field(validator=attrs.validators.ge(0))
    _limit: int = attrs.field(init=False, default=NO_TIME)
    """The highest value that the clock allows, NO_TIME without a clock."""
    _memory: Int64s = attrs.field(init=False, repr=False)
    _recent: Int64s = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._memory = np.zeros(FIELDS, np.int64)
        self._memory[[HIGHEST, FIRST]] = NO_TIME
        self._recent = np.full(_JUDGED, NO_TIME, np.int64)

    def elapse(self, now: int) -> None:
        """Take the clock, in the unit of the values: from now on it alone says what is too far ahead."""
        self._limit = min(now + self.jump, NEVER)

    def believed(self, values: Int64s) -> Int64s:
        """Return values, shape (n,), of which none is too far ahead: NO_TIME stands for one that says nothing (yet)."""
        values = np.asarray(values, np.int64)
        if not self._memory[WAITING] and len(values):
            most = int(values.max())
            if most <= self._top:
                self._memory[HIGHEST] = max(int(self._memory[HIGHEST]), most)
                return values
        found = np.empty(len(values), np.int64)
        given = values.view()
        given.flags.writeable = False
        believe(given, self.jump, self._limit, AGREE, self._recent, self._memory, found)
        return found

    @property
    def ahead(self) -> int:
        """Return how many values were too far ahead and made nothing believed; the last ones in a row still may."""
        top = self._top
        if top == NO_TIME:
            return 0
        undecided = self._memory[PLACE] - 1 - np.arange(min(int(self._memory[RUN]), _JUDGED))
        return int(self._memory[AHEAD]) + int((np.delete(self._recent, undecided % _JUDGED) > top).sum())

    @property
    def _top(self) -> int:
        """Return the highest value that would be believed now."""
        highest = int(self._memory[HIGHEST])
        if self._limit != NO_TIME or highest == NO_TIME:
            return self._limit
        return min(highest + self.jump, NEVER)

    def state(self) -> Plain:
        """Return the memory as JSON values; the time is told anew."""
        return [[int(v) for v in self._memory], [int(v) for v in self._recent]]

    def restore(self, state: Plain) -> None:
        """Become the clamp whose `state` this was; ValueError for what is none."""
        match state:
            case [list(memory), list(recent)] if len(memory) == FIELDS and len(recent) == _JUDGED:
                for value in (*memory, *recent):
                    if not isinstance(value, int) or not -1 << 63 <= value < 1 << 63:
                        raise ValueError(f"a saved clamp has numbers of 64 bits, not {value!r:.60}")
                read = np.array(memory, np.int64)
                if not 0 <= read[PLACE] < _JUDGED:
                    raise ValueError(f"the saved clamp is at place {read[PLACE]} of {_JUDGED}")
                self._memory, self._recent = read, np.array(recent, np.int64)
            case _:
                raise ValueError(f"a saved clamp is two lists, of {FIELDS} and of {_JUDGED} values, not {state!r:.60}")
