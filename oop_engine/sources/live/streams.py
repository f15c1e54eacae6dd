"""Streams are the connections of exporters that send IPFIX over TCP or TLS (RFC 7011, section 10.4).

A message begins with its version and its length, so messages are cut out of what a connection brings, whatever its
pieces. A connection is closed by the first bytes in it that begin no message, and no other is: what it said before
counts. What is not read waits in the kernel, which then lets the exporter wait: nothing is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import ssl
import struct
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.errors import SourceError
from oop_engine.sources.flows.channel import TLS, channel_of, sender_text
from oop_engine.sources.flows.datagrams import Datagrams
from oop_engine.sources.flows.decoder import Networks
from oop_engine.sources.flows.messages import MOST, cut
from oop_engine.sources.live.address import Listening
from oop_engine.sources.live.certificate import Renewed

CONNECTIONS: Final = 1000
"""Connections at once, at most; the table of sessions holds 1,024."""
ROOM: Final = 8 << 20
"""Bytes that are taken out of all connections at one look, at most."""
SHARE: Final = 1 << 18
"""Bytes that are taken out of one of them."""
_ACCEPTED: Final = 64
"""Connections that are accepted at one look."""
_KEEP: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A peer that is gone without a word is found after two minutes of silence."""
_FULL: Final = 10**9
"""Nanoseconds after which it is tried again to accept, where no file was free."""
_TOLD: Final = 100
"""Closings that wait to be told."""
_MAPPED: Final = b"\0" * 10 + b"\xff\xff"
_Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)

Key = tuple[bytes, int]
"""The address of a connection's exporter (16 bytes), and its channel."""


@attrs.define(eq=False)
class Connection:
    """One connection: its socket, who is at its other end, and the bytes of a message that is not whole yet."""

    socket: socket.socket
    key: Key
    name: str
    shaken: bool
    """Whether TLS is agreed on, or there is none."""
    began: int
    """When it was made, as a number that rises."""
    held: bytes = b""
    messages: int = 0
    bytes: int = 0
    waits_to_write: bool = False


@attrs.frozen(eq=False)
class Taken:
    """Hold what one look took out: messages, and the connections that are over; `more` may wait in the others."""

    datagrams: Datagrams | None
    closed: tuple[Key, ...]
    more: bool


