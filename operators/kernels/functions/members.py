"""A set of (slot, member) pairs: one hash table finds a pair, one chain a slot finds its members.

`table` holds slot << 32 | member, or -1 where it is empty, by linear probing; its length is a power of two. `heads` and
`after` hold entry numbers plus one, so that zero ends a chain. `free` chains unused entries through `after`. `tally` is
(pairs, entries ever used, first free entry plus one).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel, making_kernel

EMPTY = np.int64(-1)
PAIRS, USED, FREE = 0, 1, 2


@kernel
def place_of(pair: np.int64, mask: np.int64) -> np.int64:
    """Return where the search for a pair begins."""
    mixed = np.uint64(pair)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64(mixed ^ (mixed >> np.uint64(32))) & mask


@kernel
def add_members(
    slots: npt.NDArray[np.int32],
    ids: npt.NDArray[np.int32],
    table: npt.NDArray[np.int64],
    heads: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    holders: npt.NDArray[np.int32],
    tally: npt.NDArray[np.int64],
) -> None:
    """Enter the pairs (slots[i], ids[i]) that are not there; room for all of them is the caller's affair."""
    mask = np.int64(len(table) - 1)
    for i in range(len(slots)):
        slot, member = slots[i], ids[i]
        pair = (np.int64(slot) << np.int64(32)) | np.int64(member)
        at = place_of(pair, mask)
        while table[at] != EMPTY and table[at] != pair:
            at = (at + 1) & mask
        if table[at] == EMPTY:
            table[at] = pair
            entry = tally[FREE]
            if entry > 0:
                tally[FREE] = after[entry - 1]
            else:
                tally[USED] += 1
                entry = tally[USED]
            members[entry - 1] = member
            after[entry - 1] = heads[slot]
            heads[slot] = entry
            counts[slot] += 1
            holders[member] += 1
            tally[PAIRS] += 1


@making_kernel
def combine_members(
    into: npt.NDArray[np.int32],
    source: npt.NDArray[np.int32],
    start: int,
    table: npt.NDArray[np.int64],
    heads: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    holders: npt.NDArray[np.int32],
    tally: npt.NDArray[np.int64],
) -> int:
    """Enter source[j]'s members for into[j] from j = start on; stop at, and give, the first j that lacks room."""
    for j in range(start, len(into)):
        to, of = into[j], source[j]
        if to != of and counts[of] > 0:
            pairs = tally[PAIRS] + counts[of]
            if pairs > len(members) or 2 * pairs > len(table):
                return j
            found = np.empty(counts[of], np.int32)
            entry = heads[of]
            for k in range(len(found)):
                found[k] = members[entry - 1]
                entry = after[entry - 1]
            owners = np.full(len(found), to, np.int32)
            add_members(owners, found, table, heads, counts, members, after, holders, tally)
    return len(into)


@kernel
def free_members(
    slots: npt.NDArray[np.int32],
    table: npt.NDArray[np.int64],
    heads: npt.NDArray[np.int32],
    counts: npt.NDArray[np.int64],
    members: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    holders: npt.NDArray[np.int32],
    tally: npt.NDArray[np.int64],
    released: npt.NDArray[np.int32],
) -> int:
    """Take all pairs of these slots out, write members that no slot holds any more to `released`, and give how many."""
    mask = np.int64(len(table) - 1)
    found = 0
    for j in range(len(slots)):
        slot = slots[j]
        entry = np.int64(heads[slot])
        while entry > 0:
            member = members[entry - 1]
            pair = (np.int64(slot) << np.int64(32)) | np.int64(member)
            hole = place_of(pair, mask)
            while table[hole] != pair:
                hole = (hole + 1) & mask
            # Close the gap: pull back what follows in the run unless its search begins behind the hole.
            at = (hole + 1) & mask
            while table[at] != EMPTY:
                home = place_of(table[at], mask)
                if ((at - home) & mask) >= ((at - hole) & mask):
                    table[hole] = table[at]
                    hole = at
                at = (at + 1) & mask
            table[hole] = EMPTY
            holders[member] -= 1
            if holders[member] == 0:
                released[found] = member
                found += 1
            following = np.int64(after[entry - 1])
            after[entry - 1] = tally[FREE]
            tally[FREE] = entry
            tally[PAIRS] -= 1
            entry = following
        heads[slot] = 0
        counts[slot] = 0
    return found


@kernel
def rehash(old: npt.NDArray[np.int64], table: npt.NDArray[np.int64]) -> None:
    """Enter all pairs of an old table into an empty larger one."""
    mask = np.int64(len(table) - 1)
    for i in range(len(old)):
        pair = old[i]
        if pair != EMPTY:
            at = place_of(pair, mask)
            while table[at] != EMPTY:
                at = (at + 1) & mask
            table[at] = pair


@kernel
def listed(
    slots: npt.NDArray[np.int32],
    heads: npt.NDArray[np.int32],
    members: npt.NDArray[np.int32],
    after: npt.NDArray[np.int32],
    owners: npt.NDArray[np.int32],
    found: npt.NDArray[np.int32],
) -> None:
    """Write all pairs of these slots, the slot to `owners` and the member to `found`."""
    number = 0
    for j in range(len(slots)):
        entry = heads[slots[j]]
        while entry > 0:
            owners[number] = slots[j]
            found[number] = members[entry - 1]
            number += 1
            entry = after[entry - 1]
