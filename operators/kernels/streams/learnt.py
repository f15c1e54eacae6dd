"""Compiled slack of a whole stream that is learnt from how late its tuples were, and learnt anew as that changes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from operators.kernels.compile.kernel import kernel
from operators.kernels.streams.by_key import PER_MILLION, SEEN, SLACK, floored, learn
from operators.kernels.ticks import BEFORE_ALL, FAR

Int64s = npt.NDArray[np.int64]

STEP, ORIGIN, FIRST, WINDOW = 0, 1, 2, 3
"""Rules besides PER_MILLION: what bounds are multiples of and from where, after how many tuples the first promise may
be made, and after how many the counts of those so far are halved."""
RULES = PER_MILLION + 1
HIGHEST, PROMISED, TUPLES, CHANGES, STREAM_FIELDS = range(5)
"""Fields of the stream: the highest value, what was promised, the tuples so far, and how often the slack changed."""


@kernel
def follow(
    values: Int64s, rules: Int64s, stream: Int64s, counts: Int64s, learnt: Int64s, positions: Int64s, bounds: Int64s
) -> int:
    """Take values, shape (n,), BEFORE_ALL for none; write what is promised and where, and return how often.

    `counts`, shape (1, BUCKETS), and `learnt`, shape (1, LEARNT_FIELDS), say how late tuples were, as by key.
    """
    said = 0
    for i in range(len(values)):
        value, highest = values[i], stream[HIGHEST]
        if value == BEFORE_ALL:
            continue
        stream[TUPLES] += 1
        if highest == BEFORE_ALL or value >= highest:
            lateness, stream[HIGHEST] = 0, value
        elif value >= -FAR // 2 and highest <= FAR // 2:
            lateness = highest - value
        else:
            lateness = -1
        if lateness >= 0:
            before = learnt[0, SLACK]
            learn(0, lateness, rules[PER_MILLION], counts, learnt)
            stream[CHANGES] += before != learnt[0, SLACK]
            if learnt[0, SEEN] >= rules[WINDOW]:
                kept = 0
                for bucket in range(counts.shape[1]):
                    counts[0, bucket] //= 2
                    kept += counts[0, bucket]
                learnt[0, SEEN] = kept
        if stream[TUPLES] < rules[FIRST]:
            continue
        highest, slack = stream[HIGHEST], learnt[0, SLACK]
        if highest > BEFORE_ALL + slack:
            bound = floored(highest - slack, rules[STEP], rules[ORIGIN])
            if bound > stream[PROMISED]:
                stream[PROMISED] = bound
                positions[said], bounds[said] = i, bound
                said += 1
    return said
