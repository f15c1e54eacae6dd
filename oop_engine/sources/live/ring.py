"""A ring is slots that the kernel fills with datagrams, many at a call, for the compiled decoder to read.

Its memory is all there is between the socket and the decoder: what does not fit waits in the socket's own buffer, and
what does not fit there is dropped by the kernel, which counts it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from oop_engine.sources.flows.datagrams import Datagrams

SLOTS: Final = 512
SLOT: Final = 65_536 + 1_536
"""Bytes of a slot: the longest datagram, and an odd number of half kilobytes, so that slots share no cache lines."""

_NAME: Final = 28  # of a socket address, IPv6 as well
_CONTROL: Final = 64
_MSG_DONTWAIT: Final = 0x40
_SCM_TIMESTAMPNS: Final = 35
_SO_RXQ_OVFL: Final = 40
_MAPPED: Final = np.frombuffer(b"\0" * 10 + b"\xff\xff", np.uint8)
_NS: Final = 1_000_000_000
_HEADER: Final = np.dtype(
    {
        "names": ["name", "name_length", "parts", "part_count", "control", "control_length", "flags", "length"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
"""struct mmsghdr where pointers have 8 bytes."""


@attrs.frozen(eq=False)
class Received:
    """Datagrams in the slots, good until the next are received, and how many the kernel says it dropped so far."""

    datagrams: Datagrams
    dropped: int | None
    """Modulo 2^32; None where the kernel said nothing."""


def batched() -> Callable[..., int] | None:
    """Return the system's call that receives many datagrams at once, None where there is none."""
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        return ctypes.CDLL(None, use_errno=True).recvmmsg
    except (AttributeError, OSError):
        return None


