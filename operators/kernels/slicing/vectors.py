# pyright: reportMissingParameterType=false
"""Compiled slices of many groups: a vector of aggregates for each slice, in blocks of 64 groups.

table[s] are the blocks of slice s: block table[s, g // 64] holds group g at the slot 64 * block + g % 64, -1 stands for
no block. bits[block] tells which of its groups the slice has. A vector by itself is one row like those of the table.
Blocks that are free stand in `spare`; `ledger` counts what is named below.
"""

from __future__ import annotations

import numpy as np

from operators.kernels.compile.kernel import kernel
from operators.kernels.slicing.layout import *

BLOCKS, SPARES, MEMBERS = 0, 1, 2
"""Places of `ledger`: blocks ever made, blocks in `spare`, and groups in all slices together."""
FEW = 16
"""So few blocks a vector are of groups that come again and again."""
_ONE = np.uint64(1)
_NONE = np.uint64(0)


@kernel
def _bit(g):
    return _ONE << np.uint64(g & 63)


@kernel
def count(bits):
    """Return how many bits are set."""
    bits -= (bits >> _ONE) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def locate(slices, groups, table, bits, spare, ledger, slots, fresh, start):
    """Write the slot of each tuple's slice and group from tuple `start` on, -1 where the slice is -1.

    New slots are listed in `fresh`. Stops when there is no block; gives (tuples done, new slots). An index that is cast
    to uint64 spares the loop the case of a negative one.
    """
    new = np.int64(0)
    made, spares = ledger[BLOCKS], ledger[SPARES]
    done = np.int64(len(slices))
    few = table.shape[1] <= FEW
    for i in range(start, len(slices)):
        s = slices[np.uint64(i)]
        if s < 0:
            slots[np.uint64(i)] = -1
            continue
        g = np.int64(groups[np.uint64(i)])
        block = np.int64(table[np.uint64(s), np.uint64(g >> 6)])
        if block < 0:
            if spares > 0:
                spares -= 1
                block = np.int64(spare[spares])
            elif made < len(bits):
                block = made
                made += 1
            else:
                done = np.int64(i)
                break
            bits[block] = _NONE
            table[s, g >> 6] = block
        slot = 64 * block + (g & 63)
        held = bits[np.uint64(block)]
        slots[np.uint64(i)] = slot
        if few:
            # Most are there, and what is written to a block is waited for by the next tuple of the same block.
            if held & _bit(g) == _NONE:
                fresh[new] = slot
                new += 1
                bits[block] = held | _bit(g)
            continue
        # Written in any case: whether a slice has a group is too hard to guess.
        fresh[np.uint64(new)] = slot
        new += np.int64(1) - np.int64((held >> np.uint64(g & 63)) & _ONE)
        bits[np.uint64(block)] = held | _bit(g)
    ledger[BLOCKS], ledger[SPARES] = made, spares
    ledger[MEMBERS] += new
    return done, new


@kernel
def pour(slices, first, table, target, bits, spare, ledger, blocks_into, blocks_source, fresh, into, source):
    """List what adds slices to a vector from its place `first` on: from which block to which, place by place.

    And its new slots, and from which slot to which, if `into` has any length. There are blocks enough; stops at a place
    for which there may be no room in the lists. Gives (places done, pairs of blocks, new slots, pairs of slots).
    """
    blocks, new, pairs, added = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    done = np.int64(len(target))
    for k in range(first, len(target)):
        if blocks + len(slices) > len(blocks_into) or (len(into) > 0 and pairs + 64 * len(slices) > len(into)):
            done = np.int64(k)
            break
        to = np.int64(target[k])
        had = bits[to] if to >= 0 else _NONE
        there = had
        for i in range(len(slices)):
            block = np.int64(table[slices[i], k])
            if block < 0:
                continue
            if to < 0:
                if ledger[SPARES] > 0:
                    ledger[SPARES] -= 1
                    to = np.int64(spare[ledger[SPARES]])
                else:
                    to = ledger[BLOCKS]
                    ledger[BLOCKS] += 1
                target[k] = to
            held = bits[block]
            blocks_into[blocks], blocks_source[blocks] = to, block
            blocks += 1
            for j in range(64 if len(into) > 0 else 0):
                if held & _bit(j) != _NONE:
                    if there & _bit(j) == _NONE:
                        fresh[new] = 64 * to + j
                        new += 1
                    into[pairs] = 64 * to + j
                    source[pairs] = 64 * block + j
                    pairs += 1
            there |= held
        if to >= 0:
            bits[to] = there
            added += count(there & ~had)
    ledger[MEMBERS] += added
    return done, blocks, new, pairs


