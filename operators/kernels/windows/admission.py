"""Decide tuple by tuple which keys are admitted: known ones always, others while what they take is below a limit."""

# Kernels, as in operators/kernels.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false

from __future__ import annotations

from operators.kernels.compile.kernel import kernel

KEY, CELL, LIMIT, HELD, COSTS = 0, 1, 2, 3, 4
"""Fields of `costs`: bytes of a key, bytes of a key in one slice, bytes at most, bytes held."""


@kernel
def admit(
    ids, fresh, horizons, first, last, opens, closed, known_horizon, known_from, new_horizon, new_from, new_cost,
    entered, costs, paid, until, taken,
):  # fmt: skip
    """Write which tuples are taken, and in which windows they do not count.

    Of the n tuples, `ids[i]` is the known key or -1, and `fresh[i]` the number of the key among those not known, or -1.
    Tuple i is in the windows first[i, w] <= wid < last[i, w] of each specification w, of which those below opens[w] are
    released; all are when the promise reaches horizons[i]. Windows below closed[w] admit no further key.

    A key counts in the windows from known_from[k, w], or new_from[j, w], on. `entered[j]` becomes the tuple that
    admitted key j, of new_cost[j] bytes more than others; it is -1 before. Written are `taken[i]`; `until[i, w]`, below
    which the windows of tuple i lack it; and `paid[i]`, the bytes that are let go of at its horizon.
    """
    specifications = first.shape[1]
    for i in range(len(ids)):
        paid[i] = 0
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
        k = ids[i]
        j = fresh[i]
        if k >= 0:
            if horizons[i] > known_horizon[k]:
                known_horizon[k] = horizons[i]
                costs[HELD] += costs[CELL]
                paid[i] = costs[CELL]
            for w in range(specifications):
                until[i, w] = max(until[i, w], min(last[i, w], known_from[k, w]))
            continue
        if entered[j] < 0:
            cost = costs[KEY] + costs[CELL] + new_cost[j]
            if not admits or costs[HELD] + cost > costs[LIMIT]:
                taken[i] = False
                for w in range(specifications):
                    if until[i, w] < last[i, w]:
                        until[i, w] = last[i, w]
                        closed[w] = max(closed[w], last[i, w])
                continue
            entered[j] = i
            new_horizon[j] = horizons[i]
            costs[HELD] += cost
            paid[i] = costs[CELL]
            for w in range(specifications):
                new_from[j, w] = closed[w]
        elif horizons[i] > new_horizon[j]:
            new_horizon[j] = horizons[i]
            costs[HELD] += costs[CELL]
            paid[i] = costs[CELL]
        for w in range(specifications):
            until[i, w] = max(until[i, w], min(last[i, w], new_from[j, w]))
