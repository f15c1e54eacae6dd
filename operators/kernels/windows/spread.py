"""A flow's amounts are cut at the edges of panes: what is up to an edge is rounded down, so that the parts add up.

The part of an amount v in the first x of a flow's L ticks is floor(v * x / L), exact for 64-bit numbers, and with its
sign where v is negative; what a pane gets is the difference of two of these, so all panes together get v, whatever the
rounding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel

Int64s = npt.NDArray[np.int64]
_ONE = np.uint64(1)
_SAFE = np.float64(1.8e19)
"""A little less than 2 ** 64, for products that are rounded."""


@kernel
def measure(
    starts: Int64s,
    ends: Int64s,
    valid: npt.NDArray[np.bool_],
    limit: int,
    step: int,
    origin: int,
    most: int,
    reach: int,
    begins: Int64s,
    lengths: Int64s,
    widths: Int64s,
    panes: Int64s,
) -> tuple[int, int, int, int]:
    """Write where each flow begins, how long it is, and into how many parts of which width it is cut; none without a
    usable time.

    A flow that ends before it begins has no length. Of one that touches more than `reach` panes, the last ones count.
    One that touches more than `most` is cut at the edges of wider panes, so many times as wide that it touches at most
    as many of these, wherever it lies. Returns how many flows (ended before they began, were cut so, reached back too
    far, had no usable time).
    """
    backwards = 0
    wide = 0
    far = 0
    unusable = 0
    checked = len(valid) > 0
    for i in range(len(starts)):
        start, end = starts[i], ends[i]
        outside = start >= limit or start <= -limit or end >= limit or end <= -limit
        if outside or (checked and not valid[i]):
            begins[i], lengths[i], widths[i], panes[i] = 0, 0, step, 0
            unusable += 1
            continue
        if end < start:
            backwards += 1
            end = start
        first = (start - origin) // step
        last = first
        if end > start:
            last = (end - 1 - origin) // step
        if last - first >= reach:
            far += 1
            first = last - reach + 1
            start = origin + first * step
        times = 1
        if last - first >= most:
            wide += 1
            if most == 1:
                last = first
            else:
                times = -((first - last) // (most - 1))
        begins[i], lengths[i], widths[i] = start, end - start, times * step
        panes[i] = last // times - first // times + 1
    return backwards, wide, far, unusable


@kernel
def cut(
    begins: Int64s, lengths: Int64s, widths: Int64s, panes: Int64s, origin: int, rows: Int64s, times: Int64s,
    upto: Int64s,
) -> None:  # fmt: skip
    """Write for each part its flow, when it begins, and how far it reaches into the flow."""
    at = 0
    for i in range(len(begins)):
        begin, width = begins[i], widths[i]
        edge = begin - (begin - origin) % width
        for part in range(panes[i]):
            rows[at] = i
            times[at] = max(edge, begin)
            edge += width
            upto[at] = lengths[i] if part == panes[i] - 1 else edge - begin
            at += 1


@kernel
def _part(rest, reached, length):
    """Return floor(rest * reached / length) of unsigned numbers, rest < length >= reached, by no product that wraps."""
    if np.float64(rest) * np.float64(reached) < _SAFE:
        return rest * reached // length
    # The product needs 128 bits: it is made from the top bit of `reached` on, and divided on the way.
    quotient = np.uint64(0)
    left = np.uint64(0)
    for bit in range(62, -1, -1):
        quotient = quotient << _ONE
        left = left << _ONE
        if (reached >> np.uint64(bit)) & _ONE:
            left += rest
        while left >= length:
            left -= length
            quotient += _ONE
    return quotient


@kernel
def whole_parts(values: Int64s, signed: bool, lengths: Int64s, rows: Int64s, upto: Int64s, parts: Int64s) -> None:
    """Write the part of values[rows[j]] that each part gets; the bits of unsigned numbers when not `signed`."""
    zero = np.uint64(0)
    amount, length, each, rest, before = zero, zero, zero, zero, zero
    negative = False
    last = -1
    for j in range(len(rows)):
        i = rows[j]
        if i != last:
            last = i
            before = zero
            amount = np.uint64(values[i])
            negative = signed and values[i] < 0
            if negative:
                amount = zero - amount
            length = max(np.uint64(lengths[i]), _ONE)
            each = amount // length
            rest = amount - each * length
        reached = amount
        if upto[j] < lengths[i]:
            reached = each * np.uint64(upto[j]) + _part(rest, np.uint64(upto[j]), length)
        share = reached - before
        before = reached
        parts[j] = np.int64(zero - share) if negative else np.int64(share)


@kernel
def floating_parts(
    values: npt.NDArray[np.float64], lengths: Int64s, rows: Int64s, upto: Int64s, parts: npt.NDArray[np.float64]
) -> None:
    """Write the part of values[rows[j]] that each part gets; the parts of one add up to it up to rounding."""
    before = 0.0
    for j in range(len(rows)):
        i = rows[j]
        if j == 0 or rows[j - 1] != i:
            before = 0.0
        reached = values[i]
        if upto[j] < lengths[i]:
            reached = values[i] * (upto[j] / lengths[i])
        parts[j] = reached - before
        before = reached
