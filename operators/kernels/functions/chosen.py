"""Choose of each slot the tuple of a page, or the held entry, that comes first by (first key, second key)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel


@kernel
def choose(
    slots: npt.NDArray[np.int32],
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    best: npt.NDArray[np.int32],
    touched: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
) -> tuple[int, bool]:
    """Find the tuple with the least keys in each slot; the earliest of equal ones. An empty `second` leaves it out.

    `best`, one entry a slot, is -1 everywhere before and after. Slots are written to `touched` and their tuples to
    `rows`; gives how many there are, and whether the first key alone left a tie.
    """
    found = 0
    tied = False
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            held = best[slot]
            if held < 0:
                best[slot] = i
                touched[found] = slot
                found += 1
            elif first[i] < first[held]:
                best[slot] = i
            elif first[i] == first[held]:
                tied = True
                if len(second) > 0 and second[i] < second[held]:
                    best[slot] = i
    for k in range(found):
        rows[k] = best[touched[k]]
        best[touched[k]] = -1
    return found, tied


@kernel
def choose_text(
    slots: npt.NDArray[np.int32],
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    descending: bool,
    second: npt.NDArray[np.int64],
    best: npt.NDArray[np.int32],
    touched: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
) -> tuple[int, bool]:
    """Do as `choose`, by byte strings: that of tuple i is data[offsets[i] : offsets[i + 1]]; a prefix is less."""
    found = 0
    tied = False
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            held = best[slot]
            if held < 0:
                best[slot] = i
                touched[found] = slot
                found += 1
                continue
            a, b = offsets[i], offsets[held]
            end_a, end_b = offsets[i + 1], offsets[held + 1]
            while a < end_a and b < end_b and data[a] == data[b]:
                a += 1
                b += 1
            if a == end_a and b == end_b:
                tied = True
                if len(second) > 0 and second[i] < second[held]:
                    best[slot] = i
            elif a == end_a or b == end_b:
                if (a == end_a) != descending:
                    best[slot] = i
            elif (data[a] < data[b]) != descending:
                best[slot] = i
    for k in range(found):
        rows[k] = best[touched[k]]
        best[touched[k]] = -1
    return found, tied


@kernel
def combine_choices(
    into: npt.NDArray[np.int64],
    source: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    second: npt.NDArray[np.int64],
    entry: npt.NDArray[np.int64],
) -> bool:
    """Replace entry[into[j]] by entry[source[j]] where its keys are less, in order; -1 is no entry.

    The keys are those of entries, shape (k,), and `entry` starts as each one's own number. Gives whether two entries
    had the same first key.
    """
    tied = False
    for j in range(len(into)):
        new = entry[source[j]]
        if new >= 0:
            old = entry[into[j]]
            if old < 0:
                entry[into[j]] = new
            elif first[new] != first[old]:
                if first[new] < first[old]:
                    entry[into[j]] = new
            elif new != old:
                tied = True
                if second[new] < second[old]:
                    entry[into[j]] = new
    return tied