@attrs.define(eq=False)
class Ring:
    """Slots for datagrams: filled by `fill` from a socket that does not block, by recvmmsg where there is that.

    Cost: a system call for up to `slots` datagrams, and a few array operations for all of them.
    """

    slots: int = SLOTS
    more: int = 0
    """Further bytes of its memory, behind the slots, for others to fill."""
    call: Callable[..., int] | None = attrs.field(factory=batched)
    data: NDArray[np.uint8] = attrs.field(init=False)
    _offset: NDArray[np.int64] = attrs.field(init=False)
    _names: NDArray[np.uint8] = attrs.field(init=False)
    _controls: NDArray[np.uint8] = attrs.field(init=False)
    _parts: NDArray[np.uint64] = attrs.field(init=False)
    _headers: NDArray[np.void] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        n = self.slots
        self.data = np.empty(n * SLOT + self.more, np.uint8)
        self._offset = np.arange(n, dtype=np.int64) * SLOT
        self._names = np.zeros((n, _NAME), np.uint8)
        self._controls = np.zeros((n, _CONTROL), np.uint8)
        self._parts = np.empty((n, 2), np.uint64)
        self._parts[:, 0] = self._offset.astype(np.uint64) + np.uint64(self.data.ctypes.data)
        self._parts[:, 1] = SLOT
        self._headers = np.zeros(n, _HEADER)
        numbers = np.arange(n, dtype=np.uint64)
        self._headers["name"] = np.uint64(self._names.ctypes.data) + numbers * np.uint64(_NAME)
        self._headers["parts"] = np.uint64(self._parts.ctypes.data) + numbers * np.uint64(16)
        self._headers["part_count"] = 1
        self._headers["control"] = np.uint64(self._controls.ctypes.data) + numbers * np.uint64(_CONTROL)

    def fill(self, door: socket.socket, now: int, first: int = 0, most: int | None = None) -> Received | None:
        """Take what waits in a socket, into slots from `first` on, at most `most`; None when nothing does."""
        last = self.slots if most is None else min(self.slots, first + most)
        return (
            self._one_by_one(door, now, first, last)
            if self.call is None
            else self._at_once(self.call, door, now, first, last)
        )

    def _at_once(
        self, call: Callable[..., int], door: socket.socket, now: int, first: int, last: int
    ) -> Received | None:
        headers = self._headers[first:last]
        headers["name_length"] = _NAME
        headers["control_length"] = _CONTROL
        address = ctypes.c_void_p(headers.ctypes.data)
        while (count := call(door.fileno(), address, last - first, _MSG_DONTWAIT, None)) < 0:
            code = ctypes.get_errno()
            if code in (errno.EAGAIN, errno.ECONNREFUSED):
                return None
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        if not count:
            return None
        slots = slice(first, first + count)
        arrival, dropped = self._said(slots, now)
        lengths = headers["length"][:count].astype(np.int32)
        return Received(self._datagrams(lengths, arrival, first), dropped)

    def _said(self, slots: slice, now: int) -> tuple[NDArray[np.int64], int | None]:
        """Read what the kernel says beside the datagrams: when each came, and how many were dropped."""
        lengths = self._headers["control_length"][slots].astype(np.int64)
        words = self._controls[slots].view(np.int64)
        kinds = self._controls[slots].view(np.int32)
        count = len(lengths)
        arrival = np.full(count, now, np.int64)
        dropped: int | None = None
        at = np.zeros(count, np.int64)
        rows = np.arange(count)
        for _ in range(2):
            there = at + 16 <= lengths
            if not there.any():
                break
            size = np.where(there, words[rows, np.minimum(at // 8, 7)], 0)
            kind = np.where(there, kinds[rows, np.minimum(at // 4 + 3, 15)], 0)
            level = np.where(there, kinds[rows, np.minimum(at // 4 + 2, 15)], 0)
            ours = level == socket.SOL_SOCKET
            timed = np.flatnonzero(ours & (kind == _SCM_TIMESTAMPNS))
            if len(timed):
                place = at[timed] // 8 + 2
                arrival[timed] = words[timed, place] * _NS + words[timed, place + 1]
            counted = np.flatnonzero(ours & (kind == _SO_RXQ_OVFL))
            if len(counted):
                last = int(counted[-1])
                dropped = int(kinds[last, int(at[last]) // 4 + 4]) & 0xFFFFFFFF
            at = np.where(there, at + (size + 7) // 8 * 8, lengths)
        return arrival, dropped

    def _one_by_one(self, door: socket.socket, now: int, first: int, last: int) -> Received | None:
        view = self.data.data
        lengths: list[int] = []
        for slot in range(first, last):
            try:
                length, sender = door.recvfrom_into(view[slot * SLOT : (slot + 1) * SLOT])
            except (BlockingIOError, ConnectionRefusedError):
                break
            family = socket.AF_INET6 if len(sender) == 4 else socket.AF_INET
            host = str(sender[0]).partition("%")[0]
            packed = int(sender[1]).to_bytes(2, "big")
            packed += (bytes(4) if family == socket.AF_INET6 else b"") + socket.inet_pton(family, host)
            name = int(family).to_bytes(2, sys.byteorder) + packed
            self._names[slot, : len(name)] = np.frombuffer(name, np.uint8)
            lengths.append(length)
        if not lengths:
            return None
        arrival = np.full(len(lengths), now, np.int64)
        return Received(self._datagrams(np.array(lengths, np.int32), arrival, first), None)

    def _datagrams(self, lengths: NDArray[np.int32], arrival: NDArray[np.int64], first: int) -> Datagrams:
        slots = slice(first, first + len(lengths))
        count = len(lengths)
        names = self._names[slots]
        wide = names[:, :2].copy().view(np.uint16)[:, 0] == socket.AF_INET6
        addresses = np.empty((count, 16), np.uint8)
        addresses[:, :12] = _MAPPED
        addresses[:, 12:] = names[:, 4:8]
        if wide.any():
            addresses[wide] = names[wide, 8:24]
        port = names[:, 2].astype(np.int32) << 8 | names[:, 3]
        return Datagrams(self.data, self._offset[slots], lengths, arrival, addresses.reshape(-1).view(np.uint64), port)
