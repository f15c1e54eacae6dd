"""Compiled longest-prefix match: networks become a sorted list of places where the answer changes.

An address is two words in host order, and so is a start; an IPv4 address is moved to the top of the first word.
`rows[i]` is the answer from start i to the next one, -1 for none; start 0 is the lowest address. A table of steps says
where to search: `steps[p]` is the last start at or below the lowest address of step p, of which each is 2**shift of the
high word, from `base` on. So a search looks at a few starts, however many there are.
"""

from __future__ import annotations

import numpy as np
from numpy import bool_, int32, uint8, uint64
from numpy.typing import NDArray

from operators.kernels.compile.kernel import inlined_kernel, kernel, making_kernel
from operators.kernels.compile.prefetch import prefetch
from operators.kernels.data.dotted import quad

AHEAD = 64
"""Addresses whose steps are asked for at a time."""
DEEPEST = 130
"""Networks that can lie in one another, and one that holds all."""
_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_HALF = np.uint64(32)
_MAPPED = np.uint64(0xFFFF)
_LOWEST, _MAPPED_SWAPPED = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF0000)
"""What the first four bytes of a word are in memory order, and what they are in an IPv4 address."""


@kernel
def read_networks(
    offsets: NDArray[int32],
    text: NDArray[uint8],
    values: NDArray[uint64],
    lengths: NDArray[int32],
    other: NDArray[bool_],
) -> None:
    """Read texts such as 10.0.0.0/8 or 10.0.0.7: the address, in 32 bits, and its length; mark in `other` what is none.

    `offsets`, shape (n + 1,), cut `text`; the results have shape (n,).
    """
    for i in range(len(other)):
        end = offsets[i + 1]
        address, place = quad(text, offsets[i], end)
        length = 32
        if address >= 0 and place < end:
            place += 1
            length = 0 if text[place - 1] == 47 and 0 < end - place <= 2 else 99
            for at in range(place, end):
                digit = int(text[at]) - 48
                good = 0 <= digit <= 9 and not (at > place and length == 0)
                length = length * 10 + digit if good else 99
        if address < 0 or length > 32:
            other[i] = True
        else:
            values[i], lengths[i] = address, length


@making_kernel
def lay_out(
    high: NDArray[uint64],
    low: NDArray[uint64],
    lengths: NDArray[int32],
    order: NDArray[int32],
    starts: NDArray[uint64],
    below: NDArray[uint64],
    rows: NDArray[int32],
) -> int:
    """Write where the answer changes, and the answer from there, for networks in the order of address and length.

    Network j lies at (high[j], low[j]), and is row order[j]. `starts`, `below` and `rows`, shape (2 n + 1,), get the
    high words, the low words and the answers; returns how many there are.
    """
    ends = np.empty((DEEPEST, 2), np.uint64)
    inside = np.empty(DEEPEST, np.int32)
    starts[0], below[0], rows[0] = 0, 0, -1
    made, depth = 1, 0
    for j in range(len(high) + 1):
        last = j == len(high)
        while depth > 0 and (
            last or ends[depth - 1, 0] < high[j] or (ends[depth - 1, 0] == high[j] and ends[depth - 1, 1] < low[j])
        ):
            depth -= 1
            # The lowest address behind the network; there is none behind the highest.
            next_low = ends[depth, 1] + np.uint64(1)
            next_high = ends[depth, 0] + np.uint64(next_low == 0)
            if next_low == 0 and next_high == 0:
                continue
            if starts[made - 1] != next_high or below[made - 1] != next_low:
                made += 1
            starts[made - 1], below[made - 1] = next_high, next_low
            rows[made - 1] = inside[depth - 1] if depth > 0 else -1
        if last:
            break
        length = lengths[j]
        if starts[made - 1] != high[j] or below[made - 1] != low[j]:
            made += 1
        starts[made - 1], below[made - 1], rows[made - 1] = high[j], low[j], order[j]
        behind_high, behind_low = np.uint64(0), np.uint64(0)
        if length < 64:
            behind_high, behind_low = _ONES >> np.uint64(length), _ONES
        elif length < 128:
            behind_low = _ONES >> np.uint64(length - 64)
        ends[depth, 0], ends[depth, 1] = high[j] | behind_high, low[j] | behind_low
        inside[depth] = order[j]
        depth += 1
    return made


