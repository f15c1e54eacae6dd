"""Answer questions about bags: how many values, which of a given rank, which are most frequent; rooms as in `runs`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel, making_kernel
from operators.kernels.functions.layout import *

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Integer: TypeAlias = "int | np.int64 | np.signedinteger"


@kernel
def bag_totals(
    slots: Int32s, least: np.int64, heads: Int32s, runs: Int64s, links: Int32s, keys: Int64s, counts: Int64s,
    totals: Int64s, of_least: Int64s,
) -> None:  # fmt: skip
    """Write how many values each slot has, and how many of them have the key `least`, than which there is no less."""
    for j in range(len(slots)):
        total, found = np.int64(0), np.int64(0)
        link = np.int64(heads[slots[j]])
        while link > 0:
            run, times = links[link - 1, RUN], links[link - 1, TIMES]
            start, length = runs[run, START], runs[run, LENGTH]
            if length > 0:
                total += times * counts[start + length - 1]
                if keys[start] == least:
                    found += times * counts[start]
            link = np.int64(links[link - 1, AFTER])
        totals[j] = total
        of_least[j] = found


@kernel
def first_above(values: Int64s, low: Integer, high: Integer, wanted: Integer) -> Integer:
    """Return the first place in the rising values[low:high] with more than `wanted`, `high` when there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@making_kernel
def select_ranked(
    slots: Int32s,
    ranks: Int64s,
    heads: Int32s,
    sizes: Int32s,
    runs: Int64s,
    links: Int32s,
    keys: Int64s,
    counts: Int64s,
    found: Int64s,
) -> None:
    """Write the key of rank ranks[j], from 1 on, in the bag of slots[j]; a rank of zero is left out.

    The runs are not merged: the range of keys is halved until one is left, and with it the part of each run that lies
    within, so that a slot costs its references times 64 and their lengths' logarithms.
    """
    for j in range(len(slots)):
        rank, parts = ranks[j], sizes[slots[j]]
        if rank == 0 or parts == 0:
            continue
        link = np.int64(heads[slots[j]])
        if parts == 1:
            run = links[link - 1, RUN]
            start = runs[run, START]
            found[j] = keys[first_above(counts, start, start + runs[run, LENGTH], rank - 1)]
            continue
        starts, lows, highs = np.empty(parts, np.int64), np.empty(parts, np.int64), np.empty(parts, np.int64)
        times = np.empty(parts, np.int64)
        least, most = np.int64(0), np.int64(0)
        for p in range(parts):
            run = links[link - 1, RUN]
            start, length = runs[run, START], runs[run, LENGTH]
            starts[p], lows[p], highs[p] = start, start, start + length
            times[p] = links[link - 1, TIMES]
            least = keys[start] if p == 0 else min(least, keys[start])
            most = keys[start + length - 1] if p == 0 else max(most, keys[start + length - 1])
            link = np.int64(links[link - 1, AFTER])
        places = np.empty(parts, np.int64)
        while least < most:
            # The mean, rounded down, without leaving 64 bits.
            middle = np.int64((least & most) + ((least ^ most) >> 1))
            below = np.int64(0)
            for p in range(parts):
                places[p] = first_above(keys, lows[p], highs[p], middle)
                if places[p] > starts[p]:
                    below += times[p] * counts[places[p] - 1]
            if below >= rank:
                most = middle
                for p in range(parts):
                    highs[p] = places[p]
            else:
                least = middle + 1
                for p in range(parts):
                    lows[p] = places[p]
        found[j] = least


@kernel
def leading(
    offsets: Int64s,
    order: Int64s,
    counts: Int64s,
    wanted: int,
    enough: Int64s,
    out: Int64s,
    numbers: Int64s,
) -> None:
    """Write the places of the `wanted` largest counts of each part, largest first, and how many there are.

    Part j is offsets[j] to offsets[j + 1]. Of equal counts the lesser order comes first; counts below enough[j] are
    left out. The places of part j begin at out[j * wanted].
    """
    for j in range(len(offsets) - 1):
        base = j * wanted
        number = 0
        for i in range(offsets[j], offsets[j + 1]):
            count = counts[i]
            if count < enough[j]:
                continue
            at = number
            if number == wanted:
                last = out[base + number - 1]
                if count < counts[last] or (count == counts[last] and order[i] > order[last]):
                    continue
                at = number - 1
            else:
                number += 1
            while at > 0:
                ahead = out[base + at - 1]
                if counts[ahead] > count or (counts[ahead] == count and order[ahead] < order[i]):
                    break
                out[base + at] = ahead
                at -= 1
            out[base + at] = i
        numbers[j] = number
