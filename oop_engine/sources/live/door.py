"""A door is all the sockets that exporters send to: of UDP at one or more addresses, and connections of TCP and TLS.

What comes at all of them is one sequence, as if it had come at one: in the order of arrival, as near as the kernel
tells, and in the order in which it was sent by each.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import Networks
from oop_engine.sources.live.address import Listening
from oop_engine.sources.live.certificate import Certificate, Renewed
from oop_engine.sources.live.ring import SLOT, Ring
from oop_engine.sources.live.streams import ROOM, Key, Streams
from oop_engine.sources.live.udp import UdpSocket

BUFFER: Final = 32 << 20
"""Bytes of the receive buffer that are asked for: a second of 14,000 datagrams of 1,464 bytes."""
GATHER: Final = 0.004
"""Seconds for which datagrams gather behind the first of a `wait`: a chunk costs half a millisecond, however small."""
_FASTEST: Final = 300 << 20
"""Bytes of the receive buffer a second that may be taken while they gather: some 130,000 full datagrams."""

_Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)


@attrs.frozen(eq=False)
class Look:
    """Hold what one look at a door found, good until the next one.

    `behind` is when the newest datagram came behind which older ones may wait, None where nothing does; `closed` are
    the connections that are over, behind all that is in `datagrams` of them.
    """

    datagrams: Datagrams | None
    behind: int | None = None
    closed: tuple[Key, ...] = ()
    more: bool = False
    """Whether more may wait."""


@attrs.define(eq=False)
class Door:
    """Sockets that are open, until `close`. `wake` from any thread ends a `wait` at once."""

    udp: list[UdpSocket]
    streams: Streams | None = None
    ring: Ring = attrs.field(factory=Ring)
    buffer: int = attrs.field(init=False)
    """Bytes of the receive buffers of datagrams together."""
    received: int = attrs.field(init=False, default=0)
    """Datagrams, and messages of connections."""
    size: int = attrs.field(init=False, default=0)
    """Bytes received."""
    dropped_before: int = attrs.field(init=False, default=0)
    """Datagrams that were dropped at sockets before these."""
    _alarm: tuple[socket.socket, socket.socket] = attrs.field(init=False, factory=lambda: socket.socketpair())
    _closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.buffer = sum(one.buffer for one in self.udp)
        for end in self._alarm:
            end.setblocking(False)

    @classmethod
    def open(
        cls, *where: Listening | socket.socket, buffer: int = BUFFER, stamped: bool = True, sockets: int = 1,
        certificate: Certificate | None = None, allow: Networks | None = None,
    ) -> Door:  # fmt: skip
        """Bind to addresses, or take over sockets that are bound already.

        - `buffer`: bytes of receive buffer to ask for, for each socket of UDP.
        - `stamped`: the kernel is to say when each datagram came.
        - `sockets`: how many sockets of UDP share an address.
        - `certificate`: what is shown to who connects by TLS. A bound socket of TCP is one of TLS if this is given.
        - `allow`: the networks from which connections are accepted; None for all.

        SourceError when another process has an address, or it is not of this machine, or the certificate cannot be
        used.
        """
        renewed = None if certificate is None else Renewed(certificate)
        bound: list[socket.socket] = []
        listening: list[tuple[socket.socket, Listening]] = []
        try:
            for one in where:
                if isinstance(one, socket.socket):
                    at = listening_at(one, certified=certificate is not None)
                    if at.is_stream:
                        listening.append((one, at))
                    else:
                        bound.append(one)
                elif one.is_stream:
                    listening.append((Streams.bind(one), one))
                else:
                    bound += UdpSocket.bind(one, sockets)
        except BaseException:
            for made in [*bound, *(one for one, _ in listening)]:
                made.close()
            raise
        ring = Ring(more=ROOM if listening else 0)
        streams = Streams(listening, renewed, allow, ring.data, ring.slots * SLOT) if listening else None
        return cls([UdpSocket.of(one, buffer=buffer, stamped=stamped) for one in bound], streams, ring)

    @property
    def addresses(self) -> list[Listening]:
        """Return where it is open, each address once, with the ports that were chosen."""
        streams = [] if self.streams is None else self.streams.addresses
        return list(dict.fromkeys([*(one.address for one in self.udp), *streams]))

    @property
    def address(self) -> Listening:
        """Return the first of the addresses."""
        return self.addresses[0]

    def wait(self, seconds: float) -> None:
        """Wait until something is there, somebody wakes this door, or the time is over.

        Others gather behind the first datagram for a moment, at most so long that a quarter of the buffer fills.
        """
        alarm = self._alarm[0]
        with _Selector() as waiting:
            files = [(one.socket, selectors.EVENT_READ) for one in self.udp]
            files += [] if self.streams is None else list(self.streams.files())
            for file, events in files:
                waiting.register(file, events)
            waiting.register(alarm, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in waiting.select(max(0.0, seconds))}
            if ready and alarm not in ready:
                for file, _ in files:
                    waiting.unregister(file)
                gather = min(GATHER, seconds, self.buffer / (4 * _FASTEST) if self.udp else GATHER)
                ready = {key.fileobj for key, _ in waiting.select(gather)}
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
        """Return how much of the fullest receive buffer is taken by datagrams that wait, 0 to 1."""
        return 0.0 if self._closed else max((one.filled for one in self.udp), default=0.0)

    def receive(self, now: int) -> Look | None:
        """Take what waits, at most as many datagrams as the ring has slots; None when there is nothing."""
        found: list[Datagrams] = []
        behind: list[int] = []
        share = self.ring.slots // max(1, len(self.udp))
        for number, one in enumerate(self.udp):
            taken = one.take(self.ring, now, number * share, share)
            if taken is not None:
                found.append(taken.datagrams)
                if len(taken.datagrams) >= share:
                    behind.append(int(taken.datagrams.arrival.max()))
        found = [_in_order(found)] if len(found) > 1 else found
        closed, more = (), bool(behind)
        if self.streams is not None:
            said = self.streams.take(now)
            closed, more = said.closed, more or said.more
            found += [] if said.datagrams is None else [said.datagrams]
        if not found and not closed and not more:
            return None
        whole = None if not found else found[0] if len(found) == 1 else _together(found)
        if whole is not None:
            self.received += len(whole)
            self.size += int(whole.length.sum())
        return Look(whole, min(behind, default=None), closed, more)

    @property
    def dropped(self) -> int:
        """Return how many datagrams the kernel dropped at these sockets since they were bound, and before."""
        return self.dropped_before + sum(one.dropped for one in self.udp)

    def close(self) -> None:
        """Close the sockets; what they dropped stays known."""
        if not self._closed:
            self._closed = True
            for one in self.udp:
                one.close()
            if self.streams is not None:
                self.streams.close()
            for end in self._alarm:
                end.close()


def listening_at(bound: socket.socket, *, certified: bool = False) -> Listening:
    """Return where a socket is; one of TCP is of TLS if there is a certificate."""
    host, port = bound.getsockname()[:2]
    streams = bound.type == socket.SOCK_STREAM
    if streams and not bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise SourceError("listen is a socket of TCP that does not listen for connections; call its listen() first.")
    return Listening(str(host), int(port), ("tls" if certified else "tcp") if streams else "udp")


def _in_order(found: Sequence[Datagrams]) -> Datagrams:
    """Return datagrams of several sockets in the order of arrival; those of each socket stay in their own."""
    latest = np.concatenate([np.maximum.accumulate(one.arrival) for one in found])
    return _together(found).chosen(np.argsort(latest, kind="stable"))


def _together(found: Sequence[Datagrams]) -> Datagrams:
    """Return datagrams of one memory as one."""
    offset, length, arrival, address, port = (
        np.concatenate([getattr(one, name) for one in found])
        for name in ("offset", "length", "arrival", "address", "port")
    )
    return Datagrams(found[0].data, offset, length, arrival, address, port)
