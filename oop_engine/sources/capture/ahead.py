"""A thread reads a capture ahead, so that its bytes are copied while those before them are decoded.

Who needs bytes that the thread has not begun to read reads them himself, so nobody waits for a thread that finds no
processor, and one that takes the processor of him it works for is left out for a while. What is read, and where an
error shows, is the same without the thread: bytes are given when they are asked for, in their order, and what went
wrong behind them is raised when those behind them are asked for.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from io import FileIO
from queue import SimpleQueue
from threading import Lock, Thread, current_thread, get_ident
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture.supply import BLOCK, PAGE, shown

if sys.platform == "linux":
    import resource

_BLOCKS: Final = 3
"""Blocks there are: one is decoded, one is read, one waits."""
_FRONT: Final = 1 << 19
"""Bytes before a block for what is left of the one before it, which is mostly a part of one record."""
_TRIED: Final = 8
"""Calls of a thread after which it shows whether it has a processor of its own."""
_ALONE: Final = 64
"""Calls that are then left out, before it is tried again."""
_LEAST: Final = 16 << 20
"""Bytes of a file for which a thread is worth its beginning."""


def worth(size: int) -> bool:
    """Tell whether a file is read sooner with a thread: it is large, and there is another processor."""
    return size >= _LEAST and processors() > 1


def processors() -> int:
    """Give how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def displaced() -> tuple[int, int]:
    """Give which thread this is, and how many times it had to leave its processor to another; 0 if nobody counts."""
    times = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if sys.platform == "linux" else 0
    return get_ident(), times


