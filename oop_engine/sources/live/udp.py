"""A bound UDP socket that receives datagrams in batches, and knows what it dropped.

The kernel drops what comes while the receive buffer is full. It counts that for the socket, and tells it in the
ancillary data of the datagrams that follow (SO_RXQ_OVFL) and in /proc/net/udp, which also knows of drops that no
datagram followed.

Several sockets may share an address (SO_REUSEPORT): the kernel gives all that one port of a sender sends to one of
them, so its order stays, and each has a receive buffer of its own.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Final

import attrs

from oop_engine.sources.errors import SourceError
from oop_engine.sources.live.address import Listening
from oop_engine.sources.live.ring import Received, Ring

_SO_RCVBUFFORCE: Final = 33
_SO_RXQ_OVFL: Final = 40
_SO_TIMESTAMPNS: Final = 35
_SO_MEMINFO: Final = 55
_WRAP: Final = 1 << 32


@attrs.define(eq=False)
class UdpSocket:
    """A socket that is open, until `close`."""

    socket: socket.socket
    address: Listening = attrs.field(init=False)
    """Where it is, with the port that was chosen."""
    buffer: int = attrs.field(init=False, default=0)
    """Bytes that the kernel gave, which counts its own bookkeeping in them."""
    _dropped: int = attrs.field(init=False, default=0)
    _closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        host, port = self.socket.getsockname()[:2]
        self.address = Listening(str(host), int(port))

    @staticmethod
    def bind(where: Listening, sockets: int = 1) -> list[socket.socket]:
        """Bind so many sockets to an address; SourceError when another process has it, it is not of this machine, or
        the system has no sockets that share one.
        """
        made: list[socket.socket] = []
        try:
            # One that shares would be let in beside those of another collector, and take half of what is sent to it.
            alone = _bound(where)
            port = alone.getsockname()[1]
            if sockets == 1:
                return [alone]
            alone.close()
            _check_shared(sockets)
            for _ in range(sockets):
                made.append(_bound(attrs.evolve(where, port=port), shared=True))
        except OSError as error:
            for one in made:
                one.close()
            raise SourceError(
                f"cannot listen on {where}: {error.strerror}.\n"
                "  Another collector may listen there already (ss -ulpn tells which), or the address is not this\n"
                "  machine's; ports below 1024 need rights. Port 0 takes one that is free."
            ) from None
        return made

    @classmethod
    def of(cls, bound: socket.socket, *, buffer: int, stamped: bool) -> UdpSocket:
        """Take over a socket that is bound already; `stamped`: the kernel is to say when each datagram came."""
        made = cls(bound)
        bound.setblocking(False)
        made._enlarge(buffer)
        if sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
            with contextlib.suppress(OSError):
                bound.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, int(stamped))
        return made

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

    def take(self, ring: Ring, now: int, first: int, most: int) -> Received | None:
        """Take the datagrams that wait into the slots of a ring from `first` on, at most so many; None for none."""
        found = ring.fill(self.socket, now, first, most)
        if found is not None and found.dropped is not None:
            self._note(found.dropped)
        return found

    def _note(self, total: int) -> None:
        """Take a count modulo 2^32 that only rises."""
        self._dropped += (total - self._dropped) % _WRAP

    @property
    def dropped(self) -> int:
        """Return how many datagrams the kernel dropped at this socket since it was bound."""
        listed = None if self._closed else self._listed()
        if listed is not None and (listed - self._dropped) % _WRAP < _WRAP // 2:
            self._note(listed)
        return self._dropped

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


def _bound(where: Listening, *, shared: bool = False) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if where.is_ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((where.host, where.port))
    except OSError:
        made.close()
        raise
    return made


def _check_shared(sockets: int) -> None:
    """Check that sockets can share an address here, and all that a port sends goes to one of them."""
    if not sys.platform.startswith("linux"):
        raise SourceError(
            f"sockets={sockets}: only Linux spreads what is sent to one address over several sockets; leave it out."
        )
