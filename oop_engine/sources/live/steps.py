"""A step of a collection: what was taken out of the socket at one look, or that nothing was, and when.

All that a collection gives is a function of its steps, so whoever goes through them again gives the same.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs
import numpy as np

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams

_HEAD: Final = struct.Struct("<2B2xIqd")
_BEGAN: Final = 1
_FULL: Final = 2
_LAST: Final = 4
_POLLED: Final = 8
_VERSION: Final = 1


@attrs.frozen(eq=False)
class Step:
    """One look at a socket.

    `now` is what the clock said, `full` that more may wait behind the `datagrams`, `filled` how much of the receive
    buffer was taken (0 to 1), `last` that the reading was asked to end, `polled` that it was asked how far it is.
    `began`: it is no look, but the moment from which on somebody listened.
    """

    now: int
    datagrams: Datagrams | None = None
    full: bool = False
    filled: float = 0.0
    last: bool = False
    polled: bool = False
    began: bool = False

    def encoded(self) -> bytes:
        """Return it as bytes. Cost: two copies of the datagrams."""
        found = self.datagrams
        flags = _BEGAN * self.began | _FULL * self.full | _LAST * self.last | _POLLED * self.polled
        head = _HEAD.pack(_VERSION, flags, 0 if found is None else len(found), self.now, self.filled)
        if found is None:
            return head
        view = found.data.data
        ends = zip(found.offset.tolist(), (found.offset + found.length).tolist(), strict=True)
        parts = (found.arrival, found.address, found.port, found.length)
        return b"".join([head, *(part.tobytes() for part in parts), *(view[start:end] for start, end in ends)])

    @classmethod
    def decoded(cls, content: bytes) -> Step:
        """Return what `encoded` gave; SourceError for something else."""
        if len(content) < _HEAD.size or content[0] != _VERSION:
            raise SourceError(
                f"a record of the journal has version {content[:1].hex()}, and this engine reads {_VERSION:02x}.\n"
                "  Go on with the engine that wrote it until a checkpoint has it, or remove the journal: what came"
                " after the last checkpoint then counts as lost."
            )
        _, flags, many, now, filled = _HEAD.unpack_from(content)
        began, full, last, polled = (bool(flags & flag) for flag in (_BEGAN, _FULL, _LAST, _POLLED))
        if not many:
            return cls(now, None, full, filled, last, polled, began)
        at, arrays = _HEAD.size, []
        for kind, width in ((np.int64, 1), (np.uint64, 2), (np.int32, 1), (np.int32, 1)):
            arrays.append(np.frombuffer(content, kind, many * width, at).copy())
            at += arrays[-1].nbytes
        arrival, address, port, length = arrays
        data = np.frombuffer(content, np.uint8, offset=at).copy()
        offset = np.cumsum(length, dtype=np.int64) - length
        found = Datagrams(data, offset, length, arrival, address, port)
        return cls(now, found, full, filled, last, polled, began)
