"""Find the flows of which others, of observers before theirs, tell the most part of their life."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

from operators.kernels.compile.kernel import kernel


@kernel
def within(lows, highs, before, many, start, end):
    """Return how many ticks of [start, end] lie in `many` intervals, which are apart and in order.

    `before` are the ticks of the intervals in front of each.
    """
    low, high = 0, many
    while low < high:
        middle = (low + high) // 2
        if highs[middle] < start:
            low = middle + 1
        else:
            high = middle
    first = low
    low, high = first, many
    while low < high:
        middle = (low + high) // 2
        if lows[middle] <= end:
            low = middle + 1
        else:
            high = middle
    if low == first:
        return 0
    last = low - 1
    length = before[last] - before[first] + highs[last] - lows[last] + 1
    return length - max(0, start - lows[first]) - max(0, highs[last] - end)


@kernel
def united(lows, highs, before, many, starts, ends, first, last, reach, spare_lows, spare_highs):
    """Add the flows [first, last), in the order of their starts, to the intervals; return how many there are then."""
    made, left, right = 0, 0, first
    while left < many or right < last:
        if right == last or (left < many and lows[left] <= starts[right] - reach):
            low, high = lows[left], highs[left]
            left += 1
        else:
            low, high = starts[right] - reach, ends[right] + reach
            right += 1
        if made > 0 and low <= spare_highs[made - 1] + 1:
            spare_highs[made - 1] = max(spare_highs[made - 1], high)
        else:
            spare_lows[made], spare_highs[made] = low, high
            made += 1
    length = 0
    for place in range(made):
        lows[place], highs[place], before[place] = spare_lows[place], spare_highs[place], length
        length += highs[place] - lows[place] + 1
    return made


@kernel
def cover(keys, ranks, starts, ends, reach, judged, intervals, covered):
    """Mark in `covered` each flow that is `judged`, if flows of a smaller rank and the same key tell half of its life.

    Flows are in the order of key, rank and start; they last from `starts` to `ends`, both included, and the others each
    `reach` ticks longer on both sides. `intervals` is room for work, five rows as long as the most flows of a key.
    """
    lows, highs, before, spare_lows, spare_highs = intervals
    n, at = len(keys), 0
    while at < n:
        many, first = 0, at
        while first < n and keys[first] == keys[at]:
            last = first
            while last < n and keys[last] == keys[at] and ranks[last] == ranks[first]:
                if many > 0 and judged[last]:
                    length = ends[last] - starts[last] + 1
                    covered[last] = within(lows, highs, before, many, starts[last], ends[last]) >= (length + 1) // 2
                last += 1
            many = united(lows, highs, before, many, starts, ends, first, last, reach, spare_lows, spare_highs)
            first = last
        at = first
