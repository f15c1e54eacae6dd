"""A packet ring is memory that the kernel fills with an interface's packets, a block at a time (Linux).

A block is handed over when it is full or some milliseconds old, and given back when its packets have been decoded.
While no block is free, the kernel drops packets, and counts them.
"""

from __future__ import annotations

import contextlib
import mmap
import select
import socket
import struct
import sys
from pathlib import Path
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.capture.rows import Rows
from oop_engine.sources.errors import SourceError
from oop_engine.sources.live.blocks import walk_block

BLOCK: Final = 1 << 20
BLOCKS: Final = 32
HANDED: Final = 20
"""Milliseconds after which a block is handed over that is not full."""

_SOL_PACKET: Final = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 1, 5, 6, 10, 23
_V3: Final = 2
_ALL: Final = 3  # ETH_P_ALL
_STATUS: Final = 8  # of a block: whose it is
_SMALLEST: Final = 64
_ETHERNET, _RAW, _UNKNOWN = 1, 101, -1
_LINKS: Final = {1: _ETHERNET, 772: _ETHERNET, 512: _RAW, 65_534: _RAW, 778: _RAW}
"""Link types by the type of hardware: Ethernet and loopback; PPP, tunnels and GRE, whose packets begin with IP."""


@attrs.define(eq=False)
class PacketRing:
    """The packets of one interface, block by block; `rows` and `vlan` are those of the last block until `release`."""

    name: str
    promiscuous: bool = False
    data: NDArray[np.uint8] = attrs.field(init=False)
    rows: Rows = attrs.field(init=False)
    vlan: NDArray[np.int32] = attrs.field(init=False)
    received: int = attrs.field(init=False, default=0)
    _dropped: int = attrs.field(init=False, default=0)
    _socket: socket.socket = attrs.field(init=False)
    _memory: mmap.mmap = attrs.field(init=False)
    _words: NDArray[np.uint32] = attrs.field(init=False)
    _block: int = attrs.field(init=False, default=0)
    _link: int = attrs.field(init=False)
    _closed: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Open the ring; SourceError where there is no such interface, or no right to see its packets."""
        self._link = _LINKS.get(_hardware(self.name), _UNKNOWN)
        self._socket = _opened(self.name)
        try:
            self._set_up()
        except OSError as error:
            self._socket.close()
            raise SourceError(f"{self.name}: the kernel gives no packet ring: {error.strerror}.") from None

    def _set_up(self) -> None:
        own = self._socket
        own.setsockopt(_SOL_PACKET, _VERSION, _V3)
        request = struct.pack("@7I", BLOCK, BLOCKS, 2048, BLOCK * BLOCKS // 2048, HANDED, 0, 0)
        own.setsockopt(_SOL_PACKET, _RX_RING, request)
        self._memory = mmap.mmap(own.fileno(), BLOCK * BLOCKS, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        if _is_loopback(self.name):
            # There every packet is seen as it leaves and as it arrives.
            with contextlib.suppress(OSError):
                own.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        if self.promiscuous:
            index = socket.if_nametoindex(self.name)
            own.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, struct.pack("@iHH8s", index, 1, 0, bytes(8)))
        own.bind((self.name, _ALL))
        self._words = np.frombuffer(self._memory, np.uint32)
        self.data = np.frombuffer(self._memory, np.uint8)
        self.data.flags.writeable = False
        self.rows = Rows.empty(BLOCK // _SMALLEST)
        self.vlan = np.empty(BLOCK // _SMALLEST, np.int32)

    def wait(self, seconds: float) -> None:
        """Wait until a block is handed over, at most so long."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | select.POLLERR)
        poll.poll(seconds * 1000)

    def receive(self) -> int:
        """Take the next block that was handed over; give how many packets it has, -1 where there is none."""
        at = self._block * BLOCK
        if not int(self._words[(at + _STATUS) >> 2]) & 1:
            return -1
        rows = self.rows
        count = walk_block(
            self._words, at, BLOCK, self._link, rows.offset, rows.ts, rows.caplen, rows.length, rows.interface,
            rows.link, self.vlan,
        )  # fmt: skip
        self.received += int(count)
        return int(count)

    def release(self) -> None:
        """Return the received block to the kernel."""
        self._words[(self._block * BLOCK + _STATUS) >> 2] = 0
        self._block = (self._block + 1) % BLOCKS

    @property
    def dropped(self) -> int:
        """Return how many packets the kernel dropped."""
        if not self._closed:
            _, drops, _ = struct.unpack("@3I", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12))
            self._dropped += drops  # asking sets it to zero
        return self._dropped

    def close(self) -> None:
        """Close the socket; the ring's memory goes when nothing refers to it any more."""
        if not self._closed:
            _ = self.dropped
            self._closed = True
            self._socket.close()


def _opened(name: str) -> socket.socket:
    if not sys.platform.startswith("linux"):
        raise SourceError(f"{name}: live packets are read on Linux only; elsewhere pipe tcpdump -w - to oop.pcap.")
    try:
        return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError:
        raise SourceError(
            f"{name}: to see the packets of an interface takes the right CAP_NET_RAW, which this process has not.\n"
            '  Run as root, or give Python the right: setcap cap_net_raw+ep "$(readlink -f "$(which python3)")",\n'
            "  or pipe from what has it: sudo tcpdump -i " + name + " -w - | oop-engine query ... -s Main=-"
        ) from None


def _hardware(name: str) -> int:
    known = sorted(interface for _, interface in socket.if_nameindex())
    if name not in known:
        raise SourceError(f'there is no interface "{name}"; there are {", ".join(known)}.')
    return int(Path("/sys/class/net", name, "type").read_text("ascii"))


def _is_loopback(name: str) -> bool:
    return Path("/sys/class/net", name, "type").read_text("ascii").strip() == "772"
