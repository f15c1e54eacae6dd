"""An index of networks gives each address the longest of them that holds it.

A network that is written as IPv4, or mapped (::ffff:10.0.0.0/104), holds IPv4 addresses; another holds IPv6 addresses
alone, so that ::/0 is the default of IPv6, and 0.0.0.0/0 that of IPv4.
"""

from __future__ import annotations

import ipaddress
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.data.address import parse_network
from operators.data.keys import Ids, Words
from operators.errors import SchemaError
from operators.kernels.data import networks as kernels

_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_MOST_STEPS: Final = 1 << 22
_LOW: Final = (1 << 64) - 1
Lengths = npt.NDArray[np.int32]


@attrs.frozen(eq=False)
class Starts:
    """The starts of one kind of address, in order, with the row from each on, and steps that say where to search."""

    high: Words
    low: Words
    rows: Ids
    steps: Ids
    rule: Words
    """The first address of step 0, and by how many bits a high word is shifted to its step."""

    @classmethod
    def of(cls, high: Words, low: Words, lengths: Lengths, rows: Ids) -> Starts:
        """Lay out networks, in the order of address and length, which are these rows of a table."""
        room = 2 * len(high) + 1
        starts, below, answers = np.empty(room, np.uint64), np.empty(room, np.uint64), np.empty(room, np.int32)
        made = kernels.lay_out(high, low, lengths, rows, starts, below, answers)
        starts, below, answers = starts[:made].copy(), below[:made].copy(), answers[:made].copy()
        base = int(starts[min(1, made - 1)])
        span = int(starts[-1]) - base
        bits = min(max(made - 1, 1).bit_length() + 2, _MOST_STEPS.bit_length() - 1)
        shift = max(0, span.bit_length() - bits)
        steps = np.empty((span >> shift) + 2, np.int32)
        kernels.find_steps(starts, below, np.uint64(base), np.uint64(shift), steps)
        return cls(starts, below, answers, steps, np.array([base, shift], np.uint64))

    @property
    def arrays(self) -> tuple[Words, Words, Ids, Ids, Words]:
        """Return the tables as the kernel takes them."""
        return self.high, self.low, self.rows, self.steps, self.rule


@attrs.frozen(eq=False)
class NetworkIndex:
    """Find the longest network that holds each address, among networks that are written as text.

    Cost: about 30 bytes a network; some steps of a binary search an address, which do not grow with the table.

    >>> index = NetworkIndex.of(pa.array(["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"]), "hosts.network")
    >>> from operators.data.address import parse_ip
    >>> addresses = pa.array([parse_ip(ip) for ip in ("10.1.2.3", "10.2.0.1", "::1")], pa.binary(16))
    >>> index.find(addresses).tolist()
    [1, 0, -1]
    """

    four: Starts
    six: Starts

    @classmethod
    def of(cls, texts: pa.Array, where: str) -> NetworkIndex:
        """Read networks, and addresses as networks of one; a message calls the column `where`.

        SchemaError, with the row, for what is no network, for bits that are set behind the prefix, and for a network
        that is there twice. Rows count from 1.
        """
        high, low, lengths, is_four = _read(texts, where)
        order = np.lexsort((lengths, low, high)).astype(np.int32)
        order = order[np.argsort(~is_four[order], kind="stable")]
        high, low, lengths, is_four = high[order], low[order], lengths[order], is_four[order]
        equal = (np.diff(high) == 0) & (np.diff(low) == 0) & (np.diff(lengths) == 0) & (is_four[1:] == is_four[:-1])
        if equal.any():
            at = int(np.argmax(equal))
            first, second = sorted((int(order[at]), int(order[at + 1])))
            raise SchemaError(
                f"{where}: rows {first + 1} and {second + 1} have the same network,"
                f" {texts[first].as_py()}; a lookup needs one answer.\n  Leave one of them out."
            )
        fours = int(is_four.sum())
        parts = (slice(0, fours), slice(fours, None))
        four, six = (Starts.of(high[part], low[part], lengths[part], order[part]) for part in parts)
        return cls(four, six)

    def find(self, addresses: pa.Array) -> Ids:
        """Return the row of the longest network that holds each address, shape (n,); -1 for none, and for null."""
        ids = np.full(len(addresses), -1, np.int32)
        data = addresses.buffers()[1]
        if data is None or not len(addresses):
            return ids
        words = np.frombuffer(data, np.uint64, 2 * (addresses.offset + len(addresses)))[2 * addresses.offset :]
        places = np.empty(kernels.AHEAD, np.uint64)
        kernels.find_networks(words, self.four.arrays, self.six.arrays, places, ids)
        if addresses.null_count:
            ids[addresses.is_null().to_numpy(zero_copy_only=False)] = -1
        return ids


def _read(texts: pa.Array, where: str) -> tuple[Words, Words, Lengths, npt.NDArray[np.bool_]]:
    """Return the two words of each network, the length of its prefix, and whether it is one of IPv4."""
    n = len(texts)
    texts = texts.cast(pa.string())
    values, lengths, other = np.zeros(n, np.uint64), np.zeros(n, np.int32), np.zeros(n, np.bool_)
    low, is_four = np.zeros(n, np.uint64), np.ones(n, np.bool_)
    if n:
        _, offsets, data = texts.buffers()
        cuts = np.frombuffer(offsets, np.int32, n + 1, 4 * texts.offset)
        kernels.read_networks(cuts, np.frombuffer(data or b"\0", np.uint8), values, lengths, other)
    high = values << np.uint64(32)
    behind = np.where(lengths >= 32, 0, np.uint64(0xFFFFFFFF) >> lengths.astype(np.uint64))
    # Texts with bits behind their prefix are read again, and refused.
    other |= ~other & (values & behind != 0)
    for row in np.flatnonzero(other).tolist():
        high[row], low[row], lengths[row], is_four[row] = _parsed(texts[row].as_py(), row, where)
    return high, low, lengths, is_four


def _parsed(text: str | None, row: int, where: str) -> tuple[int, int, int, bool]:
    """Read one network as Python does."""
    if text is None:
        raise SchemaError(f"{where}: row {row + 1} has no network.\n  Leave the row out, or write 0.0.0.0/0 for all.")
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError:
        raise SchemaError(f"{where}, row {row + 1}: {_what_is_wrong(text)}") from None
    first, length = int(network.network_address), network.prefixlen
    if isinstance(network, ipaddress.IPv6Network):
        if not network.subnet_of(_MAPPED):
            return first >> 64, first & _LOW, length, False
        first, length = first & 0xFFFFFFFF, length - 96
    return first << 32, 0, length, True


def _what_is_wrong(text: str) -> str:
    try:
        parse_network(text)
    except ValueError as error:
        sentence, _, hint = str(error).partition("; ")
        return f"{sentence}.\n  {hint[:1].upper()}{hint[1:]}"
    raise AssertionError(text)