@attrs.define(eq=False)
class Helper:
    """A thread that does some work whenever it is called; the process does not wait for it to end.

    There is none where threads cannot be begun, or behind a fork.
    """

    _calls: SimpleQueue[bool]
    _thread: Thread
    _process: int = attrs.field(init=False, factory=os.getpid)
    _turn: int = attrs.field(init=False, default=0)
    _before: tuple[int, int] = attrs.field(init=False, factory=lambda: displaced())

    @classmethod
    def begin(cls, work: Callable[[], None]) -> Helper | None:
        """Begin the thread."""
        calls: SimpleQueue[bool] = SimpleQueue()
        thread = Thread(target=_obey, args=(calls, work), name="capture read-ahead", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return None
        return cls(calls, thread)

    @property
    def there(self) -> bool:
        """Whether the thread is one of this process."""
        return self._process == os.getpid()

    def call(self) -> None:
        """Have the work done, unless the thread is seen to take the processor of who calls: then he does it himself."""
        self._turn += 1
        if self._turn == _TRIED:
            before, self._before = self._before, displaced()
            crowded = before[0] == self._before[0] and self._before[1] - before[1] >= _TRIED // 2
            self._turn = -_ALONE if crowded else 0
        elif self._turn == 0:
            self._before = displaced()
        if self._turn >= 0:
            self._calls.put(True)

    def close(self) -> None:
        """End the thread, when it has done what it is at."""
        self._calls.put(False)
        if self._thread is not current_thread():  # which may collect, as garbage, what it works for
            self._thread.join()


def _obey(calls: SimpleQueue[bool], work: Callable[[], None]) -> None:
    while calls.get():
        work()


@attrs.define(eq=False)
class _Block:
    """Bytes of a file from `place` on, in buffer[begin:]; `shown` is that memory for those who read it."""

    file: FileIO
    buffer: NDArray[np.uint8]
    shown: NDArray[np.uint8] = attrs.field(init=False)
    lock: Lock = attrs.field(init=False, factory=Lock)
    begin: int = 0
    place: int = 0
    size: int = 0
    """How many are asked for."""
    read: int = 0
    """How many are there: fewer where the file ends."""
    error: BaseException | None = None
    done: bool = True
    _room: memoryview = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.shown = shown(self.buffer)
        self._room = memoryview(self.buffer.data)

    def ask(self, place: int, size: int) -> None:
        """Say what is to be read."""
        self.begin = _FRONT + (place - self.buffer.ctypes.data - _FRONT) % PAGE
        self.place, self.size, self.done = place, size, False

    def fill(self) -> None:
        """Read the bytes, keeping what goes wrong for those who ask for them."""
        self.read, self.error = 0, None
        try:
            while self.read < self.size:
                room = self._room[self.begin + self.read : self.begin + self.size]
                read = read_at(self.file, room, self.place + self.read)
                if not read:
                    break
                self.read += read
        except BaseException as error:
            self.error = error
        self.done = True


def read_at(file: FileIO, room: memoryview, place: int) -> int:
    """Read from a place of a file, wherever it stands: a process that was forked off shares where it stands."""
    if hasattr(os, "preadv"):
        return os.preadv(file.fileno(), [room], place)
    file.seek(place)
    return file.readinto(room)


@attrs.define(eq=False)
class Ahead:
    """The bytes of an uncompressed file as `Stored` gives them, but read by a thread, two blocks ahead at most.

    With the block that is decoded they take 7.5 MiB, whatever the file.
    """

    _file: FileIO
    _size: int
    data: NDArray[np.uint8] = attrs.field(init=False, factory=lambda: np.empty(0, np.uint8))
    base: int = 0
    end: int = 0
    fault: str | None = None
    steady: bool = True
    _asked: int = 0
    """Bytes of the file that were asked for."""
    _given: _Block | None = None
    _waiting: deque[_Block] = attrs.field(init=False, factory=deque)
    _helper: Helper | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        for _ in range(_BLOCKS):
            self._ask(_Block(self._file, np.empty(_FRONT + PAGE + BLOCK, np.uint8)))
        self._helper = Helper.begin(self._work)
        if self._helper is not None:
            self._helper.call()

    def close(self) -> None:
        """End the thread."""
        self._waiting.clear()
        if self._helper is not None and self._helper.there:
            self._helper.close()

    def consumed(self, at: int) -> int:
        return self.base + min(at, self.end)

    def more(self, at: int) -> bool:
        left = self.data[at : self.end].copy()
        kept = len(left)
        place = min(self.base + max(at, self.end), self._size)
        self.base, self.end = place - kept, kept
        block = self._reaching(place)
        if block is None:
            self.data = placed(left, self.base)
            return False
        begin, end = block.begin + place - block.place, block.begin + block.read
        if kept <= begin:
            block.buffer[begin - kept : begin] = left
            self.data = block.shown[begin - kept :]
        else:
            self.data = placed(np.concatenate([left, block.buffer[begin:end]]), self.base)
        self.end = kept + end - begin
        return True

    def _reaching(self, place: int) -> _Block | None:
        """Give the block that has the byte at a place; None where the file ends before it."""
        block = self._given
        while block is None or block.place + block.read <= place:
            if block is not None:
                if block.error is not None:
                    raise block.error
                if block.read < block.size:
                    return None
                self._ask(block)
            if not self._waiting:
                return None
            self._given = block = self._next()
        return block

    def _next(self) -> _Block:
        block = self._waiting.popleft()
        if self._helper is None or not self._helper.there:
            block.fill()
            return block
        with block.lock:
            if not block.done:
                block.fill()
        return block

    def _ask(self, block: _Block) -> None:
        size = min(BLOCK, self._size - self._asked)
        if size > 0:
            block.ask(self._asked, size)
            self._asked += size
            self._waiting.append(block)
            if self._helper is not None:
                self._helper.call()

    def _work(self) -> None:
        for block in tuple(self._waiting):
            if block.lock.acquire(blocking=False):
                if not block.done:
                    block.fill()
                block.lock.release()


def placed(data: NDArray[np.uint8], place: int) -> NDArray[np.uint8]:
    """Give bytes that lie in their page of memory where they lie in their page of the file."""
    room = np.empty(len(data) + PAGE, np.uint8)
    begin = (place - room.ctypes.data) % PAGE
    room[begin : begin + len(data)] = data
    return shown(room[begin:])
