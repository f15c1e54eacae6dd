# pyright: reportMissingParameterType=false
"""Exact sums of whole numbers by slot, a machine word each while they are small, 128 bits from where they are not.

words[slot] is sum * 2^20 + number of values, as long as the sum has 44 bits with its sign and the number is below
2^20 - 1. A slot that outgrows its word has a row of its own from then on, words[slot] = row * 2^20 + (2^20 - 1): then
wide[row] is (low limb, high limb, number of values), and the sum is high * 2^64 + low as unsigned. Rows that are free
are chained by their low limb. A kernel that finds no row gives back how far it came. A slot of -1 skips the tuple.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.compile.prefetch import LINE, prefetch
from operators.kernels.functions.sums import BLOCK

MADE, FREE = 0, 1
"""Places of `ledger`: rows ever made, and the first free one."""
BITS = np.int64(20)
OWN_ROW = np.int64((1 << 20) - 1)
HALF = np.int64(1 << 43)
NEAR, AHEAD = 1 << 15, 16
"""Words that a near cache holds; and how far ahead those are asked for that it may not hold."""
NEXT = 4
"""How many blocks ahead one is asked for."""


@kernel
def _outgrow(slot, words, wide, ledger):
    """Move what a word holds to a row of its own and give the row, -1 when there is no room."""
    row = ledger[FREE]
    if row >= 0:
        ledger[FREE] = wide[row, 0]
    elif ledger[MADE] < len(wide):
        row = ledger[MADE]
        ledger[MADE] += 1
    else:
        return np.int64(-1)
    word = words[slot]
    wide[row, 0] = word >> BITS
    wide[row, 1] = word >> np.int64(63)
    wide[row, 2] = word & OWN_ROW
    words[slot] = (row << BITS) | OWN_ROW
    return row


@kernel
def _limbs(word, wide):
    """Return low limb, high limb and number of values of what a word says."""
    top, number = word >> BITS, word & OWN_ROW
    if number == OWN_ROW:
        return wide[top, 0], wide[top, 1], wide[top, 2]
    return top, top >> np.int64(63), number


@kernel
def _own_row(slot, words, wide, ledger):
    """Return the row of a slot, made when it has none; -1 when there is no room."""
    word = words[slot]
    return word >> BITS if (word & OWN_ROW) == OWN_ROW else _outgrow(slot, words, wide, ledger)


@kernel
def add(slots, values, signed, start, words, wide, ledger):
    """Add values[i] to the sum of slots[i] for i from `start` on; gives the number of values done.

    `signed` is 0 when the values are the bits of unsigned numbers, else -1.
    """
    far = len(words) > NEAR
    last = len(slots) - 1
    for i in range(start, len(slots)):
        if far:
            prefetch(words, max(slots[np.uint64(min(i + AHEAD, last))], 0))
        slot = slots[np.uint64(i)]
        if slot < 0:
            continue
        # An index that is cast to uint64 spares the loop the case of a negative one.
        value, at = values[np.uint64(i)], np.uint64(slot)
        word = words[at]
        more = word + (value << BITS)
        # A sum or a number of too many bits does not come back as it was put in, nor does a row.
        if (more + 2) >> BITS == (word >> BITS) + value and (value >= 0 or signed != 0):
            words[at] = more + 1
            continue
        row = _own_row(slot, words, wide, ledger)
        if row < 0:
            return np.int64(i)
        low = np.uint64(wide[row, 0]) + np.uint64(value)
        wide[row, 0] = np.int64(low)
        # The high limb takes the sign of the value, and the carry when the low limb wrapped.
        wide[row, 1] += ((value >> np.int64(63)) & signed) + np.int64(low < np.uint64(value))
        wide[row, 2] += 1
    return np.int64(len(slots))


@kernel
def _combine(slot, more, words, wide, ledger):
    """Add what the word `more` says to the sum of a slot; False when there is no row for it."""
    word = words[slot]
    # A row of its own counts as more values than a word has room for.
    small = (word & OWN_ROW) + (more & OWN_ROW) < OWN_ROW
    if small and -HALF <= (word >> BITS) + (more >> BITS) < HALF:
        words[slot] = word + more
        return True
    taken, high, number = _limbs(more, wide)
    row = _own_row(slot, words, wide, ledger)
    if row < 0:
        return False
    low = np.uint64(wide[row, 0]) + np.uint64(taken)
    wide[row, 0] = np.int64(low)
    wide[row, 1] += high + np.int64(low < np.uint64(taken))
    wide[row, 2] += number
    return True


@kernel
def combine(into, source, start, words, wide, ledger):
    """Add the sum of source[j] to that of into[j], in order from j = start on; gives the number of pairs done."""
    for j in range(start, len(into)):
        if not _combine(into[j], words[source[j]], words, wide, ledger):
            return np.int64(j)
    return np.int64(len(into))


@kernel
def combine_blocks(into, source, start, words, wide, ledger):
    """Do as `combine` with blocks; `start`, and what it gives, are numbers of slots."""
    for j in range(start // BLOCK, len(into)):
        following = np.int64(source[min(j + NEXT, len(source) - 1)]) * BLOCK
        for i in range(0, BLOCK, LINE // 8):
            prefetch(words, following + i)
        to, of = np.int64(into[j]) * BLOCK, np.int64(source[j]) * BLOCK
        sums, more = words[to : to + BLOCK], words[of : of + BLOCK]
        # Negative when a sum is of too many bits, or of too many values: words then carry, or have rows.
        beyond = np.int64(0 if j * BLOCK >= start else -1)
        for i in range(BLOCK):
            both = sums[i] + more[i]
            beyond |= (sums[i] ^ both) & (more[i] ^ both)
            beyond |= OWN_ROW - np.int64(1) - (sums[i] & OWN_ROW) - (more[i] & OWN_ROW)
        if beyond >= 0:
            for i in range(BLOCK):
                sums[i] += more[i]
            continue
        for i in range(max(start - j * BLOCK, 0), BLOCK):
            if not _combine(to + i, more[i], words, wide, ledger):
                return np.int64(j * BLOCK + i)
    return np.int64(len(into) * BLOCK)


@kernel
def subtract(into, source, start, words, wide, ledger):
    """Take the sum of source[j] from that of into[j], as `combine` adds it; what was added before leaves no trace."""
    for j in range(start, len(into)):
        slot, word, more = into[j], words[into[j]], words[source[j]]
        small = (word & OWN_ROW) != OWN_ROW and (more & OWN_ROW) != OWN_ROW
        if small and -HALF <= (word >> BITS) - (more >> BITS) < HALF:
            words[slot] = word - more
            continue
        taken, high, number = _limbs(more, wide)
        row = _own_row(slot, words, wide, ledger)
        if row < 0:
            return np.int64(j)
        low = np.uint64(wide[row, 0])
        wide[row, 0] = np.int64(low - np.uint64(taken))
        wide[row, 1] -= high + np.int64(low < np.uint64(taken))
        wide[row, 2] -= number
    return np.int64(len(into))


@kernel
def clear(slots, words, wide, ledger):
    """Set the sums of these slots to nothing and take back their rows."""
    for i in range(len(slots)):
        word = words[slots[i]]
        if (word & OWN_ROW) == OWN_ROW:
            wide[word >> BITS, 0] = ledger[FREE]
            ledger[FREE] = word >> BITS
        words[slots[i]] = 0


@kernel
def clear_blocks(blocks, words, wide, ledger):
    """Do as `clear` with blocks."""
    for j in range(len(blocks)):
        first = np.int64(blocks[j]) * BLOCK
        some = words[first : first + BLOCK]
        own = 0
        for i in range(BLOCK):
            own += (some[i] & OWN_ROW) == OWN_ROW
        for i in range(BLOCK if own else 0):
            if (some[i] & OWN_ROW) == OWN_ROW:
                wide[some[i] >> BITS, 0] = ledger[FREE]
                ledger[FREE] = some[i] >> BITS
        some[:] = 0


@kernel
def read_sums(slots, words, wide, low, there):
    """Write the low limb of each slot and whether it has a value; gives whether all have.

    And the first one whose sum does not fit 64 bits, or -1.
    """
    full = True
    far = np.int64(-1)
    for i in range(len(slots)):
        word = words[slots[i]]
        number = word & OWN_ROW
        low[i] = word >> BITS
        if number == OWN_ROW:
            low[i], high, number = _limbs(word, wide)
            if high != low[i] >> np.int64(63) and far < 0:
                far = np.int64(i)
        there[i] = number > 0
        full &= number > 0
    return full, far


@kernel
def read(slots, words, wide, low, high, number):
    """Write low limb, high limb and number of values of each slot."""
    for i in range(len(slots)):
        low[i], high[i], number[i] = _limbs(words[slots[i]], wide)


@kernel
def read_numbers(slots, words, wide, number):
    """Write the number of values of each slot."""
    for i in range(len(slots)):
        word = words[slots[i]]
        number[i] = word & OWN_ROW
        if number[i] == OWN_ROW:
            number[i] = wide[word >> BITS, 2]


@kernel
def write(rows, start, words, wide, ledger):
    """Enter rows of (low limb, high limb, number of values) as the sums of the empty slots from `start` on.

    Gives the number done.
    """
    for slot in range(start, len(rows)):
        low, high, number = rows[slot, 0], rows[slot, 1], rows[slot, 2]
        if high == low >> np.int64(63) and -HALF <= low < HALF and number < OWN_ROW:
            words[slot] = (low << BITS) + number
            continue
        row = _outgrow(np.int64(slot), words, wide, ledger)
        if row < 0:
            return np.int64(slot)
        wide[row, 0], wide[row, 1], wide[row, 2] = low, high, number
    return np.int64(len(rows))
