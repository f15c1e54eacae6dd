"""Check the progress of exporters in a file as a collector would: at regular times of the file's own clock.

The looks are at multiples of a length of time, on the clock of the datagrams' arrivals, and each comes before the first
datagram that came later; what came between two looks is heard together, as it is from a socket. So what is promised
where depends on the datagrams alone: not on how the file is cut into blocks, nor on what else it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.entries import EARLIEST, IPFIX, LATEST, V1, V5, V7, V9
from operators.data.page import Int64s
from operators.data.saved import bounded, read_array, read_flag, read_int, read_integers
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import each_be
from operators.protocol import State, StateValue
from punctuation import NO_TIME

if TYPE_CHECKING:
    from oop_engine.sources.live.progress import ExporterProgress

OFTEN: Final = 50_000_000
"""Nanoseconds from one look to the next where promises are wanted finely: as often as the collector looks."""
SELDOM: Final = 1_000_000_000
"""Nanoseconds from one look to the next at most."""
MOST: Final = 8192
"""Datagrams that are heard together at most."""
_LOOKS: Final = 20
"""Checks in one step of what is wanted more coarsely; each costs as much as some hundreds of datagrams."""
_HEAD: Final = 16
_ARRAYS: Final = ("data", "offset", "length", "arrival", "address", "port")

Look: TypeAlias = "tuple[list[int], Datagrams]"
"""The times of the looks that are due, and the datagrams that came then."""


@attrs.define(eq=False)
class ProgressChecks:
    """The times of progress checks, and the datagrams between two of them.

    Let the exporters hear what came before the next is asked for.
    """

    exporting: ExporterProgress
    _latest: int = attrs.field(init=False, default=NO_TIME)
    """The latest arrival so far."""
    _held: list[Datagrams] = attrs.field(init=False, factory=list)
    """What came since the last look."""
    _many: int = attrs.field(init=False, default=0)
    _gap: tuple[int, int, int] | None = attrs.field(init=False, default=None)
    """The arrivals between which that look was due, and how often it is looked."""

    @property
    def every(self) -> int:
        """Return the time from one look to the next, in ns."""
        steps = [grain.step for grain in self.exporting.grains.values()]
        finest = min((0 if step is None else step for step in steps), default=0)
        return min(max(OFTEN, finest // _LOOKS), SELDOM)

    def cut(self, datagrams: Datagrams) -> Iterator[Look]:
        """Yield what came before the last look that is due; the rest, a copy, waits for more."""
        count, every, before = len(datagrams), self.every, self._latest
        if not count:
            return
        if self._held and self._held[0].addressed != datagrams.addressed:
            yield from self.rest()
        reached = np.maximum(np.maximum.accumulate(_came(datagrams)), before)
        self._latest = int(reached[-1])
        looked = np.diff(reached // every, prepend=before // every) != 0
        for at, to in pairwise(sorted({0, *np.flatnonzero(looked).tolist(), count})):
            if looked[at]:
                yield from self.rest()
                since = before if at == 0 else int(reached[at - 1])
                self._gap = None if since == NO_TIME else (since, int(reached[at]), every)
            while at < to:
                room = min(to, at + MOST - self._many)
                self._held.append(_part(datagrams, at, room))
                self._many += room - at
                at = room
                if self._many == MOST:
                    yield from self.rest()
        if self._held:
            self._held[-1] = _kept(self._held[-1])

    def rest(self) -> Iterator[Look]:
        """Yield what waits for more."""
        held, self._held, self._many = self._held, [], 0
        gap, self._gap = self._gap, None
        if held:
            yield [] if gap is None else self._due(*gap), _joined(held)

    def state(self) -> State:
        """Return what waits for more, as a copy."""
        state: State = {"latest": self._latest, "gap": np.array(self._gap or (), np.int64)}
        if self._held:
            held = _joined([_kept(part) for part in self._held])
            state |= {name: getattr(held, name) for name in _ARRAYS} | {"addressed": held.addressed}
        return state

    def restore(self, state: Mapping[str, StateValue]) -> None:
        """Wait with what another waited with; ValueError where that cannot be."""
        self._latest, gap = read_int(state, "latest"), read_integers(state, "gap").tolist()
        if len(gap) not in (0, 3):
            raise ValueError(f"a gap is saved as 3 numbers, not {len(gap)}")
        self._gap = (gap[0], gap[1], gap[2]) if gap else None
        if "data" not in state:
            return
        empty = Datagrams.of([])
        data, offset, length, arrival, address, port = (
            read_array(state, name, like=getattr(empty, name)) for name in _ARRAYS
        )
        for array in (length, arrival, port):
            bounded(array, "datagrams", least=None, below=None, length=len(offset))
        bounded(address, "address", least=None, below=None, length=2 * len(offset))
        bounded(offset, "offset", below=len(data) + 1)
        bounded(length, "length")
        bounded(offset + length, "offset", below=len(data) + 1)
        self._held = [Datagrams(data, offset, length, arrival, address, port, read_flag(state, "addressed"))]
        self._many = len(offset)

    def _due(self, since: int, until: int, every: int) -> list[int]:
        """Return the looks behind one arrival, up to the next, that can tell something.

        With the same exporters there, and none of them newly silent, promises only rise, so that the last look tells
        what all of them would: the last of all, and the last before somebody has been silent for too long.
        """
        first, last = (since // every + 1) * every, until // every * every
        if first == last:
            return [last]
        # Start-up: Spark's workers read flow exports without promises of exporters.
        from oop_engine.sources.live.exporters import FOLLOWED

        rules = self.exporting.rules
        spans = [rules.idle, FOLLOWED] if rules.lull is None else [rules.idle, FOLLOWED, rules.lull]
        silent = {(e.spoke + span) // every * every for e in self.exporting.exporters for span in spans}
        return sorted({first, last, *(at for at in silent if first < at < last)})


def _part(datagrams: Datagrams, at: int, to: int) -> Datagrams:
    if to - at == len(datagrams):
        return datagrams
    return attrs.evolve(
        datagrams,
        offset=datagrams.offset[at:to],
        length=datagrams.length[at:to],
        arrival=datagrams.arrival[at:to],
        address=datagrams.address[2 * at : 2 * to],
        port=datagrams.port[at:to],
    )


def _kept(datagrams: Datagrams) -> Datagrams:
    """Copy datagrams, end to end, out of where they were captured."""
    ends = np.cumsum(datagrams.length, dtype=np.int64)
    data = np.empty(int(ends[-1]) + 1, np.uint8)
    _copy(datagrams.data, datagrams.offset, datagrams.length, data)
    return Datagrams(
        data, ends - datagrams.length, datagrams.length.copy(), datagrams.arrival.copy(), datagrams.address.copy(),
        datagrams.port.copy(), datagrams.addressed,
    )  # fmt: skip


@kernel
def _copy(data: NDArray[np.uint8], offset: Int64s, length: NDArray[np.int32], out: NDArray[np.uint8]) -> None:
    """Write datagrams one after the other."""
    place = 0
    for i in range(len(offset)):
        for at in range(offset[i], offset[i] + length[i]):
            out[place] = data[at]
            place += 1
    out[place] = 0


def _joined(parts: Sequence[Datagrams]) -> Datagrams:
    if len(parts) == 1:
        return parts[0]
    parts = [*parts[:-1], _kept(parts[-1])]
    starts = np.cumsum([0, *(len(part.data) for part in parts)])
    return Datagrams(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.offset + start for part, start in zip(parts, starts.tolist(), strict=False)]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        np.concatenate([part.address for part in parts]),
        np.concatenate([part.port for part in parts]),
        parts[0].addressed,
    )


def _came(datagrams: Datagrams) -> Int64s:
    """Return when datagrams came; by their headers when they were sent, if that is unknown; else NO_TIME."""
    unknown = datagrams.arrival == NO_TIME
    if not unknown.any() or len(datagrams.data) < _HEAD:
        return datagrams.arrival
    data, unknown = datagrams.data, unknown & (datagrams.length >= _HEAD)
    place = np.where(unknown, datagrams.offset, 0)
    version = each_be(data, place, 2)
    sent = each_be(data, place + np.where(version == IPFIX, 4, 8), 4) * 1_000_000_000
    told = unknown & np.isin(version, (V1, V5, V7, V9, IPFIX)) & (sent >= EARLIEST) & (sent < LATEST)
    return np.where(told, sent, datagrams.arrival)