@kernel
def enter(slices, table, bits, counts):
    """Count for each group in how many more slices it is now."""
    for i in range(len(slices)):
        for k in range(table.shape[1]):
            block = np.int64(table[slices[i], k])
            if block < 0:
                continue
            held, of = bits[block], counts[64 * k : 64 * k + 64]
            for j in range(64):
                of[j] += np.int32((held >> np.uint64(j)) & _ONE)


@kernel
def leave(row, target, bits, ledger, counts, blocks_into, blocks_source, into, source, gone):
    """List what takes a slice from a vector of sums: from which block which one, and slot by slot if `into` has length.

    Then the slots of the groups that are in none of its slices any more are listed, too. These leave the vector. Gives
    how many pairs of blocks, pairs of slots and slots are listed.
    """
    blocks, n, m, groups = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for k in range(len(row)):
        block = np.int64(row[k])
        if block < 0:
            continue
        to, held, over = np.int64(target[k]), bits[block], _NONE
        of = counts[64 * k : 64 * k + 64]
        for j in range(64):
            there = (held >> np.uint64(j)) & _ONE
            of[j] -= np.int32(there)
            over |= (there & np.uint64(of[j] == 0)) << np.uint64(j)
        bits[to] &= ~over
        groups += count(over)
        blocks_into[blocks], blocks_source[blocks] = to, block
        blocks += 1
        for j in range(64 if len(into) > 0 else 0):
            # Written in any case: which groups there are is too hard to guess.
            into[n], source[n] = 64 * to + j, 64 * block + j
            n += np.int64((held >> np.uint64(j)) & _ONE)
            gone[m] = 64 * to + j
            m += np.int64((over >> np.uint64(j)) & _ONE)
    ledger[MEMBERS] -= groups
    return blocks, n, m


@kernel
def members(row, bits, own, close, groups, slots):
    """List the groups of a vector that were not released up to `close` by themselves, and their slots.

    Groups that the bounds `own` do not reach to were not. Gives how many there are.
    """
    n = np.int64(0)
    for k in range(len(row)):
        block = np.int64(row[k])
        if block < 0:
            continue
        held, first = bits[block], 64 * np.int64(k)
        for j in range(64 if first < len(own) else 0):
            if first + j < len(own) and own[first + j] >= close:
                held &= ~_bit(j)
        for j in range(64):
            # Written in any case: which groups there are is too hard to guess.
            groups[n] = first + j
            slots[n] = 64 * block + j
            n += np.int64((held >> np.uint64(j)) & _ONE)
    return n


@kernel
def clear(row, bits, spare, ledger, left, blocks, gone):
    """Empty a vector: its blocks are listed in `blocks`, its slots in `gone`, if that has any length.

    Its groups are marked in `left`. Gives how many blocks and slots are listed.
    """
    m, n, groups = np.int64(0), np.int64(0), np.int64(0)
    for k in range(len(row)):
        block = np.int64(row[k])
        if block < 0:
            continue
        held = bits[block]
        blocks[m] = block
        m += 1
        groups += count(held)
        for j in range(64 if len(gone) > 0 else 0):
            if held & _bit(j) != _NONE:
                gone[n] = 64 * block + j
                n += 1
        if k < len(left):
            left[k] |= held
        row[k] = -1
        spare[ledger[SPARES]] = block
        ledger[SPARES] += 1
    ledger[MEMBERS] -= groups
    return m, n


@kernel
def remove(which, row, bits, spare, ledger, left, gone):
    """Take single groups out of a vector, as `clear` does with all."""
    n = np.int64(0)
    for i in range(len(which)):
        g = np.int64(which[i])
        block = np.int64(row[g >> 6])
        if block < 0 or bits[block] & _bit(g) == _NONE:
            continue
        bits[block] &= ~_bit(g)
        left[g >> 6] |= _bit(g)
        gone[n] = 64 * block + (g & 63)
        n += 1
        if bits[block] == _NONE:
            row[g >> 6] = -1
            spare[ledger[SPARES]] = block
            ledger[SPARES] += 1
    ledger[MEMBERS] -= n
    return n


