"""A step of a collection: what was taken out of the socket at one look, or that nothing was, and when.

All that a collection gives is a function of its steps, so whoever goes through them again gives the same.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams

_HEAD: Final = struct.Struct("<2BHIqd")
"""Version, flags, connections that are over, datagrams, the time, how much of the buffer was taken."""
_BEHIND: Final = struct.Struct("<q")
_KEY: Final = struct.Struct("<16si")
_BEGAN: Final = 1
_FULL: Final = 2
_LAST: Final = 4
_POLLED: Final = 8
_VERSION: Final = 2
_BEFORE: Final = 1
"""The version that knew of no connections, and of one socket."""


@attrs.frozen(eq=False)
class Step:
    """One look at a socket.

    `now` is what the clock said, `behind` when the newest of the `datagrams` came behind which older ones may wait
    (None where nothing does), `filled` how much of the receive buffer was taken (0 to 1), `last` that the reading was
    asked to end, `polled` that it was asked how far it is. `closed` are the connections that are over, address (16
    bytes) and channel, behind all that came of them.
    `began`: it is no look, but the moment from which on somebody listened.
    """

    now: int
    datagrams: Datagrams | None = None
    behind: int | None = None
    filled: float = 0.0
    last: bool = False
    polled: bool = False
    began: bool = False
    closed: tuple[tuple[bytes, int], ...] = ()

    def encoded(self) -> bytes:
        """Return it as bytes. Cost: two copies of the datagrams."""
        found = self.datagrams
        full = self.behind is not None
        flags = _BEGAN * self.began | _FULL * full | _LAST * self.last | _POLLED * self.polled
        many = 0 if found is None else len(found)
        head = [_HEAD.pack(_VERSION, flags, len(self.closed), many, self.now, self.filled)]
        head += [] if self.behind is None else [_BEHIND.pack(self.behind)]
        head += [_KEY.pack(*key) for key in self.closed]
        if found is None:
            return b"".join(head)
        view = found.data.data
        ends = zip(found.offset.tolist(), (found.offset + found.length).tolist(), strict=True)
        parts = (found.arrival, found.address, found.port, found.length)
        return b"".join([*head, *(part.tobytes() for part in parts), *(view[start:end] for start, end in ends)])

    @classmethod
    def decoded(cls, content: bytes) -> Step:
        """Return what `encoded` gave; SourceError for something else."""
        if len(content) < _HEAD.size or content[0] not in (_BEFORE, _VERSION):
            raise SourceError(
                f"a record of the journal has version {content[:1].hex()}, and this engine reads {_BEFORE:02x} and"
                f" {_VERSION:02x}.\n"
                "  Go on with the engine that wrote it until a checkpoint has it, or remove the journal: what came"
                " after the last checkpoint then counts as lost."
            )
        version, flags, ended, many, now, filled = _HEAD.unpack_from(content)
        began, full, last, polled = (bool(flags & flag) for flag in (_BEGAN, _FULL, _LAST, _POLLED))
        at, behind = _HEAD.size, None
        if full and version != _BEFORE:
            (behind,) = _BEHIND.unpack_from(content, at)
            at += _BEHIND.size
        closed = tuple(_KEY.iter_unpack(content[at : at + ended * _KEY.size]))
        at += ended * _KEY.size
        if not many:
            return cls(now, None, behind, filled, last, polled, began, closed)
        arrays = list[NDArray[Any]]()
        for kind, width in ((np.int64, 1), (np.uint64, 2), (np.int32, 1), (np.int32, 1)):
            arrays.append(np.frombuffer(content, kind, many * width, at).copy())
            at += arrays[-1].nbytes
        arrival, address, port, length = arrays
        data = np.frombuffer(content, np.uint8, offset=at).copy()
        offset = np.cumsum(length, dtype=np.int64) - length
        found = Datagrams(data, offset, length, arrival, address, port)
        if full and version == _BEFORE:
            behind = int(arrival.max())
        return cls(now, found, behind, filled, last, polled, began, closed)
