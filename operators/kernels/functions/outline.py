"""First, last, least and greatest by slot, and how often the extremes came. A slot of -1 skips the tuple.

A row of an outline is (least key, greatest as the least turned key, key of the first tuple, its value, turned key of
the last tuple, its value); a row of extremes is (least key, how often, greatest as the least turned key, how often).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@kernel
def add_outline(
    slots: Int32s, up: Int64s, down: Int64s, first: Int64s, last: Int64s, rows: Int64s, seen: npt.NDArray[np.bool_]
) -> None:
    """Add a tuple with value keys up[i] and down[i] and place keys first[i] and last[i] to rows[slots[i]].

    Of tuples at one place the one with the smaller value counts.
    """
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            value = up[i]
            if not seen[slot]:
                seen[slot] = True
                rows[slot, 0], rows[slot, 1] = value, down[i]
                rows[slot, 2], rows[slot, 3] = first[i], value
                rows[slot, 4], rows[slot, 5] = last[i], value
                continue
            rows[slot, 0] = min(rows[slot, 0], value)
            rows[slot, 1] = min(rows[slot, 1], down[i])
            if first[i] < rows[slot, 2] or (first[i] == rows[slot, 2] and value < rows[slot, 3]):
                rows[slot, 2], rows[slot, 3] = first[i], value
            if last[i] < rows[slot, 4] or (last[i] == rows[slot, 4] and value < rows[slot, 5]):
                rows[slot, 4], rows[slot, 5] = last[i], value


@kernel
def combine_outlines(into: Int32s, source: Int32s, rows: Int64s, seen: npt.NDArray[np.bool_]) -> None:
    """Add rows[source[j]] to rows[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        if not seen[of]:
            continue
        if not seen[to]:
            seen[to] = True
            for k in range(6):
                rows[to, k] = rows[of, k]
            continue
        rows[to, 0] = min(rows[to, 0], rows[of, 0])
        rows[to, 1] = min(rows[to, 1], rows[of, 1])
        for k in (2, 4):
            place, value = rows[of, k], rows[of, k + 1]
            if place < rows[to, k] or (place == rows[to, k] and value < rows[to, k + 1]):
                rows[to, k], rows[to, k + 1] = place, value


@kernel
def add_counted(slots: Int32s, up: Int64s, down: Int64s, rows: Int64s) -> None:
    """Count the value with keys up[i] and down[i] in rows[slots[i]] where it is an extreme."""
    for i in range(len(slots)):
        slot = slots[i]
        if slot >= 0:
            for k in (0, 2):
                key = up[i] if k == 0 else down[i]
                if rows[slot, k + 1] == 0 or key < rows[slot, k]:
                    rows[slot, k], rows[slot, k + 1] = key, 1
                elif key == rows[slot, k]:
                    rows[slot, k + 1] += 1


@kernel
def combine_counted(into: Int32s, source: Int32s, rows: Int64s) -> None:
    """Add rows[source[j]] to rows[into[j]], in order."""
    for j in range(len(into)):
        to, of = into[j], source[j]
        for k in (0, 2):
            key, number = rows[of, k], rows[of, k + 1]
            if number == 0:
                continue
            if rows[to, k + 1] == 0 or key < rows[to, k]:
                rows[to, k], rows[to, k + 1] = key, number
            elif key == rows[to, k]:
                rows[to, k + 1] += number
