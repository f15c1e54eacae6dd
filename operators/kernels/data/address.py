"""The text of an address is written digit by digit: a dotted quad for IPv4, the one form of RFC 5952 for IPv6."""

from __future__ import annotations

from numpy import bool_, int32, int64, uint8, uint64
from numpy.typing import NDArray

from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import u16_be


@kernel
def _is_mapped(
    a: uint8, b: uint8, c: uint8, d: uint8, e: uint8, f: uint8,
    g: uint8, h: uint8, i: uint8, j: uint8, k: uint8, m: uint8,
) -> bool:  # fmt: skip
    """Say whether the first twelve bytes are those of an IPv4 address in an IPv6 one (::ffff:0:0/96)."""
    return (a | b | c | d | e | f | g | h | i | j) == 0 and k == 255 and m == 255


@kernel
def shorten(words: NDArray[uint64], short: NDArray[uint64], others: NDArray[bool_]) -> int64:
    """Write each address of two words in memory as its number in IPv4; mark and count those that have none."""
    count = int64(0)
    for i in range(len(short)):
        high, low = words[uint64(2 * i)], words[uint64(2 * i + 1)]
        other = high != uint64(0) or low & uint64(0xFFFFFFFF) != uint64(0xFFFF0000)
        count += other
        others[uint64(i)] = other
        outer = low >> uint64(56) | low >> uint64(8) & uint64(0xFF000000)
        short[uint64(i)] = outer | low >> uint64(40) & uint64(0xFF00) | low >> uint64(24) & uint64(0xFF0000)
    return count


@kernel
def lengthen(short: NDArray[uint64], words: NDArray[uint64]) -> None:
    """Write the two words in memory of each IPv4 address, given as a number."""
    for i in range(len(short)):
        value = short[uint64(i)]
        outer = value >> uint64(24) & uint64(0xFF) | value << uint64(24) & uint64(0xFF000000)
        turned = outer | value >> uint64(8) & uint64(0xFF00) | value << uint64(8) & uint64(0xFF0000)
        words[uint64(2 * i)] = uint64(0)
        words[uint64(2 * i + 1)] = turned << uint64(32) | uint64(0xFFFF0000)


@kernel
def address_room(data: NDArray[uint8], absent: NDArray[bool_], count: int) -> int64:
    """Return a bound on the characters that `count` addresses of 16 bytes in `data` need; rows of `absent` none."""
    room = int64(0)
    for i in range(count):
        if len(absent) and absent[uint64(i)]:
            continue
        p = i * 16
        mapped = _is_mapped(
            data[uint64(p)], data[uint64(p + 1)], data[uint64(p + 2)], data[uint64(p + 3)],
            data[uint64(p + 4)], data[uint64(p + 5)], data[uint64(p + 6)], data[uint64(p + 7)],
            data[uint64(p + 8)], data[uint64(p + 9)], data[uint64(p + 10)], data[uint64(p + 11)],
        )  # fmt: skip
        room += 15 if mapped else 39
    return room


@kernel
def write_addresses(
    data: NDArray[uint8], absent: NDArray[bool_], count: int, offsets: NDArray[int32], text: NDArray[uint8]
) -> None:
    """Write the addresses one after another into `text`; row i is text[offsets[i] : offsets[i + 1]], ASCII."""
    at = int64(0)
    offsets[0] = 0
    for i in range(count):
        p = i * 16
        if len(absent) and absent[uint64(i)]:
            offsets[uint64(i + 1)] = at
            continue
        mapped = _is_mapped(
            data[uint64(p)], data[uint64(p + 1)], data[uint64(p + 2)], data[uint64(p + 3)],
            data[uint64(p + 4)], data[uint64(p + 5)], data[uint64(p + 6)], data[uint64(p + 7)],
            data[uint64(p + 8)], data[uint64(p + 9)], data[uint64(p + 10)], data[uint64(p + 11)],
        )  # fmt: skip
        if mapped:
            for k in range(12, 16):
                value = int64(data[uint64(p + k)])
                if value >= 100:
                    text[uint64(at)] = 48 + value // 100
                    at += 1
                if value >= 10:
                    text[uint64(at)] = 48 + value // 10 % 10
                    at += 1
                text[uint64(at)] = 48 + value % 10
                at += 1
                if k < 15:
                    text[uint64(at)] = 46
                    at += 1
        else:
            # The longest run of zero groups, the first of equals, is left out; a single zero group stays.
            best = 8
            longest = 1
            run = 0
            for k in range(8):
                run = run + 1 if data[uint64(p + 2 * k)] == 0 and data[uint64(p + 2 * k + 1)] == 0 else 0
                if run > longest:
                    longest = run
                    best = k - run + 1
            k = 0
            while k < 8:
                if k == best:
                    text[uint64(at)] = 58
                    text[uint64(at + 1)] = 58
                    at += 2
                    k += longest
                    continue
                if k > 0 and k != best + longest:
                    text[uint64(at)] = 58
                    at += 1
                group = u16_be(data, p + 2 * k)
                begun = False
                for shift in (12, 8, 4, 0):
                    digit = group >> shift & 15
                    if digit or begun or shift == 0:
                        begun = True
                        text[uint64(at)] = digit + (48 if digit < 10 else 87)
                        at += 1
                k += 1
        offsets[uint64(i + 1)] = at
