"""The rows of one walk: where each packet lies, when it was taken, how long it is."""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

#: The time of a packet that carries none, in arrays of int64 nanoseconds.
NO_TIME: Final = -(2**63)


@attrs.define
class Rows:
    """Arrays of one length, filled by a walk and overwritten by the next; `seen` by the decoding that follows it."""

    offset: NDArray[np.int64]
    ts: NDArray[np.int64]
    caplen: NDArray[np.int32]
    length: NDArray[np.int32]
    interface: NDArray[np.int32]
    link: NDArray[np.int32]
    seen: NDArray[np.uint8]

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
            seen=np.empty(room, np.uint8),
        )