@kernel
def idle(left, table, total, bits, out):
    """List the groups marked in `left` that no slice has, and reset the marks; gives how many there are.

    `total` is a vector of sums of some slices, of length 0 where there is none: what it has, one of them has.
    """
    n = np.int64(0)
    for k in range(len(left)):
        marked = left[k]
        if k < len(total) and total[k] >= 0:
            marked &= ~bits[total[k]]
        if marked == _NONE:
            left[k] = _NONE
            continue
        for s in range(len(table)):
            if table[s, k] >= 0:
                marked &= ~bits[table[s, k]]
                if marked == _NONE:
                    break
        left[k] = _NONE
        if marked != _NONE:
            for j in range(64):
                if marked & _bit(j) != _NONE:
                    out[n] = 64 * k + j
                    n += 1
    return n


@kernel
def held(groups, table, bits, out):
    """Mark each group that a slice has."""
    for i in range(len(groups)):
        g = np.int64(groups[i])
        out[i] = False
        for s in range(len(table)):
            if table[s, g >> 6] >= 0 and bits[table[s, g >> 6]] & _bit(g) != _NONE:
                out[i] = True
                break


@kernel
def cover(which, since, spans, rows, table, bits, first, windows, groups, into, source):
    """List the results (window, group) of single groups, and the slots that each is combined from, from `first` on.

    `spans` has ends, starts and stops: window w has the slices rows[starts[w] : stops[w]], oldest first; group i has
    had what closes up to since[i]. Takes windows as long as there is room for one as a whole; gives (windows done,
    results, pairs).
    """
    closes, starts, stops = spans
    results, pairs = np.int64(0), np.int64(0)
    for w in range(first, len(closes)):
        if results + len(which) > len(windows) or pairs + len(which) * (stops[w] - starts[w]) > len(into):
            return np.int64(w), results, pairs
        for i in range(len(which)):
            g = np.int64(which[i])
            if since[i] >= closes[w]:
                continue
            before = pairs
            for k in range(starts[w], stops[w]):
                block = np.int64(table[rows[k], g >> 6])
                if block >= 0 and bits[block] & _bit(g) != _NONE:
                    into[pairs] = results
                    source[pairs] = 64 * block + (g & 63)
                    pairs += 1
            if pairs > before:
                windows[results] = w
                groups[results] = g
                results += 1
    return np.int64(len(closes)), results, pairs


@kernel
def link(cells, order, table, bits, links, chains):
    """Chain the slots of vectors by group and by cell, as the stream slicer does with slices of single groups.

    Slots of no group are chained as free, the first of them is returned.
    """
    links[:, CELL] = -1
    for k in range(len(order)):
        c = order[k, NUMBER]
        s = np.int64(cells[c, HEAD])
        cells[c, SIZE] = 0
        if s < 0:
            continue
        cells[c, HEAD] = -1
        for b in range(table.shape[1]):
            block = np.int64(table[s, b])
            for j in range(64 if block >= 0 else 0):
                if bits[block] & _bit(j) == _NONE:
                    continue
                g, slot = 64 * np.int64(b) + j, 64 * block + j
                older, following = np.int64(chains[g, NEWEST]), np.int64(cells[c, HEAD])
                links[slot, GROUP] = g
                links[slot, CELL] = c
                links[slot, OLDER] = older
                links[slot, NEWER] = -1
                links[slot, NEXT] = following
                links[slot, PREVIOUS] = -1
                if older >= 0:
                    links[older, NEWER] = slot
                else:
                    chains[g, OLDEST] = slot
                if following >= 0:
                    links[following, PREVIOUS] = slot
                chains[g, NEWEST] = slot
                chains[g, IN_CELL] = c
                cells[c, HEAD] = slot
                cells[c, SIZE] += 1
    free = np.int64(-1)
    for slot in range(len(links) - 1, -1, -1):
        if links[slot, CELL] < 0:
            links[slot, OLDER] = free
            free = np.int64(slot)
    return free
