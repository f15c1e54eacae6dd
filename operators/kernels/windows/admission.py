"""Decide tuple by tuple which keys are admitted: known ones always, others while what they take is below a limit."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

from operators.kernels.compile.kernel import kernel

KEY, CELL, LIMIT, HELD, COSTS = 0, 1, 2, 3, 4
"""Fields of `costs`: bytes of a key, bytes of a key in one slice, bytes at most, bytes held."""
ID, FRESH, HORIZON, PAID = 0, 1, 2, 3
"""Columns of `tuples`: the known key or -1, the number of a key that is not known or -1, the promise that completes
all windows of the tuple, and the bytes that are let go of then."""
NEW_HORIZON, NEW_COST, ENTERED, NEW = 0, 1, 2, 3
"""Columns of `fresh`: HORIZON of all tuples of a key, bytes more than others take, the tuple that admitted it or -1."""


@kernel
def admit(
    tuples, first, last, opens, closed, known_horizon, known_from, fresh, fresh_from, costs, until, taken,
):  # fmt: skip
    """Write which tuples are taken, and in which windows they do not count.

    Tuple i is in the windows first[i, w] <= wid < last[i, w] of each specification w, of which those below opens[w] are
    released; all are when the promise reaches its horizon. Windows below closed[w] admit no further key.

    A key counts in the windows from known_from[k, w], or fresh_from[j, w], on. `taken[i]` is written; `until[i, w]`,
    below which the windows of tuple i lack it; the PAID of each tuple, and the ENTERED of each key that is admitted.
    """
    specifications = first.shape[1]
    for i in range(len(tuples)):
        tuples[i, PAID] = 0
        taken[i] = True
        usable = False
        admits = False
        for w in range(specifications):
            begins = max(first[i, w], opens[w])
            until[i, w] = begins
            if begins < last[i, w]:
                usable = True
                if last[i, w] > closed[w]:
                    admits = True
        if not usable:
            continue
        k = tuples[i, ID]
        j = tuples[i, FRESH]
        if k >= 0:
            if tuples[i, HORIZON] > known_horizon[k]:
                known_horizon[k] = tuples[i, HORIZON]
                costs[HELD] += costs[CELL]
                tuples[i, PAID] = costs[CELL]
            for w in range(specifications):
                until[i, w] = max(until[i, w], min(last[i, w], known_from[k, w]))
            continue
        if fresh[j, ENTERED] < 0:
            cost = costs[KEY] + costs[CELL] + fresh[j, NEW_COST]
            if not admits or costs[HELD] + cost > costs[LIMIT]:
                taken[i] = False
                for w in range(specifications):
                    if until[i, w] < last[i, w]:
                        until[i, w] = last[i, w]
                        closed[w] = max(closed[w], last[i, w])
                continue
            fresh[j, ENTERED] = i
            fresh[j, NEW_HORIZON] = tuples[i, HORIZON]
            costs[HELD] += cost
            tuples[i, PAID] = costs[CELL]
            for w in range(specifications):
                fresh_from[j, w] = closed[w]
        elif tuples[i, HORIZON] > fresh[j, NEW_HORIZON]:
            fresh[j, NEW_HORIZON] = tuples[i, HORIZON]
            costs[HELD] += costs[CELL]
            tuples[i, PAID] = costs[CELL]
        for w in range(specifications):
            until[i, w] = max(until[i, w], min(last[i, w], fresh_from[j, w]))
