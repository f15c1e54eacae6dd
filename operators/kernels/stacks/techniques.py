# pyright: reportMissingParameterType=false
"""Three techniques that find the aggregate of every window of panes, written once for every kind of partial aggregate.

Panes lie one after the other in the rows of `panes`; window i is the range heads[i] <= k < tails[i], never empty, and
neither end ever moves back. What a technique remembers between calls is where it stands (`marks`, places in `panes`)
and a few partial aggregates (`kept`). `steady` says that both ends move by one pane a window; then inner loops run over
whole stretches. A fourth technique, `subtract`, depends on the kind and stands with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from operators.kernels.compile.kernel import kernel
from operators.kernels.stacks.layout import *


class Techniques(NamedTuple):
    """The techniques of one kind."""

    recompute: Callable[..., None]
    two_stacks: Callable[..., None]
    daba: Callable[..., None]


class Columns(NamedTuple):
    """Read and write partial aggregates of so many columns, each a tuple with a value for each column.

    `rows(panes)` gives the columns, `part(rows, begin, end)` a stretch of them and `turned` the same from its end,
    `at(rows, i)` and `put(rows, i, partial)` one partial aggregate, `recall(kept, place)` and `keep` one that is kept.
    """

    rows: Callable[..., Any]
    part: Callable[..., Any]
    turned: Callable[..., Any]
    at: Callable[..., Any]
    put: Callable[..., None]
    recall: Callable[..., Any]
    keep: Callable[..., None]


@kernel
def _one_rows(panes):
    return (panes[0],)


@kernel
def _one_part(rows, begin, end):
    return (rows[0][begin:end],)


@kernel
def _one_turned(rows, begin, end):
    return (rows[0][begin:end][::-1],)


@kernel
def _one_at(rows, i):
    return (rows[0][i],)


@kernel
def _one_put(rows, i, partial):
    rows[0][i] = partial[0]


@kernel
def _one_recall(kept, place):
    return (kept[place],)


@kernel
def _one_keep(kept, place, partial):
    kept[place] = partial[0]


@kernel
def _two_rows(panes):
    return panes[0], panes[1]


@kernel
def _two_part(rows, begin, end):
    return rows[0][begin:end], rows[1][begin:end]


@kernel
def _two_turned(rows, begin, end):
    return rows[0][begin:end][::-1], rows[1][begin:end][::-1]


@kernel
def _two_at(rows, i):
    return rows[0][i], rows[1][i]


@kernel
def _two_put(rows, i, partial):
    rows[0][i] = partial[0]
    rows[1][i] = partial[1]


@kernel
def _two_recall(kept, place):
    return kept[place], kept[place + 1]


@kernel
def _two_keep(kept, place, partial):
    kept[place] = partial[0]
    kept[place + 1] = partial[1]


ONE = Columns(_one_rows, _one_part, _one_turned, _one_at, _one_put, _one_recall, _one_keep)
TWO = Columns(_two_rows, _two_part, _two_turned, _two_at, _two_put, _two_recall, _two_keep)


def techniques(columns: Columns, combine: Callable[..., Any], nothing: Callable[..., Any]) -> Techniques:
    """Make the techniques of one kind.

    - `columns`: how its partial aggregates are read and written.
    - `combine`: a kernel that combines two of them.
    - `nothing`: a kernel that gives the one of no tuple, from `kept`.
    """
    rows, part, turned, at, put, recall, keep = columns

    @kernel
    def recompute(panes, heads, tails, steady, marks, kept, out):
        """Combine every pane of every window: O(panes of a window) a window, nothing remembered."""
        held = rows(panes)
        found = rows(out)
        for i in range(len(heads)):
            within = part(held, heads[i], tails[i])
            running = nothing(kept)
            for k in range(len(within[0])):
                running = combine(running, at(within, k))
            put(found, i, running)

    @kernel
    def two_stacks(panes, heads, tails, steady, marks, kept, out):
        """Hold what is from each pane to the flip in the front stack, and what came later in one partial aggregate.

        A flip turns panes into the front stack where they lie. O(1) a pane on average, O(panes of a window) at a flip.
        Panes from the flip to the tail are in the running partial aggregate.
        """
        held = rows(panes)
        found = rows(out)
        flip = marks[FLIP]
        tail = marks[TAIL]
        running = recall(kept, RUNNING)
        i = 0
        while i < len(heads):
            head = heads[i]
            stop = tails[i]
            if head >= flip:
                back = turned(held, head, stop)
                running = nothing(kept)
                for k in range(len(back[0])):
                    running = combine(running, at(back, k))
                    put(back, k, running)
                flip = stop
                tail = stop
                running = nothing(kept)
            while tail < stop:
                running = combine(running, at(held, tail))
                tail += 1
            put(found, i, combine(at(held, head), running))
            i += 1
            if steady:
                more = min(len(heads) - i, flip - head - 1)
                front = part(held, head + 1, head + 1 + more)
                entering = part(held, tail, tail + more)
                into = part(found, i, i + more)
                for j in range(len(into[0])):
                    running = combine(running, at(entering, j))
                    put(into, j, combine(at(front, j), running))
                tail += more
                i += more
        marks[FLIP] = flip
        marks[TAIL] = tail
        keep(kept, RUNNING, running)

    @kernel
    def daba(panes, heads, tails, steady, marks, kept, out):
        """Flip a little at every step: the de-amortised banker's aggregator, in place; no pane costs more than O(1).

        Panes of [head, left) hold what is up to `back`, of [left, right) up to `right`, of [right, accumulated) their
        own, of [accumulated, back) up to `back`, of [back, tail) their own. `kept` has what is in [back, tail) and in
        [right, back).
        """
        held = rows(panes)
        found = rows(out)
        head, left, right = marks[HEAD], marks[LEFT], marks[RIGHT]
        accumulated, back, tail = marks[ACCUMULATED], marks[BACK], marks[END]
        running, middle = recall(kept, RUNNING), recall(kept, MIDDLE)
        for i in range(len(heads)):
            while tail < tails[i] or head < heads[i]:
                if head < heads[i] and head < tail:
                    head += 1
                else:
                    running = combine(running, at(held, tail))
                    tail += 1
                if head == back:
                    left = right = accumulated = back = tail
                    running = nothing(kept)
                    continue
                if left == back:
                    left = head
                    accumulated = back = tail
                    middle = running
                    running = nothing(kept)
                if left == right:
                    left += 1
                    right += 1
                    accumulated += 1
                else:
                    put(held, left, combine(at(held, left), middle))
                    left += 1
                    if accumulated < back:
                        put(held, accumulated - 1, combine(at(held, accumulated - 1), at(held, accumulated)))
                    accumulated -= 1
            put(found, i, combine(at(held, head), running))
        marks[HEAD], marks[LEFT], marks[RIGHT] = head, left, right
        marks[ACCUMULATED], marks[BACK], marks[END] = accumulated, back, tail
        keep(kept, RUNNING, running)
        keep(kept, MIDDLE, middle)

    return Techniques(recompute, two_stacks, daba)
