"""Run a two-level aggregate in two processes, with pages in a ring of shared memory between them.

`apart(stream)` runs a stream that ends in a window aggregate: the low level here, the high level in a process of its
own (or in a thread, or here too). `Ring`, `Sender` and `Receiver` carry pages and promises between processes; a
`RingSource` is a stream that comes out of a ring.
"""

from oop_engine.processes.apart import Apart, apart
from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import Receiver, Sender
from oop_engine.processes.ring import Ring
from oop_engine.processes.source import RingSource

__all__ = ["Apart", "ProcessError", "Receiver", "Ring", "RingSource", "Sender", "apart"]
