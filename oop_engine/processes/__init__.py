"""The low level in one process, the high level in another, and between them pages in a ring of shared memory.

`apart(stream)` runs a stream that ends in a window aggregate, which gets two levels: what is below the seam here, what
is above it in a process of its own (or in a thread, or here too), and gives the elements of the result.
`Ring`, `Sender` and `Receiver` carry pages and promises from one process to another; a `RingSource` is a stream that
comes out of a ring.
"""

from oop_engine.processes.apart import Apart, apart
from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import Receiver, Sender
from oop_engine.processes.ring import Ring
from oop_engine.processes.source import RingSource

__all__ = ["Apart", "ProcessError", "Receiver", "Ring", "RingSource", "Sender", "apart"]