@kernel
def find_steps(
    starts: NDArray[uint64], below: NDArray[uint64], base: uint64, shift: uint64, steps: NDArray[int32]
) -> None:
    """Write the last start at or below the lowest address of each step; the last of `steps` is the last start."""
    at, last = 0, len(starts) - 1
    for p in range(len(steps) - 1):
        lowest = base + (np.uint64(p) << shift)
        while at < last and (starts[at + 1] < lowest or (starts[at + 1] == lowest and below[at + 1] == 0)):
            at += 1
        steps[p] = at
    steps[len(steps) - 1] = last


@inlined_kernel
def _swapped(word):
    """Return a word with its bytes in the other order."""
    word = (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (word >> np.uint64(8)) & np.uint64(
        0x00FF00FF00FF00FF
    )
    word = (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (word >> np.uint64(16)) & np.uint64(
        0x0000FFFF0000FFFF
    )
    return word << _HALF | word >> _HALF


@inlined_kernel
def _place(high, steps, base, shift):
    """Return the step of an address, the first one for an address before it."""
    return min((max(high, base) - base) >> shift, np.uint64(len(steps) - 2))


@inlined_kernel
def _searched(high, low, starts, below, rows, steps, place):
    """Return the answer for one address, whose step is known."""
    least, most = np.int64(steps[place]), np.int64(steps[place + np.uint64(1)])
    while least < most:
        middle = (least + most + 1) >> 1
        if starts[middle] < high or (starts[middle] == high and below[middle] <= low):
            least = middle
        else:
            most = middle - 1
    return rows[least]


@kernel
def find_networks(words, four, six, places, ids):
    """Write the row of the longest network that each address is in, -1 for none.

    `words`, shape (2 n,), are the 16 bytes of the addresses as little-endian words. `four` and `six` are the tables of
    IPv4 and IPv6: starts, below, rows, steps, and an array of base and shift. `places` has room for AHEAD of them.
    What is needed of the tables is asked for in turns, for AHEAD addresses each: steps, then starts, then answers.
    """
    starts_4, below_4, rows_4, steps_4, rule_4 = four
    starts_6, below_6, rows_6, steps_6, rule_6 = six
    base_4, shift_4, base_6, shift_6 = rule_4[0], rule_4[1], rule_6[0], rule_6[1]
    n, first = len(ids), 0
    while first < n:
        stop = min(first + AHEAD, n)
        for i in range(first, stop):
            high, low = _swapped(words[2 * i]), _swapped(words[2 * i + 1])
            if high == 0 and low >> _HALF == _MAPPED:
                place = _place(low << _HALF, steps_4, base_4, shift_4)
                prefetch(steps_4, place)
            else:
                place = _place(high, steps_6, base_6, shift_6)
                prefetch(steps_6, place)
            places[i - first] = place
        for i in range(first, stop):
            place = places[i - first]
            if words[2 * i] == 0 and words[2 * i + 1] & _LOWEST == _MAPPED_SWAPPED:
                prefetch(starts_4, steps_4[place])
                prefetch(rows_4, steps_4[place])
            else:
                prefetch(starts_6, steps_6[place])
                prefetch(rows_6, steps_6[place])
        for i in range(first, stop):
            high, low, place = _swapped(words[2 * i]), _swapped(words[2 * i + 1]), places[i - first]
            if high == 0 and low >> _HALF == _MAPPED:
                low = low << _HALF
                ids[i] = rows_4[0]
                if low >= base_4:
                    ids[i] = _searched(low, np.uint64(0), starts_4, below_4, rows_4, steps_4, place)
            else:
                ids[i] = rows_6[0]
                if high >= base_6:
                    ids[i] = _searched(high, low, starts_6, below_6, rows_6, steps_6, place)
        first = stop
