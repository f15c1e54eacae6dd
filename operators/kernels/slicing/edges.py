"""A user's next-edge function is compiled together with the search that goes back from a tick to the edge before it."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numba

from operators.kernels.compile.compiler import interpreted
from operators.kernels.ticks import LIMIT


def around(next_edge: Callable[[int], int], tick: int) -> tuple[int, int]:
    """Return the last edge at or before a tick, -LIMIT when there is none, and the first one after it.

    `next_edge` never falls, so the last edge is the least tick from which the next edge lies beyond `tick`: steps that
    double, then bisection, O(log distance) calls.
    """
    after = next_edge(tick)
    known, step = tick, 1
    while tick - step > -LIMIT and next_edge(tick - step) > tick:
        known = tick - step
        step *= 2
    below = max(tick - step, -LIMIT)
    if below == -LIMIT and next_edge(below) > tick:
        return -LIMIT, after
    while known - below > 1:
        middle = (known + below) // 2
        if next_edge(middle) > tick:
            known = middle
        else:
            below = middle
    return known, after


def compiled_search(next_edge: Callable[[int], int], example: int) -> Callable[[int], tuple[int, int]] | None:
    """Compile `around` for a plain Python function from int to int; None when that cannot be done."""
    if interpreted():
        return None
    try:
        edge = numba.njit(next_edge)

        @numba.njit
        def search(tick: int) -> tuple[int, int]:
            after = edge(tick)
            known, step = tick, 1
            while tick - step > -LIMIT and edge(tick - step) > tick:
                known = tick - step
                step *= 2
            below = max(tick - step, -LIMIT)
            if below == -LIMIT and edge(below) > tick:
                return -LIMIT, after
            while known - below > 1:
                middle = (known + below) // 2
                if edge(middle) > tick:
                    known = middle
                else:
                    below = middle
            return known, after

        found = search(example)
        # Where some edges are fractions, all come as such.
        if found != around(next_edge, example) or not all(type(edge) is int for edge in found):
            return None
    except (importlib.import_module("numba.core.errors").NumbaError, TypeError):
        return None
    return search