@attrs.define(eq=False)
class Streams:
    """Sockets that listen for connections, and the connections. Cost: a call for each connection that has something.

    `data` is where messages are put: the ROOM bytes of it from `at` on.
    """

    listening: list[tuple[socket.socket, Listening]]
    renewed: Renewed | None
    allow: Networks | None
    data: NDArray[np.uint8]
    at: int = 0
    most: int = CONNECTIONS
    addresses: list[Listening] = attrs.field(init=False, factory=list)
    """Where it listens, with the ports that were chosen."""
    accepted: int = attrs.field(init=False, default=0)
    reasons: Counter[str] = attrs.field(init=False, factory=Counter)
    """Why connections were closed or refused, but those that their exporters ended between two messages."""
    _open: dict[Key, Connection] = attrs.field(init=False, factory=dict)
    _waiting: selectors.BaseSelector = attrs.field(init=False, factory=_Selector)
    _turn: int = attrs.field(init=False, default=0)
    _told: deque[str] = attrs.field(init=False, factory=lambda: deque(maxlen=_TOLD))
    _more: dict[Key, None] = attrs.field(init=False, factory=dict)
    """Connections of which not all was taken that is known to be there."""
    _full_until: int = attrs.field(init=False, default=0)
    """When it accepts again, in ns, if this process had no file left for a connection."""

    def __attrs_post_init__(self) -> None:
        for one, where in self.listening:
            host, port = one.getsockname()[:2]
            self.addresses.append(Listening(str(host), int(port), where.transport))
            one.setblocking(False)
            self._waiting.register(one, selectors.EVENT_READ, where)

    @staticmethod
    def bind(where: Listening) -> socket.socket:
        """Listen at an address; SourceError when another process does, or it is not of this machine."""
        made = socket.socket(socket.AF_INET6 if where.is_ipv6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Connections of a collector before this one may still be about to end.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((where.host, where.port))
            made.listen(128)
        except OSError as error:
            made.close()
            raise SourceError(
                f"cannot listen on {where}: {error.strerror}.\n"
                "  Another collector may listen there already (ss -tlpn tells which), or the address is not this\n"
                "  machine's; ports below 1024 need rights. Port 0 takes one that is free."
            ) from error
        return made

    @property
    def open(self) -> set[Key]:
        """Return the connections that there are now, or were when all was closed; for any thread."""
        return set(self._open.copy())

    def files(self) -> Iterator[tuple[Any, int]]:
        """Yield all that may have something to read, or to write, and which of these."""
        for key in self._waiting.get_map().values():
            if not self._full_until or isinstance(key.data, Connection):
                yield key.fileobj, key.events

    def take(self, now: int) -> Taken:
        """Accept who connects, and take whole messages out of the connections, which came `now` in ns."""
        offsets: list[NDArray[np.int64]] = []
        owners: list[tuple[Key, int]] = []
        closed: list[Key] = []
        self._full_until = self._full_until if self._full_until > now else 0
        ready, last = [key for key, _ in self._waiting.select(0)], self.accepted
        for key in ready:
            if isinstance(key.data, Listening) and not self._full_until:
                self._accept(key.fileobj, key.data, closed, now)  # pyright: ignore[reportArgumentType]
        found = {key.data.key: key.data for key in ready if isinstance(key.data, Connection)}
        found |= {key: self._open[key] for key in self._more if key in self._open}
        # Whoever connects may have sent at once; a collection that is stopped does not look again.
        found |= {key: one for key, one in self._open.items() if one.began > last}
        every = list(found.values())
        # Whoever had no room at one look is the first at the next.
        self._turn = self._turn % len(every) if every else 0
        place, end = self.at, self.at + ROOM
        self._more = {}
        for number in range(len(every)):
            one = every[(self._turn + number) % len(every)]
            if one.key not in self._open or self._open[one.key] is not one:
                continue
            if end - place < 2 * MOST:
                self._more[one.key] = None
                continue
            ends, place, over = self._read(one, place, min(end, place + max(SHARE, 2 * MOST)))
            if len(ends) > 1:
                offsets.append(ends)
                owners.append((one.key, len(ends) - 1))
                one.messages += len(ends) - 1
                one.bytes += int(ends[-1] - ends[0])
            if over is not None:
                self._close(one, over, closed)
        self._turn += 1
        return Taken(self._datagrams(offsets, owners, now), tuple(closed), bool(self._more))

    def _read(self, one: Connection, place: int, end: int) -> tuple[NDArray[np.int64], int, str | None]:
        """Read a connection into data[place:end]: where its messages begin and the last ends, where it is free behind
        them, and why it is over, "" where its exporter ended it and None where it is not.
        """
        view, at, over = self.data.data, place + len(one.held), None
        view[place:at] = one.held
        while at < end:
            try:
                if not one.shaken:
                    assert isinstance(one.socket, ssl.SSLSocket)
                    one.socket.do_handshake()
                    one.shaken = True
                many = one.socket.recv_into(view[at:end])
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
                self._await(one, writing=False)
                break
            except ssl.SSLWantWriteError:
                self._await(one, writing=True)
                break
            except ssl.SSLError as error:
                over = _not_tls(error) if not one.shaken else "TLS failed"
                break
            except OSError:
                over = "reset by the exporter"
                break
            if not many:
                over = ""
                break
            at += many
        else:
            self._more[one.key] = None
        ends, damage = cut(self.data, place, at)
        behind = int(ends[-1])
        one.held = bytes(view[behind:at])
        if damage:
            over = _damage(one.held)
        elif over == "" and one.held:
            over = "ended inside a message"
        return ends, behind, over

    def _await(self, one: Connection, *, writing: bool) -> None:
        """Have a connection found when it can be written, where TLS wants that."""
        if writing != one.waits_to_write:
            one.waits_to_write = writing
            self._waiting.modify(one.socket, selectors.EVENT_WRITE if writing else selectors.EVENT_READ, one)

    def _datagrams(
        self, offsets: Sequence[NDArray[np.int64]], owners: Sequence[tuple[Key, int]], now: int
    ) -> Datagrams | None:
        if not offsets:
            return None
        many = [count for _, count in owners]
        addresses = np.frombuffer(b"".join(key[0] for key, _ in owners), np.uint64).reshape(-1, 2)
        return Datagrams(
            self.data,
            np.concatenate([ends[:-1] for ends in offsets]),
            np.concatenate([np.diff(ends) for ends in offsets]).astype(np.int32),
            np.full(sum(many), now, np.int64),
            np.repeat(addresses, many, axis=0).reshape(-1),
            np.repeat(np.array([key[1] for key, _ in owners], np.int32), many),
        )

    def _accept(self, listening: socket.socket, where: Listening, closed: list[Key], now: int) -> None:
        for _ in range(_ACCEPTED):
            try:
                made, peer = listening.accept()
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and not self._make_room(closed):
                    self._note("a connection", "this process may open no more files (ulimit -n)", "left waiting")
                    self._full_until = now + _FULL
                return
            address = _packed(str(peer[0]))
            key = address, channel_of(where.transport, int(peer[1]))
            name = f"{sender_text(str(peer[0]), key[1])}:{peer[1]}"
            if self.allow is not None and not any(first <= address <= last for first, last in self.allow):
                self._refuse(made, name, "not of a network that allow names")
                continue
            if len(self._open) >= self.most and not self._make_room(closed):
                self._refuse(made, name, f"more than {self.most:,} connections at once")
                continue
            if key in self._open:
                self._refuse(made, name, "another connection of its address and port is open")
                continue
            self._enter(made, key, name, where)

    def _refuse(self, made: socket.socket, name: str, why: str) -> None:
        made.close()
        self._note(name, why, "refused")

    def _make_room(self, closed: list[Key]) -> bool:
        """Close the oldest connection that has brought no message; False where all have."""
        silent = next((one for one in self._open.values() if not one.messages), None)
        if silent is not None:
            self._close(silent, "silent, and others needed its place", closed)
        return silent is not None

    def _enter(self, made: socket.socket, key: Key, name: str, where: Listening) -> None:
        made.setblocking(False)
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _KEEP:
                if hasattr(socket, option):
                    made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if where.transport == TLS:
            assert self.renewed is not None
            context, said = self.renewed.context()
            if said:
                self._told.append(f"certificate: {said}")
            try:
                made = context.wrap_socket(made, server_side=True, do_handshake_on_connect=False)
            except OSError:
                self._refuse(made, name, "reset by the exporter")
                return
        self.accepted += 1
        one = self._open[key] = Connection(made, key, name, where.transport != TLS, self.accepted)
        self._waiting.register(made, selectors.EVENT_READ, one)

    def _close(self, one: Connection, why: str, closed: list[Key]) -> None:
        self._waiting.unregister(one.socket)
        if one.shaken and isinstance(one.socket, ssl.SSLSocket):
            # Its exporter is told that this is the end, if it listens.
            with contextlib.suppress(OSError, ValueError):
                one.socket.unwrap()
        one.socket.close()
        del self._open[one.key]
        self._more.pop(one.key, None)
        closed.append(one.key)
        if why:
            self._note(one.name, why, "closed")

    def _note(self, name: str, why: str, what: str) -> None:
        self.reasons[f"{what}, {why}"] += 1
        self._told.append(f"{name}: {what}, {why}")

    def news(self) -> Iterator[str]:
        """Yield since the last call which connections were closed or refused, and why, and of renewed certificates; for
        any thread.
        """
        while self._told:
            yield self._told.popleft()

    def troubles(self) -> list[str]:
        """Say how many connections were closed or refused, by reason."""
        return [f"{many:,} connections {why}" for why, many in sorted(self.reasons.items())]

    def close(self) -> None:
        """Close all sockets."""
        for one in self._open.values():
            one.socket.close()
        for one, _ in self.listening:
            one.close()
        self._waiting.close()


def _packed(host: str) -> bytes:
    """Return an address as 16 bytes."""
    host = host.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6, host) if ":" in host else _MAPPED + socket.inet_pton(socket.AF_INET, host)


def _not_tls(error: ssl.SSLError) -> str:
    """Say why TLS was not agreed on."""
    if error.reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"):
        return "it does not speak TLS; tcp:// listens without"
    if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it showed no certificate, which client_ca wants"
    if error.reason == "CERTIFICATE_VERIFY_FAILED":
        return "no authority of client_ca signed its certificate"
    return f"TLS was not agreed on ({(error.reason or 'it went away').replace('_', ' ').lower()})"


def _damage(found: bytes) -> str:
    """Say what stands where a message should begin."""
    version, length = struct.unpack(">2H", found[:4])
    if version == 10:
        return f"a message of {length} bytes cannot be, and what is behind it cannot be found"
    if version in (5, 9):
        return f"it sends NetFlow v{version}, and over connections only IPFIX is sent"
    if found[:2] == b"\x16\x03":
        return "it speaks TLS; tls:// listens for that"
    return f"{found[:4].hex(' ')} begins no message of IPFIX"
