"""Compiled conditions: whether what a window has seen makes it fire, and which steps are then behind.

A condition is a table of `nodes`, a column for each; what one is made of stands before it, and the last is the whole.
"""

from __future__ import annotations

from operators.kernels.compile.kernel import kernel
from operators.kernels.windows.layout import (
    AFTER,
    AFTER_ALL,
    BOTH,
    EITHER,
    EVER_HEARD,
    FIRST,
    HEARD,
    KIND,
    OPERAND,
    SECOND,
    STEP,
)


@kernel
def holds(nodes, held, rows, all_rows, signals, all_signals, steps):
    """Return whether a condition holds; write for each node, into `held`, whether it does.

    `rows` and `signals` are those since the last firing.
    """
    n = nodes.shape[1]
    for j in range(n):
        kind, operand = nodes[KIND, j], nodes[OPERAND, j]
        first, second = nodes[FIRST, j], nodes[SECOND, j]
        if kind == AFTER:
            held[j] = rows >= operand
        elif kind == AFTER_ALL:
            held[j] = all_rows >= operand
        elif kind == HEARD:
            held[j] = signals & operand != 0
        elif kind == EVER_HEARD:
            held[j] = all_signals & operand != 0
        elif kind == EITHER:
            held[j] = held[first] or held[second]
        elif kind == BOTH:
            held[j] = held[first] and held[second]
        elif kind == STEP:
            held[j] = held[second] if steps & operand else held[first]
        else:
            held[j] = held[first] and not held[second]
    return held[n - 1]


@kernel
def stepped(nodes, held, active, steps):
    """Return the steps that are behind once a window has fired, where `held` is what `holds` has written.

    `active`, a place for each node, is used up.
    """
    active[:] = False
    n = nodes.shape[1]
    active[n - 1] = True
    found = steps
    for back in range(n):
        j = n - 1 - back
        kind = nodes[KIND, j]
        if not active[j] or kind <= EVER_HEARD:
            continue
        first, second = nodes[FIRST, j], nodes[SECOND, j]
        if kind in (EITHER, BOTH):
            active[first] = True
            active[second] = True
        elif kind != STEP:
            active[first] = True
        elif steps & nodes[OPERAND, j]:
            active[second] = True
        else:
            active[first] = True
            if held[first]:
                found |= nodes[OPERAND, j]
    return found
