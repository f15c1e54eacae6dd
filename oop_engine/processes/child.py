"""The process of a level: it reads what it is to be from its standard input, then takes what comes in rings.

    python -m oop_engine.processes.child DESCRIPTOR CAPACITY DESCRIPTOR CAPACITY [DESCRIPTOR CAPACITY ...]

The first ring is written, the others are read, one for each port. It ends when all their streams have ended, or when
the process that began it is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

from oop_engine.processes.errors import ProcessError
from oop_engine.processes.frames import FAILURE, Receiver, Sender, Watch, is_end, waits
from oop_engine.processes.parent import Orphaned, parent_watch
from oop_engine.processes.process import SAID
from oop_engine.processes.ring import Ring
from oop_engine.processes.spec import load
from operators.drive import deliver
from operators.protocol import Element, Operator
from operators.window_aggregate.partial_final.partials import TUPLES

_TURN: Final = 16
"""Frames that are taken of one ring before the next one has its turn."""


def serve(operator: Operator, receivers: Sequence[Receiver], sender: Sender, watch: Watch) -> None:
    """Hand an operator what comes until all streams have ended."""

    def emit(element: Element) -> None:
        if is_end(element):
            # Who reads it looks at once what this process took, and ends it.
            sender.ring.spend(time.process_time_ns())
        sender.send(element)

    left = dict(enumerate(receivers))
    pauses = waits(watch)
    while left:
        sender.ring.spend(time.process_time_ns())
        idle = True
        for port, receiver in list(left.items()):
            for element in islice(receiver.frames(), _TURN):
                idle = False
                if is_end(element):
                    del left[port]
                deliver(operator, element, emit, port)
        if idle:
            next(pauses)
        else:
            pauses = waits(watch)


def main(arguments: list[str]) -> int:
    """Open the rings and serve; an error goes to who reads as text, also one of a process that this one reads."""
    # The process that began this one takes the interrupt, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch = parent_watch()
    numbers = [int(argument) for argument in arguments]
    back, *rings = (Ring(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True))
    sender, name = Sender(back, waiting=watch), "a level"
    try:
        spec = json.load(sys.stdin)
        name = spec["name"]
        sender.full, sender.tuples = spec["full"], TUPLES if spec["full"] == "drop" else ""
        serve(load(spec["level"]), [Receiver(ring) for ring in rings], sender, watch)
    except Orphaned:
        return 3
    except ProcessError as error:
        sender.put(FAILURE, str(error).encode())
        return SAID
    except Exception as error:
        failed = f"the process of {name} (pid {os.getpid()}) failed.\n  {type(error).__name__}: {error}"
        sender.put(FAILURE, failed.encode())
        return SAID
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
