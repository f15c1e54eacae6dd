"""Run a two-level aggregate in two processes or more, with pages in rings of shared memory between them.

`apart(stream)` runs a stream that ends in a window aggregate: the low level here, or in several processes with a part
of the tuples each, the high level in a process of its own (or in a thread, or here too). `Ring`, `Sender` and
`Receiver` carry pages and promises between processes; a `RingSource` is a stream that comes out of a ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oop_engine.lazy import lazily

if TYPE_CHECKING:
    from oop_engine.processes.apart import Apart, apart
    from oop_engine.processes.errors import ProcessError
    from oop_engine.processes.frames import Receiver, Sender
    from oop_engine.processes.ring import Ring
    from oop_engine.processes.source import RingSource

__all__ = ["Apart", "ProcessError", "Receiver", "Ring", "RingSource", "Sender", "apart"]

# A process of a level loads that alone.
lazily(
    __name__,
    {
        "oop_engine.processes.apart": "Apart apart",
        "oop_engine.processes.errors": "ProcessError",
        "oop_engine.processes.frames": "Receiver Sender",
        "oop_engine.processes.ring": "Ring",
        "oop_engine.processes.source": "RingSource",
    },
)
