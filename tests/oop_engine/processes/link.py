"""Half of a plan for another host: run a part of the stream, and send pages and promises over a connection of TCP.

The end of the stream is sent once the other host has answered.
`python -m tests.oop_engine.processes.link ADDRESS PORT PART PARTS` connects to a port of an address and sends one part.
"""

from __future__ import annotations

import socket
import struct
import sys

import attrs
import numpy as np
import pyarrow as pa

import oop_engine as oop
from oop_engine.drive.synchronous import Run
from oop_engine.plan.graph import Plan
from oop_engine.processes.frames import Sender
from operators.data.page import Page
from operators.data.schema import Schema
from operators.protocol import Element
from punctuation import Below, Equals, Punctuation, before

SCHEMA = Schema.of(ts=pa.int64(), k=pa.string(), v=pa.int64(), progress=["ts", ("k", "ts")])
ALL_KEYS = 200
"""Up to where promises are on all keys; behind it they are on the key "a"."""
_HEAD = struct.Struct(">BQ")


@attrs.frozen(eq=False)
class Link:
    """Frames over a connection, read and written as those of a ring are; reading waits for the next."""

    connection: socket.socket
    counters: dict[str, int] = attrs.field(factory=lambda: {"dropped_tuples": 0})
    left: bool = attrs.field(default=False, init=False)

    def leave(self) -> None:
        """Say nothing: a connection that is closed tells the other host that nobody reads any more."""

    def fits(self, size: int) -> bool:
        return True

    def write(self, kind: int, content: bytes | pa.Buffer) -> bool:
        self.connection.sendall(_HEAD.pack(kind, len(content)) + bytes(content))
        return True

    def read(self) -> tuple[int, pa.Buffer]:
        kind, size = _HEAD.unpack(self._read(_HEAD.size))
        return kind, pa.py_buffer(self._read(size))

    def _read(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = self.connection.recv(size - len(found))
            if not piece:
                raise ConnectionError("the other host is gone")
            found += piece
        return bytes(found)


def elements(part: int, parts: int) -> list[Element]:
    """Make a part of a stream of 240 ticks: shuffled blocks of 20, each before a promise, the last ones on one key."""
    rng = np.random.default_rng(7)
    made: list[Element] = []
    for begin in range(0, 240, 20):
        ticks = begin + rng.permutation(np.repeat(np.arange(20), 5))
        keys, values = rng.choice(["a", "b", "c"], len(ticks)), rng.integers(-50, 50, len(ticks))
        own = np.arange(len(ticks)) % parts == part
        made.append(Page.of(SCHEMA, {"ts": ticks[own], "k": keys[own].tolist(), "v": values[own]}))
        end = begin + 20
        made.append(before("ts", end) if end <= ALL_KEYS else Punctuation({"k": Equals("a"), "ts": Below(end)}))
    return made


def front(stream: oop.Stream) -> oop.Stream:
    return stream.filter(lambda t: t["v"] != 0).derive(w=lambda t: t["v"] * 2).project("ts", "k", "w")


def main() -> None:
    address, (port, part, parts) = sys.argv[1], map(int, sys.argv[2:])
    with socket.create_connection((address, port), timeout=30) as connection:
        connection.settimeout(None)
        sender = Sender(Link(connection))  # type: ignore[arg-type]
        for _, element in Run(Plan((front(oop.pages(elements(part, parts), SCHEMA)).node,))):
            if not isinstance(element, Page) and element.is_end:
                connection.recv(1)
            sender.send(element)


if __name__ == "__main__":
    main()
