"""The process of a high level: it reads what it is to be from its first frame, then rolls up what comes.

    python -m oop_engine.processes.child DESCRIPTOR CAPACITY DESCRIPTOR CAPACITY

The first ring is read, the second written. It ends when the stream does, or when the process that began it is gone.
"""

from __future__ import annotations

import os
import signal
import sys

from oop_engine.processes.frames import FAILURE, TEXT, Receiver, Sender, Watch, waits
from oop_engine.processes.ring import Ring
from oop_engine.processes.spec import load_high
from operators.data.page import Page
from operators.drive import deliver
from operators.window_aggregate.partial_final import HighAggregate


class Orphaned(Exception):
    """The process that began this one is gone, so nobody reads what it has to say."""


def serve(receiver: Receiver, sender: Sender, watch: Watch) -> None:
    """Be a high level until the stream ends."""
    high: HighAggregate | None = None
    pauses = waits(watch)
    while True:
        frames = list(receiver.frames())
        for element in frames:
            if isinstance(element, str):
                high = load_high(element)
                sender.put(TEXT, b"ready")
                continue
            assert high is not None, "the first frame says what this process is to be"
            deliver(high, element, sender.send)
            if not isinstance(element, Page) and element.is_end:
                return
        if frames:
            pauses = waits(watch)
        else:
            next(pauses)


def main(arguments: list[str]) -> int:
    """Open the rings and serve; an error goes to the other process as text."""
    # The process that began this one takes the interrupt, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        if os.getppid() != parent:
            raise Orphaned

    descriptor, capacity, back, room = (int(argument) for argument in arguments)
    receiver, sender = Receiver(Ring(descriptor, capacity)), Sender(Ring(back, room), waiting=watch)
    try:
        serve(receiver, sender, watch)
    except Orphaned:
        return 3
    except Exception as error:
        sender.put(FAILURE, f"{type(error).__name__}: {error}".encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
