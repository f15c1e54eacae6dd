"""Read counter samples of sFlow: the generic counters of interfaces, a row each.

Every byte is read behind a comparison with the end of what holds it, and every loop moves on by eight bytes at least.
"""

from __future__ import annotations

from typing import Final

from numpy import bool_, int64, uint64
from numpy.typing import NDArray

from oop_engine.sources.flows import entries as e
from oop_engine.sources.flows.walk import is_allowed, read_header
from operators.kernels.compile.kernel import kernel
from operators.kernels.data.byte_order import Whole, u32_be, u64_be

# What a row has; the counters follow as they lie in a record.
C_DATAGRAM: Final = 0
C_DOMAIN: Final = 1
C_SEQUENCE: Final = 2  # of the sample
C_UPTIME: Final = 3
C_HIGH: Final = 4  # the agent's address, as it lies in memory
C_LOW: Final = 5
C_FIRST: Final = 6
FIELDS: Final = (4, 4, 8, 4, 4, 8, 4, 4, 4, 4, 4, 4, 8, 4, 4, 4, 4, 4, 4)
"""Bytes of each counter in a record."""
WIDTH: Final = C_FIRST + len(FIELDS)
RECORD: Final = sum(FIELDS)

# What is counted beside.
N_DATAGRAMS: Final = 0
N_OTHERS: Final = 1  # datagrams that are none of sFlow v5
N_BAD: Final = 2  # samples that reach beyond what holds them
N_SKIPPED: Final = 3  # records of other counters


@kernel
def let_in(allowed: NDArray[uint64], address: NDArray[uint64], found: NDArray[bool_]) -> None:
    """Write which senders are in networks; `allowed` as `is_allowed` has it, two numbers an address."""
    for i in range(len(found)):
        found[i] = is_allowed(allowed, address[uint64(2 * i)], address[uint64(2 * i + 1)])


@kernel
def read_counters(given: e.Given, found: NDArray[int64], counts: NDArray[int64]) -> Whole:
    """Read the interface counters of datagrams into the rows of `found`, and return how many there are.

    There must be room for as many as RECORD bytes are in the datagrams.
    """
    data, offset, length, _, address, _ = given
    rows = int64(0)
    for i in range(len(offset)):
        at = int64(offset[uint64(i)])
        end = at + int64(length[uint64(i)])
        sent = address[uint64(2 * i)], address[uint64(2 * i + 1)]
        version, domain, _, uptime, _, _, count, p, _, _, _, high, low = read_header(data, at, end, sent[0], sent[1])
        counts[N_DATAGRAMS] += 1
        if version != e.SFLOW:
            counts[N_OTHERS] += 1
            continue
        while count > 0:
            count -= 1
            if p + 8 > end or p + 8 + u32_be(data, p + 4) > end:
                counts[N_BAD] += 1
                break
            kind = u32_be(data, p)
            last = p + 8 + u32_be(data, p + 4)
            q = p + (16 if kind == 2 else 20)
            p = last
            if kind != 2 and kind != 4:
                continue
            if q + 4 > last:
                counts[N_BAD] += 1
                continue
            sequence = u32_be(data, q - (8 if kind == 2 else 12))
            records = u32_be(data, q)
            q += 4
            while records > 0:
                records -= 1
                if q + 8 > last or q + 8 + u32_be(data, q + 4) > last:
                    counts[N_BAD] += 1
                    break
                record = u32_be(data, q)
                size = u32_be(data, q + 4)
                q += 8
                if record == 1 and size >= RECORD:
                    found[rows, C_DATAGRAM] = i
                    found[rows, C_DOMAIN] = domain
                    found[rows, C_SEQUENCE] = sequence
                    found[rows, C_UPTIME] = uptime
                    found[rows, C_HIGH] = int64(high)
                    found[rows, C_LOW] = int64(low)
                    place = q
                    for field in range(len(FIELDS)):
                        wide = FIELDS[field] == 8
                        value = int64(u64_be(data, place)) if wide else u32_be(data, place)
                        found[rows, C_FIRST + field] = value
                        place += FIELDS[field]
                    rows += 1
                elif record == 1:
                    counts[N_BAD] += 1
                else:
                    counts[N_SKIPPED] += 1
                q += size
    return rows
