"""Sources that may keep one waiting are read in threads of their own, each one chunk ahead of who takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread
from time import time_ns
from types import TracebackType
from typing import Self, TypeAlias

import attrs

from oop_engine.sources.protocol import Chunk

Read: TypeAlias = "Chunk | BaseException | None"
"""A chunk, what ended the reading, or None at its end."""


@attrs.define(eq=False)
class Readings:
    """The readings of several sources at once; leaving lets go of them, also of those that wait for ever."""

    _arrived: SimpleQueue[tuple[int, Read]] = attrs.field(init=False, factory=SimpleQueue)
    _room: dict[int, Semaphore] = attrs.field(init=False, factory=dict)
    _since: dict[int, int] = attrs.field(init=False, factory=dict)
    _taken_out: list[tuple[int, Read]] = attrs.field(init=False, factory=list)
    """What has arrived and waits for its turn, in the order in which it came: one for each source at most."""
    _left: bool = attrs.field(init=False, default=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left = True
        for room in self._room.values():
            room.release()

    def start(self, place: int, opened: Callable[[], Iterator[Chunk]]) -> None:
        """Open a source, and read it, in a thread that does not keep the process from ending."""
        room = self._room[place] = Semaphore(0)
        Thread(target=self._read, args=(place, opened, room), name=f"source {place}", daemon=True).start()

    def take(
        self, timeout: float, choose: Callable[[Sequence[int]], int] = lambda places: places[0]
    ) -> tuple[int, Read] | None:
        """Return what comes next of any of them, and let that one go on; None when nothing does for so many seconds.

        Of several that have something, `choose` says which is next; it gets their places as they came.
        """
        try:
            if timeout > 0 and not self._taken_out:
                self._taken_out.append(self._arrived.get(timeout=timeout))
            while True:
                self._taken_out.append(self._arrived.get_nowait())
        except Empty:
            pass
        if not self._taken_out:
            return None
        places = [place for place, _ in self._taken_out]
        place, read = self._taken_out.pop(places.index(choose(places)))
        del self._since[place]
        self._room[place].release()
        return place, read

    def since(self, place: int) -> int | None:
        """Return when the chunk of a source came that was not taken yet, in ns since 1970; None where there is none."""
        return self._since.get(place)

    def _read(self, place: int, opened: Callable[[], Iterator[Chunk]], room: Semaphore) -> None:
        try:
            for chunk in opened():
                self._put(place, chunk)
                room.acquire()
                if self._left:
                    return
            self._put(place, None)
        except BaseException as error:  # it is raised where it is taken
            self._put(place, error)

    def _put(self, place: int, read: Read) -> None:
        self._since[place] = time_ns()
        self._arrived.put((place, read))
