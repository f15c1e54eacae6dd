r"""Names in payloads: those that DNS asks for, of servers of TLS (SNI), of hosts of HTTP.

Each is read out of one packet alone, as far as that was captured; nothing is put together from several. A name has at
most 255 bytes, and is written as printable ASCII: any other byte, a blank, a backslash, and a dot within a label of
DNS become \ddd, three decimal digits, as in the master files of DNS. Whatever the bytes are, they are followed only
forward, so no packet takes longer than its bytes.
"""

from __future__ import annotations

from typing import Final

from numpy import int32, int64, uint8, uint64
from numpy.typing import NDArray

from oop_engine.sources.capture.layout import DnsTables, PayloadTables, TextTables
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import Whole, u16_be

LONGEST: Final = 255
"""Bytes of a name at most."""
ROOM: Final = 4 * LONGEST + 4
"""Bytes that one may take as text."""
_HEADER = 12
_HELLO = 43  # bytes of a record of TLS up to the length of the session's name
_METHOD = 16
_DOT, _BACKSLASH = 46, 92


@kernel
def _put(out: NDArray[uint8], to: Whole, byte: Whole, label: bool) -> Whole:
    """Write a byte of a name at out[to]; return where the next goes."""
    if byte > 32 and byte < 127 and byte != _BACKSLASH and not (label and byte == _DOT):
        out[uint64(to)] = byte
        return to + 1
    out[uint64(to)] = _BACKSLASH
    out[uint64(to + 1)] = 48 + byte // 100
    out[uint64(to + 2)] = 48 + byte // 10 % 10
    out[uint64(to + 3)] = 48 + byte % 10
    return to + 4


@kernel
def _dns_name(data: NDArray[uint8], at: Whole, stop: Whole, out: NDArray[uint8], to: Whole) -> tuple[Whole, Whole]:
    """Write the name at data[at], of the first question of a message.

    Return where the text ends and what stands behind the name; -1 for both where it is none, or not all there. A
    pointer leads to an earlier name, and there is none before the first question; so a name with a pointer is none.
    """
    begun = to
    first = at
    while at < stop:
        length = int64(data[uint64(at)])
        if length == 0:
            if to == begun:
                out[uint64(to)] = _DOT
                to += 1
            return to, at + 1
        if length > 63 or at + 1 + length > stop or at + 2 + length - first > LONGEST:
            break
        if to > begun:
            out[uint64(to)] = _DOT
            to += 1
        for place in range(at + 1, at + 1 + length):
            to = _put(out, to, int64(data[uint64(place)]), True)
        at += 1 + length
    return int64(-1), int64(-1)


@kernel
def read_dns(
    data: NDArray[uint8], first: int, payloads: PayloadTables, numbers: DnsTables, text: TextTables
) -> tuple[Whole, Whole]:
    """Read the header and the first question of DNS from packet `first` on, of ports 53, 5353 and 5355.

    Return the packet reached, and the bytes of text; it ends before all are read where there is no room for a text.
    """
    start, stop, proto, source, target = payloads
    number, response, code, kind = numbers
    offsets, out = text
    to = int64(offsets[uint64(first)])
    for i in range(first, len(start)):
        if to + ROOM > len(out):
            return int64(i), to
        at = start[uint64(i)]
        end = stop[uint64(i)]
        number[uint64(i)] = response[uint64(i)] = code[uint64(i)] = kind[uint64(i)] = -1
        one = int64(source[uint64(i)])
        other = int64(target[uint64(i)])
        named = one == 53 or other == 53 or one == 5353 or other == 5353 or one == 5355 or other == 5355
        if proto[uint64(i)] == 6:
            at += 2  # the length of the message
        if named and proto[uint64(i)] != 0 and at + _HEADER <= end:
            number[uint64(i)] = u16_be(data, at)
            answers = int64(data[uint64(at + 2)]) >> 7
            response[uint64(i)] = answers
            if answers:
                code[uint64(i)] = int64(data[uint64(at + 3)]) & 15
            if u16_be(data, at + 4) > 0:
                reached, behind = _dns_name(data, at + _HEADER, end, out, to)
                if reached >= 0:
                    to = reached
                    if behind + 2 <= end:
                        kind[uint64(i)] = u16_be(data, behind)
        offsets[uint64(i + 1)] = to
    return int64(len(start)), to


