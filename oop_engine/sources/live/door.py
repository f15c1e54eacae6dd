"""A door is a bound UDP socket that receives datagrams in batches and knows what it dropped.

The kernel drops what comes while the receive buffer is full. It counts that for the socket, and tells it in the
ancillary data of the datagrams that follow (SO_RXQ_OVFL) and in /proc/net/udp, which also knows of drops that no
datagram followed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import struct
import sys
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sources.errors import SourceError
from oop_engine.sources.live.address import Listening
from oop_engine.sources.live.ring import Received, Ring

BUFFER: Final = 32 << 20
"""Bytes of the receive buffer that are asked for: a second of 14,000 datagrams of 1,464 bytes."""
GATHER: Final = 0.004
"""Seconds for which datagrams gather behind the first of a `wait`: a chunk costs half a millisecond, however small."""
_FASTEST: Final = 300 << 20
"""Bytes of the receive buffer a second that may be taken while they gather: some 130,000 full datagrams."""

_SO_RCVBUFFORCE: Final = 33
_SO_RXQ_OVFL: Final = 40
_SO_TIMESTAMPNS: Final = 35
_SO_MEMINFO: Final = 55
_WRAP: Final = 1 << 32

_Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)


@attrs.define(eq=False)
class Door:
    """A socket that is open, until `close`. `wake` from any thread ends a `wait` at once."""

    socket: socket.socket
    ring: Ring = attrs.field(factory=Ring)
    address: Listening = attrs.field(init=False)
    """Where this door is, with the port that was chosen."""
    buffer: int = attrs.field(init=False, default=0)
    """Bytes that the kernel gave, which counts its own bookkeeping in them."""
    received: int = attrs.field(init=False, default=0)
    size: int = attrs.field(init=False, default=0)
    """Bytes received."""
    dropped_before: int = attrs.field(init=False, default=0)
    """Datagrams that were dropped at sockets before this one."""
    _dropped: int = attrs.field(init=False, default=0)
    _alarm: tuple[socket.socket, socket.socket] = attrs.field(init=False, factory=lambda: socket.socketpair())
    _closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        host, port = self.socket.getsockname()[:2]
        self.address = Listening(str(host), int(port))

    @classmethod
    def at(cls, listening: Listening, *, buffer: int = BUFFER, stamped: bool = True) -> Door:
        """Bind to an address; SourceError when another process has it, or it is not of this machine."""
        made = socket.socket(socket.AF_INET6 if listening.is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.bind((listening.host, listening.port))
        except OSError as error:
            made.close()
            raise SourceError(
                f"cannot listen on {listening}: {error.strerror}.\n"
                "  Another collector may listen there already (ss -ulpn tells which), or the address is not this\n"
                "  machine's; ports below 1024 need rights. Port 0 takes one that is free."
            ) from None
        return cls.of(made, buffer=buffer, stamped=stamped)

    @classmethod
    def of(cls, bound: socket.socket, *, buffer: int = BUFFER, stamped: bool = True) -> Door:
        """Take over a socket that is bound already; `stamped`: the kernel is to say when each datagram came."""
        door = cls(bound)
        bound.setblocking(False)
        door._enlarge(buffer)
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, int(stamped))
        for end in door._alarm:
            end.setblocking(False)
        return door

    def _enlarge(self, wanted: int) -> None:
        """Ask for a receive buffer, past the system's limit where that is allowed."""
        own = self.socket
        with contextlib.suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
        if sys.platform.startswith("linux") and self._given() < 2 * wanted:
            with contextlib.suppress(OSError):
                own.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, wanted)
        self.buffer = self._given()

    def _given(self) -> int:
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    def wait(self, seconds: float) -> None:
        """Wait until datagrams are there, somebody wakes this door, or the time is over.

        Others gather behind the first datagram for a moment, at most so long that a quarter of the buffer fills.
        """
        alarm = self._alarm[0]
        with _Selector() as waiting:
            waiting.register(self.socket, selectors.EVENT_READ)
            waiting.register(alarm, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in waiting.select(max(0.0, seconds))}
            if ready and alarm not in ready:
                waiting.unregister(self.socket)
                ready = {key.fileobj for key, _ in waiting.select(min(GATHER, seconds, self.buffer / (4 * _FASTEST)))}
            if alarm in ready:
                with contextlib.suppress(BlockingIOError):
                    alarm.recv(4096)

    def wake(self) -> None:
        """End a `wait`, from any thread."""
        if not self._closed:
            with contextlib.suppress(BlockingIOError, OSError):
                self._alarm[1].send(b"!")

    @property
    def filled(self) -> float:
        """Return how much of the receive buffer is taken by datagrams that wait, 0 to 1; 0 where nobody tells."""
        if not sys.platform.startswith("linux") or self._closed:
            return 0.0
        try:
            taken, room = struct.unpack("=2I", self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 8))
        except OSError:
            return 0.0
        return min(1.0, taken / room) if room else 0.0

    def receive(self, now: int) -> Received | None:
        """Take the datagrams that wait, at most as many as the ring has slots; None when there are none."""
        found = self.ring.fill(self.socket, now)
        if found is not None:
            self.received += len(found.datagrams)
            self.size += int(found.datagrams.length.sum())
            if found.dropped is not None:
                self._note(found.dropped)
        return found

    def _note(self, total: int) -> None:
        """Take a count modulo 2^32 that only rises."""
        self._dropped += (total - self._dropped) % _WRAP

    @property
    def dropped(self) -> int:
        """Return how many datagrams the kernel dropped at this socket since it was bound, and before."""
        listed = None if self._closed else self._listed()
        if listed is not None and (listed - self._dropped) % _WRAP < _WRAP // 2:
            self._note(listed)
        return self.dropped_before + self._dropped

    def _listed(self) -> int | None:
        """Read the kernel's list of UDP sockets; None where there is none."""
        try:
            inode = str(os.fstat(self.socket.fileno()).st_ino)
            for name in ("udp", "udp6"):
                for line in Path("/proc/net", name).read_text("ascii").splitlines()[1:]:
                    parts = line.split()
                    if len(parts) > 12 and parts[9] == inode:
                        return int(parts[12])
        except (OSError, ValueError):
            return None
        return None

    def close(self) -> None:
        """Close the socket; what it dropped stays known."""
        if not self._closed:
            _ = self.dropped
            self._closed = True
            self.socket.close()
            for end in self._alarm:
                end.close()
