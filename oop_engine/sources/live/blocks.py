"""Walk the packets in the kernel's blocks: a chain of headers (TPACKET_V3), each of which points to the next."""

from __future__ import annotations

from numpy import int32, int64, uint32
from numpy.typing import NDArray

from oop_engine.sources.flows.entries import Whole
from operators.kernels.compile.kernel import kernel


@kernel
def walk_block(
    words: NDArray[uint32], block: Whole, size: Whole, link: Whole, offset: NDArray[int64], ts: NDArray[int64],
    caplen: NDArray[int32], length: NDArray[int32], interface: NDArray[int32], links: NDArray[int32],
    vlan: NDArray[int32],
) -> Whole:  # fmt: skip
    """Note where the packets of the block of `size` bytes at byte `block` lie; give how many there are.

    `words` is the ring in words of four bytes. What would reach beyond its block is left out, with all behind it.
    """
    many = int64(words[(block + 12) >> 2])
    at = block + int64(words[(block + 16) >> 2])
    count = int64(0)
    while count < many and count < len(offset) and at + 48 <= block + size:
        place = at >> 2
        start = at + (int64(words[place + 6]) & 0xFFFF)
        kept = int64(words[place + 3])
        if start + kept > block + size:
            break
        offset[count] = start
        ts[count] = int64(words[place + 1]) * 1_000_000_000 + int64(words[place + 2])
        caplen[count] = kept
        length[count] = int64(words[place + 4])
        interface[count] = 0
        links[count] = link
        # A tag that the network card took out of the packet stands here instead.
        vlan[count] = int64(words[place + 8]) & 0xFFF if int64(words[place + 5]) & 0x10 else -1
        count += 1
        step = int64(words[place])
        if step < 48:
            break
        at += step
    return count