@kernel
def _server_name(data: NDArray[uint8], at: Whole, end: Whole) -> tuple[Whole, Whole]:
    """Find the name of the server in a record of TLS that begins at data[at]; return where it is, 0 twice for none."""
    if at + _HELLO + 1 > end or data[uint64(at)] != 22 or data[uint64(at + 1)] != 3 or data[uint64(at + 5)] != 1:
        return int64(0), int64(0)
    at += _HELLO
    at += 1 + int64(data[uint64(at)])
    if at + 2 > end:
        return int64(0), int64(0)
    at += 2 + u16_be(data, at)
    if at + 1 > end:
        return int64(0), int64(0)
    at += 1 + int64(data[uint64(at)])
    if at + 2 > end:
        return int64(0), int64(0)
    end = min(end, at + 2 + u16_be(data, at))
    at += 2
    while at + 4 <= end:
        kind = u16_be(data, at)
        size = u16_be(data, at + 2)
        at += 4
        if kind == 0:
            if size < 5 or at + 5 > end or data[uint64(at + 2)] != 0:
                break
            length = u16_be(data, at + 3)
            if length == 0 or length > LONGEST or length + 5 > size or at + 5 + length > end:
                break
            return at + 5, at + 5 + length
        at += size
    return int64(0), int64(0)


@kernel
def _line(data: NDArray[uint8], at: Whole, end: Whole) -> Whole:
    """Return where the line that begins at data[at] has its end, -1 where it has none."""
    for place in range(at, end):
        if data[uint64(place)] == 10:
            return int64(place)
    return int64(-1)


@kernel
def _host(data: NDArray[uint8], at: Whole, end: Whole) -> tuple[Whole, Whole]:
    """Find the host in a request of HTTP that begins at data[at]; return where it is, 0 twice for none."""
    letters = int64(0)
    while letters < _METHOD and at + letters < end:
        letter = int64(data[uint64(at + letters)])
        if letter < 65 or letter > 90:
            break
        letters += 1
    if letters < 3 or at + letters >= end or data[uint64(at + letters)] != 32:
        return int64(0), int64(0)
    last = _line(data, at, end)
    if last < 0:
        return int64(0), int64(0)
    version = last - 9 if data[uint64(last - 1)] == 13 else last - 8
    # HTTP/1. and a digit
    if version <= at + letters or u16_be(data, version) != 0x4854 or u16_be(data, version + 2) != 0x5450:
        return int64(0), int64(0)
    if u16_be(data, version + 4) != 0x2F31:
        return int64(0), int64(0)
    at = last + 1
    while at < end:
        last = _line(data, at, end)
        if last < 0 or last - at < 2:
            break
        named = (
            last - at > 5
            and data[uint64(at)] | 32 == 104
            and data[uint64(at + 1)] | 32 == 111
            and data[uint64(at + 2)] | 32 == 115
            and data[uint64(at + 3)] | 32 == 116
            and data[uint64(at + 4)] == 58
        )
        if named:
            begin = at + 5
            while begin < last and (data[uint64(begin)] == 32 or data[uint64(begin)] == 9):
                begin += 1
            while last > begin and (
                data[uint64(last - 1)] == 32 or data[uint64(last - 1)] == 9 or data[uint64(last - 1)] == 13
            ):
                last -= 1
            if last == begin or last - begin > LONGEST:
                break
            return begin, last
        at = last + 1
    return int64(0), int64(0)


@kernel
def read_names(
    data: NDArray[uint8], first: int, http: bool, payloads: PayloadTables, text: TextTables
) -> tuple[Whole, Whole]:
    """Read the names of servers, or with `http` of hosts, in what TCP carries from packet `first` on.

    Return the packet reached, and the bytes of text; it ends before all are read where there is no room for a text.
    """
    start, stop, proto, _, _ = payloads
    offsets, out = text
    to = int64(offsets[uint64(first)])
    for i in range(first, len(start)):
        if to + ROOM > len(out):
            return int64(i), to
        if proto[uint64(i)] == 6 and start[uint64(i)] < stop[uint64(i)]:
            if http:
                begin, end = _host(data, start[uint64(i)], stop[uint64(i)])
            else:
                begin, end = _server_name(data, start[uint64(i)], stop[uint64(i)])
            for place in range(begin, end):
                to = _put(out, to, int64(data[uint64(place)]), False)
        offsets[uint64(i + 1)] = int32(to)
    return int64(len(start)), to
